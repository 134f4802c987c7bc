"""A save of a lane as one file: its state, what it is, and its lines of metrics so far.

The file is written whole or not at all, and read only if no bit of it has changed: it is an npz
that proves itself (`packing`), with one entry per leaf of the state. Nothing is unpickled.
"""

import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import PyTree
from fedjax_links.core import errors
from fedjax_links.storage import packing

_ABOUT, _LINES, _LEAVES = 'about', 'lines', 'leaves'


class DamagedError(errors.InvalidError):
    """A checkpoint that is missing or was changed.

    Attributes:
      file: its path.
    """

    def __init__(self, file: Path, reason: str) -> None:
        """Says which, and why."""
        super().__init__('checkpoint', 'be as it was written', f'{file}: {reason}')
        self.file = file


def pack(state: PyTree, about: Mapping[str, Any] | None = None, lines: Sequence[str] = ()) -> bytes:
    """What a file holds.

    Args:
      state: arrays of any dtype, typed keys among them; None for a lane that no one goes on from.
      about: what else the file says, plain values.
      lines: of metrics, each with its line break.
    """
    described, arrays = [], {}
    for place, (key_path, leaf) in enumerate(jax.tree_util.tree_leaves_with_path(state)):
        array, kind = _as_plain(leaf)
        described.append({'path': jax.tree_util.keystr(key_path), 'kind': kind})
        arrays[f'{place:05d}'] = array
    texts = {_ABOUT: json.dumps({**(about or {}), _LEAVES: described}), _LINES: ''.join(lines)}
    encoded = {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()}
    return packing.npz({**encoded, **arrays}, compress=False)


def unpack(content: bytes) -> list[Any]:
    """The leaves of a state that was packed."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return [_as_leaf(array, kind) for _, array, kind in _entries(stored)]


def read(path: Path) -> tuple[dict[str, Any], list[str]]:
    """What a file says besides the state.

    Args:
      path: of the file.

    Returns:
      What it is about, and the lines of metrics.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    with _opened(path) as stored:
        about = json.loads(bytes(stored[_ABOUT]))
        return about, bytes(stored[_LINES]).decode().splitlines(keepends=True)


def load(path: Path, like: PyTree) -> PyTree:
    """The state of a file.

    Args:
      path: of the file.
      like: a tree of arrays or their shapes; what is read must have its structure, shapes, dtypes.

    Returns:
      The tree.

    Raises:
      DamagedError: if the file is missing or was changed.
      ValueError: if it holds another kind of tree.
    """
    found, wanted = leaves(path), leaves_of(like)
    if list(found) != list(wanted):
        differ = sorted(found.keys() ^ wanted.keys())
        raise errors.invalid('checkpoint', "have the state's leaves", f'{path}, not {differ}')
    for name, expected in wanted.items():
        leaf = found[name]
        if (expected.shape, expected.dtype) != (leaf.shape, leaf.dtype):
            requirement = f'hold {expected.dtype}{list(expected.shape)} at {name}'
            raise errors.invalid('checkpoint', requirement, f'{leaf.dtype}{list(leaf.shape)}')
    return jax.tree.unflatten(jax.tree.structure(like), list(found.values()))


def leaves(path: Path) -> dict[str, Any]:
    """The leaves of a file's state, whatever tree it was.

    Args:
      path: of the file.

    Returns:
      The leaves by their place in the tree, as `leaves_of` names them, in order; none without a
      state.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    with _opened(path) as stored:
        return {name: _as_leaf(array, kind) for name, array, kind in _entries(stored)}


def arrays(path: Path) -> dict[str, np.ndarray]:
    """As `leaves`, as they are stored, whatever the precision here; of typed keys the data."""
    with _opened(path) as stored:
        return {
            name: array.view(jnp.dtype(kind)) if kind and not kind.startswith('key:') else array
            for name, array, kind in _entries(stored)
        }


def leaves_of(tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree by their place in it, such as ``.algorithm.params['w']``, in order."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(key_path): leaf for key_path, leaf in leaves}


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that any reader, also after a crash, sees all of it or what was there."""
    partial = path.with_name(f'{path.name}.partial')
    try:
        with partial.open('wb') as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name too
    finally:
        os.close(folder)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file's entries, after it was proven."""
    try:
        is_whole = packing.is_proven(path)
    except OSError as error:
        raise DamagedError(path, str(error.strerror)) from None
    if not is_whole:
        raise DamagedError(path, 'it has changed')
    with np.load(path, allow_pickle=False) as stored:
        yield stored


def _entries(stored: Any) -> list[tuple[str, np.ndarray, str]]:
    """Path, array and kind of every leaf."""
    return [
        (leaf['path'], stored[f'{place:05d}'], leaf['kind'])
        for place, leaf in enumerate(json.loads(bytes(stored[_ABOUT]))[_LEAVES])
    ]


def _as_plain(leaf: Any) -> tuple[np.ndarray, str]:
    """An array of a dtype that npz can hold, and what it stands for."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf)), f'key:{jax.random.key_impl(leaf)}'
    array = np.asarray(leaf)
    if array.dtype.kind in 'biuf':
        return array, ''
    return array.view(f'u{array.dtype.itemsize}'), array.dtype.name  # bfloat16 and its like


def _as_leaf(array: np.ndarray, kind: str) -> Any:
    if kind.startswith('key:'):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=kind.removeprefix('key:'))
    return jnp.asarray(array.view(jnp.dtype(kind)) if kind else array)
