"""Final levels over two or three columns of a grid, as arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.report.source import Source
from fedjax_links.results import dataset
from fedjax_links.results.metric import Metric

ROUND = 'round'
"""What the axis of rounds is called."""


class Cells(NamedTuple):
    """Final levels over the cells of a map.

    Attributes:
      metric: what they are.
      values: float[K, Y, X, S] by algorithm: panels, rows, columns, seeds; NaN where a run diverged
        or none was.
      panels: pattern and value of the third column of each of the K panels.
      x: name and values.
      y: name and values.
      third: name of the third column; None for none.
      at_edge: number of cells whose best value lies at an edge of what was tried; None where no
        column had more than two.
    """

    metric: Metric
    values: Mapping[str, np.ndarray]
    panels: Sequence[tuple[str, Any]]
    x: tuple[str, Sequence[Any]]
    y: tuple[str, Sequence[Any]]
    third: str | None
    at_edge: int | None


def of_source(
    source: Source,
    *,
    x: str,
    y: str,
    best_over: Sequence[str],
    metric: str | None = None,
    tail: float = 0.1,
) -> Cells:
    """Final levels over the cells of a map.

    Args:
      source: what ran, over a grid.
      x: the column along the horizontal axis, or `ROUND`.
      y: the column along the vertical axis, or `ROUND`.
      best_over: columns of which every algorithm takes the best value at a cell.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The levels; over rounds those of single evaluations: the last one, that at half its round, at
      a quarter, ... as long as there are any.

    Raises:
      ValueError: for an unknown column, or a grid of more than one column beside all these.
    """
    kind = source.metric(metric)
    checks.within('tail', tail, 0, 1)
    points = [point for _, point in source.members.values()]
    names = dict.fromkeys(name for point in points for name in point)
    axes: dict[str, list[Any]] = {
        name: list(dict.fromkeys(point[name] for point in points if name in point))
        for name in names
    }
    for name in best_over:
        checks.choice('best_over', name, list(axes))
    columns = [name for name in axes if name not in best_over]
    for argument, asked in (('x', x), ('y', y)):
        checks.choice(argument, asked, [*columns, ROUND])
    if x == y:
        raise errors.invalid('y', 'be another column than x', y)
    free = [name for name in columns if name not in (x, y)]
    if len(free) > 1:
        requirement = f'have at most one column beside {", ".join((x, y, *best_over))}'
        raise errors.invalid('grid', requirement, sorted(axes))
    tried = {name: axes[name] for name in (*best_over, *free, y, x) if name != ROUND}
    levels = source.data[kind.name].sel(model=source.data['main_model']).values  # [L, P, S, E]
    dims = [*tried, 'pattern', 'seed']
    if ROUND in (x, y):
        places = _halving(source.rounds)
        axes[ROUND], levels = source.rounds[places].tolist(), levels[..., places]
        dims.append(ROUND)
    else:
        levels = dataset.tail(levels, tail)
    order = [dims.index(name) for name in (*best_over, 'pattern', *free, y, x, 'seed')]
    found, at_edge = {}, 0
    for algorithm in source.algorithms:
        table = dataset.over_grid(source.data, algorithm, tried, levels).transpose(order)
        table, edges = _best(table, [axes[name] for name in best_over], kind.sign)
        found[algorithm] = table.reshape(-1, *table.shape[-3:])
        at_edge += edges
    thirds = axes[free[0]] if free else [None]
    return Cells(
        metric=kind,
        values=found,
        panels=[(pattern, third) for pattern in source.patterns for third in thirds],
        x=(x, axes[x]),
        y=(y, axes[y]),
        third=free[0] if free else None,
        at_edge=at_edge if any(len(axes[name]) > 2 for name in best_over) else None,
    )


def _halving(rounds: np.ndarray) -> list[int]:
    """Places of the last evaluation, of that at half its round, at a quarter, ..., in order."""
    found = {int(round): place for place, round in enumerate(rounds)}
    places, last = [], int(rounds[-1])
    while last in found and last > 0:
        places.append(found[last])
        last = last // 2 if last % 2 == 0 else 0
    return places[::-1]


def _best(table: np.ndarray, tried: Sequence[Sequence[Any]], sign: int) -> tuple[np.ndarray, int]:
    """The best over the leading axes by the mean over seeds, and how often at an edge of one."""
    if not tried:
        return table, 0
    sizes = [len(values) for values in tried]
    flat = table.reshape(-1, *table.shape[len(sizes) :])
    means = sign * flat.mean(axis=-1)
    winner = np.where(np.isnan(means), -np.inf, means).argmax(axis=0)
    best = np.take_along_axis(flat, winner[None, ..., None], axis=0)[0]
    edge = np.zeros(winner.shape, bool)
    for size, place in zip(sizes, np.unravel_index(winner, sizes), strict=True):
        edge |= (size > 2) & ((place == 0) | (place == size - 1))
    return best, int(edge.sum())
