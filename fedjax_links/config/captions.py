"""Writes captions of configs: lists changed fields, and fills values of fields into the text."""

import re
from collections.abc import Mapping
from typing import Any

from fedjax_links.config import nested
from fedjax_links.core import errors
from fedjax_links.core.records import Section

_LOOKS = ('caption', 'title', 'width', 'height')
"""Fields that change no result: words above and below a picture, and its size."""

_ABSENT_TEXT = 'not given'
_ABSENT = object()


def with_changes(
    before: Section,
    after: Section,
    reason: str = 'Changed from the config',
) -> dict[str, Any]:
    """Returns a config whose caption begins with what was changed.

    The run keeps the caption, so every report and picture made of the run names the changes.
    Captions are no part of an experiment's identity. The old caption is about ``before``, so
    `fill_in` takes its values from there.

    Args:
      before: the config as its file gives it.
      after: the config as it runs.
      reason: words in front of the changes.
    """
    changes = _changes(before, after)
    listed = [
        f'{path} = {change}' for path, change in changes.items() if path not in _LOOKS
    ]
    if not listed:
        return dict(after)
    text = f'{reason}: {", ".join(listed)}.'
    caption = after.get('caption')
    if caption:
        caption = fill_in(caption, before, is_complete=False)
        text += f' What follows is about the config without changes.\n\n{caption}'
    return {**after, 'caption': text}


def _changes(before: Section, after: Section) -> dict[str, str]:
    """Returns the new value, and in brackets the old one, by dotted path."""
    changes: dict[str, str] = {}
    for name in {**before, **after}:
        old = before.get(name, _ABSENT_TEXT)
        new = after.get(name, _ABSENT_TEXT)
        shown_name = _text(name)
        if isinstance(new, Mapping) and isinstance(old, Mapping):
            for path, change in _changes(old, new).items():
                changes[f'{shown_name}.{path}'] = change
        elif new != old:
            changes[shown_name] = f'{_text(new)} ({_text(old)})'
    return changes


def _text(value: object) -> str:
    """Shows a name or value in a caption; texts that can be printed stand without quotes."""
    is_shown = isinstance(value, str) and value.replace('\n', ' ').isprintable()
    return str(value) if value and is_shown else errors.text_of(value)


def fill_in(text: str, config: Section, *, is_complete: bool = True) -> str:
    """Replaces ``{config.problem.num_clients}`` and the like in a text by the value.

    So a caption stays true when its config changes. A field of a section that was removed, such as
    ``tuning``, becomes "not given". Other braces stay.

    Args:
      text: a caption.
      config: the config that the caption is about.
      is_complete: whether a field that the config lacks is an error; otherwise its braces stay.

    Raises:
      ValueError: for a field that the config does not have.
    """

    def shown(match: re.Match[str]) -> str:
        value = nested.value_at(config, match[1].split('.'), _ABSENT)
        if value is _ABSENT and not is_complete:
            return match[0]
        if value is _ABSENT and _is_left_out(match[1], config):
            return _ABSENT_TEXT
        if value is _ABSENT:
            requirement = 'name fields of the config'
            raise errors.invalid('config.caption', requirement, f'config.{match[1]}')
        if isinstance(value, list | tuple):
            return ', '.join(map(str, value))
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return f'{value:,}' if is_number else str(value)

    return re.sub(r'\{config\.([\w.]+)\}', shown, text)


def _is_left_out(path: str, config: Section) -> bool:
    """Returns whether a path leads into a section of the schema that this config lacks."""
    # Not imported above: the schema imports JAX, and commands show their help without JAX.
    from fedjax_links.config import schema

    section, _, rest = path.partition('.')
    return bool(rest) and section in schema.EXPERIMENT and config.get(section) is None
