"""Final levels of every algorithm on every pattern, beside printed ones."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedjax_links import checks, evaluation
from fedjax_links.plot.levels import difference_label, draw_differences
from fedjax_links.plot.panels import named, unit
from fedjax_links.report.layouts.page import (
    Page,
    chosen_at_edge,
    difference,
    interval,
    metric_of,
    number,
    span,
)
from fedjax_links.report.published import Level, printed
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table

_COLUMNS = 3
_MOST_ROWS = 40


def levels(
    results: Results,
    *,
    metric: str | None = None,
    tail: float = 0.1,
    published: Mapping[str, Any] | None = None,
) -> Page:
    """One row per pattern, algorithm and model: paper, ours with interval, paired difference.

    Args:
      results: what ran.
      metric: which metric; that of the results by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.
      published: a ``module:factory`` that returns a `Level` by (pattern, algorithm), and its
        options; no such columns by default.

    Returns:
      The table of levels, and the differences as a picture where they fit into one; with printed
      levels a second table that compares the orderings.

    Raises:
      ValueError: for an unknown metric or printed table, or a share that is none.
    """
    metric = metric_of(results, metric)
    checks.within('tail', tail, 0, 1)
    paper = printed(published)
    finals = {
        (label, model): results.tail(label, model, metric, tail)
        for label, models in results.curves.items()
        for model in models
    }
    baseline = results.names.get(results.baseline, results.baseline)
    bases = {label: results.baseline_of(label) for label in results.curves}
    compared = any(bases.values()) and len(finals) > 1
    paper_columns = ['paper', f'paper, minus {baseline}'] if paper else []
    own_columns = ['ours', f'ours, minus {baseline}'] if compared else ['ours']
    marks = {label: chosen_at_edge(results, label) for label in results.curves}
    rows = []
    for place, pattern in enumerate(results.patterns):
        for (label, model), values in finals.items():
            name = results.name(label) + marks[label]
            row = [results.name(pattern), name, model.replace('_', ' ')]
            if paper and model == results.main_model(label):
                row += _printed_cells(metric, results, paper, pattern, label)
            elif paper:
                row += ['', '']
            own = evaluation.seed_interval(values[place])
            row.append(interval(metric, float(own.mean), float(own.half_width)))
            if compared:
                base = bases[label]
                of_base = base is not None and (base, results.main_model(base))
                if not of_base or of_base == (label, model):
                    row.append('')
                else:
                    paired = evaluation.paired_interval(values[place], finals[of_base][place])
                    row.append(difference(metric, paired))
            rows.append(row)
    header = ['pattern', 'algorithm', 'model', *paper_columns, *own_columns]
    caption = (
        f'{unit(metric)}: {span(results, tail)}; ± is the 95 % interval over seeds (Student t), '
        'and behind a difference that of differences between runs with the same links and '
        'batches; * where zero is outside.'
    )
    if any(marks.values()):
        caption += (
            ' An arrow: the rate was tuned and lies at the upper (↑) or lower (↓) edge of what was '
            'tried, so that a better one may lie outside.'
        )
    tables = [Table(header, rows, caption)]
    if paper:
        tables.append(_orderings(metric, results, finals, paper))
        if any(results.main_model(label) != 'server' for label in results.curves):
            tables.append(_orderings(metric, results, finals, paper, by_server=True))
    heading = f'Final {metric.replace("_", " ")}'
    against = {label: base for label, base in bases.items() if base not in (None, label)}
    if not 0 < len(against) <= _MOST_ROWS:
        return Page(heading, tables)
    main = {label: finals[label, results.main_model(label)] for label in results.curves}
    return Page(heading, tables, *_picture(results, main, against, metric))


def _picture(
    results: Results, finals: Mapping[str, np.ndarray], against: Mapping[str, str], metric: str
) -> tuple[Callable[[Any], None], tuple[float, float]]:
    """Draws the differences to the baseline, one panel per pattern; and inches."""
    rows = -(-len(results.patterns) // _COLUMNS)
    columns = -(-len(results.patterns) // rows)
    baseline = results.name(results.baseline)
    names = {label: named(results.name(label), results.main_model(label)) for label in finals}
    letters = max(len(names[label]) for label in against)
    of_base = named(baseline, results.main_model(next(iter(against.values()))))
    width = max(2.6 * columns + 0.08 * letters + 0.2, 5.0)
    size = (width, (0.24 * len(against) + 0.6) * rows + 0.7)

    def draw(figure: Any) -> None:
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for place, (axes, pattern) in enumerate(zip(grid.flat, results.patterns, strict=False)):
            ends = {label: values[place] for label, values in finals.items()}
            draw_differences(axes, ends, against, metric, names)
            axes.set_title(results.name(pattern), fontsize=10)
            axes.locator_params(axis='x', nbins=4)
            axes.ticklabel_format(axis='x', scilimits=(-3, 4), useMathText=True)
        figure.supxlabel(difference_label(metric, of_base), fontsize=10)
        for axes in list(grid.flat)[len(results.patterns) :]:
            axes.set_visible(False)

    return draw, size


def _printed_cells(
    metric: str,
    results: Results,
    paper: Mapping[tuple[str, str], Level],
    pattern: str,
    label: str,
) -> list[str]:
    """The paper's level and its difference to the paper's baseline, as far as they are printed."""
    name = results.name(pattern)
    level = paper.get((name, results.name(label)))
    base = paper.get((name, results.name(results.baseline)))
    if level is None:
        return ['', '']
    cell = number(metric, level.mean)
    if level.deviation is not None:
        cell += f' (sd {number(metric, level.deviation)})'
    if base is None or label == results.baseline:
        return [cell, '']
    return [cell, interval(metric, level.mean - base.mean, float('nan'), signed=True)]


def _orderings(
    metric: str,
    results: Results,
    finals: Mapping[tuple[str, str], np.ndarray],
    paper: Mapping[tuple[str, str], Level],
    by_server: bool = False,
) -> Table:
    """Best to worst here and in the paper, and how far they agree."""

    def model(label: str) -> str:
        return 'server' if by_server else results.main_model(label)

    from scipy import stats  # 0.3 s, and only this table needs it

    sign = 1 if results.larger_is_better(metric) else -1
    rows = []
    for place, pattern in enumerate(results.patterns):
        theirs = {
            label: paper[results.name(pattern), results.name(label)].mean
            for label in results.curves
            if (results.name(pattern), results.name(label)) in paper
        }
        if len(theirs) < 2:
            continue
        ours = {label: sign * float(finals[label, model(label)][place].mean()) for label in theirs}
        ours = {label: -np.inf if np.isnan(score) else score for label, score in ours.items()}
        tau = stats.kendalltau(list(ours.values()), list(theirs.values())).statistic
        rows.append(
            [
                results.name(pattern),
                _ranking(results, theirs),
                _ranking(results, ours),
                '' if np.isnan(tau) else f'{tau:+.2f}',
            ]
        )
    whose = 'server models' if by_server else 'client means where clients keep models'
    caption = (
        f'Best to worst by the mean, {whose}; who diverged is last. '
        "Kendall's tau is 1 for the same order and -1 for the reverse."
    )
    return Table(['pattern', 'order in the paper', 'order here', 'tau'], rows, caption)


def _ranking(results: Results, scores: Mapping[str, float]) -> str:
    return ', '.join(map(results.name, sorted(scores, key=lambda label: -scores[label])))
