"""What the partitioners share: their random stream and their redraws."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedjax_links.core import checks, errors

MAX_TRIES = 100
_STREAM = 0x5041  # keeps partitions independent of other host draws that use the same seed


def generator(seed: int) -> np.random.Generator:
    """The partition stream of ``seed``, an integer in ``[0, 2**32)``."""
    checks.seed('seed', seed)
    return np.random.default_rng([int(seed), _STREAM])


def seeds(seed: int, data_seed: int | None, partition_seed: int | None) -> tuple[int, int]:
    """The seeds of data and of the partition, in ``[0, 2**32)``; ``seed`` for each that is None."""
    checks.seed('seed', seed)
    data_seed = seed if data_seed is None else data_seed
    partition_seed = seed if partition_seed is None else partition_seed
    checks.seed('data_seed', data_seed)
    checks.seed('partition_seed', partition_seed)
    return data_seed, partition_seed


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
    if min_examples:
        checks.static_int('num_clients', num_clients, maximum=num_examples)
    most = num_examples // num_clients
    checks.static_int('min_examples', min_examples, minimum=0, maximum=most)
    best = 0
    for _ in range(MAX_TRIES):
        clients = draw()
        smallest = int(np.bincount(clients, minlength=num_clients).min())
        if smallest >= min_examples:
            return clients
        best = max(best, smallest)
    requirement = f'be at most {best}, the best of {MAX_TRIES} draws'
    raise errors.invalid('min_examples', requirement, min_examples)
