"""What the partitioners share: their random stream and their redraws."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedjax_links.core import checks, errors

MAX_TRIES = 100
HOLDOUTS = 1  # the stream of what is held out
_STREAM = 0x5041  # keeps partitions independent of other host draws that use the same seed


def generator(seed: int, *streams: int) -> np.random.Generator:
    """The partition stream of ``seed``, an integer in ``[0, 2**32)``, or another of the same."""
    checks.seed('seed', seed)
    return np.random.default_rng([int(seed), _STREAM, *streams])


def seeds(seed: int, data_seed: int | None, partition_seed: int | None) -> tuple[int, int]:
    """The seeds of data and of the partition, in ``[0, 2**32)``; ``seed`` for each that is None."""
    checks.seed('seed', seed)
    data_seed = seed if data_seed is None else data_seed
    partition_seed = seed if partition_seed is None else partition_seed
    checks.seed('data_seed', data_seed)
    checks.seed('partition_seed', partition_seed)
    return data_seed, partition_seed


def until_all_own(
    num_clients: int, num_examples: int, draw: Callable[[], NDArray[np.int32]]
) -> NDArray[np.int32]:
    """Draws partitions until every client owns an example, at most `MAX_TRIES` times.

    A first draw that satisfies is returned as it is; otherwise the result follows the law of the
    partition given that all clients own something.

    Args:
      num_clients: N, at most E.
      num_examples: E.
      draw: returns a fresh partition int32[E].

    Returns:
      The first satisfying partition, int32[E].

    Raises:
      ValueError: if there are more clients than examples or no draw satisfies.
    """
    checks.static_int('num_clients', num_clients, maximum=num_examples)
    for _ in range(MAX_TRIES):
        clients = draw()
        if np.bincount(clients, minlength=num_clients).all():
            return clients
    requirement = f'leave every client an example in one of {MAX_TRIES} draws'
    raise errors.invalid('num_clients', requirement, num_clients)
