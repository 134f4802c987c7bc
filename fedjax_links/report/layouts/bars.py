"""Final levels as grouped bars: one group per pattern, one bar per algorithm."""

import textwrap
from typing import Any

import numpy as np

from fedjax_links import checks, evaluation
from fedjax_links.report import style
from fedjax_links.report.layouts.page import (
    Page,
    interval,
    is_share,
    legend_columns,
    metric_of,
    span,
    unit,
)
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table

_MOST_INCHES = 15.0
_LETTERS_PER_INCH = 9
_HATCHES = (None, '///', '...', 'xxx')


def bars(results: Results, *, metric: str | None = None, tail: float = 0.1) -> Page:
    """Bars with 95 % intervals over seeds.

    Args:
      results: what ran.
      metric: which metric; that of the results by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The bars, and their heights as a table.

    Raises:
      ValueError: for an unknown metric or a share that is none.
    """
    metric = metric_of(results, metric)
    checks.within('tail', tail, 0, 1)
    heights = {
        label: evaluation.seed_interval(
            results.tail(label, results.main_model(label), metric, tail), axis=1
        )
        for label in results.curves
    }
    num_groups, width = len(results.patterns), 0.84 / len(heights)
    words = ' '.join(results.name(pattern) for pattern in results.patterns).split()
    longest = max(map(len, words)) / _LETTERS_PER_INCH
    inches = num_groups * max(0.28 * len(heights), longest + 0.2)
    inches = min(max(7.0, inches), _MOST_INCHES)

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        groups = np.arange(num_groups)
        for place, (label, bar) in enumerate(heights.items()):
            axes.bar(
                groups + (place - (len(heights) - 1) / 2) * width,
                bar.mean,
                width,
                yerr=np.nan_to_num(bar.half_width),
                color=style.COLOURS[place % len(style.COLOURS)],
                edgecolor='white',
                linewidth=0,
                hatch=_HATCHES[place // len(style.COLOURS) % len(_HATCHES)],
                error_kw={'linewidth': 0.8, 'capsize': 2},
                label=results.name(label),
            )
        letters = max(8, int(_LETTERS_PER_INCH * inches / num_groups))
        names = [textwrap.fill(results.name(pattern), letters) for pattern in results.patterns]
        axes.set_xticks(groups, names)
        axes.set_ylabel(metric.replace('_', ' '))
        if is_share(metric):
            axes.set_ylim(0, min(axes.get_ylim()[1], 1))
        axes.grid(axis='y', alpha=0.25)
        axes.set_axisbelow(True)
        columns = legend_columns([results.name(label) for label in heights], inches)
        figure.legend(loc='outside lower center', ncols=columns, frameon=False)

    rows = [
        [results.name(label)]
        + [
            interval(metric, float(mean), float(half))
            for mean, half in zip(bar.mean, bar.half_width, strict=True)
        ]
        for label, bar in heights.items()
    ]
    caption = (
        f'{unit(metric)}: {span(results, tail)}; ± is the 95 % interval over seeds (Student t).'
    )
    table = Table(['algorithm', *map(results.name, results.patterns)], rows, caption)
    return Page(f'Final {metric.replace("_", " ")} as bars', [table], draw, (inches, 4.2))
