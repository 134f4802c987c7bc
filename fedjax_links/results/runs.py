"""What a run measured: its metrics as columns, in one labelled form, and parts of it."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links.core import errors, grids, reprs
from fedjax_links.results import dataset
from fedjax_links.results.run_dataset import run_to_dataset

CLIENTS = 'clients.npz'


def _text(run: Any) -> str:
    """What ran, and where every algorithm ended: mean and range over patterns and seeds."""
    facts, metric = run.facts, run.facts['metric']
    rows = {
        'folder': str(run.folder),
        'patterns': ', '.join(facts['patterns']),
        'seeds': str(len(facts['seeds'])),
        'rounds': f'{facts["num_rounds"]:,}, evaluated every {facts["eval_every"]:,}',
    }
    for name, values in facts['grid'].items():
        rows[name] = ', '.join(map(str, values))
    for algorithm in facts['algorithms']:
        rows[algorithm] = 'not finished'
        if run.columns:
            last = (run.columns['stage'] == 'main') & (
                run.columns['algorithm'] == algorithm
            )
            last &= run.columns['round'] == facts['num_rounds']
            ends = {
                model: run.columns[f'{model}/{metric}'][last].astype(np.float64)
                for model in facts['models'][algorithm]
            }
            said = [
                f'{model} {reprs.numbers(v)}' for model, v in ends.items() if v.size
            ]
            rows[algorithm] = f'{metric}: {", ".join(said)}' if said else 'not finished'
    return reprs.block(f'Results of {facts["title"]!r}', rows)


@reprs.described(_text)
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Results:
    """Metrics of a run: its lines as columns, and in one labelled form.

    Attributes:
      columns: of equal length, one row per lane and evaluation: ``stage`` (``'main'`` or
        ``'tuning'``), ``algorithm``, ``pattern``, ``seed``, ``round``, the columns of the grid, and
        ``<model>/<metric>``; NaN, None or '' where a line has no such field.
      facts: labels, metrics and their directions, grid, seeds, as `Experiment.plan` has them.
      folder: where they were read from; None for results in memory.
    """

    columns: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]
    folder: Path | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        """A column by its name."""
        if name not in self.columns:
            raise KeyError(str(errors.unknown_name('column', name, self.columns)))
        return self.columns[name]

    @functools.cached_property
    def dataset(self) -> Any:
        """The evaluations as an ``xarray.Dataset``, those of tuning left out.

        Every metric is a variable with the axes ``series`` (an algorithm at a point of the grid),
        ``model``, ``pattern``, ``seed`` and ``round``; NaN where a run diverged or nothing ran.
        ``algorithm`` and the columns of the grid are coordinates along ``series``: numbers, NaN for
        an algorithm without the column, or texts, lists as JSON. Sums over the rounds of a period
        are variables with dots, ``rounds.num_active``. ``to_netcdf`` keeps all of it, and what
        `xarray.open_dataset` then reads can be drawn as before.
        """
        return run_to_dataset(self.columns, self.facts)

    @functools.cached_property
    def tuning(self) -> Any:
        """As `dataset`, of the lanes that tuned, with the columns that are tuned too."""
        return run_to_dataset(self.columns, self.facts, dataset.TUNING)

    @functools.cached_property
    def clients(self) -> Any:
        """What every client had at the end, as an ``xarray.Dataset``.

        Of problems whose evaluation data have owners, from a folder where the command ``simulate``
        or `report.write` with the experiment kept it; at the first point of a grid. Every metric is
        a variable with the axes ``algorithm``, ``pattern``, ``seed`` and ``client``: of the final
        model (the clients' mean where clients keep models) on the client's own evaluation data, NaN
        where it has none. ``personal_<metric>`` is of the client's own model where the algorithm
        has such, ``participations`` counts rounds; both are NaN for clients that do not train.

        Raises:
          ValueError: if nothing was kept.
        """
        import xarray

        dims, parts = ('algorithm', 'pattern', 'seed', 'client'), []
        for pattern, kept in (read_clients(self.folder) if self.folder else {}).items():
            for algorithm, own in kept.get('measured', {}).items():
                coords = {
                    'algorithm': [algorithm],
                    'pattern': [pattern],
                    'seed': own.pop('seed'),
                }
                data = {
                    name: (dims, values[None, None]) for name, values in own.items()
                }
                parts.append(xarray.Dataset(data, coords))
        if not parts:
            requirement = 'hold metrics of clients, whose evaluation data have owners'
            raise errors.invalid('folder', requirement, self.folder)
        return xarray.merge(parts, join='outer', compat='no_conflicts')

    def select(
        self,
        at: Mapping[str, Any] | None = None,
        *,
        algorithms: str | Sequence[str] | None = None,
        patterns: str | Sequence[str] | None = None,
        seeds: int | Sequence[int] | None = None,
    ) -> 'Results':
        """A part of the run, for pictures and tables.

        ::

          run = fl.runs.read('runs/map')
          part = run.select({'client.learning_rate': 0.1}, algorithms=['fedavg', 'fedpbc'])
          fl.plot.learning_curves(part)

        Args:
          at: a value, or a list of values, by column of the grid. Algorithms that lack a column
            stay. A column with one value left is no column of the grid any more.
          algorithms: labels; all by default.
          patterns: labels; all by default.
          seeds: all by default.

        Returns:
          The rows of that part, and the facts of it.

        Raises:
          ValueError: for a column, value, label or seed that the run does not have.
        """
        columns, facts, grid = self.columns, dict(self.facts), self.facts['grid']
        chosen = np.ones(len(columns['round']) if columns else 0, bool)
        every = grids.points(grid, facts['grid_mode'])
        labels = {'algorithms': algorithms, 'patterns': patterns, 'seeds': seeds}
        for field, some in labels.items():
            if some is not None:
                facts[field] = _among(field, some, facts[field])
                if columns:
                    chosen &= np.isin(columns[field.removesuffix('s')], facts[field])
        for name, some in (at or {}).items():
            if name not in grid:
                raise errors.unknown_name('at', name, grid)
            left = _among(f'at.{name}', some, grid[name])
            every = [point for point in every if point[name] in left]
            if name in columns:
                wanted = [dataset.as_tuple(value) for value in left]
                own = dataset.as_tuples(columns[name]).tolist()
                there = np.array([value in wanted for value in own], bool)
                chosen &= there | ~dataset.is_given(columns[name])
        if not every:
            raise errors.invalid('at', 'leave a point of the grid', dict(at or {}))
        kept = {name: [point[name] for point in every] for name in grid}
        kept = {
            name: column
            for name, column in kept.items()
            if len(set(map(repr, column))) > 1
        }
        if facts['grid_mode'] == 'cross':
            kept = {name: [v for v in grid[name] if v in kept[name]] for name in kept}
        part = {name: column[chosen] for name, column in columns.items()}
        return Results(part, {**facts, 'grid': kept}, self.folder)

    def to_pandas(self) -> Any:
        """The columns as a `pandas.DataFrame`; lists become tuples."""
        import pandas

        columns = {
            name: dataset.as_tuples(column) for name, column in self.columns.items()
        }
        return pandas.DataFrame(columns)


def read_clients(folder: Path) -> dict[str, dict[str, Any]]:
    """All that was kept of clients, by pattern and kind; empty where nothing was.

    Args:
      folder: of a run.
    """
    found: dict[str, dict[str, Any]] = {}

    def failed(said: str) -> errors.InvalidError:
        return errors.invalid(
            'folder', f'hold a readable {CLIENTS}', f'{folder}: {said}'
        )

    if (folder / CLIENTS).exists():
        with (
            errors.decoding(failed),
            errors.on_disk(folder / CLIENTS),
            np.load(folder / CLIENTS, allow_pickle=False) as stored,
        ):
            for name, array in stored.items():
                kind, pattern, *labels = str(name).split('/')
                path = [pattern, kind, *labels]
                at: dict[str, Any] = found
                for part in path[:-1]:
                    at = at.setdefault(part, {})
                at[path[-1]] = array if array.ndim else array.item()
    return found


def _among(argument: str, some: Any, valid: Sequence[Any]) -> list[Any]:
    """One of the valid values, or some, as a list in the order of the valid ones."""
    some = some.tolist() if hasattr(some, 'tolist') else some
    wanted = (
        list(some) if isinstance(some, list | tuple) and some not in valid else [some]
    )
    for value in wanted:
        if value not in valid:
            if isinstance(value, str):
                raise errors.unknown_name(argument, value, map(str, valid))
            shown = ', '.join(map(str, valid))
            raise errors.invalid(argument, f'be among {shown}', errors.text_of(value))
    return [value for value in valid if value in wanted]
