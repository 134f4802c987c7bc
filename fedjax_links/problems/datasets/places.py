"""Where data sets lie on the disk."""

import os
import pathlib

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
