"""Readers of availability logs: they give `trace.Intervals`, for `trace` and `look_alike`.

* `from_csv`: one interval per line, ``client,start,end``.
* `from_events`: one change of state per line, ``client,time,state``.
* `from_flash`: FLASH's file, measured on phones.

Other logs become one of these by a few lines of pandas (docs/availability.md); a matrix of 0 and 1,
a line per round, is what `participation.replay` takes.
"""

import csv
import datetime
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors, paths
from fedjax_links.participation.traces.trace import Intervals

Path = str | os.PathLike[str]

_COLUMNS = ('client', 'start', 'end')
_EVENTS = ('client', 'time', 'state')
_HOUR, _DAY = 3600.0, 86_400.0
SECONDS = {'ms': 0.001, 's': 1.0, 'min': 60.0, 'h': 3600.0, 'd': 86_400.0}


def from_csv(
    path: Path,
    *,
    unit: str = 's',
    origin: float | str | None = None,
    clients: int | Sequence[str] | None = None,
    utc_offset: float | None = None,
) -> Intervals:
    """Reads intervals from a CSV file whose header names ``client``, ``start`` and ``end``.

    Times are numbers, or dates and times of ISO 8601, which are seconds from a midnight then.

    Args:
      path: the file; further columns are ignored.
      unit: of times that are numbers: ``'ms'``, ``'s'``, ``'min'``, ``'h'`` or ``'d'``.
      origin: time of round 0: a number in the file's unit, a date, ``'first'`` for the earliest
        time, or ``'midnight'`` for the midnight before it. By default 0, or of dates the midnight.
      clients: the clients known: N, for ids 0 to N - 1, or their names in the order of their ids.
        By default, ids follow the order of first appearance.
      utc_offset: hours that the clients' clock is ahead of UTC, which says when their midnight is;
        dates without an offset are read by it. By default that of the first date, or UTC.

    Returns:
      The intervals; their sources are lines, of which the header is the first.

    Raises:
      ValueError: for a file that cannot be read; for a missing column or value, a time that is
        neither, or an unknown client, with its line.
    """
    lines, owners, *cells = _table(path, _COLUMNS)
    names, ids = _clients(lines, owners, clients)
    clock = _Clock(unit, utc_offset)
    start, end = (
        clock.seconds(name, column, lines)
        for name, column in zip(_COLUMNS[1:], cells, strict=True)
    )
    zero = clock.origin(origin, start)
    has_names = not isinstance(clients, int)
    rows = ids, start - zero, end - zero, np.array(lines, np.int64)
    return Intervals(*rows, 'line', names, has_names=has_names)


def from_events(
    path: Path,
    *,
    unit: str = 's',
    origin: float | str | None = 'first',
    clients: int | Sequence[str] | None = None,
    utc_offset: float | None = None,
    up: Sequence[str] = ('up', 'on', 'connect', 'connected', 'true', '1'),
    down: Sequence[str] = ('down', 'off', 'disconnect', 'disconnected', 'false', '0'),
    last: str | float = 'end',
) -> Intervals:
    """Reads changes of state from a CSV file whose header names ``client``, ``time``, ``state``.

    A client is up from an event that says so until the next that says otherwise. Events may stand
    in any order; one that says again what is known changes nothing. A client whose first event is
    ``down`` was up before it, from the log's first time on. What had to be guessed stands in
    `Intervals.notes`.

    Args:
      path: the file; further columns are ignored.
      unit: as in `from_csv`, and so are the next three; round 0 is the first time by default.
      origin: of round 0.
      clients: the clients known.
      utc_offset: of the clients' clock.
      up: what ``state`` says of a client that comes, in any case of letters.
      down: likewise of one that goes.
      last: how long a client is up whose last event says that it comes: ``'end'``, until the log's
        last time; ``'drop'``, not at all; or so many seconds.

    Returns:
      The intervals; their sources are the lines of events at which they begin.

    Raises:
      ValueError: as `from_csv`, and for a state that is neither, with its line.
    """
    if isinstance(last, str):
        checks.choice('last', last, ('end', 'drop'))
    else:
        checks.positive('last', last)
    lines, owners, cells, states = _table(path, _EVENTS)
    names, ids = _clients(lines, owners, clients)
    clock = _Clock(unit, utc_offset)
    time = clock.seconds('time', cells, lines)
    time = time - clock.origin(origin, time)
    comes = _comes(states, lines, up, down)
    first_time, last_time = time.min(initial=np.inf), time.max(initial=0.0)
    rows: list[tuple[float, ...]] = []
    num_up_before = num_left_up = 0
    for client in np.unique(ids):
        own = np.flatnonzero(ids == client)
        own = own[np.argsort(time[own], kind='stable')]
        is_change = np.r_[True, comes[own][1:] != comes[own][:-1]]
        changes = own[is_change]
        begins = [(time[k], lines[k]) for k in changes if comes[k]]
        ends = [time[k] for k in changes if not comes[k]]
        if not comes[changes[0]]:
            num_up_before += 1
            begins.insert(0, (first_time, lines[changes[0]]))
        if comes[changes[-1]]:
            num_left_up += 1
            ends.append(_until(last, begins[-1][0], last_time))
        for (begin, line), end in zip(begins, ends, strict=True):
            if begin < end:
                rows.append((client, begin, end, line))
    client, start, end, source = np.array(rows, float).reshape(-1, 4).T
    return Intervals(
        client.astype(np.int64),
        start,
        end,
        source.astype(np.int64),
        'line',
        names,
        has_names=not isinstance(clients, int),
        length=last_time,
        notes=_notes(len(names), num_up_before, num_left_up, last),
    )


def _until(last: str | float, begin: float, last_time: float) -> float:
    """Finds when a client goes that nothing says goes."""
    if last == 'end':
        return last_time
    return begin if isinstance(last, str) else begin + last


def _notes(
    num_clients: int, num_up_before: int, num_left_up: int, last: str | float
) -> tuple[str, ...]:
    """Says what `from_events` had to guess."""
    notes = []
    if num_up_before:
        what = "go before they come: taken as up from the log's first time on"
        notes.append(f'{num_up_before:,} of {num_clients:,} clients {what}')
    if num_left_up:
        kinds = {
            'end': "taken as up until the log's last time",
            'drop': 'their last time up is left out',
        }
        how = (
            kinds[last] if isinstance(last, str) else f'taken as up for {last:g} s more'
        )
        notes.append(
            f"{num_left_up:,} of {num_clients:,} clients never go in the end: {how} (option 'last')"
        )
    return tuple(notes)


def _comes(
    states: Sequence[str], lines: Sequence[int], up: Sequence[str], down: Sequence[str]
) -> np.ndarray:
    """Reads whether each event says that its client comes, bool[K]."""
    known = {str(word).casefold(): False for word in down}
    known |= {str(word).casefold(): True for word in up}
    for state, line in zip(states, lines, strict=True):
        if state.casefold() not in known:
            requirement = f"be one of {', '.join(known)} (options 'up' and 'down')"
            raise errors.invalid('state', requirement, f'{state!r} on line {line}')
    return np.array([known[state.casefold()] for state in states], bool)


def _table(path: Path, columns: Sequence[str]) -> list[Any]:
    """Reads columns of a CSV file: the numbers of its lines, then the cells of each column."""
    with (
        errors.reading(path),
        open(paths.as_path(path), newline='', encoding='utf-8-sig') as file,
    ):
        reader = csv.reader(file)
        numbered = ((reader.line_num, [cell.strip() for cell in row]) for row in reader)
        _, header = next(numbered, (1, []))
        rows = {line: row for line, row in numbered if any(row)}
    for name in columns:
        if name not in header:
            raise errors.invalid('path', f'have a column {name!r} on line 1', header)
    places = [header.index(name) for name in columns]
    for line, row in rows.items():
        if len(row) <= max(places):
            got = f'{len(row)} on line {line}'
            raise errors.invalid('path', f'have {len(header)} values per line', got)
    return [list(rows), *([row[place] for row in rows.values()] for place in places)]


def _clients(
    lines: Sequence[int], owners: Sequence[str], clients: int | Sequence[str] | None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of clients, and the number of each line's, int64[K]."""
    if isinstance(clients, int):
        checks.static_int('clients', clients)
        clients = list(map(str, range(clients)))
    names = tuple(
        dict.fromkeys(filter(None, owners)) if clients is None else map(str, clients)
    )
    numbers = {name: client for client, name in enumerate(names)}
    for line, name in zip(lines, owners, strict=True):
        if name not in numbers:
            raise errors.invalid(
                'client', 'be a known client', f'{name!r} on line {line}'
            )
    return names, np.array([numbers[name] for name in owners], np.int64)


class _Clock:
    """Reads times of a file, numbers or dates, as seconds.

    Seconds of dates are counted on the clients' clock, so that their midnights are whole days.
    """

    def __init__(self, unit: str, utc_offset: float | None) -> None:
        """Begins with what the user says.

        Args:
          unit: of numbers.
          utc_offset: hours that the clients' clock is ahead of UTC; None for that of the first
            date.
        """
        checks.choice('unit', unit, SECONDS)
        if utc_offset is not None:
            checks.within('utc_offset', utc_offset, -24, 24)
        self._unit, self._hours = SECONDS[unit], utc_offset
        self._has_dates: bool | None = None

    def seconds(
        self, argument: str, cells: Sequence[str], lines: Sequence[int]
    ) -> np.ndarray:
        """Reads a column, float64[K]."""
        times = [
            self._second(argument, *cell) for cell in zip(cells, lines, strict=True)
        ]
        return np.array(times, float)

    def origin(self, given: float | str | None, starts: np.ndarray) -> float:
        """Finds the second of round 0."""
        first = float(starts.min(initial=np.inf))
        if given is None:
            given = 'midnight' if self._has_dates else 0.0
        if given == 'first':
            return first
        if given == 'midnight':
            return first // _DAY * _DAY
        if isinstance(given, str):
            try:
                return self._of_date(datetime.datetime.fromisoformat(given))
            except ValueError:
                raise errors.unknown_name(
                    'origin', given, ('first', 'midnight')
                ) from None
        return float(self._unit * checks.numbers('origin', given))

    def _second(self, argument: str, text: str, line: int) -> float:
        try:
            found, is_date = self._unit * float(text), False
        except ValueError:
            try:
                found, is_date = (
                    self._of_date(datetime.datetime.fromisoformat(text)),
                    True,
                )
            except ValueError:
                requirement = 'be a number or a date of ISO 8601, such as 2026-03-02T07:15:34+01:00'
                raise errors.invalid(
                    argument, requirement, f'{text!r} on line {line}'
                ) from None
        if self._has_dates not in (None, is_date):
            raise errors.invalid(
                argument, 'be of one kind, numbers or dates', f'both, on line {line}'
            )
        self._has_dates = is_date
        return found

    def _of_date(self, date: datetime.datetime) -> float:
        """Counts seconds on the clients' clock."""
        ahead = date.utcoffset()
        if self._hours is None:
            self._hours = 0.0 if ahead is None else ahead.total_seconds() / _HOUR
        if ahead is None:  # on that clock already
            return date.replace(tzinfo=datetime.UTC).timestamp()
        return date.timestamp() + _HOUR * self._hours


def from_flash(path: Path, *, clients: int | Sequence[str] | None = None) -> Intervals:
    """Intervals from FLASH's ``cached_timers.json``.

    By client, the file holds ``trace_start`` and ``trace_end`` and, as ``ready_time``, the pairs of
    times between which a phone was idle, charging and on wifi, all in seconds from midnight of
    2020-01-02. The log repeats after its own length in whole seconds; `trace` with ``rounds`` looks
    at such logs at the times of rounds. Clients whose log FLASH could not read (``isSuccess``
    false, no times, or no length) are left out.

    FLASH counts the instant in which a client goes down as up; here intervals are half open.

    Args:
      path: the file.
      clients: names of the clients to import, in the order of their new ids, or how many of the
        file's first ones; all by default.

    Returns:
      The intervals, whose sources are rows of a client's list, with each client's period. Time 0 is
      midnight.

    Raises:
      ValueError: for an unknown client or something else than described, with its client.

    References:
      Yang et al., Characterizing impacts of heterogeneity in federated learning upon large-scale
      smartphone data, WWW 2021.
    """
    timers = _timers(path)
    if isinstance(clients, int):
        checks.static_int('clients', clients, maximum=len(timers))
        clients = list(timers)[:clients]
    names = tuple(timers) if clients is None else tuple(map(str, clients))
    if not names:
        raise errors.invalid('path', 'hold a log of a client', 'none')
    ready, periods = [], []
    for name in names:
        checks.choice('clients', name, timers)
        begin, end = (
            _numbers(name, timers[name], field)
            for field in ('trace_start', 'trace_end')
        )
        times = _numbers(name, timers[name], 'ready_time', -1, 2)
        period = np.trunc(end - begin)
        if not period > 0:
            raise errors.invalid(
                'path', 'have logs of positive length', f'client {name}'
            )
        if np.diff(times).max(initial=0) > period:
            raise errors.invalid(
                'path', 'be up no longer than its log', f'client {name}'
            )
        up = np.mod(times[:, 0], period)
        ready.append(np.stack([up, up + times[:, 1] - times[:, 0]], axis=1))
        periods.append(period)
    client = np.repeat(np.arange(len(names)), list(map(len, ready)))
    source = np.concatenate([np.arange(len(times)) for times in ready])
    start, end = np.concatenate(ready).T
    return Intervals(
        client, start, end, source, 'row', names, np.array(periods), has_names=True
    )


def _timers(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Reads FLASH's logs by client, without those that FLASH could not read itself.

    Raises:
      ValueError: for a file of other fields, such as the ``state_traces.json`` that FLASH ships.
    """
    described = _descriptions(path)
    fields = {field for description in described.values() for field in description}
    if not fields & {'isSuccess', 'trace_start', 'trace_end', 'ready_time'}:
        requirement = (
            'be the cached_timers.json that FLASH writes from its state_traces.json'
        )
        got = f'one of the fields {", ".join(sorted(fields)) or "none"}'
        raise errors.invalid('path', requirement, got)
    return {
        name: timer
        for name, timer in described.items()
        if timer.get('isSuccess', True) and timer.get('trace_end') is not None
    }


def _descriptions(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """What a JSON file holds, if that is a description by client."""
    try:
        with errors.reading(path), open(paths.as_path(path), encoding='utf-8') as file:
            held = json.load(file)
    except (RecursionError, json.JSONDecodeError) as error:
        reason = getattr(error, 'msg', 'too deep a structure')
        raise errors.invalid('path', 'be a JSON file', f'{path}: {reason}') from None
    fields = list(held.values()) if isinstance(held, Mapping) else []
    if not fields or not all(isinstance(each, Mapping) for each in fields):
        raise errors.invalid(
            'path', 'hold a description by client', errors.text_of(held)
        )
    return held


def _numbers(
    name: str, fields: Mapping[str, Any], field: str, *shape: int
) -> np.ndarray:
    """A client's number, or its pairs of numbers (of shape -1, 2)."""
    path = f'{name}.{field}'
    values = checks.numbers(path, fields.get(field)).astype(float)
    fits = values.ndim == len(shape) and values.shape[1:] == shape[1:]
    if not fits and (values.size or not shape):  # no pairs at all may be an empty list
        kind = 'a list of pairs of numbers' if shape else 'a number'
        raise errors.invalid(path, f'be {kind}', errors.text_of(fields[field]))
    return values.reshape(shape)
