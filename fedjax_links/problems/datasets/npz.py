"""Data sets in plain npz files: anybody's arrays, and what slower formats are kept as."""

import os
import pathlib
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from fedjax_links.core import errors
from fedjax_links.problems.datasets.dataset import Dataset, make_dataset
from fedjax_links.problems.datasets.places import PathLike

Arrays = Mapping[str, np.ndarray]

_REQUIRED = ('train_features', 'train_labels', 'test_features', 'test_labels')
_OPTIONAL = ('num_classes',)


def from_npz(path: PathLike, *, name: str | None = None) -> Dataset:
    """Reads a data set from an npz file, compressed or not.

    Keys of the file:

    * ``train_features`` [E, ...] and ``test_features`` [T, ...]: uint8 pixels, which are scaled
      from 0..255 to [0, 1], or real numbers, which stay as they are;
    * ``train_labels`` [E] and ``test_labels`` [T]: integers from 0;
    * ``num_classes`` [], optional: one more than the largest label by default.

    Other keys are ignored, and nothing is unpickled.

    Args:
      path: the file.
      name: what to call the data set; the file's name without its ending by default.

    Returns:
      The data set.

    Raises:
      ValueError: if the file is missing or no npz file, or its arrays do not fit.
    """
    file = pathlib.Path(path)
    arrays = read_file(file)
    try:
        return from_mapping(arrays, name=file.stem if name is None else name)
    except errors.InvalidError as error:
        said = f'{error.clause} in {file}'
        raise errors.InvalidError(error.path, error.requirement, error.value, said) from None


def read_file(file: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays under the keys of `from_npz` that a file has.

    Args:
      file: an npz file.

    Returns:
      The arrays as they are stored.

    Raises:
      ValueError: if the file is missing, damaged or no npz file.
    """
    if not file.is_file():
        raise errors.invalid('path', 'name an npz file', file)
    arrays: dict[str, np.ndarray] = {}
    key = ''
    try:
        with np.load(file, allow_pickle=False) as loaded:
            for key in sorted({*_REQUIRED, *_OPTIONAL} & {*loaded.files}):
                with loaded.zip.open(f'{key}.npy') as entry:
                    holds_objects = _dtype_of(entry).hasobject
                if holds_objects:
                    raise errors.invalid(key, 'hold numbers', f'Python objects in {file}')
                arrays[key] = loaded[key]
    except errors.InvalidError:
        raise
    except Exception as error:  # whatever the reader makes of changed bytes
        if not key:
            raise errors.invalid('path', 'name an npz file', f'an unreadable {file}') from error
        requirement = f'name an intact npz file ({errors.one_line(str(error))})'
        raise errors.invalid('path', requirement, f'a damaged {key} in {file}') from error
    return arrays


def _dtype_of(entry: IO[bytes]) -> np.dtype:
    """The dtype that the header of an array states."""
    version = np.lib.format.read_magic(entry)
    old = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
    return read(entry)[2]


def save_npz(dataset: Dataset, path: PathLike) -> None:
    """Writes a data set so that `from_npz` reads it back bit for bit.

    Args:
      dataset: what to write; its name is not stored.
      path: the file to write, replaced as a whole if it exists.

    Raises:
      ValueError: if its folder does not exist.
    """
    file = pathlib.Path(path)
    if not file.parent.is_dir():
        raise errors.invalid('path', 'lie in an existing folder', file)
    write_arrays(file, {key: getattr(dataset, key) for key in _REQUIRED + _OPTIONAL})


def from_mapping(arrays: Arrays, *, name: str) -> Dataset:
    """A data set from arrays under the keys of `from_npz`."""
    missing = [key for key in _REQUIRED if key not in arrays]
    if missing:
        held = ', '.join(sorted(arrays)) or 'none'
        raise errors.invalid('path', f'hold the array {missing[0]}', f'only: {held}')
    num_classes = arrays.get('num_classes')
    if num_classes is not None and num_classes.ndim != 0:
        raise errors.invalid('num_classes', 'be a number', f'shape {list(num_classes.shape)}')
    return make_dataset(
        *(arrays[key] for key in _REQUIRED),
        num_classes=None if num_classes is None else num_classes.item(),
        name=name,
    )


def write_arrays(file: pathlib.Path, arrays: Mapping[str, Any]) -> None:
    """Writes beside the file and renames, so that no reader sees half of it."""
    half = file.with_name(f'.{file.name}.{os.getpid()}.tmp')
    try:
        with open(half, 'wb') as stream:
            np.savez(stream, **arrays)
        os.replace(half, file)
    finally:
        half.unlink(missing_ok=True)
