"""JSON in LEAF's form: ``{"users": [...], "user_data": {user: {"x": [...], "y": [...]}}}``.

References:
  Caldas et al. 2018, LEAF: a benchmark for federated settings.
"""

import json
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.problems import array_checks
from fedjax_links.problems.datasets import characters
from fedjax_links.problems.datasets.dataset import Dataset
from fedjax_links.problems.datasets.npz import PathLike

Encode = Callable[[Sequence[Any]], np.ndarray]
"""From entries of ``x``, or of ``y``, to an array with a row for each."""


class Encoding(NamedTuple):
    """How entries become arrays.

    Attributes:
      features: those of ``x``.
      labels: those of ``y``.
      num_classes: C; 0 for one more than the largest label.
    """

    features: Encode = array_checks.stack_features
    labels: Encode = array_checks.stack_labels
    num_classes: int = 0


def from_leaf(
    path: PathLike, *, test: PathLike | None = None, encode: str | None = None
) -> Dataset:
    """A data set of LEAF's preprocessed JSON.

    Files are read one after the other, and no more than one is held as Python's objects.

    Args:
      path: a file, or a folder of which all ``*.json`` files are read, of examples to train on.
      test: the same for examples to test on, of the same users or of others.
      encode: a name in `ENCODINGS`: ``'characters'`` for texts, such as Shakespeare's, whose labels
        are the next characters; ``'pixels'`` for numbers in [0, 1], such as FEMNIST's, of square
        images. None: numbers as they are.

    Returns:
      The data set, whose owners are the users.

    Raises:
      ValueError: for a file that is not of this form, naming it.
    """
    if encode is not None:
        checks.choice('encode', encode, ENCODINGS)
    encoding = ENCODINGS[encode] if encode else Encoding()
    arrays: dict[str, Any] = {}
    for part, place in (('train', path), ('test', test)):
        if place is not None:
            features, labels, owners = read(place, encoding.features, encoding.labels)
            found = {'features': features, 'labels': labels, 'clients': owners}
            arrays |= {f'{part}_{key}': array for key, array in found.items()}
    return Dataset(**arrays, num_classes=encoding.num_classes)


def read(
    path: PathLike, features: Encode, labels: Encode
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and users' names, by file and user in their order.

    Args:
      path: a file, or a folder of which all ``*.json`` files are read.
      features: what makes an array of a user's ``x``.
      labels: what makes one of a user's ``y``.

    Raises:
      ValueError: for a file that is not of this form, naming it, or rows of several shapes.
    """
    parts = [(features(x), labels(y), np.full(len(x), user)) for user, x, y in _users(path) if x]
    if not parts:
        raise errors.invalid('path', 'hold examples', path)
    columns = [*zip(*parts, strict=True)]
    for argument, arrays in zip(('features', 'labels'), columns, strict=False):
        array_checks.stack_rows(argument, [array[0] for array in arrays])  # users may differ
    inputs, targets, owners = map(np.concatenate, columns)
    return inputs, targets, owners


def _users(path: PathLike) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Name, ``x`` and ``y`` of every user."""
    place = pathlib.Path(path)
    for file in sorted(place.glob('*.json')) if place.is_dir() else [place]:
        try:
            users: Mapping[str, Any] = json.loads(file.read_text(encoding='utf-8'))['user_data']
            held = [(user, list(data['x']), list(data['y'])) for user, data in users.items()]
            for user, x, y in held:
                if len(x) != len(y):
                    raise ValueError(f'user {user} has {len(x)} x, {len(y)} y')
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            said = f'{file}: {errors.describe(error)}'
            raise errors.invalid('path', "name JSON of LEAF's form", said) from None
        del users
        while held:
            yield held.pop(0)


def _encode_pixels(rows: Sequence[Any]) -> np.ndarray:
    """uint8[E, side, side, 1] of numbers in [0, 1]."""
    numbers = array_checks.stack_features(rows)
    side = math.isqrt(numbers.shape[-1])
    if numbers.ndim != 2 or side**2 != numbers.shape[1] or numbers.min() < 0 or numbers.max() > 1:
        requirement = 'be another for what is no square of numbers in [0, 1]'
        raise errors.invalid('encode', requirement, "'pixels'")
    return np.rint(255 * numbers).astype(np.uint8).reshape(-1, side, side, 1)


ENCODINGS: Mapping[str, Encoding] = {
    'characters': Encoding(characters.encode, characters.encode_next, characters.NUM_TOKENS),
    'pixels': Encoding(_encode_pixels),
}
"""``encode`` of `from_leaf`."""
