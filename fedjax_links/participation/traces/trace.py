"""Replays recorded availability, which a round looks up by binary search.

A recording lists the intervals in which each client was up (`Intervals`). All intervals are packed
once into one sorted array of edges, with an offset per client. An edge is a round in which a client
goes up or down. A round's look-up is stateless and costs O(N log K) for K intervals per client.
Memory is O(all intervals), whatever a round lasts. A bit per client and round would need gigabytes
for a week of rounds of one second.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.core import checks, errors
from fedjax_links.participation.traces.intervals import (
    DAY,
    Intervals,
    as_intervals,
    check_tick,
    require_none,
    warn_about,
)

WRAPS = {'day': DAY, 'week': 7 * DAY}
TOLERANCE = 1e-9
"""Part of a tick (the length of a round): a time this close to a round's start is on it."""


def trace(
    intervals: Intervals | ArrayLike,
    *,
    tick: float = 1.0,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
    rounds: int | None = None,
    clients: Sequence[object] | None = None,
) -> Participation:
    """Replays recorded availability: round t has the clients up at time ``t * tick``.

    Args:
      intervals: the recording, in seconds from its beginning, or rows (client, start, end), or a
        data frame with these columns. A warning reports what the recording's reader guessed.
      tick: seconds per round, positive, at most the length of the log. With the default of 1,
        times count rounds.
      wrap: seconds after which the recording repeats, a multiple of ``tick``: ``'day'``,
        ``'week'``, a number, or float[N]. By default `Intervals.period`; if this is None, the
        last end, rounded up to a multiple of ``tick``. An interval that runs past the wrap
        continues at the beginning.
      overlaps: ``'reject'`` refuses overlapping intervals of a client, ``'merge'`` takes the union
        of such intervals. Intervals that touch are merged in either case.
      rounds: number of rounds after which the replay starts again. The wrap then need not be a
        multiple of ``tick`` (`availability`); in measured logs it rarely is.
      clients: names of clients of the recording, in the order of the problem's clients, such as
        ``problem.client_names``; by default all clients, in the recording's order.

    Returns:
      The pattern. It has no carry and reports probability one or zero: nothing is random.

    Raises:
      ValueError: for an interval that is not finite, is negative in time or length, starts after
        the wrap or overlaps another; the message names its line or row.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> rows = [(0, 0, 20), (0, 30, 40), (1, 10, 40)]  # client, start, end in seconds
      >>> pattern = participation.trace(rows, tick=10)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=6)
      >>> print(links.mask.astype(int).T)
      [[1 1 0 1 1 1]
       [0 1 1 1 0 1]]
    """
    log = as_intervals(intervals)
    warn_about(log)
    if clients is not None:
        log = log.select(clients)
    if rounds is None:
        client, edges, period = _edges(log, tick=tick, wrap=wrap, overlaps=overlaps)
    else:
        mask = availability(log, tick=tick, wrap=wrap, overlaps=overlaps, rounds=rounds)
        client, edges = np.nonzero(np.diff(np.pad(mask.T, ((0, 0), (1, 1))), axis=1))
        period = np.full(mask.shape[1], rounds)
    offsets = np.searchsorted(client, np.arange(len(period) + 1))
    num_steps = int(np.diff(offsets).max()).bit_length()
    edge_rounds = edges.astype(np.int32)
    first_edges = offsets[:-1].astype(np.int32)
    stop_edges = offsets[1:].astype(np.int32)
    periods = period.astype(np.int32)
    dtype = jnp.result_type(float)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        rounds_of_edges = jnp.asarray(edge_rounds)
        first = jnp.asarray(first_edges)
        stop = jnp.asarray(stop_edges)
        time = jnp.mod(round, jnp.asarray(periods))
        # Binary search for each client's first edge after `time`, which lies in [low, high].
        low = first
        high = stop
        for _ in range(num_steps):
            middle = (low + high) // 2
            is_open = low < high
            middle_round = rounds_of_edges[jnp.minimum(middle, len(edges) - 1)]
            is_past = is_open & (middle_round <= time)
            low = jnp.where(is_past, middle + 1, low)
            high = jnp.where(is_past, high, middle)
        # A client goes up at edges 0, 2, ..., so it is up after an odd number of edges.
        mask = (low - first) % 2 == 1
        return carry, LinkSample(mask=mask, prob=mask.astype(dtype))

    return Participation(
        init=lambda key: (),
        sample=sample,
        num_clients=len(period),
        cycle=math.lcm(*set(period.tolist())),
        client_names=log.names if log.has_names else (),
    )


def availability(
    intervals: Intervals | ArrayLike,
    *,
    tick: float = 1.0,
    rounds: int | None = None,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
    clients: Sequence[object] | None = None,
) -> NDArray[np.bool_]:
    """Returns who is up in each round, at the times ``0, tick, 2 tick, ...``.

    Each client's log repeats after ``wrap``, which need not be a whole number of ticks.

    Args:
      intervals: as in `trace`.
      tick: as in `trace`.
      rounds: T; by default the number of whole days in the longest client's log, at least one day.
      wrap: as in `trace`, but any positive number of seconds; the last end is not rounded up.
      overlaps: as in `trace`.
      clients: as in `trace`: the clients in the columns of the result.

    Returns:
      bool[T, N], which `replay` plays and `analysis` describes.

    Raises:
      ValueError: as for `trace`, and if the matrix exceeds the memory of the machine.
    """
    log = as_intervals(intervals)
    check_tick(log, tick, wrap)
    if clients is not None:
        log = log.select(clients)
    if rounds is None:
        seconds = log.last_end if log.period is None else np.max(log.period)
        days = max(1, int(seconds / WRAPS['day'] + 1e-9))
        rounds = max(1, round(days * WRAPS['day'] / tick))
    checks.static_int('rounds', rounds)
    num_clients = len(log.names)
    # The matrix, and for one client at a time eight float64 vectors over rounds.
    checks.fits('rounds', rounds, float(rounds) * (num_clients + 64))
    period = _wrap_seconds(log, wrap, log.last_end)
    log = _within_wrap(log, period, tick, overlaps)
    mask = np.zeros((num_clients, rounds), bool)
    offsets = np.searchsorted(log.client, np.arange(num_clients + 1))
    # Shift times later by a tolerance, so that an interval that ends at a tick is over there.
    ticks = np.arange(rounds) * np.float64(tick)
    tolerance = _tolerance(ticks, tick)
    times = ticks + tolerance
    for i in np.unique(log.client):
        rows = slice(offsets[i], offsets[i + 1])
        latest_end = np.maximum.accumulate(log.end[rows])
        phase = np.mod(times, period[i])
        # Find the last interval that starts by each time. The client is up if this interval or
        # an earlier one ends later.
        last = np.searchsorted(log.start[rows], phase, side='right') - 1
        mask[i] = (last >= 0) & (phase < latest_end[last] + tolerance * 0.5)
    return mask.T


def _wrap_seconds(
    log: Intervals, wrap: str | ArrayLike | None, last_end: float
) -> NDArray[np.float64]:
    """Returns the seconds after which each client's log repeats, float64[N]."""
    if isinstance(wrap, str):
        checks.choice('wrap', wrap, WRAPS)
        wrap = WRAPS[wrap]
    seconds = log.period if wrap is None else wrap
    seconds = last_end if seconds is None else seconds
    checks.positive('wrap', seconds)
    checks.one_or_each('wrap', seconds, len(log.names))
    return np.broadcast_to(np.asarray(seconds, float), len(log.names))


def _within_wrap(
    log: Intervals, period: NDArray[np.float64], tick: float, overlaps: str
) -> Intervals:
    """Returns the intervals of one period, sorted by client, start and end.

    The part of an interval that runs past the wrap continues at the beginning.

    Raises:
      ValueError: for an interval that starts after the wrap or overlaps another.
    """
    checks.choice('overlaps', overlaps, ('reject', 'merge'))
    wrap = period[log.client]
    is_late = log.start >= wrap
    first_wrap = wrap[np.argmax(is_late)]
    require_none(log, is_late, f'start before the wrap at {first_wrap:g} s')
    ends = np.minimum(log.end, log.start + wrap)
    is_past = ends > wrap
    client = np.r_[log.client, log.client[is_past]]
    source = np.r_[log.source, log.source[is_past]]
    start = np.r_[log.start, np.zeros(is_past.sum())]
    end = np.r_[np.minimum(ends, wrap), (ends - wrap)[is_past]]
    order = np.lexsort((end, start, client))
    wrapped = log._replace(
        client=client[order], start=start[order], end=end[order], source=source[order]
    )
    if overlaps == 'reject':
        _reject_overlaps(wrapped, TOLERANCE * tick)
    return wrapped


def _reject_overlaps(log: Intervals, tolerance: float) -> None:
    """Raises for the first two intervals of a client that overlap by more than ``tolerance``."""
    # Sorted by start, intervals are disjoint if and only if neighbours are.
    overlaps_next = log.start[1:] < log.end[:-1] - tolerance
    overlaps_next &= log.client[1:] == log.client[:-1]
    if overlaps_next.any():
        row = int(np.argmax(overlaps_next))
        one, other = sorted(log.source[row : row + 2])
        name = log.names[log.client[row]]
        got = f'client {name} on {log.unit}s {one} and {other}'
        requirement = "not overlap unless `overlaps` is 'merge'"
        raise errors.invalid('intervals', requirement, got)


def _edges(
    log: Intervals,
    *,
    tick: float,
    wrap: str | ArrayLike | None,
    overlaps: str,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Finds the edges: the rounds in which clients go up, down, up, ...

    Returns:
      The client of each edge, in order; the round of each edge, increasing for each client; and
      the number of rounds after which each client's availability repeats, int64[N].
    """
    check_tick(log, tick, wrap)
    last_end = float(_round_up(log.last_end, tick) * tick)
    ticks = _wrap_seconds(log, wrap, last_end) / tick
    period = np.rint(ticks).astype(np.int64)
    is_bad = (np.abs(ticks - period) > 1e-6) | (period < 1) | (period > 2**30)
    if is_bad.any():
        requirement = (
            'be a whole number of ticks, at most 2^30 (unless `rounds` are given)'
        )
        raise errors.invalid('wrap', requirement, f'{ticks[np.argmax(is_bad)]:g} ticks')
    log = _within_wrap(log, period * np.float64(tick), tick, overlaps)
    first = _round_up(log.start, tick)
    stop = _round_up(log.end, tick)
    # No round sees an interval that lies between two ticks.
    is_seen = stop > first
    client = log.client[is_seen]
    # Shift each client's times past the previous client's. Then one pass merges intervals that
    # touch.
    shift = client * (2 * period.max() + 2)
    start = first[is_seen] + shift
    latest_stop = np.maximum.accumulate(stop[is_seen] + shift)
    opens = np.r_[True, start[1:] > latest_stop[:-1]][: len(start)]
    closes = np.r_[opens[1:], True][: len(start)]
    rises = (start - shift)[opens]
    falls = (latest_stop - shift)[closes]
    edges = np.stack([rises, falls], axis=1)
    return np.repeat(client[opens], 2), edges.ravel(), period


def _round_up(times: Any, tick: float) -> NDArray[np.int64]:
    """Returns the first round that starts at each time or later, up to the tolerance."""
    rounds = times / tick
    return np.ceil(rounds - _tolerance(rounds, 1.0)).astype(np.int64)


def _tolerance(times: Any, tick: float) -> Any:
    """Returns by how much times may miss a tick: a part of the tick, or the rounding of times."""
    rounding = 4 * np.finfo(np.float64).eps * times
    return np.maximum(TOLERANCE * tick, rounding)
