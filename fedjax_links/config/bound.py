"""Imports factories named ``module:factory``, and binds the arguments that they are called with.

A config that the user gives may name any module. A run folder is data, and may be anybody's:
`check_recorded` refuses names in it that lead outside the package, unless the user allows them.
"""

import contextlib
import difflib
import functools
import importlib
import importlib.machinery
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard

from fedjax_links.config import recorded_links
from fedjax_links.core import errors, factory_options
from fedjax_links.core.grids import Point
from fedjax_links.core.records import Section

Factory = Callable[..., Any]

_PAPERS = re.compile(r'fedjax_links\.papers(\.\w+)+')
"""Modules of this package whose functions a run folder may name as ``module:factory``."""


class RefusedImportError(errors.InvalidError):
    """Refuses a name in a run folder that stands for code outside the package."""


class TracedPlaceholder(NamedTuple):
    """Stands for a number that a program gets as an argument when it runs.

    Attributes:
      column: the column of the grid that the number is a value of.
      value: the column's first value, which errors show.
    """

    column: str
    value: Any

    def __repr__(self) -> str:
        """Returns the text of the value."""
        return repr(self.value)


class BoundFactory(NamedTuple):
    """Holds what a section of a config stands for: a factory and all its arguments.

    Attributes:
      where: the section's path in the config, for errors.
      name: what the section names.
      factory: the factory with that name.
      options: keyword arguments: values, arrays, further bound factories, and placeholders.
      args: positional arguments, likewise; a section cannot set these.
      kind: the type that the factory has to return, or ``'function'``.
      is_function: whether `build` returns the factory with its options bound, instead of calling
        it. `build` still calls the factory once with ``args``, as a check.
    """

    where: str
    name: str
    factory: Factory
    options: Mapping[str, Any]
    args: tuple[Any, ...] = ()
    kind: type[object] | Literal['function'] = object
    is_function: bool = False

    def build(self, columns: Point | None = None) -> Any:
        """Calls the factories among the options, then the factory itself.

        Args:
          columns: the values of placeholders, which may be traced.

        Returns:
          What the factory returns.

        Raises:
          ValueError: naming the field, its value and the nearest valid name.
        """
        options = _filled(dict(self.options), columns)
        args = _filled(self.args, columns)
        factory_options.check(self.where, self.factory, options, *args)
        built = self._call(args, options)
        if self.kind == 'function':
            name = 'function'
            is_of_kind = callable(built)
        else:
            name = self.kind.__name__
            is_of_kind = isinstance(built, self.kind)
        if not is_of_kind:
            article = 'an' if name[0] in 'AEIOU' else 'a'
            requirement = f'name what returns {article} {name}'
            got = f'{_name_of(self.factory)}, {errors.text_of(built)}'
            raise errors.invalid(self.where, requirement, got)
        return functools.partial(self.factory, **options) if self.is_function else built

    def _call(self, args: tuple[object, ...], options: Section) -> Any:
        """Calls the factory.

        If the factory is from a library, such as optax, its errors are mistakes in the section.
        Errors of a factory of this package are bugs. Errors of the user's code keep their
        traceback.
        """
        try:
            with errors.context(self.where):
                return self.factory(*args, **options)
        except errors.InvalidError:
            raise
        except Exception as error:
            if _is_of_package(self.factory) or errors.innermost_user_frame(error):
                raise
            requirement = f'suit {_name_of(self.factory)}'
            raise errors.invalid(
                self.where, requirement, errors.describe(error)
            ) from error


def _function_of(factory: Factory) -> Factory:
    """Returns the function behind an entry of a registry or a partial."""
    return getattr(factory, 'factory', getattr(factory, 'func', factory))


def _name_of(factory: Factory) -> str:
    """Returns what a factory is called."""
    return str(getattr(_function_of(factory), '__name__', factory))


def _is_of_package(factory: Factory) -> bool:
    """Returns whether a factory is one of this package."""
    module = str(getattr(_function_of(factory), '__module__', None))
    return module.startswith(f'{__package__.partition(".")[0]}.')


def _filled(value: Any, columns: Point | None) -> Any:
    """Returns a value in which bound factories are called and placeholders replaced."""
    if isinstance(value, BoundFactory):
        return value.build(columns)
    if isinstance(value, TracedPlaceholder):
        return (columns or {})[value.column]
    if type(value) is dict:
        return {name: _filled(part, columns) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_filled(part, columns) for part in value)
    return value


FILES: dict[str, Path] = {}
"""The files of modules that configs of this process have named, by the module's name."""


@contextlib.contextmanager
def importable(folder: Path | str) -> Iterator[None]:
    """Lets ``module:factory`` name modules of a folder, and relative paths its files.

    Modules of Python and of installed packages come before files of the folder with equal names.
    Packages may import such a module later, when they first need it.

    Args:
      folder: usually that of the config file.
    """
    path = Path(folder).resolve()
    importlib.invalidate_caches()  # Files may be newer than the last import.
    modules_before = set(sys.modules)
    sys.path.append(str(path))
    token = recorded_links.CONFIG_FOLDER.set(path)
    try:
        yield
    finally:
        recorded_links.CONFIG_FOLDER.reset(token)
        sys.path.reverse()  # removes the last of equal entries
        sys.path.remove(str(path))
        sys.path.reverse()
        _forget_modules(path, modules_before)


def _forget_modules(folder: Path, modules_before: set[str]) -> None:
    """Removes the imported modules of a folder, as another folder may use the same names."""
    new = set(sys.modules) - modules_before
    tops = {name.partition('.')[0] for name in new} - modules_before
    folder_modules = {name for name in tops if _lies_in(folder, name)}
    for name in new:
        if name.partition('.')[0] in folder_modules:
            del sys.modules[name]


def _lies_in(folder: Path, name: str) -> bool:
    """Returns whether a top module is a folder's own, not one of an environment within it."""
    spec = importlib.machinery.PathFinder.find_spec(name, [str(folder)])
    file = getattr(sys.modules.get(name), '__file__', None)
    return spec is not None and spec.origin == file


def is_import(name: object) -> TypeGuard[str]:
    """Returns whether a name stands for ``module:factory``, as the resolver reads it."""
    return isinstance(name, str) and ':' in name


def foreign_names(where: str, value: object) -> Iterator[tuple[str, str]]:
    """Lists what a tree of plain values may import from outside the package.

    Every text counts, wherever it stands, and names of fields too. So no name that the resolver
    would import is missed. Functions of `fedjax_links.papers` are part of the package.

    Args:
      where: the tree's path in the config.
      value: the tree.

    Yields:
      Path and name.
    """
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from foreign_names(f'{where} (the name of a field)', name)
            yield from foreign_names(f'{where}.{name}', part)
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from foreign_names(f'{where}[{index}]', part)
    elif is_import(value) and not _is_of_papers(value):
        yield where, value


def _is_of_papers(name: str) -> bool:
    """Returns whether a name stands for a function of a module of `fedjax_links.papers`."""
    module_name, _, attribute = name.partition(':')
    if not _PAPERS.fullmatch(module_name):
        return False
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError:
        return False
    function = getattr(module, attribute, None)
    return (
        isinstance(function, types.FunctionType) and function.__module__ == module_name
    )


def check_recorded(
    where: str, value: object, *, allow_imports: bool = False, trusted: object = None
) -> None:
    """Refuses a value from a run folder if resolving it would import code from outside the package.

    Args:
      where: the path of ``value``, for errors.
      value: a section, or a config, as a folder keeps it.
      allow_imports: whether the user lets the folder name any code.
      trusted: a config from the user; names in it are allowed.

    Raises:
      RefusedImportError: naming the first such path and the name there.
    """
    if allow_imports:
        return
    trusted_names = {name for _, name in foreign_names('', trusted)}
    for path, name in foreign_names(where, value):
        if name not in trusted_names:
            requirement = (
                'name nothing outside fedjax_links, as a run folder is data (--allow_imports, in '
                'Python `allow_imports=True`, imports what it names)'
            )
            raise RefusedImportError(path, requirement, name)


def import_named(where: str, name: str) -> Factory:
    """Imports what ``module:factory`` names.

    Args:
      where: the name's path in the config, for errors.
      name: module and factory.

    Returns:
      The factory.

    Raises:
      ValueError: if the module does not import, or has no function of that name.
    """
    module_name, _, attribute = name.partition(':')
    module = _import_module(where, name, module_name)
    _refuse_namesake(where, name, module_name.partition('.')[0])
    file = getattr(module, '__file__', None)
    if file is not None:
        FILES[module_name] = Path(file)
    factory: Factory | None = getattr(module, attribute, None)
    if not callable(factory):
        names = [
            key
            for key, value in vars(module).items()
            if callable(value) and not key.startswith('_')
        ]
        raise errors.unknown_name(where, attribute, names)
    return factory


def _import_module(where: str, name: str, module_name: str) -> types.ModuleType:
    """Imports the module of ``module:factory``; a missing module is the user's mistake."""
    if not all(module_name.split('.')):  # a relative name, or none
        requirement = 'be module:factory, such as mine:my_algorithm'
        raise errors.invalid(where, requirement, name)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f'{module_name}.'.startswith(f'{error.name}.'):
            raise  # the missing module is one that the user's module imports
    folder = recorded_links.CONFIG_FOLDER.get()
    files = [] if folder is None else [path.stem for path in folder.glob('*.py')]
    near = difflib.get_close_matches(module_name, files, n=1)
    got = f'{name}; beside the config is {near[0]}.py' if near else name
    raise errors.invalid(where, 'name a module that can be imported', got)


def _refuse_namesake(where: str, name: str, top: str) -> None:
    """Raises if a module beside the config was shadowed by another module of the same name."""
    folder = recorded_links.CONFIG_FOLDER.get()
    if folder is None:
        return
    spec = importlib.machinery.PathFinder.find_spec(top, [str(folder)])
    if spec is None or spec.origin is None or _lies_in(folder, top):
        return
    other = getattr(sys.modules.get(top), '__file__', None) or 'Python itself'
    requirement = 'name a module whose name no other module has'
    got = f'{name}, which is {spec.origin} and {other}'
    raise errors.invalid(where, requirement, got)
