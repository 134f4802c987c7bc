"""Which learning rates were chosen, from which scores."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links.experiment.plan import choosing
from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page, edge
from fedjax_links.report.published import printed
from fedjax_links.report.source import Source
from fedjax_links.results.metric import numbers_of

CLIENT_RATE = 'client.learning_rate'
SHORT = {'server_lr': 'server'}
"""What tables call a column, where not by its name."""


def rates(source: Source, *, published: Mapping[str, Any] | None = None) -> Page:
    """The grid's scores and the choice, per algorithm.

    Args:
      source: what ran.
      published: a ``module:factory`` that returns rates by algorithm, and its options.

    Returns:
      A table; a choice at the edge of its grid is marked.

    Raises:
      ValueError: for an unknown printed table.
    """
    paper, metric = printed(published), source.metric()
    table = tables.fill(
        source.members,
        {
            'algorithm': source.name,
            'paper': None
            if published is None
            else lambda label: numbers_of(paper.get(source.name(label), '')),
            'chosen': lambda label: _chosen(source, label),
            'scores': lambda label: _scores(source, label),
        },
        f'Scores: {metric.title} at the end of tuning, mean over its seeds. '
        'An arrow marks a choice at the upper (↑) or lower (↓) edge of the grid.',
    )
    return Page('Learning rates', [table])


def _chosen(source: Source, label: str) -> str:
    columns = source.tuning.get(label)
    if columns is None:
        if CLIENT_RATE not in source.data.coords:
            return ''
        given = np.unique(source.data[CLIENT_RATE].sel(series=label).values.astype(float))
        shown = ', '.join(f'{rate:g}' for rate in given[~np.isnan(given)])
        return f'{shown} (given)' if shown else ''
    best = choosing.best_of(columns['score'], source.metric().direction)
    if best is None:
        return 'diverged'
    parts = []
    for name, values in columns.items():
        if name != 'score':
            text = numbers_of(values[best]) + edge(values[best], values.tolist())
            parts.append(text if name == CLIENT_RATE else f'{SHORT.get(name, name)} {text}')
    return ', '.join(parts)


def _scores(source: Source, label: str) -> str:
    columns = source.tuning.get(label, {})
    names = [name for name in columns if name != 'score']
    points: list[Any] = list(zip(*(columns[name] for name in names), strict=True))
    return ', '.join(
        f'{"/".join(map(numbers_of, point))}: {source.metric().number(float(score))}'
        for point, score in zip(points, columns.get('score', ()), strict=True)
    )
