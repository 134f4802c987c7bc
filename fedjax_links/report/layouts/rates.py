"""Which learning rates were chosen, from which scores."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links.experiment import choosing
from fedjax_links.plot.panels import unit
from fedjax_links.report.layouts.page import Page, edge, number, number_of
from fedjax_links.report.published import printed
from fedjax_links.report.results import CLIENT_RATE, Results
from fedjax_links.report.tables import Table


def rates(results: Results, *, published: Mapping[str, Any] | None = None) -> Page:
    """The grid's scores and the choice, per algorithm.

    Args:
      results: what ran.
      published: a ``module:factory`` that returns rates by algorithm, and its options.

    Returns:
      A table; a choice at the edge of its grid is marked.

    Raises:
      ValueError: for an unknown printed table.
    """
    paper = printed(published)
    rows = []
    for label, chosen in results.learning_rates.items():
        columns = results.tuning.get(label)
        row = [results.name(label)]
        if published is not None:
            theirs = paper.get(results.name(label))
            row.append('' if theirs is None else f'{theirs:g}')
        if columns is None:
            given = ', '.join(f'{rate:g}' for rate in np.unique(chosen[~np.isnan(chosen)]))
            rows.append([*row, f'{given} (given)' if given else '', ''])
            continue
        scores = columns['score']
        best = choosing.best_of(scores, results.directions[results.metric])
        chose = 'diverged' if best is None else _chosen(columns, best)
        rows.append([*row, chose, _scores(results.metric, columns)])
    header = ['algorithm', *(['paper'] if published is not None else []), 'chosen']
    caption = (
        f'Scores: {unit(results.metric)} at the end of tuning, mean over its seeds. '
        'An arrow marks a choice at the upper (↑) or lower (↓) edge of the grid.'
    )
    return Page('Learning rates', [Table([*header, 'scores'], rows, caption)])


SHORT = {'server_lr': 'server'}
"""What tables call a column, where not by its name."""


def _chosen(columns: Mapping[str, np.ndarray], best: int) -> str:
    parts = []
    for name, values in columns.items():
        if name == 'score':
            continue
        text = number_of(values[best]) + edge(values[best], values.tolist())
        parts.append(text if name == CLIENT_RATE else f'{SHORT.get(name, name)} {text}')
    return ', '.join(parts)


def _scores(metric: str, columns: Mapping[str, np.ndarray]) -> str:
    names = [name for name in columns if name != 'score']
    points: list[Any] = list(zip(*(columns[name] for name in names), strict=True))
    return ', '.join(
        f'{"/".join(map(number_of, point))}: {number(metric, float(score))}'
        for point, score in zip(points, columns['score'], strict=True)
    )
