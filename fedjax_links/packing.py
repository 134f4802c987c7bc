"""Arrays as the content of an npz file, which holds no pickle."""

import io
from collections.abc import Callable, Mapping

import numpy as np

from fedjax_links import errors


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
    return buffer.getvalue()
