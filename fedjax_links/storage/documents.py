"""Reads and writes the JSON files of a run folder, which have a digest as a field."""

import json
from pathlib import Path
from typing import Any

from fedjax_links.core import digests, errors
from fedjax_links.core.records import Section

_DIGEST = 'sha256'


def as_json(values: Section) -> bytes:
    """Returns the content of a JSON file with its digest.

    Args:
      values: by name.
    """
    # The digest is of the values as they will be read: names are texts, and tuples are lists.
    values = json.loads(json.dumps(values))
    text = json.dumps({**values, _DIGEST: digests.hash_json(values)}, indent=2)
    return f'{text}\n'.encode()


def parse_json(text: str | bytes) -> Any:
    """Parses JSON that a user may have written.

    Args:
      text: of the file or flag.

    Raises:
      ValueError: for text that is no JSON, and for a name that stands twice in a section.
    """
    return json.loads(text, object_pairs_hook=_section_of)


def _section_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes a section from names and values; raises for a name that stands there twice."""
    section: dict[str, Any] = {}
    for name, value in pairs:
        if name in section:
            raise ValueError(f'{name!r} stands there twice')
        section[name] = value
    return section


def read_json(folder: Path, name: str) -> Any:
    """Reads a JSON file.

    Args:
      folder: of a run.
      name: of the file.

    Returns:
      The file's values; None if there is no such file. A file without a digest is not verified.

    Raises:
      ValueError: if the file was changed since it was written.
    """
    path = folder / name
    with errors.on_disk(path):
        if not path.exists():
            return None
        content = path.read_bytes()
    try:
        values = json.loads(content)
        digest = values.pop(_DIGEST, None)
        is_changed = digest is not None and digest != digests.hash_json(values)
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise _changed(path, f'hold a readable {name}') from None
    if is_changed:
        raise _changed(path, 'hold files as they were written')
    return values


def has_digest(path: Path) -> bool:
    """Returns whether this package wrote a JSON file: whether it has a digest, right or wrong."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(values, dict) and isinstance(values.get(_DIGEST), str)


def _changed(path: Path, requirement: str) -> errors.InvalidError:
    """Builds the error for a file that has changed."""
    hint = '--start_over sets them aside and begins again'
    return errors.invalid(
        'workdir', f'{requirement} ({hint})', f'{path}, which has changed'
    )
