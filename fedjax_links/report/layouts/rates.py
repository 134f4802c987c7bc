"""Which learning rates were chosen, from which scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links.pages import tables
from fedjax_links.planning.trials import TuningTrials
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.run_view import RunView
from fedjax_links.results.metric import Metric, numbers_of

CLIENT_RATE = 'client.learning_rate'
_ALIKE = ' ≈'


def rates(source: RunView, *, published: Mapping[str, Any] | None = None) -> Page:
    """The grid's scores and the choice, per algorithm.

    Args:
      source: what ran.
      published: a ``module:factory`` that returns rates by algorithm, and its options.

    Returns:
      A table; a choice at the edge of its grid is marked.

    Raises:
      ValueError: for an unknown printed table.
    """
    paper, metric, rows = tables.load_levels(published), source.metric(), []
    for label in source.members:
        name, tries = source.name(label), source.tuning.get(label, ())
        about = {'algorithm': name}
        printed = (
            {} if published is None else {'paper': numbers_of(paper.get(name, ''))}
        )
        if not tries:
            rows.append(
                {**about, **printed, 'chosen': _given(source, label), 'scores': ''}
            )
        for tried in tries:
            tuned_on = {'links': source.name(tried.pattern)} if len(tries) > 1 else {}
            own = {'chosen': _chosen(tried), 'scores': _scores(metric, tried)}
            rows.append({**about, **tuned_on, **printed, **own})
    caption = (
        f'Scores: {metric.title} at the end of tuning, mean over its seeds. '
        'An arrow marks a choice at the upper (↑) or lower (↓) edge of the grid.'
    )
    if any(_ALIKE in row['scores'] for row in rows):
        caption += f'{_ALIKE} marks what these seeds cannot tell from the chosen one.'
    return Page('Learning rates', [tables.of_rows(rows, caption)])


def _given(source: RunView, label: str) -> str:
    if CLIENT_RATE not in source.data.coords:
        return ''
    given = np.unique(source.data[CLIENT_RATE].sel(series=label).values.astype(float))
    shown = ', '.join(f'{rate:g}' for rate in given[~np.isnan(given)])
    return f'{shown} (given)' if shown else ''


def _chosen(tried: TuningTrials) -> str:
    if tried.best is None:
        return 'diverged'
    names, marks = {CLIENT_RATE: '', 'server_lr': 'server '}, edges(tried)
    return ', '.join(
        f'{names.get(name, f"{name} ")}{numbers_of(value)}{marks[name]}'
        for name, value in tried.chosen.items()
    )


def _scores(metric: Metric, tried: TuningTrials) -> str:
    is_told = tried.search.wanted.shape[-1] > 1  # one seed tells nothing apart
    found = []
    for place, score in enumerate(tried.scores.tolist()):
        point = '/'.join(numbers_of(values[place]) for values in tried.columns.values())
        alike = (
            _ALIKE
            if is_told and tried.statistical_ties[place] and place != tried.best
            else ''
        )
        found.append(f'{point}: {metric.number(score)}{alike}')
    return ', '.join(found)


def edges(tried: TuningTrials) -> dict[str, str]:
    """By column, an arrow where what tuning chose is at an edge of what was tried."""
    return {
        name: edge(value, tried.columns[name].tolist())
        for name, value in tried.chosen.items()
    }


def mark_edges(source: RunView, label: str, pattern: str) -> str:
    """Returns arrows for a tuned series whose best values at a pattern lie at an edge.

    Args:
      source: what ran.
      label: of the series.
      pattern: label of the links. Of a series that was tuned on one pattern for all, that counts.
    """
    tries = source.tuning.get(label, ())
    own = [tried for tried in tries if tried.pattern == pattern] or tries
    return ''.join(
        dict.fromkeys(mark for tried in own for mark in edges(tried).values())
    )


def edge(value: Any, values: Sequence[Any]) -> str:
    """`` ↑`` or `` ↓`` for the largest or smallest of several numbers, else nothing."""
    numbers = [v for v in values if isinstance(v, int | float | np.number)]
    if len(set(numbers)) < 2 or value not in numbers:
        return ''
    return ' ↑' if value == max(numbers) else ' ↓' if value == min(numbers) else ''
