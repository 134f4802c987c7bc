"""A run in formats that other programs read: states with their models, metrics, links."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np

from fedjax_links import runs
from fedjax_links.core import errors, paths
from fedjax_links.results.runs import CLIENTS
from fedjax_links.storage import checkpoints, checksummed_npz, outputs, run_files

CSV = 'metrics.csv'


def export(folder: str | Path, to: str | Path) -> list[str]:
    """Writes a run's last states, metrics and links; the run is only read.

    ``states/<algorithm>/<pattern>/<point>/<seed>.npz`` holds the state of a main lane at its last
    checkpoint, models among its leaves, one array per leaf, by dotted path:
    ``algorithm.server.Dense_0.kernel``. The point reads ``column=value,...``, characters that no
    file name should have as ``%2F``; ``all`` where there are no columns. An npz holds bfloat16 and
    its like as float32, which changes no value. ``metrics.csv`` holds all lines of metrics, empty
    for NaN and for what a line has not; ``links.npz`` the links that were kept, masks as
    bool[T, N] and edges bool[T, N, K]. There are no states of what has no checkpoint yet, no links
    where none were kept.

    Args:
      folder: a run folder, finished or not.
      to: the folder to write to, created if missing.

    Returns:
      The files, by their paths under the folder.

    Raises:
      ValueError: if the folder holds no run or was changed, or ``to`` is the folder of a run.
    """
    return outputs.write('to', _target(to), _contents(paths.as_path(folder)))


def archive(
    folder: str | Path, to: str | Path, *, metrics: Sequence[str] | None = None
) -> list[str]:
    """Writes what reports need of a run in a few small files; the run is only read.

    The files prove themselves, see `checksummed_npz`.

    States and links stay behind: nothing can go on from an archive.

    Args:
      folder: a run folder, finished or not.
      to: the folder to write to, created if missing.
      metrics: which to keep, of all models, the run's own among them; all by default.

    Returns:
      The files.

    Raises:
      ValueError: if the folder holds no run, ``to`` is the folder of a run, or for metrics that are
        unknown or without the run's own.
    """
    run, source, target = runs.read(folder), paths.as_path(folder), _target(to)
    facts = dict(run.facts)
    if metrics is not None:
        known = facts['directions']
        facts['directions'] = {
            name: way for name, way in known.items() if name in metrics
        }
        if facts['metric'] not in metrics:
            raise errors.invalid(
                'metrics', f"hold {facts['metric']!r}, the run's own", metrics
            )
    files = {
        checksummed_npz.METRICS: checksummed_npz.pack_metrics(run.columns, metrics)
    }
    files[runs.EXPERIMENT] = runs.as_json(facts)
    for name in (runs.CONFIG, runs.ENVIRONMENT, run_files.IDENTITY, CLIENTS):
        if (source / name).exists():
            files[name] = (source / name).read_bytes()
    return outputs.write('to', target, files.items())


def _target(to: str | Path) -> Path:
    """The folder to write to, which is no run's."""
    target = paths.as_path(to)
    if (target / runs.EXPERIMENT).exists():
        raise errors.invalid('to', 'be another folder than that of a run', to)
    return target


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files of an export."""
    run = runs.read(folder)
    for lane in runs.lanes(folder):
        if lane.labels['stage'] == 'main' and lane.states:
            leaves = checkpoints.arrays(lane.states[max(lane.states)])
            yield _name(lane), checksummed_npz.npz(_by_dotted_path(leaves))
    yield CSV, run.to_pandas().to_csv(index=False, lineterminator='\n').encode()
    if links := runs.read_links(folder):
        yield runs.LINKS, checksummed_npz.npz(runs.unpacked(links))


def _name(lane: runs.LaneRecord) -> str:
    """The file of a lane; ``%2F`` and the like stand for what no file name should have."""
    shown = [
        f'{name}={quote(str(value), safe=" +:")}' for name, value in lane.point.items()
    ]
    algorithm, pattern, seed = (
        lane.labels[k] for k in ('algorithm', 'pattern', 'seed')
    )
    return f'states/{algorithm}/{pattern}/{",".join(shown) or "all"}/{seed}.npz'


def _by_dotted_path(leaves: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """``.algorithm.params['Dense_0'][1]`` as ``algorithm.params.Dense_0.1``, as npz can hold it."""
    found: dict[str, np.ndarray] = {}
    for path, array in leaves.items():
        name = re.sub(r"\['([^']*)'\]|\[([^\]]*)\]", r'.\1\2', path).removeprefix('.')
        if name in found:
            raise errors.invalid(
                'state', 'have leaves whose dotted paths differ', f'{name} twice'
            )
        found[name] = array if array.dtype.kind in 'biufc' else array.astype(np.float32)
    return found
