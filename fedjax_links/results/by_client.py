"""What every client had at the end of a run, in one labelled form."""

from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links.core import errors

FILE = 'clients.npz'
SEEDS = 'seed'
DIMS = ('algorithm', 'pattern', SEEDS, 'client')
_KIND = 'measured'


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

    found: dict[tuple[str, str], dict[str, Any]] = {}
    if folder is not None and (folder / FILE).exists():
        with errors.on_disk(folder / FILE), np.load(folder / FILE, allow_pickle=False) as stored:
            for name, values in stored.items():
                kind, pattern, *rest = name.split('/')
                if kind == _KIND:
                    found.setdefault((rest[0], pattern), {})[rest[1]] = values
    if not found:
        requirement = 'hold metrics of clients, whose evaluation data have owners'
        raise errors.invalid('folder', requirement, folder)
    parts = []
    for (algorithm, pattern), own in found.items():
        coords = {'algorithm': [algorithm], 'pattern': [pattern], SEEDS: own.pop(SEEDS)}
        data = {name: (DIMS, values[None, None]) for name, values in own.items()}
        parts.append(xarray.Dataset(data, coords))
    return xarray.merge(parts, join='outer', compat='no_conflicts')
