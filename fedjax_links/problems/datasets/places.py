"""Where data sets lie on the disk, and what is said if they are not there."""

import os
import pathlib
import shlex

from fedjax_links.core import errors

PathLike = str | os.PathLike[str]


def data_root(data_dir: PathLike | None) -> pathlib.Path:
    """``data_dir``, or ``TFDS_DATA_DIR`` from the environment, or ``~/tensorflow_datasets``."""
    chosen = data_dir or os.environ.get('TFDS_DATA_DIR') or '~/tensorflow_datasets'
    return pathlib.Path(chosen).expanduser()


def npz_file(name: str, data_dir: PathLike | None = None) -> pathlib.Path:
    """The file that ``data fetch`` and ``data convert`` write and the loaders read.

    Args:
      name: a data set of ``data list``, such as ``'mnist'`` or ``'emnist/letters'``.
      data_dir: folder of the file, see `data_root`.
    """
    return data_root(data_dir) / f'{name.replace("/", "-")}.npz'


def missing(name: str, data_dir: PathLike | None) -> ValueError:
    """Builds the error for a data set that is not there.

    Args:
      name: a data set of ``data list``.
      data_dir: where it was looked for, as the user gave it.

    Returns:
      The error, with the command that fetches the data.
    """
    place = '' if data_dir is None else f' --data_dir={shlex.quote(str(data_dir))}'
    return errors.invalid(
        'data_dir',
        f'hold the data set (run `python -m fedjax_links data fetch {name}{place}`)',
        f'no {npz_file(name, data_dir)}',
    )
