"""Read the config of a command: what a file returns, with fields replaced by flags.

``--config.links.probs=0.5`` gives a field a value, whether the file has it or not: a number, a list
or a section as Python writes it, True, False, or a text without quotes. None takes a field away.
Fields that refer to it follow, as flags of `ml_collections` have it.
"""

import ast
import difflib
import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from fedjax_links.config import captions, nested, shipped
from fedjax_links.core import errors
from fedjax_links.core.records import Section

_PREFIX = 'config.'
_OVERRIDE = re.compile(
    r'--?(?P<no>no)?config\.(?P<field>[^=]*)(=(?P<text>.*))?', re.DOTALL
)
_FLAG = re.compile(r'--?[A-Za-z]|--$')
_PART = re.compile(
    r"""\[(?P<index>\d+)\]
    | \[(?P<quote>["'])(?P<key>.+?)(?P=quote)\]
    | (^|\.)(?P<name>[^.\[\]]*)""",
    re.VERBOSE,
)
_SWITCHES = {'true': True, 'false': False}
_MODULE = '<config>'
_DIGEST = 'sha256'  # of a kept file, which is no field

flags.disclaim_key_flags()


def define_flags() -> None:
    """Defines the flags of every command that takes a config."""
    text = (
        'A config or its file, also that of a run (FOLDER/config.json); --config.field=value '
        'gives a field a value.'
    )
    flags.DEFINE_string('config', None, text)
    text = "The config's short version: what its section `quick` replaces."
    flags.DEFINE_bool('quick', False, text)


def take(argv: Sequence[str], overridden: dict[str, str | None]) -> list[str]:
    """Takes overrides, as absl's flags are written.

    These are ``--config.field=value``, ``--config.field value``, and ``--config.field`` or
    ``--noconfig.field`` for True or False. Files of flags (``--flagfile=NAME``) are read.

    Args:
      argv: the command line.
      overridden: where to put the texts of values, by dotted path; None for a field alone, which
        is then True.

    Returns:
      The other arguments.
    """
    program, *arguments = argv
    others = [program]
    left = flags.FLAGS.read_flags_from_files(arguments)
    while left:
        argument = left.pop(0)
        if argument == '--':
            return [*others, argument, *left]
        match = _OVERRIDE.fullmatch(argument)
        if match is None:
            others.append(argument)
            continue
        text = match['text']
        if match['no']:
            text = 'false'
        elif text is None and left and not _FLAG.match(left[0]):
            text = left.pop(0)
        overridden.pop(match['field'], None)  # the last one counts, in its place
        overridden[match['field']] = text
    return others


def nearest_flag(
    error: flags.UnrecognizedFlagError, known: Sequence[str]
) -> flags.UnrecognizedFlagError:
    """Names the nearest flag or field of a config in the error of a flag that does not exist.

    Args:
      error: of absl.
      known: names of the command's flags.
    """
    from fedjax_links.config import schema

    value = read(error.flagvalue.partition('=')[2])
    fitting = [
        name for name, field in schema.EXPERIMENT.items() if field.accepts(value)
    ]
    paths = {name: name for name in known}
    paths |= {name: f'{_PREFIX}{path}' for name, path in schema.paths(fitting).items()}
    near = difflib.get_close_matches(error.flagname, paths, n=1, cutoff=0.5)
    suggestions = [paths[name] for name in near]
    return flags.UnrecognizedFlagError(
        error.flagname, error.flagvalue, suggestions=suggestions
    )


def folder(config_flag: str) -> Path:
    """Returns the folder of a config file."""
    return Path(_file_and_words(config_flag)[0]).parent


def workdir(config_flag: str, *, quick: bool = False) -> str:
    """Returns the folder where a command writes by default: ``runs/xiang2024_table1-svhn``."""
    path, words = _file_and_words(config_flag)
    named = [Path(path).stem, *re.findall(r'[\w.]+', ''.join(words))]
    if quick:
        named.append('quick')
    return f'runs/{"-".join(named)}'


def of_flags(
    config_flag: str | None,
    overridden: Mapping[str, str | None],
    kind: str,
    *,
    quick: bool = False,
) -> Section:
    """Returns the config of a command line, as `load` does.

    Args:
      config_flag: the flag --config.
      overridden: as in `load`.
      kind: what it must be the config of, ``'experiment'`` or ``'figure'``.
      quick: as in `load`.

    Raises:
      ValueError: as `load`, for the config of another command, and for fields that no experiment
        has, or of another type.
    """
    if not config_flag:
        requirement = 'name a config or its file, such as --config=quickstart'
        raise errors.invalid('config', requirement, config_flag or None)
    values = load(config_flag, overridden, quick=quick)
    _check_command(config_flag, values, kind)
    if kind == 'experiment':
        from fedjax_links.config import schema

        schema.check(values, schema.EXPERIMENT)
    return values


def _check_command(config_flag: str, values: Section, kind: str) -> None:
    """Raises for the config of another command."""
    if kind == 'experiment' and 'figure' in values:
        value = f'{config_flag}, which `python -m fedjax_links figure` draws'
        raise errors.invalid('config', 'be of an experiment', value)
    if kind == 'figure' and 'figure' not in values and 'algorithms' in values:
        value = f'{config_flag}, which `python -m fedjax_links simulate` runs'
        raise errors.invalid('config', 'be of a figure', value)


def load(
    config_flag: str, overridden: Mapping[str, str | None], *, quick: bool = False
) -> Section:
    """Runs a config file.

    Args:
      config_flag: the file or the name of a shipped config, with a word behind a colon or without.
      overridden: texts of values, by dotted path; None for True.
      quick: whether the section ``quick`` replaces what it is for.

    Returns:
      The config at that size, with these values. Its caption says what is not as published.

    Raises:
      ValueError: naming the file if it cannot be run, and for a path that leads into no section, a
        field without a value and a placeholder that still needs one.
    """
    tree = nested.plain(_returned(*_file_and_words(config_flag)))
    published = nested.resolved(nested.full(tree), is_complete=False)
    tree = nested.quick(tree) if quick else nested.full(tree)
    for field, text in overridden.items():
        _override(tree, field, text)
    by = 'Quick version of the config' if quick else 'Changed from the config'
    return captions.with_changes(published, nested.resolved(tree), by)


def _file_and_words(config_flag: str) -> tuple[str, list[str]]:
    """Splits the flag --config at its colon, and finds the file."""
    path, *words = shipped.locate(config_flag).split(':', 1)
    return path, words


def _override(tree: dict[str, Any], field: str, text: str | None) -> None:
    """Puts the value that a flag gives into a config; None takes away what is there."""
    path = _path(field)
    old = nested.value_at(tree, path)
    kind = _kind(old)
    if text is None and kind not in (bool, types.NoneType):
        where = f'{_PREFIX}{field}'
        raise errors.invalid(where, f'be given a value, as --{where}=VALUE', 'none')
    value = True if text is None else read(text, kind)
    if value is None and old is not None and isinstance(path[-1], str):
        value = nested.REMOVED
    nested.put(tree, path, value)


def _path(field: str) -> list[str | int]:
    """Returns the names and indices of ``a.b[0]``, and of ``a["with.dots"].b``."""
    parts = list(_PART.finditer(field))
    if ''.join(part[0] for part in parts) != field:
        requirement = 'be reached by names and indices, such as a.b[0]'
        raise errors.invalid('config', requirement, field)
    return [
        int(part['index']) if part['index'] else part['key'] or part['name']
        for part in parts
    ]


def _kind(value: Any) -> type[object]:
    """Returns the type of a field's values; NoneType where any will do."""
    kind = value.get_type() if nested.is_reference(value) else type(value)
    return kind if isinstance(kind, type) else types.NoneType


def read(text: str, kind: type[object] = types.NoneType) -> Any:
    """Returns the value that a text stands for.

    Args:
      text: a number, a list or a section as Python writes it, true or false; all else stays a text.
      kind: of what it takes the place of; a text stays a text, and a float a float.
    """
    if text in _SWITCHES and kind is not str:
        return _SWITCHES[text]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if kind is str and isinstance(value, int | float):
        return text
    if kind is bool and value in (0, 1):
        return bool(value)
    return float(value) if kind is float and type(value) is int else value


def _returned(path: str, words: Sequence[str]) -> Any:
    """Returns what the ``get_config`` of a file returns: a dictionary or a ConfigDict."""
    source = _source_of(path)
    if Path(path).suffix == '.json':
        return _of_json(path, source, words)
    get_config = _get_config_of(path, source)
    _check_words(path, get_config, words)
    config = get_config(*words)
    from ml_collections import ConfigDict

    if isinstance(config, ConfigDict):
        return config
    values = config.to_dict() if hasattr(config, 'to_dict') else config
    if not isinstance(values, dict):
        requirement = 'name a file whose get_config returns a dictionary'
        value = f'{type(config).__name__} from {path}'
        raise errors.invalid('config', requirement, value)
    return values


def _source_of(path: str) -> bytes:
    """Reads a config file."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        hint = f': {error.strerror}'
        if isinstance(error, FileNotFoundError):
            near = shipped.nearest(Path(path))
            hint = f'; did you mean {near}?' if near else hint
        requirement = 'name a readable config file'
        raise errors.invalid('config', requirement, path + hint) from None


def _get_config_of(path: str, source: bytes) -> Callable[..., object]:
    """Runs a config file, and returns its function ``get_config``."""
    if b'\0' in source:
        raise errors.invalid('config', 'name a file of Python', path)
    module = sys.modules[_MODULE] = types.ModuleType(_MODULE)
    module.__file__ = path
    exec(compile(source, path, 'exec'), vars(module))
    get_config = getattr(module, 'get_config', None)
    if not callable(get_config):
        raise errors.invalid('config', 'name a file with a function get_config', path)
    return get_config


def _check_words(
    path: str, get_config: Callable[..., object], words: Sequence[str]
) -> None:
    """Raises unless ``get_config`` takes the word behind the colon, or none."""
    signature = inspect.signature(get_config)
    try:
        signature.bind(*words)
    except TypeError as error:
        if len(signature.parameters) > 1:
            requirement = 'have a get_config of one word'
            raise errors.invalid('config', requirement, f'{error}') from None
        number = 'no' if words else 'a'
        requirement = f'have {number} word after a colon, as its get_config says'
        raise errors.invalid('config', requirement, ':'.join([path, *words])) from None


def _of_json(path: str, source: bytes, words: Sequence[str]) -> Section:
    """Reads the config that a run or an archive keeps, ``FOLDER/config.json``."""
    if words:
        requirement = 'have no word after a colon, as a file of JSON'
        raise errors.invalid('config', requirement, ':'.join([path, *words]))
    try:
        values = json.loads(source)
    except ValueError as error:
        raise errors.invalid(
            'config', 'name a readable file of JSON', f'{path}: {error}'
        ) from None
    if not isinstance(values, dict):
        raise errors.invalid('config', 'name a file with a section', path)
    return {name: value for name, value in values.items() if name != _DIGEST}
