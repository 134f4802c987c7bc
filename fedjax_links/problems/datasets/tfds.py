"""Images that TensorFlow Datasets prepared, read without TensorFlow and without a network."""

import pathlib
import re
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_links.core import errors
from fedjax_links.problems.datasets.dataset import Dataset
from fedjax_links.problems.datasets.npz import PathLike, data_root

_CHUNK = 1024  # what is decoded together: one by one takes three times as long


def from_tfds(
    name: str,
    *,
    data_dir: PathLike | None = None,
    train: Sequence[str] = ('train',),
    test: Sequence[str] = ('test',),
) -> Dataset:
    """Reads prepared images with labels in a format of random access, such as array_record.

    Only files are read: data that are not there are an error at once, never a download. Preparing
    them, ``tfds build NAME --file_format=array_record``, needs TensorFlow; reading does not.

    Args:
      name: as TensorFlow Datasets calls it, such as ``'mnist'``, ``'emnist/balanced'`` or, with a
        version, ``'mnist:3.0.1'``; its examples have an ``image`` of fixed shape and uint8 pixels,
        and a class ``label``.
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
    root = data_root(data_dir)
    build = f'tfds build {name} --file_format=array_record --data_dir={shlex.quote(str(root))}'
    requirement = f'hold prepared data (run `{build}`, which needs TensorFlow)'
    folder = _folder(root / name.replace(':', '/'))
    if folder is None:
        raise errors.invalid('data_dir', requirement, f'none of {name} in {root}')
    try:
        import tensorflow_datasets  # slow to import, so only here
    except ImportError as error:
        packages = "'fedjax_links[tfds]'"
        raise errors.missing_package('prepared data need TensorFlow Datasets', packages) from error
    arrays: dict[str, Any] = {}
    try:
        builder = tensorflow_datasets.builder_from_directory(str(folder))
        for part, splits in (('train', train), ('test', test)):
            images, labels = [], []
            for source in map(builder.as_data_source, splits):
                for start in range(0, len(source), _CHUNK):
                    rows = source.__getitems__(range(start, min(start + _CHUNK, len(source))))
                    images.append(np.stack([row['image'] for row in rows]))
                    labels += [row['label'] for row in rows]
            arrays |= {f'{part}_features': np.concatenate(images), f'{part}_labels': labels}
        num_classes = builder.info.features['label'].num_classes
    except Exception as error:  # whatever the reader makes of other formats and changed bytes
        said = f'{folder}: {errors.describe(error)}'
        raise errors.invalid('data_dir', requirement, said) from error
    return Dataset(**arrays, num_classes=num_classes)


def _folder(place: pathlib.Path) -> pathlib.Path | None:
    """A version's folder: the place itself, or the newest in it."""
    described = [*place.glob('dataset_info.json'), *place.glob('*.*.*/dataset_info.json')]
    folders = [
        file.parent for file in described if re.fullmatch(r'\d+\.\d+\.\d+', file.parent.name)
    ]
    return max(folders, key=lambda folder: [*map(int, folder.name.split('.'))], default=None)
