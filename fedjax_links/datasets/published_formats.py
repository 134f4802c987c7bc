"""Reads data sets in the files that their publishers distribute.

A reader takes the folder of the published files and returns what a `Dataset` is made of, pixels as
uint8. Nothing is unpickled. Data with owners (the client that has each example) are read a part at
a time, with the number and name of every owner.
"""

import csv
import dataclasses
import gzip
import io
import itertools
import pathlib
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import errors
from fedjax_links.datasets import characters, columns
from fedjax_links.datasets.npz import Arrays

# How many examples with owners are read and converted at a time.
_CHUNK = 4096
_GZIP_MAGIC = b'\x1f\x8b'


def find_file(folder: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of a published file, or of its uncompressed form if only that is there.

    Args:
      folder: where the file should be.
      name: the file's name as published, such as ``train-images-idx3-ubyte.gz``.
    """
    file = folder / name
    raw = folder / name.removesuffix('.gz')
    return raw if raw.is_file() and not file.exists() else file


def read_mnist(folder: pathlib.Path) -> Arrays:
    """Reads four IDX files, gzipped or not: MNIST, or another data set with its file names."""
    return _read_idx(
        lambda name: find_file(folder, name).read_bytes(), train='train', test='t10k'
    )


def read_emnist(folder: pathlib.Path) -> Arrays:
    """Reads the balanced part of EMNIST: IDX files of transposed images in ``gzip.zip``."""
    stem = 'gzip/emnist-balanced'
    with zipfile.ZipFile(folder / 'gzip.zip') as archive:
        arrays = _read_idx(archive.read, train=f'{stem}-train', test=f'{stem}-test')
    for key in ('train_features', 'test_features'):
        arrays[key] = np.ascontiguousarray(arrays[key].swapaxes(1, 2))
    return arrays


def read_cifar10(folder: pathlib.Path) -> Arrays:
    """Reads the binary version of CIFAR-10: records of a label and 3 x 32 x 32 pixels."""
    train = [f'data_batch_{k}.bin' for k in range(1, 6)]
    return _read_cifar(
        folder / 'cifar-10-binary.tar.gz', 1, train=train, test=['test_batch.bin']
    )


def read_cifar100(folder: pathlib.Path) -> Arrays:
    """Reads the binary version of CIFAR-100: records of superclass, class and pixels.

    The superclass is left out, as the class decides it (`partition.label_shares.CIFAR100_COARSE`).
    """
    archive = folder / 'cifar-100-binary.tar.gz'
    return _read_cifar(archive, 2, train=['train.bin'], test=['test.bin'])


def _read_cifar(
    archive: pathlib.Path, num_labels: int, **batches: Sequence[str]
) -> Arrays:
    """Reads records of labels, then red, green and blue pixels; the last label is used."""
    arrays = {}
    with tarfile.open(archive) as tar:
        files: dict[str, Any] = {}
        for member in tar:
            files[pathlib.PurePath(member.name).name] = tar.extractfile(member)
        for part, names in batches.items():
            data = b''.join(files[name].read() for name in names)
            records = np.frombuffer(data, np.uint8).reshape(
                -1, num_labels + 3 * 32 * 32
            )
            images = (
                records[:, num_labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            )
            arrays[f'{part}_features'] = np.ascontiguousarray(images)
            arrays[f'{part}_labels'] = records[:, num_labels - 1].astype(np.int32)
    return arrays


def read_svhn(folder: pathlib.Path) -> Arrays:
    """Reads cropped house numbers: ``X`` [32, 32, 3, E] and ``y`` [E, 1], 10 for digit 0."""
    import scipy.io  # slow to import, so only here

    arrays = {}
    for part in ('train', 'test'):
        matrices = scipy.io.loadmat(folder / f'{part}_32x32.mat')
        images = matrices['X'].transpose(3, 0, 1, 2)
        arrays[f'{part}_features'] = np.ascontiguousarray(images)
        arrays[f'{part}_labels'] = (matrices['y'].ravel() % 10).astype(np.int32)
    return arrays


def read_cinic10(folder: pathlib.Path) -> Arrays:
    """Reads CINIC-10: ``<split>/<class>/*.png`` in ``CINIC-10.tar.gz``, sorted.

    Its validation part of 90,000 images is left out.
    """
    from PIL import Image  # slow to import, so only here

    images: dict[str, dict[tuple[str, str], np.ndarray]] = {'train': {}, 'test': {}}
    with tarfile.open(folder / 'CINIC-10.tar.gz') as tar:
        for member in tar:
            path = pathlib.PurePath(member.name)
            split = path.parent.parent.name
            label = path.parent.name
            file = tar.extractfile(member)
            if file and split in images and path.suffix == '.png':
                images[split][label, path.name] = np.asarray(
                    Image.open(file).convert('RGB')
                )
    classes = sorted({label for label, _ in images['train']})
    arrays = {}
    for part, image_of in images.items():
        keys = sorted(image_of)
        arrays[f'{part}_features'] = np.stack([image_of[key] for key in keys])
        labels = [classes.index(label) for label, _ in keys]
        arrays[f'{part}_labels'] = np.array(labels, np.int32)
    return arrays


def _read_idx(read: Callable[[str], bytes], **stems: str) -> dict[str, np.ndarray]:
    """Reads IDX files of images and labels, by the stem of each part's names.

    Images come out as [E, height, width, 1], labels as int32[E].
    """
    arrays = {}
    for part, stem in stems.items():
        images = _parse_idx(read(f'{stem}-images-idx3-ubyte.gz'), rank=3)
        labels = _parse_idx(read(f'{stem}-labels-idx1-ubyte.gz'), rank=1)
        arrays[f'{part}_features'] = images[..., None]
        arrays[f'{part}_labels'] = labels.astype(np.int32)
    return arrays


def _parse_idx(content: bytes, *, rank: int) -> np.ndarray:
    """Parses an IDX file: two zeros, 8 for unsigned bytes, the rank, dimensions, entries.

    Args:
      content: the file, gzipped or not; dimensions are big-endian numbers of 32 bits.
      rank: number of dimensions.

    Raises:
      ValueError: if the file is another one, or too short or too long.
    """
    if content.startswith(_GZIP_MAGIC):
        content = gzip.decompress(content)
    header_size = 4 * (1 + rank)
    if content[:4] != bytes([0, 0, 8, rank]) or len(content) < header_size:
        message = f'no IDX file of {rank} dimensions'
        raise ValueError(message)
    shape = np.frombuffer(content[4:header_size], '>u4').astype(int)
    return np.frombuffer(content, np.uint8, offset=header_size).reshape(shape)


class _Owners(dict[str, int]):
    """Numbers owners in the order in which their names come up."""

    def number(self, names: Iterable[object]) -> list[int]:
        """Returns the number of each name, a new one for a new name."""
        return [self.setdefault(str(name), len(self)) for name in names]


@dataclasses.dataclass(frozen=True)
class OwnedImages:
    """Reads parquet files as Hugging Face's `datasets` writes them, images as encoded bytes.

    Attributes:
      label: column of the classes.
      owner: column of the owners.
      shape: height, width and channels; images of another size are cut to these proportions about
        their centre, and then scaled.
      num_classes: C.
      train: splits that make the training data, one after the other.
      test: splits that make the test data, if any.
    """

    label: str
    owner: str
    shape: tuple[int, int, int]
    num_classes: int
    train: Sequence[str] = ('train',)
    test: Sequence[str] = ()

    def __call__(self, folder: pathlib.Path) -> Arrays:
        """Reads ``<split>-*.parquet`` in the order of their names."""
        try:
            from pyarrow import parquet  # slow to import, so only here
        except ImportError as error:
            packages = "'fedjax_links[natural]'"
            purpose = 'parquet files need pyarrow'
            raise errors.missing_package(purpose, packages) from error
        arrays: dict[str, Any] = {}
        owners = _Owners()
        for part, splits in (('train', self.train), ('test', self.test)):
            files: list[Any] = []
            for split in splits:
                paths = sorted(folder.glob(f'{split}-*.parquet'))
                files += [parquet.ParquetFile(path) for path in paths]
            if files:
                arrays |= self._read(part, files, owners)
            elif part == 'train':
                raise errors.invalid('mirror', f'hold {splits[0]}-*.parquet', folder)
        return arrays | {'num_classes': self.num_classes, 'client_names': list(owners)}

    def _read(self, part: str, files: Sequence[Any], owners: _Owners) -> Arrays:
        """Decodes features, labels and clients, a chunk of encoded images at a time."""
        count = sum(file.metadata.num_rows for file in files)
        pixels = np.empty((count, *self.shape), np.uint8)
        labels = np.empty(count, np.int32)
        clients = np.empty(count, np.int32)
        names = ['image', self.label, self.owner]
        start = 0
        for file in files:
            for batch in file.iter_batches(_CHUNK, columns=names):
                rows = slice(start, start + batch.num_rows)
                for row, image in enumerate(batch['image'], start):
                    pixels[row] = self._decode(image['bytes'].as_py())
                labels[rows] = batch[self.label].to_numpy(zero_copy_only=False)
                clients[rows] = owners.number(batch[self.owner].to_pylist())
                start += batch.num_rows
        return {
            f'{part}_features': pixels,
            f'{part}_labels': labels,
            f'{part}_clients': clients,
        }

    def _decode(self, encoded: bytes) -> np.ndarray:
        """Decodes an image in PNG or JPEG to uint8[height, width, channels]."""
        from PIL import Image, ImageOps  # slow to import, so only here

        height, width, channels = self.shape
        with Image.open(io.BytesIO(encoded)) as image:
            # Conversion would clip values of more than 8 bits.
            if columns.is_deep(image):
                message = f'an image of more than 8 bits a channel, {image.mode}'
                raise ValueError(message)
            decoded = image.convert('L' if channels == 1 else 'RGB')
        if decoded.size != (width, height):
            decoded = ImageOps.fit(decoded, (width, height))
        return np.asarray(decoded).reshape(self.shape)


def read_texts(folder: pathlib.Path) -> Arrays:
    """Reads Shakespeare, ``character_id,x,y`` in CSV: a text and the character that follows."""
    owners = _Owners()
    features: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    clients: list[list[int]] = []
    for file in sorted(folder.glob('*.csv')):
        with open(file, encoding='utf-8', newline='') as lines:
            rows = csv.DictReader(lines)
            while chunk := list(itertools.islice(rows, _CHUNK)):
                features.append(characters.encode([row['x'] for row in chunk]))
                labels.append(characters.encode_next([row['y'] for row in chunk]))
                clients.append(owners.number(row['character_id'] for row in chunk))
    if not features:
        raise errors.invalid('mirror', 'hold shakespeare.csv', folder)
    return {
        'train_features': np.concatenate(features),
        'train_labels': np.concatenate(labels),
        'train_clients': np.concatenate(clients),
        'num_classes': characters.NUM_TOKENS,
        'client_names': list(owners),
    }
