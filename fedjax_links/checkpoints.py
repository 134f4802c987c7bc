"""A pytree of arrays as one file: written whole or not at all, read only if nothing in it changed.

The file is NumPy's npz with one entry per leaf and a description of the tree; the caller keeps the
digest that `save` returns and hands it to `load`. Nothing is unpickled.
"""

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import errors, packing
from fedjax_links.base import PyTree

_ABOUT = 'about'


class DamagedError(ValueError):
    """A checkpoint that is missing or was changed.

    Attributes:
      path: of the file.
    """

    def __init__(self, path: Path, reason: str) -> None:
        """Says which, and why."""
        super().__init__(f'`checkpoint` must be as it was written, got {path}: {reason}.')
        self.path = path


def save(path: Path, tree: PyTree) -> str:
    """Writes a tree.

    Args:
      path: of the file; its folder exists.
      tree: arrays of any dtype, typed keys among them.

    Returns:
      The SHA-256 of the file's content.
    """
    content = packed(tree)
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def packed(tree: PyTree) -> bytes:
    """What a file of a tree holds."""
    about, leaves = [], {}
    for place, (key_path, leaf) in enumerate(jax.tree_util.tree_leaves_with_path(tree)):
        array, kind = _as_plain(leaf)
        about.append({'path': jax.tree_util.keystr(key_path), 'kind': kind})
        leaves[f'{place:05d}'] = array
    described = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return packing.npz({_ABOUT: described, **leaves}, compress=False)


def unpacked(content: bytes) -> dict[str, Any]:
    """The leaves of what `packed` made, as `read` returns them."""
    return {name: _as_leaf(array, kind) for name, array, kind in _entries(content)}


def load(path: Path, like: PyTree, digest: str | None) -> PyTree:
    """Reads what `save` wrote.

    Args:
      path: of the file.
      like: a tree of arrays or their shapes; what is read must have its structure, shapes, dtypes.
      digest: what `save` returned.

    Returns:
      The tree.

    Raises:
      DamagedError: if the file is missing or was changed.
      ValueError: if it holds another kind of tree.
    """
    found, wanted = read(path, digest), leaves_of(like)
    if list(found) != list(wanted):
        differ = sorted(found.keys() ^ wanted.keys())
        raise errors.invalid('checkpoint', "have the state's leaves", f'{path}, not {differ}')
    for name, expected in wanted.items():
        leaf = found[name]
        if (expected.shape, expected.dtype) != (leaf.shape, leaf.dtype):
            requirement = f'hold {expected.dtype}{list(expected.shape)} at {name}'
            raise errors.invalid('checkpoint', requirement, f'{leaf.dtype}{list(leaf.shape)}')
    return jax.tree.unflatten(jax.tree.structure(like), list(found.values()))


def read(path: Path, digest: str | None) -> dict[str, Any]:
    """The leaves of what `save` wrote, whatever tree it was.

    Args:
      path: of the file.
      digest: what `save` returned.

    Returns:
      The leaves by their place in the tree, as `leaves_of` names them, in order.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    return {name: _as_leaf(array, kind) for name, array, kind in _stored(path, digest)}


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


def arrays(path: Path, digest: str | None) -> dict[str, np.ndarray]:
    """Reads what `save` wrote as it is stored, whatever tree it was and whatever the precision.

    Args:
      path: of the file.
      digest: what `save` returned.

    Returns:
      The leaves by path, as `jax.tree_util.keystr` writes it; of typed keys their data, uint32.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    return {
        name: array.view(jnp.dtype(kind)) if kind and not kind.startswith('key:') else array
        for name, array, kind in _stored(path, digest)
    }


def _stored(path: Path, digest: str | None) -> list[tuple[str, np.ndarray, str]]:
    """Path, array and kind of every leaf of a file that is as it was written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedError(path, str(error.strerror)) from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise DamagedError(path, 'it has changed')
    return _entries(content)


def _entries(content: bytes) -> list[tuple[str, np.ndarray, str]]:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return [
            (leaf['path'], stored[f'{place:05d}'], leaf['kind'])
            for place, leaf in enumerate(json.loads(bytes(stored[_ABOUT])))
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
