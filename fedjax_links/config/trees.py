"""A config as a tree of plain values: what its paths hold, its two sizes, and what flags changed.

A config may have a section ``quick`` of fields that replace its own; it says in one place what the
short version of an experiment changes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_links.core import errors

QUICK = 'quick'
_LOOKS = ('caption', 'title', 'width', 'height')
"""Words above and below a picture, and its size: they change no result."""


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


def with_value(config: Any, path: Sequence[str | int], value: Any, where: str = 'config') -> Any:
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
        return [with_value(v, rest, value) if k == name else v for k, v in enumerate(config)]
    own = {} if config is None else section(config)
    if not isinstance(own, Mapping) or not name:
        raise errors.invalid(where, f'be a section, to have {name!r}', errors.text_of(config))
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
        raise errors.invalid('quick', "go with a config that has a section 'quick'", 'one without')
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
    return merged


def captioned(
    before: Mapping[str, Any], after: Mapping[str, Any], by: str = 'Changed from the config'
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
    listed = [f'{path} = {said}' for path, said in changes.items() if path not in _LOOKS]
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
            found |= {f'{name}.{path}': said for path, said in _changes(old, new).items()}
        elif new != old:
            found[name] = f'{_text(new)} ({_text(old)})'
    return found


def _text(value: Any) -> str:
    return value if value and isinstance(value, str) else errors.text_of(value)
