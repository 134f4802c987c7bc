"""A run in a few small files, to be kept beside a page: metrics without states and links.

The folder of an archive holds ``config.json``, ``experiment.json``, ``environment.json``,
``clients.npz`` as they were and the metrics as ``metrics.npz``, an array by column. It is read by
`runs.read`, and so by reports, like that of a run; nothing goes on from it.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedjax_links.core import errors
from fedjax_links.storage import packing

METRICS = 'metrics.npz'

_AS_TEXT = 'json:'


def encode(columns: Mapping[str, np.ndarray], metrics: Sequence[str] | None = None) -> bytes:
    """The file of metrics.

    Args:
      columns: of a run.
      metrics: names of metrics, such as ``'eval_accuracy'``, to keep of every model; all columns by
        default. Labels, rounds and whether a lane is finite are always kept.

    Returns:
      The content of an npz; numbers in the smallest type that holds all of a column exactly.

    Raises:
      ValueError: for a metric that no model has.
    """
    known = list(dict.fromkeys(name.split('/', 1)[1] for name in columns if '/' in name))
    for metric in metrics or ():
        if metric not in known:
            raise errors.unknown_name('metrics', metric, known)
    kept = {
        name: column
        for name, column in columns.items()
        if '/' not in name or metrics is None or name.split('/', 1)[1] in metrics
    }
    return packing.npz(dict(_stored(name, column) for name, column in kept.items()))


def read(path: Path) -> dict[str, np.ndarray]:
    """The columns of a file of metrics.

    Args:
      path: of the file.

    Returns:
      The columns as they were: numbers as float64, int64 or bool.

    Raises:
      ValueError: if it cannot be read.
    """
    try:
        with errors.on_disk(path), np.load(path, allow_pickle=False) as stored:
            return dict(_column(name, stored[name]) for name in stored.files)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        requirement = f'hold a readable {METRICS}'
        raise errors.invalid('folder', requirement, f'{path.parent}: {error}') from None


def _stored(name: str, column: np.ndarray) -> tuple[str, NDArray[np.generic]]:
    if column.dtype == object:
        return _AS_TEXT + name, np.array([json.dumps(value) for value in column.tolist()])
    if column.dtype.kind == 'f':
        single = column.astype(np.float32)
        exact = np.array_equal(single.astype(np.float64), column, equal_nan=True)
        return name, single if exact else column
    if column.dtype.kind == 'i' and column.size and column.min() >= 0:
        return name, column.astype(np.min_scalar_type(int(column.max())))
    return name, column


def _column(name: str, stored: np.ndarray) -> tuple[str, np.ndarray]:
    if name.startswith(_AS_TEXT):
        column = np.empty(len(stored), object)
        column[:] = [json.loads(text) for text in stored.tolist()]
        return name.removeprefix(_AS_TEXT), column
    wide = {'f': np.float64, 'i': np.int64, 'u': np.int64}.get(stored.dtype.kind)
    return name, stored if wide is None else stored.astype(wide)
