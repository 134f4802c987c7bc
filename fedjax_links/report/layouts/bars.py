"""Final levels as grouped bars: one group per pattern, one bar per algorithm."""

from typing import Any

from fedjax_links import checks, evaluation, plot
from fedjax_links.plot.levels import LETTERS_PER_INCH
from fedjax_links.plot.panels import legend_columns, named, unit
from fedjax_links.report.layouts.page import Page, interval, metric_of, span
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table

_MOST_INCHES = 15.0


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
    finals = {
        label: results.tail(label, results.main_model(label), metric, tail)
        for label in results.curves
    }
    heights = {label: evaluation.seed_interval(ends, axis=1) for label, ends in finals.items()}
    names = {label: named(results.name(label), results.main_model(label)) for label in finals}
    num_groups = len(results.patterns)
    words = ' '.join(results.name(pattern) for pattern in results.patterns).split()
    longest = max(map(len, words)) / LETTERS_PER_INCH
    inches = num_groups * max(0.28 * len(heights), longest + 0.2)
    inches = min(max(7.0, inches), _MOST_INCHES)

    def draw(figure: Any) -> None:
        plot.level_bars(
            finals,
            [results.name(pattern) for pattern in results.patterns],
            metric,
            names=names,
            legend=False,
            ax=figure.add_subplot(),
        )
        columns = legend_columns(list(names.values()), inches)
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
