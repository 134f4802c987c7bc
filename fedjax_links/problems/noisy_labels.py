"""Labels that are wrong at a known rate, of all clients or of each."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Key
from fedjax_links.core import checks, errors, prng

_STREAM = 0x4C4E  # keeps these draws apart from others that use the same seed


def label_noise(
    key: Key,
    labels: ArrayLike,
    *,
    num_classes: int,
    rate: float | Sequence[float],
    clients: ArrayLike | None = None,
) -> NDArray[np.int32]:
    """Replaces labels at random, each example on its own.

    With one key a higher rate changes all the labels that a lower one does, and to the same ones.

    Args:
      key: a key.
      labels: int[E], classes from 0.
      num_classes: K, at least 2.
      rate: probability that a label becomes one of the K - 1 others, all equally likely; or [N],
        that of each client.
      clients: int[E], the owner of each example; for rates by client.

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
    rates = np.asarray(rate, np.float64)
    if rates.ndim:
        owners = checks.ids('clients', [] if clients is None else clients)
        if owners.shape != true.shape:
            raise errors.invalid('clients', f'have {true.size} entries', owners.size)
        if rates.shape != (owners.max() + 1,):
            requirement = f'be a number, or one for each of {owners.max() + 1} clients'
            raise errors.invalid('rate', requirement, errors.shown(rate))
        rates = rates[owners]
    changed, which = np.asarray(prng.uniform(key, (2, true.size)), np.float64)
    wrong = (which * (num_classes - 1)).astype(np.int64)
    wrong += wrong >= true
    return np.where(changed < rates, wrong, true).astype(np.int32)


def apply(
    section: Mapping[str, Any] | None,
    seed: int,
    train: tuple[NDArray[Any], NDArray[Any]],
    test_labels: NDArray[Any],
    num_classes: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Training and test labels under the noise that a problem's section says.

    Args:
      section: ``rate`` of `label_noise` and ``test``, whether test labels are changed too, at the
        clients' mean rate; None for no noise.
      seed: integer in ``[0, 2**32)``.
      train: labels int[E] and owners int[E].
      test_labels: int[T].
      num_classes: K.

    Returns:
      Labels int[E] and int[T].

    Raises:
      ValueError: if the section is no such thing.
    """
    labels, clients = train
    if section is None:
        return labels, test_labels
    if not isinstance(section, Mapping):
        raise errors.invalid('label_noise', 'be a section', errors.shown(section))
    checks.options('label_noise', _read, section)
    rate, is_test = _read(**section)
    key = jax.random.fold_in(jax.random.key(np.uint32(seed)), _STREAM)
    keys = [jax.random.fold_in(key, part) for part in range(2)]  # of training and of test labels
    with errors.inside('label_noise'):
        labels = label_noise(keys[0], labels, num_classes=num_classes, rate=rate, clients=clients)
    if is_test:
        rate = float(np.mean(rate))
        test_labels = label_noise(keys[1], test_labels, num_classes=num_classes, rate=rate)
    return labels, test_labels


def _read(*, rate: float | Sequence[float], test: bool = False) -> tuple[Any, bool]:
    """What a section says."""
    return rate, test
