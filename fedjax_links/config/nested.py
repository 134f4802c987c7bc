"""Reads and changes configs as trees of plain values, and makes the quick version of a config.

A section is a mapping of fields to values. A path is a sequence of names of fields and indices of
lists. The section ``quick`` of a config has the fields that differ in the short version of the
experiment.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from fedjax_links.core import errors
from fedjax_links.core.records import Section

if TYPE_CHECKING:
    from ml_collections import ConfigDict, FieldReference

Config: TypeAlias = 'Mapping[str, Any] | ConfigDict'
QUICK = 'quick'
_LEAF = str | int | float | None


def plain(config: Any) -> Any:
    """Converts a config to plain values: dictionaries, lists and Python's numbers.

    Entries keep the order in which they were written, unlike iteration over a ConfigDict.
    References to single values stay references. References to sections become the section. A
    ConfigDict in two fields becomes one dictionary, so `put` changes both, as ml_collections does.

    Args:
      config: a dictionary, a ConfigDict, or a part of either; not changed.

    Raises:
      ValueError: for a section or a list that contains itself.
    """
    try:
        return _plain(config, {})
    except RecursionError:
        requirement = 'have no section or list that holds itself'
        raise errors.invalid('config', requirement, 'one that does') from None


def _plain(value: Any, sections: dict[int, Any]) -> Any:
    """Converts a part of a config to plain values.

    Args:
      value: the part.
      sections: the dictionaries of the ConfigDicts converted so far, by their ids; None for a
        ConfigDict that is being converted.

    Raises:
      RecursionError: for a part that contains itself.
    """
    match value:
        case str() | int() | float() | None:
            return value
        case Mapping():
            return {name: _plain(part, sections) for name, part in value.items()}
        case list():
            return [_plain(part, sections) for part in value]
        case tuple():
            return tuple(_plain(part, sections) for part in value)
    # Arrays and scalars of NumPy or JAX, but not their types.
    if hasattr(value, 'tolist') and not isinstance(value, type):
        return value.tolist()
    return _plain_section(value, sections)


def _plain_section(value: Any, sections: dict[int, Any]) -> Any:
    """Converts a ConfigDict to a dictionary, the same dictionary wherever the ConfigDict occurs.

    Args:
      value: a ConfigDict, a FrozenConfigDict, or a reference to either; anything else is returned
        unchanged.
      sections: as in `_plain`.
    """
    from ml_collections import ConfigDict, FrozenConfigDict  # The import takes 60 ms.

    if is_reference(value) and _refers_to_section(value):
        return _plain(value.get(), sections)
    if isinstance(value, FrozenConfigDict):
        value = value.as_configdict()
    if not isinstance(value, ConfigDict):
        return value
    if id(value) not in sections:
        sections[id(value)] = None  # While its fields are converted.
        fields = vars(value)['_fields'].items()
        sections[id(value)] = {name: _plain(part, sections) for name, part in fields}
    if sections[id(value)] is None:
        raise RecursionError
    return sections[id(value)]


def _refers_to_section(reference: 'FieldReference') -> bool:
    """Returns whether a reference holds a section."""
    from ml_collections import ConfigDict

    kind = reference.get_type()
    is_section = isinstance(kind, type) and issubclass(kind, ConfigDict | dict)
    return is_section and not reference.empty()


def resolved(config: Any, where: str = 'config', *, is_complete: bool = True) -> Any:
    """Replaces references by their values.

    Args:
      config: as `plain` returns it, or one of its parts.
      where: the part's dotted path, for errors.
      is_complete: whether an unset placeholder is an error; otherwise its field is left out.

    Returns:
      New dictionaries and lists.

    Raises:
      ValueError: for an unset placeholder, and for a reference whose value cannot be computed.
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
      ValueError: if the value is not set, or cannot be computed.
    """
    if _is_missing(reference):
        requirement = 'be given a value'
        raise errors.invalid(where, requirement, 'a required placeholder without one')
    try:
        return reference.get()
    except Exception as error:
        requirement = 'be computable from what it refers to'
        raise errors.invalid(where, requirement, errors.describe(error)) from error


def is_reference(value: object) -> TypeGuard['FieldReference']:
    """Returns whether a value is a FieldReference, which several fields may share."""
    from ml_collections import FieldReference

    return isinstance(value, FieldReference)


def _is_missing(value: Any) -> bool:
    """Returns whether a value is an unset placeholder."""
    from ml_collections.config_dict import RequiredValueError

    try:
        if is_reference(value):
            value.get()
    except RequiredValueError:
        return True
    except Exception:  # `resolved` reports it.
        return False
    return False


def put(
    config: Any,
    path: Sequence[str | int],
    value: Any,
    where: str = 'config',
    *,
    inplace: bool = False,
) -> Any:
    """Sets the value at a path.

    Args:
      config: as `plain` returns it, or one of its parts.
      path: names and indices of lists; missing sections are made.
      value: the new value.
      where: the part's dotted path, for errors.
      inplace: whether sections and references are changed in place, so that all fields that refer
        to them change as well. Otherwise the sections on the path are copied, and ``config`` is not
        changed.

    Returns:
      The new value of the whole part ``config``.

    Raises:
      ValueError: for a path through a value that is no section, or past the end of a list.
    """
    if inplace and is_reference(config):
        if path:
            old_value = None if config.empty() else config.get()
            value = put(old_value, path, value, where, inplace=True)
        config.set(value, type_safe=False)
        return config
    if not path:
        return value
    name, *rest = path
    if isinstance(name, int):
        entries = _as_list(config, name, where)
        where = f'{where}[{name}]'
        entries[name] = put(entries[name], rest, value, where, inplace=inplace)
        return tuple(entries) if isinstance(config, tuple) else entries
    fields = _as_section(config, name, where)
    if not inplace:
        fields = dict(fields)
    where = f'{where}.{name}'
    fields[name] = put(fields.get(name), rest, value, where, inplace=inplace)
    return fields


def _as_list(config: Any, index: int, where: str) -> list[Any]:
    """Returns a copy of a part of a config as a list that has an entry of this index."""
    if not isinstance(config, list | tuple) or index >= len(config):
        requirement = f'be a list with an entry [{index}]'
        raise errors.invalid(where, requirement, errors.text_of(config))
    return list(config)


def _as_section(config: Any, name: Any, where: str) -> Any:
    """Returns a part of a config as a section that can have a field of this name."""
    fields = {} if config is None else section(config)
    if not isinstance(fields, Mapping) or not name:
        requirement = f'be a section, to have {name!r}'
        raise errors.invalid(where, requirement, errors.text_of(config))
    return fields


def section(value: Any) -> Any:
    """Expands the short form ``'sgd'`` of a section to ``{'name': 'sgd'}``; keeps other values."""
    return {'name': value} if isinstance(value, str) else value


def value_at(config: Any, path: Sequence[str | int], default: Any = None) -> Any:
    """Returns the value at a path, or a default."""
    for name in path:
        try:
            config = config[name]
        except (KeyError, TypeError, IndexError):
            return default
    return config


def full(values: Section) -> dict[str, Any]:
    """Returns the full version of a config: all of it but the section ``quick``.

    Args:
      values: nested dictionaries, as a config file's ``to_dict()`` returns them.
    """
    return {name: value for name, value in values.items() if name != QUICK}


def quick(values: Section) -> dict[str, Any]:
    """Returns the short version of a config.

    Args:
      values: nested dictionaries with a section ``quick``.

    Returns:
      The config, whose fields are replaced by the fields of ``quick``. Two sections are merged
      field by field, unless ``quick`` gives the section another ``name``. Such a section, or any
      other value, replaces the field. None removes the field.

    Raises:
      ValueError: if there is no section ``quick``.
    """
    if not isinstance(values.get(QUICK), Mapping):
        raise errors.invalid(
            'quick', "go with a config that has a section 'quick'", 'one without'
        )
    return _merged(full(values), values[QUICK])


def _merged(values: Section, changes: Section) -> dict[str, Any]:
    """Returns a section with some fields changed, by the rules of `quick`."""
    merged = {**values, **changes}
    for name, change in changes.items():
        old_value = values.get(name)
        if change is None:
            del merged[name]
        elif isinstance(change, Mapping) and isinstance(old_value, Mapping):
            old_name = old_value.get('name')
            is_renamed = change.get('name', old_name) != old_name
            merged[name] = change if is_renamed else _merged(old_value, change)
        else:
            # If the old value is a reference, all fields that share the reference change as well.
            merged[name] = put(old_value, (), change, inplace=True)
    return merged
