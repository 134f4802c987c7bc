"""Factories: imported as ``module:factory``, and with all that they are called with."""

import contextlib
import difflib
import functools
import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links.config import recordings
from fedjax_links.core import checks, errors

Factory = Callable[..., Any]


class Hole(NamedTuple):
    """A number that comes when a program runs.

    Attributes:
      column: whose value it is.
      value: the first one, which errors show.
    """

    column: str
    value: Any

    def __repr__(self) -> str:
        """As the value."""
        return repr(self.value)


class Bound(NamedTuple):
    """A factory with all that it is called with: what a section stands for.

    Attributes:
      where: the section's place in the config, for errors.
      name: what the section names.
      factory: what that is.
      options: values, arrays, further bound parts, and holes.
      args: likewise, positional, which are no options.
      kind: of what the factory has to return.
      is_function: whether it is handed on as a function, of which ``args`` are an example.
    """

    where: str
    name: str
    factory: Factory
    options: Mapping[str, Any]
    args: tuple[Any, ...] = ()
    kind: type[Any] = object
    is_function: bool = False

    def build(self, columns: Mapping[str, Any] | None = None) -> Any:
        """Calls the factory, after those of its parts.

        Args:
          columns: the values of holes, which may be traced.

        Returns:
          What the factory returns.

        Raises:
          ValueError: naming the field, its value and the nearest valid name.
        """
        options, args = _filled(dict(self.options), columns), _filled(self.args, columns)
        checks.options(self.where, self.factory, options, *args)
        own = getattr(self.factory, 'factory', getattr(self.factory, 'func', self.factory))
        name = str(getattr(own, '__name__', self.factory))
        try:
            with errors.inside(self.where):
                built = self.factory(*args, **options)
        except errors.InvalidError:
            raise
        except Exception as error:  # of another's factory, which can check nothing: their mistake
            ours = f'{__package__.partition(".")[0]}.'
            if str(getattr(own, '__module__', None)).startswith(ours) or errors.users_place(error):
                raise
            raise errors.invalid(self.where, f'suit {name}', errors.describe(error)) from error
        if not isinstance(built, self.kind):
            requirement = f'name what returns a {self.kind.__name__}'
            raise errors.invalid(self.where, requirement, f'{name}, {errors.text_of(built)}')
        return functools.partial(self.factory, **options) if self.is_function else built


def _filled(value: Any, columns: Mapping[str, Any] | None) -> Any:
    """A value with its parts built and its holes filled."""
    if isinstance(value, Bound):
        return value.build(columns)
    if isinstance(value, Hole):
        return (columns or {})[value.column]
    if type(value) is dict:
        return {name: _filled(part, columns) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_filled(part, columns) for part in value)
    return value


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


def import_named(where: str, name: str) -> Factory:
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
    factory: Factory | None = getattr(module, attribute, None)
    if not callable(factory):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != '_']
        raise errors.unknown_name(where, attribute, names)
    return factory
