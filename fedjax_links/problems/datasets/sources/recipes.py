"""What is published of each data set, and how it is read.

Addresses, sizes and SHA-256 stand in ``files.csv``, as TensorFlow Datasets records them. Of
CINIC-10 an MD5 alone is on record.
"""

import csv
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fedjax_links.problems.datasets.npz import Arrays
from fedjax_links.problems.datasets.sources import formats


class File(NamedTuple):
    """A published file.

    Attributes:
      url: its address; the part after the last slash is its name on a mirror and on the disk.
      size: bytes.
      digest: ``'sha256:...'`` or ``'md5:...'``, as published.
    """

    url: str
    size: int
    digest: str

    @property
    def name(self) -> str:
        """The part of the address after the last slash."""
        return self.url.rpartition('/')[2]


class Recipe(NamedTuple):
    """How a data set is made of published files, and what must come out.

    Attributes:
      files: what is downloaded.
      folder: where to, below the folder of downloads; variants of one data set share it.
      read: from a file or folder to arrays under the keys of `from_npz`, pixels as uint8.
      shape: of an image: height, width, channels.
      num_classes: C; labels go from 0 to C - 1.
      counts: numbers of training and test images; published editions differ where there are more.
    """

    files: tuple[File, ...]
    folder: str
    read: Callable[[pathlib.Path], Arrays]
    shape: tuple[int, int, int]
    num_classes: int
    counts: tuple[tuple[int, int], ...]


def _files(*names: str) -> tuple[File, ...]:
    """The files of ``files.csv`` under these names."""
    with open(pathlib.Path(__file__).with_name('files.csv'), newline='', encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    return tuple(
        File(row['url'], int(row['size']), row['digest']) for row in rows if row['name'] in names
    )


_EMNIST_PARTS: Mapping[str, tuple[int, tuple[tuple[int, int], ...]]] = {
    'balanced': (47, ((112_800, 18_800),)),
    'byclass': (62, ((697_932, 116_323),)),
    'bymerge': (47, ((697_932, 116_323),)),
    'digits': (10, ((240_000, 40_000),)),
    'letters': (26, ((124_800, 20_800), (88_800, 14_800))),
    'mnist': (10, ((60_000, 10_000),)),
}
_GREY, _COLOUR = (28, 28, 1), (32, 32, 3)


def _mnist(name: str) -> Recipe:
    return Recipe(_files(name), name, formats.read_mnist, _GREY, 10, ((60_000, 10_000),))


def _emnist(part: str) -> Recipe:
    read = functools.partial(formats.read_emnist, part=part)
    return Recipe(_files('emnist'), 'emnist', read, _GREY, *_EMNIST_PARTS[part])


def _svhn(names: Sequence[str], num_train: int, *train: str) -> Recipe:
    read = functools.partial(formats.read_svhn, train=train)
    return Recipe(_files(*names), 'svhn', read, _COLOUR, 10, ((num_train, 26_032),))


def _cinic10(num_train: int, *train: str) -> Recipe:
    read = functools.partial(formats.read_cinic10, train=train)
    return Recipe(_files('cinic10'), 'cinic10', read, _COLOUR, 10, ((num_train, 90_000),))


RECIPES: Mapping[str, Recipe] = {
    'mnist': _mnist('mnist'),
    'fashion_mnist': _mnist('fashion_mnist'),
    **{f'emnist/{part}': _emnist(part) for part in _EMNIST_PARTS},
    'cifar10': Recipe(
        _files('cifar10'), 'cifar10', formats.read_cifar10, _COLOUR, 10, ((50_000, 10_000),)
    ),
    'svhn': _svhn(['svhn'], 73_257, 'train'),
    'svhn/extra': _svhn(['svhn', 'svhn/extra'], 604_388, 'train', 'extra'),
    'cinic10': _cinic10(90_000, 'train'),
    'cinic10/valid': _cinic10(180_000, 'train', 'valid'),
}
"""By name; a variant stands behind a slash."""
