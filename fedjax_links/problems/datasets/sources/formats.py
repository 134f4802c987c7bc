"""The publishers' file formats, read into plain arrays; nothing is unpickled.

Every reader takes a file or a folder, at any depth of which its files may lie, and returns arrays
under the keys of `from_npz`, pixels as uint8.
"""

import contextlib
import gzip
import math
import os
import pathlib
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence

import numpy as np

from fedjax_links.core import errors
from fedjax_links.problems.datasets.npz import Arrays
from fedjax_links.problems.datasets.png_tree import read_tree

_CIFAR10_RECORD = 1 + 32 * 32 * 3


def read_mnist(source: pathlib.Path) -> Arrays:
    """Four IDX files, gzipped or not: MNIST, and what was published in its likeness."""
    return _idx_set(source, 'train', 't10k')


def read_emnist(source: pathlib.Path, *, part: str) -> Arrays:
    """A part of EMNIST: four IDX files, gzipped or not, or the publisher's ``gzip.zip``.

    The published images are transposed, and letters numbered from 1; both are undone.
    """
    arrays = _idx_set(source, f'emnist-{part}-train', f'emnist-{part}-test')
    for split in ('train', 'test'):
        images = arrays[f'{split}_features']
        arrays[f'{split}_features'] = np.ascontiguousarray(images.swapaxes(1, 2))
        arrays[f'{split}_labels'] -= np.int32(part == 'letters')
    return arrays


def read_cifar10(source: pathlib.Path) -> Arrays:
    """The binary version of CIFAR-10, as ``cifar-10-binary.tar.gz`` or unpacked."""
    names = [*(f'data_batch_{k}.bin' for k in range(1, 6)), 'test_batch.bin']
    archive = find(source, ['cifar-10-binary.tar.gz', 'cifar-10-binary.tar'])
    files = {name: find(source, [name]) for name in names}
    if archive is not None and None in files.values():
        with _intact(archive), tarfile.open(archive) as tar:
            members = {pathlib.PurePath(member.name).name: member for member in tar}
            missing = [name for name in names if name not in members]
            if missing:
                raise EOFError(f'no {missing[0]} in it')
            streams = {name: tar.extractfile(members[name]) for name in names}
            found = {name: file.read() if file else b'' for name, file in streams.items()}
    else:
        if find(source, ['data_batch_1', 'cifar-10-python.tar.gz']):
            requirement = 'hold the binary version of CIFAR-10 (cifar-10-binary.tar.gz)'
            raise errors.invalid('source', requirement, 'pickles, which run code when read')
        found = {name: _needed(source, [name]).read_bytes() for name in names}
    batches = [_cifar10_batch(name, found[name], source) for name in names]
    images, labels = ([batch[k] for batch in batches] for k in range(2))
    return {
        'train_features': np.concatenate(images[:5]),
        'train_labels': np.concatenate(labels[:5]),
        'test_features': images[5],
        'test_labels': labels[5],
    }


def read_svhn(source: pathlib.Path, *, train: Sequence[str]) -> Arrays:
    """Cropped house numbers: ``train_32x32.mat``, ``test_32x32.mat`` and ``extra_32x32.mat``.

    Args:
      source: file or folder.
      train: the files that make the training data, one after the other.
    """
    parts = {split: _svhn_file(_needed(source, [f'{split}_32x32.mat'])) for split in train}
    test = _svhn_file(_needed(source, ['test_32x32.mat']))
    features, labels = ([part[k] for part in parts.values()] for k in range(2))
    return {
        'train_features': np.concatenate(features),
        'train_labels': np.concatenate(labels),
        'test_features': test[0],
        'test_labels': test[1],
    }


def read_cinic10(source: pathlib.Path, *, train: Sequence[str]) -> Arrays:
    """CINIC-10, as ``CINIC-10.tar.gz`` or as its tree ``<split>/<class>/*.png``.

    Args:
      source: file or folder.
      train: the splits that make the training data, one after the other.
    """
    for root in (source, source / 'CINIC-10', source / 'cinic10'):
        if (root / 'train').is_dir():
            return read_tree(root, train, ['test'])
    archive = _needed(source, ['CINIC-10.tar.gz', 'CINIC-10.tar'])
    with _intact(archive), tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter='data')
        return read_tree(pathlib.Path(folder), train, ['test'])


def find(source: pathlib.Path, names: Sequence[str]) -> pathlib.Path | None:
    """The first file of one of these names, the source itself or in it; None if there is none."""
    if source.is_file():
        return source if source.name in names else None
    found: dict[str, pathlib.Path] = {}
    for folder, _, files in os.walk(source):
        for name in names:
            if name in files:
                found.setdefault(name, pathlib.Path(folder) / name)
    return next((found[name] for name in names if name in found), None)


def _needed(source: pathlib.Path, names: Sequence[str]) -> pathlib.Path:
    path = find(source, names)
    if path is None:
        raise errors.invalid('source', f'hold {" or ".join(names)}', f'none in {source}')
    return path


@contextlib.contextmanager
def _intact(path: pathlib.Path) -> Iterator[None]:
    """Makes whatever a decoder says of damaged bytes one line."""
    try:
        yield
    except errors.MissingPackageError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not the bytes
            raise
        said = errors.one_line(f'{type(error).__name__}: {error}')
        raise errors.invalid('source', f'hold intact files ({said})', path) from error


def _idx_set(source: pathlib.Path, train: str, test: str) -> dict[str, np.ndarray]:
    arrays = {}
    for part, stem in (('train', train), ('test', test)):
        arrays[f'{part}_features'] = _idx_file(source, f'{stem}-images', 3)[..., None]
        arrays[f'{part}_labels'] = _idx_file(source, f'{stem}-labels', 1).astype(np.int32)
    return arrays


def _idx_file(source: pathlib.Path, stem: str, rank: int) -> np.ndarray:
    """The array of a file in the folder, or else in the archive that lies there."""
    names = [f'{stem}{between}idx{rank}-ubyte' for between in '-.']
    names += [f'{name}.gz' for name in names]
    archive = find(source, ['gzip.zip'])
    if archive is None or find(source, names) is not None:
        path = _needed(source, names)
        with _intact(path):
            return _idx(path.read_bytes(), rank)
    with _intact(archive), zipfile.ZipFile(archive) as file:
        members = [m for m in file.namelist() if pathlib.PurePath(m).name in names]
        if not members:
            raise EOFError(f'no {names[-2]} in it')
        return _idx(file.read(members[0]), rank)


def _idx(data: bytes, rank: int) -> np.ndarray:
    """IDX: two zeros, 8 for unsigned bytes, the rank, big-endian dimensions, then the entries."""
    if data[:2] == b'\x1f\x8b':
        data = gzip.decompress(data)
    if data[:4] != bytes([0, 0, 8, rank]):
        raise ValueError(f'no IDX file of bytes of rank {rank}')
    shape = struct.unpack(f'>{rank}I', data[4 : 4 + 4 * rank])
    entries = len(data) - 4 - 4 * rank
    if entries != math.prod(shape):
        raise ValueError(f'{entries} bytes for {" x ".join(map(str, shape))}')
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def _cifar10_batch(name: str, data: bytes, source: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Records of a label and 32 x 32 pixels, all red ones first, then green, then blue."""
    if not data or len(data) % _CIFAR10_RECORD:
        requirement = f'hold whole records of {_CIFAR10_RECORD} bytes in {name}'
        raise errors.invalid('source', requirement, f'{len(data)} bytes in {source}')
    records = np.frombuffer(data, np.uint8).reshape(-1, _CIFAR10_RECORD)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].astype(np.int32)


def _svhn_file(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """``X`` [32, 32, 3, E] and ``y`` [E, 1], where 10 stands for the digit 0."""
    import scipy.io  # slow to import, so only here

    with _intact(path):
        held = scipy.io.loadmat(os.fspath(path), variable_names=['X', 'y'])
        X, y = held['X'], held['y'].reshape(-1)
        if X.ndim != 4 or len(y) != X.shape[-1]:
            raise ValueError(f'X of shape {list(X.shape)} and {len(y)} labels')
    labels = y.astype(np.int32)
    return np.ascontiguousarray(X.transpose(3, 0, 1, 2)), np.where(labels == 10, 0, labels)
