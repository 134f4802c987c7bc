"""Recorded availability as intervals in seconds: from arrays, checked, and cut at the wrap."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors

WRAPS = {'day': 86_400.0, 'week': 604_800.0}
TOLERANCE = 1e-9  # of a tick: a time this close to a tick is on it
Columns = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]
"""Client, start, end and source of each interval."""


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


def as_intervals(recording: Intervals | ArrayLike) -> Intervals:
    """The recording, or the one that rows (client, start, end) stand for."""
    if isinstance(recording, Intervals):
        return recording
    rows = checks.numbers('intervals', recording).astype(float)
    if rows.ndim != 2 or rows.shape[1] != 3:
        requirement = 'be Intervals or rows (client, start, end)'
        raise errors.invalid('intervals', requirement, f'shape {list(rows.shape)}')
    client = rows[:, 0]
    if not np.array_equal(client, np.floor(client)):
        raise errors.invalid(
            'intervals', 'name clients by whole numbers', client[client % 1 != 0][0]
        )
    return intervals(client.astype(int), rows[:, 1], rows[:, 2])


def check_times(intervals: Intervals) -> None:
    """Refuses no intervals at all, and times that are not finite, negative or out of order."""
    if not len(intervals.client):
        raise errors.invalid('intervals', 'have at least one interval', 'none')
    finite = np.isfinite(intervals.start) & np.isfinite(intervals.end)
    for bad, requirement in (
        (~finite, 'be finite'),
        (intervals.start < 0, 'start at 0 or later'),
        (intervals.end < intervals.start, 'end after they start'),
    ):
        if bad.any():
            raise _rejection(intervals, requirement, int(np.argmax(bad)))


def wrap_seconds(intervals: Intervals, wrap: str | ArrayLike | None) -> NDArray[np.float64] | None:
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


def within_wrap(
    intervals: Intervals, period: NDArray[np.float64], *, tick: float, overlaps: str
) -> Columns:
    """Validated intervals within one period, by client, start and end.

    Args:
      intervals: those that `check_times` let pass.
      period: float64[N], seconds after which each client's log repeats.
      tick: seconds per round.
      overlaps: as in `trace`.

    Returns:
      The columns; what runs past the wrap goes on at the beginning.

    Raises:
      ValueError: for an interval that starts after the wrap or overlaps another.
    """
    _check_starts(intervals, period)
    columns = _sorted(_split_at_wrap(intervals, period))
    if overlaps == 'reject':
        _check_overlaps(intervals, *columns, tick)
    return columns


def _check_starts(intervals: Intervals, period: NDArray[np.float64]) -> None:
    late = np.flatnonzero(intervals.start >= period[intervals.client])
    if late.size:
        limit = period[intervals.client[late[0]]]
        raise _rejection(intervals, f'start before the wrap at {limit:g} s', int(late[0]))


def _sorted(columns: Columns) -> Columns:
    """Intervals by client, start and end."""
    client, start, end, source = columns
    order = np.lexsort((end, start, client))
    return client[order], start[order], end[order], source[order]


def _split_at_wrap(intervals: Intervals, period: NDArray[np.float64]) -> Columns:
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


def _check_overlaps(
    intervals: Intervals,
    client: NDArray[np.int64],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    source: NDArray[np.int64],
    tick: float,
) -> None:
    """Sorted by start, intervals are disjoint if and only if neighbours are."""
    early = (client[1:] == client[:-1]) & (start[1:] < end[:-1] - TOLERANCE * tick)
    if early.any():
        row = int(np.argmax(early))
        lines = sorted((int(source[row]), int(source[row + 1])))
        name = intervals.names[client[row]]
        what = f'client {name} on {intervals.unit}s {lines[0]} and {lines[1]}'
        raise errors.invalid('intervals', 'not overlap', what)


def _rejection(intervals: Intervals, requirement: str, row: int) -> ValueError:
    times = f'{intervals.start[row]:g} to {intervals.end[row]:g}'
    where = f'{intervals.unit} {intervals.source[row]}'
    return errors.invalid('intervals', requirement, f'{times} s on {where}')
