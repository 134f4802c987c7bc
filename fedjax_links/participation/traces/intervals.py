"""Represents recorded availability by intervals: one interval for each time that a client is up.

A log or recording says when real devices were up. Its reader is a function of `trace_formats`.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, client_names, errors
from fedjax_links.core.values import is_missing

DAY = 86_400.0
_YEAR = 366 * DAY
# In a longer log, times are probably not in seconds.
_MOST_DAYS = 730
# Bytes of a client's number as a name, with its pointer in the tuple of names.
_NAME_BYTES = 72
_COLUMNS = ('client', 'start', 'end')


class Intervals(NamedTuple):
    """Holds the intervals ``[start, end)`` in which clients are available.

    `intervals` builds this object from arrays, the readers in `trace_formats` build it from files.

    Attributes:
      client: int64[K], client of each interval.
      start: float64[K], seconds.
      end: float64[K], seconds.
      source: int64[K], where each interval comes from: a line of a file or a row of an array.
      unit: what ``source`` counts, ``'line'`` or ``'row'``.
      names: name of each of the N clients.
      period: float64[N], seconds after which each client's log repeats; None if the log's format
        does not say.
      has_names: whether the recording names its clients; otherwise they only have numbers.
      length: seconds that the recording lasts at least, counting clients that were left out.
      notes: the reader's guesses, one line for each.
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
        """Returns how many seconds the recording lasts."""
        return float(self.end.max(initial=self.length))

    def numbered(self) -> 'Intervals':
        """Drops the clients' names, so that any problem's clients match them by number."""
        return self._replace(has_names=False)

    def select(
        self, clients: Sequence[object], others: Sequence[object] = ()
    ) -> 'Intervals':
        """Selects clients by their names.

        Args:
          clients: names, in the order of their new numbers.
          others: names of clients that the recording may also have; their intervals are left out.

        Returns:
          The intervals of these clients; all, by number, where the recording has no names.

        Raises:
          ValueError: if the recording lacks one of ``clients``, or has a name that is in neither
            list; if a recording without names has another number of clients.
        """
        selected = names_of('clients', clients)
        if not self.has_names:
            if len(selected) != len(self.names):
                requirement = f'be {len(self.names)} names'
                raise errors.invalid('clients', requirement, len(selected))
            return self
        client_names.check_names('intervals', self.names, selected, others)
        id_of = {name: old_id for old_id, name in enumerate(self.names)}
        return self._renumber([id_of[name] for name in selected])

    def first(self, num_clients: int) -> 'Intervals':
        """Selects the first ``num_clients`` clients, or all if there are fewer."""
        return self._renumber(range(min(num_clients, len(self.names))))

    def _renumber(self, old_ids: Sequence[int]) -> 'Intervals':
        """Selects clients by their old ids; the client at position i gets the new id i."""
        new_id_of = np.full(len(self.names), -1)
        new_id_of[old_ids] = np.arange(len(old_ids))
        client = new_id_of[self.client]
        is_selected = client >= 0
        return self._replace(
            client=client[is_selected],
            start=self.start[is_selected],
            end=self.end[is_selected],
            source=self.source[is_selected],
            names=tuple(self.names[old_id] for old_id in old_ids),
            period=None if self.period is None else self.period[old_ids],
            length=self.last_end,
        )


def names_of(argument: str, value: Any) -> tuple[str, ...]:
    """Converts names to texts; raises unless ``value`` is a list of names."""
    if isinstance(value, str) or not np.iterable(value):
        raise errors.invalid(argument, 'be a list of names', errors.text_of(value))
    return tuple(map(str, value))


def intervals(
    client: ArrayLike,
    start: ArrayLike,
    end: ArrayLike,
    *,
    num_clients: int | None = None,
) -> Intervals:
    """Builds intervals from arrays.

    Args:
      client: int[K], ids from 0.
      start: float[K], seconds.
      end: float[K], seconds, not before ``start``.
      num_clients: N; one more than the largest id by default.

    Returns:
      The intervals.

    Raises:
      ValueError: if shapes differ, there is no id and no ``num_clients``, or an id is no integer or
        out of range.

    Example:
      >>> from fedjax_links import participation
      >>> log = participation.intervals(client=[0, 0, 1], start=[0, 7, 3], end=[4, 9, 10])
      >>> print(participation.availability(log, tick=1, rounds=10).astype(int).T)
      [[1 1 1 1 0 0 0 1 1 0]
       [0 0 0 1 1 1 1 1 1 1]]
    """
    checks.shape('client', client)
    ids = np.asarray(client)
    starts = checks.numbers('start', start).astype(float)
    ends = checks.numbers('end', end).astype(float)
    if ids.ndim != 1 or not ids.shape == starts.shape == ends.shape:
        shapes = f'{ids.shape}, {starts.shape} and {ends.shape}'
        requirement = 'have the shape [K] of `start` and `end`'
        raise errors.invalid('client', requirement, shapes)
    if ids.size and ids.dtype.kind not in 'iu':
        raise errors.invalid('client', 'be integers', f'dtype {ids.dtype}')
    if num_clients is None:
        if not ids.size:
            raise errors.invalid('client', 'hold an id, or `num_clients` be given', [])
        _check_ids(ids, checks.LARGEST_INT)
        largest = int(ids.max())
        num_clients = largest + 1
        checks.fits('client', largest, num_clients * _NAME_BYTES)
    checks.static_int('num_clients', num_clients)
    _check_ids(ids, num_clients)
    return Intervals(
        client=ids.astype(np.int64),
        start=starts,
        end=ends,
        source=np.arange(len(ids)),
        unit='row',
        names=tuple(map(str, range(num_clients))),
    )


def _check_ids(ids: NDArray[Any], num_clients: int) -> None:
    """Raises for the first id of a client that is out of range."""
    is_unknown = (ids < 0) | (ids >= num_clients)
    if is_unknown.any():
        where = f'{ids[is_unknown][0]} on row {np.argmax(is_unknown)}'
        raise errors.invalid('client', f'lie in [0, {num_clients - 1}]', where)


def as_intervals(recording: Intervals | ArrayLike) -> Intervals:
    """Returns a recording as checked intervals.

    The recording may also be rows (client, start, end), or a data frame with columns of these
    names in any order. The column ``client`` of a data frame holds numbers or names.

    Raises:
      ValueError: for rows of another form, or none; for times that are not finite, negative or out
        of order; if no client is up in the first year, as happens with times counted from 1970.
    """
    if isinstance(recording, Intervals):
        log = recording
    elif hasattr(recording, 'columns') and hasattr(recording, 'to_numpy'):
        log = _from_frame(recording)
    else:
        log = _from_rows(recording)
    if not len(log.client):
        raise errors.invalid('intervals', 'have at least one interval', 'none')
    is_finite = np.isfinite(log.start) & np.isfinite(log.end)
    require_none(log, ~is_finite, 'be finite')
    require_none(log, log.start < 0, 'start at 0 or later')
    require_none(log, log.end < log.start, 'not end before they start')
    earliest = float(log.start.min())
    if earliest >= _YEAR:
        requirement = (
            "begin within a year of time 0, as with the origin 'first' of readers"
        )
        got = f'{earliest:.10g} s as the earliest start'
        raise errors.invalid('intervals', requirement, got)
    return log


def remarks(log: Intervals) -> list[str]:
    """Lists guesses of a log's reader and unlikely times of the log, one line for each."""
    lines = list(log.notes)
    first = float(log.start.min(initial=np.inf))
    end = float(np.max(log.end if log.period is None else log.period, initial=0.0))
    if end - first > _MOST_DAYS * DAY:
        days = f'{(end - first) / DAY:,.0f} days'
        lines.append(
            f'the log lasts {days}; if its times are not in seconds, give their unit'
        )
    if DAY <= first < np.inf:
        empty = f'no client is up in the first {first / DAY:,.0f} days'
        lines.append(f"{empty}; the origin 'first' begins the log when one is")
    return lines


def warn_about(log: Intervals) -> None:
    """Warns about a log from which a pattern is built: one warning for each of `remarks`."""
    for line in remarks(log):
        warnings.warn(f'a log of availability: {line}', stacklevel=3)


def check_tick(log: Intervals, tick: float, wrap: object) -> None:
    """Raises if the log repeats after its own length and a round lasts longer than the log.

    Args:
      log: the intervals.
      tick: seconds of a round.
      wrap: seconds after which the log repeats, as the user set it; None if not set.
    """
    checks.positive_number('tick', tick)
    if wrap is None and log.period is None and tick > log.last_end:
        requirement = (
            f'be at most the {log.last_end:g} s that the log lasts (if its times are not '
            'in seconds, give their unit)'
        )
        raise errors.invalid('tick', requirement, f'{tick:g} s')


def _from_frame(frame: Any) -> Intervals:
    """Builds intervals from a data frame with columns ``client``, ``start`` and ``end``."""
    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        got = errors.text_of([str(name) for name in frame.columns])
        requirement = 'have columns client, start and end, in seconds'
        raise errors.invalid('intervals', requirement, got)
    client = np.asarray(frame['client'])
    start = np.asarray(frame['start'])
    end = np.asarray(frame['end'])
    for name, times in (('start', start), ('end', end)):
        if times.dtype.kind not in 'iuf':
            requirement = (
                'be numbers of seconds, as `trace_formats.from_csv` makes of dates'
            )
            raise errors.invalid(f'intervals.{name}', requirement, f'{times.dtype}')
    if client.dtype.kind in 'iuf':
        return _from_numbers(client, start, end)
    for row, name in enumerate(client.tolist()):
        if is_missing(name):
            raise errors.invalid(
                'intervals.client', 'name a client', f'none on row {row}'
            )
    ids: dict[str, int] = {}
    numbers = [ids.setdefault(str(name), len(ids)) for name in client.tolist()]
    log = intervals(numbers, start, end, num_clients=max(1, len(ids)))
    return log._replace(names=tuple(ids), has_names=True)


def _from_rows(recording: ArrayLike) -> Intervals:
    """Builds intervals from rows (client, start, end), float[K, 3]."""
    try:
        rows = checks.numbers('intervals', recording).astype(float)
    except errors.InvalidError:
        requirement = (
            'be Intervals or rows (client, start, end) of numbers; '
            '`trace_formats.from_csv` and the other readers number names of clients'
        )
        got = errors.text_of(recording)
        raise errors.invalid('intervals', requirement, got) from None
    if rows.ndim != 2 or rows.shape[1] != 3:
        requirement = 'be Intervals or rows (client, start, end)'
        raise errors.invalid('intervals', requirement, f'shape {list(rows.shape)}')
    return _from_numbers(*rows.T)


def _from_numbers(
    client: NDArray[Any], start: NDArray[Any], end: NDArray[Any]
) -> Intervals:
    """Builds intervals from numbers of clients, which may be floats such as 1.0."""
    is_integer = np.isfinite(client) & (client == np.rint(client))
    if not is_integer.all():
        requirement = 'name clients by whole numbers'
        raise errors.invalid('intervals', requirement, client[~is_integer][0])
    # An empty log counts as one client here; `as_intervals` then refuses it.
    num_clients = None if client.size else 1
    return intervals(client.astype(np.int64), start, end, num_clients=num_clients)


def require_none(log: Intervals, is_bad: NDArray[np.bool_], requirement: str) -> None:
    """Raises for the first bad interval, if there is one."""
    if is_bad.any():
        row = int(np.argmax(is_bad))
        times = f'{log.start[row]:g} to {log.end[row]:g} s'
        where = f'{log.unit} {log.source[row]}'
        raise errors.invalid('intervals', requirement, f'{times} on {where}')
