"""Reads the trials of tuning from the metrics so far.

A trial is one combination of values that tuning tries. Each of its seeds is a lane of tuning, that
is one simulation (`planning.lanes.Lane`).

In shapes, ``*values`` stands for one axis for each tuned column, and ``S`` for the seeds that a
trial may have.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors, grids
from fedjax_links.core.grids import Point
from fedjax_links.core.records import RunFacts
from fedjax_links.planning.tuning import (
    BEST,
    FIRST_TUNING_SEED,
    IndexRange,
    SearchState,
    search,
)
from fedjax_links.results import dataset, recorded
from fedjax_links.results.dataset import Columns


class TuningTrials(NamedTuple):
    """Holds the trials of an algorithm on one pattern, at one point of the grid.

    Attributes:
      pattern: label.
      at: the point, with the columns that concern the algorithm.
      columns: by column, the values of the K trials that are done with all of their seeds.
      scores: float[K], a trial's metric at the end, a mean over seeds; NaN where a seed diverged.
      by_seed: float[K, S], the metric by seed; NaN also for a seed that the trial does not have.
      best: the index of the chosen trial; None before all trials are done, or if all diverged.
      statistical_ties: bool[K], trials that tuning cannot tell from the best; the best is included.
      ties: int[J], indices of the statistical ties that also run in the main stage, best score
        first. The best trial is not included.
      search: how far tuning is, over all values that may be tried.
    """

    pattern: str
    at: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]
    scores: np.ndarray
    by_seed: np.ndarray
    best: int | None
    statistical_ties: np.ndarray
    ties: np.ndarray
    search: SearchState

    @property
    def chosen(self) -> Point:
        """Returns the values of the best trial, by column; empty if `best` is None."""
        return {} if self.best is None else self.values_at(self.best)

    def values_at(self, index: int) -> Point:
        """Returns the values of a trial, by column."""
        return {name: values[index] for name, values in self.columns.items()}

    @property
    def num_planned(self) -> int:
        """Returns the number of trials to run; trials that are done are included."""
        return int(self.search.planned[..., 0].sum())

    @property
    def is_complete(self) -> bool:
        """Returns whether all planned trials are done."""
        return len(self.scores) == self.num_planned


class _Table(NamedTuple):
    """Holds the scores of an algorithm on a pattern at one point of the grid.

    Attributes:
      scores: float[*values, S], NaN where a lane diverged or is not done.
      done: bool[*values, S], whether the lane is done.
    """

    scores: np.ndarray
    done: np.ndarray


def read_trials(columns: Columns, facts: RunFacts, label: str) -> list[TuningTrials]:
    """Reads the trials of an algorithm.

    Args:
      columns: metrics; tuning may be under way.
      facts: of the experiment.
      label: the algorithm.

    Returns:
      An entry for each pattern and point of the grid at which the algorithm's tuning has begun.
      Empty if the algorithm was not tuned.
    """
    rows = recorded.rows_of(columns, {**facts, 'algorithms': [label]}, dataset.TUNING)
    if facts['tuning'] is None or not len(rows['round']):
        return []
    present = {
        name: dataset.as_tuples(column).tolist()
        for name, column in rows.items()
        if dataset.has_value(column).any()
    }
    tuned = [name for name in facts['tuning']['grid'] if name in present]
    grid = [name for name in facts['grid'] if name in present]
    tables = _read_tables(present, facts, tuned, grid, _scores(rows, facts, label))
    trials: list[TuningTrials] = []
    for (pattern, *values), table in tables.items():
        point = _point_of(grid, values)
        trials.append(_trials_of(table, facts, tuned, pattern, point))
    return trials


def _point_of(names: Sequence[str], values: Sequence[object]) -> Point:
    """Returns the values of columns by name, without columns that a row lacks."""
    pairs = zip(names, values, strict=True)
    return {name: value for name, value in pairs if _has_value(value)}


def _read_tables(
    columns: Mapping[str, list[Any]],
    facts: RunFacts,
    tuned: Sequence[str],
    grid: Sequence[str],
    scores: np.ndarray,
) -> dict[tuple[str, *tuple[object, ...]], _Table]:
    """Puts scores of trials into tables with an axis for each tuned column.

    Args:
      columns: of the lines of metrics of an algorithm's tuning.
      facts: of the experiment.
      tuned: columns of tuning that the algorithm takes.
      grid: columns of the grid that these lines have.
      scores: of each line.

    Returns:
      A table for each pattern with values of the grid's columns.
    """
    tuning = facts['tuning']
    candidates = [dataset.as_tuple(tuning['grid'][name]) for name in tuned]
    blank, _ = _blank(facts, tuned)
    tables: dict[tuple[str, *tuple[object, ...]], _Table] = {}
    for row, pattern in enumerate(columns['pattern']):
        key = pattern, *(columns[name][row] for name in grid)
        if key not in tables:
            done = np.zeros(blank.shape, bool)
            tables[key] = _Table(blank.astype(scores.dtype), done)
        if columns['round'][row] == tuning['num_rounds']:
            index = [
                values.index(columns[name][row])
                for name, values in zip(tuned, candidates, strict=True)
            ]
            seed_index = int(columns['seed'][row]) - FIRST_TUNING_SEED
            tables[key].scores[(*index, seed_index)] = scores[row]
            tables[key].done[(*index, seed_index)] = True
    return tables


def _trials_of(
    table: _Table,
    facts: RunFacts,
    tuned: Sequence[str],
    pattern: str,
    point: Point,
) -> TuningTrials:
    """Returns the trials of a table that are done with all of their seeds."""
    tuning = facts['tuning']
    sign = 1 if facts['directions'][facts['metric']] == 'max' else -1
    _, first_ranges = _blank(facts, tuned)
    state = search(sign * table.scores, table.done, first_ranges, tuning['num_seeds'])
    unfinished = (state.planned & ~table.done).any(axis=-1)
    finished = state.planned[..., 0] & ~unfinished
    indices = np.argwhere(finished)
    values = {
        name: dataset.as_objects([tuning['grid'][name][i] for i in indices[:, axis]])
        for axis, name in enumerate(tuned)
    }
    with np.errstate(invalid='ignore'):
        sums = np.where(state.planned, table.scores, 0).sum(-1)
        means = (sums / np.maximum(state.planned.sum(-1), 1))[finished]
    statistical_ties = state.statistical_ties[finished]
    best: int | None = None
    ties = np.zeros(0, int)
    if state.best is not None:
        best = int(np.flatnonzero((indices == state.best).all(axis=1))[0])
        order = np.argsort(-sign * means, kind='stable')
        has_intervals = table.scores.shape[-1] > 1
        most = tuning.get('ties', 0) if has_intervals else 0
        is_tie = statistical_ties[order] & (order != best)
        ties = order[is_tie][:most]
    return TuningTrials(
        pattern=pattern,
        at=point,
        columns=values,
        scores=means,
        by_seed=np.where(table.done, table.scores, np.nan)[finished],
        best=best,
        statistical_ties=statistical_ties,
        ties=ties,
        search=state,
    )


def _has_value(value: object) -> bool:
    """Returns whether a cell of a column holds a value: neither None nor NaN."""
    return value is not None and bool(value == value)


def trials_for(
    trials: Sequence[TuningTrials], pattern: str, point: Point
) -> TuningTrials | None:
    """Returns the tuning for a pattern and a point, or None.

    If only one pattern was tuned, its tuning serves all patterns. If the trials have several
    points, the first one counts that agrees with ``point`` in all common columns.
    """
    is_only_pattern = len({tried.pattern for tried in trials}) == 1
    values = {name: dataset.as_tuple(value) for name, value in point.items()}
    for tried in trials:
        is_tuned_here = is_only_pattern or tried.pattern == pattern
        if is_tuned_here and grids.agree(values, tried.at):
            return tried
    return None


def first_planned(facts: RunFacts, names: Sequence[str]) -> np.ndarray:
    """Returns bool[*values, S] for some tuned columns: which trials and seeds run first."""
    scores, first_ranges = _blank(facts, names)
    none_done = np.zeros(scores.shape, bool)
    return search(scores, none_done, first_ranges, facts['tuning']['num_seeds']).planned


def _blank(
    facts: RunFacts, names: Sequence[str]
) -> tuple[np.ndarray, list[IndexRange]]:
    """Returns NaN, float[*values, S], and by column the index range of values tried first."""
    tuning = facts['tuning']
    ranges = tuning.get('given', {})
    lengths = [len(tuning['grid'][name]) for name in names]
    first_ranges = [
        ranges.get(name, (0, length))
        for name, length in zip(names, lengths, strict=True)
    ]
    num_seeds = tuning.get('most_seeds') or tuning['num_seeds']
    return np.full((*lengths, num_seeds), np.nan), first_ranges


def progress(columns: Columns, facts: RunFacts, label: str) -> str:
    """Says how far tuning is; empty if it has not begun or the algorithm is not tuned."""
    trials = read_trials(columns, facts, label)
    if not trials:
        return ''
    num_done = sum(len(tried.scores) for tried in trials)
    num_planned = sum(tried.num_planned for tried in trials)
    return f'tuning: {num_done} of {num_planned} tried'


def _scores(rows: Columns, facts: RunFacts, label: str) -> np.ndarray:
    """Returns float[rows]: the metric of the deciding model; with `BEST`, of the best model.

    The result is float32 if all values are exact in float32.
    """
    models = facts['models'][label]
    deciding = facts['tuning']['model']
    if isinstance(deciding, Mapping):
        deciding = deciding.get(label, BEST)
    if deciding != BEST:
        # If an algorithm lacks this model, the server model decides.
        models = [deciding if deciding in models else 'server']
    measured = [rows[f'{model}/{facts["metric"]}'].astype(float) for model in models]
    values = np.where(recorded.is_finite(rows), measured, np.nan)
    single = values.astype(np.float32)
    if np.array_equal(single, values, equal_nan=True):
        values = single
    better = np.max if facts['directions'][facts['metric']] == 'max' else np.min
    return np.asarray(better(values, axis=0))


def count_done(columns: Columns, facts: RunFacts, label: str) -> int:
    """Counts the lanes that tuned an algorithm and are done."""
    if not columns:
        return 0
    is_end = columns['round'] == facts['tuning']['num_rounds']
    is_tuning = columns['stage'] == dataset.TUNING
    return int(np.count_nonzero(is_end & is_tuning & (columns['algorithm'] == label)))


def is_done(trials: Sequence[TuningTrials], count: int) -> bool:
    """Returns whether the tuning of an algorithm is done.

    Args:
      trials: of the algorithm, from `read_trials`.
      count: the number of pairs of pattern and point at which the algorithm is tuned.
    """
    return len(trials) == count and all(tried.is_complete for tried in trials)


def check_main_lanes(columns: Columns, facts: RunFacts) -> None:
    """Raises unless all main lanes have the values that tuning chose.

    Args:
      columns: metrics of a run whose tuning is done.
      facts: of the experiment.

    Raises:
      ValueError: naming the first lane with another value, both values, and what to do.
    """
    if not facts['tuning']:
        return
    for label in facts['algorithms']:
        trials = read_trials(columns, facts, label)
        for pattern, seed, point in _main_lanes(columns, facts, label):
            tried = trials_for(trials, pattern, point)
            if tried is None:
                continue
            for name, chosen in tried.chosen.items():
                value = point.get(name, chosen)
                if value != dataset.as_tuple(chosen):
                    requirement = (
                        f'hold main lanes at what tuning chose, {name} {chosen} (shards that tune '
                        'apart may choose otherwise; in one folder they tune once)'
                    )
                    lane = f'{label}, {pattern}, seed {seed} at {value}'
                    raise errors.invalid('workdir', requirement, lane)


def _main_lanes(
    columns: Columns, facts: RunFacts, label: str
) -> Iterator[tuple[str, int, Point]]:
    """Yields pattern, seed and point of every main lane of an algorithm."""
    rows = recorded.rows_of(columns, {**facts, 'algorithms': [label]}, dataset.MAIN)
    names = [
        name for name in (*facts['grid'], *facts['tuning']['grid']) if name in rows
    ]
    columns_of_lane = [
        dataset.as_tuples(rows[name]).tolist() for name in ('pattern', 'seed', *names)
    ]
    lanes = dict.fromkeys(zip(*columns_of_lane, strict=True))
    for pattern, seed, *values in lanes:
        yield pattern, seed, _point_of(names, values)


def mistake(label: str, trials: Sequence[TuningTrials]) -> errors.InvalidError | None:
    """Returns an error if all trials at a pattern and point diverged, else None."""
    for tried in trials:
        if tried.is_complete and tried.best is None:
            values = {name: column.tolist() for name, column in tried.columns.items()}
            return errors.invalid(
                'tuning', f'hold a value at which {label} converges', values
            )
    return None
