"""Final levels of every algorithm on every pattern, beside printed ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.report import published as papers
from fedjax_links.report.layouts.page import Page, interval, number, unit
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table


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
      published: options of `published.levels` with its ``table``; no such columns by default.

    Returns:
      The table of levels; with printed ones a second table that compares the orderings.
    """
    metric = metric or results.metric
    printed = {} if published is None else papers.levels(**published)
    finals = {
        (label, model): results.tail(label, model, metric, tail)
        for label, models in results.curves.items()
        for model in models
    }
    count = max(1, round(tail * len(results.rounds)))
    baseline = results.name(results.baseline)
    reference = finals.get((results.baseline, 'server'))
    paper_columns = ['paper', f'paper, minus {baseline}'] if printed else []
    own_columns = ['ours'] if reference is None else ['ours', f'ours, minus {baseline}']
    rows = []
    for place, pattern in enumerate(results.patterns):
        for (label, model), values in finals.items():
            row = [results.name(pattern), results.name(label), model.replace('_', ' ')]
            if printed and model == results.main_model(label):
                row += _printed_cells(metric, results, printed, pattern, label)
            elif printed:
                row += ['', '']
            own = evaluation.seed_interval(values[place])
            row.append(interval(metric, float(own.mean), float(own.half_width)))
            if (label, model) == (results.baseline, 'server'):
                row.append('')
            elif reference is not None:
                row.append(_difference(metric, values[place], reference[place]))
            rows.append(row)
    header = ['pattern', 'algorithm', 'model', *paper_columns, *own_columns]
    caption = (
        f'{unit(metric)}: mean of the last {count} evaluations over {results.num_seeds} seeds; ± '
        'is the 95 % interval over seeds (Student t), and behind a difference that of differences '
        'between runs with the same links and batches; * where zero is outside.'
    )
    tables = [Table(header, rows, caption)]
    if printed:
        tables.append(_orderings(results, finals, printed))
    return Page('Final levels', tables)


def _printed_cells(
    metric: str,
    results: Results,
    printed: Mapping[tuple[str, str], papers.Level],
    pattern: str,
    label: str,
) -> list[str]:
    """The paper's level and its difference to the paper's baseline, as far as they are printed."""
    name = results.name(pattern)
    level = printed.get((name, results.name(label)))
    base = printed.get((name, results.name(results.baseline)))
    if level is None:
        return ['', '']
    cell = number(metric, level.mean)
    if level.deviation is not None:
        cell += f' (sd {number(metric, level.deviation)})'
    if base is None or label == results.baseline:
        return [cell, '']
    return [cell, interval(metric, level.mean - base.mean, float('nan'), signed=True)]


def _difference(metric: str, values: np.ndarray, baseline: np.ndarray) -> str:
    paired = evaluation.paired_interval(values, baseline)
    mean, half = float(paired.mean), float(paired.half_width)
    return interval(metric, mean, half, signed=True) + (' *' if abs(mean) > half else '')


def _orderings(
    results: Results,
    finals: Mapping[tuple[str, str], np.ndarray],
    printed: Mapping[tuple[str, str], papers.Level],
) -> Table:
    """Best to worst here and in the paper, and how far they agree."""
    from scipy import stats  # 0.3 s, and only this table needs it

    rows = []
    for place, pattern in enumerate(results.patterns):
        ours = {
            label: float(finals[label, results.main_model(label)][place].mean())
            for label in results.curves
        }
        theirs = {
            label: printed[results.name(pattern), results.name(label)].mean
            for label in ours
            if (results.name(pattern), results.name(label)) in printed
        }
        if len(theirs) < 2:
            continue
        common = [label for label in ours if label in theirs]
        tau = stats.kendalltau([ours[c] for c in common], [theirs[c] for c in common]).statistic
        rows.append(
            [
                results.name(pattern),
                _ranking(results, {label: theirs[label] for label in common}),
                _ranking(results, {label: ours[label] for label in common}),
                f'{tau:+.2f}',
            ]
        )
    caption = (
        "Best to worst by the mean. Kendall's tau is 1 for the same order and -1 for the reverse."
    )
    return Table(['pattern', 'order in the paper', 'order here', 'tau'], rows, caption)


def _ranking(results: Results, scores: Mapping[str, float]) -> str:
    ranked = sorted(scores, key=lambda label: -np.nan_to_num(scores[label]))
    return ', '.join(results.name(label) for label in ranked)
