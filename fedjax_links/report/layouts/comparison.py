"""Shows final metrics with their differences to a baseline, beside what a paper prints."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fedjax_links import evaluation, plot
from fedjax_links.core.records import Section
from fedjax_links.pages import printed_numbers, tables
from fedjax_links.pages.printed_numbers import PrintedAccuracy
from fedjax_links.plot import panels
from fedjax_links.plot.panels import Axes
from fedjax_links.report import completion
from fedjax_links.report.comparisons import (
    FinalKey,
    FinalMetrics,
    PairedDifference,
    Verdicts,
)
from fedjax_links.report.layouts.page import Page, labels, with_panels
from fedjax_links.report.layouts.rates import EDGE_CAPTION, mark_edges
from fedjax_links.report.run_view import RunView
from fedjax_links.results.metric import Metric

_MOST_ROWS = 40
"""Rows of differences that fit a picture of ten inches."""
_REDRAWN_NAMES = {
    'data': 'data',
    'partition': 'partition',
    'links_quality': 'link probabilities',
}
"""What a stream of data or links draws, by stream. Config sections fix a stream by ``seed``."""

Paper = Mapping[tuple[str, str], PrintedAccuracy]
"""Printed final metrics, by the names of a pattern and an algorithm."""


def comparison(
    view: RunView,
    *,
    metric: str | None = None,
    tail: float | None = None,
    margin: float | None = None,
    published: Section | None = None,
) -> Page:
    """Shows final metrics with intervals, paired differences and verdicts, beside a paper's.

    Args:
      view: what ran.
      metric: which metric; the run's metric by default.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.
      margin: differences up to this number are equivalent, in the unit of the metric. By default
        the margin of the rule by which seeds were added until decided, else none.
      published: a ``module:factory``, and its options. It returns a paper's numbers: by (pattern,
        algorithm), a `pages.printed_numbers.PrintedAccuracy`. By default there are no such columns.

    Returns:
      A table with a row per pattern, algorithm and model, and the differences as a picture if they
      fit into one. With printed metrics a second table compares the orderings.

    Raises:
      ValueError: for an unknown metric or printed table, or a ``tail`` out of range.
    """
    final_metrics = view.final_metrics(metric, tail)
    paper = printed_numbers.load(published)
    keys = view.rows(every_model=True)
    bases = {label: view.baseline_of(label) for label in view.members}
    differences = {
        key: view.paired_difference(final_metrics, key, bases[key.series], margin)
        for key in keys
    }
    verdicts = view.verdicts([*differences.values()], margin)
    shown = [_comparison_table(view, final_metrics, paper, differences, verdicts)]
    if paper:
        shown += _orderings(view, final_metrics, paper)
    shown_differences = [each for each in differences.values() if each is not None]
    caption = _caption(shown_differences, final_metrics.span, verdicts.interval)
    page = Page(f'Final {final_metrics.metric.words}', shown, caption=caption)
    compared = [label for label, base in bases.items() if base not in (None, label)]
    if not 0 < len(compared) <= _MOST_ROWS:
        return page
    return _with_differences(
        view, page, differences, compared, final_metrics.metric.name, tail
    )


def _caption(differences: Sequence[PairedDifference], span: str, interval: str) -> str:
    """Explains the picture of differences.

    Args:
      differences: what it shows.
      span: which evaluations are averaged.
      interval: what the bars are.
    """
    text = (
        f'Points: mean differences between the same seeds, {span}. '
        f'Bars: {interval}; dashed where it is infinite. '
    )
    if any(difference.wide for difference in differences):
        text += 'Thin lines: the intervals including tuning. '
    text += 'A point is filled where zero lies outside its intervals.'
    if np.isnan([difference.mean for difference in differences]).any():
        text += ' No point: diverged.'
    return text


def _comparison_table(
    view: RunView,
    final_metrics: FinalMetrics,
    paper: Paper,
    differences: Mapping[FinalKey, PairedDifference | None],
    verdicts: Verdicts,
) -> tables.Table:
    """Writes the table of `comparison`.

    Args:
      view: what ran.
      final_metrics: the final metrics of all series and models.
      paper: printed metrics; empty for none.
      differences: to the baseline, by row.
      verdicts: on the differences.
    """
    metric = final_metrics.metric
    has_differences = any(each is not None for each in differences.values())
    # Beside a paper's numbers, the run's numbers are titled as ours.
    title = metric.words
    difference_title = 'minus'
    if paper:
        title = 'ours'
        difference_title = 'ours, minus'
    edges = {key: mark_edges(view, key.series, key.pattern) for key in differences}
    rows = []
    for key, difference in differences.items():
        row = labels(view, key, model=True)
        row['algorithm'] += edges[key]
        if paper:
            row |= _printed(view, metric, paper, key)
        row[title] = final_metrics.text(key)
        if has_differences:
            compared = f'{difference_title} {view.name(view.baseline)}'
            row[compared] = verdicts.text(metric, difference)
            row['verdict'] = verdicts.word(difference)
        rows.append(row)
    caption = f'{final_metrics.caption()}.'
    if has_differences and view.num_seeds > 1:
        caption += (
            f' ± of a difference is {verdicts.interval}; {verdicts.caption(metric)}'
        )
    if any(edges.values()):
        caption += f' {EDGE_CAPTION}'
    if any(row.get('verdict') == evaluation.UNDECIDED for row in rows):
        caption += _redrawn_text(view)
    return tables.from_rows(rows, caption)


def _redrawn_text(view: RunView) -> str:
    """Says which draws of data and links the intervals cover, too; empty for none."""
    redrawn = [
        _REDRAWN_NAMES[stream] for stream in completion.redrawn_streams(view.run)
    ]
    if not redrawn:
        return ''
    streams = ', '.join(redrawn)
    return (
        f' Each seed also redraws {streams}: `seed` in their sections of the config '
        'fixes them, and intervals are then those of training alone.'
    )


def _with_differences(
    view: RunView,
    page: Page,
    differences: Mapping[FinalKey, PairedDifference | None],
    compared: Sequence[str],
    metric: str,
    tail: float | None,
) -> Page:
    """Draws the differences at main models, a panel per pattern.

    Args:
      view: what ran.
      page: with the tables.
      differences: the differences of all rows.
      compared: series that have a baseline.
      metric: which metric.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over.
    """

    def draw(axes: Axes, pattern: str) -> None:
        wide = {}
        for label in view.members:
            key = FinalKey(pattern, label, view.main_models[label])
            difference = differences[key]
            if difference is not None and difference.wide is not None:
                wide[label] = float(difference.wide.half_width)
        plot.paired_differences(
            view.data.sel(pattern=[pattern]),
            metric=metric,
            tail=view.tail(tail),
            wide=wide,
            ax=axes,
        )
        axes.set_title(panels.literal(view.name(pattern)), fontsize='medium')
        axes.figure.supxlabel(axes.get_xlabel(), fontsize='medium')
        axes.set_xlabel('')
        axes.locator_params(axis='x', nbins=4)
        axes.ticklabel_format(axis='x', scilimits=(-3, 4), useMathText=True)

    names = [panels.name_of(view.name(k), view.main_models[k]) for k in compared]
    return with_panels(
        page,
        view.patterns,
        draw,
        panel=(2.6, 0.24 * len(compared) + 0.6),
        around=(0.08 * max(map(len, names)) + 0.2, 0.7),
        sharey=True,
    )


def _printed(
    view: RunView, metric: Metric, paper: Paper, key: FinalKey
) -> dict[str, str]:
    """Writes what a paper prints of a row, and its difference to the printed baseline."""
    pattern_name = view.name(key.pattern)
    baseline_name = view.name(view.baseline)
    printed = None
    if key.model == view.main_models[key.series]:
        printed = paper.get((pattern_name, view.name(key.series)))
    shown = ''
    difference = ''
    if printed is not None:
        shown = metric.number(printed.mean)
        if printed.deviation is not None:
            shown += f' (sd {metric.number(printed.deviation)})'
        base = paper.get((pattern_name, baseline_name))
        if base is not None and key.series != view.baseline:
            interval = evaluation.seed_interval([printed.mean - base.mean])
            difference = metric.interval(interval, signed=True)
    return {'paper': shown, f'paper, minus {baseline_name}': difference}


def _orderings(
    view: RunView, final_metrics: FinalMetrics, paper: Paper
) -> Iterator[tables.Table]:
    """Compares orders of algorithms with the paper's, at main models and at server models."""
    captions = {'client means where clients keep models': view.main_models}
    if any(model != 'server' for model in view.main_models.values()):
        captions['server models'] = dict.fromkeys(view.main_models, 'server')
    for which, models in captions.items():
        rows = [
            _order_row(view, final_metrics, paper, pattern, models)
            for pattern in view.patterns
        ]
        caption = (
            f'Best to worst by the mean, {which}; who diverged is last. '
            "Kendall's tau is 1 for the same order and -1 for the reverse."
        )
        rows = [row for row in rows if row]
        if rows:
            yield tables.from_rows(rows, caption)


def _order_row(
    view: RunView,
    final_metrics: FinalMetrics,
    paper: Paper,
    pattern: str,
    models: Mapping[str, str],
) -> dict[str, str]:
    """Writes both orders under a pattern; nothing for fewer than two printed algorithms."""
    from scipy import stats  # 0.3 s, and only this table needs it

    printed = {}
    measured = {}
    for label, model in models.items():
        names = view.name(pattern), view.name(label)
        if names in paper:
            printed[label] = paper[names].mean
            key = FinalKey(pattern, label, model)
            measured[label] = final_metrics.score(key)
    if len(printed) < 2:
        return {}
    tau = stats.kendalltau([*measured.values()], [*printed.values()]).statistic
    return {
        'pattern': view.name(pattern),
        'order in the paper': _best_first(view, printed),
        'order here': _best_first(view, measured),
        'tau': '' if np.isnan(tau) else f'{tau:+.2f}',
    }


def _best_first(view: RunView, scores: Mapping[str, float]) -> str:
    """Lists the names of series from the best score to the worst."""
    ordered = sorted(scores, key=scores.__getitem__, reverse=True)
    return ', '.join(map(view.name, ordered))
