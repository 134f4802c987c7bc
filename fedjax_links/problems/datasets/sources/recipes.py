"""What is published of each data set, and how it is read.

Addresses, sizes and SHA-256 stand in ``files.csv``, as TensorFlow Datasets or the publisher records
them. Of CINIC-10 an MD5 alone is on record, of Fed-ISIC 2019 and half of CelebA's files nothing but
the revision that stands in their addresses; sizes of these are approximate.
"""

import csv
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedjax_links.problems.datasets.npz import Arrays
from fedjax_links.problems.datasets.sources import formats, natural


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


_LISTED = pathlib.Path(__file__).with_name('files.csv').read_text(encoding='utf-8')


def _recipe(name: str, read: Callable[[pathlib.Path], Arrays]) -> Recipe:
    """Of the files that ``files.csv`` lists under a name."""
    rows = [row for row in csv.DictReader(_LISTED.splitlines()) if row['name'] == name]
    files = tuple(File(row['url'], int(row['size']), row['digest']) for row in rows)
    return Recipe(files, read)


def _images(
    name: str, label: str, owner: str, shape: tuple[int, int, int], num_classes: int, **splits: Any
) -> Recipe:
    """Of images with owners, see `natural.read_images`."""
    columns: Any = {'label': label, 'owner': owner, 'shape': shape, 'num_classes': num_classes}
    return _recipe(name, functools.partial(natural.read_images, **columns, **splits))


RECIPES: Mapping[str, Recipe] = {
    'mnist': _recipe('mnist', formats.read_mnist),
    'fashion_mnist': _recipe('fashion_mnist', formats.read_mnist),
    'emnist': _recipe('emnist', formats.read_emnist),
    'cifar10': _recipe('cifar10', formats.read_cifar10),
    'cifar100': _recipe('cifar100', formats.read_cifar100),
    'svhn': _recipe('svhn', formats.read_svhn),
    'cinic10': _recipe('cinic10', formats.read_cinic10),
    'femnist': _images('femnist', 'character', 'writer_id', (28, 28, 1), 62),
    'shakespeare': _recipe('shakespeare', natural.read_texts),
    'celeba': _images(
        'celeba', 'Smiling', 'celeb_id', (84, 84, 3), 2, train=('train', 'valid', 'test')
    ),
    'fed_isic2019': _images('fed_isic2019', 'label', 'center', (112, 112, 3), 8, test=('test',)),
}
"""By name; ``emnist`` is its balanced part. The last four have owners."""
