"""Arrays as the content of an npz file, which holds no pickle and proves itself.

The comment at the end of the file, which whoever unpacks it passes over, is the SHA-256 of all that
stands before it.
"""

import hashlib
import io
import os
import struct
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


def is_proven(path: Path) -> bool:
    """Whether a file is, bit for bit, what `npz` made.

    Args:
      path: of the file, of any size.

    Raises:
      OSError: if it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open('rb') as file:
        left = file.seek(0, os.SEEK_END) - _SIZE
        file.seek(0)
        while left > 0 and (part := file.read(min(left, _AT_ONCE))):
            digest.update(part)
            left -= len(part)
        return digest.hexdigest().encode() == file.read()
