"""The publishers' file formats, read into plain arrays; nothing is unpickled.

Every reader takes the folder of the published files, whose checksums hold, and returns arrays under
the keys of `from_npz`, pixels as uint8.
"""

import gzip
import pathlib
import tarfile
import zipfile

import numpy as np

from fedjax_links.problems.datasets.npz import Arrays


def read_mnist(folder: pathlib.Path) -> Arrays:
    """Four IDX files: MNIST, and what was published in its likeness."""
    parts = {'train': 'train', 'test': 't10k'}
    return {
        key: _idx((folder / f'{stem}-{kind}-ubyte.gz').read_bytes())
        for part, stem in parts.items()
        for key, kind in ((f'{part}_features', 'images-idx3'), (f'{part}_labels', 'labels-idx1'))
    }


def read_emnist(folder: pathlib.Path) -> Arrays:
    """The balanced part of EMNIST, four IDX files in ``gzip.zip`` of images that are transposed."""
    arrays = {}
    with zipfile.ZipFile(folder / 'gzip.zip') as archive:
        for split in ('train', 'test'):
            stem = f'gzip/emnist-balanced-{split}'
            images, labels = (
                _idx(archive.read(f'{stem}-{kind}-ubyte.gz'))
                for kind in ('images-idx3', 'labels-idx1')
            )
            arrays[f'{split}_features'] = np.ascontiguousarray(images.swapaxes(1, 2))
            arrays[f'{split}_labels'] = labels
    return arrays


def read_cifar10(folder: pathlib.Path) -> Arrays:
    """The binary version of CIFAR-10: records of a label and 3 x 32 x 32 pixels."""
    arrays = {}
    with tarfile.open(folder / 'cifar-10-binary.tar.gz') as tar:
        held = {
            pathlib.PurePath(member.name).name: np.frombuffer(file.read(), np.uint8)
            for member in tar
            if (file := tar.extractfile(member))
        }
    batches = [held[f'data_batch_{k}.bin'] for k in range(1, 6)]
    for part, bytes_ in (('train', np.concatenate(batches)), ('test', held['test_batch.bin'])):
        records = bytes_.reshape(-1, 1 + 3 * 32 * 32)
        images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays[f'{part}_features'] = np.ascontiguousarray(images)
        arrays[f'{part}_labels'] = records[:, 0].astype(np.int32)
    return arrays


def read_svhn(folder: pathlib.Path) -> Arrays:
    """Cropped house numbers: ``X`` [32, 32, 3, E] and ``y`` [E, 1], where 10 is the digit 0."""
    import scipy.io  # slow to import, so only here

    arrays = {}
    for part in ('train', 'test'):
        held = scipy.io.loadmat(folder / f'{part}_32x32.mat')
        arrays[f'{part}_features'] = np.ascontiguousarray(held['X'].transpose(3, 0, 1, 2))
        arrays[f'{part}_labels'] = (held['y'].ravel() % 10).astype(np.int32)
    return arrays


def read_cinic10(folder: pathlib.Path) -> Arrays:
    """CINIC-10, ``<split>/<class>/*.png`` in ``CINIC-10.tar.gz``, sorted by class and name."""
    from PIL import Image  # slow to import, so only here

    found: dict[str, list[tuple[str, str, np.ndarray]]] = {'train': [], 'test': []}
    with tarfile.open(folder / 'CINIC-10.tar.gz') as tar:
        for member in tar:
            split, label, name = ('', '', *pathlib.PurePath(member.name).parts)[-3:]
            file = tar.extractfile(member)
            if file and split in found and name.endswith('.png'):
                pixels = np.asarray(Image.open(file).convert('RGB'))
                found[split].append((label, name, pixels))
    classes = sorted({label for label, _, _ in found['train']})
    arrays = {}
    for part, rows in found.items():
        rows.sort(key=lambda row: row[:2])
        arrays[f'{part}_features'] = np.stack([pixels for _, _, pixels in rows])
        labels = [classes.index(label) for label, _, _ in rows]
        arrays[f'{part}_labels'] = np.array(labels, np.int32)
    return arrays


def _idx(data: bytes) -> np.ndarray:
    """IDX: two zeros, 8 for unsigned bytes, the rank, big-endian dimensions, then the entries.

    Images come out as [E, height, width, 1], labels as int32[E].
    """
    data = gzip.decompress(data)
    rank = data[3]
    shape = np.frombuffer(data, '>u4', rank, offset=4)
    array = np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)
    return array.astype(np.int32) if rank == 1 else array[..., None]
