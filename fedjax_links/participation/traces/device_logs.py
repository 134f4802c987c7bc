"""Importers of availability as it was measured on phones: FLASH's and FedScale's files.

Both play a client's log again and again, each with a length of its own; `trace` with ``rounds``
looks at them at the times of rounds.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.participation.traces.intervals import Intervals

Path = str | os.PathLike[str]


def from_flash(path: Path, *, clients: int | Sequence[str] | None = None) -> Intervals:
    """Intervals from FLASH's ``cached_timers.json``.

    By client, the file holds ``trace_start`` and ``trace_end`` and, as ``ready_time``, the pairs of
    times between which a phone was idle, charging and on wifi, all in seconds from midnight of
    2020-01-02. The log repeats after its own length in whole seconds. Clients whose log FLASH could
    not read (``isSuccess`` false, no times, or no length) are left out.

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
        for name, timer in _read(path).items()
        if timer.get('isSuccess', True) and timer.get('trace_end') is not None
    }
    logs = {}
    for name, timer in _chosen(timers, clients).items():
        begin, end = (_numbers(name, timer, field) for field in ('trace_start', 'trace_end'))
        start, stop = _numbers(name, timer, 'ready_time', -1, 2).T
        period = float(np.trunc(end - begin))
        if not period > 0:
            raise errors.invalid('path', 'have logs of positive length', f'client {name}')
        if (stop - start).max(initial=0) > period:
            raise errors.invalid('path', 'be up no longer than its log', f'client {name}')
        up = np.mod(start, period)
        logs[name] = up, up + stop - start, period
    return _intervals(logs)


def from_fedscale(
    traces: Path | Mapping[Any, Mapping[str, Any]], *, clients: int | Sequence[Any] | None = None
) -> Intervals:
    """Intervals from FedScale's client availability traces (``client_behave_trace``).

    Each value holds ``active`` and ``inactive``, equally long lists of the seconds in which the
    client comes up and goes down, and ``finish_time``, the seconds after which it starts again. The
    published file is a pickle, which runs code when it is read; what is read here is JSON of it
    (docs/availability.md has the line that makes it).

    FedScale counts the second in which a client goes down as up; here intervals are half open. An
    interval is cut at ``finish_time``, beyond which FedScale never looks.

    Args:
      traces: the JSON file, or availability by client.
      clients: the clients to import, in the order of their new ids, or how many of the first ones;
        all by default.

    Returns:
      The intervals, whose sources are rows of a client's lists, with each client's period.

    Raises:
      ValueError: for an unknown client, a missing field, lists of different lengths or a file that
        is no JSON.

    References:
      Lai et al., FedScale: benchmarking model and system performance of federated learning at
      scale, ICML 2022.
    """
    held = traces if isinstance(traces, Mapping) else _read(traces)
    logs = {}
    for name, fields in _chosen(held, clients).items():
        up, down = (_numbers(name, fields, field, -1) for field in ('active', 'inactive'))
        finish = float(_numbers(name, fields, 'finish_time'))
        if up.shape != down.shape:
            what = f'{up.size} and {down.size} at client {name}'
            raise errors.invalid('traces', 'have as many `active` as `inactive`', what)
        seen = up < finish
        logs[name] = up[seen], np.minimum(down, finish)[seen], finish
    return _intervals(logs)


def _read(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """What a JSON file holds, if that is a description by client."""
    try:
        with errors.reading(path), open(path, encoding='utf-8') as file:
            held = json.load(file)
    except (RecursionError, json.JSONDecodeError) as error:
        reason = getattr(error, 'msg', 'too deep a structure')
        raise errors.invalid('path', 'be a JSON file', f'{path}: {reason}') from None
    fields = list(held.values()) if isinstance(held, Mapping) else []
    if not fields or not all(isinstance(each, Mapping) for each in fields):
        raise errors.invalid('path', 'hold a description by client', errors.shown(held))
    return held


def _chosen(
    held: Mapping[Any, Mapping[str, Any]], clients: int | Sequence[Any] | None
) -> dict[str, Mapping[str, Any]]:
    """The clients asked for, by name."""
    known = {str(name): fields for name, fields in held.items()}
    if isinstance(clients, int):
        checks.static_int('clients', clients, maximum=len(known))
        clients = list(known)[:clients]
    names = list(known) if clients is None else list(map(str, clients))
    for name in names:
        checks.choice('clients', name, known)
    return {name: known[name] for name in names}


def _numbers(name: str, fields: Mapping[str, Any], field: str, *shape: int) -> np.ndarray:
    """A number, or a list of numbers (of shape -1) or of pairs (-1, 2)."""
    path = f'{name}.{field}'
    found = checks.numbers(path, fields.get(field)).astype(float)
    fits = found.ndim == len(shape) and found.shape[1:] == shape[1:]
    if not fits and (found.size or not shape):
        kind = ('a number', 'a list of numbers', 'a list of pairs of numbers')[len(shape)]
        raise errors.invalid(path, f'be {kind}', errors.shown(fields[field]))
    return found.reshape(shape)


def _intervals(logs: Mapping[str, tuple[np.ndarray, np.ndarray, float]]) -> Intervals:
    """The intervals of clients, each with its starts, ends and period."""
    if not logs:
        raise errors.invalid('path', 'hold a log of a client', 'none')
    starts, ends, periods = zip(*logs.values(), strict=True)
    counts = list(map(len, starts))
    client = np.repeat(np.arange(len(logs)), counts)
    start, end, source = map(np.concatenate, (starts, ends, list(map(np.arange, counts))))
    return Intervals(client, start, end, source, 'row', tuple(logs), np.array(periods))
