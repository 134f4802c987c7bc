"""Reads models of a run's lanes from their saves; imports no code from the run's folder.

A lane is one algorithm, pattern, grid point and seed.
"""

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links.base import Params, PyTree
from fedjax_links.core import checks, errors, paths
from fedjax_links.core.records import LaneLabels
from fedjax_links.runs import folder as folders
from fedjax_links.runs.folder import LaneRecord
from fedjax_links.storage import checkpoints

_STATE_FIELDS = {'server': '.algorithm.server', 'client_mean': '.algorithm.clients'}
# A step of a leaf's path: a key of a dictionary, ``['kernel']``, an index, ``[0]``, or a name
# after a dot, ``.kernel``.
_STEP = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.?([^.\[]+)")


def model(
    folder: str | Path,
    lane: str | LaneLabels | None = None,
    *,
    name: str = 'server',
    at_round: int | None = None,
) -> Params:
    """Reads a model that a run has saved.

    Args:
      folder: of the run, finished or not. Or an npz file: a state that ``export`` wrote, or arrays
        by dotted name, ``Dense_0.kernel``.
      lane: labels that only one lane has, ``{'algorithm': 'fedavg', 'seed': 0}``, or the lane's
        name, with which its files begin. May be None if the run has only one lane; None for an npz.
      name: ``'server'``, or ``'client_mean'`` where clients keep models: the mean over all clients.
      at_round: rounds completed at the save; the last save by default. A run keeps the last two
        saves. None for an npz.

    Returns:
      The parameters: NumPy arrays in nested dictionaries, as in flax, and lists; or a single array
      if that is the model. A list that has an entry without arrays, such as an empty layer, becomes
      a dictionary by index. `problems.with_initial_params` takes all these forms.

    Raises:
      ValueError: if the folder holds no run, no such lane or save, or a file was changed.
    """
    checks.choice('name', name, _STATE_FIELDS)
    path = paths.as_path(folder)
    if path.suffix == '.npz' and not path.is_dir():
        for argument, value in (('lane', lane), ('at_round', at_round)):
            if value is not None:
                requirement = 'be left out for an npz, which holds one model'
                raise errors.invalid(argument, requirement, errors.text_of(value))
        leaves = _read_npz(path)
    else:
        record = _find_lane(path, lane)
        leaves = checkpoints.arrays(_save_of(record, at_round))
    if not leaves:
        raise errors.invalid('folder', 'hold arrays', f'{path}, which has none')
    prefix = _STATE_FIELDS[name]
    arrays = {
        key.removeprefix(prefix): array
        for key, array in leaves.items()
        if _lies_in(prefix, key)
    }
    is_state = any(key.startswith('.algorithm.') for key in leaves)
    if name == 'server' and not is_state:
        # An npz that holds a model alone.
        arrays = dict(leaves)
    if not arrays:
        requirement = 'be a model of the run; its state has no such field'
        raise errors.invalid('name', requirement, name)
    if name == 'client_mean':
        arrays = {key: _mean(array) for key, array in arrays.items()}
    return _nested(arrays)


def _lies_in(prefix: str, key: str) -> bool:
    """Returns whether a leaf is the field ``prefix`` of a state, or a part of this field."""
    return key == prefix or key.startswith((f'{prefix}.', f'{prefix}['))


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    """Reads the arrays of an npz by name, with a dot in front unless the name is empty."""
    requirement = 'be a folder of a run or a readable npz'
    if path.is_file() and not zipfile.is_zipfile(path):
        # NumPy would take the file for a pickle, and propose to load the pickle.
        raise errors.invalid('folder', requirement, f'{path}, which is no npz')
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {f'.{name}' if name else '': stored[name] for name in stored}
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or errors.describe(error)
        raise errors.invalid('folder', requirement, f'{path}: {reason}') from None


def _find_lane(folder: Path, lane: str | LaneLabels | None) -> LaneRecord:
    """Finds the main lane that has a name, or that alone has some labels."""
    records = _main_lanes(folder)
    if isinstance(lane, str):
        by_name = {record.name: record for record in records}
        return checks.entry('lane', lane, by_name)
    if lane is not None and not isinstance(lane, Mapping):
        requirement = 'be a name, or labels by name'
        raise errors.invalid('lane', requirement, errors.text_of(lane))
    labels = dict(lane or {})
    _check_labels(labels, records)
    matching = [record for record in records if _has_labels(record, labels)]
    if len(matching) != 1:
        value = f'{labels}, which {len(matching)} have'
        examples = matching or records
        raise errors.invalid('lane', _requirement_of_lane(folder, examples), value)
    return matching[0]


def _requirement_of_lane(folder: Path, examples: Sequence[LaneRecord]) -> str:
    """Says which lanes can be named."""
    shown = '; '.join(record.text() for record in examples[:3])
    return f'name one lane of {folder}, such as {shown}'


def _main_lanes(folder: Path) -> list[LaneRecord]:
    """Returns the lanes of a folder without those of tuning, at least one."""
    records = [
        record for record in folders.lanes(folder) if record.labels['stage'] == 'main'
    ]
    if not records:
        raise errors.invalid('folder', 'hold lanes with their states', folder)
    return records


def _check_labels(labels: LaneLabels, records: Sequence[LaneRecord]) -> None:
    """Refuses a label that no lane has."""
    known: set[str] = set()
    for record in records:
        known |= record.labels.keys()
    for label in labels:
        checks.choice('lane', label, known)


def _has_labels(record: LaneRecord, labels: LaneLabels) -> bool:
    plain = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in labels.items()
    }
    return all(record.labels.get(name) == value for name, value in plain.items())


def _save_of(lane: LaneRecord, at_round: int | None) -> Path:
    """Returns the file of a lane's state."""
    if not lane.states:
        raise errors.invalid('lane', 'have a saved state', lane.text())
    if at_round is None:
        return lane.states[max(lane.states)]
    # `in` a dictionary would raise a TypeError for a value without a hash.
    rounds = list(lane.states)
    if np.ndim(at_round) or at_round not in rounds:
        requirement = f'be a round with a save: {", ".join(map(str, rounds))}'
        raise errors.invalid('at_round', requirement, errors.text_of(at_round))
    return lane.states[at_round]


def _mean(array: np.ndarray) -> np.ndarray:
    """Averages over clients, in double precision and back."""
    mean: np.ndarray = np.mean(array.astype(np.float64), axis=0)
    return mean.astype(array.dtype)


def _nested(leaves: Mapping[str, np.ndarray]) -> Params:
    """Nests leaves whose names are paths, ``['Dense_0']['kernel']`` or ``.Dense_0.kernel``."""
    if set(leaves) == {''}:
        return leaves['']
    nested: dict[Any, Any] = {}
    for path, array in leaves.items():
        keys = [_key_of(step) for step in _STEP.finditer(path)]
        if not keys:
            raise _part_of_another(path)
        inner = nested
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise _part_of_another(path)
        if keys[-1] in inner:
            raise _part_of_another(path)
        inner[keys[-1]] = array
    return _with_lists(nested)


def _key_of(step: re.Match[str]) -> str | int:
    """Returns the key of a step: an int for an index, else a str.

    Digits in quotes are the name of an entry of a dictionary. Digits after a dot are an index, as
    `tree.by_name` writes it.
    """
    quoted, index, name = step.groups()
    if quoted is not None:
        return str(quoted)
    text = name if index is None else index
    return int(text) if text.isdecimal() else str(text)


def _part_of_another(path: str) -> errors.InvalidError:
    """Builds the error for names such as ``a`` and ``a.b``, where ``a`` cannot also be an array."""
    requirement = 'hold arrays of which none is a part of another by its name'
    return errors.invalid('folder', requirement, path.removeprefix('.'))


def _with_lists(nested: PyTree) -> PyTree:
    """Replaces each dictionary whose keys are 0, 1, ... by a list."""
    if not isinstance(nested, dict):
        return nested
    parts = {key: _with_lists(part) for key, part in nested.items()}
    if parts.keys() == set(range(len(parts))):
        return [parts[index] for index in range(len(parts))]
    return parts
