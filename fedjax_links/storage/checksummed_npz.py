"""Writes arrays to npz files with a checksum and without pickles.

The file ends with a zip comment, which readers skip: the SHA-256 of all bytes before the comment.

An archive is a run in a few small files without states and links, to publish with a page. The
archive's folder holds ``config.json``, ``experiment.json``, ``environment.json``, ``identity.json``
and ``clients.npz`` of the run. ``metrics.npz`` has the metrics, an array for each column.
`runs.read` and reports read an archive like a run, but no run can resume from an archive.
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
_COMMENT_BYTES = 64
_CHUNK_BYTES = 2**20


def npz(arrays: Mapping[str, np.ndarray], *, compress: bool = True) -> bytes:
    """Returns the content of a file that `numpy.load` reads.

    Args:
      arrays: by name, of any dtype except objects.
      compress: whether to compress the arrays.

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
    save(buffer, **arrays)  # NumPy before 2.1 has no `allow_pickle` here.
    # The last two bytes are the length of the zip comment. The comment is empty so far.
    buffer.seek(-2, os.SEEK_END)
    buffer.write(struct.pack('<H', _COMMENT_BYTES))
    buffer.write(hashlib.sha256(buffer.getbuffer()).hexdigest().encode())
    return buffer.getvalue()


def digest_of(content: bytes) -> str:
    """Returns the digest in the content that `npz` made."""
    return content[-_COMMENT_BYTES:].decode()


def rows(path: Path, name: str, first: int, stop: int) -> np.ndarray:
    """Reads some rows of an array, without loading the whole array.

    Args:
      path: of the file.
      name: of the array.
      first: the first row.
      stop: one past the last row.

    Raises:
      ValueError: for an array in Fortran's order, whose rows are not contiguous.
    """
    with zipfile.ZipFile(path) as archive, archive.open(f'{name}.npy') as file:
        np.lib.format.read_magic(file)
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        if is_fortran:
            raise errors.invalid(name, "be in C's order", "Fortran's")
        size = dtype.itemsize * math.prod(shape[1:])
        file.seek(first * size, os.SEEK_CUR)
        content = file.read((stop - first) * size)
    return np.frombuffer(content, dtype).reshape(stop - first, *shape[1:])


def is_verified(path: Path, digest: str | None = None) -> bool:
    """Returns whether a file has, bit for bit, content that `npz` made.

    Args:
      path: of the file; it is read in chunks.
      digest: the digest that the file must have; any digest by default.

    Raises:
      OSError: if the file cannot be read.
    """
    sha256 = hashlib.sha256()
    with path.open('rb') as file:
        num_bytes = file.seek(0, os.SEEK_END) - _COMMENT_BYTES
        file.seek(0)
        while num_bytes > 0:
            chunk = file.read(min(num_bytes, _CHUNK_BYTES))
            if not chunk:
                break
            sha256.update(chunk)
            num_bytes -= len(chunk)
        comment = file.read()
    actual = sha256.hexdigest()
    return actual.encode() == comment and digest in (None, actual)


# The metrics of an archive.


def pack_metrics(
    columns: Mapping[str, np.ndarray], metrics: Sequence[str] | None = None
) -> bytes:
    """Returns the content of a file of metrics.

    Args:
      columns: of a run.
      metrics: names of the metrics to keep for each model, such as ``'eval_accuracy'``; all by
        default. Labels, and other columns without a slash, are always kept.

    Returns:
      The content of an npz. A column of floats is stored as float32 if that is exact. A column of
      integers has the smallest unsigned type that holds it, unless some integers are negative.

    Raises:
      ValueError: for a metric that no model has.
    """
    metric_of_column = {name: name.partition('/')[2] for name in columns}
    known = dict.fromkeys(filter(None, metric_of_column.values()))
    for metric in metrics or ():
        if metric not in known:
            raise errors.unknown_name('metrics', metric, known)
    arrays: dict[str, np.ndarray] = {}
    for name, column in columns.items():
        is_metric = '/' in name
        if not is_metric or metrics is None or metric_of_column[name] in metrics:
            stored_name, array = _stored(name, column)
            arrays[stored_name] = array
    return npz(arrays)


def read_metrics(path: Path) -> dict[str, np.ndarray]:
    """Reads the columns of a file of metrics.

    Args:
      path: of the file.

    Returns:
      The columns of the run, numbers as float64, int64 or bool.

    Raises:
      ValueError: if the file cannot be read.
    """

    def failed(reason: str) -> errors.InvalidError:
        value = f'{path.parent}: {reason}'
        return errors.invalid('folder', f'hold a readable {METRICS}', value)

    with (
        errors.decoding(failed),
        errors.on_disk(path),
        np.load(path, allow_pickle=False) as stored,
    ):
        return dict(_column(name, stored[name]) for name in stored.files)


def _stored(name: str, column: np.ndarray) -> tuple[str, NDArray[np.generic]]:
    """Returns the name and the array with which a file stores a column."""
    if column.dtype == object:
        texts = [json.dumps(value) for value in column.tolist()]
        return _AS_TEXT + name, np.array(texts)
    if column.dtype.kind == 'f':
        # A value that overflows is not exact, so it needs no warning.
        with np.errstate(over='ignore'):
            single = column.astype(np.float32)
        is_exact = np.array_equal(single.astype(np.float64), column, equal_nan=True)
        return name, single if is_exact else column
    if column.dtype.kind == 'i' and column.size and column.min() >= 0:
        return name, column.astype(np.min_scalar_type(int(column.max())))
    return name, column


def _column(name: str, stored: np.ndarray) -> tuple[str, np.ndarray]:
    """Returns the name and the values of a column, the inverse of `_stored`."""
    if name.startswith(_AS_TEXT):
        column = np.empty(len(stored), object)
        column[:] = [json.loads(text) for text in stored.tolist()]
        return name.removeprefix(_AS_TEXT), column
    wide = {'f': np.float64, 'i': np.int64, 'u': np.int64}.get(stored.dtype.kind)
    return name, stored if wide is None else stored.astype(wide)
