"""Final levels over two or three columns of a grid."""

import collections
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.planning import tuning_uncertainty as choices
from fedjax_links.planning.tuning_uncertainty import Choice
from fedjax_links.report.run_view import Source
from fedjax_links.results.metric import Metric

_DRAWS = 200
ROUND = 'round'
"""What the axis of rounds is called."""


class Cells(NamedTuple):
    """Final levels over the cells of a map.

    Attributes:
      metric: what they are.
      choices: object[K, Y, X] by algorithm: panels, rows, columns; a `Choice` each, of NaN where
        nothing ran. Levels at rounds before the last know of no near ties.
      num_values: int[K, Y, X] by algorithm: of how many values the choice at a cell is the best.
      panels: pattern and value of the third column of each of the K panels.
      x: name and values.
      y: name and values.
      third: name of the third column; None for none.
      at_edge: number of cells whose best value lies at an edge of what was tried; None where no
        column had more than two.
    """

    metric: Metric
    choices: Mapping[str, np.ndarray]
    num_values: Mapping[str, np.ndarray]
    panels: Sequence[tuple[str, Any]]
    x: tuple[str, Sequence[Any]]
    y: tuple[str, Sequence[Any]]
    third: str | None
    at_edge: int | None

    def minus(self, algorithm: str, other: str) -> Choice | None:
        """Mean differences over all cells where both converged, by seed; None where none did.

        Of what was chosen, and then of what each draw of other seeds of tuning would have chosen
        everywhere.
        """
        both = zip(self.choices[algorithm].flat, self.choices[other].flat, strict=True)
        every = list(itertools.chain(*both))
        count = min(each.values.shape[1] for each in every)
        draws = _DRAWS if any(len(each.values) > 1 for each in every) else 0
        levels = [each.values[[0, *each.picks[:draws]], :count] for each in every]
        found = [
            one - base for one, base in zip(levels[::2], levels[1::2], strict=True)
        ]  # [1 + draws, S]
        found = [
            differences for differences in found if not np.isnan(differences[0]).any()
        ]
        if not found:
            return None
        return Choice(np.mean(found, axis=0), np.arange(bool(draws), 1 + draws))

    def is_fair(self, algorithm: str, other: str) -> np.ndarray:
        """Returns where both are the best of as many values, or one has none: bool[K, Y, X].

        The best of more values, by the same seeds, is better by chance too.
        """
        ours, theirs = self.num_values[algorithm], self.num_values[other]
        return (ours == theirs) | (ours == 0) | (theirs == 0)

    def levels(self, algorithm: str) -> np.ndarray:
        """float[K, Y, X, S], over the first seeds, as many as all cells have; NaN for no cell."""
        own = self.choices[algorithm]
        count = min(choice.values.shape[1] for choice in own.flat)
        rows = [choice.values[0, :count] for choice in own.flat]
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
    kind, points = (
        source.metric(metric),
        [point for _, point in source.members.values()],
    )
    axes: dict[str, list[Any]] = {
        name: list(dict.fromkeys(point[name] for point in points if name in point))
        for name in dict.fromkeys(itertools.chain(*points))
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
    third = free[0] if free else None
    wide = {name: axes[name] for name in best_over if len(axes[name]) > 2}
    rounds = source.rounds.tolist()
    halves = itertools.takewhile(
        rounds.__contains__, (rounds[-1] / 2**k for k in itertools.count())
    )
    along: dict[Any, list[Any]] = {
        None: [None],
        ROUND: [*map(int, halves)][::-1],
        **axes,
    }
    rivals = collections.defaultdict[Any, list[str]](
        list
    )  # series by algorithm and cell
    for label, (algorithm, point) in source.members.items():
        values = (
            [point[name]] if name in point else along[name] for name in (third, y, x)
        )
        for cell in itertools.product(*values):
            rivals[algorithm, cell].append(label)
    ends = None if ROUND in (x, y) else source.ends(kind.name, tail)

    panels = list(itertools.product(source.patterns, along[third]))
    shape = len(panels), len(along[y]), len(along[x])
    nothing = choices.of_series(np.full(source.num_seeds, np.nan))
    found, at_edge = {label: np.empty(shape, object) for label in source.algorithms}, 0
    num_values = {label: np.zeros(shape, int) for label in source.algorithms}
    for algorithm, (k, row, column) in itertools.product(found, np.ndindex(shape)):
        (pattern, value), up, across = panels[k], along[y][row], along[x][column]
        own, place = rivals[algorithm, (value, up, across)], 0
        keys = [(pattern, label, source.main_models[label]) for label in own]
        if ends is not None:
            there = [ends.choices[key] for key in keys]
        else:
            at = rounds.index(up if y == ROUND else across)
            there = [
                choices.of_series(source.curve(kind.name, key)[:, at]) for key in keys
            ]
        if len(there) > 1:  # by the mean over seeds; the first where all diverged
            means = kind.sign * np.array([choice.mean for choice in there])
            place = int(np.where(np.isnan(means), -np.inf, means).argmax())
            point = source.members[own[place]][1]
            at_edge += any(point.get(name) in (v[0], v[-1]) for name, v in wide.items())
        found[algorithm][k, row, column] = there[place] if there else nothing
        num_values[algorithm][k, row, column] = len(there)
    on_edges = at_edge if wide else None
    return Cells(
        kind, found, num_values, panels, (x, along[x]), (y, along[y]), third, on_edges
    )
