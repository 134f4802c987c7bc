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
    x: str | None,
    y: str | None,
    best_over: Sequence[str],
    metric: str | None = None,
    tail: float = 0.1,
) -> Cells:
    """Final levels over the cells of a map.

    Args:
      source: what ran, over a grid.
      x: the column along the horizontal axis, or `ROUND`; the last one by default.
      y: the column along the vertical axis, or `ROUND`; the last of the others by default.
      best_over: columns of which every algorithm takes the best value at a cell.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over.

    Returns:
      The levels; over rounds those of single evaluations: the last one, that at half its round, at
      a quarter, ... as long as there are any.

    Raises:
      ValueError: for an unknown column, or a grid of other than two or three columns beside
        `best_over`.
    """
    kind = source.metric(metric)
    checks.within('tail', tail, 0, 1)
    points = [point for _, point in source.members.values()]
    axes: dict[str, list[Any]] = {
        name: list(dict.fromkeys(point[name] for point in points if name in point))
        for name in dict.fromkeys(name for point in points for name in point)
    }
    for name in best_over:
        checks.choice('best_over', name, list(axes))
    places = _halving(source.rounds)
    columns = [name for name in axes if name not in best_over]
    for argument, asked in (('x', x), ('y', y)):
        if asked is not None:
            checks.choice(argument, asked, [*columns, ROUND])
    if x is not None and x == y:
        raise errors.invalid('y', 'be another column than x', y)
    free = [name for name in columns if name not in (x, y)]
    across, up = (name or (free.pop() if free else None) for name in (x, y))
    if across is None or up is None or len(free) > 1:
        requirement = f'have two or three columns beside {", ".join(best_over) or "none"}'
        raise errors.invalid('grid', requirement, sorted(axes))
    axes[ROUND] = [int(source.rounds[place]) for place in places]
    main = source.data[kind.name].sel(model=source.data['main_model']).values  # [L, P, S, E]
    order = [name for name in (*best_over, *free, up, across) if name != ROUND]
    over_rounds = ROUND in (up, across)
    levels = main[..., places] if over_rounds else dataset.tail(main, tail)
    found, at_edge = {}, 0
    for algorithm in source.algorithms:
        tried = {name: axes[name] for name in order}
        table = dataset.over_grid(source.data, algorithm, tried, levels)
        if over_rounds:  # behind the last column that is not drawn
            table = np.moveaxis(table, -1, len(order) if across == ROUND else len(order) - 1)
        table, edges = _best(table, [axes[name] for name in best_over], kind.sign)
        at_edge += edges
        table = table if free else table[None]
        table = np.moveaxis(table, 3, 0)  # [P, T, Y, X, S]
        found[algorithm] = table.reshape(-1, *table.shape[2:])
    thirds = axes[free[0]] if free else [None]
    return Cells(
        metric=kind,
        values=found,
        panels=[(pattern, third) for pattern in source.patterns for third in thirds],
        x=(across, axes[across]),
        y=(up, axes[up]),
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
