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

from fedjax_links import checks, errors
from fedjax_links.base import Array, Key, LinkSample, Participation, PyTree
from fedjax_links.describing import by_call

WRAPS = {'day': 86_400.0, 'week': 604_800.0}
_Columns = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]
_TOLERANCE = 1e-9  # of a tick: a time this close to a tick is on it


class Intervals(NamedTuple):
    """Availability of clients in seconds, half-open intervals ``[start, end)``.

    Build one with `intervals` or the importers in `trace_formats`.

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
        return self._replace(
            client=self.client[keep],
            start=self.start[keep],
            end=self.end[keep],
            source=self.source[keep],
            names=self.names[:num_clients],
            period=None if self.period is None else self.period[:num_clients],
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
    unknown = np.flatnonzero((ids < 0) | (ids >= count))
    if unknown.size:
        where = f'{ids[unknown[0]]} on row {unknown[0]}'
        raise errors.invalid('client', f'lie in [0, {count - 1}]', where)
    return Intervals(
        client=ids.astype(np.int64),
        start=starts,
        end=ends,
        source=np.arange(len(ids)),
        unit='row',
        names=tuple(str(i) for i in range(count)),
    )


@by_call
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
    recording = _as_intervals(intervals)
    if rounds is None:
        packed = pack(recording, tick=tick, wrap=wrap, overlaps=overlaps)
    else:
        packed = _packed_mask(
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
    recording = _as_intervals(intervals)
    if not len(recording.client):
        raise errors.invalid('intervals', 'have at least one interval', 'none')
    _check_times(recording)
    num_clients = len(recording.names)
    checks.fits('rounds', rounds, float(rounds) * num_clients)
    period = _seconds(recording, wrap)
    period = np.broadcast_to(recording.end.max() if period is None else period, (num_clients,))
    if (period <= 0).any():
        raise errors.invalid('wrap', 'be positive', period.min())
    _check_starts(recording, period)
    client, start, end, source = _sorted(_split_at_wrap(recording, period))
    if overlaps == 'reject':
        _check_overlaps(recording, client, start, end, source, tick)
    mask = np.zeros((num_clients, rounds), bool)
    offsets = np.searchsorted(client, np.arange(num_clients + 1))
    nearly = _TOLERANCE * tick
    times = np.arange(rounds) * np.float64(tick) + nearly
    for i in np.unique(client):
        begins = start[offsets[i] : offsets[i + 1]]
        reach = np.maximum.accumulate(end[offsets[i] : offsets[i + 1]])
        phase = np.mod(times, period[i])
        last = np.searchsorted(begins, phase, side='right') - 1
        mask[i] = (last >= 0) & (phase < reach[last] + nearly * 0.5)
    return mask.T


def _packed_mask(mask: NDArray[np.bool_]) -> PackedTrace:
    """The edges of recorded rounds, which repeat after the last."""
    num_rounds, num_clients = mask.shape
    edges = np.pad(mask.T, ((0, 0), (1, 1)))
    client, round = np.nonzero(edges[:, 1:] != edges[:, :-1])
    return PackedTrace(
        edges=round.astype(np.int32) if len(round) else np.zeros(1, np.int32),
        offsets=np.searchsorted(client, np.arange(num_clients + 1)).astype(np.int32),
        period=np.full(num_clients, num_rounds, np.int32),
    )


def _as_intervals(recording: Intervals | ArrayLike) -> Intervals:
    """The recording, or the one that rows (client, start, end) stand for."""
    if isinstance(recording, Intervals):
        return recording
    rows = np.asarray(recording, float)
    if rows.ndim != 2 or rows.shape[1] != 3:
        requirement = 'be Intervals or rows (client, start, end)'
        raise errors.invalid('intervals', requirement, f'shape {list(rows.shape)}')
    client = rows[:, 0]
    if not np.array_equal(client, np.floor(client)):
        raise errors.invalid(
            'intervals', 'name clients by whole numbers', client[client % 1 != 0][0]
        )
    return intervals(client.astype(int), rows[:, 1], rows[:, 2])


def pack(
    intervals: Intervals,
    *,
    tick: float = 1.0,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
) -> PackedTrace:
    """Validated edges of every client, in rounds; see `trace`."""
    checks.positive('tick', tick)
    checks.choice('overlaps', overlaps, ('reject', 'merge'))
    if not len(intervals.client):
        raise errors.invalid('intervals', 'have at least one interval', 'none')
    _check_times(intervals)
    period = _period(intervals, tick, wrap)
    _check_starts(intervals, np.float64(tick) * period)
    client, start, end, source = _sorted(_split_at_wrap(intervals, np.float64(tick) * period))
    if overlaps == 'reject':
        _check_overlaps(intervals, client, start, end, source, tick)
    first, last = _round_up(start, tick), _round_up(end, tick)
    keep = last > first  # shorter than a tick and between two: no round sees it
    return _merge(client[keep], first[keep], last[keep], period)


def _check_starts(intervals: Intervals, period: NDArray[np.float64]) -> None:
    late = np.flatnonzero(intervals.start >= period[intervals.client])
    if late.size:
        limit = period[intervals.client[late[0]]]
        raise _rejection(intervals, f'start before the wrap at {limit:g} s', int(late[0]))


def _sorted(columns: _Columns) -> _Columns:
    """Intervals by client, start and end."""
    client, start, end, source = columns
    order = np.lexsort((end, start, client))
    return client[order], start[order], end[order], source[order]


def _check_overlaps(
    intervals: Intervals,
    client: NDArray[np.int64],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    source: NDArray[np.int64],
    tick: float,
) -> None:
    """Sorted by start, intervals are disjoint if and only if neighbours are."""
    early = (client[1:] == client[:-1]) & (start[1:] < end[:-1] - _TOLERANCE * tick)
    if early.any():
        row = int(np.argmax(early))
        lines = sorted((int(source[row]), int(source[row + 1])))
        name = intervals.names[client[row]]
        what = f'client {name} on {intervals.unit}s {lines[0]} and {lines[1]}'
        raise errors.invalid('intervals', 'not overlap', what)


def _check_times(intervals: Intervals) -> None:
    finite = np.isfinite(intervals.start) & np.isfinite(intervals.end)
    for bad, requirement in (
        (~finite, 'be finite'),
        (intervals.start < 0, 'start at 0 or later'),
        (intervals.end < intervals.start, 'end after they start'),
    ):
        if bad.any():
            raise _rejection(intervals, requirement, int(np.argmax(bad)))


def _rejection(intervals: Intervals, requirement: str, row: int) -> ValueError:
    times = f'{intervals.start[row]:g} to {intervals.end[row]:g}'
    where = f'{intervals.unit} {intervals.source[row]}'
    return errors.invalid('intervals', requirement, f'{times} s on {where}')


def _period(intervals: Intervals, tick: float, wrap: str | ArrayLike | None) -> NDArray[np.int64]:
    """Rounds per repetition of each client."""
    seconds = _seconds(intervals, wrap)
    if seconds is None:
        seconds = _round_up(np.array([intervals.end.max()]), tick)[0] * np.asarray(tick, float)
        checks.positive('wrap', seconds)
    rounds: NDArray[np.float64] = np.broadcast_to(seconds / tick, (len(intervals.names),))
    whole = np.rint(rounds)
    if (np.abs(rounds - whole) > 1e-6).any() or (whole < 1).any() or (whole > 2**30).any():
        worst = rounds[np.argmax(np.abs(rounds - whole))]
        requirement = 'be a whole number of ticks (unless `rounds` are given)'
        raise errors.invalid('wrap', requirement, f'{worst:g} ticks')
    return whole.astype(np.int64)


def _seconds(intervals: Intervals, wrap: str | ArrayLike | None) -> NDArray[np.float64] | None:
    """The wrap in seconds, one number or float[N]; None where nothing says it."""
    if isinstance(wrap, str):
        checks.choice('wrap', wrap, WRAPS)
        wrap = WRAPS[wrap]
    if wrap is None:
        wrap = intervals.period
    if wrap is None:
        return None
    if np.shape(wrap) not in ((), (len(intervals.names),)):
        allowed = f'be one number or {len(intervals.names)}'
        raise errors.invalid('wrap', allowed, f'shape {np.shape(wrap)}')
    checks.positive('wrap', wrap)
    return np.asarray(wrap, float)


def _round_up(times: NDArray[np.float64], tick: float) -> NDArray[np.int64]:
    """First round that does not come before each time."""
    rounds = times / tick
    return np.ceil(rounds - _TOLERANCE * np.maximum(1, rounds)).astype(np.int64)


def _split_at_wrap(intervals: Intervals, period: NDArray[np.float64]) -> _Columns:
    """Intervals within one period: those that run past its end go on at its beginning."""
    client, start, source = intervals.client, intervals.start, intervals.source
    limit = period[client]
    end = np.minimum(intervals.end, start + limit)
    past = end > limit
    return (
        np.r_[client, client[past]],
        np.r_[start, np.zeros(past.sum())],
        np.r_[np.minimum(end, limit), (end - limit)[past]],
        np.r_[source, source[past]],
    )


def _merge(
    client: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    period: NDArray[np.int64],
) -> PackedTrace:
    """Edges from intervals in rounds, sorted by client and start; unions of what touches."""
    shift = client * (2 * period.max() + 2)
    reach = np.maximum.accumulate(last + shift)
    opens = np.r_[True, (first + shift)[1:] > reach[:-1]] if len(client) else np.zeros(0, bool)
    closes = np.r_[opens[1:], True] if len(client) else opens
    edges = np.stack([first[opens], (reach - shift)[closes]], axis=1).ravel()
    counts = 2 * np.bincount(client[opens], minlength=len(period))
    return PackedTrace(
        edges=edges.astype(np.int32) if len(edges) else np.zeros(1, np.int32),
        offsets=np.r_[0, np.cumsum(counts)].astype(np.int32),
        period=period.astype(np.int32),
    )
