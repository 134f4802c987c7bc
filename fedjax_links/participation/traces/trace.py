"""Recorded availability: intervals in which clients are up, looked up by binary search.

The intervals of all clients are packed once into one sorted array of edges with an offset per
client. A round's look-up is stateless and costs O(N log K) for K intervals per client; memory is
O(all intervals) whatever the tick, where a bit per client and round would need gigabytes for a week
of seconds and lose the intervals' own resolution when the tick changes.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.core import checks, errors
from fedjax_links.participation import schedules

WRAPS = {'day': 86_400.0, 'week': 604_800.0}
_YEAR = 366 * 86_400.0
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
      has_names: whether the recording itself names them; else they have numbers alone.
      length: seconds that the recording lasts at least, with clients that were left out.
      notes: what a reader had to guess, a line each.
      period: seconds after which the log repeats, where its format says so: float64[N], else None.
    """

    client: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    source: NDArray[np.int64]
    unit: str
    names: tuple[str, ...]
    period: NDArray[np.float64] | None = None
    has_names: bool = False
    length: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def last_end(self) -> float:
        """Seconds that the recording lasts."""
        return float(self.end.max(initial=self.length))

    def numbered(self) -> 'Intervals':
        """The same of clients with numbers alone, which any problem's clients meet by number."""
        return self._replace(has_names=False)

    def of(self, clients: Sequence[Any], others: Sequence[Any] = ()) -> 'Intervals':
        """Takes clients by their names.

        Args:
          clients: names, in the order of their new numbers.
          others: names that the recording may have besides; what it says of them is left out.

        Returns:
          The intervals of these clients; all, by number, where the recording has no names.

        Raises:
          ValueError: if it lacks one of the names, has others, or has another number of clients.
        """
        wanted = list(map(str, clients))
        if not self.has_names:
            if len(wanted) != len(self.names):
                raise errors.invalid(
                    'clients', f'be {len(self.names)} names', len(wanted)
                )
            return self
        checks.client_names('intervals', self.names, wanted, others)
        numbers = {name: number for number, name in enumerate(wanted)}
        new = np.array([numbers.get(name, -1) for name in self.names])
        place = np.array([self.names.index(name) for name in wanted])
        keep = new[self.client] >= 0
        rows: Any = {
            name: getattr(self, name)[keep] for name in ('start', 'end', 'source')
        }
        period = None if self.period is None else self.period[place]
        client = new[self.client[keep]]
        own: dict[str, Any] = {
            'names': tuple(wanted),
            'period': period,
            'length': self.last_end,
        }
        return self._replace(client=client, **own, **rows)

    def first(self, num_clients: int) -> 'Intervals':
        """Those of the first clients, or of all if there are not so many."""
        keep = self.client < num_clients
        rows = {
            name: getattr(self, name)[keep]
            for name in ('client', 'start', 'end', 'source')
        }
        period = None if self.period is None else self.period[:num_clients]
        names = self.names[:num_clients]
        return self._replace(**rows, names=names, period=period, length=self.last_end)


def intervals(
    client: ArrayLike,
    start: ArrayLike,
    end: ArrayLike,
    *,
    num_clients: int | None = None,
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
    ids, starts, ends = (
        np.asarray(client),
        np.asarray(start, float),
        np.asarray(end, float),
    )
    if ids.ndim != 1 or not ids.shape == starts.shape == ends.shape:
        shapes = f'{ids.shape}, {starts.shape} and {ends.shape}'
        raise errors.invalid(
            'client', 'have the shape [K] of `start` and `end`', shapes
        )
    if ids.size and ids.dtype.kind not in 'iu':
        raise errors.invalid('client', 'be integers', f'dtype {ids.dtype}')
    count = int(ids.max(initial=-1)) + 1 if num_clients is None else num_clients
    checks.static_int('num_clients', count)
    unknown = (ids < 0) | (ids >= count)
    if unknown.any():
        where = f'{ids[unknown][0]} on row {np.argmax(unknown)}'
        raise errors.invalid('client', f'lie in [0, {count - 1}]', where)
    names = tuple(map(str, range(count)))
    return Intervals(
        ids.astype(np.int64), starts, ends, np.arange(len(ids)), 'row', names
    )


def as_intervals(recording: Intervals | ArrayLike) -> Intervals:
    """The recording, or the one that rows (client, start, end) stand for.

    Raises:
      ValueError: for no such rows or none at all, for times that are not finite, negative or out of
        order, or if nobody is there for a year, as where times are counted from 1970.
    """
    if not isinstance(recording, Intervals):
        rows = checks.numbers('intervals', recording).astype(float)
        if rows.ndim != 2 or rows.shape[1] != 3:
            requirement = 'be Intervals or rows (client, start, end)'
            raise errors.invalid('intervals', requirement, f'shape {list(rows.shape)}')
        client, start, end = rows.T
        whole = client == np.rint(client)
        if not whole.all():
            raise errors.invalid(
                'intervals', 'name clients by whole numbers', client[~whole][0]
            )
        recording = intervals(client.astype(int), start, end)
    if not len(recording.client):
        raise errors.invalid('intervals', 'have at least one interval', 'none')
    finite = np.isfinite(recording.start) & np.isfinite(recording.end)
    _refuse(recording, ~finite, 'be finite')
    _refuse(recording, recording.start < 0, 'start at 0 or later')
    _refuse(recording, recording.end < recording.start, 'end after they start')
    first = float(recording.start.min())
    if first >= _YEAR:
        requirement = (
            "begin within a year of time 0, as with the origin 'first' of readers"
        )
        raise errors.invalid(
            'intervals', requirement, f'{first:.10g} s as the earliest start'
        )
    return recording


def _refuse(log: Intervals, bad: NDArray[np.bool_], requirement: str) -> None:
    """Raises for the first bad interval, if there is one."""
    if bad.any():
        row = int(np.argmax(bad))
        times, where = (
            f'{log.start[row]:g} to {log.end[row]:g}',
            f'{log.unit} {log.source[row]}',
        )
        raise errors.invalid('intervals', requirement, f'{times} s on {where}')


def trace(
    intervals: Intervals | ArrayLike,
    *,
    tick: float,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
    rounds: int | None = None,
    clients: Sequence[Any] | None = None,
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
      clients: names of the clients in their order, such as ``problem.client_names``, by which the
        recording's are taken where it has names; by default they keep its own order.

    Returns:
      The pattern. It has no carry and reports probability one or zero: nothing is random.

    Raises:
      ValueError: for an interval that is not finite, is negative in time or length, starts after
        the wrap or overlaps another; the message names its line or row.
    """
    options: Any = {'tick': tick, 'wrap': wrap, 'overlaps': overlaps}
    log = as_intervals(intervals)
    if clients is not None:
        log = log.of(clients)
    intervals = log
    if rounds is None:
        client, edges, period = _edges(intervals, **options)
    else:
        mask = availability(intervals, **options, rounds=rounds)
        client, edges = np.nonzero(np.diff(np.pad(mask.T, ((0, 0), (1, 1))), axis=1))
        period = np.full(mask.shape[1], rounds)
    offsets = np.searchsorted(client, np.arange(len(period) + 1))
    steps = int(np.diff(offsets).max()).bit_length()
    cycle = math.lcm(*set(period.tolist()))
    tables = [
        array.astype(np.int32) for array in (edges, offsets[:-1], offsets[1:], period)
    ]
    dtype = jnp.result_type(float)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, LinkSample]:
        every, begin, high, repeat = map(jnp.asarray, tables)
        time, low = jnp.mod(round, repeat), begin
        for _ in range(steps):  # the first later edge lies in [low, high]
            middle = (low + high) // 2
            passed = (low < high) & (every[jnp.minimum(middle, len(edges) - 1)] <= time)
            low, high = (
                jnp.where(passed, middle + 1, low),
                jnp.where(passed, high, middle),
            )
        mask = (low - begin) % 2 == 1
        return carry, LinkSample(mask=mask, prob=mask.astype(dtype))

    names = log.names if log.has_names else ()
    return Participation(lambda key: (), sample, len(period), cycle, client_names=names)


def availability(
    intervals: Intervals | ArrayLike,
    *,
    tick: float = 1.0,
    rounds: int | None = None,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
    clients: Sequence[Any] | None = None,
) -> NDArray[np.bool_]:
    """Who is up at the times ``0, tick, 2 tick, ...`` of rounds.

    Every client's log repeats after its own length, whatever that is in ticks.

    Args:
      intervals: as in `trace`.
      tick: seconds per round, positive.
      rounds: T; by default the whole days of the longest client's log, and at least one.
      wrap: as in `trace`, but any positive number of seconds; the last end is not rounded up.
      overlaps: as in `trace`.
      clients: as in `trace`; the columns of the matrix.

    Returns:
      bool[T, N], which `replay` plays and `analysis` describes.

    Raises:
      ValueError: as for `trace`, and if the matrix exceeds the memory of the machine.
    """
    checks.positive('tick', tick)
    log = as_intervals(intervals)
    if clients is not None:
        log = log.of(clients)
    if rounds is None:
        seconds = log.last_end if log.period is None else np.max(log.period)
        days = max(1, int(seconds / WRAPS['day'] + 1e-9))
        rounds = max(1, round(days * WRAPS['day'] / tick))
    checks.static_int('rounds', rounds)
    num_clients = len(log.names)
    checks.fits('rounds', rounds, float(rounds) * num_clients)
    period = _wrap_seconds(log, wrap, log.last_end)
    log = _within_wrap(log, period, tick, overlaps)
    mask = np.zeros((num_clients, rounds), bool)
    offsets = np.searchsorted(log.client, np.arange(num_clients + 1))
    nearly = TOLERANCE * tick
    times = np.arange(rounds) * np.float64(tick) + nearly
    for i in np.unique(log.client):
        own = slice(offsets[i], offsets[i + 1])
        reach = np.maximum.accumulate(log.end[own])
        phase = np.mod(times, period[i])
        last = np.searchsorted(log.start[own], phase, side='right') - 1
        mask[i] = (last >= 0) & (phase < reach[last] + nearly * 0.5)
    return mask.T


def _wrap_seconds(
    log: Intervals, wrap: str | ArrayLike | None, last_end: float
) -> NDArray[np.float64]:
    """float64[N], the seconds after which each client's log repeats."""
    if isinstance(wrap, str):
        checks.choice('wrap', wrap, WRAPS)
        wrap = WRAPS[wrap]
    seconds = log.period if wrap is None else wrap
    seconds = last_end if seconds is None else seconds
    checks.positive('wrap', seconds)
    each = schedules.one_or_each('wrap', np.asarray(seconds, float), len(log.names))
    return np.broadcast_to(each, len(log.names))


def _within_wrap(
    log: Intervals, period: NDArray[np.float64], tick: float, overlaps: str
) -> Intervals:
    """The intervals of one period, by client, start and end.

    What runs past the wrap goes on at the beginning.

    Raises:
      ValueError: for an interval that starts after the wrap or overlaps another.
    """
    checks.choice('overlaps', overlaps, ('reject', 'merge'))
    limit = period[log.client]
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
        raise errors.invalid(
            'intervals', "not overlap unless `overlaps` is 'merge'", what
        )
    return log._replace(client=client, start=start, end=end, source=source)


def _edges(
    intervals: Intervals | ArrayLike,
    *,
    tick: float,
    wrap: str | ArrayLike | None,
    overlaps: str,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rounds in which clients go up, down, up, ..., as `trace` has them.

    Returns:
      The client of each edge, in order; its round, increasing for each client; and the rounds after
      which each client's availability repeats, int64[N].
    """
    checks.positive('tick', tick)
    log = as_intervals(intervals)
    ticks = _wrap_seconds(log, wrap, float(_round_up(log.last_end, tick) * tick)) / tick
    period = np.rint(ticks).astype(np.int64)
    bad = (np.abs(ticks - period) > 1e-6) | (period < 1) | (period > 2**30)
    if bad.any():
        requirement = 'be a whole number of ticks (unless `rounds` are given)'
        raise errors.invalid('wrap', requirement, f'{ticks[np.argmax(bad)]:g} ticks')
    log = _within_wrap(log, period * np.float64(tick), tick, overlaps)
    first, last = _round_up(log.start, tick), _round_up(log.end, tick)
    keep = last > first  # shorter than a tick and between two: no round sees it
    # Unions of what touches, by clients one behind the other.
    shift = log.client[keep] * (2 * period.max() + 2)
    start, reach = first[keep] + shift, np.maximum.accumulate(last[keep] + shift)
    opens = np.r_[True, start[1:] > reach[:-1]][: len(start)]
    closes = np.r_[opens[1:], True][: len(start)]
    edges = np.stack([(start - shift)[opens], (reach - shift)[closes]], axis=1)
    return np.repeat(log.client[keep][opens], 2), edges.ravel(), period


def _round_up(times: Any, tick: float) -> NDArray[np.int64]:
    """First round that does not come before each time."""
    rounds = times / tick
    return np.ceil(rounds - TOLERANCE * np.maximum(1, rounds)).astype(np.int64)
