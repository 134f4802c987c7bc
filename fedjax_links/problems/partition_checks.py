"""What the partitioners share: their argument checks, their random stream, their redraws."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links import checks, errors

fits = checks.fits

MAX_TRIES = 100
_STREAM = 0x5041  # keeps partitions independent of other host draws that use the same seed


def generator(seed: int) -> np.random.Generator:
    """The partition stream of ``seed``, an integer in ``[0, 2**32)``."""
    integer('seed', seed, 0, 2**32 - 1)
    return np.random.default_rng([int(seed), _STREAM])


def seeds(seed: int, data_seed: int | None, partition_seed: int | None) -> tuple[int, int]:
    """The seeds of data and of the partition, in ``[0, 2**32)``; ``seed`` for each that is None."""
    given = {'seed': seed, 'data_seed': data_seed, 'partition_seed': partition_seed}
    for name, value in given.items():
        if value is not None:
            integer(name, value, 0, 2**32 - 1)
    return (
        seed if data_seed is None else data_seed,
        seed if partition_seed is None else partition_seed,
    )


def integer(argument: str, value: Any, low: int, high: int) -> None:
    """Raises unless ``value`` is an integer in ``[low, high]``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise errors.invalid(argument, f'be an integer in [{low}, {high}]', errors.shown(value))


def positive(argument: str, value: float) -> None:
    """Raises unless ``value`` is a number above zero and below infinity."""
    checks.numbers(argument, value)
    if not value > 0:  # also refuses NaN
        raise errors.invalid(argument, 'be positive', value)
    if math.isinf(value):
        raise errors.invalid(argument, 'be finite', value)


def share(argument: str, value: float) -> None:
    """Raises unless ``value`` lies in [0, 1]."""
    checks.numbers(argument, value)
    if not 0 <= value <= 1:  # also refuses NaN
        raise errors.invalid(argument, 'lie in [0, 1]', value)


def ids(argument: str, value: ArrayLike) -> NDArray[np.int64]:
    """A non-empty vector of classes or clients, numbered from 0, as int64."""
    array = np.asarray(value)
    if array.ndim != 1 or array.size == 0:
        raise errors.invalid(argument, 'be a non-empty vector', f'shape {array.shape}')
    if not np.issubdtype(array.dtype, np.integer):
        raise errors.invalid(argument, 'have an integer dtype', array.dtype)
    if array.min() < 0:
        position = int(np.argmin(array))
        raise errors.invalid(argument, 'be at least 0', f'{array[position]} at {position}')
    return array.astype(np.int64)


def at_least(
    min_examples: int, num_clients: int, num_examples: int, draw: Callable[[], NDArray[np.int32]]
) -> NDArray[np.int32]:
    """Draws partitions until every client owns ``min_examples``, at most `MAX_TRIES` times.

    A first draw that satisfies is returned as it is; otherwise the result follows the law of the
    partition given that all clients have enough.

    Args:
      min_examples: fewest examples that a client may own, at most ``num_examples / num_clients``.
      num_clients: N.
      num_examples: E.
      draw: returns a fresh partition int32[E].

    Returns:
      The first satisfying partition, int32[E].

    Raises:
      ValueError: if ``min_examples`` is out of range or no draw satisfies it.
    """
    integer('min_examples', min_examples, 0, num_examples)
    if min_examples > 0:
        integer('num_clients', num_clients, 1, num_examples)
    integer('min_examples', min_examples, 0, num_examples // num_clients)
    best = 0
    for _ in range(MAX_TRIES):
        clients = draw()
        smallest = int(np.bincount(clients, minlength=num_clients).min())
        if smallest >= min_examples:
            return clients
        best = max(best, smallest)
    raise errors.invalid(
        'min_examples', f'be at most {best}, the best of {MAX_TRIES} draws', min_examples
    )
