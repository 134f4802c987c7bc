"""Puts the lines of a run into the labelled form of `dataset`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core.grids import Point
from fedjax_links.core.records import RunFacts
from fedjax_links.results import dataset, recorded
from fedjax_links.results.dataset import (
    MAIN,
    TUNING,
    Columns,
    LabelledResults,
)

_LANE_DIMS = ('series', 'pattern', 'seed', 'round')


class _RowIndex(NamedTuple):
    """Holds the index of each row of the run in arrays over series, patterns, seeds and rounds.

    Attributes:
      shape: numbers of series, patterns, seeds and rounds.
      series: int[rows].
      pattern: int[rows].
      seed: int[rows].
      round: int[rows].
    """

    shape: tuple[int, int, int, int]
    series: np.ndarray
    pattern: np.ndarray
    seed: np.ndarray
    round: np.ndarray

    def scatter(self, values: np.ndarray, empty: Any) -> np.ndarray:
        """Returns an array of ``shape`` with the rows' values, ``empty`` elsewhere."""
        table = np.full(self.shape, empty)
        table[self.series, self.pattern, self.seed, self.round] = values
        return table


def run_to_dataset(
    columns: Columns, facts: RunFacts, stage: str = MAIN
) -> LabelledResults:
    """Returns the evaluations of a run, or of its tuning, as an ``xarray.Dataset``.

    Args:
      columns: ``columns`` of the `runs.Results`.
      facts: the facts of the run.
      stage: `MAIN` or `TUNING`. Points of `TUNING` also have the columns that are tuned.
    """
    import xarray

    metrics = facts['directions']
    dataset.check_name('metric', metrics)
    stage_rows = recorded.rows_of(columns, facts, stage)
    members, rows, series_of_row = recorded.by_series(stage_rows, facts, stage)
    patterns, seeds = _patterns_and_seeds(rows, facts, stage)
    rounds, round_of_row = np.unique(rows['round'], return_inverse=True)
    index = _RowIndex(
        shape=(len(members), len(patterns), len(seeds), len(rounds)),
        series=series_of_row,
        pattern=_positions(rows['pattern'], patterns),
        seed=_positions(rows['seed'], seeds),
        round=round_of_row,
    )
    labels = dataset.labels(members)
    algorithms = [algorithm for algorithm, _ in members]
    points = [point for _, point in members]
    models_of = {algorithm: facts['models'][algorithm] for algorithm in algorithms}
    models = dataset.all_models(models_of)
    main_models = recorded.main_models(facts)
    complete, started = _completeness(index, facts, stage)
    models_of_series = [np.isin(models, models_of[name]) for name in algorithms]
    has_model = np.array(models_of_series, bool).reshape(len(members), len(models))

    coords: dict[str, Any] = {
        'series': labels,
        'model': models,
        'pattern': patterns,
        'seed': seeds,
        'round': rounds,
        'algorithm': ('series', algorithms),
        'main_model': ('series', [main_models[name] for name in algorithms]),
        'complete': ('series', complete),
        'started': (dataset.DIMS[:-1], has_model[:, :, None, None] & started[:, None]),
    }
    coords |= _grid_coords(points)

    data: dict[str, Any] = {}
    measured: list[str] = []
    for metric in metrics:
        names = [f'{model}/{metric}' for model in models]
        measured += names
        tables = [_table(rows, name, index) for name in names]
        by_model = np.reshape(tables, (len(models), *index.shape))
        data[metric] = dataset.DIMS, by_model.swapaxes(0, 1)

    known = {*dataset.LINE_COLUMNS, *coords, *measured}
    period_sums, chosen_values = _other_columns(rows, index, known)
    data |= period_sums
    coords |= chosen_values
    member_of = dict(zip(labels, members, strict=True))
    return xarray.Dataset(data, coords, _attributes(facts, member_of))


def _patterns_and_seeds(
    rows: Columns, facts: RunFacts, stage: str
) -> tuple[list[str], list[int]]:
    """Returns the labels along the axis of patterns, and the seeds along the axis of seeds.

    Tuning may have run fewer patterns and seeds, and seeds until decided may have stopped early.
    """
    patterns = [*facts['patterns']]
    seeds = [*facts['seeds']]
    if stage == TUNING:
        patterns = [label for label in patterns if label in rows['pattern']]
        seeds = np.unique(rows['seed']).tolist()
    elif 'until' in facts:
        seeds = [seed for seed in seeds if seed in rows['seed']]
    return patterns, seeds


def _positions(column: np.ndarray, labels: Sequence[object]) -> np.ndarray:
    """Returns int[rows], the position of each row's label among all labels."""
    position = {label: k for k, label in enumerate(labels)}
    return np.array([position[label] for label in column.tolist()], int)


def _completeness(
    index: _RowIndex, facts: RunFacts, stage: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns which series are complete, and the lanes of series that have started.

    Args:
      index: the index of the rows.
      facts: the facts of the run.
      stage: the stage of the rows.

    Returns:
      bool[series], whether all evaluations are there; and bool[series, patterns, seeds], the lanes
      that count as started. With seeds until decided, these are the lanes with a row. Otherwise
      they are all lanes of a series that has a row.
    """
    evaluated = index.scatter(np.asarray(True), False)
    num_evaluations = index.shape[3]
    if stage == MAIN and 'num_rounds' in facts:
        num_evaluations = len(recorded.rounds_of(facts))
    has_any = np.asarray(evaluated.any(axis=3))
    has_all = np.asarray(evaluated.sum(axis=3) == num_evaluations)
    if 'until' in facts and stage == MAIN:
        # Pairs that were decided have fewer seeds than others.
        none_partial = np.asarray((has_all | ~has_any).all(axis=(1, 2)))
        num_complete = has_all.sum(axis=2)
        enough_seeds = (num_complete >= facts['until']['least']).all(axis=1)
        return none_partial & enough_seeds, has_any
    complete = np.asarray(has_all.all(axis=(1, 2)))
    started = np.broadcast_to(has_any.any(axis=(1, 2), keepdims=True), index.shape[:3])
    return complete, started


def _grid_coords(points: Sequence[Point]) -> dict[str, Any]:
    """Returns the columns of the grid as coordinates along series."""
    names = dict.fromkeys(name for point in points for name in point)
    coords = {}
    for name in names:
        values = [point.get(name, np.nan) for point in points]
        coords[name] = 'series', dataset.as_coordinate(values)
    return coords


def _table(rows: Columns, name: str, index: _RowIndex) -> np.ndarray:
    """Returns float[series, patterns, seeds, rounds] of a column; NaN where not finite."""
    if name not in rows:
        return np.full(index.shape, np.nan)
    values = rows[name].astype(np.float64)
    return index.scatter(np.where(recorded.is_finite(rows), values, np.nan), np.nan)


def _other_columns(
    rows: Columns, index: _RowIndex, known: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the columns that are neither metrics nor columns of the grid.

    Args:
      rows: the rows of one stage.
      index: the index of the rows.
      known: names of the columns to leave out.

    Returns:
      First the variables: sums over the rounds of a period (``rounds/num_active``). Then the
      coordinates along series and patterns, such as rates that tuning chose.
    """
    period_sums: dict[str, Any] = {}
    chosen_values: dict[str, Any] = {}
    for name, column in rows.items():
        if name in known:
            continue
        present = dataset.has_value(column)
        if not present.any():
            continue
        if '/' in name:
            table = _table(rows, name, index)
            period_sums[name.replace('/', '.')] = _LANE_DIMS, table
        else:
            chosen = np.full(index.shape[:2], np.nan, object)
            cells = index.series[present], index.pattern[present]
            chosen[cells] = dataset.as_tuples(column)[present]
            flat = dataset.as_coordinate(chosen.ravel())
            chosen_values[name] = _LANE_DIMS[:2], flat.reshape(index.shape[:2])
    return period_sums, chosen_values


def _attributes(
    facts: RunFacts, member_of: Mapping[str, tuple[str, Point]]
) -> dict[str, str]:
    """Returns the attributes of the data set; mappings are JSON."""
    attributes = {
        name: facts[name] for name in ('metric', 'baseline') if facts[name] is not None
    }
    mappings = {name: dict(facts[name]) for name in ('directions', 'names')}
    mappings['members'] = dict(member_of)
    if facts.get('until') is not None:
        mappings['until'] = facts['until']
    attributes |= {name: dataset.as_json(value) for name, value in mappings.items()}
    return attributes
