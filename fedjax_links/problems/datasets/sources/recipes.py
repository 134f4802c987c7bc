"""What is published of each data set, and how it is read.

Addresses, sizes and SHA-256 stand in ``files.csv``, as TensorFlow Datasets records them. Of
CINIC-10 an MD5 alone is on record.
"""

import csv
import functools
import pathlib
from collections.abc import Callable, Mapping
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
    """How a data set is made of published files.

    Attributes:
      files: what is downloaded.
      read: from the folder of the files to arrays under the keys of `from_npz`, pixels as uint8.
      num_classes: C; labels go from 0 to C - 1.
    """

    files: tuple[File, ...]
    read: Callable[[pathlib.Path], Arrays]
    num_classes: int = 10


def _files(*names: str) -> tuple[File, ...]:
    """The files of ``files.csv`` under these names."""
    with open(pathlib.Path(__file__).with_name('files.csv'), newline='', encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    return tuple(
        File(row['url'], int(row['size']), row['digest']) for row in rows if row['name'] in names
    )


_EMNIST = {'byclass': 62, 'bymerge': 47, 'digits': 10, 'letters': 26, 'mnist': 10}
_read = functools.partial

RECIPES: Mapping[str, Recipe] = {
    'mnist': Recipe(_files('mnist'), formats.read_mnist),
    'fashion_mnist': Recipe(_files('fashion_mnist'), formats.read_mnist),
    'emnist': Recipe(_files('emnist'), _read(formats.read_emnist, part='balanced'), 47),
    **{
        f'emnist/{part}': Recipe(_files('emnist'), _read(formats.read_emnist, part=part), classes)
        for part, classes in _EMNIST.items()
    },
    'cifar10': Recipe(_files('cifar10'), formats.read_cifar10),
    'svhn': Recipe(_files('svhn'), _read(formats.read_svhn, train=['train'])),
    'svhn/extra': Recipe(
        _files('svhn', 'svhn/extra'), _read(formats.read_svhn, train=['train', 'extra'])
    ),
    'cinic10': Recipe(_files('cinic10'), _read(formats.read_cinic10, train=['train'])),
    'cinic10/valid': Recipe(
        _files('cinic10'), _read(formats.read_cinic10, train=['train', 'valid'])
    ),
}
"""By name; a variant stands behind a slash. ``emnist`` is its balanced part."""
