"""A log of availability: its day, its absences, and what FedAvg would make of it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_links import analysis, plot
from fedjax_links.core import errors
from fedjax_links.participation.traces.intervals import WRAPS, Intervals, check_times
from fedjax_links.participation.traces.look_alike import look_alike, nearest_tick, rounds_per_day
from fedjax_links.participation.traces.trace import availability
from fedjax_links.report import style, tables
from fedjax_links.report.screens import recording

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
      rounds: T, by default as in `availability`.
      overlaps: as in `availability`.

    Returns:
      Both.

    Raises:
      ValueError: as for `availability`.
    """
    mask = availability(intervals, tick=tick, rounds=rounds, overlaps=overlaps)
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
        found = analysis.effective_weights(masks=mask, num_batches=min(_BATCHES, len(mask)))
        weights = found.weights
        away = weights - 1 / len(weights)
        bias = float(np.abs(away).sum())
        parts = np.array_split(mask, min(_BATCHES, len(mask)))
        error = _distance_error(parts, np.sign(away))
    return Availability(mask, tick, day, np.append(gaps[1:], 0), weights, bias, error)


def text(title: str, report: LogReport) -> str:
    """The report on a terminal.

    Args:
      title: first line.
      report: of a log.

    Returns:
      Lines of at most 80 columns.
    """
    log, copy = report
    num_rounds, num_clients = log.mask.shape
    beside = '' if copy is None else f'{"look-alike":>12}'
    lines = [
        title[:80],
        f'{num_clients:,} clients, {num_rounds:,} rounds of {log.tick:g} s '
        f'({num_rounds * log.tick / WRAPS["day"]:.3g} days)',
        f'{"":<34}{"log":>10}{beside}',
    ]
    rows = {
        'mean availability': _means(report, lambda of: f'{of.mask.mean():.4f}'),
        'clients never available': _means(report, lambda of: f'{(~of.mask.any(axis=0)).sum():,}'),
        'rounds without anybody': _means(report, lambda of: f'{(~of.mask.any(axis=1)).mean():.1%}'),
        'median absence': _means(report, lambda of: _time(_quantile(of, 0.5))),
        '90 % of absences end within': _means(report, lambda of: _time(_quantile(of, 0.9))),
        "bias of FedAvg's weights": _means(report, lambda of: f'{of.bias:.4f}'),
        '  standard error': _means(report, lambda of: f'{of.bias_error:.4f}'),
    }
    lines += [f'{name:<34}{"".join(values)}' for name, values in rows.items()]
    lines.append('(the L1 distance of realised implicit weights from equal, between 0 and 2)')
    if copy is None:
        lines.append(f'(no look-alike: {_no_copy(log.tick)})')
    lines.append('share available by hour of the day')
    most = np.nanmax(log.day)
    for hour, share in enumerate(log.day):
        if np.isnan(share):
            continue
        bar = '█' * round(_BAR * share / most if most > 0 else 0)
        fitted = '' if copy is None else f'{copy.day[hour]:>12.4f}'
        lines.append(f'{hour:>8} h |{bar:<{_BAR}} {share:.4f}{fitted}')
    return '\n'.join(line.rstrip() for line in lines)


def picture(path: Path, title: str, report: LogReport) -> None:
    """The page: who is up when, the day, the law of absences, FedAvg's weights.

    Args:
      path: where the PNG goes.
      title: above everything.
      report: of a log.
    """
    kinds = [('log', report.log, '#5a5a5a', '-')]
    if report.copy is not None:
        kinds.append(('look-alike', report.copy, plot.COLOURS[4], '--'))

    def draw(figure) -> None:
        axes = figure.subplots(2, 2)
        plot.link_map(report.log.mask, num_rounds=600, ax=axes[0, 0])
        axes[0, 0].set_title('Who is available in the first rounds', fontsize=10)
        for name, of, colour, line in kinds:
            options = {'color': colour, 'linestyle': line, 'label': name}
            hours = np.flatnonzero(~np.isnan(of.day))
            axes[0, 1].plot(hours + 0.5, of.day[hours], **options)
            lengths, survival = _survival(of)
            axes[1, 0].step(lengths / 3600, survival, where='post', **options)
            axes[1, 1].plot(np.sort(of.weights)[::-1] * len(of.weights), **options)
        axes[0, 1].set(xlabel='hour of the day', ylabel='share available', xlim=(0, 24))
        axes[0, 1].set_ylim(bottom=0)
        axes[0, 1].set_title('The day', fontsize=10)
        axes[1, 0].set(xlabel='hours', ylabel='share of longer absences')
        if report.log.absences[1:].any():
            axes[1, 0].set(xscale='log', yscale='log')
        axes[1, 0].set_title('Absences', fontsize=10)
        axes[1, 1].axhline(1, color='#cccccc', linewidth=0.8)
        axes[1, 1].set(xlabel='client, largest weight first', ylabel='weight x N')
        found = f'bias {report.log.bias:.3f} ± {2 * report.log.bias_error:.3f}'
        axes[1, 1].set_title(f"FedAvg's implicit weights, {found}", fontsize=10)
        for each in axes.flat[1:]:
            each.legend(frameon=False, fontsize=8)

    copy = (
        f'There is no look-alike: {_no_copy(report.log.tick)}.'
        if report.copy is None
        else 'The look-alike has as many clients with rates of clients of the log, each a '
        'two-state Markov chain whose rates follow the hour.'
    )
    caption = (
        f'{report.log.mask.shape[1]:,} clients over {len(report.log.mask):,} rounds of '
        f'{report.log.tick:g} s. {copy} The bias is the L1 distance of the realised weights from '
        'equal, with two standard errors from batches.'
    )
    style.save_page(path, draw, title=title, caption=caption, size=(10, 7))


def write_csv(path: Path, report: LogReport, names: tuple[str, ...]) -> None:
    """One line per client of the log: availability, absences and weight.

    Args:
      path: where the file goes.
      report: of a log.
      names: of its clients.
    """
    found = analysis.participation_report(report.log.mask)
    tables.write_csv(
        path,
        {
            'client': np.array(names),
            'availability': found.rates,
            'mean_gap': found.mean_gaps,
            'longest_gap': found.max_gaps,
            'weight': report.log.weights,
        },
    )


def _distance_error(parts: list[np.ndarray], signs: np.ndarray) -> float:
    """Standard error of ``signs @ weights``, a ratio of sums over batches."""
    sums = np.array([_share_sum(part, signs) for part in parts])
    counts = np.array([part.any(axis=1).sum() for part in parts], float)
    residuals = sums - counts * sums.sum() / counts.sum()
    number = len(parts)
    return float(np.sqrt(np.sum(residuals**2) * number / (number - 1)) / counts.sum())


def _share_sum(mask: np.ndarray, signs: np.ndarray) -> float:
    sizes = mask.sum(axis=1)
    return float(((mask @ signs) / np.maximum(sizes, 1)).sum())


def _means(report: LogReport, say) -> list[str]:
    return [f'{say(report.log):>10}', *([] if report.copy is None else [f'{say(report.copy):>12}'])]


def _quantile(of: Availability, level: float) -> float:
    """Seconds within which this share of the absences ends; NaN where nobody came back."""
    whole = of.absences[1:].sum()
    if whole == 0:
        return np.nan
    return float(np.searchsorted(np.cumsum(of.absences[1:]), level * whole) + 1) * of.tick


def _survival(of: Availability) -> tuple[np.ndarray, np.ndarray]:
    """Lengths in seconds and the share of absences that are longer."""
    counts = of.absences[1:]
    whole = max(1, counts.sum())
    longer = 1 - np.cumsum(counts) / whole
    last = int(np.flatnonzero(counts)[-1]) if counts.any() else 0
    return of.tick * np.arange(1, last + 1), longer[:last]


def _no_copy(tick: float) -> str:
    return f'{tick:g} s do not divide a day; a tick of {nearest_tick(tick)} s does'


def _time(seconds: float) -> str:
    if np.isnan(seconds):
        return 'none'
    for unit, size in (('d', 86_400), ('h', 3600), ('min', 60)):
        if seconds >= size:
            return f'{seconds / size:.3g} {unit}'
    return f'{seconds:g} s'
