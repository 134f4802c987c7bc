"""Holds the metrics of a run, as columns and as an xarray dataset, and selects parts of it."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_links.core import errors, grids, reprs
from fedjax_links.core.grids import Point
from fedjax_links.core.records import RunFacts
from fedjax_links.results import dataset
from fedjax_links.results.dataset import LabelledResults
from fedjax_links.results.run_dataset import run_to_dataset

if TYPE_CHECKING:
    import pandas

CLIENTS = 'clients.npz'


def _text(run: 'Results') -> str:
    """Describes what ran, and the final metrics of each algorithm and pattern over seeds."""
    facts = run.facts
    lines = {
        'folder': str(run.folder),
        'patterns': ', '.join(facts['patterns']),
        'seeds': str(len(facts['seeds'])),
        'rounds': f'{facts["num_rounds"]:,}, evaluated every {facts["eval_every"]:,}',
    }
    for name, values in facts['grid'].items():
        lines[name] = ', '.join(map(str, values))
    for algorithm in facts['algorithms']:
        for pattern in facts['patterns']:
            final_metrics = _final_metrics(run, algorithm, pattern)
            text = 'not finished'
            if final_metrics:
                text = f'{facts["metric"]}: {", ".join(final_metrics)}'
            # A mean over patterns, which may have other data, would say nothing.
            is_only = len(facts['patterns']) == 1
            lines[algorithm if is_only else f'{algorithm} on {pattern}'] = text
    return reprs.block(f'Results of {facts["title"]!r}', lines)


def _final_metrics(run: 'Results', algorithm: str, pattern: str) -> list[str]:
    """Writes mean and range of the metric after the last round, for each candidate model."""
    if not run.columns:
        return []
    is_last = run.columns['round'] == run.facts['num_rounds']
    is_last &= run.columns['stage'] == dataset.MAIN
    is_last &= run.columns['algorithm'] == algorithm
    is_last &= run.columns['pattern'] == pattern
    texts = []
    for model in run.facts['models'][algorithm]:
        column = run.columns[f'{model}/{run.facts["metric"]}']
        values = column[is_last].astype(np.float64)
        if values.size:
            texts.append(f'{model} {reprs.numbers(values)}')
    return texts


@reprs.described(_text)
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Results:
    """Holds the metrics of a run, as columns and as an xarray dataset.

    Attributes:
      columns: of equal length, one row per lane and evaluation: ``stage`` (``'main'`` or
        ``'tuning'``), ``algorithm``, ``pattern``, ``seed``, ``round``, the columns of the grid, and
        ``<model>/<metric>``; NaN, None or '' where a line of metrics has no such field.
      facts: labels, metrics and their directions, grid, seeds, as `Experiment.plan` has them.
      folder: the folder they were read from; None for results in memory.
    """

    columns: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]
    folder: Path | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        """Returns a column by its name."""
        if name not in self.columns:
            raise KeyError(str(errors.unknown_name('column', name, self.columns)))
        return self.columns[name]

    @functools.cached_property
    def dataset(self) -> LabelledResults:
        """Returns the evaluations as an ``xarray.Dataset``, without those of tuning.

        Each metric is a variable with the axes ``series`` (an algorithm at a point of the grid),
        ``model``, ``pattern``, ``seed`` and ``round``; NaN where a run diverged or nothing ran.
        ``algorithm`` and the columns of the grid are coordinates along ``series``, numbers or
        texts: NaN for an algorithm without the column, JSON for lists. Sums over the rounds of a
        period are variables with dots, ``rounds.num_active``. ``to_netcdf`` writes all of it, and
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

        The command ``simulate``, or `report.write` with the experiment, records them at the first
        point of a grid, if evaluation data have owners.

        Each metric is a variable with the axes ``algorithm``, ``pattern``, ``seed`` and ``client``.
        It is measured for the final model (the clients' mean where clients keep models) on the
        client's evaluation data; NaN for a client without any. ``personal_<metric>`` is measured
        for the client's own model, if the algorithm has such, and ``participations`` counts rounds.
        Both are NaN for clients that do not train.

        Raises:
          ValueError: if nothing was recorded.
        """
        import xarray

        dims = ('algorithm', 'pattern', 'seed', 'client')
        parts = []
        stored = read_clients(self.folder) if self.folder else {}
        for pattern, by_kind in stored.items():
            for algorithm, arrays in by_kind.get('measured', {}).items():
                coords = {
                    'algorithm': [algorithm],
                    'pattern': [pattern],
                    'seed': arrays['seed'],
                }
                data = {
                    # One algorithm and one pattern: [1, 1, seeds, clients].
                    name: (dims, values[None, None])
                    for name, values in arrays.items()
                    if name != 'seed'
                }
                parts.append(xarray.Dataset(data, coords))
        if not parts:
            requirement = (
                'hold metrics of clients, which `report.write(results, experiment)` records of a '
                'run with a folder, if evaluation data have owners'
            )
            raise errors.invalid('folder', requirement, self.folder)
        return xarray.merge(parts, join='outer', compat='no_conflicts')

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
            stay. A column of which one value is left leaves the grid.
          algorithms: labels; all by default.
          patterns: labels; all by default.
          seeds: all by default.

        Returns:
          The rows and the facts of that part.

        Raises:
          ValueError: for a column, value, label or seed that the run does not have.
        """
        facts = dict(self.facts)
        num_rows = len(self.columns['round']) if self.columns else 0
        is_selected = np.ones(num_rows, bool)
        labels = {'algorithms': algorithms, 'patterns': patterns, 'seeds': seeds}
        for field, selection in labels.items():
            if selection is None:
                continue
            facts[field] = _among(field, selection, self.facts[field])
            if self.columns:
                column = self.columns[field.removesuffix('s')]
                is_selected &= np.isin(column, facts[field])
        values_at = self._grid_values(at or {})
        for name in values_at.keys() & self.columns.keys():
            is_selected &= _has_value_among(self.columns[name], values_at[name])
        points = self._points_with(values_at)
        if not points:
            raise errors.invalid('at', 'leave a point of the grid', dict(at or {}))
        facts['grid'] = _grid_of(points, facts)
        rows = {name: column[is_selected] for name, column in self.columns.items()}
        return Results(rows, facts, self.folder)

    def _points_with(self, values_at: Mapping[str, Sequence[Any]]) -> list[Point]:
        """Returns the points of the grid that have one of the values in each of some columns."""
        return [
            point
            for point in grids.points(self.facts['grid'], self.facts['grid_mode'])
            if all(point[name] in values for name, values in values_at.items())
        ]

    def _grid_values(self, at: Point) -> dict[str, list[Any]]:
        """Returns the selected values of columns of the grid.

        Raises:
          ValueError: for a column or value that the grid does not have.
        """
        grid = self.facts['grid']
        selected = {}
        for name, selection in at.items():
            if name not in grid:
                raise errors.unknown_name('at', name, grid)
            selected[name] = _among(f'at.{name}', selection, grid[name])
        return selected

    def to_pandas(self) -> 'pandas.DataFrame':
        """Returns the columns as a `pandas.DataFrame`; lists become tuples."""
        import pandas

        columns = {
            name: dataset.as_tuples(column) for name, column in self.columns.items()
        }
        return pandas.DataFrame(columns)


def _has_value_among(column: np.ndarray, values: Sequence[object]) -> np.ndarray:
    """Returns bool[rows], whether a column has one of the values, or no value at all."""
    allowed = [dataset.as_tuple(value) for value in values]
    recorded = dataset.as_tuples(column).tolist()
    is_allowed = np.array([value in allowed for value in recorded], bool)
    return is_allowed | ~dataset.has_value(column)


def _grid_of(points: Sequence[grids.Point], facts: RunFacts) -> dict[str, list[Any]]:
    """Returns the grid of some of a run's points, without columns that do not vary."""
    grid = {}
    for name, values in facts['grid'].items():
        column = [point[name] for point in points]
        if len(set(map(repr, column))) == 1:
            continue
        if facts['grid_mode'] == 'cross':
            # Values occur in several points. The grid lists each of them once.
            column = [value for value in values if value in column]
        grid[name] = column
    return grid


def read_clients(folder: Path) -> dict[str, dict[str, Any]]:
    """Reads what was recorded of clients; empty if nothing was.

    Args:
      folder: of a run.

    Returns:
      Arrays and numbers, nested by pattern, kind and further labels.
    """
    stored: dict[str, dict[str, Any]] = {}
    file = folder / CLIENTS
    if not file.exists():
        return stored

    def unreadable(reason: str) -> errors.InvalidError:
        requirement = f'hold a readable {CLIENTS}'
        return errors.invalid('folder', requirement, f'{folder}: {reason}')

    with (
        errors.decoding(unreadable),
        errors.on_disk(file),
        np.load(file, allow_pickle=False) as arrays,
    ):
        for name, array in arrays.items():
            kind, pattern, *labels = str(name).split('/')
            keys = [pattern, kind, *labels]
            branch: dict[str, Any] = stored
            for key in keys[:-1]:
                branch = branch.setdefault(key, {})
            branch[keys[-1]] = array if array.ndim else array.item()
    return stored


def _among(argument: str, selection: Any, valid: Sequence[Any]) -> list[Any]:
    """Returns the wanted values, in the order of the valid ones.

    Args:
      argument: for errors.
      selection: a valid value, or several.
      valid: the values that the run has; a value may itself be a list.
    """
    plain = selection.tolist() if hasattr(selection, 'tolist') else selection
    is_several = isinstance(plain, list | tuple) and plain not in valid
    values = list(plain) if is_several else [plain]
    for value in values:
        if value in valid:
            continue
        if isinstance(value, str):
            raise errors.unknown_name(argument, value, map(str, valid))
        requirement = f'be among {", ".join(map(str, valid))}'
        raise errors.invalid(argument, requirement, errors.text_of(value))
    return [value for value in valid if value in values]
