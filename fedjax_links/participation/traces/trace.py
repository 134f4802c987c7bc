"""Recorded availability: intervals in which clients are up, looked up by binary search.

The intervals of all clients are packed once into one sorted array of edges with an offset per
client. A round's look-up is stateless and costs O(N log K) for K intervals per client; memory is
O(all intervals) whatever the tick, where a bit per client and round would need gigabytes for a week
of seconds and lose the intervals' own resolution when the tick changes.
"""

import math

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.core import checks, errors
from fedjax_links.participation.traces.intervals import (
    TOLERANCE,
    Intervals,
    as_intervals,
    check_times,
    within_wrap,
    wrap_seconds,
)
from fedjax_links.participation.traces.packed_traces import pack, pack_mask


def trace(
    intervals: Intervals | ArrayLike,
    *,
    tick: float = 1.0,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
    rounds: int | None = None,
) -> Participation:
    """Round t plays the recording at time ``t * tick``: who is up then can deliver.

    Args:
      intervals: the recording, in seconds from its beginning, or rows (client, start, end).
      tick: seconds per round, positive.
      wrap: seconds after which the recording repeats, a multiple of ``tick``: ``'day'``,
        ``'week'``, a number, or float[N]. By default what the recording's format says, else the
        last end, rounded up to a tick. An interval may run past the wrap and goes on at the
        beginning.
      overlaps: ``'reject'`` refuses intervals of one client that overlap, ``'merge'`` takes their
        union. Intervals that touch are merged in either case.
      rounds: plays the first so many rounds again and again. Wraps then need not be multiples of
        ``tick``, as those of logs that were measured are not, see `availability`.

    Returns:
      The pattern. It has no carry and reports probability one or zero: nothing is random.

    Raises:
      ValueError: for an interval that is not finite, is negative in time or length, starts after
        the wrap or overlaps another; the message names its line or row.
    """
    recording = as_intervals(intervals)
    if rounds is None:
        packed = pack(recording, tick=tick, wrap=wrap, overlaps=overlaps)
    else:
        packed = pack_mask(
            availability(recording, tick=tick, rounds=rounds, wrap=wrap, overlaps=overlaps)
        )
    edges, offsets = jnp.asarray(packed.edges), jnp.asarray(packed.offsets)
    period = jnp.asarray(packed.period)
    steps = int(np.diff(packed.offsets).max(initial=0)).bit_length()
    dtype = jnp.result_type(float)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        del key
        time = jnp.mod(round, period)
        low, high = offsets[:-1], offsets[1:]  # the first later edge lies in [low, high]
        for _ in range(steps):
            middle = (low + high) // 2
            passed = (low < high) & (edges[jnp.minimum(middle, len(edges) - 1)] <= time)
            low, high = jnp.where(passed, middle + 1, low), jnp.where(passed, high, middle)
        mask = (low - offsets[:-1]) % 2 == 1
        return carry, LinkSample(mask=mask, prob=mask.astype(dtype))

    return Participation(
        init=lambda key: (),
        sample=sample,
        num_clients=len(recording.names),
        cycle=math.lcm(*set(packed.period.tolist())),
    )


def availability(
    intervals: Intervals | ArrayLike,
    *,
    tick: float = 1.0,
    rounds: int,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
) -> NDArray[np.bool_]:
    """Who is up at the times ``0, tick, 2 tick, ...`` of rounds.

    Every client's log repeats after its own length, whatever that is in ticks.

    Args:
      intervals: as in `trace`.
      tick: seconds per round, positive.
      rounds: T.
      wrap: as in `trace`, but any positive number of seconds; the last end is not rounded up.
      overlaps: as in `trace`.

    Returns:
      bool[T, N], which `replay` plays and `analysis` describes.

    Raises:
      ValueError: as for `trace`, and if the matrix exceeds the memory of the machine.
    """
    checks.positive('tick', tick)
    checks.static_int('rounds', rounds)
    checks.choice('overlaps', overlaps, ('reject', 'merge'))
    recording = as_intervals(intervals)
    check_times(recording)
    num_clients = len(recording.names)
    checks.fits('rounds', rounds, float(rounds) * num_clients)
    period = wrap_seconds(recording, wrap)
    period = np.broadcast_to(recording.end.max() if period is None else period, (num_clients,))
    if (period <= 0).any():
        raise errors.invalid('wrap', 'be positive', period.min())
    client, start, end, _ = within_wrap(recording, period, tick=tick, overlaps=overlaps)
    mask = np.zeros((num_clients, rounds), bool)
    offsets = np.searchsorted(client, np.arange(num_clients + 1))
    nearly = TOLERANCE * tick
    times = np.arange(rounds) * np.float64(tick) + nearly
    for i in np.unique(client):
        begins = start[offsets[i] : offsets[i + 1]]
        reach = np.maximum.accumulate(end[offsets[i] : offsets[i + 1]])
        phase = np.mod(times, period[i])
        last = np.searchsorted(begins, phase, side='right') - 1
        mask[i] = (last >= 0) & (phase < reach[last] + nearly * 0.5)
    return mask.T
