"""Imports of what a config names as ``module:factory``."""

import contextlib
import difflib
import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from fedjax_links.config import recordings
from fedjax_links.core import errors


@contextlib.contextmanager
def importable(folder: Path | str) -> Iterator[None]:
    """Lets ``module:factory`` name modules of a folder, and relative paths its files.

    Args:
      folder: usually that of the config file.
    """
    path = Path(folder).resolve()
    before = set(sys.modules)
    sys.path.insert(0, str(path))
    token = recordings.BESIDE.set(path)
    try:
        yield
    finally:
        recordings.BESIDE.reset(token)
        sys.path.remove(str(path))
        new = set(sys.modules) - before
        tops = {name.partition('.')[0] for name in new} - before
        own = {name for name in tops if _lies_in(path, name)}
        for name in new:  # another folder may use the same names
            if name.partition('.')[0] in own:
                del sys.modules[name]


def _lies_in(folder: Path, name: str) -> bool:
    """If a top module is the folder's own, not of a virtual environment within it."""
    found = importlib.machinery.PathFinder.find_spec(name, [str(folder)])
    return found is not None and found.origin == getattr(sys.modules.get(name), '__file__', None)


def import_named(where: str, name: str) -> Callable[..., Any]:
    """What ``module:factory`` names.

    Args:
      where: the name's place in the config, for errors.
      name: module and factory.

    Returns:
      The factory.

    Raises:
      ValueError: if the module does not import, or has no function of that name.
    """
    module_name, _, attribute = name.partition(':')
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f'{module_name}.'.startswith(f'{error.name}.'):
            raise  # one that the user's module imports
        beside = recordings.BESIDE.get()
        files = [] if beside is None else [path.stem for path in beside.glob('*.py')]
        near = difflib.get_close_matches(module_name, files, n=1)
        got = f'{name}; beside the config is {near[0]}.py' if near else name
        raise errors.invalid(where, 'name a module that can be imported', got) from None
    found: Any = getattr(module, attribute, None)
    if not callable(found):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != '_']
        raise errors.unknown_name(where, attribute, names)
    return cast(Callable[..., Any], found)
