"""Reads availability logs as `Intervals`, for the patterns `trace` and `synthetic_trace`.

An availability log says when devices, such as phones, could take part. There are three readers:

* `from_csv`: one interval per line, ``client,start,end``.
* `from_events`: one change of state per line, ``client,time,state``.
* `from_flash`: FLASH's file, measured on phones.

A few lines of pandas convert another log to one of these forms (docs/availability.md). A matrix of
0 and 1 with a row per round needs no reader: `participation.replay` takes it.
"""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors, paths
from fedjax_links.core.records import Section
from fedjax_links.participation.traces.clock import Clock
from fedjax_links.participation.traces.intervals import Intervals, names_of

LogPath = str | os.PathLike[str]

_INTERVAL_COLUMNS = ('client', 'start', 'end')
_EVENT_COLUMNS = ('client', 'time', 'state')
_UP = ('up', 'on', 'connect', 'connected', 'true', '1')
_DOWN = ('down', 'off', 'disconnect', 'disconnected', 'false', '0')


def from_csv(
    path: LogPath,
    *,
    unit: str = 's',
    origin: float | str | None = None,
    clients: int | Sequence[str] | None = None,
    utc_offset: float | None = None,
) -> Intervals:
    """Reads intervals from a CSV file whose header names ``client``, ``start`` and ``end``.

    Times are numbers, or ISO 8601 dates with a time.

    Args:
      path: the file; further columns are ignored.
      unit: unit of times that are numbers: ``'ms'``, ``'s'``, ``'min'``, ``'h'`` or ``'d'``.
      origin: time of round 0: a number in the file's unit, a date, ``'first'`` for the earliest
        time, or ``'midnight'`` for the midnight before the earliest time. The default is 0 for
        numbers, and ``'midnight'`` for dates.
      clients: the number N of clients, named 0 to N - 1 in the file; or the clients' names, in the
        order of their ids. By default, ids follow the order of first appearance.
      utc_offset: hours that the clients' clock is ahead of UTC. It sets the clients' midnight, and
        applies to dates without an offset. By default the offset of the first date, or UTC. If
        this argument is given or ``origin`` is a date, numbers count from 1970 in UTC.

    Returns:
      The intervals. The source of an interval is its line number; the header is line 1.

    Raises:
      ValueError: for a file that cannot be read; and, with its line, for a missing column or value,
        a time that is neither finite number nor date, or an unknown client.
    """
    lines, owners, starts, ends = _read_columns(path, _INTERVAL_COLUMNS)
    names, ids = _number_clients(lines, owners, clients)
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
        notes=clock.notes(),
    )


def from_events(
    path: LogPath,
    *,
    unit: str = 's',
    origin: float | str | None = 'first',
    clients: int | Sequence[str] | None = None,
    utc_offset: float | None = None,
    up: str | Sequence[str] = _UP,
    down: str | Sequence[str] = _DOWN,
    last: str | float = 'end',
) -> Intervals:
    """Reads changes of state from a CSV file whose header names ``client``, ``time``, ``state``.

    A client is up from an ``up`` event to its next ``down`` event. Events may be in any order, and
    events that repeat the state are ignored. If the first event of a client is ``down``, it was up
    from the first time of the log. `Intervals.notes` lists such guesses.

    Args:
      path: the file; further columns are ignored.
      unit: as in `from_csv`.
      origin: as in `from_csv`; by default, round 0 is the first time.
      clients: as in `from_csv`.
      utc_offset: as in `from_csv`.
      up: the value or values of ``state`` for a client that comes up, in upper or lower case.
      down: the value or values of ``state`` for a client that goes down.
      last: how long a client stays up after a last event ``up``: ``'end'``, until the last time of
        the log; ``'drop'``, not at all; or a number of seconds.

    Returns:
      The intervals. The source of an interval is the line of the event at which it begins.

    Raises:
      ValueError: as `from_csv`; for an unknown state, with its line; for a state in both lists.
    """
    if isinstance(last, str):
        checks.choice('last', last, ('end', 'drop'))
    else:
        checks.positive_number('last', last)
    lines, owners, cells, states = _read_columns(path, _EVENT_COLUMNS)
    names, ids = _number_clients(lines, owners, clients)
    clock = Clock(unit, utc_offset)
    time = clock.seconds('time', cells, lines)
    time = time - clock.origin(origin, time)
    is_up = _read_states(states, lines, up, down)
    first_time = time.min(initial=np.inf)
    last_time = time.max(initial=0.0)
    # Sort events by client and time, and drop events that repeat the client's state.
    order = np.lexsort((time, ids))
    is_first = np.diff(ids[order], prepend=-1) != 0
    changes = np.diff(is_up[order], prepend=False)
    events = order[is_first | changes]
    client = ids[events]
    event_time = time[events]
    goes_up = is_up[events]
    is_first = np.diff(client, prepend=-1) != 0
    is_last = np.roll(is_first, -1)
    # An interval begins with an event up and lasts until its client's next event.
    start = np.where(goes_up, event_time, first_time)
    end = np.where(goes_up, np.roll(event_time, -1), event_time)
    was_up_before = is_first & ~goes_up
    is_left_up = is_last & goes_up
    end[is_left_up] = _ends_of_last(last, start[is_left_up], last_time)
    # Leave out empty intervals, such as a client's last one with 'drop'.
    is_interval = (goes_up | was_up_before) & (start < end)
    guesses = _describe_guesses(len(names), was_up_before.sum(), is_left_up.sum(), last)
    return Intervals(
        client=client[is_interval],
        start=start[is_interval],
        end=end[is_interval],
        source=np.array(lines, np.int64)[events[is_interval]],
        unit='line',
        names=names,
        has_names=not isinstance(clients, int),
        length=last_time,
        notes=(*clock.notes(), *guesses),
    )


def _ends_of_last(last: str | float, begins: np.ndarray, last_time: float) -> Any:
    """Returns the ends of the intervals that no ``down`` event ends."""
    if last == 'end':
        return last_time
    if last == 'drop':
        return begins
    return begins + float(last)


def _describe_guesses(
    num_clients: int, num_up_before: int, num_left_up: int, last: str | float
) -> tuple[str, ...]:
    """Describes each guess of `from_events` in a line."""
    notes = []
    if num_up_before:
        what = "go down first: taken as up from the log's first time on"
        notes.append(f'{num_up_before:,} of {num_clients:,} clients {what}')
    if num_left_up:
        if last == 'end':
            assumption = "taken as up until the log's last time"
        elif last == 'drop':
            assumption = 'their last time up is left out'
        else:
            assumption = f'taken as up for {last:g} s more'
        what = f"never go down at the end: {assumption} (option 'last')"
        notes.append(f'{num_left_up:,} of {num_clients:,} clients {what}')
    return tuple(notes)


def _read_states(
    states: Sequence[str],
    lines: Sequence[int],
    up: str | Sequence[str],
    down: str | Sequence[str],
) -> np.ndarray:
    """Reads whether each event puts its client up, bool[K]."""
    is_up: dict[str, bool] = {}
    for argument, words, puts_up in (('down', down, False), ('up', up, True)):
        listed = [words] if isinstance(words, str) else names_of(argument, words)
        for word in listed:
            if is_up.setdefault(word.casefold(), puts_up) != puts_up:
                raise errors.invalid('up', 'have no value of `down`', repr(word))
    for state, line in zip(states, lines, strict=True):
        if state.casefold() not in is_up:
            requirement = f"be one of {', '.join(is_up)} (options 'up' and 'down')"
            raise errors.invalid('state', requirement, f'{state!r} on line {line}')
    return np.array([is_up[state.casefold()] for state in states], bool)


def _read_columns(path: LogPath, columns: Sequence[str]) -> list[Any]:
    """Reads columns of a CSV file, and returns its line numbers and the cells of each column."""
    header, rows = _read_lines(path)
    for name in columns:
        if header.count(name) != 1:
            number = 'one' if name in header else 'a'
            requirement = f'have {number} column {name!r} on line 1'
            raise errors.invalid('path', requirement, header)
    indices = [header.index(name) for name in columns]
    for line, row in rows.items():
        # A number such as 1,000 without quotes gives a row more values than the header has names.
        if len(row) <= max(indices) or any(row[len(header) :]):
            got = f'{len(row)} on line {line}'
            raise errors.invalid('path', f'have {len(header)} values per line', got)
    table: list[Any] = [list(rows)]
    for index in indices:
        table.append([row[index] for row in rows.values()])
    return table


def _read_lines(path: LogPath) -> tuple[list[str], dict[int, list[str]]]:
    """Reads the header of a CSV file, and its other lines that are not blank, by line number."""
    header: list[str] | None = None
    rows = {}
    with (
        errors.reading(path),
        open(paths.as_path(path, 'path'), newline='', encoding='utf-8-sig') as file,
    ):
        reader = csv.reader(file)
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if header is None:
                header = row
            elif any(row):
                rows[reader.line_num] = row
    return header or [], rows


def _number_clients(
    lines: Sequence[int], owners: Sequence[str], clients: int | Sequence[str] | None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Numbers the clients of a log: returns all names, and the id of each line, int64[K]."""
    if isinstance(clients, int):
        checks.static_int('clients', clients)
        clients = [str(client) for client in range(clients)]
    if clients is None:
        clients = list(dict.fromkeys(name for name in owners if name))
    names = names_of('clients', clients)
    ids = {name: client for client, name in enumerate(names)}
    if len(ids) < len(names):
        raise errors.invalid('clients', 'name each client once', errors.text_of(names))
    for line, name in zip(lines, owners, strict=True):
        if name not in ids:
            got = f'{name!r} on line {line}'
            raise errors.invalid('client', 'be a known client', got)
    return names, np.array([ids[name] for name in owners], np.int64)


def from_flash(
    path: LogPath, *, clients: int | Sequence[str] | None = None
) -> Intervals:
    """Reads intervals from FLASH's ``cached_timers.json``.

    For each client, the file holds ``trace_start``, ``trace_end`` and ``ready_time``. In
    ``ready_time`` are pairs of times between which a phone was idle, charging and on wifi. All
    times are in seconds from midnight of 2020-01-02. A client's log repeats after its length in
    whole seconds. Clients whose log FLASH could not read (``isSuccess`` false, no times, or no
    length) are left out.

    FLASH counts the instant in which a client goes down as up; here intervals are half open.

    Args:
      path: the file.
      clients: names of the clients to import, in the order of their new ids; or a number K, for
        the first K clients of the file. All clients by default.

    Returns:
      The intervals, with the period of each client. The source of an interval is its row in the
      client's ``ready_time``. Time 0 is midnight.

    Raises:
      ValueError: for an unknown client, or for a client whose log has another form.

    References:
      Yang et al., Characterizing impacts of heterogeneity in federated learning upon large-scale
      smartphone data, WWW 2021.
    """
    timers = _timers(path)
    if isinstance(clients, int):
        checks.static_int('clients', clients, maximum=len(timers))
        clients = list(timers)[:clients]
    names = tuple(timers) if clients is None else names_of('clients', clients)
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


def _read_timer(name: str, timer: Section) -> tuple[np.ndarray, np.ndarray]:
    """Reads start and end of a client's intervals, float64[K, 2], and its period, in seconds."""
    begin = _numbers(name, timer, 'trace_start')
    end = _numbers(name, timer, 'trace_end')
    times = _numbers(name, timer, 'ready_time', -1, 2)
    period = np.trunc(end - begin)
    if not period > 0:
        raise errors.invalid('path', 'have logs of positive length', f'client {name}')
    if np.diff(times).max(initial=0) > period:
        raise errors.invalid('path', 'be up no longer than its log', f'client {name}')
    start = np.mod(times[:, 0], period)
    end_of_interval = start + times[:, 1] - times[:, 0]
    return np.stack([start, end_of_interval], axis=1), period


def _timers(path: LogPath) -> Mapping[str, Section]:
    """Reads FLASH's logs by client, without those that FLASH itself could not read.

    Raises:
      ValueError: for a file with other fields, such as the ``state_traces.json`` that FLASH ships.
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


def _read_json(path: LogPath) -> Mapping[str, Section]:
    """Reads a JSON file with an object for each client."""
    try:
        with (
            errors.reading(path),
            open(paths.as_path(path, 'path'), encoding='utf-8') as file,
        ):
            content = json.load(file)
    except (RecursionError, json.JSONDecodeError) as error:
        reason = getattr(error, 'msg', 'too deep a structure')
        raise errors.invalid('path', 'be a JSON file', f'{path}: {reason}') from None
    descriptions = list(content.values()) if isinstance(content, Mapping) else []
    are_objects = all(isinstance(fields, Mapping) for fields in descriptions)
    if not descriptions or not are_objects:
        got = errors.text_of(content)
        raise errors.invalid('path', 'hold a description by client', got)
    return content


def _numbers(name: str, fields: Section, field: str, *shape: int) -> np.ndarray:
    """Reads a number from a client's field, or a list of pairs of numbers if ``shape`` is -1, 2."""
    path = f'{name}.{field}'
    kind = 'a list of pairs of numbers' if shape else 'a number'
    if fields.get(field) is None:
        raise errors.invalid(path, f'be {kind}', None)
    values = checks.numbers(path, fields[field]).astype(float)
    fits = values.ndim == len(shape) and values.shape[1:] == shape[1:]
    has_no_pairs = bool(shape) and not values.size  # an empty list has another shape
    if not fits and not has_no_pairs:
        raise errors.invalid(path, f'be {kind}', errors.text_of(fields[field]))
    return values.reshape(shape)
