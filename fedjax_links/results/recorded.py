"""Reads the lines of a run: its evaluation rounds, its series and their final metrics.

A line, or row, is one evaluation of one lane. A lane is one simulation: an algorithm at a point of
the grid, under a pattern, with a seed. A series is an algorithm at a point, see `dataset`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fedjax_links.core import grids
from fedjax_links.core.grids import Point
from fedjax_links.core.records import RunFacts
from fedjax_links.results import dataset
from fedjax_links.results.dataset import MAIN, TIE, TUNING, Columns

PointKey: TypeAlias = frozenset[tuple[str, object]]
"""The values of a point by column, without missing values."""
CellKey: TypeAlias = tuple[str, PointKey]
"""A pattern and a point."""


def rounds_of(facts: RunFacts) -> np.ndarray:
    """Returns int[E], the rounds completed at each evaluation.

    In a forked run, only the rounds after the fork count.
    """
    period = facts['eval_every']
    origin = facts.get('at_round', 0)
    evaluates_start = facts.get('evaluate_start') and origin == 0
    first = 0 if evaluates_start else origin + period
    return np.arange(first, facts['num_rounds'] + 1, period)


def point_key(point: Point) -> PointKey:
    """Returns a key for a grid point, equal for 1 and 1.0, and for a list and a tuple."""
    items: set[tuple[str, object]] = set()
    for name, value in point.items():
        comparable = dataset.as_tuple(value)
        if not _is_missing(comparable):
            items.add((name, comparable))
    return frozenset(items)


def cell_key(pattern: str, point: Point) -> CellKey:
    """Returns a key for a pattern and a grid point."""
    return pattern, point_key(point)


def main_models(facts: RunFacts) -> dict[str, str]:
    """Returns the candidate model to show, by algorithm.

    The model to show is the one whose learning rate was tuned, else the one that papers evaluate.
    """
    tuned = (facts.get('tuning') or {}).get('model')
    shown: dict[str, str] = {}
    for label, models in facts['models'].items():
        model = tuned.get(label) if isinstance(tuned, Mapping) else tuned
        if model is None or model not in models:  # such as the best of all
            model = dataset.main_model(models)
        shown[label] = model
    return shown


def final_metrics(
    columns: Columns,
    facts: RunFacts,
    label: str,
    *,
    stage: str = MAIN,
    metric: str | None = None,
    model: str | None = None,
    tail: float = 0.1,
) -> dict[CellKey, dict[int, float]]:
    """Returns the final metrics of an algorithm, for lanes that are done.

    Args:
      columns: the columns of the run's lines.
      facts: the facts of the run.
      label: the algorithm.
      stage: `MAIN` or `TIE`. Points of `TIE` also have the columns that are tuned.
      metric: which metric; the run's by default.
      model: which candidate model; that of `main_models` by default.
      tail: fraction of the evaluations, the last ones, that each lane is averaged over.

    Returns:
      By `cell_key` of pattern and point, a number for each seed; NaN where a lane diverged.
    """
    rows = rows_of(columns, {**facts, 'algorithms': [label]}, stage)
    rounds = rounds_of(facts)
    last_rounds = rounds[-dataset.num_last(len(rounds), tail) :]
    grid_columns = {
        name: rows[name].tolist() for name in _grid_names(facts, stage) if name in rows
    }
    shown_model = model or main_models(facts)[label]
    # Before the first line of a run there is no such column, and no row.
    column = f'{shown_model}/{metric or facts["metric"]}'
    patterns = rows['pattern'].tolist()
    finite = is_finite(rows)
    evaluations: dict[CellKey, dict[int, list[float]]] = {}
    for row in np.flatnonzero(np.isin(rows['round'], last_rounds)).tolist():
        point = {name: values[row] for name, values in grid_columns.items()}
        by_seed = evaluations.setdefault(cell_key(patterns[row], point), {})
        value = float(rows[column][row]) if finite[row] else np.nan
        by_seed.setdefault(int(rows['seed'][row]), []).append(value)
    return {
        key: _means_of_complete(by_seed, len(last_rounds))
        for key, by_seed in evaluations.items()
    }


def _grid_names(facts: RunFacts, stage: str) -> list[str]:
    """Returns the columns of a stage's points; near ties also have the tuned columns."""
    names = list(facts['grid'])
    if stage == TIE:
        names += (facts.get('tuning') or {}).get('grid', ())
    return names


def _means_of_complete(
    by_seed: Mapping[int, list[float]], num_evaluations: int
) -> dict[int, float]:
    """Averages the evaluations of each seed, for seeds that have all evaluations."""
    return {
        seed: float(np.mean(values))
        for seed, values in by_seed.items()
        if len(values) == num_evaluations
    }


def rows_of(columns: Columns, facts: RunFacts, stage: str) -> Columns:
    """Returns the rows of one stage, of the algorithms that ``facts`` names."""
    columns = columns or dict.fromkeys(dataset.LINE_COLUMNS, np.zeros(0, int))
    is_algorithm = np.isin(columns['algorithm'], facts['algorithms'])
    selected = (columns['stage'] == stage) & is_algorithm
    return {name: column[selected] for name, column in columns.items()}


def is_finite(rows: Columns) -> np.ndarray:
    """Returns bool[rows], whether the lane of a row had not diverged by its round."""
    finite = rows.get('finite', np.ones(len(rows['round']), bool))
    return np.asarray(finite, bool)


class SeriesRows(NamedTuple):
    """Holds the series that have started, and their rows.

    Attributes:
      members: the algorithm and the point of each series, in the order of algorithms and of the
        grid.
      rows: the rows of the stage. If a pattern lacks a column of the grid, each of its lanes
        belongs to one series for every value of that column. So the rows of the lane are repeated.
      series: int[rows], for each row the index of its series.
    """

    members: list[tuple[str, Point]]
    rows: Columns
    series: np.ndarray


def by_series(rows: Columns, facts: RunFacts, stage: str) -> SeriesRows:
    """Finds the series of each row.

    Args:
      rows: the rows from `rows_of`.
      facts: the facts of the run.
      stage: the stage of the rows.
    """
    members: list[tuple[str, Point]] = []
    row_indices = [np.zeros(0, int)]
    series = [np.zeros(0, int)]
    for algorithm in facts['algorithms']:
        selected = np.flatnonzero(rows['algorithm'] == algorithm)
        if not selected.size:
            continue
        algorithm_rows = {name: column[selected] for name, column in rows.items()}
        points = _points(algorithm_rows, facts, stage)
        positions, point_indices = _points_of_rows(algorithm_rows, points)
        row_indices.append(selected[positions])
        series.append(len(members) + point_indices)
        members += [(algorithm, point) for point in points]
    row_index = np.concatenate(row_indices)
    order = np.argsort(row_index, kind='stable')
    if len(row_index) > len(rows['round']):
        rows = {name: column[row_index[order]] for name, column in rows.items()}
    return SeriesRows(members, rows, np.concatenate(series)[order])


def _points_of_rows(
    rows: Columns, points: Sequence[Point]
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs each row with its points, looked up once for each combination of values.

    Args:
      rows: the rows of an algorithm.
      points: points of the grid, in the columns that the algorithm has.

    Returns:
      The index of the row and the index of the point, int[pairs] each.
    """
    import pandas

    row_index = np.arange(len(rows['round']))
    if not points[0]:
        return row_index, np.zeros_like(row_index)
    values_by_column = {}
    for index, name in enumerate(points[0]):
        column = dataset.as_tuples(rows[name])
        # Without the dtype pandas would turn objects into texts, and None into NaN.
        values_by_column[index] = pandas.Series(column, dtype=column.dtype)
    table = pandas.DataFrame(values_by_column)
    index_of_values = {
        dataset.as_tuple([*point.values()]): index for index, point in enumerate(points)
    }
    points_of = [
        _points_with(tuple(values), index_of_values)
        for values in table.loc[~table.duplicated()].itertuples(index=False)
    ]
    combination = table.groupby(list(table), sort=False, dropna=False).ngroup()
    if all(len(indices) == 1 for indices in points_of):
        return row_index, np.ravel(points_of)[combination]
    pairs = pandas.Series([points_of[index] for index in combination]).explode()
    return pairs.index.to_numpy(), pairs.to_numpy(int)


def _points_with(
    values: tuple[Any, ...], index_of_values: Mapping[tuple[Any, ...], int]
) -> list[int]:
    """Returns the indices of the points with the given values; a missing value matches all."""
    if values in index_of_values:
        return [index_of_values[values]]
    indices: list[int] = []
    for values_of_point, index in index_of_values.items():
        pairs = zip(values, values_of_point, strict=True)
        if all(_is_missing(value) or value == other for value, other in pairs):
            indices.append(index)
    return indices


def _is_missing(value: object) -> bool:
    """Returns whether a lane has no value in a column: it is None or NaN."""
    return value is None or value != value


def _points(rows: Columns, facts: RunFacts, stage: str) -> list[Point]:
    """Returns the points of a stage, in the columns in which some row has a value."""
    main_names = _recorded_names(rows, facts['grid'])
    points = grids.project(grids.points(facts['grid'], facts['grid_mode']), main_names)
    if stage != TUNING:
        return points
    tuning_grid = facts['tuning']['grid']
    tried: dict[str, list[Any]] = {}
    for name in _recorded_names(rows, tuning_grid):
        if name not in main_names:
            recorded = set(dataset.as_tuples(rows[name]).tolist())
            values = tuning_grid[name]
            tried[name] = [v for v in values if dataset.as_tuple(v) in recorded]
    trials = grids.points(tried, 'cross')
    return [{**point, **trial} for point in points for trial in trials]


def _recorded_names(rows: Columns, names: Iterable[str]) -> list[str]:
    """Returns the names of columns that have a value in some row."""
    return [
        name for name in names if name in rows and dataset.has_value(rows[name]).any()
    ]
