"""Checks data sets as arrays, and stores data sets in plain npz files, which load fast."""

import dataclasses
import os
import pathlib
import secrets
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedjax_links.core import checks, errors, paths
from fedjax_links.datasets import columns

Arrays = Mapping[str, Any]
PathLike = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Holds a labelled data set: examples to train on, their owners, and examples to test on.

    Real features become float32; integer features keep their type. The compiled program scales
    pixels uint8 to [0, 1], and looks up tokens of any integer type. An example's owner is the
    client that has it.

    Attributes:
      train_features: [E, ...].
      train_labels: int32[E], classes numbered from 0; or int32[E, L], tokens, of which negative
        ones do not count.
      train_clients: the owner of each example, names or numbers [E], which become int32[E]; None
        for data without owners. Owners with training examples are numbered first, then all others,
        each in the sorted order of names.
      test_features: [T, ...], examples of the same shape; None for none.
      test_labels: like ``train_labels``.
      test_clients: the owner of each test example, like ``train_clients``.
      num_classes: C; one more than the largest label by default.
      client_names: the name of each owner, by number, as texts. If they are given,
        ``train_clients`` and ``test_clients`` must be numbers of these names.

    Raises:
      ValueError: if shapes or dtypes do not fit, a label is not a class, or a feature is not
        finite.
    """

    train_features: NDArray[Any]
    train_labels: NDArray[np.int32]
    train_clients: NDArray[np.int32] | None = None
    _: dataclasses.KW_ONLY
    test_features: NDArray[Any] | None = None
    test_labels: NDArray[np.int32] | None = None
    test_clients: NDArray[np.int32] | None = None
    num_classes: int = 0
    client_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Checks that all fields fit together, and numbers classes and owners."""
        if self.test_features is not None and self.test_labels is None:
            raise errors.invalid('test_labels', 'be given with `test_features`', None)
        if self.test_labels is not None and self.test_features is None:
            raise errors.invalid('test_features', 'be given with `test_labels`', None)
        parts = ('train',) if self.test_features is None else ('train', 'test')
        for part in parts:
            self._check_part(part)
        self._count_classes([f'{part}_labels' for part in parts])
        self._set('client_names', _as_names(self.client_names))
        self._number_owners()

    def _set(self, field: str, value: object) -> None:
        """Sets a field, although the data set is frozen."""
        object.__setattr__(self, field, value)

    def _check_part(self, part: str) -> None:
        """Converts features and labels of a part, train or test, and checks that they fit."""
        features = f'{part}_features'
        labels = f'{part}_labels'
        rows = columns.as_array(features, getattr(self, features))
        classes = columns.as_classes(columns.as_array(labels, getattr(self, labels)))
        if rows.ndim < 2 or 0 in rows.shape:
            raise errors.invalid(
                features, 'have shape [examples, ...]', list(rows.shape)
            )
        if rows.dtype == bool:
            raise errors.invalid(features, 'be numbers', rows.dtype)
        if rows.dtype.kind == 'c':
            raise errors.invalid(features, 'be real numbers', rows.dtype)
        columns.check_numbers(features, rows)
        if classes.ndim > 1 and not classes.size:
            raise errors.invalid(labels, 'not be empty', f'shape {list(classes.shape)}')
        if classes.ndim < 2:
            classes = checks.ids(labels, classes)
        elif not np.issubdtype(classes.dtype, np.integer):
            raise errors.invalid(labels, 'have an integer dtype', classes.dtype)
        columns.check_fits(labels, classes, np.int32)
        if len(classes) != len(rows):
            requirement = f'have one entry per row of `{features}` ({len(rows)})'
            raise errors.invalid(labels, requirement, len(classes))
        stored_rows = rows
        if rows.dtype.kind == 'f':
            stored_rows = rows.astype(np.float32, copy=False)
        self._set(features, stored_rows)
        self._set(labels, classes.astype(np.int32, copy=False))
        columns.check_same_kind(features, rows, 'train_features', self.train_features)

    def _count_classes(self, arguments: Sequence[str]) -> None:
        """Sets the number of classes if it is not given, and checks the labels of the parts."""
        labels = {name: getattr(self, name) for name in arguments}
        checks.static_int('num_classes', self.num_classes, minimum=0)
        if self.num_classes == 0:
            largest = max(int(values.max()) for values in labels.values())
            if largest < 0:
                requirement = 'hold a class, or else `num_classes` be given'
                raise errors.invalid('train_labels', requirement, 'only negative ones')
            self._set('num_classes', largest + 1)
        for name, values in labels.items():
            if values.max() >= self.num_classes:
                requirement = f'lie below num_classes ({self.num_classes})'
                row = np.unravel_index(np.argmax(values), values.shape)[0]
                got = f'{values.max()} at {row}'
                raise errors.invalid(name, requirement, got)

    def _number_owners(self) -> None:
        """Numbers the owners, and keeps their names."""
        names: tuple[Any, ...] = ()
        for part in ('train', 'test'):
            argument = f'{part}_clients'
            labels = getattr(self, f'{part}_labels')
            owners = getattr(self, argument)
            if owners is None:
                continue
            shape = columns.as_array(argument, owners).shape
            if labels is None or shape != (len(labels),):
                requirement = f'have one owner per row of `{part}_features`'
                raise errors.invalid(argument, requirement, f'shape {shape}')
            numbers: NDArray[np.integer[Any]]
            if self.client_names:
                numbers = self._numbers_of_named_owners(argument, owners)
            else:
                numbers, names = columns.number_owners(argument, owners, names)
            self._set(argument, numbers.astype(np.int32))
        if not self.client_names:
            self._set('client_names', tuple(map(str, names)))

    def _numbers_of_named_owners(
        self, argument: str, owners: Any
    ) -> NDArray[np.integer[Any]]:
        """Checks owners that are numbers of ``client_names``."""
        numbers = checks.ids(argument, owners, limit=2**31)
        num_names = len(self.client_names)
        if numbers.max() >= num_names:
            requirement = f'number the {num_names} `client_names` from 0'
            raise errors.invalid(argument, requirement, numbers.max())
        return numbers


def _as_names(value: object) -> tuple[str, ...]:
    """Converts a list or an array of names to texts; raises for anything else."""
    names = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise errors.invalid(
            'client_names', 'be a list of names', errors.text_of(value)
        )
    return tuple(map(str, names))


_KEYS = [field.name for field in dataclasses.fields(Dataset)]
_REQUIRED_KEYS = ('train_features', 'train_labels')
_SOURCE = 'source'
"""A further key of the file, see `source_of`."""


def from_npz(path: PathLike) -> Dataset:
    """Reads a data set from an npz file, compressed or not.

    Keys of the file:

    * ``train_features`` [E, ...]: pixels uint8, tokens of any integer type, or real numbers;
    * ``train_labels`` [E]: integers from 0;
    * optional ones, as in `Dataset`: ``train_clients`` [E], the owners, names or numbers;
      ``test_features``, ``test_labels`` and ``test_clients``; ``num_classes`` []; ``client_names``.

    Other keys are ignored, and nothing is unpickled.

    Args:
      path: the file.

    Returns:
      The data set.

    Raises:
      ValueError: if the file is missing or no npz file, or its arrays do not fit.
    """
    file = paths.as_path(path, 'path')
    if not file.is_file():
        raise errors.invalid('path', 'name an npz file', file)
    if not zipfile.is_zipfile(file):
        # NumPy would take the file for a pickle, and propose to load the pickle.
        requirement = 'name an intact npz file of numbers'
        raise errors.invalid('path', requirement, f'{file}, which is no npz')
    arrays = _read_arrays(file)
    try:
        for key in _REQUIRED_KEYS:
            if key not in arrays:
                shown = ', '.join(sorted(arrays)) or 'none'
                raise errors.invalid('path', f'hold the array {key}', f'only: {shown}')
        arrays = {key: arrays[key] for key in _KEYS if key in arrays}
        for key in arrays.keys() & {'num_classes', 'client_names'}:
            arrays[key] = arrays[key].tolist()
        return Dataset(**arrays)
    except errors.InvalidError as error:
        message = f'{error.clause} in {file}'
        raise errors.InvalidError(
            error.path, error.requirement, error.value, message
        ) from None


def _read_arrays(file: pathlib.Path) -> dict[str, Any]:
    """Reads the arrays of a data set from a file; None for arrays that are not read."""
    try:
        with np.load(file, allow_pickle=False) as loaded:
            return {key: loaded[key] if key in _KEYS else None for key in loaded.files}
    except Exception as error:  # Changed bytes can raise any error.
        requirement = f'name an intact npz file of numbers ({errors.describe(error)})'
        raise errors.invalid('path', requirement, file) from error


def save_npz(dataset: Dataset, path: PathLike, *, source: str = '') -> None:
    """Writes a data set so that `from_npz` reads it back bit for bit.

    Args:
      dataset: what to write.
      path: the file to write, replaced as a whole if it exists.
      source: the folder or address that the data come from, for `source_of`.

    Raises:
      ValueError: for another data set or path, or if its folder does not exist.
    """
    if not isinstance(dataset, Dataset):
        raise errors.invalid('dataset', 'be a Dataset', errors.text_of(dataset))
    fields = {key: getattr(dataset, key) for key in _KEYS}
    arrays = {
        key: value
        for key, value in fields.items()
        if value is not None and np.size(value)
    }
    if source:
        arrays[_SOURCE] = np.array(source)
    file = paths.as_path(path, 'path')
    # Readers see the old file or the new one, never a part of a file. No other thread or machine
    # that writes the file uses this temporary name.
    temporary = file.with_name(f'.{file.name}.{secrets.token_hex(8)}.tmp')
    try:
        with open(temporary, 'wb') as stream:
            np.savez(stream, **arrays)
        os.replace(temporary, file)
    except OSError as error:
        error.filename = None  # The error names the file, not the temporary one.
        raise errors.from_os_error(error, file) from None
    finally:
        with errors.on_disk(file):
            temporary.unlink(missing_ok=True)


def source_of(path: PathLike) -> str:
    """Returns the folder or address that a file's data come from; empty if it is not known."""
    try:
        with np.load(path, allow_pickle=False) as loaded:
            return str(loaded[_SOURCE]) if _SOURCE in loaded else ''
    except Exception:  # `from_npz` reports a damaged file.
        return ''


def data_root(data_dir: PathLike | None) -> pathlib.Path:
    """Returns ``data_dir``, by default ``TFDS_DATA_DIR`` or ``~/tensorflow_datasets``."""
    folder = data_dir or os.environ.get('TFDS_DATA_DIR') or '~/tensorflow_datasets'
    return paths.as_path(folder, 'data_dir')


def npz_file(name: str, data_dir: PathLike | None = None) -> pathlib.Path:
    """Returns the file that ``data fetch`` writes and the loaders read.

    Args:
      name: a data set of ``data list``, such as ``'mnist'``.
      data_dir: folder of the file, see `data_root`.
    """
    return data_root(data_dir) / f'{name}.npz'
