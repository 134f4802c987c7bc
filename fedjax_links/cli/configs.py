"""The config of a command: what a file of Python returns, at a size, with fields replaced by flags.

``--config.links.probs=0.5`` gives a field a value, whether the file has it or not: a number, a list
or a section as Python writes it, True, False, or a text without quotes. None takes a field away.
"""

import ast
import inspect
import re
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links.config import shipped, trees
from fedjax_links.core import errors

_PREFIX = 'config.'
_MODULE = '<config>'


class Flags(NamedTuple):
    """Flags of every command that takes a config.

    Attributes:
      config: A config or its file; --config.field=value gives a field a value.
      quick: The config's short version: what its section `quick` replaces.
    """

    config: str | None = None
    quick: bool = False


def take(argv: Sequence[str], overridden: dict[str, str]) -> list[str]:
    """Takes overrides, ``--config.field=value`` or ``--config.field value``.

    Args:
      argv: the command line.
      overridden: where to put the texts of values, by dotted path.

    Returns:
      The other arguments.

    Raises:
      ValueError: for a field without a value.
    """
    others, left = [], iter(argv)
    for argument in left:
        flag, equals, text = argument.partition('=')
        field = flag.lstrip('-')
        if flag == field or not field.startswith(_PREFIX):
            others.append(argument)
            continue
        if not equals:
            text = next(left, '--')
            if text.startswith('--'):
                raise errors.invalid(field, f'be given a value, as --{field}=VALUE', 'none')
        overridden[field.removeprefix(_PREFIX)] = text
    return others


def folder(given: str) -> Path:
    """Where a config file lies."""
    return Path(_file_and_words(given)[0]).parent


def workdir(given: Flags) -> str:
    """Where a command with this config writes unless it is told: ``runs/xiang2024_table1-svhn``."""
    path, words = _file_and_words(given.config or '')
    named = [Path(path).stem, *re.findall(r'[\w.]+', ''.join(words))]
    return f'runs/{"-".join(named + ["quick"] * given.quick)}'


def of_flags(given: Flags, overridden: Mapping[str, str], kind: str) -> dict[str, Any]:
    """The config of a command line, as `load` gives it.

    Args:
      given: the flags.
      overridden: as in `load`.
      kind: of what it must be the config, ``'experiment'`` or ``'figure'``.

    Raises:
      ValueError: as `load`, for the config of another command, and for fields that no experiment
        has, or of another type.
    """
    if not given.config:
        requirement = 'name a config or its file, such as --config=quickstart'
        raise errors.invalid('config', requirement, given.config or None)
    values = load(given.config, overridden, quick=given.quick)
    found = 'figure' if 'figure' in values else 'experiment'
    if found != kind and (found == 'figure' or 'algorithms' in values):
        article, does = ('an', 'figure` draws') if found == 'figure' else ('a', 'simulate` runs')
        value = f'{given.config}, which `python -m fedjax_links {does}'
        raise errors.invalid('config', f'be of {article} {kind}', value)
    if kind == 'experiment':
        from fedjax_links.config import fields  # and with it NumPy

        fields.check(values, fields.FIELDS, ())
    return values


def load(given: str, overridden: Mapping[str, str], *, quick: bool = False) -> dict[str, Any]:
    """Runs a config file.

    Args:
      given: the file or the name of a shipped config, with a word behind a colon or without.
      overridden: texts of values, by dotted path.
      quick: whether the section ``quick`` replaces what it is for.

    Returns:
      The config at that size, with these values. Its caption says what is not as published.

    Raises:
      ValueError: naming the file if it cannot be run, and for a path that leads into no section.
    """
    returned = _returned(*_file_and_words(given))
    values = trees.quick(returned) if quick else trees.full(returned)
    for field, text in overridden.items():
        values = _replaced(values, field.split('.'), text)
    by = 'Quick version of the config' if quick else 'Changed from the config'
    return trees.captioned(trees.full(returned), values, by)


def _file_and_words(given: str) -> tuple[str, list[str]]:
    path, *words = shipped.locate(given).split(':', 1)
    return path, words


def _replaced(values: Mapping[str, Any], path: Sequence[str], text: str) -> dict[str, Any]:
    """A config with another value at a path; None takes away what is there."""
    old = trees.value_at(values, path)
    new = read(text, old)
    if new is None and old is not None:
        *path, name = path
        section = trees.value_at(values, path)
        new = {field: value for field, value in section.items() if field != name}
    replaced: dict[str, Any] = trees.with_value(values, path, new)
    return replaced


def read(text: str, old: Any = None) -> Any:
    """The value that a text stands for.

    Args:
      text: a number, a list or a section as Python writes it; all else stays a text.
      old: what it takes the place of; a text stays a text, and a float a float.
    """
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
    get_config = getattr(module, 'get_config', None)
    if not callable(get_config):
        raise errors.invalid('config', 'name a file with a function get_config', path)
    try:
        inspect.signature(get_config).bind(*words)
    except TypeError as error:
        if len(inspect.signature(get_config).parameters) > 1:
            raise errors.invalid('config', 'have a get_config of one word', f'{error}') from None
        requirement = f'have {"no" if words else "a"} word after a colon, as its get_config says'
        raise errors.invalid('config', requirement, ':'.join([path, *words])) from None
    config = get_config(*words)
    values = config.to_dict() if hasattr(config, 'to_dict') else config
    if not isinstance(values, dict):
        given = f'{type(config).__name__} from {path}'
        raise errors.invalid('config', 'name a file whose get_config returns a dictionary', given)
    return values
