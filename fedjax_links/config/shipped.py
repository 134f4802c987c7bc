"""The configs that come with the package, by name: ``quickstart`` for ``configs/quickstart.py``."""

import difflib
import os
from pathlib import Path

from fedjax_links.core import errors

_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE / 'configs', _PACKAGE.parent / 'configs')
"""Where an installation has the configs, and where a checkout has them."""


def configs() -> dict[str, Path]:
    """The files of the shipped configs by name; empty where neither place has any."""
    folder = next(
        (place for place in _PLACES if (place / 'quickstart.py').is_file()), None
    )
    return (
        {}
        if folder is None
        else {path.stem: path for path in sorted(folder.glob('*.py'))}
    )


def locate(given: str) -> str:
    """The file that a command line means.

    Args:
      given: a file or the name of a shipped config, with words behind a colon or without.

    Returns:
      The file, with the same words. A file that is there wins over a name, and what cannot be a
      name, because it has a folder or a suffix or is a folder, stays as it is.

    Raises:
      ValueError: for a name that no shipped config has, with the nearest one.
    """
    given = os.path.expanduser(given)
    name, colon, words = given.partition(':')
    if Path(name).is_file() or not name or Path(name).name != name or Path(name).suffix:
        return given
    known = configs()
    if name in known:
        return f'{known[name]}{colon}{words}'
    if Path(name).is_dir():
        return given
    if difflib.get_close_matches(name, known, n=1, cutoff=0.5):
        raise errors.unknown_name('configs', name, known)
    requirement = 'name a file, or a config that `python -m fedjax_links` lists'
    raise errors.invalid('config', requirement, name)


def nearest(path: Path) -> str | None:
    """What was probably meant by a file that is not there.

    Args:
      path: the file.

    Returns:
      A file beside it, or else the name of a shipped config.
    """
    beside = {file.name: str(file) for file in path.parent.glob('*.py')}
    for wanted, known in (
        (path.name, beside),
        (path.stem, {name: name for name in configs()}),
    ):
        if near := difflib.get_close_matches(wanted, known, n=1, cutoff=0.4):
            return known[near[0]]
    return None
