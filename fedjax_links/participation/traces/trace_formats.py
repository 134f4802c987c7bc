"""Readers of availability logs: they return `Intervals`, for `trace` and `look_alike`.

* `from_csv`: one interval per line, ``client,start,end``.
* `from_events`: one change of state per line, ``client,time,state``.
* `from_flash`: FLASH's file, measured on phones.

Other logs become one of these by a few lines of pandas (docs/availability.md); a matrix of 0 and 1,
a line per round, is what `participation.replay` takes.
"""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors, paths
from fedjax_links.participation.traces.clock import Clock
from fedjax_links.participation.traces.intervals import Intervals

LogPath = str | os.PathLike[str]

_COLUMNS = ('client', 'start', 'end')
_EVENTS = ('client', 'time', 'state')


def from_csv(
    path: LogPath,
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
    lines, owners, starts, ends = _read_columns(path, _COLUMNS)
    names, ids = _clients(lines, owners, clients)
    clock = Clock(unit, utc_offset)
    start = clock.seconds('start', starts, lines)
    end = clock.seconds('end', ends, lines)
    zero = clock.origin(origin, start)
    return Intervals(
        client=ids,
        start=start - zero,
        end=end - zero,
        source=np.array(lines, np.int64),
        unit='line',
        names=names,
        has_names=not isinstance(clients, int),
    )


def from_events(
    path: LogPath,
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
    lines, owners, cells, states = _read_columns(path, _EVENTS)
    names, ids = _clients(lines, owners, clients)
    clock = Clock(unit, utc_offset)
    time = clock.seconds('time', cells, lines)
    time = time - clock.origin(origin, time)
    is_up = _read_states(states, lines, up, down)
    first_time = time.min(initial=np.inf)
    last_time = time.max(initial=0.0)
    line_numbers = np.array(lines, np.int64)
    rows: list[tuple[float, ...]] = []
    num_up_before = 0
    num_left_up = 0
    for client in np.unique(ids):
        changes = _changes(np.flatnonzero(ids == client), time, is_up)
        begins = time[changes[is_up[changes]]]
        ends = time[changes[~is_up[changes]]]
        begin_lines = line_numbers[changes[is_up[changes]]]
        if not is_up[changes[0]]:
            num_up_before += 1
            begins = np.r_[first_time, begins]
            begin_lines = np.r_[line_numbers[changes[0]], begin_lines]
        if is_up[changes[-1]]:
            num_left_up += 1
            ends = np.r_[ends, _last_end(last, begins[-1], last_time)]
        for begin, end, line in zip(begins, ends, begin_lines, strict=True):
            rows.append((client, begin, end, line))
    table = np.array(rows, float).reshape(-1, 4)
    client, start, end, source = table[table[:, 1] < table[:, 2]].T
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


def _changes(events: np.ndarray, time: np.ndarray, is_up: np.ndarray) -> np.ndarray:
    """Sorts a client's events by time and drops those that repeat the state before."""
    ordered = events[np.argsort(time[events], kind='stable')]
    states = is_up[ordered]
    return ordered[np.r_[True, states[1:] != states[:-1]]]


def _last_end(last: str | float, begin: float, last_time: float) -> float:
    """Returns when a client goes down whose last event says that it is up."""
    if last == 'end':
        return last_time
    if last == 'drop':
        return begin
    return begin + float(last)


def _notes(
    num_clients: int, num_up_before: int, num_left_up: int, last: str | float
) -> tuple[str, ...]:
    """Describes what `from_events` had to guess, a line each."""
    notes = []
    if num_up_before:
        assumption = "go before they come: taken as up from the log's first time on"
        notes.append(f'{num_up_before:,} of {num_clients:,} clients {assumption}')
    if num_left_up:
        if last == 'end':
            assumption = "taken as up until the log's last time"
        elif last == 'drop':
            assumption = 'their last time up is left out'
        else:
            assumption = f'taken as up for {last:g} s more'
        what = f"never go in the end: {assumption} (option 'last')"
        notes.append(f'{num_left_up:,} of {num_clients:,} clients {what}')
    return tuple(notes)


def _read_states(
    states: Sequence[str], lines: Sequence[int], up: Sequence[str], down: Sequence[str]
) -> np.ndarray:
    """Reads whether each event puts its client up, bool[K]."""
    is_up = {str(word).casefold(): False for word in down}
    is_up |= {str(word).casefold(): True for word in up}
    for state, line in zip(states, lines, strict=True):
        if state.casefold() not in is_up:
            requirement = f"be one of {', '.join(is_up)} (options 'up' and 'down')"
            raise errors.invalid('state', requirement, f'{state!r} on line {line}')
    return np.array([is_up[state.casefold()] for state in states], bool)


def _read_columns(path: LogPath, columns: Sequence[str]) -> list[Any]:
    """Reads columns of a CSV file: the numbers of its lines, then the cells of each column."""
    header, rows = _read_lines(path)
    for name in columns:
        if name not in header:
            raise errors.invalid('path', f'have a column {name!r} on line 1', header)
    indices = [header.index(name) for name in columns]
    for line, row in rows.items():
        if len(row) <= max(indices):
            got = f'{len(row)} on line {line}'
            raise errors.invalid('path', f'have {len(header)} values per line', got)
    table: list[Any] = [list(rows)]
    for index in indices:
        table.append([row[index] for row in rows.values()])
    return table


def _read_lines(path: LogPath) -> tuple[list[str], dict[int, list[str]]]:
    """Reads the header of a CSV file, and its other lines by number; blank ones are left out."""
    header: list[str] | None = None
    rows = {}
    with (
        errors.reading(path),
        open(paths.as_path(path), newline='', encoding='utf-8-sig') as file,
    ):
        reader = csv.reader(file)
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if header is None:
                header = row
            elif any(row):
                rows[reader.line_num] = row
    return header or [], rows


def _clients(
    lines: Sequence[int], owners: Sequence[str], clients: int | Sequence[str] | None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Returns the clients' names, and the id of each line's client, int64[K]."""
    names: Sequence[Any]
    if clients is None:
        names = list(dict.fromkeys(name for name in owners if name))
    elif isinstance(clients, int):
        checks.static_int('clients', clients)
        names = range(clients)
    else:
        names = clients
    ids = {str(name): client for client, name in enumerate(names)}
    for line, name in zip(lines, owners, strict=True):
        if name not in ids:
            got = f'{name!r} on line {line}'
            raise errors.invalid('client', 'be a known client', got)
    client_of_line = np.array([ids[name] for name in owners], np.int64)
    return tuple(map(str, names)), client_of_line


def from_flash(
    path: LogPath, *, clients: int | Sequence[str] | None = None
) -> Intervals:
    """Reads intervals from FLASH's ``cached_timers.json``.

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
    up_times = []
    periods = []
    for name in names:
        checks.choice('clients', name, timers)
        times, period = _read_timer(name, timers[name])
        up_times.append(times)
        periods.append(period)
    lengths = [len(times) for times in up_times]
    start, end = np.concatenate(up_times).T
    return Intervals(
        client=np.repeat(np.arange(len(names)), lengths),
        start=start,
        end=end,
        source=np.concatenate([np.arange(length) for length in lengths]),
        unit='row',
        names=names,
        period=np.array(periods),
        has_names=True,
    )


def _read_timer(name: str, timer: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Reads a client's times up, float64[K, 2], and the length of its log, in seconds."""
    begin = _numbers(name, timer, 'trace_start')
    end = _numbers(name, timer, 'trace_end')
    times = _numbers(name, timer, 'ready_time', -1, 2)
    period = np.trunc(end - begin)
    if not period > 0:
        raise errors.invalid('path', 'have logs of positive length', f'client {name}')
    if np.diff(times).max(initial=0) > period:
        raise errors.invalid('path', 'be up no longer than its log', f'client {name}')
    start = np.mod(times[:, 0], period)
    return np.stack([start, start + times[:, 1] - times[:, 0]], axis=1), period


def _timers(path: LogPath) -> Mapping[str, Mapping[str, Any]]:
    """Reads FLASH's logs by client, without those that FLASH could not read itself.

    Raises:
      ValueError: for a file of other fields, such as the ``state_traces.json`` that FLASH ships.
    """
    descriptions = _read_json(path)
    fields = set().union(*descriptions.values())
    if not fields & {'isSuccess', 'trace_start', 'trace_end', 'ready_time'}:
        requirement = (
            'be the cached_timers.json that FLASH writes from its state_traces.json'
        )
        got = f'one of the fields {", ".join(sorted(fields)) or "none"}'
        raise errors.invalid('path', requirement, got)
    return {
        name: timer
        for name, timer in descriptions.items()
        if timer.get('isSuccess', True) and timer.get('trace_end') is not None
    }


def _read_json(path: LogPath) -> Mapping[str, Mapping[str, Any]]:
    """Reads a JSON file of a description by client."""
    try:
        with errors.reading(path), open(paths.as_path(path), encoding='utf-8') as file:
            content = json.load(file)
    except (RecursionError, json.JSONDecodeError) as error:
        reason = getattr(error, 'msg', 'too deep a structure')
        raise errors.invalid('path', 'be a JSON file', f'{path}: {reason}') from None
    fields = list(content.values()) if isinstance(content, Mapping) else []
    if not fields or not all(isinstance(each, Mapping) for each in fields):
        got = errors.text_of(content)
        raise errors.invalid('path', 'hold a description by client', got)
    return content


def _numbers(
    name: str, fields: Mapping[str, Any], field: str, *shape: int
) -> np.ndarray:
    """Reads a client's number, or its pairs of numbers (of shape -1, 2)."""
    path = f'{name}.{field}'
    values = checks.numbers(path, fields.get(field)).astype(float)
    fits = values.ndim == len(shape) and values.shape[1:] == shape[1:]
    has_no_pairs = bool(shape) and not values.size  # an empty list has another shape
    if not fits and not has_no_pairs:
        kind = 'a list of pairs of numbers' if shape else 'a number'
        raise errors.invalid(path, f'be {kind}', errors.text_of(fields[field]))
    return values.reshape(shape)
