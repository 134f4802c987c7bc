"""Arrays as the content of an npz file, which holds no pickle and proves itself.

The comment at the end of the file, which whoever unpacks it passes over, is the SHA-256 of all that
stands before it.

So are kept the metrics of an archive: a run in a few small files, to stand beside a page, without
states and links. Its folder holds ``config.json``, ``experiment.json``, ``environment.json``,
``clients.npz`` as they were and the metrics as ``metrics.npz``, an array by column. It is read by
`runs.read`, and so by reports, like that of a run; nothing goes on from it.
"""

import hashlib
import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedjax_links.core import errors

METRICS = 'metrics.npz'
_AS_TEXT = 'json:'
_SIZE = 64  # of the comment, in bytes
_AT_ONCE = 2**20


def npz(arrays: Mapping[str, np.ndarray], *, compress: bool = True) -> bytes:
    """The content of a file that `numpy.load` reads.

    Args:
      arrays: by name; of any dtype but objects.
      compress: whether to compress.

    Returns:
      The bytes.

    Raises:
      ValueError: for an array of objects, which only a pickle can hold.
    """
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise errors.invalid(name, 'hold plain values', 'an array of objects')
    buffer = io.BytesIO()
    save: Callable[..., None] = np.savez_compressed if compress else np.savez
    save(buffer, **arrays)  # NumPy before 2.1 has no `allow_pickle` here
    buffer.seek(-2, os.SEEK_END)  # the size of the comment, 0 so far, ends the file
    buffer.write(struct.pack('<H', _SIZE))
    buffer.write(hashlib.sha256(buffer.getbuffer()).hexdigest().encode())
    return buffer.getvalue()


def digest_of(content: bytes) -> str:
    """The digest in what `npz` made."""
    return content[-_SIZE:].decode()


def rows(path: Path, name: str, first: int, stop: int) -> np.ndarray:
    """Rows of an array in a file that was not compressed; no others are kept in memory.

    Args:
      path: of the file.
      name: of the array.
      first: the first row.
      stop: the one behind the last.
    """
    with zipfile.ZipFile(path) as archive, archive.open(f'{name}.npy') as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        size = dtype.itemsize * math.prod(shape[1:])
        file.seek(first * size, os.SEEK_CUR)
        content = file.read((stop - first) * size)
    return np.frombuffer(content, dtype).reshape(stop - first, *shape[1:])


def is_verified(path: Path, digest: str | None = None) -> bool:
    """Whether a file is, bit for bit, what `npz` made.

    Args:
      path: of the file, of any size.
      digest: of the one that it must be; any by default.

    Raises:
      OSError: if it cannot be read.
    """
    found = hashlib.sha256()
    with path.open('rb') as file:
        left = file.seek(0, os.SEEK_END) - _SIZE
        file.seek(0)
        while left > 0 and (part := file.read(min(left, _AT_ONCE))):
            found.update(part)
            left -= len(part)
        wanted = found.hexdigest() if digest is None else digest
        return found.hexdigest() == wanted and wanted.encode() == file.read()


# Of an archive.


def pack_metrics(
    columns: Mapping[str, np.ndarray], metrics: Sequence[str] | None = None
) -> bytes:
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
    known = list(
        dict.fromkeys(name.split('/', 1)[1] for name in columns if '/' in name)
    )
    for metric in metrics or ():
        if metric not in known:
            raise errors.unknown_name('metrics', metric, known)
    kept = {
        name: column
        for name, column in columns.items()
        if '/' not in name or metrics is None or name.split('/', 1)[1] in metrics
    }
    return npz(dict(_stored(name, column) for name, column in kept.items()))


def read_metrics(path: Path) -> dict[str, np.ndarray]:
    """The columns of a file of metrics.

    Args:
      path: of the file.

    Returns:
      The columns as they were: numbers as float64, int64 or bool.

    Raises:
      ValueError: if it cannot be read.
    """

    def failed(said: str) -> errors.InvalidError:
        return errors.invalid(
            'folder', f'hold a readable {METRICS}', f'{path.parent}: {said}'
        )

    with (
        errors.decoding(failed),
        errors.on_disk(path),
        np.load(path, allow_pickle=False) as stored,
    ):
        return dict(_column(name, stored[name]) for name in stored.files)


def _stored(name: str, column: np.ndarray) -> tuple[str, NDArray[np.generic]]:
    if column.dtype == object:
        return _AS_TEXT + name, np.array(
            [json.dumps(value) for value in column.tolist()]
        )
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
