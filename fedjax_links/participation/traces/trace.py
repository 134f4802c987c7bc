"""Recorded availability: intervals in which clients are up, looked up by binary search.

The intervals of all clients are packed once into one sorted array of edges with an offset per
client. A round's look-up is stateless and costs O(N log K) for K intervals per client; memory is
O(all intervals) whatever the tick, where a bit per client and round would need gigabytes for a week
of seconds and lose the intervals' own resolution when the tick changes.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.core import checks, errors

WRAPS = {'day': 86_400.0, 'week': 604_800.0}
TOLERANCE = 1e-9  # of a tick: a time this close to a tick is on it


class Intervals(NamedTuple):
    """Availability of clients in seconds, half-open intervals ``[start, end)``.

    Build one with `intervals` or the readers in `trace_formats`.

    Attributes:
      client: int64[K], client of each interval.
      start: float64[K], seconds.
      end: float64[K], seconds.
      source: int64[K], where each interval comes from: a line of a file or a row of an array.
      unit: what ``source`` counts, ``'line'`` or ``'row'``.
      names: name of each of the N clients.
      period: seconds after which the log repeats, where its format says so: float64[N], else None.
    """

    client: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    source: NDArray[np.int64]
    unit: str
    names: tuple[str, ...]
    period: NDArray[np.float64] | None = None

    def first(self, num_clients: int) -> 'Intervals':
        """Those of the first clients, or of all if there are not so many."""
        keep = self.client < num_clients
        rows = {name: getattr(self, name)[keep] for name in ('client', 'start', 'end', 'source')}
        period = None if self.period is None else self.period[:num_clients]
        return self._replace(**rows, names=self.names[:num_clients], period=period)


def intervals(
    client: ArrayLike, start: ArrayLike, end: ArrayLike, *, num_clients: int | None = None
) -> Intervals:
    """Intervals from arrays.

    Args:
      client: int[K], ids from 0.
      start: float[K], seconds.
      end: float[K], seconds, not before ``start``.
      num_clients: N; one more than the largest id by default.

    Returns:
      The intervals.

    Raises:
      ValueError: if shapes differ or an id is out of range.

    Example:
      >>> from fedjax_links import participation
      >>> log = participation.intervals(client=[0, 0, 1], start=[0, 7, 3], end=[4, 9, 10])
      >>> print(participation.availability(log, tick=1, rounds=10).astype(int).T)
      [[1 1 1 1 0 0 0 1 1 0]
       [0 0 0 1 1 1 1 1 1 1]]
    """
    ids, starts, ends = np.asarray(client), np.asarray(start, float), np.asarray(end, float)
    if ids.ndim != 1 or not ids.shape == starts.shape == ends.shape:
        shapes = f'{ids.shape}, {starts.shape} and {ends.shape}'
        raise errors.invalid('client', 'have the shape [K] of `start` and `end`', shapes)
    if ids.size and ids.dtype.kind not in 'iu':
        raise errors.invalid('client', 'be integers', f'dtype {ids.dtype}')
    count = int(ids.max(initial=-1)) + 1 if num_clients is None else num_clients
    checks.static_int('num_clients', count)
    unknown = (ids < 0) | (ids >= count)
    if unknown.any():
        where = f'{ids[unknown][0]} on row {np.argmax(unknown)}'
        raise errors.invalid('client', f'lie in [0, {count - 1}]', where)
    names = tuple(map(str, range(count)))
    return Intervals(ids.astype(np.int64), starts, ends, np.arange(len(ids)), 'row', names)


def as_intervals(recording: Intervals | ArrayLike) -> Intervals:
    """The recording, or the one that rows (client, start, end) stand for."""
    if isinstance(recording, Intervals):
        return recording
    rows = checks.numbers('intervals', recording).astype(float)
    if rows.ndim != 2 or rows.shape[1] != 3:
        requirement = 'be Intervals or rows (client, start, end)'
        raise errors.invalid('intervals', requirement, f'shape {list(rows.shape)}')
    client, start, end = rows.T
    whole = client == np.rint(client)
    if not whole.all():
        raise errors.invalid('intervals', 'name clients by whole numbers', client[~whole][0])
    return intervals(client.astype(int), start, end)


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
    options: Any = {'tick': tick, 'wrap': wrap, 'overlaps': overlaps}
    if rounds is None:
        packed = pack(within_wrap(as_intervals(intervals), **options, whole_ticks=True), tick)
    else:
        packed = pack_rounds(availability(intervals, **options, rounds=rounds))
    edges, offsets, period = (array.astype(np.int32) for array in packed)
    steps = int(np.diff(packed.offsets).max(initial=0)).bit_length()
    dtype = jnp.result_type(float)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        time = jnp.mod(round, period)
        every, low, high = map(jnp.asarray, (edges, offsets[:-1], offsets[1:]))
        for _ in range(steps):  # the first later edge lies in [low, high]
            middle = (low + high) // 2
            passed = (low < high) & (every[jnp.minimum(middle, len(edges) - 1)] <= time)
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


def check_times(intervals: Intervals) -> None:
    """Refuses no intervals at all, and times that are not finite, negative or out of order."""
    if not len(intervals.client):
        raise errors.invalid('intervals', 'have at least one interval', 'none')
    finite = np.isfinite(intervals.start) & np.isfinite(intervals.end)
    _refuse(intervals, ~finite, 'be finite')
    _refuse(intervals, intervals.start < 0, 'start at 0 or later')
    _refuse(intervals, intervals.end < intervals.start, 'end after they start')


def within_wrap(
    log: Intervals, *, tick: float, wrap: str | ArrayLike | None, overlaps: str, whole_ticks: bool
) -> Intervals:
    """What is repeated of a log, validated; what runs past the wrap goes on at the beginning.

    Args:
      log: the intervals.
      tick: seconds per round.
      wrap: as in `trace`; the last end by default, if the log's format says nothing.
      overlaps: as in `trace`.
      whole_ticks: whether the wrap must be a multiple of the tick; the last end is rounded up.

    Returns:
      The intervals of one period, by client, start and end, with the period of each client.

    Raises:
      ValueError: for options out of range, times as in `check_times`, an interval that starts after
        the wrap or overlaps another.
    """
    checks.positive('tick', tick)
    checks.choice('overlaps', overlaps, ('reject', 'merge'))
    check_times(log)
    seconds = _wrap_seconds(log, tick, wrap, whole_ticks)
    limit = seconds[log.client]
    late = log.start >= limit
    _refuse(log, late, f'start before the wrap at {limit[np.argmax(late)]:g} s')
    ends = np.minimum(log.end, log.start + limit)
    past = ends > limit
    client, source = (np.r_[each, each[past]] for each in (log.client, log.source))
    start = np.r_[log.start, np.zeros(past.sum())]
    end = np.r_[np.minimum(ends, limit), (ends - limit)[past]]
    order = np.lexsort((end, start, client))
    client, start, end, source = (each[order] for each in (client, start, end, source))
    # Sorted by start, intervals are disjoint if and only if neighbours are.
    early = (client[1:] == client[:-1]) & (start[1:] < end[:-1] - TOLERANCE * tick)
    if overlaps == 'reject' and early.any():
        row = int(np.argmax(early))
        one, other = sorted(source[row : row + 2])
        what = f'client {log.names[client[row]]} on {log.unit}s {one} and {other}'
        raise errors.invalid('intervals', "not overlap unless `overlaps` is 'merge'", what)
    return Intervals(client, start, end, source, log.unit, log.names, seconds)


def round_up(times: NDArray[np.float64], tick: float) -> NDArray[np.int64]:
    """First round that does not come before each time."""
    rounds = times / tick
    return np.ceil(rounds - TOLERANCE * np.maximum(1, rounds)).astype(np.int64)


def _wrap_seconds(
    log: Intervals, tick: float, wrap: str | ArrayLike | None, whole_ticks: bool
) -> NDArray[np.float64]:
    """float64[N], the seconds after which each client's log repeats."""
    if isinstance(wrap, str):
        checks.choice('wrap', wrap, WRAPS)
        wrap = WRAPS[wrap]
    seconds = log.period if wrap is None else wrap
    if seconds is None:
        last = log.end.max()
        seconds = round_up(last, tick) * tick if whole_ticks else last
    if np.shape(seconds) not in ((), (len(log.names),)):
        allowed = f'be one number or {len(log.names)}'
        raise errors.invalid('wrap', allowed, f'shape {np.shape(seconds)}')
    checks.positive('wrap', seconds)
    each: NDArray[np.float64] = np.broadcast_to(np.asarray(seconds, float), (len(log.names),))
    whole = np.rint(each / tick)
    bad = (np.abs(each / tick - whole) > 1e-6) | (whole < 1) | (whole > 2**30)
    if whole_ticks and bad.any():
        requirement = 'be a whole number of ticks (unless `rounds` are given)'
        raise errors.invalid('wrap', requirement, f'{(each / tick)[np.argmax(bad)]:g} ticks')
    return whole * tick if whole_ticks else each


def _refuse(log: Intervals, bad: NDArray[np.bool_], requirement: str) -> None:
    """Raises for the first bad interval, if there is one."""
    if bad.any():
        row = int(np.argmax(bad))
        times, where = f'{log.start[row]:g} to {log.end[row]:g}', f'{log.unit} {log.source[row]}'
        raise errors.invalid('intervals', requirement, f'{times} s on {where}')


class PackedTrace(NamedTuple):
    """Edges of the availability of N clients, in rounds.

    Attributes:
      edges: int64[E], per client the rounds in which it comes up, goes down, comes up, ...;
        strictly increasing.
      offsets: int64[N + 1], client i owns ``edges[offsets[i]:offsets[i + 1]]``.
      period: int64[N], rounds after which each client's availability repeats.
    """

    edges: NDArray[np.int64]
    offsets: NDArray[np.int64]
    period: NDArray[np.int64]


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
    return PackedTrace(edges, np.r_[0, np.cumsum(counts)], period)


def pack_rounds(mask: NDArray[np.bool_]) -> PackedTrace:
    """The edges of recorded rounds bool[T, N], which repeat after the last."""
    num_rounds, num_clients = mask.shape
    changes = np.diff(np.pad(mask.T, ((0, 0), (1, 1))), axis=1)
    client, edges = np.nonzero(changes)
    counts = np.bincount(client, minlength=num_clients)
    return PackedTrace(edges, np.r_[0, np.cumsum(counts)], np.full(num_clients, num_rounds))
