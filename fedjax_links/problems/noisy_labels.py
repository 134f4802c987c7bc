"""Labels that are wrong at a known rate."""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Key
from fedjax_links.core import checks, errors, prng

_STREAM = 0x4C4E  # keeps these draws apart from others that use the same seed


def label_noise(key: Key, labels: ArrayLike, *, num_classes: int, rate: float) -> NDArray[np.int32]:
    """Replaces labels at random, each example on its own.

    With one key a higher rate changes all the labels that a lower one does, and to the same ones.

    Args:
      key: a key.
      labels: int[E], classes from 0.
      num_classes: K, at least 2.
      rate: probability that a label becomes one of the K - 1 others, all equally likely.

    Returns:
      int32[E].

    Raises:
      ValueError: if a number is out of range.
    """
    checks.static_int('num_classes', num_classes, minimum=2)
    true = checks.ids('labels', labels)
    if true.max() >= num_classes:
        raise errors.invalid('num_classes', f'exceed the largest label {true.max()}', num_classes)
    checks.within('rate', rate, 0, 1)
    changed, which = np.asarray(prng.uniform(key, (2, true.size)), np.float64)
    wrong = (which * (num_classes - 1)).astype(np.int64)
    wrong += wrong >= true
    return np.where(changed < rate, wrong, true).astype(np.int32)


def with_noise(
    section: Mapping[str, Any] | None, seed: int, labels: NDArray[np.int32], num_classes: int
) -> NDArray[np.int32]:
    """Training labels under the noise of a problem's section.

    Args:
      section: ``rate`` of `label_noise`; None for no noise.
      seed: integer in ``[0, 2**32)``.
      labels: int[E].
      num_classes: K.

    Returns:
      int[E].

    Raises:
      ValueError: if the section is no such thing.
    """
    if section is None:
        return labels
    if not isinstance(section, Mapping):
        raise errors.invalid('label_noise', 'be a section', errors.text_of(section))
    key = jax.random.fold_in(jax.random.key(np.uint32(seed)), _STREAM)
    key = jax.random.fold_in(key, 0)  # of training labels
    noisy = functools.partial(label_noise, key, labels, num_classes=num_classes)
    checks.options('label_noise', noisy, section)
    with errors.inside('label_noise'):
        return noisy(**section)
