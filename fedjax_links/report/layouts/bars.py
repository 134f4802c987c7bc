"""Final levels as grouped bars: one group per pattern, one bar per algorithm."""

from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.report import style
from fedjax_links.report.layouts.page import Page, interval, unit
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table


def bars(results: Results, *, metric: str | None = None, tail: float = 0.1) -> Page:
    """Bars with 95 % intervals over seeds.

    Args:
      results: what ran.
      metric: which metric; that of the results by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The bars, and their heights as a table.
    """
    metric = metric or results.metric
    heights = {
        label: evaluation.seed_interval(
            results.tail(label, results.main_model(label), metric, tail), axis=1
        )
        for label in results.curves
    }
    width = 0.84 / len(heights)

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        groups = np.arange(len(results.patterns))
        for place, (label, bar) in enumerate(heights.items()):
            axes.bar(
                groups + (place - (len(heights) - 1) / 2) * width,
                bar.mean,
                width,
                yerr=np.nan_to_num(bar.half_width),
                color=style.COLOURS[place % len(style.COLOURS)],
                hatch='///' if place >= len(style.COLOURS) else None,
                error_kw={'linewidth': 0.8, 'capsize': 2},
                label=results.name(label),
            )
        axes.set_xticks(groups, [results.name(pattern) for pattern in results.patterns])
        axes.set_ylabel(unit(metric).removesuffix(', %'))
        axes.grid(axis='y', alpha=0.25)
        axes.set_axisbelow(True)
        figure.legend(loc='outside lower center', ncols=min(7, len(heights)), frameon=False)

    rows = [
        [results.name(label)]
        + [
            interval(metric, float(mean), float(half))
            for mean, half in zip(bar.mean, bar.half_width, strict=True)
        ]
        for label, bar in heights.items()
    ]
    caption = f'{unit(metric)}; ± is the 95 % interval over {results.num_seeds} seeds.'
    table = Table(['algorithm', *map(results.name, results.patterns)], rows, caption)
    size = (max(7.0, 1.1 * len(results.patterns) * len(heights) / 4), 4.2)
    return Page('Final levels', [table], draw, size)
