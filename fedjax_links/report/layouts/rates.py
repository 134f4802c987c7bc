"""Which learning rates were chosen, from which scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.experiment.plan import choosing
from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.published import load_levels
from fedjax_links.report.source import Source
from fedjax_links.results.metric import numbers_of

CLIENT_RATE = 'client.learning_rate'


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
    paper, metric, rows = load_levels(published), source.metric(), []
    for label in source.members:
        row = {'algorithm': source.name(label)}
        if published is not None:
            row['paper'] = numbers_of(paper.get(row['algorithm'], ''))
        rows.append(row | {'chosen': _chosen(source, label), 'scores': _scores(source, label)})
    caption = (
        f'Scores: {metric.title} at the end of tuning, mean over its seeds. '
        'An arrow marks a choice at the upper (↑) or lower (↓) edge of the grid.'
    )
    return Page('Learning rates', [tables.of_rows(rows, caption)])


def _chosen(source: Source, label: str) -> str:
    tuned = chosen(source, label)
    if tuned is None:
        return 'diverged'
    if not tuned and CLIENT_RATE in source.data.coords:
        given = np.unique(source.data[CLIENT_RATE].sel(series=label).values.astype(float))
        shown = ', '.join(f'{rate:g}' for rate in given[~np.isnan(given)])
        return f'{shown} (given)' if shown else ''
    names = {CLIENT_RATE: '', 'server_lr': 'server '}
    return ', '.join(
        f'{names.get(name, f"{name} ")}{numbers_of(value)}{arrow}'
        for name, (value, arrow) in tuned.items()
    )


def _scores(source: Source, label: str) -> str:
    columns = dict(source.tuning.get(label, {}))
    scores = map(source.metric().number, map(float, columns.pop('score', ())))
    points = ('/'.join(map(numbers_of, point)) for point in zip(*columns.values(), strict=True))
    return ', '.join(f'{point}: {score}' for point, score in zip(points, scores, strict=True))


def chosen(source: Source, label: str) -> dict[str, tuple[Any, str]] | None:
    """What tuning chose for a series, and an arrow where it is at an edge of what was tried.

    Args:
      source: what ran.
      label: of the series.

    Returns:
      By column; none where nothing was tuned, None where everything diverged.
    """
    columns = dict(source.tuning.get(label, {}))
    if not columns:
        return {}
    best = choosing.best_of(columns.pop('score'), source.metric().direction)
    if best is None:
        return None
    return {name: (v[best], edge(v[best], v.tolist())) for name, v in columns.items()}


def mark_edges(source: Source, label: str) -> str:
    """Arrows for a tuned series whose best values lie at an edge of what was tried."""
    found = chosen(source, label) or {}
    return ''.join(dict.fromkeys(arrow for _, arrow in found.values()))


def edge(value: Any, values: Sequence[Any]) -> str:
    """`` ↑`` or `` ↓`` for the largest or smallest of several numbers, else nothing."""
    numbers = [v for v in values if isinstance(v, int | float | np.number)]
    if len(set(numbers)) < 2 or value not in numbers:
        return ''
    return ' ↑' if value == max(numbers) else ' ↓' if value == min(numbers) else ''
