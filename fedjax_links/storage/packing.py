"""Arrays as the content of an npz file, which holds no pickle and proves itself.

The comment at the end of the file, which whoever unpacks it passes over, is the SHA-256 of all that
stands before it.
"""

import hashlib
import io
import math
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fedjax_links.core import errors

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


def is_proven(path: Path, digest: str | None = None) -> bool:
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
