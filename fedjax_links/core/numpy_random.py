"""NumPy's generators of problems: by seed, and by a stream for each of what is drawn."""

import numpy as np

from fedjax_links.core import checks


def generator(seed: int, stream: str, *parts: int) -> np.random.Generator:
    """The generator of a stream.

    Args:
      seed: integer in ``[0, 2**32)``.
      stream: letters that keep its draws apart from others of the same seed.
      *parts: of the stream, which are streams of their own.
    """
    checks.seed('seed', seed)
    return np.random.default_rng(
        [int(seed), int.from_bytes(stream.encode(), 'big'), *parts]
    )


def seeds(
    seed: int, data_seed: int | None, partition_seed: int | None
) -> tuple[int, int]:
    """The seeds of data and of the partition, in ``[0, 2**32)``; ``seed`` for each that is None."""
    checks.seed('seed', seed)
    data_seed = seed if data_seed is None else data_seed
    partition_seed = seed if partition_seed is None else partition_seed
    checks.seed('data_seed', data_seed)
    checks.seed('partition_seed', partition_seed)
    return data_seed, partition_seed
