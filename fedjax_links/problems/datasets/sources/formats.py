"""The publishers' file formats, read into plain arrays; nothing is unpickled.

Every reader takes the folder of the published files, whose checksums hold, and returns what a
`Dataset` is made of, pixels as uint8.
"""

import gzip
import pathlib
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedjax_links.problems.datasets.npz import Arrays


def read_mnist(folder: pathlib.Path) -> Arrays:
    """Four IDX files: MNIST, and what was published in its likeness."""
    return _read_idx(lambda name: (folder / name).read_bytes(), train='train', test='t10k')


def read_emnist(folder: pathlib.Path) -> Arrays:
    """The balanced part of EMNIST, four IDX files in ``gzip.zip`` of images that are transposed."""
    stem = 'gzip/emnist-balanced'
    with zipfile.ZipFile(folder / 'gzip.zip') as archive:
        arrays = _read_idx(archive.read, train=f'{stem}-train', test=f'{stem}-test')
    for key in ('train_features', 'test_features'):
        arrays[key] = np.ascontiguousarray(arrays[key].swapaxes(1, 2))
    return arrays


def read_cifar10(folder: pathlib.Path) -> Arrays:
    """The binary version of CIFAR-10: records of a label and 3 x 32 x 32 pixels."""
    batches = {'train': [f'data_batch_{k}.bin' for k in range(1, 6)], 'test': ['test_batch.bin']}
    return _read_cifar(folder / 'cifar-10-binary.tar.gz', batches, num_labels=1)


def read_cifar100(folder: pathlib.Path) -> Arrays:
    """The binary version of CIFAR-100: records of a superclass, a class and the pixels.

    The superclass goes by the class (`shares.CIFAR100_COARSE`) and is left out.
    """
    batches = {'train': ['train.bin'], 'test': ['test.bin']}
    return _read_cifar(folder / 'cifar-100-binary.tar.gz', batches, num_labels=2)


def _read_cifar(
    archive: pathlib.Path, batches: Mapping[str, Sequence[str]], num_labels: int
) -> Arrays:
    """Records of labels, the last of which is taken, and of all red pixels, green ones, blue."""
    arrays = {}
    with tarfile.open(archive) as tar:
        held = {
            pathlib.PurePath(member.name).name: np.frombuffer(file.read(), np.uint8)
            for member in tar
            if (file := tar.extractfile(member))
        }
    for part, names in batches.items():
        records = np.concatenate([held[name] for name in names])
        records = records.reshape(-1, num_labels + 3 * 32 * 32)
        images = records[:, num_labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays[f'{part}_features'] = np.ascontiguousarray(images)
        arrays[f'{part}_labels'] = records[:, num_labels - 1].astype(np.int32)
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


def _read_idx(read: Callable[[str], bytes], **stems: str) -> dict[str, np.ndarray]:
    """Gzipped IDX files of images and labels, by the stem of each part's names.

    IDX: two zeros, 8 for unsigned bytes, the rank, big-endian dimensions, then the entries. Images
    come out as [E, height, width, 1], labels as int32[E].
    """
    arrays = {}
    for part, stem in stems.items():
        images = np.frombuffer(gzip.decompress(read(f'{stem}-images-idx3-ubyte.gz')), np.uint8)
        labels = np.frombuffer(gzip.decompress(read(f'{stem}-labels-idx1-ubyte.gz')), np.uint8)
        arrays[f'{part}_features'] = images[16:].reshape(*images[:16].view('>u4')[1:], 1)
        arrays[f'{part}_labels'] = labels[8:].astype(np.int32)
    return arrays
