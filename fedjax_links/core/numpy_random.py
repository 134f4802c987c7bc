"""Makes NumPy's random generators for problems, one for each seed and stream."""

import numpy as np

from fedjax_links.core import checks


def generator(seed: int, stream: str, *parts: int) -> np.random.Generator:
    """Makes the generator of a stream.

    Args:
      seed: integer in ``[0, 2**32)``.
      stream: letters that keep the stream's draws apart from other draws of the same seed.
      *parts: numbers of a stream within the stream.
    """
    checks.seed('seed', seed)
    return np.random.default_rng(
        [int(seed), int.from_bytes(stream.encode(), 'big'), *parts]
    )


def seeds(
    seed: int, data_seed: int | None, partition_seed: int | None
) -> tuple[int, int]:
    """Returns the seeds of data and partition, in ``[0, 2**32)``; ``seed`` where one is None."""
    checks.seed('seed', seed)
    data_seed = seed if data_seed is None else data_seed
    partition_seed = seed if partition_seed is None else partition_seed
    checks.seed('data_seed', data_seed)
    checks.seed('partition_seed', partition_seed)
    return data_seed, partition_seed
