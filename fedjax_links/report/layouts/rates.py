"""Which learning rates were chosen, from which scores."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.report import published as papers
from fedjax_links.report.layouts.page import Page, number, printed, unit
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table


def rates(results: Results, *, published: Mapping[str, Any] | None = None) -> Page:
    """The grid's scores and the choice, per algorithm.

    Args:
      results: what ran.
      published: options of `published.learning_rates` with its ``table``.

    Returns:
      A table; a choice at the edge of its grid is marked.

    Raises:
      ValueError: for an unknown printed table.
    """
    paper = printed(papers.learning_rates, published)
    higher = evaluation.higher_is_better(results.metric)
    rows = []
    for label, chosen in results.learning_rates.items():
        columns = results.tuning.get(label)
        row = [results.name(label)]
        if published is not None:
            theirs = paper.get(results.name(label))
            row.append('' if theirs is None else f'{theirs:g}')
        if columns is None:
            given = ', '.join(f'{rate:g}' for rate in np.unique(chosen))
            rows.append([*row, f'{given} (given)', ''])
            continue
        scores = columns['score']
        best = int(np.nanargmax(scores) if higher else np.nanargmin(scores))
        rows.append([*row, _chosen(columns, best), _scores(results.metric, columns)])
    header = ['algorithm', *(['paper'] if published is not None else []), 'chosen']
    caption = (
        f'Scores: {unit(results.metric)} at the end of tuning, mean over its seeds. '
        'An arrow marks a choice at the upper (↑) or lower (↓) edge of the grid.'
    )
    return Page('Learning rates', [Table([*header, 'scores'], rows, caption)])


def _chosen(columns: Mapping[str, np.ndarray], best: int) -> str:
    parts = []
    for name, values in columns.items():
        if name == 'score':
            continue
        value = values[best]
        edge = ''
        if len(np.unique(values)) > 1:
            edge = ' ↑' if value == values.max() else ' ↓' if value == values.min() else ''
        parts.append(f'{value:g}{edge}' if name == 'learning_rate' else f'server {value:g}{edge}')
    return ', '.join(parts)


def _scores(metric: str, columns: Mapping[str, np.ndarray]) -> str:
    names = [name for name in columns if name != 'score']
    points: list[Any] = list(zip(*(columns[name] for name in names), strict=True))
    return ', '.join(
        f'{"/".join(f"{value:g}" for value in point)}: {number(metric, float(score))}'
        for point, score in zip(points, columns['score'], strict=True)
    )
