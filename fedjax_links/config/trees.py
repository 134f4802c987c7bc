"""A config as a tree of sections, and the values at its paths."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_links.core import errors


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
