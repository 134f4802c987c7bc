"""Reads the lines of a run: its evaluation rounds, its series and their final metrics."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fedjax_links.core import grids
from fedjax_links.core.grids import Point
from fedjax_links.core.records import RunFacts
from fedjax_links.results import dataset
from fedjax_links.results.dataset import MAIN, TIE, TUNING, Columns

_LABELS = ('stage', 'algorithm', 'pattern', 'seed', 'round')

CellKey: TypeAlias = tuple[str, frozenset[tuple[str, object]]]
"""A pattern, and the values of a point by column."""


def rounds_of(facts: RunFacts) -> np.ndarray:
    """Returns int[E], the rounds completed at each evaluation.

    Of a forked run, these are the rounds after the fork.
    """
    period = facts['eval_every']
    origin = facts.get('at_round', 0)
    evaluates_start = facts.get('evaluate_start') and not origin
    first = origin if evaluates_start else origin + period
    return np.arange(first, facts['num_rounds'] + 1, period)


def cell_key(pattern: str, point: Point) -> CellKey:
    """Returns a key for a pattern and a grid point, however the numbers are written."""
    items: set[tuple[str, object]] = set()
    for name, value in point.items():
        comparable = dataset.as_tuple(value)
        is_missing = comparable is None or comparable != comparable
        if not is_missing:
            items.add((name, comparable))
    return pattern, frozenset(items)


def main_models(facts: RunFacts) -> dict[str, str]:
    """Returns the model to show, by algorithm.

    It is the model whose learning rate was tuned, else the one that the papers evaluate.
    """
    tuned = (facts.get('tuning') or {}).get('model')
    tuned_models = tuned if isinstance(tuned, Mapping) else {}
    shown: dict[str, str] = {}
    for label, models in facts['models'].items():
        model = tuned_models.get(label)
        if model is None or model not in models:
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
      columns: of the run.
      facts: of the run.
      label: the algorithm.
      stage: `MAIN`; or `TIE`, whose points have the columns that are tuned too.
      metric: that of the run by default.
      model: the one to show by default.
      tail: fraction of the evaluations, the last ones, that each lane is averaged over.

    Returns:
      A number by seed, by `cell_key` the pattern and the point; NaN where a lane diverged.
    """
    rows = rows_of(columns, {**facts, 'algorithms': [label]}, stage)
    rounds = rounds_of(facts)
    last_rounds = rounds[-dataset.num_last(len(rounds), tail) :]
    grid_columns = {
        name: rows[name].tolist() for name in _grid_names(facts, stage) if name in rows
    }
    shown_model = model or main_models(facts)[label]
    column = f'{shown_model}/{metric or facts["metric"]}'  # absent before any line
    patterns = rows['pattern'].tolist()
    finite = rows.get('finite', np.ones(len(patterns), bool))
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
    """Averages the evaluations of each seed, for seeds that have all of them."""
    return {
        seed: float(np.mean(values))
        for seed, values in by_seed.items()
        if len(values) == num_evaluations
    }


def rows_of(columns: Columns, facts: RunFacts, stage: str) -> Columns:
    """Returns the rows of one stage, of the algorithms that ``facts`` names."""
    columns = columns or dict.fromkeys(_LABELS, np.zeros(0, int))
    is_algorithm = np.isin(columns['algorithm'], facts['algorithms'])
    selected = (columns['stage'] == stage) & is_algorithm
    return {name: column[selected] for name, column in columns.items()}


def members_of(
    rows: Columns, facts: RunFacts, stage: str
) -> tuple[list[tuple[str, Point]], np.ndarray]:
    """Returns the series that have started, and the series of each row.

    Args:
      rows: from `rows_of`.
      facts: of the run.
      stage: of the rows.

    Returns:
      An algorithm and its point for each series, in the order of algorithms and of the grid; and
      int[rows], the index of the series of each row.
    """
    members: list[tuple[str, Point]] = []
    series_of_row = np.zeros(len(rows['round']), int)
    for algorithm in facts['algorithms']:
        selected = rows['algorithm'] == algorithm
        if not selected.any():
            continue
        algorithm_rows = {name: column[selected] for name, column in rows.items()}
        points = _points(algorithm_rows, facts, stage)
        series_of_point = {
            dataset.as_tuple([*point.values()]): index
            for index, point in enumerate(points, len(members))
        }
        grid_columns = [algorithm_rows[name] for name in points[0]]
        series_of_row[selected] = _series_of_rows(grid_columns, series_of_point)
        members += [(algorithm, point) for point in points]
    return members, series_of_row


def _series_of_rows(
    grid_columns: Sequence[np.ndarray], series_of_point: Mapping[Any, int]
) -> np.ndarray | int:
    """Returns the series of each row, looked up once for each combination of values.

    Args:
      grid_columns: the columns of the grid, each [rows]; none for a run without a grid.
      series_of_point: the series of each point, by the tuple of its values.

    Returns:
      int[rows]; a number if all rows are of one series.
    """
    import pandas

    if not grid_columns:
        return series_of_point[()]
    table = pandas.DataFrame(
        {
            # Of objects pandas would make texts, and NaN of None.
            k: pandas.Series(column, dtype=column.dtype)
            for k, column in enumerate(map(dataset.as_tuples, grid_columns))
        }
    )
    combinations = table.groupby(list(table), sort=False, dropna=False)
    series = [
        series_of_point[tuple(values)]
        for values in table.loc[~table.duplicated()].itertuples(index=False)
    ]
    return np.asarray(series)[combinations.ngroup()]


def _points(rows: Columns, facts: RunFacts, stage: str) -> list[Point]:
    """Returns the grid points, in the columns that some row has a value of."""
    main_names = _recorded_names(rows, facts['grid'])
    points = grids.project(grids.points(facts['grid'], facts['grid_mode']), main_names)
    if stage != TUNING:
        return points
    tried: dict[str, list[Any]] = {}
    for name, values in facts['tuning']['grid'].items():
        if name in _recorded_names(rows, [name]) and name not in main_names:
            recorded = set(dataset.as_tuples(rows[name]).tolist())
            tried[name] = [v for v in values if dataset.as_tuple(v) in recorded]
    trials = grids.points(tried, 'cross')
    return [{**point, **trial} for point in points for trial in trials]


def _recorded_names(rows: Columns, names: Iterable[str]) -> list[str]:
    """Returns the names of columns that have a value in some row."""
    recorded = [name for name in names if name in rows]
    return [name for name in recorded if dataset.has_value(rows[name]).any()]
