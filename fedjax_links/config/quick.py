"""The two sizes of a config: as published, and quick.

A config may have a section ``quick`` of fields that replace its own; it says in one place what the
short version of an experiment changes.
"""

from collections.abc import Mapping
from typing import Any

from fedjax_links.core import errors

QUICK = 'quick'


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
        raise errors.invalid('quick', "go with a config that has a section 'quick'", 'one without')
    return _merged(full(values), values[QUICK])


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, change in changes.items():
        own = values.get(name)
        if change is None:
            merged.pop(name, None)
        elif isinstance(change, Mapping) and isinstance(own, Mapping):
            renamed = change.get('name', own.get('name')) != own.get('name')
            merged[name] = dict(change) if renamed else _merged(own, change)
        else:
            merged[name] = change
    return merged
