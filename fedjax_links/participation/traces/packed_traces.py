"""Intervals in rounds, packed: one sorted array of edges, with an offset per client."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors
from fedjax_links.participation.traces.intervals import (
    TOLERANCE,
    Intervals,
    check_times,
    within_wrap,
    wrap_seconds,
)


class PackedTrace(NamedTuple):
    """Edges of the availability of N clients, in rounds.

    Attributes:
      edges: int32[E], per client the rounds in which it comes up, goes down, comes up, ...;
        strictly increasing.
      offsets: int32[N + 1], client i owns ``edges[offsets[i]:offsets[i + 1]]``.
      period: int32[N], rounds after which each client's availability repeats.
    """

    edges: NDArray[np.int32]
    offsets: NDArray[np.int32]
    period: NDArray[np.int32]


def pack(
    intervals: Intervals,
    *,
    tick: float = 1.0,
    wrap: str | ArrayLike | None = None,
    overlaps: str = 'reject',
) -> PackedTrace:
    """Validated edges of every client, in rounds; see `trace`."""
    checks.positive('tick', tick)
    checks.choice('overlaps', overlaps, ('reject', 'merge'))
    check_times(intervals)
    period = _period(intervals, tick, wrap)
    seconds = np.float64(tick) * period
    client, start, end, _ = within_wrap(intervals, seconds, tick=tick, overlaps=overlaps)
    first, last = _round_up(start, tick), _round_up(end, tick)
    keep = last > first  # shorter than a tick and between two: no round sees it
    return _merge(client[keep], first[keep], last[keep], period)


def pack_mask(mask: NDArray[np.bool_]) -> PackedTrace:
    """The edges of recorded rounds, which repeat after the last."""
    num_rounds, num_clients = mask.shape
    edges = np.pad(mask.T, ((0, 0), (1, 1)))
    client, round = np.nonzero(edges[:, 1:] != edges[:, :-1])
    return PackedTrace(
        edges=round.astype(np.int32) if len(round) else np.zeros(1, np.int32),
        offsets=np.searchsorted(client, np.arange(num_clients + 1)).astype(np.int32),
        period=np.full(num_clients, num_rounds, np.int32),
    )


def _period(intervals: Intervals, tick: float, wrap: str | ArrayLike | None) -> NDArray[np.int64]:
    """Rounds per repetition of each client."""
    seconds = wrap_seconds(intervals, wrap)
    if seconds is None:
        seconds = _round_up(np.array([intervals.end.max()]), tick)[0] * np.asarray(tick, float)
        checks.positive('wrap', seconds)
    rounds: NDArray[np.float64] = np.broadcast_to(seconds / tick, (len(intervals.names),))
    whole = np.rint(rounds)
    if (np.abs(rounds - whole) > 1e-6).any() or (whole < 1).any() or (whole > 2**30).any():
        worst = rounds[np.argmax(np.abs(rounds - whole))]
        requirement = 'be a whole number of ticks (unless `rounds` are given)'
        raise errors.invalid('wrap', requirement, f'{worst:g} ticks')
    return whole.astype(np.int64)


def _round_up(times: NDArray[np.float64], tick: float) -> NDArray[np.int64]:
    """First round that does not come before each time."""
    rounds = times / tick
    return np.ceil(rounds - TOLERANCE * np.maximum(1, rounds)).astype(np.int64)


def _merge(
    client: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    period: NDArray[np.int64],
) -> PackedTrace:
    """Edges from intervals in rounds, sorted by client and start; unions of what touches."""
    shift = client * (2 * period.max() + 2)
    reach = np.maximum.accumulate(last + shift)
    opens = np.r_[True, (first + shift)[1:] > reach[:-1]] if len(client) else np.zeros(0, bool)
    closes = np.r_[opens[1:], True] if len(client) else opens
    edges = np.stack([first[opens], (reach - shift)[closes]], axis=1).ravel()
    counts = 2 * np.bincount(client[opens], minlength=len(period))
    return PackedTrace(
        edges=edges.astype(np.int32) if len(edges) else np.zeros(1, np.int32),
        offsets=np.r_[0, np.cumsum(counts)].astype(np.int32),
        period=period.astype(np.int32),
    )
