"""What a layout returns, and how numbers read on it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import checks
from fedjax_links.evaluation import Interval
from fedjax_links.experiment import choosing
from fedjax_links.plot.panels import is_share, words
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table


class Page(NamedTuple):
    """One layout of one set of results.

    Attributes:
      heading: a few words.
      tables: to read.
      draw: draws on an empty matplotlib figure; None without a picture.
      size: inches, width and height of the picture.
    """

    heading: str
    tables: Sequence[Table]
    draw: Callable[[Any], None] | None = None
    size: tuple[float, float] = (10.0, 5.0)


MOST_SERIES = 24


def told_apart(
    results: Results,
    heading: str,
    metric: str,
    tail: float,
    patterns: Sequence[int] | None = None,
) -> tuple[Results, str]:
    """The series that a picture of curves can tell apart.

    Args:
      results: what ran.
      heading: of the page.
      metric: by which points are judged, one that the page draws.
      tail: share of the evaluations, the last ones, that each seed is averaged over.
      patterns: where in the patterns of the results; all by default.

    Returns:
      All, or of each algorithm the best point where there are more than 24 series (the first one if
      nothing says which way the metric is better); the heading, which then says so, and by what.
    """
    if len(results.curves) <= MOST_SERIES:
        return results, heading
    if results.directions.get(metric):
        chosen, which = results.best_series(metric, tail, patterns), 'best'
        by = f' by {words(metric)}, {span(results, tail)}'
    else:
        chosen, which = {owner: k for k, (owner, _) in [*results.members.items()][::-1]}, 'first'
        by = ''
    kept = [label for label in results.curves if label in chosen.values()]
    if len(kept) == len(results.curves):
        return results, heading
    fewer = results._replace(
        curves={label: results.curves[label] for label in kept},
        members={label: results.members[label] for label in kept},
    )
    return fewer, f'{heading}, every algorithm at the {which} point of its grid{by}'


def number(metric: str, value: float) -> str:
    """Accuracies in per cent with one decimal, everything else with four digits."""
    if value != value:
        return 'diverged'
    return f'{100 * value:.1f}' if is_share(metric) else f'{value:.4g}'


def interval(metric: str, mean: float, half_width: float, *, signed: bool = False) -> str:
    """``84.3 ± 0.4``; the mean alone where there is no interval.

    Args:
      metric: what it is.
      mean: the mean.
      half_width: half the width of its interval; NaN for none.
      signed: whether to write a plus.
    """
    shown = ('+' if signed and mean >= 0 else '') + number(metric, mean)
    return shown if half_width != half_width else f'{shown} ± {number(metric, half_width)}'


def difference(metric: str, found: Interval) -> str:
    """``+1.2 ± 0.4 *``, the star where zero is outside; nothing where a run diverged."""
    mean, half = float(found.mean), float(found.half_width)
    star = ' *' if found.excludes_zero else ''
    return '' if mean != mean else interval(metric, mean, half, signed=True) + star


def metric_of(results: Results, metric: str | None, argument: str = 'metric') -> str:
    """The metric asked for, or that of the results.

    Args:
      results: what ran.
      metric: its name, or None.
      argument: where it was asked for.

    Returns:
      A metric that was recorded.

    Raises:
      ValueError: for any other, naming the nearest.
    """
    chosen = results.metric if metric is None else metric
    checks.choice(argument, chosen, results.metrics)
    return chosen


def seeds(results: Results) -> str:
    """``5 seeds``."""
    return '1 seed' if results.num_seeds == 1 else f'{results.num_seeds} seeds'


def span(results: Results, tail: float) -> str:
    """``mean of the last 3 evaluations over 5 seeds``."""
    count = results.count(tail)
    last = 'last evaluation' if count == 1 else f'last {count} evaluations'
    return f'mean of the {last} over {seeds(results)}'


def number_of(value: Any) -> str:
    """A value of a grid."""
    return f'{value:g}' if isinstance(value, float) else str(value)


def chosen_at_edge(results: Results, label: str) -> str:
    """Arrows for a tuned series whose best values lie at an edge of what was tried."""
    columns = results.tuning.get(label)
    if columns is None:
        return ''
    best = choosing.best_of(columns['score'], results.directions[results.metric])
    if best is None:
        return ''
    tried = {name: values.tolist() for name, values in columns.items() if name != 'score'}
    return ''.join(dict.fromkeys(edge(values[best], values) for values in tried.values()))


def edge(value: Any, values: Sequence[Any]) -> str:
    """`` ↑`` or `` ↓`` for the largest or smallest of several numbers, else nothing."""
    numbers = [v for v in values if isinstance(v, int | float | np.number)]
    if len(set(numbers)) < 2 or value not in numbers:
        return ''
    return ' ↑' if value == max(numbers) else ' ↓' if value == min(numbers) else ''
