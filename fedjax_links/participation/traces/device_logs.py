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
    timers = {name: timer for name, timer in _read(path).items() if _was_read(timer)}
    lists, periods = {}, {}
    for name in _chosen(timers, clients):
        timer = timers[name]
        begin, end = (_number(timer, field, name) for field in ('trace_start', 'trace_end'))
        period = float(int(end - begin))
        if period <= 0:
            raise errors.invalid('path', 'have logs of positive length', f'client {name}')
        rows = _numbers(timer, 'ready_time', name).reshape(-1, 2)
        if len(rows) and (rows[:, 1] - rows[:, 0]).max() > period:
            raise errors.invalid('path', 'be up no longer than its log', f'client {name}')
        up = np.mod(rows[:, 0], period)
        lists[name] = up, up + rows[:, 1] - rows[:, 0]
        periods[name] = period
    return _intervals(lists, periods)


def from_fedscale(
    traces: Path | Mapping[Any, Mapping[str, Any]],
    *,
    clients: int | Sequence[Any] | None = None,
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
    lists, periods = {}, {}
    for name in _chosen(held, clients):
        up, down = (_numbers(held[name], field, name) for field in ('active', 'inactive'))
        finish = _number(held[name], 'finish_time', name)
        if up.shape != down.shape:
            what = f'{up.size} and {down.size} at client {name}'
            raise errors.invalid('traces', 'have as many `active` as `inactive`', what)
        seen = up < finish
        lists[name] = up[seen], np.minimum(down, finish)[seen]
        periods[name] = finish
    return _intervals(lists, periods)


def _read(path: Path) -> Mapping[Any, Mapping[str, Any]]:
    """What a JSON file holds, if that is a description by client."""
    try:
        with errors.reading(path), open(path, encoding='utf-8') as file:
            held = json.load(file)
    except (RecursionError, json.JSONDecodeError) as error:
        raise errors.invalid('path', 'be a JSON file', errors.one_line(str(error))) from None
    if not isinstance(held, Mapping) or not held:
        raise errors.invalid('path', 'hold a description by client', errors.shown(held))
    for name, fields in held.items():
        if not isinstance(fields, Mapping):
            what = f'{errors.shown(fields)} for client {name}'
            raise errors.invalid('path', 'hold a description by client', what)
    return held


def _was_read(timer: Mapping[str, Any]) -> bool:
    """Whether FLASH made anything of a client's log."""
    begin, end = timer.get('trace_start'), timer.get('trace_end')
    return bool(timer.get('isSuccess', True)) and begin is not None and end is not None


def _chosen(held: Mapping[Any, Any], clients: int | Sequence[Any] | None) -> list[Any]:
    """The clients asked for."""
    if clients is None or isinstance(clients, int):
        if clients is not None:
            checks.static_int('clients', clients, maximum=len(held))
        return list(held)[:clients]
    known = {str(name): name for name in held}
    for name in clients:
        if str(name) not in known:
            raise errors.unknown_name('clients', str(name), known)
    return [known[str(name)] for name in clients]


def _field(fields: Mapping[str, Any], field: str, name: Any) -> Any:
    if field not in fields:
        raise errors.invalid('traces', f'have the field {field!r}', f'client {name}')
    return fields[field]


def _numbers(fields: Mapping[str, Any], field: str, name: Any) -> np.ndarray:
    """A list of numbers, or of pairs of numbers, as one vector."""
    given = _field(fields, field, name)
    try:
        found = np.asarray(given, float)
    except (TypeError, ValueError, OverflowError):
        found = np.zeros(())
    pairs = field == 'ready_time'
    shape = found.shape[1:] if found.size else (2,) * pairs
    if found.ndim == 0 or shape != (2,) * pairs:
        what = f'{errors.shown(given)} at client {name}'
        raise errors.invalid(field, f'be a list of {"pairs of " * pairs}numbers', what)
    return found.reshape(-1)


def _number(fields: Mapping[str, Any], field: str, name: Any) -> float:
    given = _field(fields, field, name)
    if isinstance(given, bool) or not isinstance(given, int | float) or not np.isfinite(given):
        raise errors.invalid(field, 'be a number', f'{errors.shown(given)} at client {name}')
    return float(given)


def _intervals(
    lists: Mapping[Any, tuple[np.ndarray, np.ndarray]], periods: Mapping[Any, float]
) -> Intervals:
    counts = [len(up) for up, _ in lists.values()]
    empty = np.zeros(0)
    return Intervals(
        client=np.repeat(np.arange(len(lists)), counts),
        start=np.concatenate([empty, *(up for up, _ in lists.values())]),
        end=np.concatenate([empty, *(down for _, down in lists.values())]),
        source=np.concatenate([np.zeros(0, np.int64), *map(np.arange, counts)]),
        unit='row',
        names=tuple(map(str, lists)),
        period=np.array(list(periods.values())),
    )
