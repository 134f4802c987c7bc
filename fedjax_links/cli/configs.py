"""The config of a command: what a file of Python returns, at a size, with fields replaced by flags.

``--config.links.probs=0.5`` gives a field a value, whether the file has it or not: a number, a list
or a section as Python writes it, True, False, or a text without quotes. None takes a field away.
"""

import ast
import inspect
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from fedjax_links.config import overrides, shipped
from fedjax_links.config import quick as sizes
from fedjax_links.core import errors

flags.disclaim_key_flags()  # those below belong to the command that asks for them

_PREFIX = 'config.'
_MODULE = '<config>'


class ConfigFlags:
    """``--config``, overrides of its fields, and ``--quick``, of a command."""

    def __init__(self, *, of_figure: bool = False) -> None:
        """Defines the flags for the module that calls.

        Args:
          of_figure: whether the command takes the config of a figure, not of an experiment.
        """
        self._of_figure = of_figure
        self._overrides: dict[str, str] = {}
        self._given = flags.DEFINE_string(
            'config', None, 'A config or its file; --config.field=value gives a field a value.'
        )
        self._is_quick = flags.DEFINE_bool(
            'quick', False, "The config's short version: what its section `quick` replaces."
        )

    def take(self, argv: Sequence[str]) -> list[str]:
        """Takes overrides, ``--config.field=value`` or ``--config.field value``.

        Args:
          argv: the command line.

        Returns:
          The other arguments.
        """
        others, left = [], iter(argv)
        for argument in left:
            flag, equals, text = argument.partition('=')
            field = flag.lstrip('-')
            if not argument.startswith('-') or not field.startswith(_PREFIX):
                others.append(argument)
                continue
            if not equals:
                text = next(left, '--')
                if text.startswith('--'):
                    raise errors.invalid(field, f'be given a value, as --{field}=VALUE', 'none')
            self._overrides[field.removeprefix(_PREFIX)] = text
        return others

    @property
    def folder(self) -> Path:
        """Where the config file lies."""
        return Path(_file_and_words(self._given.value or '')[0]).parent

    def load(self) -> dict[str, Any]:
        """The config of this command line, as `load` gives it."""
        if not self._given.value:
            requirement = 'name a config or its file, such as --config=quickstart'
            raise errors.invalid('config', requirement, self._given.value or None)
        values = load(self._given.value, self._overrides, quick=self._is_quick.value)
        _check(values, self._given.value, of_figure=self._of_figure)
        return values


def load(given: str, overridden: Mapping[str, str], *, quick: bool = False) -> dict[str, Any]:
    """Runs a config file.

    Args:
      given: the file or the name of a shipped config, with a word behind a colon or without.
      overridden: texts of values, by dotted path.
      quick: whether the section ``quick`` replaces what it is for.

    Returns:
      The config at that size, with these values, of which its caption tells.

    Raises:
      ValueError: naming the file if it cannot be run, and for a path that leads into no section.
    """
    returned = _returned(*_file_and_words(given))
    file = sizes.quick(returned) if quick else sizes.full(returned)
    values = file
    for field, text in overridden.items():
        values = _replaced(values, field.split('.'), text)
    return overrides.told(values, overrides.between(file, values))


def _check(values: Mapping[str, Any], given: str, *, of_figure: bool) -> None:
    """Raises for the config of another command, and for fields that no experiment has."""
    from fedjax_links.experiment.config import FIELDS

    if 'figure' in values and not of_figure:
        draws = f'{given}, which `python -m fedjax_links figure` draws'
        raise errors.invalid('config', 'be of an experiment', draws)
    if of_figure and 'figure' not in values and 'algorithms' in values:
        runs = f'{given}, which `python -m fedjax_links simulate` runs'
        raise errors.invalid('config', 'be of a figure', runs)
    for name in values:
        if name not in FIELDS and not of_figure:
            raise errors.unknown_name('config', name, FIELDS)


def _file_and_words(given: str) -> tuple[str, list[str]]:
    path, *words = shipped.locate(given).split(':', 1)
    return path, words


def _replaced(
    section: Any, path: Sequence[str], text: str, where: str = 'config'
) -> dict[str, Any]:
    """A section with another value at a path."""
    name, *rest = path
    own = {'name': section} if isinstance(section, str) else {} if section is None else section
    if not isinstance(own, Mapping) or not name:
        raise errors.invalid(where, f'be a section, to have {name!r}', errors.shown(section))
    old = own.get(name)
    new = _replaced(old, rest, text, f'{where}.{name}') if rest else _read(text, old)
    if new is None and old is not None:
        return {field: value for field, value in own.items() if field != name}
    return {**own, name: new}


def _read(text: str, old: Any) -> Any:
    """The value that a text stands for, of the same kind of number or text as the old one."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if isinstance(old, str) and isinstance(value, int | float):
        return text
    return float(value) if type(old) is float and type(value) is int else value


def _returned(path: str, words: Sequence[str]) -> dict[str, Any]:
    """What the ``get_config`` of a file returns: a dictionary, or what has a ``to_dict``."""
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        near = shipped.nearest(Path(path)) if isinstance(error, FileNotFoundError) else None
        hint = f'; did you mean {near}?' if near else f': {error.strerror}'
        raise errors.invalid('config', 'name a readable config file', path + hint) from None
    if b'\0' in source:
        raise errors.invalid('config', 'name a file of Python', path)
    module = sys.modules[_MODULE] = types.ModuleType(_MODULE)
    module.__file__ = path
    exec(compile(source, path, 'exec'), vars(module))
    config = _getter(module, path, words)(*words)
    values = config.to_dict() if hasattr(config, 'to_dict') else config
    if not isinstance(values, dict):
        given = f'{type(config).__name__} from {path}'
        raise errors.invalid('config', 'name a file whose get_config returns a dictionary', given)
    return values


def _getter(module: types.ModuleType, path: str, words: Sequence[str]) -> Any:
    """The function ``get_config``, if it takes the words."""
    get_config = getattr(module, 'get_config', None)
    if not callable(get_config):
        raise errors.invalid('config', 'name a file with a function get_config', path)
    try:
        inspect.signature(get_config).bind(*words)
    except TypeError as error:
        requirement = 'have no word after a colon' if words else 'have a word after a colon'
        if len(inspect.signature(get_config).parameters) > 1:
            raise errors.invalid('config', 'have a get_config of one word', f'{error}') from None
        given = ':'.join([path, *words])
        raise errors.invalid('config', f'{requirement}, as its get_config says', given) from None
    return get_config
