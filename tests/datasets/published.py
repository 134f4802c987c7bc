"""Tiny data sets in the publishers' formats, written here from their descriptions."""

import gzip
import hashlib
import io
import struct
import tarfile
import zipfile

import numpy as np

from fedjax_links.datasets.publishers import RECIPES, File

CLASSES = 'airplane automobile bird cat deer dog frog horse ship truck'.split()  # noqa: SIM905
TRAIN = 20
TEST = 10


def draw(number, shape, num_classes, seed):
    """Draws pixels, and numbers the labels in turn."""
    pixels = np.random.default_rng(seed).integers(
        0, 256, (number, *shape), dtype=np.uint8
    )
    return pixels, np.arange(number) % num_classes


def idx(array):
    """Encodes: two zeros, 8 for unsigned bytes, the rank, big-endian dimensions, the entries."""
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f'>{array.ndim}I', *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_mnist(folder):
    """Writes four files; returns images and labels by split."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {}
    for seed, (split, stem, number) in enumerate(
        [('train', 'train', TRAIN), ('test', 't10k', TEST)]
    ):
        images, labels = parts[split] = draw(number, (28, 28, 1), 10, seed)
        for kind, array in (('images', images[..., 0]), ('labels', labels)):
            name = f'{stem}-{kind}-idx{array.ndim}-ubyte.gz'
            (folder / name).write_bytes(gzip.compress(idx(array), mtime=0))
    return parts


def write_emnist(folder):
    """Writes the archive of gzipped files with transposed images; returns them upright."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {}
    with zipfile.ZipFile(folder / 'gzip.zip', 'w') as archive:
        for seed, (split, number) in enumerate([('train', TRAIN), ('test', TEST)]):
            images, labels = draw(number, (28, 28, 1), 47, seed)
            parts[split] = images, labels
            for kind, array in (
                ('images', images[..., 0].transpose(0, 2, 1)),
                ('labels', labels),
            ):
                name = f'gzip/emnist-balanced-{split}-{kind}-idx{array.ndim}-ubyte.gz'
                archive.writestr(name, gzip.compress(idx(array), mtime=0))
    return parts


def planes(image):
    """Encodes an image: all red pixels, then green ones, then blue ones."""
    return image.transpose(2, 0, 1).tobytes()


def write_cifar10(folder):
    """Writes six batches of records: a label, then all red pixels, green ones, blue ones."""
    folder.mkdir(parents=True, exist_ok=True)
    train = draw(TRAIN, (32, 32, 3), 10, 0)
    test = draw(TEST, (32, 32, 3), 10, 1)
    batches = {'test_batch.bin': test}
    pixels, labels = (np.split(array, 5) for array in train)
    for k in range(5):
        batches[f'data_batch_{k + 1}.bin'] = pixels[k], labels[k]
    files = {}
    for name, batch in batches.items():
        records = [
            bytes([label]) + planes(image) for image, label in zip(*batch, strict=True)
        ]
        files[f'cifar-10-batches-bin/{name}'] = b''.join(records)
    _pack(folder / 'cifar-10-binary.tar.gz', files)
    return {'train': train, 'test': test}


def write_cifar100(folder):
    """Writes two files of records: a superclass, a class, then red, green and blue pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        'train': draw(TRAIN, (32, 32, 3), 100, 0),
        'test': draw(TEST, (32, 32, 3), 100, 1),
    }
    files = {}
    for part, examples in parts.items():
        records = [
            bytes([19, label]) + planes(image)
            for image, label in zip(*examples, strict=True)
        ]
        files[f'cifar-100-binary/{part}.bin'] = b''.join(records)
    _pack(folder / 'cifar-100-binary.tar.gz', files)
    return parts


def write_svhn(folder, *splits):
    """Writes MATLAB files: ``X`` [32, 32, 3, E] and ``y`` [E, 1], where 10 is the digit 0."""
    import scipy.io

    folder.mkdir(parents=True, exist_ok=True)
    parts = {}
    for seed, split in enumerate(splits):
        number = TEST if split == 'test' else TRAIN
        images, labels = parts[split] = draw(number, (32, 32, 3), 10, seed)
        arrays = {
            'X': images.transpose(1, 2, 3, 0),
            'y': np.where(labels == 0, 10, labels)[:, None].astype(np.uint8),
        }
        scipy.io.savemat(folder / f'{split}_32x32.mat', arrays, do_compression=True)
    return parts


def write_cinic10(folder):
    """Writes PNG images by split and class; returns each split in the order of class and name."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    parts = {}
    files = {}
    for seed, split in enumerate(('train', 'valid', 'test')):
        pixels, _ = draw(TRAIN, (32, 32, 3), 10, seed)
        labels = np.repeat(np.arange(10), 2)
        for k, (image, label) in enumerate(zip(pixels, labels, strict=True)):
            stream = io.BytesIO()
            Image.fromarray(image).save(stream, 'PNG')
            files[f'{split}/{CLASSES[label]}/x-{k:02}.png'] = stream.getvalue()
        parts[split] = pixels, labels
    files['README.md'] = b'what it is'
    backwards = {f'./{name}': files[name] for name in sorted(files, reverse=True)}
    _pack(folder / 'CINIC-10.tar.gz', backwards)
    return parts


def _pack(path, files):
    with tarfile.open(path, 'w:gz') as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def replace_files(monkeypatch, name, folder):
    """Has a recipe expect the files of such a tiny set, with their sizes and digests."""
    recipe = RECIPES[name]
    files = []
    for file in recipe.files:
        data = (folder / file.name).read_bytes()
        kind = file.digest.partition(':')[0] or 'sha256'
        digest = f'{kind}:{hashlib.new(kind, data).hexdigest()}'
        files.append(File(file.url, len(data), digest))
    recipe = recipe._replace(files=tuple(files))
    monkeypatch.setitem(RECIPES, name, recipe)
    return recipe
