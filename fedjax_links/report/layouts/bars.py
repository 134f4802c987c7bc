"""Final levels as grouped bars: one group per pattern, one bar per algorithm."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedjax_links import plot
from fedjax_links.plot import panels
from fedjax_links.plot.levels import LETTERS_PER_INCH
from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.source import Source

_MOST_INCHES = 15.0


def bars(source: Source, *, metric: str | None = None, tail: float = 0.1) -> Page:
    """Bars with 95 % intervals over seeds.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The bars, and their heights as a table.

    Raises:
      ValueError: for an unknown metric or a share that is none.
    """
    ends, models = source.ends(metric, tail), source.main_models
    names = {label: panels.named(source.name(label), models[label]) for label in models}
    words = ' '.join(source.name(pattern) for pattern in source.patterns).split()
    longest = max(map(len, words)) / LETTERS_PER_INCH
    inches = len(source.patterns) * max(0.28 * len(names), longest + 0.2)
    inches = min(max(7.0, inches), _MOST_INCHES)

    def draw(figure: Any) -> None:
        plot.level_bars(
            {
                label: np.array([ends.values[p, label, models[label]] for p in source.patterns])
                for label in models
            },
            [source.name(pattern) for pattern in source.patterns],
            ends.metric.name,
            names=names,
            legend=False,
            ax=figure.add_subplot(),
        )
        panels.legend_below(figure, list(names.values()), inches)

    def height(pattern: str) -> Callable[[str], str]:
        return lambda label: ends.level((pattern, label, models[label]))

    heights = {source.name(pattern): height(pattern) for pattern in source.patterns}
    table = tables.fill(models, {'algorithm': source.name, **heights}, f'{ends.caption()}.')
    return Page(f'Final {ends.metric.words} as bars', [table], draw, (inches, 4.2))
