"""A save of a lane as one file: its state, what it is, and its lines of metrics so far.

The file is written whole or not at all, and read only if no bit of it has changed: it is an npz
that proves itself (`checksummed_npz`), with one entry per leaf of the state. Nothing is unpickled.

Of a state that several processes divide, each of them first writes its rows of client tables as a
part, ``<save>.part<k>.npz``, with entries of the same names. The file then names the digest of
every part and which rows are there, so a save without all of them is damaged.
"""

import contextlib
import dataclasses
import glob
import io
import itertools
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import PyTree
from fedjax_links.core import errors, meshes
from fedjax_links.storage import checksummed_npz

_ABOUT, _LINES, _LEAVES = 'about', 'lines', 'leaves'
PARTS, _DIGEST = 'parts', 'sha256'
_TEMPORARY = re.compile(r'\..+\.\d+-[0-9a-f]{8}\.partial')
_Take = Callable[[int], tuple[int, int]]


class DamagedError(errors.InvalidError):
    """A checkpoint that is missing or was changed."""


def pack(
    state: PyTree, about: Mapping[str, Any] | None = None, lines: Sequence[str] = ()
) -> bytes:
    """What a file holds.

    Args:
      state: arrays of any dtype, typed keys among them, and `meshes.LocalRows`, which stand in
        parts; None for a lane that nobody resumes.
      about: what else the file says, plain values.
      lines: of metrics, each with its line break.
    """
    described, arrays = [], {}
    for place, (key_path, leaf) in enumerate(
        jax.tree_util.tree_leaves_with_path(state)
    ):
        is_divided = isinstance(leaf, meshes.LocalRows)
        array, kind = _as_plain(leaf.rows if is_divided else leaf)
        described.append({'path': jax.tree_util.keystr(key_path), 'kind': kind})
        if not is_divided:
            arrays[f'{place:05d}'] = array
    texts = {
        _ABOUT: json.dumps({**(about or {}), _LEAVES: described}),
        _LINES: ''.join(lines),
    }
    encoded = {
        name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()
    }
    return checksummed_npz.npz({**encoded, **arrays}, compress=False)


def write_part(path: Path, place: int, state: PyTree) -> dict[str, Any]:
    """Writes those rows of a divided state that are here.

    Args:
      path: of the save, which is written when all parts are.
      place: the part's number.
      state: as in `pack`.

    Returns:
      What the save says of the part among its `PARTS`; nothing where no leaf is divided.
    """
    leaves = {f'{i:05d}': leaf for i, leaf in enumerate(jax.tree.leaves(state))}
    own = {
        name: leaf
        for name, leaf in leaves.items()
        if isinstance(leaf, meshes.LocalRows)
    }
    if not own:
        return {}
    arrays = {
        name: np.ascontiguousarray(_as_plain(leaf.rows)[0])
        for name, leaf in own.items()
    }
    bounds = {
        name: (leaf.first, leaf.first + len(leaf.rows)) for name, leaf in own.items()
    }
    about = np.frombuffer(json.dumps({'rows': bounds}).encode(), np.uint8)
    content = checksummed_npz.npz({_ABOUT: about, **arrays}, compress=False)
    write_atomically(part_file(path, place), content)
    return {_DIGEST: checksummed_npz.digest_of(content), 'rows': bounds}


def part_file(path: Path, place: int) -> Path:
    """Where a part of a save is."""
    return path.with_name(f'{path.stem}.part{place}{path.suffix}')


def files_of(path: Path) -> list[Path]:
    """The files of a save, in the order in which they are written: the parts come first."""
    parts = (part_file(path, place) for place in itertools.count())
    return [*itertools.takewhile(Path.exists, parts), path]


def remove(path: Path) -> None:
    """Removes a save."""
    for file in reversed(files_of(path)):
        file.unlink(missing_ok=True)


def remove_partial_files(folder: Path, lane: str | None = None) -> None:
    """Removes what a process that was killed has left of lanes.

    Args:
      folder: of saves, which this process has locked; or the lane.
      lane: whose saves; by default those of all lanes.
    """
    mine = '*' if lane is None else glob.escape(lane)
    for left in folder.glob(f'.{mine}@*'):
        if is_temporary(left):
            left.unlink(missing_ok=True)
    for left in folder.glob(f'{mine}@*.part*.npz'):
        part = re.fullmatch(r'(.*@\d+)\.part\d+\.npz', left.name)
        if part and not (folder / f'{part[1]}.npz').exists():
            left.unlink(missing_ok=True)


def is_temporary(path: Path) -> bool:
    """Tells whether a name is that of a file which `write_atomically` has not finished."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_temporaries(folder: Path, name: str) -> None:
    """Removes unfinished files that were to have a name, of processes that were killed."""
    for left in folder.glob(f'.{glob.escape(name)}.*'):
        if is_temporary(left):
            left.unlink(missing_ok=True)


def read_verified(path: Path) -> bytes:
    """What a file holds, without its parts.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    _verify(path)
    return path.read_bytes()


def read(path: Path, *, verify: bool = True) -> tuple[dict[str, Any], list[str]]:
    """What a file says besides the state.

    Args:
      path: of the file.
      verify: whether to read all of it, states and parts too, to see that nothing has changed.

    Returns:
      What it is about, and the lines of metrics.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    if verify:
        _verify(path)
    with _decoding(path), np.load(path, allow_pickle=False) as stored:
        about = json.loads(bytes(stored[_ABOUT]))
        for place, part in enumerate(about.get(PARTS, ()) if verify else ()):
            _verify(part_file(path, place), part[_DIGEST])
        return about, bytes(stored[_LINES]).decode().splitlines(keepends=True)


def load(
    path: Path,
    like: PyTree,
    *,
    content: bytes | None = None,
    local_rows: _Take | None = None,
) -> PyTree:
    """The state of a file.

    Args:
      path: of the file.
      like: a tree of arrays or their shapes; what is read must have its structure, shapes, dtypes.
      content: what the file holds, where its parts alone are to be read.
      local_rows: ``number of clients -> (first row, row behind the last)``, which rows to read of
        divided leaves. These leaves then are `meshes.LocalRows`. All rows by default.

    Returns:
      The tree.

    Raises:
      DamagedError: if the file is missing or was changed.
      ValueError: if it holds another kind of tree.
    """
    found = {
        name: _as_leaf(a, kind) for name, a, kind in _entries(path, content, local_rows)
    }
    wanted = leaves_of(like)
    if list(found) != list(wanted):
        differ = sorted(found.keys() ^ wanted.keys())
        raise errors.invalid(
            'checkpoint', "have the state's leaves", f'{path}, not {differ}'
        )
    for name, expected in wanted.items():
        leaf = found[name]
        if (expected.shape, expected.dtype) != (leaf.shape, leaf.dtype):
            requirement = f'hold {expected.dtype}{list(expected.shape)} at {name}'
            raise errors.invalid(
                'checkpoint', requirement, f'{leaf.dtype}{list(leaf.shape)}'
            )
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
    return {name: _as_leaf(array, kind) for name, array, kind in _entries(path)}


def arrays(path: Path) -> dict[str, np.ndarray]:
    """As `leaves`, as they are stored, whatever the precision here; of typed keys the data."""
    return {
        name: array.view(jnp.dtype(kind))
        if kind and not kind.startswith('key:')
        else array
        for name, array, kind in _entries(path)
    }


def leaves_of(tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree by their place in it, such as ``.algorithm.params['w']``, in order."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(key_path): leaf for key_path, leaf in leaves}


def temporary_name(path: Path) -> Path:
    """Returns a name beside a file that no other process or thread uses."""
    unique = f'{os.getpid()}-{secrets.token_hex(4)}'
    return path.with_name(f'.{path.name}.{unique}.partial')


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file so that any reader, also after a crash, sees all of it or what was there."""
    partial = temporary_name(path)
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


def _decoding(path: Path) -> contextlib.AbstractContextManager[None]:
    """Makes what no run writes a damaged checkpoint."""
    return errors.decoding(
        lambda said: DamagedError(
            'checkpoint', 'be as a run writes it', f'{path}: {said}'
        )
    )


def _check_kind(path: Any, kind: Any, array: Any) -> None:
    """Raises unless an array can stand for a leaf of its kind."""
    if not isinstance(path, str) or not isinstance(kind, str):
        raise TypeError(f'{kind!r} at {path!r}')
    if kind and not kind.startswith('key:'):
        dtype = jnp.dtype(kind)
        if dtype.hasobject or dtype.itemsize != array.dtype.itemsize:
            raise TypeError(f'{kind} at {path}')


def _verify(file: Path, digest: str | None = None) -> None:
    """Raises unless a file is as it was written; a part has a digest."""
    try:
        said = '' if checksummed_npz.is_verified(file, digest) else 'it has changed'
    except OSError as error:
        said = f'{error.strerror}{" (all processes must share the disk)" if digest else ""}'
    if said:
        raise DamagedError('checkpoint', 'be as it was written', f'{file}: {said}')


def _entries(
    path: Path, content: bytes | None = None, local_rows: _Take | None = None
) -> list[tuple[str, Any, str]]:
    """Path, array and kind of every leaf of a file, after it was proven unless it was read."""
    if content is None:
        _verify(path)
    found = []
    source = path if content is None else io.BytesIO(content)
    with _decoding(path), np.load(source, allow_pickle=False) as stored:
        about = json.loads(bytes(stored[_ABOUT]))
        divided = _divided(
            path, about.get(PARTS, ()), local_rows or (lambda count: (0, count))
        )
        for place, leaf in enumerate(about[_LEAVES]):
            rows = divided.get(f'{place:05d}')
            array = (
                stored[f'{place:05d}']
                if rows is None
                else rows
                if local_rows
                else rows.rows
            )
            _check_kind(leaf['path'], leaf['kind'], array)
            found.append((leaf['path'], array, leaf['kind']))
    return found


def _divided(
    path: Path, parts: Sequence[Any], local_rows: _Take
) -> dict[str, meshes.LocalRows]:
    """Rows of divided leaves by entry, from those parts that have any."""
    counts = {
        name: bounds[1] for part in parts for name, bounds in part['rows'].items()
    }
    wanted = {name: local_rows(count) for name, count in counts.items()}
    found: dict[str, list[np.ndarray]] = {name: [] for name in counts}
    for place, part in enumerate(parts):
        file, bounds = part_file(path, place), part['rows']
        within = {
            name: np.clip(wanted[name], *own) - own[0] for name, own in bounds.items()
        }
        needed = [name for name, (first, stop) in within.items() if first < stop]
        if needed:
            _verify(file, part[_DIGEST])
        for name in needed:
            found[name].append(checksummed_npz.rows(file, name, *within[name]))
    return {
        name: meshes.LocalRows(np.concatenate(rows), wanted[name][0], counts[name])
        for name, rows in found.items()
    }


def _as_plain(leaf: Any) -> tuple[np.ndarray, str]:
    """An array of a dtype that npz can hold, and what it stands for."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf)), f'key:{jax.random.key_impl(leaf)}'
    array = np.asarray(leaf)
    if array.dtype.kind in 'biuf':
        return array, ''
    return array.view(
        f'u{array.dtype.itemsize}'
    ), array.dtype.name  # bfloat16 and its like


def _as_leaf(array: Any, kind: str) -> Any:
    if isinstance(array, meshes.LocalRows):
        return dataclasses.replace(
            array, rows=array.rows.view(jnp.dtype(kind or array.dtype))
        )
    if kind.startswith('key:'):
        return jax.random.wrap_key_data(
            jnp.asarray(array), impl=kind.removeprefix('key:')
        )
    return jnp.asarray(array.view(jnp.dtype(kind)) if kind else array)
