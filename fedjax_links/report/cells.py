"""Reads final metrics over two or three columns of a grid, for maps.

A cell of a map is a pair of values, one for each axis. Near ties are the values that tuning could
not tell from the best. A `Choice` holds the final metrics at the chosen value and at near ties.
"""

import collections
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import checks, errors, student
from fedjax_links.core.grids import GridColumns, Point
from fedjax_links.planning import tuning_uncertainty
from fedjax_links.planning.tuning_uncertainty import Choice
from fedjax_links.report.comparisons import FinalKey
from fedjax_links.report.run_view import RunView
from fedjax_links.results.metric import Metric

_DRAWS = 200
"""How many of the draws of a `Choice` a mean over cells uses: a tenth."""

ROUND = 'round'
"""Name of an axis of rounds."""


class Cells(NamedTuple):
    """Holds final metrics over the cells of a map.

    Attributes:
      metric: the metric of the map.
      choices: by algorithm, object[K, Y, X] over panels, rows and columns: the `Choice` of each
        cell, with values of NaN if nothing ran. If rounds are an axis, choices have no near ties.
      num_values: by algorithm, int[K, Y, X]: the number of values from which the best was taken at
        each cell.
      panels: pattern and value of the third column of each of the K panels.
      x: name and values of the horizontal axis.
      y: name and values of the vertical axis.
      third: name of the third column; None for none.
      num_at_boundary: number of cells whose best value lies at an edge of what was tried; None if
        no column had more than two values.
    """

    metric: Metric
    choices: Mapping[str, np.ndarray]
    num_values: Mapping[str, np.ndarray]
    panels: Sequence[tuple[str, Any]]
    x: tuple[str, Sequence[Any]]
    y: tuple[str, Sequence[Any]]
    third: str | None
    num_at_boundary: int | None

    def paired_difference(self, algorithm: str, other: str) -> Choice | None:
        """Averages differences over all cells where both algorithms converged, by seed.

        Returns:
          A choice. Its first row belongs to the values that tuning chose. Each further row belongs
          to the values that one draw of other tuning seeds would have chosen. None if no cell
          converged.
        """
        choices = list(self.choices[algorithm].flat)
        bases = list(self.choices[other].flat)
        all_choices = choices + bases
        num_seeds = min(choice.values.shape[1] for choice in all_choices)
        is_tuned = any(len(choice.values) > 1 for choice in all_choices)
        num_draws = _DRAWS if is_tuned else 0

        def values_of(choice: Choice) -> np.ndarray:
            """Returns float[1 + num_draws, S]: at the chosen value, then at each draw's choice."""
            rows = [0, *choice.picks[:num_draws]]
            return np.asarray(choice.values[rows, :num_seeds])

        pairs = [
            np.stack([values_of(choice), values_of(base)])
            for choice, base in zip(choices, bases, strict=True)
        ]
        converged = [pair for pair in pairs if np.isfinite(pair[:, 0]).all()]
        if not converged:
            return None
        # Differences of means over cells are paired by seed, as differences at a single cell are.
        means, base_means = np.mean(converged, axis=0)
        differences = student.paired(means.T, base_means.T).T
        # Without draws, the values that were chosen are picked.
        first_pick = 1 if num_draws else 0
        picks = np.arange(first_pick, 1 + num_draws)
        return Choice(differences, picks)

    def is_fair(self, algorithm: str, other: str) -> np.ndarray:
        """Returns bool[K, Y, X], where both algorithms had the best of the same number of values.

        The best of more values, by the same seeds, is better by chance, too. A cell where one of
        the algorithms has no values counts as fair.
        """
        num_values = self.num_values[algorithm]
        num_other = self.num_values[other]
        return (num_values == num_other) | (num_values == 0) | (num_other == 0)

    def by_seed(self, algorithm: str) -> np.ndarray:
        """Returns float[K, Y, X, S], NaN where nothing ran.

        S is the number of seeds that all cells have. The first S seeds count.
        """
        cells = self.choices[algorithm]
        num_seeds = min(choice.values.shape[1] for choice in cells.flat)
        rows = [choice.values[0, :num_seeds] for choice in cells.flat]
        return np.reshape(rows, (*cells.shape, num_seeds))


def map_cells(
    view: RunView,
    *,
    x: str,
    y: str,
    best_over: Sequence[str],
    metric: str | None = None,
    tail: float | None = None,
) -> Cells:
    """Returns the final metrics at the cells of a map.

    Args:
      view: what ran, over a grid.
      x: the column along the horizontal axis, or `ROUND`.
      y: the column along the vertical axis, or `ROUND`.
      best_over: columns of which every algorithm takes the best value at a cell.
      metric: which metric; the run's metric by default.
      tail: fraction of the evaluations, the last ones, that each seed is averaged over; a
        tenth by default.

    Returns:
      The final metrics. Along an axis of rounds, metrics of single evaluations: at the last round,
      at half of it, at a quarter, ... as long as there is an evaluation.

    Raises:
      ValueError: for an unknown column, or a grid of more than one column beside all these.
    """
    shown_metric = view.metric(metric)
    grid = _grid_of(view)
    third = _third_column(grid, x, y, best_over)
    tried = {name: grid[name] for name in best_over if len(grid[name]) > 2}
    rounds = view.rounds.tolist()
    axis_values: dict[Any, list[Any]] = {None: [None], ROUND: _halved(rounds), **grid}
    series_of_cell = _series_by_cell(view, axis_values, (third, y, x))
    final_metrics = None
    if ROUND not in (x, y):
        final_metrics = view.final_metrics(shown_metric.name, tail)

    def choices_at(
        keys: Sequence[FinalKey], y_value: Any, x_value: Any
    ) -> list[Choice]:
        """Returns the final metrics of series, or the metrics at the round of an axis."""
        if final_metrics is not None:
            return [final_metrics.choices[key] for key in keys]
        evaluation = rounds.index(y_value if y == ROUND else x_value)
        curves = [view.curve(shown_metric.name, key) for key in keys]
        return [tuning_uncertainty.of_series(curve[:, evaluation]) for curve in curves]

    panels = list(itertools.product(view.patterns, axis_values[third]))
    shape = len(panels), len(axis_values[y]), len(axis_values[x])
    best = {label: np.empty(shape, object) for label in view.algorithms}
    num_values = {label: np.zeros(shape, int) for label in view.algorithms}
    num_at_boundary = 0
    for algorithm, cell in itertools.product(best, np.ndindex(shape)):
        panel, row, column = cell
        pattern, third_value = panels[panel]
        y_value = axis_values[y][row]
        x_value = axis_values[x][column]
        labels = series_of_cell[algorithm, (third_value, y_value, x_value)]
        keys = [FinalKey(pattern, label, view.main_models[label]) for label in labels]
        candidates = choices_at(keys, y_value, x_value)
        num_values[algorithm][cell] = len(candidates)
        if not candidates:
            nothing = np.full(view.num_seeds, np.nan)
            best[algorithm][cell] = tuning_uncertainty.of_series(nothing)
            continue
        winner = _best_index(candidates, shown_metric)
        best[algorithm][cell] = candidates[winner]
        if len(candidates) > 1:
            _, point = view.members[labels[winner]]
            num_at_boundary += _is_at_edge(point, tried)
    return Cells(
        metric=shown_metric,
        choices=best,
        num_values=num_values,
        panels=panels,
        x=(x, axis_values[x]),
        y=(y, axis_values[y]),
        third=third,
        num_at_boundary=num_at_boundary if tried else None,
    )


def _grid_of(view: RunView) -> dict[str, list[Any]]:
    """Returns the values of every column of the grid, in the order of the series."""
    grid: dict[str, dict[Any, None]] = {}
    for _, point in view.members.values():
        for name, value in point.items():
            grid.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in grid.items()}


def _third_column(
    grid: GridColumns, x: str, y: str, best_over: Sequence[str]
) -> str | None:
    """Returns the column that panels differ in, or None.

    Raises:
      ValueError: for an unknown column, or a grid of more than one column beside all these.
    """
    for name in best_over:
        checks.choice('best_over', name, list(grid))
    columns = [name for name in grid if name not in best_over]
    checks.choice('x', x, [*columns, ROUND])
    checks.choice('y', y, [*columns, ROUND])
    if x == y:
        raise errors.invalid('y', 'be another column than x', y)
    free = [name for name in columns if name not in (x, y)]
    if len(free) > 1:
        requirement = f'have at most one column beside {", ".join((x, y, *best_over))}'
        raise errors.invalid('grid', requirement, sorted(grid))
    return free[0] if free else None


def _halved(rounds: Sequence[int]) -> list[int]:
    """Returns the last round, half of it, a quarter, ..., while these are evaluated; ascending."""
    halved: list[int] = []
    round = float(rounds[-1])
    while round in rounds:
        halved.append(int(round))
        round /= 2
    return sorted(halved)


def _series_by_cell(
    view: RunView,
    axis_values: Mapping[Any, Sequence[Any]],
    names: tuple[str | None, str, str],
) -> Mapping[Any, list[str]]:
    """Returns the labels of the series at each cell, by algorithm and the cell's values.

    A cell without a series has an empty list.

    Args:
      view: what ran.
      axis_values: all values of each column.
      names: the names of the third column, the vertical and the horizontal axis. A series whose
        point has no such column belongs to all of the column's values.
    """
    series = collections.defaultdict[Any, list[str]](list)
    for label, (algorithm, point) in view.members.items():
        values = [
            [point[name]] if name is not None and name in point else axis_values[name]
            for name in names
        ]
        for cell in itertools.product(*values):
            series[algorithm, cell].append(label)
    return series


def _best_index(candidates: Sequence[Choice], metric: Metric) -> int:
    """Returns the index of the best mean over seeds, the first one if all diverged."""
    if len(candidates) == 1:
        return 0  # The direction of the metric need not be known.
    scores = metric.sign * np.array([choice.mean for choice in candidates])
    return int(np.where(np.isnan(scores), -np.inf, scores).argmax())


def _is_at_edge(point: Point, tried: GridColumns) -> bool:
    """Returns whether a point has the smallest or the largest number of some column."""
    for name, values in tried.items():
        numbers = [value for value in values if isinstance(value, int | float)]
        if numbers and point.get(name) in (min(numbers), max(numbers)):
            return True
    return False
