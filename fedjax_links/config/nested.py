"""A config as a tree of plain values: what its paths hold, and its two sizes.

A config may have a section ``quick`` of fields that replace its own; it says in one place what the
short version of an experiment changes.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fedjax_links.core import errors

if TYPE_CHECKING:
    from ml_collections import ConfigDict, FieldReference

Config: TypeAlias = 'Mapping[str, Any] | ConfigDict'
QUICK = 'quick'
REMOVED = object()
"""In place of a value, for `put`: the field goes."""
_LEAF = str | int | float | None


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
    """Makes plain values of a part of a config.

    Args:
      value: the part.
      sections: the dictionaries made of each ConfigDict so far, by its id.
    """
    if isinstance(value, _LEAF):
        return value
    from ml_collections import ConfigDict  # takes 60 ms

    value = _without_wrappers(value)
    match value:
        case ConfigDict():
            return _plain_section(value, sections)
        case Mapping():
            return {name: _plain(part, sections) for name, part in value.items()}
        case list():
            return [_plain(part, sections) for part in value]
        case tuple():
            return tuple(_plain(part, sections) for part in value)
    is_array = hasattr(value, 'tolist') and not isinstance(value, type)
    return value.tolist() if is_array else value  # NumPy's or JAX's


def _plain_section(config: 'ConfigDict', sections: dict[int, Any]) -> dict[str, Any]:
    """Makes a dictionary of a ConfigDict, the same one wherever it stands."""
    if id(config) not in sections:
        section = sections[id(config)] = {}
        for name, part in vars(config)['_fields'].items():
            section[name] = _plain(part, sections)
    return sections[id(config)]


def _without_wrappers(value: Any) -> Any:
    """Returns the section that a reference or a FrozenConfigDict holds, or the value itself."""
    from ml_collections import FieldReference, FrozenConfigDict

    if isinstance(value, FrozenConfigDict):
        value = value.as_configdict()
    if isinstance(value, FieldReference) and _refers_to_section(value):
        value = value.get()
    return value


def _refers_to_section(reference: 'FieldReference') -> bool:
    """Tells whether a reference holds a section."""
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
        return {
            name: resolved(part, f'{where}.{name}', is_complete=is_complete)
            for name, part in config.items()
            if is_complete or not _is_missing(part)
        }
    if isinstance(config, list | tuple):
        parts = [
            resolved(part, f'{where}[{index}]', is_complete=is_complete)
            for index, part in enumerate(config)
        ]
        return tuple(parts) if isinstance(config, tuple) else parts
    if is_reference(config):
        value = _value_of_reference(config, where)
        return resolved(plain(value), where, is_complete=is_complete)
    return config


def _value_of_reference(reference: 'FieldReference', where: str) -> Any:
    """Computes the value of a reference.

    Raises:
      InvalidError: where it has none, or it cannot be computed.
    """
    if _is_missing(reference):
        requirement = 'be given a value'
        raise errors.invalid(where, requirement, 'a required placeholder without one')
    try:
        return reference.get()
    except Exception as error:
        requirement = 'be computable from what it refers to'
        raise errors.invalid(where, requirement, errors.describe(error)) from error


def is_reference(value: Any) -> bool:
    """Tells whether a value is a FieldReference, whose value other fields may share."""
    from ml_collections import FieldReference

    return isinstance(value, FieldReference)


def _is_missing(value: Any) -> bool:
    """Tells whether a value is a required placeholder without a value."""
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
    if isinstance(path[0], int):
        return _put_in_list(config, path, value, where)
    name, *rest = path
    fields = _as_section(config, name, where)
    if not rest and value is REMOVED:
        fields.pop(name, None)
    else:
        fields[name] = put(fields.get(name), rest, value, f'{where}.{name}')
    return fields


def _put_in_list(
    entries: Any, path: Sequence[str | int], value: Any, where: str
) -> list[Any] | tuple[Any, ...]:
    """Returns a list with a value at a path whose first part is an index."""
    index, *rest = path
    assert isinstance(index, int)
    if not isinstance(entries, list | tuple) or index >= len(entries):
        requirement = f'be a list with an entry [{index}]'
        raise errors.invalid(where, requirement, errors.text_of(entries))
    changed = list(entries)
    changed[index] = put(changed[index], rest, value, f'{where}[{index}]')
    return tuple(changed) if isinstance(entries, tuple) else changed


def _as_section(config: Any, name: Any, where: str) -> Any:
    """Returns a part of a config as the section that has a field, which may be new."""
    fields = {} if config is None else section(config)
    if not isinstance(fields, Mapping) or not name:
        requirement = f'be a section, to have {name!r}'
        raise errors.invalid(where, requirement, errors.text_of(config))
    return fields


def section(value: Any) -> Any:
    """Returns the section that a text stands for, a name without options; others as they are."""
    return {'name': value} if isinstance(value, str) else value


def value_at(config: Any, path: Sequence[str | int], default: Any = None) -> Any:
    """Returns the value at a path; a default if there is none."""
    for name in path:
        try:
            config = config[name]
        except (KeyError, TypeError, IndexError):
            return default
    return config


def with_value(
    config: Any, path: Sequence[str | int], value: Any, where: str = 'config'
) -> Any:
    """Returns a config with a value at a path, which may lead into sections that are not there.

    Args:
      config: itself, or one of its parts.
      path: names, and indices of lists.
      value: what will be there.
      where: the part's place in the config, for errors.

    Raises:
      ValueError: for a path through what is no section.
    """
    if not path:
        return value
    name, *rest = path
    if isinstance(name, int):
        changed = list(config)
        changed[name] = with_value(config[name], rest, value, where)
        return changed
    fields = _as_section(config, name, where)
    return {
        **fields,
        name: with_value(fields.get(name), rest, value, f'{where}.{name}'),
    }


def full(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the config as published.

    Args:
      values: nested dictionaries, as a config file's ``to_dict()`` gives them.

    Returns:
      The same without the section ``quick``.
    """
    return {name: value for name, value in values.items() if name != QUICK}


def quick(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the short version of a config.

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
    """Returns a section with the fields of ``quick`` in place of its own."""
    merged = {**values, **changes}
    for name, change in changes.items():
        before = values.get(name)
        if change is None:
            del merged[name]
        elif isinstance(change, Mapping) and isinstance(before, Mapping):
            named = before.get('name')
            is_renamed = change.get('name', named) != named
            merged[name] = change if is_renamed else _merged(before, change)
        else:
            merged[name] = put(before, (), change)
    return merged
