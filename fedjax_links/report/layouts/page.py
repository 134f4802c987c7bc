"""What a layout returns, and how numbers read on it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedjax_links import evaluation
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


def number(metric: str, value: float) -> str:
    """Accuracies in per cent with one decimal, everything else with four digits."""
    if value != value:
        return 'diverged'
    return f'{100 * value:.1f}' if evaluation.higher_is_better(metric) else f'{value:.4g}'


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


def unit(metric: str) -> str:
    """The metric with its unit, as a heading."""
    words = metric.replace('_', ' ')
    return f'{words}, %' if evaluation.higher_is_better(metric) else words
