"""Importers of availability logs: they give `intervals.Intervals`, for ``trace``.

* `from_csv`: one interval per line, ``client,start,end``.
* `from_events`: one change of state per line, ``client,time,state``.
* `from_pings`: one sign of life per line, ``id,timestamp``, as in the usage log behind FLGo's phone
  simulator.
* `from_matrix`: a line of 0 and 1 per round, or per client.
* `from_flash`, `from_fedscale`: measured on phones, see `participation.traces.device_logs`.

No availability format of Plato could be found (it simulates speeds and latencies); `from_events`
takes any log of changes of state.

Times are numbers in a unit, or dates as ISO 8601 has them (``2026-03-02T07:15:34+01:00``), in UTC
where they name no time zone; a file has one or the other. Of dates, time 0 is a midnight of UTC
unless ``origin`` is another date.
"""

import contextlib
import csv
import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedjax_links.core import checks, errors
from fedjax_links.participation.traces.device_logs import from_fedscale, from_flash
from fedjax_links.participation.traces.intervals import Intervals

__all__ = [
    'SECONDS',
    'from_csv',
    'from_events',
    'from_fedscale',
    'from_flash',
    'from_matrix',
    'from_pings',
]

SECONDS = {'ms': 0.001, 's': 1.0, 'min': 60.0, 'h': 3600.0, 'd': 86_400.0}
_UP = {'1': True, 'on': True, 'up': True, 'true': True}
_STATES = {**_UP, '0': False, 'off': False, 'down': False, 'false': False}
_DAY = 86_400.0
Path = str | os.PathLike[str]
Clients = int | Sequence[str] | None
_Rows = Sequence[tuple[int, Mapping[str, str]]]


def from_csv(
    path: Path, *, unit: str = 's', origin: float | str | None = None, clients: Clients = None
) -> Intervals:
    """Intervals from a CSV file whose header names ``client``, ``start`` and ``end``.

    Args:
      path: the file; further columns are ignored.
      unit: of times that are numbers: ``'ms'``, ``'s'``, ``'min'``, ``'h'`` or ``'d'``.
      origin: time of round 0, in the file's unit or as a date, or ``'first'`` for the earliest
        start. By default 0, and for dates the midnight (UTC) before the earliest start.
      clients: the clients known: N, for ids 0 to N - 1, or their names in the order of their ids.
        By default, ids follow the order of first appearance.

    Returns:
      The intervals; their sources are lines, of which the header is the first.

    Raises:
      ValueError: for a file that cannot be read; for a missing column or value, a time that is
        neither a number nor a date, or an unknown client, with its line.
    """
    rows = list(_rows(path, ('client', 'start', 'end')))
    lines = [line for line, _ in rows]
    ids, names = _identify([(line, row['client']) for line, row in rows], clients)
    clock = _clock(rows, 'start', unit)
    start, end = (clock.column(rows, name) for name in ('start', 'end'))
    zero = clock.zero(origin, start)
    return _intervals(ids, start - zero, end - zero, lines, names)


def from_events(
    path: Path,
    *,
    unit: str = 's',
    origin: float | str | None = None,
    clients: Clients = None,
    until: float | str | None = None,
) -> Intervals:
    """Intervals from a log of changes, a CSV file with ``client``, ``time`` and ``state``.

    Args:
      path: the file, in the order of time per client. States are ``1, on, up, true`` and
        ``0, off, down, false`` in any case; repeating the present one changes nothing. Clients are
        down before their first line.
      unit: as in `from_csv`.
      origin: as in `from_csv`, ``'first'`` being the earliest line.
      clients: as in `from_csv`.
      until: end of the log in the file's unit or as a date, when those still up go down; by default
        the time of its last line.

    Returns:
      The intervals, each with the line that began it.

    Raises:
      ValueError: as in `from_csv`, and for an unknown state or a time that runs backwards.
    """
    rows = list(_rows(path, ('client', 'time', 'state')))
    ids, names = _identify([(line, row['client']) for line, row in rows], clients)
    clock = _clock(rows, 'time', unit)
    times = clock.column(rows, 'time')
    last = np.full(len(names), -np.inf)
    opened: dict[int, tuple[float, int]] = {}
    found: list[tuple[int, float, float, int]] = []
    for (line, row), client, time in zip(rows, ids.tolist(), times.tolist(), strict=True):
        if (up := _STATES.get(row['state'].lower())) is None:
            what = f'{row["state"]!r} on line {line}'
            raise errors.invalid('state', f'be one of {", ".join(_STATES)}', what)
        if time < last[client]:
            what = f'{row["time"]} for client {names[client]} on line {line}'
            raise errors.invalid('time', 'not run backwards', what)
        last[client] = time
        if up and client not in opened:
            opened[client] = (time, line)
        elif not up and client in opened:
            found.append((client, opened[client][0], time, opened.pop(client)[1]))
    stop = times.max(initial=0.0) if until is None else clock.seconds('until', until)
    found += [(client, time, stop, line) for client, (time, line) in opened.items()]
    client, start, end, source = zip(*found, strict=True) if found else ((), (), (), ())
    zero = clock.zero(origin, times)
    return _intervals(
        np.array(client, np.int64), np.array(start) - zero, np.array(end) - zero, source, names
    )


def from_pings(
    path: Path,
    *,
    width: float = 15.0,
    unit: str = 's',
    origin: float | str | None = 'first',
    clients: Clients = None,
) -> Intervals:
    """Intervals from signs of life, a CSV file with ``id`` and ``timestamp``.

    A ping at time s shows the client up in the slot of ``width`` seconds that contains s, counted
    from the origin. The log repeats after its last slot. This is how FLGo's phone simulator reads
    the usage log it was built for, except that it never visits the last slot.

    Args:
      path: the file.
      width: seconds per slot, positive.
      unit: as in `from_csv`.
      origin: as in `from_csv`; the earliest ping by default.
      clients: as in `from_csv`, for the column ``id``.

    Returns:
      The intervals, each with the line of its first ping.

    Raises:
      ValueError: as in `from_csv`.

    References:
      Wang et al., FLGo: a fully customizable federated learning platform, 2023.
    """
    checks.positive('width', width)
    rows = list(_rows(path, ('id', 'timestamp')))
    ids, names = _identify([(line, row['id']) for line, row in rows], clients)
    clock = _clock(rows, 'timestamp', unit)
    times = clock.column(rows, 'timestamp')
    slots = np.floor((times - clock.zero(origin, times)) / width).astype(np.int64)
    lines = np.array([line for line, _ in rows], np.int64)
    order = np.lexsort((slots, ids))
    ids, slots, lines = ids[order], slots[order], lines[order]
    joined = (ids[1:] == ids[:-1]) & (slots[1:] <= slots[:-1] + 1)
    opens, closes = np.r_[True, ~joined], np.r_[~joined, True]
    result = _intervals(
        ids[opens], slots[opens] * width, (slots[closes] + 1) * width, lines[opens], names
    )
    return result._replace(period=np.full(len(names), (slots.max() + 1) * width))


def from_matrix(path: Path, *, seconds: float = 1.0, by: str = 'round') -> Intervals:
    """Intervals from a CSV file of 0 and 1, without ids.

    Args:
      path: the file. A first line with anything but 0 and 1 names the columns; clients are named by
        it, or numbered.
      seconds: from one column or line to the next in time, positive.
      by: what a line is: a ``'round'``, with a column per client, or a ``'client'``, with a column
        per round.

    Returns:
      The intervals. The log repeats after its last round.

    Raises:
      ValueError: for a file that cannot be read; for another entry or a line of another length,
        with its line.
    """
    checks.positive('seconds', seconds)
    checks.choice('by', by, ('round', 'client'))
    rows: list[np.ndarray] = []
    header: list[str] | None = None
    with errors.reading(path), open(path, newline='', encoding='utf-8-sig') as file:
        reader = csv.reader(file)
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if not any(row):
                continue
            odd = next((cell for cell in row if cell not in ('0', '1')), None)
            if odd is not None and header is None and not rows:
                header = row
                continue
            width = len(header if not rows and header else rows[0] if rows else row)
            if odd is not None or len(row) != width:
                requirement = f'have {width} values 0 or 1 per line'
                what = f'{odd!r} on line' if odd is not None else f'{len(row)} on line'
                raise errors.invalid('path', requirement, f'{what} {reader.line_num}')
            rows.append(np.array(row) == '1')
    if not rows:
        raise errors.invalid('path', 'hold lines of 0 and 1', 'none')
    mask = np.stack(rows) if by == 'round' else np.stack(rows).T
    changes = np.diff(np.pad(mask.T, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    client, start = np.nonzero(changes == 1)
    _, end = np.nonzero(changes == -1)
    named = header is not None and by == 'round'
    names = tuple(header) if named and header else tuple(map(str, range(mask.shape[1])))
    found = _intervals(client, start * seconds, end * seconds, np.arange(len(client)), names)
    return found._replace(unit='row', period=np.full(mask.shape[1], len(mask) * float(seconds)))


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Lines of a CSV file with a header: number and values of the named columns, stripped."""
    with errors.reading(path), open(path, newline='', encoding='utf-8-sig') as file:
        reader = csv.reader(file)
        header = [name.strip() for name in next(reader, [])]
        for name in columns:
            if name not in header:
                raise errors.invalid('path', f'have a column {name!r} on line 1', header)
        places = {name: header.index(name) for name in columns}
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) <= max(places.values()):
                what = f'{len(row)} on line {reader.line_num}'
                raise errors.invalid('path', f'have {len(header)} values per line', what)
            yield reader.line_num, {name: row[place].strip() for name, place in places.items()}


class _Clock(NamedTuple):
    """How a file tells the time."""

    scale: float
    has_dates: bool

    def seconds(self, argument: str, time: float | str, where: str = '') -> float:
        """A time in seconds; of a date since 1970."""
        try:
            if not self.has_dates:
                return float(time) * self.scale
            date = datetime.datetime.fromisoformat(str(time))
        except ValueError:
            kind = 'a date' if self.has_dates else 'a number'
            raise errors.invalid(argument, f'be {kind}', f'{time!r}{where}') from None
        return (date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp()

    def column(self, rows: _Rows, name: str) -> NDArray[np.float64]:
        """The times of a column in seconds."""
        return np.array([self.seconds(name, row[name], f' on line {line}') for line, row in rows])

    def zero(self, origin: float | str | None, times: NDArray[np.float64]) -> float:
        """The origin in seconds."""
        first = float(times.min(initial=np.inf)) if times.size else 0.0
        if origin is None:
            return first // _DAY * _DAY if self.has_dates else 0.0
        if isinstance(origin, str) and not self.has_dates:
            checks.choice('origin', origin, ('first',))
        return first if origin == 'first' else self.seconds('origin', origin)


def _clock(rows: _Rows, column: str, unit: str) -> _Clock:
    """Whether a column has dates, by its first line."""
    checks.choice('unit', unit, SECONDS)
    numbers, dates = _Clock(SECONDS[unit], has_dates=False), _Clock(1.0, has_dates=True)
    for line, row in rows[:1]:
        for clock in (numbers, dates):
            with contextlib.suppress(errors.InvalidError):
                clock.seconds(column, row[column])
                return clock
        what = f'{row[column]!r} on line {line}'
        raise errors.invalid(column, 'be a number or a date such as 2026-03-02T07:15', what)
    return numbers


def _identify(cells: list[tuple[int, str]], clients: Clients) -> tuple[np.ndarray, tuple[str, ...]]:
    """Ids int64[K] of the named clients and the names of all."""
    if clients is None:
        names: list[str] = list(dict.fromkeys(name for _, name in cells))
    elif isinstance(clients, int):
        checks.static_int('clients', clients)
        names = [str(client) for client in range(clients)]
    else:
        names = [str(name) for name in clients]
    index = {name: client for client, name in enumerate(names)}
    for line, name in cells:
        if name not in index:
            raise errors.invalid('client', 'be a known client', f'{name!r} on line {line}')
    return np.array([index[name] for _, name in cells], np.int64), tuple(names)


def _intervals(
    client: np.ndarray, start: np.ndarray, end: np.ndarray, source: Any, names: tuple[str, ...]
) -> Intervals:
    return Intervals(
        client=client,
        start=start,
        end=end,
        source=np.asarray(source, np.int64),
        unit='line',
        names=names,
    )
