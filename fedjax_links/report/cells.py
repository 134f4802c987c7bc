"""Final levels over two or three columns of a grid."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.experiment.looking import choices
from fedjax_links.experiment.looking.choices import Choice
from fedjax_links.report.source import Source
from fedjax_links.report.verdicts import Key
from fedjax_links.results import dataset
from fedjax_links.results.metric import Metric

_DRAWS = 200
ROUND = 'round'
"""What the axis of rounds is called."""


class Cells(NamedTuple):
    """Final levels over the cells of a map.

    Attributes:
      metric: what they are.
      choices: object[K, Y, X] by algorithm: panels, rows, columns; a `Choice` each, None where
        nothing ran. Levels at rounds before the last know of no near ties.
      panels: pattern and value of the third column of each of the K panels.
      x: name and values.
      y: name and values.
      third: name of the third column; None for none.
      at_edge: number of cells whose best value lies at an edge of what was tried; None where no
        column had more than two.
    """

    metric: Metric
    choices: Mapping[str, np.ndarray]
    panels: Sequence[tuple[str, Any]]
    x: tuple[str, Sequence[Any]]
    y: tuple[str, Sequence[Any]]
    third: str | None
    at_edge: int | None

    def minus(self, algorithm: str, other: str) -> Choice | None:
        """Mean differences over all cells where both converged, by seed; None where none did.

        Of what was chosen, and then of what each resample of tuning would have chosen everywhere.
        """
        both = zip(self.choices[algorithm].flat, self.choices[other].flat, strict=True)
        pairs = [(a, b) for a, b in both if a is not None and b is not None]
        count = min((each.values.shape[1] for pair in pairs for each in pair), default=0)
        is_tuned = any(len(each.values) > 1 for pair in pairs for each in pair)
        rows: list[list[np.ndarray]] = [[] for _ in range(1 + is_tuned * _DRAWS)]
        for one, base in pairs:
            chosen = one.values[0, :count] - base.values[0, :count]
            if not np.isnan(chosen).any():
                rows[0].append(chosen)
                for draw, row in enumerate(rows[1:]):
                    picked = (each.values[each.picks[draw], :count] for each in (one, base))
                    row.append(next(picked) - next(picked))
        if not rows[0]:
            return None
        picks = 1 + np.arange(_DRAWS) if is_tuned else np.zeros(_DRAWS, int)
        return Choice(np.array([np.mean(row, axis=0) for row in rows]), picks)

    def levels(self, algorithm: str) -> np.ndarray:
        """float[K, Y, X, S], over the first seeds, as many as all cells have; NaN for no cell."""
        own = self.choices[algorithm]
        count = min(choice.values.shape[1] for choice in own.flat if choice is not None)
        nothing = np.full(count, np.nan)
        rows = [nothing if choice is None else choice.values[0, :count] for choice in own.flat]
        return np.reshape(rows, (*own.shape, count))


def of_source(
    source: Source,
    *,
    x: str,
    y: str,
    best_over: Sequence[str],
    metric: str | None = None,
    tail: float | None = None,
) -> Cells:
    """Final levels over the cells of a map.

    Args:
      source: what ran, over a grid.
      x: the column along the horizontal axis, or `ROUND`.
      y: the column along the vertical axis, or `ROUND`.
      best_over: columns of which every algorithm takes the best value at a cell.
      metric: which metric; that of the run by default.
      tail: share of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      The levels; over rounds those of single evaluations: the last one, that at half its round, at
      a quarter, ... as long as there are any.

    Raises:
      ValueError: for an unknown column, or a grid of more than one column beside all these.
    """
    kind = source.metric(metric)
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
    places: list[int] | None = None
    if ROUND in (x, y):
        places = _halving(source.rounds)
        axes[ROUND] = source.rounds[places].tolist()
    thirds = axes[free[0]] if free else [None]
    panels = list(itertools.product(source.patterns, thirds))
    shape = len(panels), len(axes[y]), len(axes[x])
    ends = source.ends(kind.name, tail) if places is None else None
    numbers, labels = np.arange(len(source.members), dtype=float), np.array([*source.members])
    found: dict[str, np.ndarray] = {}
    at_edge = 0

    def choice_at(key: Key, here: Mapping[str, int]) -> Choice:
        if ends is not None:
            return ends.choices[key]
        values = source.curve(kind.name, key)[:, (places or [])[here[ROUND]]]
        return choices.of_series(values, None, {}, None)

    for algorithm in source.algorithms:
        table = dataset.over_grid(source.data, algorithm, tried, numbers)
        found[algorithm] = np.empty(shape, object)
        for k, row, column in np.ndindex(shape):
            here = {y: row, x: column, **({free[0]: thirds.index(panels[k][1])} if free else {})}
            at = tuple(here.get(name, slice(None)) for name in tried)
            own = np.ravel(table[at])
            series = labels[own[~np.isnan(own)].astype(int)].tolist()
            keys = [(panels[k][0], label, source.main_models[label]) for label in series]
            there = [choice_at(key, here) for key in keys]
            if len(there) == len(own):
                best = _best(there, kind.sign) if best_over else 0
                found[algorithm][k, row, column] = there[best]
                at_edge += _is_edge(best, [len(axes[name]) for name in best_over])
    third = free[0] if free else None
    on_edges = at_edge if any(len(axes[name]) > 2 for name in best_over) else None
    return Cells(kind, found, panels, (x, axes[x]), (y, axes[y]), third, on_edges)


def _halving(rounds: np.ndarray) -> list[int]:
    """Places of the last evaluation, of that at half its round, at a quarter, ..., in order."""
    found = {int(round): place for place, round in enumerate(rounds)}
    places, last = [], int(rounds[-1])
    while last in found and last > 0:
        places.append(found[last])
        last = last // 2 if last % 2 == 0 else 0
    return places[::-1]


def _best(there: Sequence[Choice], sign: int) -> int:
    """The best by the mean over seeds; the first where all diverged."""
    means = np.array([sign * choice.values[0].mean() for choice in there])
    return int(np.where(np.isnan(means), -np.inf, means).argmax())


def _is_edge(winner: int, sizes: Sequence[int]) -> bool:
    """Whether it lies at an edge of one of several columns of more than two values."""
    places = np.unravel_index(winner, sizes) if sizes else ()
    return any(size > 2 and k in (0, size - 1) for size, k in zip(sizes, places, strict=True))
