"""The type of a data set, and its one validating constructor."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors


class Dataset(NamedTuple):
    """A labelled data set, split into training and test data.

    Attributes:
      train_features: float32[E, ...].
      train_labels: int32[E], classes numbered from 0.
      test_features: float32[T, ...].
      test_labels: int32[T].
      num_classes: C.
    """

    train_features: NDArray[np.float32]
    train_labels: NDArray[np.int32]
    test_features: NDArray[np.float32]
    test_labels: NDArray[np.int32]
    num_classes: int


def make_dataset(
    train_features: ArrayLike,
    train_labels: ArrayLike,
    test_features: ArrayLike,
    test_labels: ArrayLike,
    *,
    num_classes: int | None = None,
) -> Dataset:
    """Builds a data set from arrays and checks that they belong together.

    Args:
      train_features: [E, ...], uint8 pixels (scaled from 0..255 to [0, 1]) or real numbers, which
        stay as they are.
      train_labels: integers [E] from 0.
      test_features: [T, ...], examples of the same shape.
      test_labels: integers [T] from 0.
      num_classes: C; one more than the largest label by default.

    Returns:
      The data set.

    Raises:
      ValueError: if shapes or dtypes do not fit, a label is no class, or a feature is not finite.
    """
    train, classes = _check_part('train', train_features, train_labels)
    test, test_classes = _check_part('test', test_features, test_labels)
    if train.shape[1:] != test.shape[1:]:
        requirement = f'have examples of shape {list(train.shape[1:])}'
        raise errors.invalid('test_features', requirement, list(test.shape[1:]))
    if num_classes is None:
        num_classes = int(max(classes.max(), test_classes.max())) + 1
    checks.static_int('num_classes', num_classes)
    for argument, given in (('train_labels', classes), ('test_labels', test_classes)):
        if given.max() >= num_classes:
            got = f'{given.max()} at {np.argmax(given)}'
            raise errors.invalid(argument, f'lie below num_classes ({num_classes})', got)
    return Dataset(train, classes, test, test_classes, int(num_classes))


def _check_part(
    part: str, features: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Features and labels of one part, that belong together."""
    rows = _check_features(f'{part}_features', np.asarray(features))
    classes = checks.ids(f'{part}_labels', labels).astype(np.int32)
    if len(classes) != len(rows):
        requirement = f'have one entry per row of `{part}_features` ({len(rows)})'
        raise errors.invalid(f'{part}_labels', requirement, len(classes))
    return rows, classes


def _check_features(argument: str, array: np.ndarray) -> NDArray[np.float32]:
    """Pixels scaled to [0, 1], and finite numbers as they are."""
    if array.ndim < 2 or 0 in array.shape:
        raise errors.invalid(argument, 'have shape [examples, ...]', list(array.shape))
    if array.dtype == np.uint8:
        return np.divide(array, np.float32(255), dtype=np.float32)
    if not np.issubdtype(array.dtype, np.floating):
        raise errors.invalid(argument, 'be uint8 or real', array.dtype)
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise errors.invalid(argument, 'be finite', f'not so in row {row}')
    return array.astype(np.float32, copy=False)
