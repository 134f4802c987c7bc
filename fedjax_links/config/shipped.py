"""Finds the configs that come with the package: ``quickstart`` is ``configs/quickstart.py``."""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedjax_links.core import errors

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / 'configs', _PACKAGE.parent / 'configs')
"""The folders of the configs in an installation and in a checkout."""


def configs() -> dict[str, Path]:
    """Returns the files of the shipped configs by name; empty if no folder has them."""
    for folder in _FOLDERS:
        if (folder / 'quickstart.py').is_file():
            return {path.stem: path for path in sorted(folder.glob('*.py'))}
    return {}


def locate(config: str, command: str | None = None) -> str:
    """Returns the file that a command line means.

    Args:
      config: a file or the name of a shipped config; words may follow after a colon.
      command: what the config is for, so that an error suggests only names that this command takes;
        any by default.

    Returns:
      The file, with the same words. An existing file wins over a name. A text that cannot be a
      name, since it has a folder or a suffix or is a folder, is returned unchanged.

    Raises:
      ValueError: for a name that no shipped config has. The error suggests the file of that name
        with the suffix ``.py``, or the nearest name.
    """
    config = os.path.expanduser(config)
    name, colon, words = config.partition(':')
    path = Path(name)
    if path.is_file() or not name or path.name != name or path.suffix:
        return config
    known = configs()
    if name in known:
        return f'{known[name]}{colon}{words}'
    if path.is_dir():
        return config
    file = path.with_suffix('.py')
    if file.is_file():
        requirement = f'name a file, as {file}{colon}{words} does'
        raise errors.invalid('config', requirement, name)
    near = _nearest_name(name, _of_command(known, command))
    if near is not None:
        raise errors.unknown_name('configs', name, known, near=near)
    requirement = 'name a file, or a config that `python -m fedjax_links` lists'
    raise errors.invalid('config', requirement, name)


def _of_command(known: Mapping[str, Path], command: str | None) -> list[str]:
    """Returns the configs whose file names a command; all configs if none does."""
    named = f'python -m fedjax_links {command} '
    names = [name for name, path in known.items() if named in path.read_text('utf-8')]
    return names or list(known)


def _nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Returns the name that is spelt most alike, the first of equals; None if no name is close."""
    by_ratio = {
        candidate: difflib.SequenceMatcher(a=candidate, b=name).ratio()
        for candidate in sorted(names)
    }
    best = max(by_ratio, key=by_ratio.__getitem__, default=None)
    return best if best is not None and by_ratio[best] >= 0.5 else None


def nearest(path: Path) -> str | None:
    """Returns what the user probably meant by a file that does not exist.

    Args:
      path: the file.

    Returns:
      A file beside it, or else the name of a shipped config.
    """
    files = {file.name: str(file) for file in path.parent.glob('*.py')}
    near = difflib.get_close_matches(path.name, files, n=1, cutoff=0.4)
    if near:
        return files[near[0]]
    near = difflib.get_close_matches(path.stem, configs(), n=1, cutoff=0.4)
    return near[0] if near else None
