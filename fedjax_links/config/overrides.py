"""What flags changed from a config file, said wherever its caption is shown."""

from collections.abc import Mapping
from typing import Any

from fedjax_links.core import errors

_LOOKS = ('caption', 'title', 'width', 'height')
"""Words above and below a picture, and its size: they change no result."""


def captioned(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """A config whose caption begins with what flags changed.

    The caption goes along with a run, so that every report and picture made of it says so; two
    configs with different captions are the same experiment.

    Args:
      before: the config as its file gives it.
      after: the config as it runs.
    """
    changes = _changes(before, after)
    listed = [f'{path} = {said}' for path, said in changes.items() if path not in _LOOKS]
    if not listed:
        return dict(after)
    said = f'Changed from the config: {", ".join(listed)}.'
    if caption := after.get('caption'):
        said += f' What follows is said of the config without changes.\n\n{caption}'
    return {**after, 'caption': said}


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
