"""Shows which learning rates were chosen, from which scores."""

from collections.abc import Sequence

import numpy as np

from fedjax_links.config.algorithm_sections import RATE, SERVER_LR
from fedjax_links.core.records import Section
from fedjax_links.pages import printed_numbers, tables
from fedjax_links.planning.trials import TuningTrials
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.run_view import RunView
from fedjax_links.results.metric import Metric, format_value, format_values

_TIE = ' ≈'
EDGE_CAPTION = (
    'An arrow: the rate was tuned and lies at the upper (↑) or lower (↓) edge of what was '
    'tried, so that a better one may lie outside.'
)


def rates(view: RunView, *, published: Section | None = None) -> Page:
    """Shows the scores of tuning and the choice, for each algorithm.

    Args:
      view: what ran.
      published: a ``module:factory`` that returns rates by algorithm, and its options.

    Returns:
      A table with a row per algorithm and tuning; choices at the edge of a grid are marked.

    Raises:
      ValueError: for an unknown printed table.
    """
    paper = printed_numbers.load(published)
    metric = view.metric()
    rows = []
    for label in view.members:
        name = view.name(label)
        first_cells = {'algorithm': name}
        printed = {}
        if published is not None:
            printed['paper'] = format_value(paper.get(name, ''))
        tries = view.tuning.get(label, ())
        if not tries:
            cells = {'chosen': _fixed_rates(view, label), 'scores': ''}
            rows.append({**first_cells, **printed, **cells})
        for tried in tries:
            tuned_on = {}
            if len(tries) > 1:
                tuned_on['pattern'] = view.name(tried.pattern)
            cells = {'chosen': _chosen(tried), 'scores': _scores(metric, tried)}
            rows.append({**first_cells, **tuned_on, **printed, **cells})
    caption = (
        f'Scores: {metric.title} at the end of tuning, mean over its seeds. '
        'An arrow marks a choice at the upper (↑) or lower (↓) edge of the grid.'
    )
    if any(_TIE in row['scores'] for row in rows):
        caption += f'{_TIE} marks what these seeds cannot tell from the chosen one.'
    return Page('Learning rates', [tables.from_rows(rows, caption)])


def _fixed_rates(view: RunView, label: str) -> str:
    """Lists the learning rates that a series has without tuning."""
    if RATE not in view.data.coords:
        return ''
    column = view.data[RATE].sel(series=label).values.astype(float)
    rates = np.unique(column[~np.isnan(column)])
    if not rates.size:
        return ''
    return f'{", ".join(format_values(rates))} (not tuned)'


def _chosen(tried: TuningTrials) -> str:
    """Writes what tuning chose, marked if it is at an edge of what was tried."""
    if tried.best is None:
        return 'diverged'
    prefixes = {RATE: '', SERVER_LR: 'server '}
    arrows = edges(tried)
    texts = []
    for name in tried.chosen:
        value_text = format_values(tried.columns[name])[tried.best]
        texts.append(f'{prefixes.get(name, f"{name} ")}{value_text}{arrows[name]}')
    return ', '.join(texts)


def _scores(metric: Metric, tried: TuningTrials) -> str:
    """Lists the scores of all points that were tried, statistical ties marked."""
    num_seeds = tried.search.planned.shape[-1]
    texts_of_columns = [format_values(column) for column in tried.columns.values()]
    texts = []
    for index, score in enumerate(tried.scores.tolist()):
        values = [column[index] for column in texts_of_columns]
        # One seed cannot tell points apart.
        is_tie = num_seeds > 1 and tried.statistical_ties[index] and index != tried.best
        mark = _TIE if is_tie else ''
        texts.append(f'{"/".join(values)}: {metric.number(score)}{mark}')
    return ', '.join(texts)


def edges(tried: TuningTrials) -> dict[str, str]:
    """Returns an arrow for each column in which the choice is at an edge of what was tried."""
    return {
        name: edge(value, tried.columns[name].tolist())
        for name, value in tried.chosen.items()
    }


def mark_edges(view: RunView, label: str, pattern: str) -> str:
    """Returns arrows for a tuned series whose best values at a pattern lie at an edge.

    Args:
      view: what ran.
      label: the label of the series.
      pattern: its label. A series that was tuned on one pattern for all has the arrows of that
        pattern.
    """
    tries = view.tuning.get(label, ())
    tries = [tried for tried in tries if tried.pattern == pattern] or tries
    arrows: dict[str, None] = {}
    for tried in tries:
        arrows |= dict.fromkeys(edges(tried).values())
    return ''.join(arrows)


def edge(value: object, values: Sequence[object]) -> str:
    """Returns `` ↑`` or `` ↓`` for the largest or smallest of several numbers, else nothing."""
    numbers = [each for each in values if isinstance(each, int | float | np.number)]
    if len(set(numbers)) < 2 or value not in numbers:
        return ''
    if value == max(numbers):
        return ' ↑'
    return ' ↓' if value == min(numbers) else ''
