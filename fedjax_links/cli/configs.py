"""Reads the config of a command: a file returns the config, and flags replace its fields.

``--config.links.probs=0.5`` gives a field a value, whether the file has the field or not. The value
is a number, a list or a section as Python writes it, True, False, or a text without quotes. None
removes a field. Fields that refer to a changed field follow, as with the flags of
``ml_collections``.
"""

import ast
import difflib
import inspect
import os
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
    r"""\[(?P<index>\d{1,9})\]
    | \[(?P<quote>["'])(?P<key>.+?)(?P=quote)\]
    | (^|\.)(?P<name>[^.\[\]]*)""",
    re.VERBOSE,
)
_NO_VALUE = (
    ValueError,
    SyntaxError,
    TypeError,
    MemoryError,
    RecursionError,
    OverflowError,
)
"""What Python raises for a text that is no value in Python."""
_SWITCHES = {'true': True, 'false': False}
_STAYS_TEXT: Mapping[type[object], Any] = {str: (int, float), int: tuple, float: tuple}
"""By type of a replaced value, the types that stay texts instead: 1,000 is a tuple in Python."""
_MODULE = '<config>'
_DIGEST = 'sha256'
"""Key in a recorded config that is no field, but the digest of the file."""

flags.disclaim_key_flags()


def define_flags() -> None:
    """Defines the flags of every command that takes a config."""
    flags.DEFINE_string(
        'config',
        None,
        'A config or its file, also that of a run (FOLDER/config.json); --config.field=value '
        'gives a field a value.',
    )
    flags.DEFINE_bool(
        'quick',
        False,
        "The config's short version: what its section `quick` replaces.",
    )


def take_overrides(argv: Sequence[str], overrides: dict[str, str | bool]) -> list[str]:
    """Removes the overrides of config fields from a command line.

    Overrides are written like absl's flags: ``--config.field=value``, ``--config.field value``, and
    ``--config.field`` or ``--noconfig.field`` for True or False. Files of flags
    (``--flagfile=NAME``) are read.

    Args:
      argv: the command line.
      overrides: receives the texts of values, by dotted path; True or False for a field alone.

    Returns:
      The other arguments.
    """
    program, *arguments = argv
    others = [program]
    remaining = flags.FLAGS.read_flags_from_files(arguments)
    while remaining:
        argument = remaining.pop(0)
        if argument == '--':
            return [*others, argument, *remaining]
        match = _OVERRIDE.fullmatch(argument)
        if match is None:
            others.append(argument)
            continue
        text = match['text']
        value: str | bool = True
        if match['no']:
            if text is not None:
                flag = f'no{_PREFIX}{match["field"]}'
                raise errors.invalid(flag, 'be given without a value', text)
            value = False
        elif text is not None:
            value = text
        elif remaining and not _FLAG.match(remaining[0]):
            value = remaining.pop(0)
        # The last override of a field counts, at its position on the command line.
        overrides.pop(match['field'], None)
        overrides[match['field']] = value
    return others


def nearest_flag(
    error: flags.UnrecognizedFlagError,
    known: Sequence[str],
    *,
    own_flags: Sequence[str],
    has_config: bool,
) -> flags.Error:
    """Names the nearest flag or field of a config in the error of a flag that does not exist.

    Args:
      error: absl's error.
      known: names of all flags that can be given, including absl's.
      own_flags: names of the command's own flags, which are listed if no name is near.
      has_config: whether the command takes a config.
    """
    flag_of = {name: name for name in known}
    if has_config:
        from fedjax_links.config import schema

        value = parse_value(error.flagvalue.partition('=')[2])
        fields = [
            name for name, field in schema.EXPERIMENT.items() if field.accepts(value)
        ]
        for name, path in schema.paths(fields).items():
            flag_of[name] = f'{_PREFIX}{path}'
    near = difflib.get_close_matches(error.flagname, flag_of, n=1, cutoff=0.5)
    if not near:
        listed = ', '.join(f'--{name}' for name in sorted(own_flags))
        return flags.Error(f'{error}; flags of this command: {listed}')
    suggestions = [flag_of[name] for name in near]
    return flags.UnrecognizedFlagError(
        error.flagname, error.flagvalue, suggestions=suggestions
    )


def meant_by(argument: str, known: Sequence[str]) -> str:
    """Says how to write what the user probably meant by an argument that is no flag.

    Args:
      argument: the first such argument.
      known: names of the command's flags.
    """
    name = argument.partition(':')[0]
    # A name that is too long for a file is no file either.
    is_config = name in shipped.configs() or os.path.isfile(name)
    if 'config' in known and is_config:
        return f'did you mean --config={argument}?'
    if 'config' in known and '=' in argument:
        return 'overrides look like --config.num_rounds=100.'
    if 'workdir' in known:
        return f'did you mean --workdir={argument}?'
    return 'flags begin with --.'


def folder(config_flag: str) -> Path:
    """Returns the folder of a config file."""
    return Path(_file_and_words(config_flag)[0]).parent


def workdir(config_flag: str, *, quick: bool = False) -> str:
    """Returns the folder where a command writes by default: ``runs/xiang2024_table1-svhn``."""
    path, words = _file_and_words(config_flag)
    parts = [Path(path).stem, *re.findall(r'[\w.]+', ''.join(words))]
    if quick:
        parts.append('quick')
    return f'runs/{"-".join(parts)}'


def from_flags(
    config_flag: str | None,
    overrides: Mapping[str, str | bool],
    kind: str,
    *,
    quick: bool = False,
) -> Section:
    """Loads and checks the config of a command line, see `load`.

    Args:
      config_flag: the flag --config.
      overrides: as in `load`.
      kind: what the config must describe, ``'experiment'`` or ``'figure'``.
      quick: as in `load`.

    Raises:
      ValueError: as `load`, and for the config of another command, for fields that no experiment
        has, or fields of another type.
    """
    if not config_flag:
        requirement = 'name a config or its file, such as --config=quickstart'
        raise errors.invalid('config', requirement, config_flag or None)
    # Raises for an unknown name, with the nearest config of this command.
    shipped.locate(config_flag, 'figure' if kind == 'figure' else 'simulate')
    values = load(config_flag, overrides, quick=quick)
    if kind == 'figure' and 'figure' not in values and 'algorithms' in values:
        value = f'{config_flag}, which `python -m fedjax_links simulate` runs'
        raise errors.invalid('config', 'be of a figure', value)
    if kind == 'experiment' and 'figure' in values:
        value = f'{config_flag}, which `python -m fedjax_links figure` draws'
        raise errors.invalid('config', 'be of an experiment', value)
    if kind == 'experiment':
        from fedjax_links.config import schema

        schema.check(values, schema.EXPERIMENT)
    return values


def load(
    config_flag: str, overrides: Mapping[str, str | bool], *, quick: bool = False
) -> Section:
    """Runs a config file, and overrides its fields.

    Args:
      config_flag: the file or the name of a shipped config; a word may follow after a colon.
      overrides: texts of values, or True or False, by dotted path.
      quick: whether fields of the section ``quick`` replace fields of the same names.

    Returns:
      The config with these values. Its caption names the changed fields.

    Raises:
      ValueError: for a file that cannot be read or has no ``get_config``, a path that leads into no
        section, and a field or a placeholder without a value. Errors of the file itself, such as a
        SyntaxError, are raised unchanged.
    """
    path, words = _file_and_words(config_flag)
    tree = nested.plain(_run_file(path, words))
    published = nested.resolved(nested.full(tree), is_complete=False)
    tree = nested.quick(tree) if quick else nested.full(tree)
    for field, flag_value in overrides.items():
        _override(tree, field, flag_value)
    reason = 'Quick version of the config' if quick else 'Changed from the config'
    return captions.with_changes(published, nested.resolved(tree), reason)


def _file_and_words(config_flag: str) -> tuple[str, list[str]]:
    """Splits the flag --config at its colon, and finds the file."""
    path, *words = shipped.locate(config_flag).split(':', 1)
    return path, words


def _override(tree: dict[str, Any], field: str, flag_value: str | bool) -> None:
    """Puts the value of a flag into a config; the value None removes the field.

    Args:
      tree: the config, which is changed.
      field: the field's path, such as ``a.b[0]``.
      flag_value: the value or its text.
    """
    path = _parse_path(field)
    old = nested.value_at(tree, path)
    value_type = _type_of_field(old)
    value: Any = flag_value
    if isinstance(flag_value, str):
        value = parse_value(flag_value, value_type)
    elif value_type not in (bool, types.NoneType):
        flag = f'{_PREFIX}{field}'
        raise errors.invalid(flag, f'be given a value, as --{flag}=VALUE', 'none')
    *path_of_section, name = path
    if value is None and old is not None and isinstance(name, str):
        del nested.value_at(tree, path_of_section)[name]
    else:
        nested.put(tree, path, value, inplace=True)


def _parse_path(field: str) -> list[str | int]:
    """Returns the names and indices of ``a.b[0]``, and of ``a["with.dots"].b``."""
    parts = list(_PART.finditer(field))
    path: list[str | int] = [
        int(part['index']) if part['index'] else part['key'] or part['name']
        for part in parts
    ]
    if ''.join(part[0] for part in parts) != field or '' in path:
        requirement = 'be reached by names and indices, such as a.b[0]'
        raise errors.invalid('config', requirement, field or 'no name')
    return path


def _type_of_field(value: Any) -> type[object]:
    """Returns the type of a field's values; NoneType if any type will do."""
    value_type = value.get_type() if nested.is_reference(value) else type(value)
    return value_type if isinstance(value_type, type) else types.NoneType


def parse_value(text: str, value_type: type[object] = types.NoneType) -> Any:
    """Returns the value that a text stands for.

    Args:
      text: a number, a list or a section as Python writes it, true or false; all else stays a text.
      value_type: the type of the value that is replaced, NoneType for any. If that is a text, a
        number, true and false stay texts. If that is a float, an int becomes a float.
    """
    if text in _SWITCHES and value_type is not str:
        return _SWITCHES[text]
    try:
        value = ast.literal_eval(text)
        repr(value)  # Raises for an int of more digits than Python writes.
        if value_type is float and type(value) is int:
            value = float(value)
    except _NO_VALUE:
        return text
    if isinstance(value, _STAYS_TEXT.get(value_type, ())):
        return text
    if value_type is bool and value in (0, 1):
        return bool(value)
    return value


def _run_file(path: str, words: Sequence[str]) -> Any:
    """Returns what the ``get_config`` of a file returns: a dictionary or a ConfigDict."""
    source = _read_bytes(path)
    if Path(path).suffix == '.json':
        return _read_json(path, source, words)
    get_config = _define_get_config(path, source)
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


def _read_bytes(path: str) -> bytes:
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


def _define_get_config(path: str, source: bytes) -> Callable[..., object]:
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


def _read_json(path: str, source: bytes, words: Sequence[str]) -> Section:
    """Reads the config that a run or an archive recorded, ``FOLDER/config.json``."""
    from fedjax_links.storage import documents

    if words:
        requirement = 'have no word after a colon, as a file of JSON'
        raise errors.invalid('config', requirement, ':'.join([path, *words]))
    try:
        values = documents.parse_json(source)
    except (ValueError, RecursionError) as error:
        raise errors.invalid(
            'config', 'name a readable file of JSON', f'{path}: {error}'
        ) from None
    if not isinstance(values, dict):
        raise errors.invalid('config', 'name a file with a section', path)
    return {name: value for name, value in values.items() if name != _DIGEST}
