"""How much each stream of draws moves the final levels: standard deviations, stream by stream."""

from typing import Any

import numpy as np

from fedjax_links import checks, errors
from fedjax_links.experiment import redraws
from fedjax_links.plot.panels import is_share, unit
from fedjax_links.report.layouts.page import Page, metric_of, number, span
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table


def spread(results: Results, *, metric: str | None = None, tail: float = 0.1) -> Page:
    """One row per pattern and algorithm, one column per stream that alone followed the seed.

    For runs with a column ``redraw`` in their grid, see `redraws`.

    Args:
      results: what ran.
      metric: which metric; that of the results by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      A table of standard deviations over seeds.

    Raises:
      ValueError: for an unknown metric, a share that is none, or results of one seed, or without
        such a grid.
    """
    metric = metric_of(results, metric)
    checks.within('tail', tail, 0, 1)
    if results.num_seeds < 2:
        raise errors.invalid('num_seeds', 'be at least 2 to show a spread', results.num_seeds)
    found: dict[tuple[str, str], dict[str, str]] = {}
    for label, (algorithm, point) in results.members.items():
        if redraws.GRID not in point:
            streams = ', '.join((*redraws.STREAMS, redraws.BY_SEED))
            raise errors.invalid('grid', f"have a column 'redraw' of several of {streams}", point)
        others = {name: value for name, value in point.items() if name != redraws.GRID}
        found.setdefault((algorithm, repr(others)), {})[point[redraws.GRID]] = label
    columns = list(dict.fromkeys(stream for labels in found.values() for stream in labels))
    rows = []
    for place, pattern in enumerate(results.patterns):
        for labels in found.values():
            row = [results.name(pattern), _name(results, next(iter(labels.values())))]
            row += [_cell(results, metric, labels.get(name), place, tail) for name in columns]
            rows.append(row)
    error = 1 / np.sqrt(2 * (results.num_seeds - 1))
    caption = (
        f'Standard deviation over seeds of {unit(metric)}: {span(results, tail)}. In each column '
        'that stream alone follows the seed and all others are those of the first seed; under '
        f'{_word(redraws.BY_SEED)}, all do. The relative standard error of a column is {error:.0%} '
        'for normal values; squares add up only where streams do not interact.'
    )
    header = ['pattern', 'algorithm', *map(_word, columns)]
    return Page('Spread by stream of draws', [Table(header, rows, caption)])


def _cell(results: Results, metric: str, label: str | None, place: int, tail: float) -> str:
    if label is None:
        return ''
    values = results.tail(label, results.main_model(label), metric, tail)[place]
    deviation = float(np.std(values, ddof=1))
    if deviation != deviation:
        return number(metric, deviation)
    return f'{100 * deviation:.2f}' if is_share(metric) else f'{deviation:.3g}'


def _name(results: Results, label: str) -> str:
    """A series without its stream."""
    algorithm, point = results.members[label]
    others: dict[str, Any] = {k: v for k, v in point.items() if k != redraws.GRID}
    shown = [results.names.get(algorithm, algorithm)]
    return ', '.join([*shown, *(f'{k.rsplit(".", 1)[-1]} {v}' for k, v in others.items())])


def _word(stream: str) -> str:
    return stream.replace('_', ' ')
