"""Reads the final metrics of clients that a run folder has, and labels them.

Owners of evaluation data are the clients that train, and after them any owners that do not.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fedjax_links.core import errors
from fedjax_links.core.records import RunFacts
from fedjax_links.results.dataset import LabelledResults

CLIENTS = 'clients.npz'
"""The file in the folder of a run."""
SEED = 'seed'
CLIENT = 'client'
PARTICIPATIONS = 'participations'
ClientArrays: TypeAlias = Mapping[str, np.ndarray]
"""By metric, float[S, M] for S seeds and M owners of evaluation data; `SEED` [S], `CLIENT` [M]."""

_DIMS = ('algorithm', 'pattern', SEED, CLIENT)


def to_dataset(
    measured: Mapping[str, Mapping[str, ClientArrays]], facts: RunFacts
) -> LabelledResults:
    """Returns metrics of clients as an ``xarray.Dataset``.

    Args:
      measured: the arrays by pattern and algorithm.
      facts: the facts of the run. Patterns, algorithms and seeds that they do not name are left
        out.

    Raises:
      ValueError: if nothing is left.
    """
    import xarray

    parts = []
    for pattern in facts['patterns']:
        by_algorithm = measured.get(pattern, {})
        for algorithm in facts['algorithms']:
            if algorithm in by_algorithm:
                parts.append(_part(pattern, algorithm, by_algorithm[algorithm]))
    if not parts:
        valid = [
            f'{label} on {pattern}'
            for pattern in measured
            for label in measured[pattern]
        ]
        requirement = f'hold lanes whose clients were measured ({", ".join(valid)})'
        labels = [*facts['algorithms'], *facts['patterns']]
        raise errors.invalid('run', requirement, f'one of {", ".join(labels)}')
    merged = xarray.merge(parts, join='outer', compat='no_conflicts')
    # Merging sorts labels that differ.
    return merged.sel(
        algorithm=[name for name in facts['algorithms'] if name in merged.algorithm],
        pattern=[name for name in facts['patterns'] if name in merged.pattern],
        seed=np.isin(merged[SEED], facts['seeds']),
    )


def _part(pattern: str, algorithm: str, measured: ClientArrays) -> LabelledResults:
    """Returns the metrics of clients of one algorithm under one pattern."""
    import xarray

    arrays = dict(measured)
    coords: dict[str, Any] = {'algorithm': [algorithm], 'pattern': [pattern]}
    coords[SEED] = arrays.pop(SEED)
    if CLIENT in arrays:  # Older versions did not record names.
        coords[CLIENT] = arrays.pop(CLIENT)
    # One algorithm and one pattern: [1, 1, seeds, clients].
    data = {name: (_DIMS, values[None, None]) for name, values in arrays.items()}
    return xarray.Dataset(data, coords)


def decoding(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Turns what reading a damaged file raises into a mistake of the user."""

    def unreadable(reason: str) -> errors.InvalidError:
        requirement = f'hold a readable {CLIENTS}'
        return errors.invalid('folder', requirement, f'{folder}: {reason}')

    return errors.decoding(unreadable)


def read(folder: Path, num_rounds: int | None = None) -> dict[str, dict[str, Any]]:
    """Reads what was recorded of clients; empty if nothing was.

    Args:
      folder: the folder of a run.
      num_rounds: the run's number of rounds. Records from before the run was extended are left out.
        By default all records are read.

    Returns:
      By pattern, the fields of `report.client_stats.Clients`: arrays and numbers, some by label.
    """
    stored: dict[str, dict[str, Any]] = {}
    file = folder / CLIENTS
    if not file.exists():
        return stored
    with (
        decoding(folder),
        errors.on_disk(file),
        np.load(file, allow_pickle=False) as arrays,
    ):
        for name, array in arrays.items():
            field, pattern, *labels = str(name).split('/')
            keys = [pattern, field, *labels]
            branch: dict[str, Any] = stored
            for key in keys[:-1]:
                branch = branch.setdefault(key, {})
            branch[keys[-1]] = array if array.ndim else array.item()
        for fields in stored.values():
            for measured in fields.get('measured', {}).values():
                _check_shapes(measured)
        return {
            pattern: fields
            for pattern, fields in stored.items()
            # Older versions did not record the number of rounds.
            if num_rounds is None or fields.get('num_rounds', num_rounds) == num_rounds
        }


def _check_shapes(arrays: ClientArrays) -> None:
    """Raises unless all metrics are [S, M], for the S seeds and M owners that are named."""
    num_seeds, num_owners = arrays[PARTICIPATIONS].shape
    expected = {SEED: (num_seeds,), CLIENT: (num_owners,)}
    for name, values in arrays.items():
        if values.shape != expected.get(name, (num_seeds, num_owners)):
            raise ValueError(f'{name} of shape {list(values.shape)}')
