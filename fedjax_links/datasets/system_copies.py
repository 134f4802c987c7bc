"""Finds data sets that the system's package manager installed, and says how to get a data set.

Debian's packages put data sets into ``/usr/share/datasets``, in the publisher's files.
"""

import pathlib
import shlex
import shutil
from collections.abc import Iterable, Mapping

from fedjax_links.datasets.npz import PathLike
from fedjax_links.datasets.published_formats import find_file

FOLDER = pathlib.Path('/usr/share/datasets')
"""Where Debian's packages put data sets."""

PACKAGES: Mapping[str, str] = {'fashion_mnist': 'dataset-fashion-mnist'}
"""Debian's packages, by the data set's name in ``data list``."""


def find(name: str, file_names: Iterable[str]) -> pathlib.Path | None:
    """Finds the system's copy of a data set.

    Args:
      name: as ``data list`` has it.
      file_names: names of all published files; each may also be there uncompressed.

    Returns:
      The folder of the files, or None if one of them is missing.
    """
    folder = FOLDER / name.replace('_', '-')
    if all(find_file(folder, file_name).is_file() for file_name in file_names):
        return folder
    return None


def install_command(name: str) -> str | None:
    """Returns the command that installs a data set's package; None where there is none."""
    if name in PACKAGES and shutil.which('apt'):
        return f'apt install {PACKAGES[name]}'
    return None


def how_to_get(
    name: str, file_names: Iterable[str], data_dir: PathLike | None = None
) -> str:
    """Says what to run to get a data set onto this machine.

    Args:
      name: as ``data list`` has it.
      file_names: names of all published files.
      data_dir: folder of the npz where it is not the default one.

    Returns:
      A clause, such as ``run `python -m fedjax_links data fetch mnist` ``.
    """
    option = '' if data_dir is None else f' --data_dir={shlex.quote(str(data_dir))}'
    fetch = f'`python -m fedjax_links data fetch {name}{option}`'
    folder = find(name, file_names)
    if folder is not None:
        return f'run {fetch}, which reads {folder}'
    install = install_command(name)
    if install is not None:
        return f'run `{install}`, then {fetch}'
    return f'run {fetch}'
