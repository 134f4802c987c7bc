"""Importers of availability logs: they give `intervals.Intervals`, for ``trace``.

* `from_csv`: one interval per line, ``client,start,end``.
* `from_matrix`: a line of 0 and 1 per round.
* `from_flash`, `from_fedscale`: measured on phones, see `participation.traces.device_logs`.

Other logs become intervals by a few lines of pandas (docs/availability.md). No availability format
of Plato could be found (it simulates speeds and latencies).

Times are numbers in a unit, or dates as ISO 8601 has them (``2026-03-02T07:15:34+01:00``), in UTC
where they name no time zone; a file has one or the other. Of dates, time 0 is a midnight of UTC
unless ``origin`` is another date.
"""

import csv
import datetime
from collections.abc import Sequence

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.participation.traces.device_logs import Path, from_fedscale, from_flash
from fedjax_links.participation.traces.intervals import Intervals, of_mask

__all__ = ['SECONDS', 'from_csv', 'from_fedscale', 'from_flash', 'from_matrix']

_COLUMNS = ('client', 'start', 'end')
SECONDS = {'ms': 0.001, 's': 1.0, 'min': 60.0, 'h': 3600.0, 'd': 86_400.0}


def from_csv(
    path: Path,
    *,
    unit: str = 's',
    origin: float | str | None = None,
    clients: int | Sequence[str] | None = None,
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
    checks.choice('unit', unit, SECONDS)
    rows = _rows(path)
    header = rows.pop(1, [])
    for name in _COLUMNS:
        if name not in header:
            raise errors.invalid('path', f'have a column {name!r} on line 1', header)
    places = [header.index(name) for name in _COLUMNS]
    for line, row in rows.items():
        if len(row) <= max(places):
            got = f'{len(row)} on line {line}'
            raise errors.invalid('path', f'have {len(header)} values per line', got)
    owners, *times = ([row[place] for row in rows.values()] for place in places)
    if isinstance(clients, int):
        checks.static_int('clients', clients)
        clients = list(map(str, range(clients)))
    names = tuple(dict.fromkeys(owners) if clients is None else map(str, clients))
    ids = {name: client for client, name in enumerate(names)}
    for line, name in zip(rows, owners, strict=True):
        if name not in ids:
            raise errors.invalid('client', 'be a known client', f'{name!r} on line {line}')
    scale: float | None = SECONDS[unit]
    try:
        float(times[0][0] if rows else 0)
    except ValueError:
        scale = None
    start, end = (
        np.array([_seconds(name, *cell, scale) for cell in zip(cells, rows, strict=True)], float)
        for name, cells in zip(_COLUMNS[1:], times, strict=True)
    )
    zero = first = start.min(initial=np.inf)
    if origin is None:
        zero = first // SECONDS['d'] * SECONDS['d'] if scale is None else 0.0
    elif origin != 'first':
        if isinstance(origin, str) and scale is not None:
            checks.choice('origin', origin, ('first',))
        zero = _seconds('origin', origin, None, scale)
    client = np.array([ids[name] for name in owners], np.int64)
    lines = np.array(list(rows), np.int64)
    return Intervals(client, start - zero, end - zero, lines, 'line', names)


def from_matrix(path: Path, *, seconds: float = 1.0) -> Intervals:
    """Intervals from a CSV file of 0 and 1, without ids.

    Args:
      path: the file, a line per round with a column per client. A first line with anything but 0
        and 1 names the clients, which are numbered otherwise.
      seconds: from one line to the next, positive.

    Returns:
      The intervals. The log repeats after its last round.

    Raises:
      ValueError: for a file that cannot be read; for another entry or a line of another length,
        with its line.
    """
    rows = _rows(path)
    first = next(iter(rows), 0)
    width = len(rows.get(first, ()))
    header = [] if set(rows.get(first, ())) <= {'0', '1'} else rows.pop(first)
    for line, row in rows.items():
        if len(row) != width or not set(row) <= {'0', '1'}:
            got = f'{errors.shown(row)} on line {line}'
            raise errors.invalid('path', f'have {width} values 0 or 1 per line', got)
    if not rows:
        raise errors.invalid('path', 'hold lines of 0 and 1', 'none')
    log = of_mask(np.array(list(rows.values())) == '1', seconds=seconds)
    return log._replace(names=tuple(header)) if header else log


def _rows(path: Path) -> dict[int, list[str]]:
    """The cells of a CSV file, stripped, by line; blank lines are left out."""
    with errors.reading(path), open(path, newline='', encoding='utf-8-sig') as file:
        reader = csv.reader(file)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    return {line: row for line, row in rows if any(row)}


def _seconds(argument: str, time: float | str, line: int | None, scale: float | None) -> float:
    """A time in seconds, of a unit of so many; of a date, for which it is None, since 1970."""
    try:
        if scale is not None:
            return float(time) * scale
        date = datetime.datetime.fromisoformat(str(time))
    except ValueError:
        date_like = 'a date such as 2026-03-02T07:15, as the first time is no number'
        kind = date_like if scale is None else 'a number'
        got = f'{time!r}' if line is None else f'{time!r} on line {line}'
        raise errors.invalid(argument, f'be {kind}', got) from None
    return (date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp()
