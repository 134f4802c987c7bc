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


_LISTED = pathlib.Path(__file__).with_name('files.csv').read_text(encoding='utf-8')


def _recipe(name: str, read: Callable[[pathlib.Path], Arrays]) -> Recipe:
    """Of the files that ``files.csv`` lists under a name."""
    rows = [row for row in csv.DictReader(_LISTED.splitlines()) if row['name'] == name]
    files = tuple(File(row['url'], int(row['size']), row['digest']) for row in rows)
    return Recipe(files, read)


RECIPES: Mapping[str, Recipe] = {
    'mnist': _recipe('mnist', formats.read_mnist),
    'fashion_mnist': _recipe('fashion_mnist', formats.read_mnist),
    'emnist': _recipe('emnist', formats.read_emnist),
    'cifar10': _recipe('cifar10', formats.read_cifar10),
    'svhn': _recipe('svhn', formats.read_svhn),
    'cinic10': _recipe('cinic10', formats.read_cinic10),
}
"""By name; ``emnist`` is its balanced part."""
