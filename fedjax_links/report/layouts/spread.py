"""How much each stream of draws moves the final levels: standard deviations, stream by stream."""

from typing import Any

import numpy as np

from fedjax_links.core import errors
from fedjax_links.experiment.plan import redraws
from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.source import Source


def spread(source: Source, *, metric: str | None = None, tail: float = 0.1) -> Page:
    """One row per pattern and algorithm, one column per stream that alone followed the seed.

    For runs with a column ``redraw`` in their grid, see `redraws`.

    Args:
      source: what ran.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      A table of standard deviations over seeds.

    Raises:
      ValueError: for an unknown metric, a share that is none, or results of one seed, or without
        such a grid.
    """
    ends = source.ends(metric, tail)
    if source.num_seeds < 2:
        raise errors.invalid('num_seeds', 'be at least 2 to show a spread', source.num_seeds)
    found: dict[str, dict[str, str]] = {}
    for label, (algorithm, point) in source.members.items():
        if redraws.GRID not in point:
            streams = ', '.join((*redraws.STREAMS, redraws.BY_SEED))
            raise errors.invalid('grid', f"have a column 'redraw' of several of {streams}", point)
        rest = [f'{k.rsplit(".", 1)[-1]} {v}' for k, v in point.items() if k != redraws.GRID]
        shown = ', '.join([source.name(algorithm), *rest])
        found.setdefault(shown, {})[point[redraws.GRID]] = label
    order = dict.fromkeys(stream for own in found.values() for stream in own)

    def deviation(row: tuple[str, str], stream: str) -> str:
        label = found[row[1]].get(stream)
        if label is None:
            return ''
        values = ends.values[row[0], label, source.main_models[label]]
        width = float(np.std(values, ddof=1))
        if width != width:
            return ends.metric.number(width)
        return f'{100 * width:.2f}' if ends.metric.is_share else f'{width:.3g}'

    cells: dict[str, Any] = {
        _word(stream): lambda row, stream=stream: deviation(row, stream) for stream in order
    }
    error = 1 / np.sqrt(2 * (source.num_seeds - 1))
    table = tables.fill(
        [(pattern, name) for pattern in source.patterns for name in found],
        {
            'pattern': lambda row: source.name(row[0]),
            'algorithm': lambda row: row[1],
            **cells,
        },
        f'Standard deviation over seeds of {ends.metric.title}: {ends.span}. In each column '
        'that stream alone follows the seed and all others are those of the first seed; under '
        f'{_word(redraws.BY_SEED)}, all do. The relative standard error of a column is {error:.0%} '
        'for normal values; squares add up only where streams do not interact.',
    )
    return Page('Spread by stream of draws', [table])


def _word(stream: str) -> str:
    return stream.replace('_', ' ')
