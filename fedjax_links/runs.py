"""A run folder: what an experiment leaves on disk, and how it is read (`stores` writes it).

* ``config.json``: the config as run; absent for experiments made in Python.
* ``experiment.json``: labels, metrics and their directions, grid, seeds: what reports need;
  ``numerics``, what of JAX's settings its draws and rounding depend on; of a forked run also
  ``forked_from`` and ``at_round``; ``on_a_mesh`` if its lanes ran on meshes, which round
  differently.
* ``environment.json``: versions, devices, cores and flags of the last start.
* ``metrics.jsonl``: one flat line per lane and evaluation; NaN and infinities are null. Lines of
  lanes that are not ``finite`` have ``first_bad_round``, counted from 0. A lane's lines are in the
  order of rounds; if the run was made longer, each lane's later rounds stand behind all lines that
  were there before.
* ``links.npz``: realised links, one bit each.
* ``clients.npz``: what reports need to know of clients that takes the problem itself.
* ``checkpoints/``: states of the lanes, the last two of each, and the journal (`journal`) that
  proves the lines of metrics.
"""

import io
import json
import math
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import archives, describing, errors, frames, journal, seals, series

CONFIG, EXPERIMENT, ENVIRONMENT = 'config.json', 'experiment.json', 'environment.json'
METRICS, LINKS, CHECKPOINTS = journal.METRICS, 'links.npz', 'checkpoints'
ON_A_MESH = 'on_a_mesh'
MAY_DIFFER = ('baseline', 'caption', 'log', 'names', 'reports', 'title')
"""What changes how results are shown or kept, but no result."""


def _facts(run: Any) -> describing.Facts:
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
            last = (run.columns['stage'] == 'main') & (run.columns['algorithm'] == algorithm)
            last &= run.columns['round'] == facts['num_rounds']
            ends = {
                model: run.columns[f'{model}/{metric}'][last].astype(np.float64)
                for model in facts['models'][algorithm]
            }
            said = [f'{model} {describing.numbers(v)}' for model, v in ends.items() if v.size]
            rows[algorithm] = f'{metric}: {", ".join(said)}' if said else 'not finished'
    return describing.Facts(f'Results of {facts["title"]!r}', rows)


@describing.described(_facts)
class Results(NamedTuple):
    """Metrics as columns of equal length, one row per lane and evaluation.

    Attributes:
      columns: ``stage`` (``'main'`` or ``'tuning'``), ``algorithm``, ``pattern``, ``seed``,
        ``round``, the columns of the grid, and ``<model>/<metric>``; NaN, None or '' where a line
        has no such field.
      facts: labels, metrics and their directions, grid, seeds: `Experiment.facts`.
      folder: where they were read from; None for results in memory.
    """

    columns: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]
    folder: Path | None = None

    def __getitem__(self, name: Any) -> Any:
        """A column by its name."""
        if isinstance(name, str) and name not in self.columns:
            raise KeyError(str(errors.unknown_name('column', name, self.columns)))
        return self.columns[name] if isinstance(name, str) else tuple(self)[name]

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
        labels = {'algorithms': algorithms, 'patterns': patterns, 'seeds': seeds}
        columns, facts = series.part(self.columns, self.facts, at or {}, labels)
        return Results(columns, facts, self.folder)

    def to_pandas(self) -> Any:
        """The columns as a table of pandas, which must be installed; lists become tuples."""
        return frames.table(self.columns)

    def to_xarray(self) -> Any:
        """The evaluations, those of tuning left out, with named axes; xarray must be installed.

        Variables ``<model>/<metric>`` have the axes ``algorithm``, ``pattern``, ``point``, ``seed``
        and ``round``, as ``finite`` has, whether the lane was; the columns of the grid are
        coordinates along ``point``, lists as tuples. NaN where nothing ran, and in columns that an
        algorithm lacks.

        Returns:
          An ``xarray.Dataset``.

        Raises:
          ImportError: without xarray, naming what to install.
        """
        main = self.columns['stage'] == 'main' if self.columns else np.zeros(0, bool)
        rows = {name: column[main] for name, column in self.columns.items()}
        grid = [name for name in self.facts['grid'] if name in rows]
        points = list(zip(*(rows[name].tolist() for name in grid), strict=True))
        points = points or [()] * int(main.sum())
        keys = [repr(point) for point in points]  # NaN is itself here
        every = dict(zip(keys, points, strict=True))
        coords: dict[str, Any] = {
            'algorithm': list(self.facts['algorithms']),
            'pattern': list(self.facts['patterns']),
            'point': list(range(len(every))),
            'seed': list(self.facts['seeds']),
            'round': np.unique(rows.get('round', np.zeros(0, int))).tolist(),
        }
        axes = tuple(coords)
        places = {axis: {v: k for k, v in enumerate(coords[axis])} for axis in axes}
        places['point'] = {key: k for k, key in enumerate(every)}
        found = {axis: keys if axis == 'point' else rows[axis].tolist() for axis in axes if rows}
        at = tuple(np.array([places[axis][v] for v in found[axis]], int) for axis in found)
        variables = {}
        for name in [name for name in rows if '/' in name or name == 'finite']:
            kind, missing = (bool, False) if name == 'finite' else (np.float64, np.nan)
            values = np.full([len(coords[axis]) for axis in axes], missing, kind)
            values[at] = rows[name].astype(kind)
            variables[name] = axes, values
        for place, name in enumerate(grid):
            column = _column([point[place] for point in every.values()])
            coords[name] = 'point', frames.of_tuples(column)
        return frames.dataset(variables, coords)


def read(folder: str | Path) -> Results:
    """The metrics of a run folder, finished or not, or of its archive.

    Args:
      folder: what ``--workdir`` was, or the folder of an archive (`archives`).

    Returns:
      The columns up to the last save.

    Raises:
      ValueError: if the folder holds no run, or its files were changed.
    """
    path, (facts, _) = Path(folder), described(folder)
    archive = path / archives.METRICS
    if archive.exists():
        return Results(archives.read(archive), facts, path)
    with errors.on_disk(path):
        _, lines = journal.read(path)
    return Results(as_columns(lines), facts, path)


def described(
    folder: str | Path, argument: str = 'folder'
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What a run folder says of its experiment.

    Args:
      folder: its path.
      argument: what named it, for errors.

    Returns:
      The facts, and the config; None for an experiment made in Python.

    Raises:
      ValueError: if the folder holds no run.
    """
    facts = read_json(Path(folder), EXPERIMENT)
    if facts is None:
        raise errors.invalid(argument, f'hold a run ({EXPERIMENT})', folder)
    return facts, read_json(Path(folder), CONFIG)


def read_links(folder: str | Path) -> dict[str, np.ndarray]:
    """The arrays of realised links as they are kept, masks packed; empty if none were kept.

    Args:
      folder: of a run.

    Returns:
      ``num_clients``; by pattern, and ``<pattern>/<seed>`` for further seeds, ``mask/...``, packed
      along the clients, ``mean_prob/...`` and where asked for ``prob/...``.

    Raises:
      ValueError: if the file was changed.
    """
    content = seals.read(Path(folder), LINKS)
    if content is None:
        return {}
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return dict(stored)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        requirement = f'hold readable links ({LINKS})'
        raise errors.invalid('folder', requirement, f'{folder}: {error}') from None


def as_columns(lines: Iterable[bytes | str]) -> dict[str, np.ndarray]:
    """Lines of metrics as columns."""
    rows = [{'stage': 'main', **json.loads(line)} for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: _column([row.get(name) for row in rows]) for name in names}


def checkpoint_file(folder: Path, lane: str, round: int) -> Path:
    """Where the state of a lane after ``round`` rounds is kept."""
    return folder / CHECKPOINTS / f'{lane}@{round}.npz'


def line_of(labels: Mapping[str, Any], round: int, record: Mapping[str, Any]) -> str:
    """One evaluation of one lane as a line of metrics."""
    values = {name: _jsonable(value) for name, value in record.items()}
    return json.dumps({**labels, 'round': round, **values}) + '\n'


def read_json(folder: Path, name: str) -> Any:
    """What a file of JSON holds.

    Args:
      folder: of a run.
      name: of the file.

    Returns:
      Its values; None if there is no such file.

    Raises:
      ValueError: if it was changed.
    """
    with errors.on_disk(folder / name):
        content = seals.read(folder, name)
    try:
        return None if content is None else json.loads(content)
    except ValueError as error:
        requirement = f'hold a readable {name}'
        raise errors.invalid('workdir', requirement, f'{folder / name}: {error}') from None


def first_difference(there: Any, here: Any, field: str = 'config') -> tuple[str, Any, Any]:
    """Where two descriptions of an experiment part.

    Args:
      there: values by name, which may be descriptions themselves.
      here: likewise.
      field: what they describe.

    Returns:
      The first field that differs and its two values; two equal ones if nothing does.
    """
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for name in sorted({*there, *here}):
            if there.get(name) != here.get(name):
                return first_difference(there.get(name), here.get(name), f'{field}.{name}')
        return field, None, None
    return field, there, here


def _column(values: Sequence[Any]) -> np.ndarray:
    """Numbers as numbers (None is NaN), all else as objects."""
    kinds = {type(value) for value in values}
    if kinds <= {bool}:
        return np.array(values, bool)
    if kinds <= {int}:
        return np.array(values, np.int64)
    if kinds <= {int, float, type(None)}:
        return np.array([np.nan if value is None else value for value in values], np.float64)
    if kinds <= {str}:
        return np.array(values)
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _jsonable(value: Any) -> Any:
    """A number, or None for what JSON cannot say (NaN and infinities)."""
    number = np.asarray(value).item()
    return None if isinstance(number, float) and not math.isfinite(number) else number
