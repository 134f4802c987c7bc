"""What is published of each data set, and how it is read.

Addresses, sizes and SHA-256 stand in ``files.csv``, as TensorFlow Datasets records them. Of
CINIC-10 an MD5 alone is on record.
"""

import csv
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
    """

    files: tuple[File, ...]
    read: Callable[[pathlib.Path], Arrays]


def _files() -> Mapping[str, tuple[File, ...]]:
    """By name, those of ``files.csv``."""
    found: dict[str, tuple[File, ...]] = {}
    with open(pathlib.Path(__file__).with_name('files.csv'), newline='', encoding='utf-8') as file:
        for row in csv.DictReader(file):
            published = File(row['url'], int(row['size']), row['digest'])
            found[row['name']] = (*found.get(row['name'], ()), published)
    return found


_FILES = _files()

RECIPES: Mapping[str, Recipe] = {
    'mnist': Recipe(_FILES['mnist'], formats.read_mnist),
    'fashion_mnist': Recipe(_FILES['fashion_mnist'], formats.read_mnist),
    'emnist': Recipe(_FILES['emnist'], formats.read_emnist),
    'cifar10': Recipe(_FILES['cifar10'], formats.read_cifar10),
    'svhn': Recipe(_FILES['svhn'], formats.read_svhn),
    'cinic10': Recipe(_FILES['cinic10'], formats.read_cinic10),
}
"""By name; ``emnist`` is its balanced part."""
