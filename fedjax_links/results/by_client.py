"""What every client had at the end of a run, in one labelled form."""

from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links.core import errors

FILE = 'clients.npz'
SEEDS = 'seed'
DIMS = ('algorithm', 'pattern', SEEDS, 'client')
_KIND = 'measured'


def read_kept(folder: Path) -> dict[str, dict[str, Any]]:
    """All that was kept of clients, by pattern and kind; empty where nothing was.

    Args:
      folder: of a run.
    """
    found: dict[str, dict[str, Any]] = {}
    if (folder / FILE).exists():
        with errors.on_disk(folder / FILE), np.load(folder / FILE, allow_pickle=False) as stored:
            for name, array in stored.items():
                kind, pattern, *labels = str(name).split('/')
                path = [pattern, kind, *labels]
                at: dict[str, Any] = found
                for part in path[:-1]:
                    at = at.setdefault(part, {})
                at[path[-1]] = array if array.ndim else array.item()
    return found


def read(folder: Path | None) -> Any:
    """Metrics of clients on their own evaluation data, as an ``xarray.Dataset``.

    Args:
      folder: of a run.

    Returns:
      A variable by metric with the axes ``algorithm``, ``pattern``, ``seed`` and ``client``.

    Raises:
      ValueError: if nothing of this kind was kept.
    """
    import xarray

    parts = []
    for pattern, kept in ({} if folder is None else read_kept(folder)).items():
        for algorithm, own in kept.get(_KIND, {}).items():
            coords = {'algorithm': [algorithm], 'pattern': [pattern], SEEDS: own.pop(SEEDS)}
            data = {name: (DIMS, values[None, None]) for name, values in own.items()}
            parts.append(xarray.Dataset(data, coords))
    if not parts:
        requirement = 'hold metrics of clients, whose evaluation data have owners'
        raise errors.invalid('folder', requirement, folder)
    return xarray.merge(parts, join='outer', compat='no_conflicts')
