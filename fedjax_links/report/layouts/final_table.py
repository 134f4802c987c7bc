"""Shows final metrics as the table of a paper: algorithms down, patterns or problems across."""

import math
from collections.abc import Mapping

from fedjax_links.core import checks
from fedjax_links.pages import tables
from fedjax_links.report.comparisons import FinalKey, FinalMetrics
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.layouts.rates import EDGE_CAPTION, mark_edges
from fedjax_links.report.run_view import RunView

_ALGORITHM = 'algorithm'
_PATTERNS = ('pattern', 'problem')


def final(
    view: RunView,
    *,
    rows: str = _ALGORITHM,
    columns: str = 'pattern',
    best: str = 'plain',
    metric: str | None = None,
    tail: float | None = None,
) -> Page:
    """Shows final metrics as papers print them: of main models, without differences.

    Args:
      view: the run.
      rows: ``algorithm``, ``pattern`` or ``problem``. Each problem of a run has the label of its
        pattern, so the last two are one axis.
      columns: likewise; one of the two axes is ``algorithm``.
      best: ``bold`` marks the best mean under each pattern, and all that cannot be told apart from
        it; ``plain`` marks nothing.
      metric: which metric; the run's metric by default.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      The table. An arrow marks a tuned rate at an edge of what was tried.

    Raises:
      ValueError: for an unknown choice or metric, a ``tail`` out of range, or the best of a metric
        whose direction is unknown.
    """
    checks.choice('rows', rows, (_ALGORITHM, *_PATTERNS))
    is_transposed = rows != _ALGORITHM
    checks.choice('columns', columns, (_ALGORITHM,) if is_transposed else _PATTERNS)
    checks.choice('best', best, ('plain', 'bold'))
    final_metrics = view.final_metrics(metric, tail)
    best_keys = _best_keys(view, final_metrics) if best == 'bold' else set()
    edges = {key: mark_edges(view, key.series, key.pattern) for key in view.rows()}
    cells, bold = _cells(view, final_metrics, best_keys, edges)
    sentences = [f'{final_metrics.caption()}.']
    if best_keys:
        sentences.append(_best_caption(view))
    if any(edges.values()):
        sentences.append(EDGE_CAPTION)
    header = [rows, *map(view.name, view.patterns)]
    if len(view.patterns) == 1 and not is_transposed:
        header = [rows, final_metrics.metric.title]
    table = tables.Table(header, cells, ' '.join(sentences), bold)
    if is_transposed:
        table = _transpose(table)
    return Page(f'Final {final_metrics.metric.words} in one table', [table])


def _cells(
    view: RunView,
    final_metrics: FinalMetrics,
    best_keys: set[FinalKey],
    edges: Mapping[FinalKey, str],
) -> tuple[list[list[str]], list[tuple[int, int]]]:
    """Writes a row for each algorithm: its title, then its metric by pattern.

    Returns:
      The rows; row and column of the best cells.
    """
    rows = []
    bold = []
    for row, (label, model) in enumerate(view.main_models.items()):
        texts = [_series_title(view, label, model)]
        for column, pattern in enumerate(view.patterns, start=1):
            key = FinalKey(pattern, label, model)
            texts.append(final_metrics.text(key) + edges[key])
            if key in best_keys:
                bold.append((row, column))
        rows.append(texts)
    return rows, bold


def _series_title(view: RunView, label: str, model: str) -> str:
    """Names a series, with its main model if that is not the server's."""
    name = view.name(label)
    return name if model == 'server' else f'{name} ({model.replace("_", " ")})'


def _transpose(table: tables.Table) -> tables.Table:
    """Returns a table whose rows are the columns; the corner stays."""
    lines = [table.header, *table.rows]
    header, *rows = [list(column) for column in zip(*lines, strict=True)]
    bold = [(column - 1, row + 1) for row, column in table.bold]
    return table._replace(header=header, rows=rows, bold=bold)


def _best_keys(view: RunView, final_metrics: FinalMetrics) -> set[FinalKey]:
    """Returns what is best under each pattern, and what cannot be told apart from it.

    One seed tells nothing apart, so the best mean of one seed stands alone.
    """
    _ = final_metrics.metric.sign  # raises if no value is best
    best_keys = set()
    for pattern in view.patterns:
        keys = [
            FinalKey(pattern, label, model) for label, model in view.main_models.items()
        ]
        winner = max(keys, key=final_metrics.score)
        if math.isinf(final_metrics.score(winner)):
            continue  # All diverged.
        best_keys.add(winner)
        if view.num_seeds == 1:
            continue
        for key in keys:
            difference = view.paired_difference(final_metrics, key, winner.series)
            if difference is None or math.isnan(difference.mean):
                continue  # The winner itself, or a series that diverged.
            if not difference.excludes_zero:
                best_keys.add(key)
    return best_keys


def _best_caption(view: RunView) -> str:
    """Says what bold cells are."""
    if view.num_seeds == 1:
        return 'Bold, or (best): the best value under each pattern, of one seed.'
    return (
        'Bold, or (best): the best mean under each pattern, and each that cannot be told apart '
        'from it by the differences between the same seeds, not corrected for their number.'
    )
