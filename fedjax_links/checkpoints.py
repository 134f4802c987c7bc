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

from fedjax_links import errors
from fedjax_links.base import PyTree

_ABOUT = 'about'


def save(path: Path, tree: PyTree) -> str:
    """Writes a tree.

    Args:
      path: of the file; its folder exists.
      tree: arrays of any dtype, typed keys among them.

    Returns:
      The SHA-256 of the file's content.
    """
    about, leaves = [], {}
    for place, (key_path, leaf) in enumerate(jax.tree_util.tree_leaves_with_path(tree)):
        array, kind = _as_plain(leaf)
        about.append({'path': jax.tree_util.keystr(key_path), 'kind': kind})
        leaves[f'{place:05d}'] = array
    buffer = io.BytesIO()
    described = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(buffer, allow_pickle=False, **{_ABOUT: described}, **leaves)
    content = buffer.getvalue()
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def load(path: Path, like: PyTree, digest: str) -> PyTree:
    """Reads what `save` wrote.

    Args:
      path: of the file.
      like: a tree of arrays or their shapes; what is read must have its structure, shapes, dtypes.
      digest: what `save` returned.

    Returns:
      The tree.

    Raises:
      ValueError: if the file is missing, was changed, or holds another kind of tree.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise errors.invalid('checkpoint', 'be readable', f'{path}: {error.strerror}') from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise errors.invalid('checkpoint', 'be as it was written', f'{path}, which has changed')
    wanted, structure = jax.tree_util.tree_flatten_with_path(like)
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        about = json.loads(bytes(stored[_ABOUT]))
        found = [jax.tree_util.keystr(key_path) for key_path, _ in wanted]
        if [leaf['path'] for leaf in about] != found:
            differ = sorted({leaf['path'] for leaf in about} ^ set(found))
            raise errors.invalid('checkpoint', "have the state's leaves", f'{path}, not {differ}')
        leaves = [
            _as_leaf(stored[f'{place:05d}'], leaf['kind']) for place, leaf in enumerate(about)
        ]
    for (key_path, expected), leaf in zip(wanted, leaves, strict=True):
        if (expected.shape, expected.dtype) != (leaf.shape, leaf.dtype):
            name = jax.tree_util.keystr(key_path)
            requirement = f'hold {expected.dtype}{list(expected.shape)} at {name}'
            raise errors.invalid('checkpoint', requirement, f'{leaf.dtype}{list(leaf.shape)}')
    return jax.tree.unflatten(structure, leaves)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that any reader, also after a crash, sees all of it or what was there."""
    partial = path.with_name(f'{path.name}.partial')
    with partial.open('wb') as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


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
