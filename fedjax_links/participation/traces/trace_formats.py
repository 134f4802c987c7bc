"""Readers of availability logs: they give `trace.Intervals`, for `trace` and `look_alike`.

* `from_csv`: one interval per line, ``client,start,end``.
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

from fedjax_links.core import checks, errors
from fedjax_links.participation.traces.trace import Intervals

Path = str | os.PathLike[str]

_COLUMNS = ('client', 'start', 'end')
SECONDS = {'ms': 0.001, 's': 1.0, 'min': 60.0, 'h': 3600.0, 'd': 86_400.0}


def from_csv(
    path: Path,
    *,
    unit: str = 's',
    origin: float | str = 0.0,
    clients: int | Sequence[str] | None = None,
) -> Intervals:
    """Intervals from a CSV file whose header names ``client``, ``start`` and ``end``.

    Args:
      path: the file; further columns are ignored.
      unit: of its times: ``'ms'``, ``'s'``, ``'min'``, ``'h'`` or ``'d'``.
      origin: time of round 0, in the file's unit, or ``'first'`` for the earliest start.
      clients: the clients known: N, for ids 0 to N - 1, or their names in the order of their ids.
        By default, ids follow the order of first appearance.

    Returns:
      The intervals; their sources are lines, of which the header is the first.

    Raises:
      ValueError: for a file that cannot be read; for a missing column or value, a time that is no
        number, or an unknown client, with its line.
    """
    checks.choice('unit', unit, SECONDS)
    with errors.reading(path), open(path, newline='', encoding='utf-8-sig') as file:
        reader = csv.reader(file)
        numbered = ((reader.line_num, [cell.strip() for cell in row]) for row in reader)
        _, header = next(numbered, (1, []))
        rows = {line: row for line, row in numbered if any(row)}
    for name in _COLUMNS:
        if name not in header:
            raise errors.invalid('path', f'have a column {name!r} on line 1', header)
    columns = [header.index(name) for name in _COLUMNS]
    for line, row in rows.items():
        if len(row) <= max(columns):
            got = f'{len(row)} on line {line}'
            raise errors.invalid('path', f'have {len(header)} values per line', got)
    owners, *times = ([row[column] for row in rows.values()] for column in columns)
    if isinstance(clients, int):
        checks.static_int('clients', clients)
        clients = list(map(str, range(clients)))
    names = tuple(dict.fromkeys(filter(None, owners)) if clients is None else map(str, clients))
    ids = {name: client for client, name in enumerate(names)}
    for line, name in zip(rows, owners, strict=True):
        if name not in ids:
            raise errors.invalid('client', 'be a known client', f'{name!r} on line {line}')
    start, end = (
        SECONDS[unit] * np.array([_number(name, *cell) for cell in zip(cells, rows, strict=True)])
        for name, cells in zip(_COLUMNS[1:], times, strict=True)
    )
    if isinstance(origin, str):
        checks.choice('origin', origin, ('first',))
        zero = start.min(initial=np.inf)
    else:
        zero = SECONDS[unit] * checks.numbers('origin', origin)
    client = np.array([ids[name] for name in owners], np.int64)
    lines = np.array(list(rows), np.int64)
    return Intervals(client, start - zero, end - zero, lines, 'line', names)


def _number(argument: str, text: str, line: int) -> float:
    """What a cell of a line holds."""
    try:
        return float(text)
    except ValueError:
        dates = ' (docs/availability.md makes numbers of dates)' if '-' in text[1:] else ''
        raise errors.invalid(argument, f'be a number{dates}', f'{text!r} on line {line}') from None


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
    timers = {
        name: timer
        for name, timer in _descriptions(path).items()
        if timer.get('isSuccess', True) and timer.get('trace_end') is not None
    }
    if isinstance(clients, int):
        checks.static_int('clients', clients, maximum=len(timers))
        clients = list(timers)[:clients]
    names = tuple(timers) if clients is None else tuple(map(str, clients))
    if not names:
        raise errors.invalid('path', 'hold a log of a client', 'none')
    ready, periods = [], []
    for name in names:
        checks.choice('clients', name, timers)
        begin, end = (_numbers(name, timers[name], field) for field in ('trace_start', 'trace_end'))
        times = _numbers(name, timers[name], 'ready_time', -1, 2)
        period = np.trunc(end - begin)
        if not period > 0:
            raise errors.invalid('path', 'have logs of positive length', f'client {name}')
        if np.diff(times).max(initial=0) > period:
            raise errors.invalid('path', 'be up no longer than its log', f'client {name}')
        up = np.mod(times[:, 0], period)
        ready.append(np.stack([up, up + times[:, 1] - times[:, 0]], axis=1))
        periods.append(period)
    client = np.repeat(np.arange(len(names)), list(map(len, ready)))
    source = np.concatenate([np.arange(len(times)) for times in ready])
    start, end = np.concatenate(ready).T
    return Intervals(client, start, end, source, 'row', names, np.array(periods))


def _descriptions(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """What a JSON file holds, if that is a description by client."""
    try:
        with errors.reading(path), open(path, encoding='utf-8') as file:
            held = json.load(file)
    except (RecursionError, json.JSONDecodeError) as error:
        reason = getattr(error, 'msg', 'too deep a structure')
        raise errors.invalid('path', 'be a JSON file', f'{path}: {reason}') from None
    fields = list(held.values()) if isinstance(held, Mapping) else []
    if not fields or not all(isinstance(each, Mapping) for each in fields):
        raise errors.invalid('path', 'hold a description by client', errors.text_of(held))
    return held


def _numbers(name: str, fields: Mapping[str, Any], field: str, *shape: int) -> np.ndarray:
    """A client's number, or its pairs of numbers (of shape -1, 2)."""
    path = f'{name}.{field}'
    values = checks.numbers(path, fields.get(field)).astype(float)
    fits = values.ndim == len(shape) and values.shape[1:] == shape[1:]
    if not fits and (values.size or not shape):  # no pairs at all may be an empty list
        kind = 'a list of pairs of numbers' if shape else 'a number'
        raise errors.invalid(path, f'be {kind}', errors.text_of(fields[field]))
    return values.reshape(shape)
