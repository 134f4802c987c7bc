"""Saves a lane, one simulation of a run, as a file: state, labels, and lines of metrics so far.

The file is written completely or not at all, and read only if no bit of it has changed. It is an
npz with a checksum (`checksummed_npz`). Nothing is unpickled. The entries of the file are

* ``about``: metadata as JSON. Its ``leaves`` name the path and the kind of each leaf of the state.
* ``lines``: the lines of metrics.
* ``00000``, ``00001``, ...: the leaves of the state. An entry of kind ``''`` is read unchanged, a
  dtype such as ``'bfloat16'`` from the bits, and ``'key:<impl>'`` as a typed random key.

If several processes divide a state, each process first writes its rows of client tables as a part,
``<save>.part<k>.npz``, with entries of the same names. ``about`` then has the digest and the rows
of each part. So a save that lacks a part is damaged.
"""

import contextlib
import dataclasses
import glob
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import PyTree
from fedjax_links.core import errors, mesh_layouts
from fedjax_links.core.records import Section
from fedjax_links.storage import atomic_files, checksummed_npz

_ABOUT = 'about'
_LINES = 'lines'
_LEAVES = 'leaves'
PARTS = 'parts'
"""The metadata of a divided save: for each part, in order, what `write_part` returned."""
_DIGEST = 'sha256'
_KEY_PREFIX = 'key:'
_PLAIN_KINDS = 'biufc'
"""Kinds of dtypes that an npz holds as they are."""
_RowRange = Callable[[int], tuple[int, int]]
"""``number of clients -> (first row, one past the last)``."""


class DamagedError(errors.InvalidError):
    """Reports a checkpoint that is missing or was changed."""


def pack(
    state: PyTree, metadata: Section | None = None, lines: Sequence[str] = ()
) -> bytes:
    """Returns the content of a save.

    Args:
      state: leaves are arrays of any dtype, typed keys, or `mesh_layouts.LocalRows`, whose rows the
        parts hold. None for a lane that no run will resume.
      metadata: further plain values. If there are parts, it has `PARTS`.
      lines: of metrics, each with a line break.
    """
    leaves: list[dict[str, str]] = []
    arrays: dict[str, np.ndarray] = {}
    for index, (path, leaf) in enumerate(jax.tree_util.tree_leaves_with_path(state)):
        is_divided = isinstance(leaf, mesh_layouts.LocalRows)
        array, kind = _as_plain(leaf.rows if is_divided else leaf)
        leaves.append({'path': jax.tree_util.keystr(path), 'kind': kind})
        if not is_divided:
            arrays[_entry_name(index)] = array
    about = json.dumps({**(metadata or {}), _LEAVES: leaves})
    entries = {_ABOUT: _as_bytes(about), _LINES: _as_bytes(''.join(lines)), **arrays}
    return checksummed_npz.npz(entries, compress=False)


def _as_bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


def _entry_name(index: int) -> str:
    """Names the entry of a leaf in a file."""
    return f'{index:05d}'


def write_part(path: Path, index: int, state: PyTree) -> Section:
    """Writes the rows of a divided state that this process holds.

    Args:
      path: of the save. The save itself is written after all parts.
      index: of the part.
      state: as in `pack`.

    Returns:
      The part's entry in `PARTS`; empty if no leaf is divided.
    """
    arrays: dict[str, np.ndarray] = {}
    bounds: dict[str, tuple[int, int]] = {}
    for leaf_index, leaf in enumerate(jax.tree.leaves(state)):
        if isinstance(leaf, mesh_layouts.LocalRows):
            name = _entry_name(leaf_index)
            arrays[name] = np.ascontiguousarray(_as_plain(leaf.rows)[0])
            bounds[name] = leaf.first, leaf.first + len(leaf.rows)
    if not bounds:
        return {}
    about = _as_bytes(json.dumps({'rows': bounds}))
    content = checksummed_npz.npz({_ABOUT: about, **arrays}, compress=False)
    atomic_files.write(part_file(path, index), content)
    return {_DIGEST: checksummed_npz.digest_of(content), 'rows': bounds}


def part_file(path: Path, index: int) -> Path:
    """Returns the file of a part of a save."""
    return path.with_name(f'{path.stem}.part{index}{path.suffix}')


def files_of(path: Path) -> list[Path]:
    """Returns the files of a save, in the order in which they are written: parts come first."""
    parts = (part_file(path, index) for index in itertools.count())
    return [*itertools.takewhile(Path.exists, parts), path]


def remove(path: Path) -> None:
    """Removes a save."""
    for file in reversed(files_of(path)):
        file.unlink(missing_ok=True)


def remove_partial_files(folder: Path, lane: str | None = None) -> None:
    """Removes files of lanes that a killed process has left unfinished.

    Args:
      folder: of saves. This process has locked the folder, or the lane.
      lane: the lane whose files are removed; by default all lanes.
    """
    pattern = '*' if lane is None else glob.escape(lane)
    for file in folder.glob(f'.{pattern}@*'):
        if atomic_files.is_temporary(file):
            file.unlink(missing_ok=True)
    for file in folder.glob(f'{pattern}@*.part*.npz'):
        part = re.fullmatch(r'(.*@\d+)\.part\d+\.npz', file.name)
        if part and not (folder / f'{part[1]}.npz').exists():
            file.unlink(missing_ok=True)


def read_verified(path: Path) -> bytes:
    """Reads the content of a file, without its parts, after verifying it.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    _verify(path)
    return path.read_bytes()


def read(path: Path, *, verify: bool = True) -> tuple[Section, list[str]]:
    """Reads the metadata and the lines of a file.

    Args:
      path: of the file.
      verify: whether to verify the checksums of the file and its parts, which reads them in full.

    Returns:
      The metadata, and the lines of metrics.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    if verify:
        _verify(path)
    with _decoding(path), np.load(path, allow_pickle=False) as stored:
        about = json.loads(bytes(stored[_ABOUT]))
        if verify:
            for index, part in enumerate(about.get(PARTS, ())):
                _verify(part_file(path, index), part[_DIGEST])
        return about, bytes(stored[_LINES]).decode().splitlines(keepends=True)


def load(
    path: Path,
    like: PyTree,
    *,
    content: bytes | None = None,
    local_rows: _RowRange | None = None,
) -> PyTree:
    """Reads the state of a file.

    Args:
      path: of the file.
      like: a tree of arrays or shapes. The state must have the same structure, shapes and dtypes.
      content: of the file, if it was read before; only parts are then read from the disk.
      local_rows: ``number of clients -> (first row, one past the last)``: which rows of divided
        leaves to read, as `mesh_layouts.LocalRows`. By default all rows are read, as arrays.

    Returns:
      The state.

    Raises:
      DamagedError: if the file is missing or was changed.
      ValueError: if the file holds another kind of tree.
    """
    stored_leaves = leaves(path, content=content, local_rows=local_rows)
    expected_leaves = leaves_of(like)
    if list(stored_leaves) != list(expected_leaves):
        difference = _describe_difference(list(stored_leaves), list(expected_leaves))
        got = f'{path}, which {difference}'
        raise errors.invalid('checkpoint', "have the state's leaves", got)
    for name, expected in expected_leaves.items():
        leaf = stored_leaves[name]
        if (expected.shape, expected.dtype) != (leaf.shape, leaf.dtype):
            requirement = f'hold {expected.dtype}{list(expected.shape)} at {name}'
            got = f'{leaf.dtype}{list(leaf.shape)}'
            raise errors.invalid('checkpoint', requirement, got)
    return jax.tree.unflatten(jax.tree.structure(like), list(stored_leaves.values()))


def _describe_difference(paths: list[str], expected_paths: list[str]) -> str:
    """Describes how the paths of a file's leaves differ from the expected paths."""
    missing = [path for path in expected_paths if path not in paths]
    further = [path for path in paths if path not in expected_paths]
    if not missing and not further:
        return 'has them in another order'
    differences: list[str] = []
    if missing:
        differences.append(f'lacks {missing}')
    if further:
        differences.append(f'has {further} besides')
    return ' and '.join(differences)


def leaves(
    path: Path, *, content: bytes | None = None, local_rows: _RowRange | None = None
) -> dict[str, Any]:
    """Reads the leaves of a file's state, whatever the structure of the state was.

    Args:
      path: of the file.
      content: as in `load`.
      local_rows: as in `load`.

    Returns:
      The leaves by path (`leaves_of`), in order. Empty if the file holds no state.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    entries = _entries(path, content, local_rows)
    with _decoding(path):  # A key may be of an unknown kind.
        return {name: _as_leaf(array, kind) for name, array, kind in entries}


def arrays(path: Path) -> dict[str, np.ndarray]:
    """Reads the leaves of a file's state as NumPy arrays; typed keys become arrays of key data.

    Unlike `leaves`, this function keeps float64, whatever the precision of JAX here.

    Raises:
      DamagedError: if the file is missing or was changed.
    """
    result: dict[str, np.ndarray] = {}
    for name, array, kind in _entries(path):
        is_key = kind.startswith(_KEY_PREFIX)
        result[name] = array.view(jnp.dtype(kind)) if kind and not is_key else array
    return result


def leaves_of(tree: PyTree) -> dict[str, Any]:
    """Returns the leaves of a tree, in order, by path, such as ``.algorithm.params['w']``."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(key_path): leaf for key_path, leaf in leaves}


@contextlib.contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Turns errors of reading a missing or damaged file into a `DamagedError`."""

    def failed(reason: str) -> DamagedError:
        got = f'{path}: {reason}'
        return DamagedError('checkpoint', 'be as a run writes it', got)

    try:
        with errors.decoding(failed):
            yield
    except OSError as error:
        raise failed(str(error.strerror)) from None


def _check_kind(path: Any, kind: Any, array: Any) -> None:
    """Raises unless an array can hold a leaf of this kind."""
    if not isinstance(path, str) or not isinstance(kind, str):
        raise TypeError(f'{kind!r} at {path!r}')
    if array.dtype.kind not in _PLAIN_KINDS:
        raise TypeError(f'{array.dtype} at {path}')
    if kind and not kind.startswith(_KEY_PREFIX):
        dtype = jnp.dtype(kind)
        if dtype.hasobject or dtype.itemsize != array.dtype.itemsize:
            raise TypeError(f'{kind} at {path}')


def _verify(file: Path, digest: str | None = None) -> None:
    """Raises unless a file is as it was written. Only for a part the ``digest`` is known."""
    try:
        if checksummed_npz.is_verified(file, digest):
            return
        reason = 'it has changed'
    except OSError as error:
        reason = str(error.strerror)
        if digest:
            reason += ' (all processes must share the disk)'
    raise DamagedError('checkpoint', 'be as it was written', f'{file}: {reason}')


def _entries(
    path: Path, content: bytes | None = None, local_rows: _RowRange | None = None
) -> list[tuple[str, Any, str]]:
    """Reads path, array and kind of each leaf of a file; without ``content``, verifies the file."""
    if content is None:
        _verify(path)
    entries: list[tuple[str, Any, str]] = []
    source = path if content is None else io.BytesIO(content)
    with _decoding(path), np.load(source, allow_pickle=False) as stored:
        about = json.loads(bytes(stored[_ABOUT]))
        divided = _read_parts(path, about.get(PARTS, ()), local_rows or _all_rows)
        for index, leaf in enumerate(about[_LEAVES]):
            name = _entry_name(index)
            array: Any
            if name not in divided:
                array = stored[name]
            elif local_rows is None:
                array = divided[name].rows
            else:
                array = divided[name]
            _check_kind(leaf['path'], leaf['kind'], array)
            entries.append((leaf['path'], array, leaf['kind']))
    return entries


def _all_rows(num_clients: int) -> tuple[int, int]:
    return 0, num_clients


def _read_parts(
    path: Path, parts: Sequence[Any], local_rows: _RowRange
) -> dict[str, mesh_layouts.LocalRows]:
    """Reads rows of divided leaves, by entry, from the parts that hold such rows."""
    # Parts are in the order of clients, so the last one ends with the last client.
    num_clients: dict[str, int] = {}
    for part in parts:
        for name, (_, stop) in part['rows'].items():
            num_clients[name] = stop
    ranges = {name: local_rows(count) for name, count in num_clients.items()}
    pieces: dict[str, list[np.ndarray]] = {name: [] for name in num_clients}
    for index, part in enumerate(parts):
        file = part_file(path, index)
        needed = _needed_rows(part['rows'], ranges)
        if needed:
            _verify(file, part[_DIGEST])
        for name, (first, stop) in needed.items():
            pieces[name].append(checksummed_npz.rows(file, name, first, stop))
    return {
        name: mesh_layouts.LocalRows(
            np.concatenate(rows), ranges[name][0], num_clients[name]
        )
        for name, rows in pieces.items()
    }


def _needed_rows(
    bounds: Mapping[str, Sequence[int]], ranges: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Returns which rows of a part lie in the ranges, counted from the part's first row."""
    needed: dict[str, tuple[int, int]] = {}
    for name, (first_of_part, stop_of_part) in bounds.items():
        first, stop = np.clip(ranges[name], first_of_part, stop_of_part) - first_of_part
        if first < stop:
            needed[name] = first, stop
    return needed


def _as_plain(leaf: jax.Array | np.ndarray) -> tuple[np.ndarray, str]:
    """Returns an array of a dtype that npz can hold, and its kind."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        kind = f'{_KEY_PREFIX}{jax.random.key_impl(leaf)}'
        return np.asarray(jax.random.key_data(leaf)), kind
    array = np.asarray(leaf)
    if array.dtype.kind in _PLAIN_KINDS:
        return array, ''
    # NumPy's format has no bfloat16 and the like, so their bits are stored as integers.
    return array.view(f'u{array.dtype.itemsize}'), array.dtype.name


def _as_leaf(array: Any, kind: str) -> Any:
    """Returns the leaf that an array of this kind holds."""
    if isinstance(array, mesh_layouts.LocalRows):
        rows = array.rows.view(jnp.dtype(kind or array.dtype))
        return dataclasses.replace(array, rows=rows)
    if kind.startswith(_KEY_PREFIX):
        key_data = jnp.asarray(array)
        return jax.random.wrap_key_data(key_data, impl=kind.removeprefix(_KEY_PREFIX))
    return jnp.asarray(array.view(jnp.dtype(kind)) if kind else array)
