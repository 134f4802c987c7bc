"""Image data prepared by TensorFlow Datasets, read without TensorFlow and without a network.

The stock sets are read from the npz that ``python -m fedjax_links data fetch`` makes, where there
is one, and else from what TensorFlow Datasets prepared.
"""

import os
import pathlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np

from fedjax_links import checks, errors
from fedjax_links.problems.datasets.dataset import Dataset
from fedjax_links.problems.datasets.npz import Arrays, cached, from_npz
from fedjax_links.problems.datasets.places import PathLike, data_root, missing, npz_file
from fedjax_links.problems.datasets.tfrecord import read_records

_CHUNK = 1024
EMNIST_CONFIGS = ('balanced', 'byclass', 'bymerge', 'digits', 'letters', 'mnist')


class Place(TypedDict, total=False):
    """Where prepared data are and whether to cache them: options of `from_tfds`."""

    data_dir: PathLike | None
    version: str | None
    cache: bool
    cache_dir: PathLike | None


def from_tfds(
    name: str,
    *,
    data_dir: PathLike | None = None,
    version: str | None = None,
    train: Sequence[str] = ('train',),
    test: Sequence[str] = ('test',),
    cache: bool = True,
    cache_dir: PathLike | None = None,
) -> Dataset:
    """Reads prepared images with labels, in the array_record or the tfrecord format.

    Only files are read: data that are not there are an error at once, never a download. Preparing
    them, ``tfds build NAME --file_format=array_record``, needs TensorFlow; reading does not.

    Args:
      name: as TensorFlow Datasets calls it, such as ``'mnist'`` or ``'emnist/balanced'``; its
        examples have an ``image`` of fixed shape and uint8 pixels, and a class ``label``.
      data_dir: folder with the prepared data, by default ``TFDS_DATA_DIR`` from the environment or
        else ``~/tensorflow_datasets``.
      version: such as ``'3.0.1'``; the newest that is there by default.
      train: splits that make the training data, one after the other.
      test: splits that make the test data.
      cache: whether to keep the arrays as an npz file, which is read much faster.
      cache_dir: where, by default ``fedjax_links/datasets`` in ``XDG_CACHE_HOME`` or else in
        ``~/.cache``. The prepared data must stay: they tell whether the cache is still right.

    Returns:
      The data set, images float32[*, height, width, channels] in [0, 1] in the order of the files.

    Raises:
      ValueError: if the data are not prepared, incomplete, damaged, or not of this kind.
      ImportError: if TensorFlow Datasets is not installed.
    """
    folder = _prepared(name, data_root(data_dir), version)
    builder = _open(folder)
    return cached(
        lambda: _read(builder, train, test),
        name=name,
        files=_files(builder, folder, name, (*train, *test)),
        settings=(tuple(train), tuple(test)),
        cache=cache,
        cache_dir=cache_dir,
    )


def mnist(**options: Unpack[Place]) -> Dataset:
    """Handwritten digits: 60000 and 10000 images of 28 x 28, 10 classes.

    Args:
      **options: ``data_dir``, ``version``, ``cache`` and ``cache_dir`` of `from_tfds`.

    Returns:
      Images float32[*, 28, 28, 1] in [0, 1].

    Raises:
      ValueError: if the data are not prepared, see `from_tfds`.

    References:
      LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition,
      Proceedings of the IEEE, 1998.
    """
    return _stock('mnist', 'mnist', **options)


def fashion_mnist(**options: Unpack[Place]) -> Dataset:
    """Articles of clothing: 60000 and 10000 images of 28 x 28, 10 classes.

    Args:
      **options: ``data_dir``, ``version``, ``cache`` and ``cache_dir`` of `from_tfds`.

    Returns:
      Images float32[*, 28, 28, 1] in [0, 1].

    Raises:
      ValueError: if the data are not prepared, see `from_tfds`.

    References:
      Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017.
    """
    return _stock('fashion_mnist', 'fashion_mnist', **options)


def cifar10(**options: Unpack[Place]) -> Dataset:
    """Photographs of objects: 50000 and 10000 images of 32 x 32, 10 classes.

    Args:
      **options: ``data_dir``, ``version``, ``cache`` and ``cache_dir`` of `from_tfds`.

    Returns:
      Images float32[*, 32, 32, 3] in [0, 1].

    Raises:
      ValueError: if the data are not prepared, see `from_tfds`.

    References:
      Krizhevsky, Learning multiple layers of features from tiny images, 2009.
    """
    return _stock('cifar10', 'cifar10', **options)


def svhn(*, extra: bool = False, **options: Unpack[Place]) -> Dataset:
    """House numbers, cropped to a digit: 73257 and 26032 images of 32 x 32, 10 classes.

    Args:
      extra: whether the 531131 easier images of the split ``extra`` follow the training data.
      **options: ``data_dir``, ``version``, ``cache`` and ``cache_dir`` of `from_tfds`.

    Returns:
      Images float32[*, 32, 32, 3] in [0, 1].

    Raises:
      ValueError: if the data are not prepared, see `from_tfds`.

    References:
      Netzer et al., Reading digits in natural images with unsupervised feature learning, 2011.
    """
    if extra:
        return _stock('svhn/extra', 'svhn_cropped', train=('train', 'extra'), **options)
    return _stock('svhn', 'svhn_cropped', **options)


def emnist(*, config: str = 'balanced', **options: Unpack[Place]) -> Dataset:
    """Handwritten digits and letters, images of 28 x 28, upright.

    The files hold the images transposed, which is undone here, and number the 26 ``letters`` from
    1, here from 0.

    Args:
      config: ``'balanced'`` (47 classes, 112800 and 18800 images), ``'byclass'`` (62),
        ``'bymerge'`` (47), ``'letters'`` (26), ``'digits'`` (10) or ``'mnist'`` (10).
      **options: ``data_dir``, ``version``, ``cache`` and ``cache_dir`` of `from_tfds`.

    Returns:
      Images float32[*, 28, 28, 1] in [0, 1].

    Raises:
      ValueError: for an unknown config, or if the data are not prepared, see `from_tfds`.

    References:
      Cohen, Afshar, Tapson and van Schaik, EMNIST: extending MNIST to handwritten letters, 2017.
    """
    checks.choice('config', config, EMNIST_CONFIGS)
    return _stock(f'emnist/{config}', f'emnist/{config}', prepare=_upright, **options)


def _upright(stored: Dataset) -> Dataset:
    """EMNIST as published, from what TensorFlow Datasets stores."""
    upright = stored._replace(
        train_features=np.ascontiguousarray(stored.train_features.swapaxes(1, 2)),
        test_features=np.ascontiguousarray(stored.test_features.swapaxes(1, 2)),
    )
    if stored.name != 'emnist/letters':
        return upright
    return upright._replace(
        train_labels=upright.train_labels - 1, test_labels=upright.test_labels - 1, num_classes=26
    )


def read_prepared(
    folder: pathlib.Path, *, train: Sequence[str] = ('train',), test: Sequence[str] = ('test',)
) -> Arrays:
    """The arrays of one prepared version, as they are stored.

    Args:
      folder: the version's, with ``dataset_info.json``.
      train: splits that make the training data, one after the other.
      test: splits that make the test data.

    Returns:
      Arrays under the keys of `from_npz`, pixels as uint8.

    Raises:
      ValueError: if the data are incomplete, damaged, or not of this kind.
      ImportError: if TensorFlow Datasets is not installed.
    """
    builder = _open(folder)
    _files(builder, folder, folder.name, (*train, *test))
    return _read(builder, train, test)


def _stock(
    name: str,
    prepared: str,
    *,
    data_dir: PathLike | None = None,
    version: str | None = None,
    train: Sequence[str] = ('train',),
    cache: bool = True,
    cache_dir: PathLike | None = None,
    prepare: Callable[[Dataset], Dataset] = lambda stored: stored,
) -> Dataset:
    """A data set of ``data fetch``; if not fetched, ``prepare`` of what TensorFlow Datasets has."""
    called = name.partition('/')[0]
    file = npz_file(name, data_dir)
    if version is None and file.is_file():
        with errors.inside('data_dir'):
            return from_npz(file, name=called)
    folder = data_root(data_dir) / prepared
    if version is None and not versions(folder):
        raise missing(name, data_dir, f'prepared data in {folder}')
    stored = from_tfds(
        prepared,
        data_dir=data_dir,
        version=version,
        train=train,
        cache=cache,
        cache_dir=cache_dir,
    )
    return prepare(stored)._replace(name=called)


def _prepared(name: str, root: pathlib.Path, version: str | None) -> pathlib.Path:
    """The folder of a prepared version."""
    folder = root / name
    found = versions(folder)
    if not found:
        build = f'tfds build {name} --file_format=array_record --data_dir={shlex.quote(str(root))}'
        raise errors.invalid(
            'data_dir',
            f'hold prepared data (run `{build}`, which needs TensorFlow)',
            f'none in {folder}',
        )
    if version is None:
        return found[max(found)]
    names = {child.name: child for child in found.values()}
    checks.choice('version', version, names)
    return names[version]


def versions(folder: pathlib.Path) -> dict[tuple[int, ...], pathlib.Path]:
    """The prepared versions in a folder."""
    return {
        tuple(map(int, child.name.split('.'))): child
        for child in (folder.iterdir() if folder.is_dir() else ())
        if re.fullmatch(r'\d+\.\d+\.\d+', child.name) and (child / 'dataset_info.json').is_file()
    }


def _files(
    builder: Any, folder: pathlib.Path, name: str, splits: Sequence[str]
) -> list[pathlib.Path]:
    """Every file that the splits need; raises if one is not there."""
    files = [folder / 'dataset_info.json', folder / 'features.json']
    for split in splits:
        checks.choice('split', split, builder.info.splits)
        files += map(pathlib.Path, builder.info.splits[split].filepaths)
    for file in files:
        if not file.is_file():
            raise errors.invalid('data_dir', f'hold every file of {name}', f'no {file}')
    return files


def _open(folder: pathlib.Path) -> Any:
    """The builder that describes a folder; it knows nothing but the folder's own files."""
    try:
        import tensorflow_datasets  # slow to import, so only here
    except ImportError as error:
        packages = 'tensorflow-datasets importlib_resources pillow'
        raise errors.missing_package('prepared data need TensorFlow Datasets', packages) from error
    try:
        builder = tensorflow_datasets.builder_from_directory(os.fspath(folder))
    except Exception as error:  # whatever the reader makes of changed descriptions
        said = f'{type(error).__name__}: {errors.one_line(str(error))}'
        raise errors.invalid('data_dir', f'describe its data ({said})', folder) from error
    file_format = builder.info.file_format.value
    if file_format not in ('array_record', 'tfrecord'):
        raise errors.invalid(
            'data_dir', 'hold array_record or tfrecord files', f'{file_format} in {folder}'
        )
    features = builder.info.features
    for key in ('image', 'label'):
        if key not in features:
            held = ', '.join(sorted(features))
            raise errors.invalid('name', f'name data with the feature {key}', f'only: {held}')
    image = features['image']
    if None in image.shape or image.np_dtype != np.uint8:
        got = f'{np.dtype(image.np_dtype)}{list(image.shape)}'
        raise errors.invalid('name', 'name images of one shape in uint8', got)
    return builder


def _read(builder: Any, train: Sequence[str], test: Sequence[str]) -> Arrays:
    arrays = {'num_classes': np.asarray(_num_classes(builder))}
    for part, splits in (('train', train), ('test', test)):
        sizes = [builder.info.splits[split].num_examples for split in splits]
        images = np.empty((sum(sizes), *builder.info.features['image'].shape), np.uint8)
        labels = np.empty(sum(sizes), np.int32)
        row = 0
        for split, size in zip(splits, sizes, strict=True):
            end = row + size
            for chunk in _chunks(builder, split):
                if row + len(chunk) > end:
                    raise _wrong_count(builder, split, f'more than {size}')
                for example in chunk:
                    _check_example(builder, split, row - end + size, example)
                    images[row], labels[row] = example['image'], example['label']
                    row += 1
            if row != end:
                raise _wrong_count(builder, split, f'{row - end + size} instead of {size}')
        arrays |= {f'{part}_features': images, f'{part}_labels': labels}
    return arrays


def _chunks(builder: Any, split: str) -> Iterator[Sequence[Mapping[str, Any]]]:
    if builder.info.file_format.value == 'array_record':
        source = builder.as_data_source(split)
        for start in range(0, len(source), _CHUNK):
            numbers = list(range(start, min(start + _CHUNK, len(source))))
            yield _decoded(source.__getitems__, numbers, split, f'{start} to {numbers[-1]}')
        return
    decode = builder.info.features.deserialize_example_np
    for file in builder.info.splits[split].filepaths:
        number = 0
        for records in read_records(pathlib.Path(file), chunk_size=_CHUNK):
            found = enumerate(records, number)
            yield [_decoded(decode, record, file, str(place)) for place, record in found]
            number += len(records)


def _decoded(decode: Callable[[Any], Any], record: Any, file: str, number: str) -> Any:
    """What a record holds."""
    try:
        return decode(record)
    except Exception as error:  # whatever the decoders make of changed bytes
        said = f'{type(error).__name__}: {errors.one_line(str(error))}'
        got = f'record {number} of {file}, {said}'
        raise errors.invalid('data_dir', 'hold intact records', got) from error


def _check_example(builder: Any, split: str, number: int, example: Mapping[str, Any]) -> None:
    """Raises for an image or a label that is not as described."""
    where = f'in record {number} of {split} of {builder.name}'
    shape, num_classes = builder.info.features['image'].shape, _num_classes(builder)
    if np.shape(example['image']) != tuple(shape):
        got = f'{list(np.shape(example["image"]))} {where}'
        raise errors.invalid('data_dir', f'hold images of shape {list(shape)}', got)
    if not 0 <= example['label'] < num_classes:
        requirement = f'hold labels from 0 to {num_classes - 1}'
        raise errors.invalid('data_dir', requirement, f'{example["label"]} {where}')


def _num_classes(builder: Any) -> int:
    return int(builder.info.features['label'].num_classes)


def _wrong_count(builder: Any, split: str, found: str) -> ValueError:
    return errors.invalid(
        'data_dir', f'hold {builder.name} as described', f'{found} examples of {split}'
    )
