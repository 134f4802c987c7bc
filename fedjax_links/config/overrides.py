"""What flags changed from a config file, said wherever its caption is shown."""

from collections.abc import Mapping
from typing import Any

from fedjax_links.core import errors

Changes = Mapping[str, tuple[Any, Any]]
"""By dotted path, the new value and the old one; `NOT_GIVEN` where there is none."""

NOT_GIVEN = 'not given'
_LOOKS = ('caption', 'title', 'width', 'height')


def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """The fields in which a config differs from its file.

    Args:
      before: the config as its file gives it.
      after: the config as it runs.

    Returns:
      The changes, without those of words above and below a picture, and of its size.
    """
    changes = _changes(before, after)
    return {path: pair for path, pair in changes.items() if path not in _LOOKS}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    for name in {**before, **after}:
        old, new = before.get(name, NOT_GIVEN), after.get(name, NOT_GIVEN)
        if isinstance(new, Mapping) and isinstance(old, Mapping):
            found |= {f'{name}.{path}': pair for path, pair in _changes(old, new).items()}
        elif new != old:
            found[name] = new, old
    return found


def told(config: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """A config whose caption begins with what was changed.

    The caption goes along with a run, so that every report and picture made of it says so; two
    configs with different captions are the same experiment.

    Args:
      config: as it runs.
      changes: what flags made of it.
    """
    if not changes:
        return dict(config)
    listed = [f'{path} = {_text(new)} ({_text(old)})' for path, (new, old) in changes.items()]
    said = f'Changed from the config: {", ".join(listed)}.'
    if caption := config.get('caption'):
        said += f' What follows is said of the config without changes.\n\n{caption}'
    return {**config, 'caption': said}


def _text(value: Any) -> str:
    return value if value and isinstance(value, str) else errors.shown(value)
