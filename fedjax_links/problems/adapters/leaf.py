"""JSON in LEAF's form: ``{"users": [...], "user_data": {user: {"x": [...], "y": [...]}}}``."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import errors
from fedjax_links.problems.adapters.examples import Examples, joined, owned, stacked


def from_leaf(
    path: str | Path,
    *,
    features: Callable[[Any], Any] | None = None,
    label: Callable[[Any], Any] | None = None,
) -> Examples:
    """The examples of every user of a file, or of all ``*.json`` files of a folder.

    Args:
      path: the file or folder.
      features: from an entry of ``x`` to numbers of one shape, such as a text's token ids; entries
        are taken as they are by default.
      label: the same for ``y``.

    Returns:
      The examples, by file and user in their order.

    Raises:
      ValueError: for a file that is not of this form, naming it, or rows that are no numbers of one
        shape.

    References:
      Caldas et al. 2018, LEAF: a benchmark for federated settings.
    """
    if not isinstance(path, str | os.PathLike):
        raise errors.invalid('path', 'be a path', errors.shown(path))
    place = Path(path)
    files = sorted(place.glob('*.json')) if place.is_dir() else [place]
    if not files:
        raise errors.invalid('path', 'hold files *.json', path)
    read = [_read(file, features, label) for file in files]
    parts = [part for part in read if part[2]]
    if not parts:
        raise errors.invalid('path', 'hold examples', path)
    inputs, labels, owners = zip(*parts, strict=True)
    return owned(
        joined('features', inputs), joined('labels', labels), [o for part in owners for o in part]
    )


def _read(
    file: Path, features: Callable[[Any], Any] | None, label: Callable[[Any], Any] | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows, labels and owners of a file; as lists, numbers would take ten times the memory."""
    rows: list[Any] = []
    labels: list[Any] = []
    owners: list[str] = []
    try:
        users = json.loads(file.read_text(encoding='utf-8'))['user_data']
        for user, data in users.items():
            if len(data['x']) != len(data['y']):
                raise ValueError(f'user {user} has {len(data["x"])} x, {len(data["y"])} y')
            rows += data['x']
            labels += data['y']
            owners += [user] * len(data['x'])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, 'strerror', None) or f'{type(error).__name__}: {error}'
        raise errors.invalid('path', "name JSON of LEAF's form", f'{file}: {reason}') from None
    if not owners:
        return np.empty(0), np.empty(0), owners
    return (
        stacked('features', [features(row) for row in rows] if features else rows),
        stacked('labels', [label(value) for value in labels] if label else labels),
        owners,
    )
