"""Data sets in plain npz files: anybody's arrays, and what slower formats are kept as."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_links.core import errors
from fedjax_links.problems.datasets.dataset import Dataset

Arrays = Mapping[str, Any]
PathLike = str | os.PathLike[str]

_KEYS = [field.name for field in dataclasses.fields(Dataset)]


def from_npz(path: PathLike) -> Dataset:
    """Reads a data set from an npz file, compressed or not.

    Keys of the file:

    * ``train_features`` [E, ...]: pixels uint8, tokens of any integer type, or real numbers;
    * ``train_labels`` [E]: integers from 0;
    * all others that a `Dataset` has, where it has them: ``train_clients`` [E], the owners, names
      or numbers; ``test_features``, ``test_labels`` and ``test_clients``; ``num_classes`` [];
      ``client_names``.

    Other keys are ignored, and nothing is unpickled.

    Args:
      path: the file.

    Returns:
      The data set.

    Raises:
      ValueError: if the file is missing or no npz file, or its arrays do not fit.
    """
    file = pathlib.Path(path)
    if not file.is_file():
        raise errors.invalid('path', 'name an npz file', file)
    try:
        with np.load(file, allow_pickle=False) as loaded:
            arrays: dict[str, Any] = {key: loaded[key] for key in _KEYS if key in loaded}
    except Exception as error:  # whatever the reader makes of changed bytes
        requirement = f'name an intact npz file of numbers ({errors.describe(error)})'
        raise errors.invalid('path', requirement, file) from error
    try:
        for key in _KEYS[:2]:
            if key not in arrays:
                held = ', '.join(sorted(arrays)) or 'none'
                raise errors.invalid('path', f'hold the array {key}', f'only: {held}')
        for key in arrays.keys() & {'num_classes', 'client_names'}:
            arrays[key] = arrays[key].tolist()
        return Dataset(**arrays)
    except errors.InvalidError as error:
        said = f'{error.clause} in {file}'
        raise errors.InvalidError(error.path, error.requirement, error.value, said) from None


def save_npz(dataset: Dataset, path: PathLike) -> None:
    """Writes a data set so that `from_npz` reads it back bit for bit.

    Args:
      dataset: what to write.
      path: the file to write, replaced as a whole if it exists.

    Raises:
      ValueError: if its folder does not exist.
    """
    given = {key: getattr(dataset, key) for key in _KEYS}
    arrays = {key: value for key, value in given.items() if value is not None and np.size(value)}
    file = pathlib.Path(path)
    half = file.with_name(f'.{file.name}.{os.getpid()}.tmp')  # renamed, so that none sees half
    with errors.on_disk(file):
        try:
            with open(half, 'wb') as stream:
                np.savez(stream, **arrays)
            os.replace(half, file)
        finally:
            half.unlink(missing_ok=True)


def data_root(data_dir: PathLike | None) -> pathlib.Path:
    """``data_dir``, or ``TFDS_DATA_DIR`` from the environment, or ``~/tensorflow_datasets``."""
    chosen = data_dir or os.environ.get('TFDS_DATA_DIR') or '~/tensorflow_datasets'
    return pathlib.Path(chosen).expanduser()


def npz_file(name: str, data_dir: PathLike | None = None) -> pathlib.Path:
    """The file that ``data fetch`` writes and the loaders read.

    Args:
      name: a data set of ``data list``, such as ``'mnist'``.
      data_dir: folder of the file, see `data_root`.
    """
    return data_root(data_dir) / f'{name}.npz'
