"""A run in formats that other programs read: models, metrics, links."""

import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jax
import numpy as np

from fedjax_links import experiment, runs
from fedjax_links.core import checks, errors
from fedjax_links.experiment.plan import lanes
from fedjax_links.experiment.running.programs import state_shape
from fedjax_links.report import folders
from fedjax_links.report.clients import FILE as CLIENTS
from fedjax_links.report.folders import Folder
from fedjax_links.runs import KeptLane
from fedjax_links.storage import archives, checkpoints, packing

MODELS, STATES, CSV, PARQUET = 'models', 'states', 'metrics.csv', 'metrics.parquet'
NPZ, SAFETENSORS = 'npz', 'safetensors'
FORMATS = (NPZ, SAFETENSORS)


class Exported(NamedTuple):
    """What was written.

    Attributes:
      files: their paths under the folder of the export.
      notes: what was left out or written differently, and why, in a line each.
    """

    files: Sequence[str]
    notes: Sequence[str]


def export(folder: str | Path, to: str | Path, *, format: str | None = None) -> Exported:
    """Writes a run's models, metrics and links; the run is only read.

    ``models/<algorithm>/<pattern>/<point>/<seed>`` holds the candidate models of a main lane at its
    last checkpoint, one array per leaf, by dotted path from the model's name on:
    ``server.params.Dense_0.kernel``. The point reads ``column=value,...``, characters that no file
    name should have as ``%2F``; ``all`` where there are no columns. An npz holds bfloat16 and its
    like as float32, which changes no value. ``metrics.csv`` and ``metrics.parquet`` hold all lines
    of metrics, empty or null for NaN and for what a line has not; ``links.npz`` the links that were
    kept, masks as bool[T, N].

    A run made in Python has no config to rebuild the experiment from, so in place of models the
    lanes' whole states are written, under ``states``; so they are where the config's parts cannot
    be imported, and where the run was in another precision than this process.

    Args:
      folder: a run folder, finished or not.
      to: the folder to write to, created if missing.
      format: of models, ``'npz'`` or ``'safetensors'``; safetensors where that package is
        installed by default.

    Returns:
      The files, and what there is to say of them.

    Raises:
      ValueError: if the folder holds no run or was changed, ``to`` is the folder of a run, or for
        an unknown format.
      MissingPackageError: for safetensors without that package.
    """
    installed = importlib.util.find_spec(SAFETENSORS) is not None
    format = format or (SAFETENSORS if installed else NPZ)
    checks.choice('format', format, FORMATS)
    if format == SAFETENSORS and not installed:
        raise errors.missing_package('--format=safetensors needs safetensors', SAFETENSORS)
    kept, target = folders.read(folder), Path(to)
    if (target / runs.EXPERIMENT).exists():
        raise errors.invalid('to', 'be another folder than that of a run', to)
    files, notes = [], []
    planned, reason = _rebuilt(kept)
    if planned is None:
        notes.append(f'{reason}, so whole states are exported, leaf by leaf as they are stored.')
    trees = _states(kept) if planned is None else _models(kept, planned)
    with errors.on_disk(target):
        for name, leaves in trees:
            files.append(f'{name}.{format}')
            _write(target / files[-1], _encoded(leaves, format))
        if not files:
            notes.append('No checkpoints of main lanes are kept, so there are no models.')
        files.append(CSV)
        table = _table(kept.run)
        _write(target / CSV, table.to_csv(index=False, lineterminator='\n').encode())
        if importlib.util.find_spec('pyarrow'):
            files.append(PARQUET)
            _write(target / PARQUET, table.to_parquet(index=False))
        else:
            notes.append(f'{PARQUET} needs pyarrow: `pip install pyarrow`.')
        if links := runs.read_links(kept.path):
            for name in [name for name in links if name.startswith('mask/')]:
                count = int(links['num_clients'])
                links[name] = np.unpackbits(links[name], axis=-1, count=count).astype(bool)
            files.append(runs.LINKS)
            _write(target / runs.LINKS, packing.npz(links))
        else:
            notes.append('No links were kept.')
    return Exported(files, notes)


def archive(
    folder: str | Path, to: str | Path, *, metrics: Sequence[str] | None = None
) -> Exported:
    """Writes what reports need of a run in a few small files (`archives`); the run is only read.

    Args:
      folder: a run folder, finished or not.
      to: the folder to write to, created if missing.
      metrics: which to keep, of all models, the run's own among them; all by default.

    Returns:
      The files, and what was left behind.

    Raises:
      ValueError: if the folder holds no run, ``to`` is the folder of a run, or for metrics that are
        unknown or without the run's own.
    """
    run, source, target = runs.read(folder), Path(folder), Path(to)
    if (target / runs.EXPERIMENT).exists():
        raise errors.invalid('to', 'be another folder than that of a run', to)
    facts = dict(run.facts)
    if metrics is not None:
        known = facts['directions']
        facts['directions'] = {name: way for name, way in known.items() if name in metrics}
        if facts['metric'] not in metrics:
            raise errors.invalid('metrics', f"hold {facts['metric']!r}, the run's own", metrics)
    files = {
        archives.METRICS: archives.encoded(run.columns, metrics),
        runs.EXPERIMENT: runs.as_json(facts),
    }
    for name in (runs.CONFIG, runs.ENVIRONMENT, CLIENTS):
        if (source / name).exists():
            files[name] = (source / name).read_bytes()
    with errors.on_disk(target):
        for name, content in files.items():
            _write(target / name, content)
    return Exported(list(files), ['States and links stay behind: nothing can go on from it.'])


# Models and states.


def _rebuilt(kept: Folder) -> tuple[experiment.Experiment | None, str]:
    """The experiment that a folder's config stands for, or why there is none."""
    if kept.config is None:
        return None, f'The run was made in Python and has no {runs.CONFIG}'
    here = jax.dtypes.canonicalize_dtype(float).name
    if (there := kept.environment.get('precision', here)) != here:
        return None, f'The run is in {there} and this process in {here} (see JAX_ENABLE_X64)'
    try:
        return experiment.build(kept.config), ''
    except (errors.InvalidError, ImportError) as error:
        return None, f'{runs.CONFIG} cannot be built here ({str(error).rstrip(".")})'


def _last_states(kept: Folder) -> list[tuple[KeptLane, Path]]:
    """The main lanes with the files of their last states."""
    return [
        (lane, lane.states[max(lane.states)])
        for lane in kept.lanes.values()
        if lane.labels['stage'] == 'main' and lane.states
    ]


def _models(
    kept: Folder, planned: experiment.Experiment
) -> list[tuple[str, dict[str, np.ndarray]]]:
    """Name and leaves of every lane's candidate models."""
    found = []
    for kept_lane, path in _last_states(kept):
        lane = lanes.of_kept(kept_lane)
        state = checkpoints.load(path, state_shape(planned, lane))
        columns = planned.algorithm_makers[lane.algorithm].at(lane.point)
        models = planned.algorithm_at(lane.algorithm, columns).models(state.algorithm)
        leaves = [
            (jax.tree_util.keystr(path, simple=True, separator='.'), np.asarray(leaf))
            for path, leaf in jax.tree_util.tree_leaves_with_path(dict(models))
        ]
        found.append((_name(MODELS, kept_lane), _by_name(leaves)))
    return found


def _states(kept: Folder) -> list[tuple[str, dict[str, np.ndarray]]]:
    """Name and leaves of every lane's state."""
    return [
        (
            _name(STATES, lane),
            _by_name([(_dotted(name), leaf) for name, leaf in checkpoints.arrays(path).items()]),
        )
        for lane, path in _last_states(kept)
    ]


def _name(kind: str, lane: KeptLane) -> str:
    point = ','.join(f'{name}={_plain(value)}' for name, value in lane.point.items()) or 'all'
    algorithm, pattern, seed = (lane.labels[k] for k in ('algorithm', 'pattern', 'seed'))
    return f'{kind}/{algorithm}/{pattern}/{point}/{seed}'


def _plain(value: Any) -> str:
    """A value as a part of a file name."""
    return quote(str(value), safe=' +:')


def _dotted(path: str) -> str:
    """``.algorithm.params['Dense_0'][1]`` as ``algorithm.params.Dense_0.1``."""
    return re.sub(r"\['([^']*)'\]|\[([^\]]*)\]", r'.\1\2', path).removeprefix('.')


def _by_name(leaves: Sequence[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
    names = [name for name, _ in leaves]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise errors.invalid('state', 'have leaves whose dotted paths differ', f'{twice} twice')
    return dict(leaves)


# Files.


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoints.write_whole(path, content)


def _encoded(leaves: Mapping[str, np.ndarray], format: str) -> bytes:
    if format == NPZ:
        return packing.npz({name: _widened(array) for name, array in leaves.items()})
    from safetensors.numpy import save

    content: bytes = save({name: np.array(array, order='C') for name, array in leaves.items()})
    return content


def _widened(array: np.ndarray) -> np.ndarray:
    """An array of a dtype that npz can hold, with the same values."""
    return array if array.dtype.kind in 'biufc' else array.astype(np.float32)


def _table(run: runs.Results) -> Any:
    """All lines; columns that hold values of several kinds, such as lists, as text."""
    table = run.to_pandas()
    for name, column in run.columns.items():
        kinds = {type(value) for value in column.tolist() if value is not None}
        if column.dtype == object and len(kinds) > 1:
            table[name] = [None if value is None else str(value) for value in column.tolist()]
    return table
