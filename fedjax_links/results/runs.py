"""Holds the metrics of a run, as columns and as an xarray dataset, and selects parts of it.

A lane is one simulation of the run: an algorithm at a point of the grid, under a pattern, with a
seed.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_links.core import errors, grids, reprs
from fedjax_links.core.grids import Point
from fedjax_links.core.records import RunFacts
from fedjax_links.results import clients as clients_
from fedjax_links.results import dataset, recorded
from fedjax_links.results.clients import ClientArrays
from fedjax_links.results.dataset import LabelledResults
from fedjax_links.results.run_dataset import run_to_dataset

if TYPE_CHECKING:
    import pandas
_MAX_ROWS = 24
"""Rows of metrics in the printed form of a run."""


def _text(run: 'Results') -> str:
    """Describes what ran, and the last evaluation of each algorithm and pattern over seeds."""
    facts = run.facts
    lines = {
        'folder': str(run.folder),
        'patterns': ', '.join(facts['patterns']),
        'seeds': str(len(facts['seeds'])),
        'rounds': f'{facts["num_rounds"]:,}, evaluated every {facts["eval_every"]:,}',
    }
    for name, values in facts['grid'].items():
        lines[name] = ', '.join(map(str, values))
    # A mean over patterns or points, which may have other data, would say nothing.
    rows = list(_last_evaluations(run))
    lines |= dict(rows[:_MAX_ROWS])
    if len(rows) > _MAX_ROWS:
        lines['and'] = f'{len(rows) - _MAX_ROWS} more; `to_pandas()` has all'
    return reprs.block(f'Results of {facts["title"]!r}', lines)


def _last_evaluations(run: 'Results') -> Iterator[tuple[str, str]]:
    """Yields each series under each pattern, and its last evaluation over seeds."""
    facts = run.facts
    stage_rows = recorded.rows_of(run.columns, facts, dataset.MAIN)
    members, rows, series_of_row = recorded.by_series(stage_rows, facts, dataset.MAIN)
    labels = dataset.labels(members)
    is_last = rows['round'] == facts['num_rounds']
    for algorithm in facts['algorithms']:
        mask_of_label = {
            labels[index]: series_of_row == index
            for index, (owner, _) in enumerate(members)
            if owner == algorithm
        }
        if not mask_of_label:
            # No lane of the algorithm has a row yet. The algorithm is listed as not finished.
            mask_of_label[algorithm] = np.zeros_like(is_last)
        for label, has_label in mask_of_label.items():
            for pattern in facts['patterns']:
                is_shown = is_last & has_label & (rows['pattern'] == pattern)
                title = (
                    label if len(facts['patterns']) == 1 else f'{label} on {pattern}'
                )
                yield title, _metric_text(rows, is_shown, facts, algorithm)


def _metric_text(
    rows: dataset.Columns, is_shown: np.ndarray, facts: RunFacts, algorithm: str
) -> str:
    """Writes mean and range of the metric over rows, for each candidate model.

    If a lane diverged, the text says so instead: a model of NaN has an accuracy too.
    """
    if not is_shown.any():
        return 'not finished'
    is_finite = recorded.is_finite(rows)[is_shown]
    if not is_finite.all():
        num_diverged = np.count_nonzero(~is_finite)
        return f'{facts["metric"]}: {num_diverged} of {is_finite.size} diverged'
    texts = []
    for model in facts['models'][algorithm]:
        values = rows[f'{model}/{facts["metric"]}'][is_shown].astype(np.float64)
        texts.append(f'{model} {reprs.numbers(values)}')
    return f'{facts["metric"]}: {", ".join(texts)}'


@reprs.described(_text)
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Results:
    """Holds the metrics of a run, as columns and as an xarray dataset.

    Attributes:
      columns: of equal length, one row per lane and evaluation. The names are ``stage``,
        ``algorithm``, ``pattern``, ``seed``, ``round``, the columns of the grid, and
        ``<model>/<metric>``. A stage is ``'main'``, ``'tuning'``, or ``'tie'``: the main seeds of a
        value that tuning could not tell from the best. Values are NaN or None where a line of
        metrics has no such field.
      facts: labels, metrics and their directions, grid, seeds, as `Experiment.plan` has them.
      folder: the folder that the results were read from; None for results in memory.
      measure_clients: returns the arrays of `clients` by pattern and algorithm. `Experiment.run`
        sets this function for a run with a folder. Without it, `clients` reads what a report
        recorded.
      has_first_point: whether the first point of the run's grid is among these results. `clients`
        are measured at that point alone.
    """

    columns: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]
    folder: Path | None = None
    measure_clients: Callable[[], Mapping[str, Mapping[str, ClientArrays]]] | None = (
        None
    )
    has_first_point: bool = True

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out `measure_clients`, which holds the parts of an experiment."""
        return {**self.__dict__, 'measure_clients': None}

    def __getitem__(self, name: str) -> np.ndarray:
        """Returns a column by its name."""
        if name not in self.columns:
            raise KeyError(str(errors.unknown_name('column', name, self.columns)))
        return self.columns[name]

    @functools.cached_property
    def dataset(self) -> LabelledResults:
        """Returns the evaluations as an ``xarray.Dataset``, without the evaluations of tuning.

        Each metric is a variable with the axes ``series`` (an algorithm at a point of the grid),
        ``model``, ``pattern``, ``seed`` and ``round``; NaN where a run diverged or nothing ran.
        ``algorithm`` and the columns of the grid are coordinates along ``series``, numbers or
        texts: NaN for an algorithm without the column, JSON for lists. A pattern without the column
        has the same numbers at all values of the column. Sums over the rounds of a period are
        variables with dots, ``rounds.num_active``. ``to_netcdf`` writes all of it, and
        `fedjax_links.plot` draws what `xarray.open_dataset` reads.
        """
        return run_to_dataset(self.columns, self.facts)

    @functools.cached_property
    def tuning(self) -> LabelledResults:
        """Returns the evaluations of tuning; the columns that are tuned are coordinates too."""
        return run_to_dataset(self.columns, self.facts, dataset.TUNING)

    @functools.cached_property
    def clients(self) -> LabelledResults:
        """Returns the final metrics of each client as an ``xarray.Dataset``.

        Results of `Experiment.run` with a folder measure the clients at the first access, at the
        first point of a grid. Results of `runs.read` have what a report recorded, see
        `report.write`. Evaluation data must have owners.

        Each metric is a variable with the axes ``algorithm``, ``pattern``, ``seed`` and ``client``,
        the names of the owners or, without names, their numbers. A metric is measured for the final
        model (the clients' mean where clients keep models) on the client's evaluation data. It is
        NaN for a client without evaluation data, and where a lane diverged. ``personal_<metric>``
        is measured for the client's own model, if the algorithm has such models. ``participations``
        counts the rounds in which the client took part. Both are NaN for clients that do not train.

        Raises:
          ValueError: if nothing was recorded or can be measured, or in a part of a run without the
            first point of its grid.
        """
        if not self.has_first_point:
            requirement = (
                'keep the first point of the grid, the only one with `clients`'
            )
            raise errors.invalid('at', requirement, 'a part of the run without it')
        if self.measure_clients is not None:
            measured = self.measure_clients()
        else:
            measured = self._recorded_clients()
        return clients_.to_dataset(measured, self.facts)

    def _recorded_clients(self) -> Mapping[str, Mapping[str, ClientArrays]]:
        """Reads the metrics of clients that a report recorded.

        Raises:
          ValueError: if no metrics of clients were recorded, or only before the run was extended.
        """
        if self.folder is None:
            requirement = (
                'be given to `Experiment.run`, whose results then measure each client'
            )
            raise errors.invalid('folder', requirement, None)
        stored = clients_.read(self.folder, self.facts['num_rounds'])
        measured = {
            pattern: by_kind['measured']
            for pattern, by_kind in stored.items()
            if 'measured' in by_kind
        }
        if measured:
            return measured
        requirement = (
            'hold metrics of clients; `experiment.run(folder).clients` measures them, if '
            'evaluation data have owners'
        )
        raise errors.invalid('folder', requirement, self.folder)

    def select(
        self,
        at: Point | None = None,
        *,
        algorithms: str | Sequence[str] | None = None,
        patterns: str | Sequence[str] | None = None,
        seeds: int | Sequence[int] | None = None,
    ) -> 'Results':
        """Returns a part of the run, for pictures and tables.

        ::

          run = fl.runs.read('runs/map')
          part = run.select({'client.learning_rate': 0.1}, algorithms=['fedavg', 'fedpbc'])
          fl.plot.learning_curves(part)

        Args:
          at: a value, or a list of values, by column of the grid. Algorithms without the column
            stay, at the points that are left. A column with a single value left is dropped from the
            grid.
          algorithms: labels; all by default.
          patterns: labels; all by default.
          seeds: all by default.

        Returns:
          The rows and the facts of that part.

        Raises:
          ValueError: for a column, value, label or seed that the run does not have.
        """
        selections = {'algorithms': algorithms, 'patterns': patterns, 'seeds': seeds}
        selected: dict[str, list[Any]] = {}
        for field, selection in selections.items():
            if selection is not None:
                selected[field] = _among(field, selection, self.facts[field])
        facts = {**self.facts, **selected}
        all_points = grids.points(facts['grid'], facts['grid_mode'])
        points = all_points if at is None else self._points_at(at, all_points)
        facts['grid'] = _grid_of(points, facts)
        is_selected = self._rows_of(selected, points if at else None)
        rows = {name: column[is_selected] for name, column in self.columns.items()}
        return Results(
            rows,
            facts,
            self.folder,
            self.measure_clients,
            has_first_point=self.has_first_point and points[0] == all_points[0],
        )

    def _rows_of(
        self,
        selected: Mapping[str, Sequence[Any]],
        points: Sequence[Point] | None,
    ) -> np.ndarray:
        """Returns which rows are selected, bool[rows].

        Args:
          selected: labels or seeds, by field of the facts.
          points: points of the grid; None for all.
        """
        if not self.columns:
            return np.zeros(0, bool)
        is_selected = np.ones(len(self.columns['round']), bool)
        for field, labels in selected.items():
            is_selected &= np.isin(self.columns[field.removesuffix('s')], labels)
        if points is not None:
            is_selected &= _is_at_points(self.columns, points)
        return is_selected

    def _points_at(self, at: Point, all_points: Sequence[Point]) -> list[Point]:
        """Returns the points of the grid that have the selected values.

        Raises:
          ValueError: for a column or value that the grid does not have, or if no point is left.
        """
        if not isinstance(at, Mapping):
            raise errors.invalid('at', 'be values by column', errors.text_of(at))
        grid = self.facts['grid']
        selected = {}
        for name, selection in at.items():
            if name not in grid:
                raise errors.unknown_name('at', name, grid)
            selected[name] = _among(f'at.{name}', selection, grid[name])
        points = [
            point
            for point in all_points
            if all(point[name] in values for name, values in selected.items())
        ]
        if not points:
            raise errors.invalid('at', 'leave a point of the grid', dict(at))
        return points

    def to_pandas(self) -> 'pandas.DataFrame':
        """Returns the columns as a `pandas.DataFrame`; lists become tuples."""
        import pandas

        columns = {
            name: dataset.as_tuples(column) for name, column in self.columns.items()
        }
        return pandas.DataFrame(columns)


def _is_at_points(columns: dataset.Columns, points: Sequence[Point]) -> np.ndarray:
    """Returns bool[rows], whether a row is at one of the points, in the columns that it has."""
    point_keys = [recorded.point_key(point) for point in points]

    @functools.cache
    def is_at_one(row_key: recorded.PointKey) -> bool:
        return any(row_key <= point_key for point_key in point_keys)

    values = {name: columns[name].tolist() for name in points[0] if name in columns}
    is_at = np.ones(len(columns['round']), bool)
    for row in range(len(is_at)):
        row_point = {name: column[row] for name, column in values.items()}
        is_at[row] = is_at_one(recorded.point_key(row_point))
    return is_at


def _grid_of(points: Sequence[Point], facts: RunFacts) -> dict[str, list[Any]]:
    """Returns the grid of some of a run's points, without columns that do not vary."""
    grid = {}
    for name, values in facts['grid'].items():
        column = [point[name] for point in points]
        if len(set(map(repr, column))) == 1:
            continue
        if facts['grid_mode'] == 'cross':
            # A value occurs in several points. The grid lists each value once.
            column = [value for value in values if value in column]
        grid[name] = column
    return grid


def _among(argument: str, selection: Any, valid: Sequence[Any]) -> list[Any]:
    """Returns the selected values, in the order of the valid values.

    Args:
      argument: for errors.
      selection: a valid value, or several.
      valid: the values that the run has; a value may itself be a list.
    """
    plain = selection.tolist() if hasattr(selection, 'tolist') else selection
    is_sequence = isinstance(plain, Sequence) and not isinstance(plain, str)
    is_several = is_sequence and plain not in valid
    values = list(plain) if is_several else [plain]
    if not values:
        raise errors.invalid(argument, 'have at least one value', selection)
    for value in values:
        if value in valid:
            continue
        if isinstance(value, str):
            raise errors.unknown_name(argument, value, map(str, valid))
        requirement = f'be among {", ".join(map(str, valid))}'
        raise errors.invalid(argument, requirement, errors.text_of(value))
    return [value for value in valid if value in values]
