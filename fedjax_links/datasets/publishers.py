"""Published data, from the publishers' own files to the npz that `images` and `text` read.

`fetch` downloads, verifies and converts, and leaves no half a file. `RECIPES` holds, by name, what
is published: addresses, checksums, how it is read. Addresses, sizes and SHA-256 stand in
``files.csv``, as TensorFlow Datasets or the publisher records them. Of CINIC-10 an MD5 alone is on
record, of Fed-ISIC 2019 and half of CelebA's files nothing but the revision that stands in their
addresses; sizes of these are approximate.

Every reader takes the folder of the published files, whose checksums hold, and returns what a
`Dataset` is made of, pixels as uint8; nothing is unpickled. Data with owners are read piece by
piece, with the number and name of every owner.
"""

import csv
import dataclasses
import gzip
import io
import itertools
import pathlib
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.datasets import characters
from fedjax_links.datasets.npz import Arrays, Dataset, PathLike, npz_file, save_npz

_CHUNK = 4096  # examples with owners that are held as the file has them


class File(NamedTuple):
    """A published file.

    Attributes:
      url: its address; the part after the last slash is its name on a mirror and on the disk.
      size: bytes.
      digest: ``'sha256:...'`` or ``'md5:...'``, as published; empty where none is on record.
    """

    url: str
    size: int
    digest: str

    @property
    def name(self) -> str:
        """The part of the address after the last slash."""
        return self.url.rpartition('/')[2]


class Recipe(NamedTuple):
    """How a data set is made of published files.

    Attributes:
      files: what is downloaded.
      read: from the folder of the files to what a `Dataset` is made of, pixels as uint8.
    """

    files: tuple[File, ...]
    read: Callable[[pathlib.Path], Arrays]


def read_mnist(folder: pathlib.Path) -> Arrays:
    """Four IDX files: MNIST, and what was published in its likeness."""
    return _read_idx(
        lambda name: (folder / name).read_bytes(), train='train', test='t10k'
    )


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
    train = [f'data_batch_{k}.bin' for k in range(1, 6)]
    return _read_cifar(
        folder / 'cifar-10-binary.tar.gz', 1, train=train, test=['test_batch.bin']
    )


def read_cifar100(folder: pathlib.Path) -> Arrays:
    """The binary version of CIFAR-100: records of a superclass, a class and the pixels.

    The superclass goes by the class (`shares.CIFAR100_COARSE`) and is left out.
    """
    archive = folder / 'cifar-100-binary.tar.gz'
    return _read_cifar(archive, 2, train=['train.bin'], test=['test.bin'])


def _read_cifar(
    archive: pathlib.Path, num_labels: int, **batches: Sequence[str]
) -> Arrays:
    """Records of labels, the last of which is taken, and of all red pixels, green ones, blue."""
    arrays = {}
    with tarfile.open(archive) as tar:
        files: Any = {pathlib.PurePath(it.name).name: tar.extractfile(it) for it in tar}
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
    """Cropped house numbers: ``X`` [32, 32, 3, E] and ``y`` [E, 1], where 10 is the digit 0."""
    import scipy.io  # slow to import, so only here

    arrays = {}
    for part in ('train', 'test'):
        held = scipy.io.loadmat(folder / f'{part}_32x32.mat')
        arrays[f'{part}_features'] = np.ascontiguousarray(
            held['X'].transpose(3, 0, 1, 2)
        )
        arrays[f'{part}_labels'] = (held['y'].ravel() % 10).astype(np.int32)
    return arrays


def read_cinic10(folder: pathlib.Path) -> Arrays:
    """CINIC-10, ``<split>/<class>/*.png`` in ``CINIC-10.tar.gz``, sorted by class and name."""
    from PIL import Image  # slow to import, so only here

    found: dict[str, dict[tuple[str, str], np.ndarray]] = {'train': {}, 'test': {}}
    with tarfile.open(folder / 'CINIC-10.tar.gz') as tar:
        for member in tar:
            split, label, name = ('', '', *pathlib.PurePath(member.name).parts)[-3:]
            file = tar.extractfile(member)
            if file and split in found and name.endswith('.png'):
                found[split][label, name] = np.asarray(Image.open(file).convert('RGB'))
    classes = sorted({label for label, _ in found['train']})
    arrays = {}
    for part, images in found.items():
        arrays[f'{part}_features'] = np.stack(
            [images[place] for place in sorted(images)]
        )
        labels = [classes.index(label) for label, _ in sorted(images)]
        arrays[f'{part}_labels'] = np.array(labels, np.int32)
    return arrays


def _read_idx(read: Callable[[str], bytes], **stems: str) -> dict[str, np.ndarray]:
    """Gzipped IDX files of images and labels, by the stem of each part's names.

    IDX: two zeros, 8 for unsigned bytes, the rank, big-endian dimensions, then the entries. Images
    come out as [E, height, width, 1], labels as int32[E].
    """
    arrays = {}
    for part, stem in stems.items():
        images = np.frombuffer(
            gzip.decompress(read(f'{stem}-images-idx3-ubyte.gz')), np.uint8
        )
        labels = np.frombuffer(
            gzip.decompress(read(f'{stem}-labels-idx1-ubyte.gz')), np.uint8
        )
        arrays[f'{part}_features'] = images[16:].reshape(
            *images[:16].view('>u4')[1:], 1
        )
        arrays[f'{part}_labels'] = labels[8:].astype(np.int32)
    return arrays


class _Owners(dict[str, int]):
    """Numbers of names, in the order in which they come up."""

    def number(self, names: Iterable[Any]) -> list[int]:
        return [self.setdefault(str(name), len(self)) for name in names]


@dataclasses.dataclass(frozen=True)
class OwnedImages:
    """Reads parquet files as Hugging Face's `datasets` writes them, images as encoded bytes.

    Attributes:
      label: column of the classes.
      owner: column of the owners.
      shape: height, width and channels; images of another size are cut to these proportions about
        their centre and scaled.
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
        """What the files hold, ``<split>-*.parquet`` in the order of their names."""
        try:
            from pyarrow import parquet  # slow to import, so only here
        except ImportError as error:
            packages = "'fedjax_links[natural]'"
            raise errors.missing_package(
                'parquet files need pyarrow', packages
            ) from error
        arrays: dict[str, Any] = {}
        owners = _Owners()
        for part, splits in (('train', self.train), ('test', self.test)):
            names = [sorted(folder.glob(f'{split}-*.parquet')) for split in splits]
            files = [*map(parquet.ParquetFile, itertools.chain(*names))]
            if files:
                arrays |= self._read(part, files, owners)
            elif part == 'train':
                raise errors.invalid('mirror', f'hold {splits[0]}-*.parquet', folder)
        return arrays | {'num_classes': self.num_classes, 'client_names': [*owners]}

    def _read(self, part: str, files: Sequence[Any], owners: _Owners) -> Arrays:
        """Features, labels and clients, of which a chunk at a time is held as the files have it."""
        count, row = sum(file.metadata.num_rows for file in files), 0
        pixels = np.empty((count, *self.shape), np.uint8)
        labels, clients = np.empty(count, np.int32), np.empty(count, np.int32)
        for file in files:
            for batch in file.iter_batches(
                _CHUNK, columns=['image', self.label, self.owner]
            ):
                rows = slice(row, row := row + batch.num_rows)
                for place, image in zip(
                    range(count)[rows], batch['image'], strict=True
                ):
                    pixels[place] = self._decode(image['bytes'].as_py())
                labels[rows] = batch[self.label].to_numpy(zero_copy_only=False)
                clients[rows] = owners.number(batch[self.owner].to_pylist())
        return {
            f'{part}_features': pixels,
            f'{part}_labels': labels,
            f'{part}_clients': clients,
        }

    def _decode(self, encoded: bytes) -> np.ndarray:
        """uint8[height, width, channels] of an image in PNG or JPEG."""
        from PIL import Image, ImageOps  # slow to import, so only here

        height, width, channels = self.shape
        with Image.open(io.BytesIO(encoded)) as image:
            if image.mode in ('I', 'F') or image.mode.startswith(
                'I;16'
            ):  # would be clipped
                raise ValueError(
                    f'an image of more than 8 bits a channel, {image.mode}'
                )
            decoded = image.convert('L' if channels == 1 else 'RGB')
        if decoded.size != (width, height):
            decoded = ImageOps.fit(decoded, (width, height))
        return np.asarray(decoded).reshape(self.shape)


def read_texts(folder: pathlib.Path) -> Arrays:
    """Shakespeare's lines, ``character_id,x,y`` in CSV: a text, and the character that follows."""
    owners = _Owners()
    parts: list[tuple[np.ndarray, np.ndarray, list[int]]] = []
    for file in sorted(folder.glob('*.csv')):
        with open(file, encoding='utf-8', newline='') as lines:
            rows = csv.DictReader(lines)
            while chunk := [*itertools.islice(rows, _CHUNK)]:
                features = characters.encode([row['x'] for row in chunk])
                labels = characters.encode_next([row['y'] for row in chunk])
                parts.append(
                    (features, labels, owners.number(r['character_id'] for r in chunk))
                )
    if not parts:
        raise errors.invalid('mirror', 'hold shakespeare.csv', folder)
    features, labels, numbers = map(np.concatenate, zip(*parts, strict=True))
    arrays = {
        'train_features': features,
        'train_labels': labels,
        'train_clients': numbers,
    }
    return arrays | {'num_classes': characters.NUM_TOKENS, 'client_names': [*owners]}


_READERS: Mapping[str, Callable[[pathlib.Path], Arrays]] = {
    'mnist': read_mnist,
    'fashion_mnist': read_mnist,
    'emnist': read_emnist,
    'cifar10': read_cifar10,
    'cifar100': read_cifar100,
    'svhn': read_svhn,
    'cinic10': read_cinic10,
    'femnist': OwnedImages('character', 'writer_id', (28, 28, 1), 62),
    'shakespeare': read_texts,
    'celeba': OwnedImages(
        'Smiling', 'celeb_id', (84, 84, 3), 2, train=('train', 'valid', 'test')
    ),
    'fed_isic2019': OwnedImages('label', 'center', (112, 112, 3), 8, test=('test',)),
}
_LISTED = (
    resources.files(__package__)
    .joinpath('files.csv')
    .read_text(encoding='utf-8')
    .splitlines()
)


def _files(name: str) -> tuple[File, ...]:
    """Those that ``files.csv`` lists under a name."""
    rows = [row for row in csv.DictReader(_LISTED) if row['name'] == name]
    return tuple(File(row['url'], int(row['size']), row['digest']) for row in rows)


RECIPES: Mapping[str, Recipe] = {
    name: Recipe(_files(name), read) for name, read in _READERS.items()
}
"""By name; ``emnist`` is its balanced part. The last four have owners."""


def fetch(
    name: str,
    *,
    data_dir: PathLike | None = None,
    mirror: str | None = None,
    progressbar: bool = False,
) -> pathlib.Path:
    """Downloads a data set from its publisher and converts it.

    Files that are there already are kept if their checksums hold.

    Args:
      name: a name in `RECIPES`.
      data_dir: folder of the npz, see `npz.data_root`; the publisher's files go to its
        ``downloads``.
      mirror: address of a folder with files of the same names, to be used in the publisher's place;
        or a folder on this machine, whose files are read as they are, all or some of them.
      progressbar: whether to show how far it is, a line for each file on the standard error.

    Returns:
      The npz.

    Raises:
      ValueError: if the place cannot be reached, breaks off or holds something else, or the disk is
        full.
      ImportError: if pooch is not installed.
    """
    recipe, file = checks.entry('data', name, RECIPES), npz_file(name, data_dir)
    try:
        import pooch  # needed by nothing else
        import requests  # which pooch brings
    except ImportError as error:
        raise errors.missing_package(
            'downloads need pooch', "'fedjax_links[data]'"
        ) from error
    folder, published = file.parent / 'downloads' / name, recipe.files
    if mirror is not None and '://' not in mirror:
        folder, published = pathlib.Path(mirror), ()
        if not folder.is_dir():
            raise errors.invalid('mirror', 'be an address or a folder', mirror)
    pooch.get_logger().setLevel('ERROR')
    load = pooch.HTTPDownloader(
        progressbar=progressbar, chunk_size=2**18, timeout=(10, 60)
    )
    with errors.on_disk(folder):
        for place in (folder, file.parent):
            place.mkdir(parents=True, exist_ok=True)
        for part in published:
            url = part.url if mirror is None else f'{mirror.rstrip("/")}/{part.name}'
            try:
                pooch.retrieve(
                    url, part.digest or None, part.name, folder, downloader=load
                )
            except requests.RequestException as error:
                requirement = f'get {url} (or try another place by --mirror=URL)'
                raise errors.invalid(
                    'fetch', requirement, errors.describe(error)
                ) from None
            except ValueError:  # pooch's word for another checksum
                requirement = f'get the published {part.name} from {url}'
                raise errors.invalid(
                    'fetch', requirement, 'a file of another checksum'
                ) from None
        try:
            dataset = Dataset(**recipe.read(folder))
        except (KeyError, ValueError) as error:
            if published or isinstance(error, errors.InvalidError):
                raise
            requirement = (
                f'hold files of {name} as published ({errors.describe(error)})'
            )
            raise errors.invalid('mirror', requirement, folder) from error
    save_npz(dataset, file)
    return file
