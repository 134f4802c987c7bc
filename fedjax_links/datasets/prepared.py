"""Reads data sets that other projects prepared: LEAF's JSON, and images of TensorFlow Datasets.

JSON in LEAF's form is ``{"users": [...], "user_data": {user: {"x": [...], "y": [...]}}}``. What
TensorFlow Datasets prepared is read without TensorFlow and without a network.

References:
  Caldas et al. 2018, LEAF: a benchmark for federated settings.
"""

import functools
import json
import math
import pathlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import checks, errors, paths
from fedjax_links.datasets import characters
from fedjax_links.datasets.columns import stack_features, stack_labels
from fedjax_links.datasets.npz import Dataset, PathLike, data_root

# How many examples are decoded together; one by one, decoding takes three times as long.
_CHUNK_SIZE = 1024
# The entry of LEAF's JSON that each column is made of.
_ENTRIES = {'features': 'x', 'labels': 'y'}
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
)
"""What reading a file of another form raises."""

Encode = Callable[[Sequence[Any]], np.ndarray]
"""Makes an array of entries of ``x``, or of ``y``, with a row for each."""


class Encoding(NamedTuple):
    """Makes arrays of the entries of users, who are the clients of LEAF's data.

    Attributes:
      features: makes features of entries ``x``; its errors are about ``features``.
      labels: makes labels of entries ``y``; its errors are about ``labels``.
      num_classes: C; 0 for one more than the largest label.
    """

    features: Encode = stack_features
    labels: Encode = stack_labels
    num_classes: int = 0

    def read(self, path: PathLike) -> dict[str, np.ndarray]:
        """Reads features, labels and clients (users' names), in the order of files and users.

        Args:
          path: a file, or a folder of which all ``*.json`` files are read.

        Raises:
          ValueError: for a file that is not of this form, naming it, or rows of several shapes.
        """
        columns: dict[str, list[np.ndarray]] = {
            'features': [],
            'labels': [],
            'clients': [],
        }
        for file, user, x, y in _users(path):
            if not x:
                continue
            try:
                columns['features'].append(self.features(x))
                columns['labels'].append(self.labels(y))
            except errors.InvalidError as error:
                value = f'{error.value} of user {errors.text_of(user)} in {file}'
                raise errors.invalid(error.path, error.requirement, value) from None
            columns['clients'].append(np.full(len(x), user))
        if not columns['clients']:
            raise errors.invalid('path', 'hold examples', path)
        for name in ('features', 'labels'):
            shapes = list(dict.fromkeys(rows.shape[1:] for rows in columns[name]))
            if len(shapes) > 1:
                value = f'{shapes[0]} and {shapes[1]} in {path}'
                raise errors.invalid(name, 'have one shape', value)
        return {name: np.concatenate(column) for name, column in columns.items()}


def from_leaf(
    path: PathLike, *, test: PathLike | None = None, encode: str | None = None
) -> Dataset:
    """Reads a data set of LEAF's preprocessed JSON.

    Files are read one after the other, so that no more than one is in memory as Python's objects.

    Args:
      path: a file, or a folder of which all ``*.json`` files are read, of examples to train on.
      test: the same for examples to test on, of the same users or of other users.
      encode: a name in `ENCODINGS`; None takes numbers as they are. ``'characters'`` is for texts,
        such as Shakespeare's, whose labels are the next characters. ``'pixels'`` is for square
        images of numbers in [0, 1], such as FEMNIST's.

    Returns:
      The data set, whose owners are the users.

    Raises:
      ValueError: for a file that is not of this form, naming it.
    """
    encoding = (
        Encoding() if encode is None else checks.entry('encode', encode, ENCODINGS)
    )
    parts = {'train': _read(encoding, 'path', path)}
    if test is not None:
        parts['test'] = _read(encoding, 'test', test)
    columns: dict[str, Any] = {}
    for part, arrays in parts.items():
        for name, array in arrays.items():
            columns[f'{part}_{name}'] = array
    return Dataset(**columns, num_classes=encoding.num_classes)


def _read(encoding: Encoding, argument: str, path: PathLike) -> dict[str, np.ndarray]:
    """Reads columns; errors about the files name the argument that gave the path."""
    try:
        return encoding.read(path)
    except errors.InvalidError as error:
        if error.path == 'path':
            raise error.at(argument) from None
        entry = _ENTRIES.get(error.path)
        if entry is None:
            raise
        requirement = f'lead to entries of {entry!r} that must {error.requirement}'
        raise errors.invalid(argument, requirement, error.value) from None


def _users(path: PathLike) -> Iterator[tuple[pathlib.Path, str, list[Any], list[Any]]]:
    """Yields file, name, ``x`` and ``y`` of each user."""
    source = paths.as_path(path, 'path')
    files = sorted(source.glob('*.json')) if source.is_dir() else [source]
    for file in files:
        try:
            users = _users_of_file(file)
        except _UNREADABLE as error:
            value = f'{file}: {errors.describe(error)}'
            raise errors.invalid('path', "name JSON of LEAF's form", value) from None
        for user, x, y in users:
            yield file, user, x, y


def _users_of_file(file: pathlib.Path) -> list[tuple[str, list[Any], list[Any]]]:
    """Reads name, ``x`` and ``y`` of the users of a file; raises if it has another form."""
    content = json.loads(file.read_text(encoding='utf-8'))
    users: list[tuple[str, list[Any], list[Any]]] = []
    for user, data in content['user_data'].items():
        x = list(data['x'])
        y = list(data['y'])
        if len(x) != len(y):
            raise ValueError(f'user {user} has {len(x)} x, {len(y)} y')
        users.append((user, x, y))
    return users


def _encode_pixels(rows: Sequence[Any]) -> np.ndarray:
    """Converts rows of numbers in [0, 1] to square images, uint8[E, side, side, 1]."""
    numbers = stack_features(rows)
    requirement = "be squares of numbers in [0, 1] for `encode` 'pixels'"
    if not numbers.size:
        raise errors.invalid('features', requirement, 'no numbers')
    side = math.isqrt(numbers.shape[-1])
    is_square = numbers.ndim == 2 and side**2 == numbers.shape[1]
    if not is_square or numbers.min() < 0 or numbers.max() > 1:
        got = f'{list(numbers.shape[1:])} from {numbers.min():g} to {numbers.max():g}'
        raise errors.invalid('features', requirement, got)
    return np.rint(255 * numbers).astype(np.uint8).reshape(-1, side, side, 1)


ENCODINGS: Mapping[str, Encoding] = {
    'characters': Encoding(
        functools.partial(characters.encode, argument='features'),
        functools.partial(characters.encode_next, argument='labels'),
        characters.NUM_TOKENS,
    ),
    'pixels': Encoding(_encode_pixels),
}
"""Choices for ``encode`` of `from_leaf`."""


def from_tfds(
    name: str,
    *,
    data_dir: PathLike | None = None,
    train: Sequence[str] = ('train',),
    test: Sequence[str] = ('test',),
) -> Dataset:
    """Reads prepared images with labels in a format of random access, such as array_record.

    Only files are read: missing data are an error at once, never a download. To prepare data with
    ``tfds build NAME --file_format=array_record`` needs TensorFlow; to read the data does not.

    Args:
      name: as TensorFlow Datasets calls it, such as ``'mnist'``, ``'emnist/balanced'`` or, with a
        version, ``'mnist:3.0.1'``. Examples of the data set must have an ``image`` of fixed shape
        and uint8 pixels, and a class ``label``.
      data_dir: folder with the prepared data, by default ``TFDS_DATA_DIR`` from the environment or
        else ``~/tensorflow_datasets``.
      train: splits that make the training data, one after the other.
      test: splits that make the test data.

    Returns:
      The data set, pixels uint8[*, height, width, channels] in the order of the files.

    Raises:
      ValueError: if the data are not prepared, incomplete, damaged, or not of this kind.
      ImportError: if TensorFlow Datasets is not installed.
    """
    if not isinstance(name, str):
        requirement = "be a data set's name, such as 'mnist'"
        raise errors.invalid('name', requirement, errors.text_of(name))
    splits_of = {
        'train': checks.names('train', train),
        'test': checks.names('test', test),
    }
    root = data_root(data_dir)
    build = f'tfds build {name} --file_format=array_record --data_dir={shlex.quote(str(root))}'
    requirement = f'hold prepared data (run `{build}`, which needs TensorFlow)'
    folder = _folder(root / name.replace(':', '/'))
    if folder is None:
        raise errors.invalid('data_dir', requirement, f'none of {name} in {root}')
    try:
        import tensorflow_datasets  # Slow to import, so only here.
    except ImportError as error:
        packages = "'fedjax_links[tfds]'"
        raise errors.missing_package(
            'prepared data need TensorFlow Datasets', packages
        ) from error
    arrays: dict[str, Any] = {}
    try:
        builder = tensorflow_datasets.builder_from_directory(str(folder))
        for part, splits in splits_of.items():
            images, labels = _read_splits(builder, splits)
            arrays[f'{part}_features'] = images
            arrays[f'{part}_labels'] = labels
        num_classes = builder.info.features['label'].num_classes
    except Exception as error:
        # The reader may raise anything for other formats and changed bytes.
        value = f'{folder}: {errors.describe(error)}'
        raise errors.invalid('data_dir', requirement, value) from error
    return Dataset(**arrays, num_classes=num_classes)


def _read_splits(builder: Any, splits: Sequence[str]) -> tuple[np.ndarray, list[Any]]:
    """Reads images uint8[E, ...] and labels of splits, one after the other."""
    images: list[np.ndarray] = []
    labels: list[Any] = []
    for source in map(builder.as_data_source, splits):
        for start in range(0, len(source), _CHUNK_SIZE):
            end = min(start + _CHUNK_SIZE, len(source))
            rows = source.__getitems__(range(start, end))
            images.append(np.stack([row['image'] for row in rows]))
            labels += [row['label'] for row in rows]
    return np.concatenate(images), labels


def _folder(path: pathlib.Path) -> pathlib.Path | None:
    """Returns the folder of a version: the path itself, or the newest version in this folder."""
    described = [
        *path.glob('dataset_info.json'),
        *path.glob('*.*.*/dataset_info.json'),
    ]
    folders = {file.parent.name: file.parent for file in described}
    versions = [name for name in folders if re.fullmatch(r'\d+\.\d+\.\d+', name)]
    newest = max(versions, key=_numbers_of_version, default='')
    return folders.get(newest)


def _numbers_of_version(name: str) -> list[int]:
    return [int(number) for number in name.split('.')]
