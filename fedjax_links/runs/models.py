"""Models of a run's lanes, from their saves; no code is imported from the run's folder."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links.base import Params
from fedjax_links.core import checks, errors, paths
from fedjax_links.runs import folder as folders
from fedjax_links.runs.folder import LaneRecord
from fedjax_links.storage import checkpoints

_STATE_FIELDS = {'server': '.algorithm.server', 'client_mean': '.algorithm.clients'}
_TOKEN = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.?([^.\[]+)")


def model(
    folder: str | Path,
    lane: str | Mapping[str, Any] | None = None,
    *,
    name: str = 'server',
    at_round: int | None = None,
) -> Params:
    """Reads a model that a run has saved.

    Args:
      folder: of the run, finished or not; or an npz: a state that ``export`` wrote, or arrays by
        dotted name, ``Dense_0.kernel``.
      lane: which lane: labels that only it has, ``{'algorithm': 'fedavg', 'seed': 0}``, or its name
        as its files begin. May be left out where the run has one lane, and of an npz.
      name: of the model: ``'server'``, or ``'client_mean'`` where clients keep models, the mean
        over all of them.
      at_round: rounds behind the save; the last save by default. A run keeps the last two.

    Returns:
      The parameters, NumPy arrays in a tree by the names of its leaves: dictionaries, as flax has
      them, and lists; one array where the model is one. `problems.with_initial_params` begins with
      them.

    Raises:
      ValueError: if the folder holds no run, no such lane or save, or a file was changed.
    """
    checks.choice('name', name, _STATE_FIELDS)
    path = paths.as_path(folder)
    if path.suffix == '.npz' and path.is_file():
        leaves = _of_file(path)
    else:
        leaves = checkpoints.arrays(_save_of(_lane_of(path, lane), at_round))
    prefix = _STATE_FIELDS[name]
    own = {
        key.removeprefix(prefix): a
        for key, a in leaves.items()
        if _lies_in(prefix, key)
    }
    if not own and not any(key.startswith('.algorithm.') for key in leaves):
        own = {key: array for key, array in leaves.items() if name == 'server'}
    if not own:
        requirement = 'be a model of the run; its state has no such field'
        raise errors.invalid('name', requirement, name)
    if name == 'client_mean':
        own = {key: _mean(array) for key, array in own.items()}
    return _nested(own)


def _lies_in(prefix: str, key: str) -> bool:
    """Whether a leaf is that field of a state, or part of it."""
    return key == prefix or key.startswith((f'{prefix}.', f'{prefix}['))


def _of_file(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz, by names that begin with a dot."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {f'.{name}': stored[name] for name in stored}
    except (OSError, ValueError) as error:
        said = f'{path}: {error}'
        raise errors.invalid(
            'folder', 'be a folder of a run or a readable npz', said
        ) from None


def _lane_of(folder: Path, wanted: str | Mapping[str, Any] | None) -> LaneRecord:
    """The one main lane that is meant."""
    lanes = [lane for lane in folders.lanes(folder) if lane.labels['stage'] == 'main']
    if isinstance(wanted, str):
        checks.choice('lane', wanted, [lane.name for lane in lanes])
        return next(lane for lane in lanes if lane.name == wanted)
    labels = dict(wanted or {})
    known = {label for lane in lanes for label in lane.labels}
    for label in labels:
        checks.choice('lane', label, known)
    found = [
        lane
        for lane in lanes
        if all(lane.labels.get(k) == value for k, value in labels.items())
    ]
    if len(found) != 1:
        shown = '; '.join(lane.text() for lane in (found or lanes)[:3])
        requirement = (
            f'name one lane of {folder}, such as {shown}'
            if lanes
            else 'be in the folder'
        )
        raise errors.invalid('lane', requirement, f'{labels}, which {len(found)} have')
    return found[0]


def _save_of(lane: LaneRecord, at_round: int | None) -> Path:
    """The file of a lane's state."""
    if not lane.states:
        raise errors.invalid('lane', 'have a saved state', lane.text())
    if at_round is None:
        return lane.states[max(lane.states)]
    if at_round not in lane.states:
        rounds = ', '.join(map(str, lane.states))
        raise errors.invalid('at_round', f'be a round with a save: {rounds}', at_round)
    return lane.states[at_round]


def _mean(array: np.ndarray) -> np.ndarray:
    """The mean over clients, in double precision and back."""
    mean: np.ndarray = np.mean(array.astype(np.float64), axis=0)
    return mean.astype(array.dtype)


def _nested(leaves: Mapping[str, np.ndarray]) -> Params:
    """A tree of leaves whose names are paths, ``['Dense_0']['kernel']`` or ``.Dense_0.kernel``."""
    if set(leaves) == {''}:
        return leaves['']
    found: dict[Any, Any] = {}
    for path, array in leaves.items():
        tokens = [key or index or field for key, index, field in _TOKEN.findall(path)]
        keys = [int(token) if token.isdecimal() else token for token in tokens]
        inner = found
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = array
    return _with_lists(found)


def _with_lists(nested: Any) -> Any:
    """The same with lists for what has numbers as names."""
    if not isinstance(nested, dict):
        return nested
    parts = {key: _with_lists(part) for key, part in nested.items()}
    if all(isinstance(key, int) for key in parts):
        return [parts[index] for index in sorted(parts)]
    return parts
