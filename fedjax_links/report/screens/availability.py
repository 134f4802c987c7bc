"""A log of availability: its day, its absences, and what FedAvg would make of it."""

from typing import NamedTuple

import numpy as np

from fedjax_links import analysis
from fedjax_links.core import errors
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.participation.traces.intervals import WRAPS, Intervals, check_times
from fedjax_links.participation.traces.look_alike import (
    look_alike,
    nearest_tick,
    rounds_per_day,
    sampled_days,
)
from fedjax_links.report.screens import recording
from fedjax_links.report.screens.link_statistics import standard_errors
from fedjax_links.report.screens.recording import LinkRecord

_HOURS = 24
_BAR = 30
_BATCHES = 32
_SEED = 0


class Availability(NamedTuple):
    """What a record of availability shows.

    Attributes:
      mask: bool[T, N], who is up in which round.
      tick: seconds per round.
      day: float64[24], share of clients up by hour of the day; NaN for hours without a round.
      absences: int64[T], entry k is the number of absences of k rounds, from one presence of a
        client to its next.
      weights: FedAvg's implicit weights, as realised.
      bias: L1 distance of these weights to 1/N.
      bias_error: of the bias, from batches of the record.
    """

    mask: np.ndarray
    tick: float
    day: np.ndarray
    absences: np.ndarray
    weights: np.ndarray
    bias: float
    bias_error: float


class LogReport(NamedTuple):
    """A log and, where the tick divides the day, as many clients that were fitted to it."""

    log: Availability
    copy: Availability | None


def of_log(
    intervals: Intervals, *, tick: float, rounds: int | None = None, overlaps: str = 'reject'
) -> LogReport:
    """Looks at a log at the times of rounds, and at its look-alike over as many.

    Args:
      intervals: the log, time 0 being midnight.
      tick: seconds per round.
      rounds: T, by default as in `sampled_days`.
      overlaps: as in `availability`.

    Returns:
      Both.

    Raises:
      ValueError: as for `availability`.
    """
    mask = sampled_days(intervals, tick=tick, rounds=rounds, overlaps=overlaps)
    try:
        rounds_per_day(tick)
    except errors.InvalidError:
        return LogReport(describe(mask, tick), None)
    pattern = look_alike(
        intervals, num_clients=mask.shape[1], tick=tick, rounds=len(mask), overlaps=overlaps
    )
    drawn = recording.record_links(pattern, num_rounds=len(mask), seed=_SEED)
    return LogReport(describe(mask, tick), describe(drawn.participates, tick))


def warnings(intervals: Intervals) -> list[str]:
    """What is odd about the times of a log, a line each.

    Args:
      intervals: the log, time 0 being midnight.

    Raises:
      ValueError: for times that no log can have, as `availability`.
    """
    check_times(intervals)
    ends = intervals.end if intervals.period is None else intervals.period
    length, first = float(np.max(ends)), float(intervals.start.min())
    found = []
    if 0 < length < WRAPS['day']:
        found.append(
            f'the log lasts {_time(length)} and is repeated to fill a day; if its times are no '
            'seconds, give their unit'
        )
    if first >= WRAPS['day']:
        days = f'{first / WRAPS["day"]:,.0f} days'
        found.append(f"nobody is there in the first {days}; with the origin 'first' the log begins")
    return found


def describe(mask: np.ndarray, tick: float) -> Availability:
    """What a record shows.

    Args:
      mask: bool[T, N], from midnight on.
      tick: seconds per round.
    """
    hour = (np.arange(len(mask)) * tick % WRAPS['day'] * _HOURS / WRAPS['day']).astype(int)
    number = np.bincount(hour, minlength=_HOURS)
    present = np.bincount(hour, mask.mean(axis=1), minlength=_HOURS)
    day = np.where(number > 0, present / np.maximum(number, 1), np.nan)
    gaps = analysis.gap_counts(mask)
    weights, bias, error = np.full(mask.shape[1], np.nan), np.nan, np.nan
    if mask.any() and len(mask) >= 2:
        batches = min(_BATCHES, len(mask))
        weights = analysis.effective_weights(masks=mask, num_batches=batches).weights
        away = weights - 1 / len(weights)
        bias = float(np.abs(away).sum())
        (error,) = standard_errors(mask, np.sign(away)[:, None], batches).tolist()
    return Availability(mask, tick, day, np.append(gaps[1:], 0), weights, bias, error)


def record(log: Availability) -> tuple[LinkRecord, LinkLaw]:
    """A log as links that repeat every day, for the page and the table of links."""
    mask = log.mask
    period = WRAPS['day'] / log.tick
    law = LinkLaw('a log', period=int(period) if period.is_integer() else None)
    return LinkRecord(mask, mask, mask, mask, np.full(mask.shape, np.nan), False, 0), law


def text(title: str, report: LogReport) -> str:
    """The report on a terminal.

    Args:
      title: first line.
      report: of a log.

    Returns:
      Lines of at most 80 columns.
    """
    log, copy = report
    shown = [log] if copy is None else [log, copy]
    num_rounds, num_clients = log.mask.shape
    days = num_rounds * log.tick / WRAPS['day']
    rows = {
        '': ['log', 'look-alike'][: len(shown)],
        'mean availability': [f'{of.mask.mean():.4f}' for of in shown],
        'clients never available': [f'{(~of.mask.any(axis=0)).sum():,}' for of in shown],
        'rounds without anybody': [f'{(~of.mask.any(axis=1)).mean():.1%}' for of in shown],
        'median absence': [_time(_quantile(of, 0.5)) for of in shown],
        '90 % of absences end within': [_time(_quantile(of, 0.9)) for of in shown],
        "bias of FedAvg's weights": [f'{of.bias:.4f}' for of in shown],
        '  standard error': [f'{of.bias_error:.4f}' for of in shown],
    }
    lines = [
        title[:80],
        f'{num_clients:,} clients, {num_rounds:,} rounds of {log.tick:g} s ({days:.3g} days)',
        *(f'{name:<32}' + ''.join(f'{cell:>12}' for cell in row) for name, row in rows.items()),
        '(the L1 distance of realised implicit weights from equal, between 0 and 2)',
    ]
    if copy is None:
        nearest = nearest_tick(log.tick)
        why = f'{log.tick:g} s do not divide a day; a tick of {nearest} s does'
        lines.append(f'(no look-alike: {why})')
    lines.append('share available by hour of the day')
    scale = _BAR / (np.nanmax(log.day) or 1)
    for hour in np.flatnonzero(~np.isnan(log.day)):
        bar = '█' * round(scale * log.day[hour])
        fitted = '' if copy is None else f'{copy.day[hour]:>12.4f}'
        lines.append(f'{hour:>8} h |{bar:<{_BAR}} {log.day[hour]:.4f}{fitted}')
    return '\n'.join(lines)


def _quantile(of: Availability, level: float) -> float:
    """Seconds within which this share of the absences ends; NaN where nobody came back."""
    whole = of.absences[1:].sum()
    if whole == 0:
        return np.nan
    return float(np.searchsorted(np.cumsum(of.absences[1:]), level * whole) + 1) * of.tick


def _time(seconds: float) -> str:
    if np.isnan(seconds):
        return 'none'
    for unit, size in (('d', 86_400), ('h', 3600), ('min', 60)):
        if seconds >= size:
            return f'{seconds / size:.3g} {unit}'
    return f'{seconds:g} s'
