"""A config as a tree of plain values: what its paths hold, its two sizes, and what flags changed.

A config may have a section ``quick`` of fields that replace its own; it says in one place what the
short version of an experiment changes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fedjax_links.core import errors

if TYPE_CHECKING:
    from ml_collections import ConfigDict, FieldReference

Config: TypeAlias = 'Mapping[str, Any] | ConfigDict'
QUICK = 'quick'
REMOVED = object()
"""In place of a value, for `put`: the field goes."""
_ABSENT = object()
_LEAF = str | int | float | None
_LOOKS = ('caption', 'title', 'width', 'height')
"""Words above and below a picture, and its size: they change no result."""


def plain(config: Any) -> Any:
    """Makes plain values of a config: dictionaries, lists and Python's numbers.

    Entries stay in the order in which they were written, which iteration over a ConfigDict does
    not keep. References stay references, and a ConfigDict that stands in two places stays one
    dictionary, so that `put` changes what `ml_collections` would change.

    Args:
      config: a dictionary, a ConfigDict, or one of their parts; nothing in it is changed.
    """
    return _plain(config, {})


def _plain(value: Any, sections: dict[int, Any]) -> Any:
    if isinstance(value, _LEAF):
        return value
    from ml_collections import (
        ConfigDict,
        FieldReference,
        FrozenConfigDict,
    )  # takes 60 ms

    if isinstance(value, FrozenConfigDict):
        value = value.as_configdict()
    if isinstance(value, FieldReference) and _refers_to_section(value):
        value = value.get()
    if isinstance(value, ConfigDict):
        if id(value) not in sections:
            made = sections[id(value)] = {}
            for name, part in vars(value)['_fields'].items():
                made[name] = _plain(part, sections)
        return sections[id(value)]
    if isinstance(value, Mapping):
        return {name: _plain(part, sections) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part, sections) for part in value]
    if isinstance(value, tuple):
        return tuple(_plain(part, sections) for part in value)
    is_array = hasattr(value, 'tolist') and not isinstance(
        value, type
    )  # NumPy's or JAX's
    return value.tolist() if is_array else value


def _refers_to_section(reference: 'FieldReference') -> bool:
    from ml_collections import ConfigDict

    kind = reference.get_type()
    is_section = isinstance(kind, type) and issubclass(kind, ConfigDict | dict)
    return is_section and not reference.empty()


def resolved(config: Any, where: str = 'config', *, is_complete: bool = True) -> Any:
    """Puts values in place of references.

    Args:
      config: as `plain` gives it, or one of its parts.
      where: the part's place in the config, for errors.
      is_complete: whether required placeholders must have a value; those without are left out
        otherwise.

    Returns:
      New dictionaries and lists.

    Raises:
      ValueError: for a required placeholder without a value, and for a reference that cannot be
        computed from what it refers to.
    """
    if isinstance(config, _LEAF):
        return config
    if isinstance(config, Mapping):
        found = {}
        for name, part in config.items():
            if is_complete or not _is_missing(part):
                found[name] = resolved(part, f'{where}.{name}', is_complete=is_complete)
        return found
    if isinstance(config, list | tuple):
        parts = [
            resolved(part, f'{where}[{index}]', is_complete=is_complete)
            for index, part in enumerate(config)
        ]
        return tuple(parts) if isinstance(config, tuple) else parts
    if not is_reference(config):
        return config
    if _is_missing(config):
        raise errors.invalid(
            where, 'be given a value', 'a required placeholder without one'
        )
    try:
        value = config.get()
    except Exception as error:
        requirement = 'be computable from what it refers to'
        raise errors.invalid(where, requirement, errors.describe(error)) from error
    return resolved(plain(value), where, is_complete=is_complete)


def is_reference(value: Any) -> bool:
    """Whether a value is a FieldReference, whose value other fields may share."""
    from ml_collections import FieldReference

    return isinstance(value, FieldReference)


def _is_missing(value: Any) -> bool:
    """Whether a value is a required placeholder that nobody has given a value."""
    from ml_collections.config_dict import RequiredValueError

    try:
        if is_reference(value):
            value.get()
    except RequiredValueError:
        return True
    except Exception:  # `resolved` says what is wrong
        return False
    return False


def put(
    config: Any, path: Sequence[str | int], value: Any, where: str = 'config'
) -> Any:
    """Puts a value at a path, in place: what refers to it follows.

    Args:
      config: as `plain` gives it, or one of its parts.
      path: names, which may lead into sections that are not there, and indices of lists.
      value: what will be there; `REMOVED` takes the field away.
      where: the part's place in the config, for errors.

    Returns:
      What will stand in the part's place.

    Raises:
      ValueError: for a path through what is no section, or behind the end of a list.
    """
    if is_reference(config):
        if path:
            before = None if config.empty() else config.get()
            value = put(before, path, value, where)
        config.set(value, type_safe=False)
        return config
    if not path:
        return value
    name, *rest = path
    if isinstance(name, int):
        if not isinstance(config, list | tuple) or name >= len(config):
            requirement = f'be a list with an entry [{name}]'
            raise errors.invalid(where, requirement, errors.text_of(config))
        entries = list(config)
        entries[name] = put(entries[name], rest, value, f'{where}[{name}]')
        return tuple(entries) if isinstance(config, tuple) else entries
    own = {} if config is None else section(config)
    if not isinstance(own, dict) or not name:
        raise errors.invalid(
            where, f'be a section, to have {name!r}', errors.text_of(config)
        )
    if not rest and value is REMOVED:
        own.pop(name, None)
    else:
        own[name] = put(own.get(name), rest, value, f'{where}.{name}')
    return own


def section(value: Any) -> Any:
    """A part of a config: of a text, which is a name without options, the section."""
    return {'name': value} if isinstance(value, str) else value


def value_at(config: Any, path: Sequence[str | int], default: Any = None) -> Any:
    """The value at a path; a default if there is none."""
    for name in path:
        try:
            config = config[name]
        except (KeyError, TypeError, IndexError):
            return default
    return config


def with_value(
    config: Any, path: Sequence[str | int], value: Any, where: str = 'config'
) -> Any:
    """A config with a value at a path, which may lead into sections that are not there.

    Args:
      config: itself, or one of its parts.
      path: names, and places in lists.
      value: what will be there.
      where: the part's place in the config, for errors.

    Raises:
      ValueError: for a path through what is no section.
    """
    if not path:
        return value
    name, *rest = path
    if isinstance(name, int):
        return [
            with_value(v, rest, value) if k == name else v for k, v in enumerate(config)
        ]
    own = {} if config is None else section(config)
    if not isinstance(own, Mapping) or not name:
        raise errors.invalid(
            where, f'be a section, to have {name!r}', errors.text_of(config)
        )
    return {**own, name: with_value(own.get(name), rest, value, f'{where}.{name}')}


def full(values: Mapping[str, Any]) -> dict[str, Any]:
    """The config as published.

    Args:
      values: nested dictionaries, as a config file's ``to_dict()`` gives them.

    Returns:
      The same without the section ``quick``.
    """
    return {name: value for name, value in values.items() if name != QUICK}


def quick(values: Mapping[str, Any]) -> dict[str, Any]:
    """The short version of a config.

    Args:
      values: nested dictionaries with a section ``quick``.

    Returns:
      The config with the fields of that section in place of its own. Sections are merged field by
      field, everything else is replaced; a section that names something else (its ``name``
      differs), or one that ``quick`` gives as None, is not merged: the former replaces it, the
      latter removes it.

    Raises:
      ValueError: if there is no such section.
    """
    if not isinstance(values.get(QUICK), Mapping):
        raise errors.invalid(
            'quick', "go with a config that has a section 'quick'", 'one without'
        )
    return _merged(full(values), values[QUICK])


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**values, **changes}
    for name, change in changes.items():
        own = values.get(name)
        if change is None:
            del merged[name]
        elif isinstance(change, Mapping) and isinstance(own, Mapping):
            renamed = change.get('name', own.get('name')) != own.get('name')
            merged[name] = change if renamed else _merged(own, change)
        else:
            merged[name] = put(own, (), change)
    return merged


def captioned(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    by: str = 'Changed from the config',
) -> dict[str, Any]:
    """Returns a config whose caption begins with what is not as in the config before.

    The caption goes along with a run, so that every report and picture made of it says so; two
    configs with different captions are the same experiment.

    Args:
      before: the config as its file gives it.
      after: the config as it runs.
      by: words in front of the changes.
    """
    changes = _changes(before, after)
    listed = [
        f'{path} = {said}' for path, said in changes.items() if path not in _LOOKS
    ]
    if not listed:
        return dict(after)
    text = f'{by}: {", ".join(listed)}.'
    if caption := after.get('caption'):
        text += f' What follows is said of the config without changes.\n\n{caption}'
    return {**after, 'caption': text}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """The new value, and in brackets the old one, by dotted path."""
    found: dict[str, str] = {}
    for name in {**before, **after}:
        old, new = before.get(name, 'not given'), after.get(name, 'not given')
        if isinstance(new, Mapping) and isinstance(old, Mapping):
            found |= {
                f'{name}.{path}': said for path, said in _changes(old, new).items()
            }
        elif new != old:
            found[name] = f'{_text(new)} ({_text(old)})'
    return found


def _text(value: Any) -> str:
    return value if value and isinstance(value, str) else errors.text_of(value)


def filled_in(text: str, config: Mapping[str, Any]) -> str:
    """Replaces ``{config.problem.num_clients}`` and the like in a text by the value.

    So a caption tells what runs, whatever flags or a section ``quick`` made of it. Other braces
    stay.

    Args:
      text: a caption.
      config: that runs.

    Raises:
      InvalidError: for a field that the config does not have.
    """

    def shown(found: re.Match[str]) -> str:
        value = value_at(config, found[1].split('.'), _ABSENT)
        if value is _ABSENT:
            raise errors.invalid(
                'config.caption', 'name fields of the config', found[0][1:-1]
            )
        if isinstance(value, list | tuple):
            return ', '.join(map(str, value))
        return f'{value:,}' if isinstance(value, int) else str(value)

    return re.sub(r'\{config\.([\w.]+)\}', shown, text)
