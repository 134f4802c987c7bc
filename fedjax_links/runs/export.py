"""Exports a run to formats that other programs read: states with models, metrics, links."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np

from fedjax_links import runs
from fedjax_links.core import checks, digests, errors, paths
from fedjax_links.results.clients import CLIENTS
from fedjax_links.storage import checkpoints, checksummed_npz, outputs, run_files

CSV = 'metrics.csv'
_MAX_LETTERS = 200
"""The most letters of a point's name; disks take names of up to 255 bytes."""


def export(folder: str | Path, to: str | Path) -> list[str]:
    """Writes a run's last states, metrics and links; the run is only read.

    * ``states/<algorithm>/<pattern>/<point>/<seed>.npz`` is the state of a main lane at its last
      checkpoint, models included. A lane is one algorithm, pattern, grid point and seed. The npz
      has one array per leaf, by dotted path: ``algorithm.server.Dense_0.kernel``. The point's name
      is ``column=value,...``, or ``all`` without a grid. Characters unfit for file names are
      quoted, as ``%2F``. A long name, such as of a point with vectors, is cut and ends with a
      digest. An npz holds bfloat16 as float32, which changes no value.
    * ``metrics.csv`` has all lines of metrics. NaN and missing fields are empty.
    * ``links.npz`` has the recorded links, masks as bool[T, N] and edges as bool[T, N, K].

    Args:
      folder: a run folder, finished or not.
      to: the folder to write to, created if missing.

    Returns:
      The files, by their paths under the folder.

    Raises:
      ValueError: if the folder holds no run or was changed, or ``to`` is the folder of a run.
    """
    source = paths.as_path(folder)
    target = _target(to)
    run = runs.read(folder)
    lanes = [
        lane
        for lane in runs.lanes(source)
        if lane.labels['stage'] == 'main' and lane.states
    ]
    links = runs.read_links(source)
    names = [*map(_name, lanes), CSV]
    if links:
        names.append(runs.LINKS)
    outputs.check('to', target, names)
    return outputs.write('to', target, _contents(run, lanes, links))


def archive(
    folder: str | Path, to: str | Path, *, metrics: Sequence[str] | None = None
) -> list[str]:
    """Writes the few small files that reports need of a run; the run is only read.

    The files have checksums, see `checksummed_npz`. The files have no states and no links, so no
    run can be resumed from an archive.

    Args:
      folder: a run folder, finished or not.
      to: the folder to write to, created if missing.
      metrics: names of the metrics to keep, with the run's main metric; all by default.

    Returns:
      The files.

    Raises:
      ValueError: if the folder holds no run, ``to`` is the folder of a run, or ``metrics`` has an
        unknown metric or lacks the main metric.
    """
    run = runs.read(folder)
    source = paths.as_path(folder)
    target = _target(to)
    facts = dict(run.facts)
    if metrics is not None:
        metrics = checks.names('metrics', metrics)
        directions = facts['directions'].items()
        facts['directions'] = {
            name: direction for name, direction in directions if name in metrics
        }
    content = checksummed_npz.pack_metrics(run.columns, metrics)
    if metrics is not None and facts['metric'] not in metrics:
        requirement = f"hold {facts['metric']!r}, the run's own"
        raise errors.invalid('metrics', requirement, list(metrics))
    files = {checksummed_npz.METRICS: content}
    files[runs.EXPERIMENT] = runs.as_json(facts)
    for name in (runs.CONFIG, runs.ENVIRONMENT, run_files.IDENTITY, CLIENTS):
        if (source / name).exists():
            files[name] = (source / name).read_bytes()
    return outputs.write('to', target, files.items())


def _target(to: str | Path) -> Path:
    """Returns the folder to write to; refuses the folder of a run."""
    target = paths.as_path(to, 'to')
    if (target / runs.EXPERIMENT).exists():
        raise errors.invalid('to', 'be another folder than that of a run', to)
    return target


def _contents(
    run: runs.Results,
    lanes: Sequence[runs.LaneRecord],
    links: Mapping[str, np.ndarray],
) -> Iterator[tuple[str, bytes]]:
    """Yields the files of an export, by name and content."""
    for lane in lanes:
        leaves = checkpoints.arrays(lane.states[max(lane.states)])
        yield _name(lane), checksummed_npz.npz(_by_dotted_path(leaves))
    yield CSV, run.to_pandas().to_csv(index=False, lineterminator='\n').encode()
    if links:
        yield runs.LINKS, checksummed_npz.npz(runs.unpacked(links))


def _name(lane: runs.LaneRecord) -> str:
    """Names the file of a lane; characters unfit for file names are quoted, as ``%2F``."""
    columns = [
        f'{name}={quote(str(value), safe=" +:")}' for name, value in lane.point.items()
    ]
    point = ','.join(columns) or 'all'
    if len(point) > _MAX_LETTERS:
        digest = digests.hash_bytes(point.encode())
        point = f'{point[: _MAX_LETTERS - len(digest)]}{digest}'
    labels = lane.labels
    folder = f'states/{labels["algorithm"]}/{labels["pattern"]}/{point}'
    return f'{folder}/{labels["seed"]}.npz'


def _by_dotted_path(leaves: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames ``.algorithm.params['Dense_0'][1]`` to ``algorithm.params.Dense_0.1``, for an npz."""
    arrays: dict[str, np.ndarray] = {}
    for path, array in leaves.items():
        name = re.sub(r"\['([^']*)'\]|\[([^\]]*)\]", r'.\1\2', path).removeprefix('.')
        if name in arrays:
            requirement = 'have leaves whose dotted paths differ'
            raise errors.invalid('state', requirement, f'{name} twice')
        is_plain = array.dtype.kind in 'biufc'
        arrays[name] = array if is_plain else array.astype(np.float32)
    return arrays
