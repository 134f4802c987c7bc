"""Recorded availability: intervals in which clients are up, looked up by binary search.

The intervals of all clients are packed once into one sorted array of edges with an offset per
client. A round's look-up is stateless and costs O(N log K) for K intervals per client; memory is
O(all intervals) whatever the tick, where a bit per client and round would need gigabytes for a week
of seconds and lose the intervals' own resolution when the tick changes.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.core import checks
from fedjax_links.participation.traces.intervals import (
    TOLERANCE,
    WRAPS,
    Intervals,
    as_intervals,
    check_times,
    of_mask,
    round_up,
    within_wrap,
)


class PackedTrace(NamedTuple):
    """Edges of the availability of N clients, in rounds.

    Attributes:
      edges: int32[E], per client the rounds in which it comes up, goes down, comes up, ...;
        strictly increasing.
      offsets: int32[N + 1], client i owns ``edges[offsets[i]:offsets[i + 1]]``.
      period: int32[N], rounds after which each client's availability repeats.
    """

    edges: NDArray[np.int32]
    offsets: NDArray[np.int32]
    period: NDArray[np.int32]


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
    log = as_intervals(intervals)
    if rounds is None:
        log = within_wrap(log, tick=tick, wrap=wrap, overlaps=overlaps, whole_ticks=True)
    else:
        mask = availability(log, tick=tick, rounds=rounds, wrap=wrap, overlaps=overlaps)
        log = of_mask(mask, seconds=tick)
    packed = pack(log, tick)
    edges, offsets, period = map(jnp.asarray, packed)
    steps = int(np.diff(packed.offsets).max(initial=0)).bit_length()
    dtype = jnp.result_type(float)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        time = jnp.mod(round, period)
        low, high = offsets[:-1], offsets[1:]  # the first later edge lies in [low, high]
        for _ in range(steps):
            middle = (low + high) // 2
            passed = (low < high) & (edges[jnp.minimum(middle, len(edges) - 1)] <= time)
            low, high = jnp.where(passed, middle + 1, low), jnp.where(passed, high, middle)
        mask = (low - offsets[:-1]) % 2 == 1
        return carry, LinkSample(mask=mask, prob=mask.astype(dtype))

    cycle = math.lcm(*set(packed.period.tolist()))
    return Participation(lambda key: (), sample, num_clients=len(packed.period), cycle=cycle)


def availability(
    intervals: Intervals | ArrayLike,
    *,
    tick: float = 1.0,
    rounds: int | None = None,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
) -> NDArray[np.bool_]:
    """Who is up at the times ``0, tick, 2 tick, ...`` of rounds.

    Every client's log repeats after its own length, whatever that is in ticks.

    Args:
      intervals: as in `trace`.
      tick: seconds per round, positive.
      rounds: T; by default the whole days of the longest client's log, and at least one.
      wrap: as in `trace`, but any positive number of seconds; the last end is not rounded up.
      overlaps: as in `trace`.

    Returns:
      bool[T, N], which `replay` plays and `analysis` describes.

    Raises:
      ValueError: as for `trace`, and if the matrix exceeds the memory of the machine.
    """
    checks.positive('tick', tick)
    log = as_intervals(intervals)
    check_times(log)
    if rounds is None:
        seconds = np.max(log.end if log.period is None else log.period)
        days = max(1, int(seconds / WRAPS['day'] + 1e-9))
        rounds = max(1, round(days * WRAPS['day'] / tick))
    checks.static_int('rounds', rounds)
    num_clients = len(log.names)
    checks.fits('rounds', rounds, float(rounds) * num_clients)
    log = within_wrap(log, tick=tick, wrap=wrap, overlaps=overlaps, whole_ticks=False)
    mask = np.zeros((num_clients, rounds), bool)
    offsets = np.searchsorted(log.client, np.arange(num_clients + 1))
    nearly, period = TOLERANCE * tick, np.asarray(log.period)
    times = np.arange(rounds) * np.float64(tick) + nearly
    for i in np.unique(log.client):
        own = slice(offsets[i], offsets[i + 1])
        reach = np.maximum.accumulate(log.end[own])
        phase = np.mod(times, period[i])
        last = np.searchsorted(log.start[own], phase, side='right') - 1
        mask[i] = (last >= 0) & (phase < reach[last] + nearly * 0.5)
    return mask.T


def pack(log: Intervals, tick: float) -> PackedTrace:
    """The edges of every client.

    Args:
      log: one period of a log, by client and start; periods are whole numbers of rounds.
      tick: seconds per round.
    """
    first, last = round_up(log.start, tick), round_up(log.end, tick)
    keep = last > first  # shorter than a tick and between two: no round sees it
    client, first, last = log.client[keep], first[keep], last[keep]
    period = np.rint(np.asarray(log.period) / tick).astype(np.int64)
    # Unions of what touches, by clients one behind the other.
    shift = client * (2 * period.max() + 2)
    reach = np.maximum.accumulate(last + shift)
    opens = np.r_[True, (first + shift)[1:] > reach[:-1]][: len(client)]
    closes = np.r_[opens[1:], True][: len(client)]
    edges = np.stack([first[opens], (reach - shift)[closes]], axis=1).ravel()
    counts = 2 * np.bincount(client[opens], minlength=len(period))
    offsets = np.r_[0, np.cumsum(counts)]
    return PackedTrace(*(each.astype(np.int32) for each in (edges, offsets, period)))
