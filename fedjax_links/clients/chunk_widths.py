"""Divides a cohort among chunks of a few static widths, by the cohort's size alone.

A cohort lists the clients that compute in a round, its members. A chunk is a part of the cohort
that runs in parallel. The width of a chunk is its number of slots, filled or empty.

A compiled chunk has one width, and its empty slots cost as much as clients. With several widths
the last chunks are nearly full, and the client's program is compiled once for each width.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array
from fedjax_links.core import checks, errors

ChunkSize = int | tuple[int, ...]
"""One width, or several in increasing order."""

_CHUNK_COST = 1.5
"""The cost of one more chunk, beside its slots, in slots (two CPU cores, ``benchmarks.micro``)."""
_TABLE_CHUNKS = 4
"""How many chunks of the largest width the largest tabulated cohort fills. Not measured.

`_cheapest_division` makes the table. A larger cohort first fills chunks of the largest width, which
cost the least per slot. The table then divides its remaining members.
"""


def checked(chunk_size: int | Sequence[int]) -> ChunkSize:
    """Returns a width, or several in increasing order, as Python integers.

    Raises:
      ValueError: for anything but positive integers, and for no width.
    """
    if not isinstance(chunk_size, Sequence):
        checks.static_int('chunk_size', chunk_size)
        return int(chunk_size)
    if not chunk_size:
        raise errors.invalid('chunk_size', 'have at least one width', chunk_size)
    for width in chunk_size:
        checks.static_int('chunk_size', width)
    return tuple(sorted({int(width) for width in chunk_size}))


def at_most(chunk_size: ChunkSize, num_slots: int) -> ChunkSize:
    """Caps the widths at ``num_slots``, which a cohort never exceeds."""
    if isinstance(chunk_size, int):
        return min(chunk_size, num_slots)
    return tuple(sorted({min(width, num_slots) for width in chunk_size}))


def largest(chunk_size: ChunkSize) -> int:
    """Returns the largest width."""
    return chunk_size if isinstance(chunk_size, int) else chunk_size[-1]


def divide(size: Array, widths: tuple[int, ...]) -> Array:
    """Returns how many chunks of each width hold the members.

    For cohorts of up to `_TABLE_CHUNKS` times the largest width, no other division costs less. A
    larger cohort first fills chunks of the largest width, so another division may cost a little
    less.

    Args:
      size: int32[], the number of members.
      widths: K widths in increasing order.

    Returns:
      int32[K].
    """
    widest = widths[-1]
    table = _cheapest_division(widths)
    largest_in_table = len(table) - 1
    # Chunks of the largest width come first, until the rest is in the table.
    excess = jnp.maximum(size - largest_in_table, 0)
    num_first = (excess + widest - 1) // widest
    counts = jnp.asarray(table)[size - num_first * widest]
    return counts.at[-1].add(num_first)


def _cheapest_division(widths: tuple[int, ...]) -> np.ndarray:
    """Tabulates the cheapest chunks of each width, by the number of members.

    Args:
      widths: K widths in increasing order.

    Returns:
      int32[M + 1, K], where M is `_TABLE_CHUNKS` times the largest width.
    """
    most = _TABLE_CHUNKS * widths[-1]
    counts = np.zeros((most + 1, len(widths)), np.int32)
    cost = np.zeros(most + 1)
    for size in range(1, most + 1):
        left = np.maximum(size - np.asarray(widths), 0)
        costs = cost[left] + widths + _CHUNK_COST
        best = int(np.argmin(costs))
        cost[size] = costs[best]
        counts[size] = counts[left[best]]
        counts[size, best] += 1
    return counts
