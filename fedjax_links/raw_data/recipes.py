"""What is published of each data set, and how it is read.

Sizes and SHA-256 are those that TensorFlow Datasets records for the same addresses. Of CINIC-10 an
MD5 alone is on record.
"""

import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedjax_links.problems.datasets.npz import Arrays
from fedjax_links.raw_data import formats


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


def _idx(base: str, sizes_and_digests: Mapping[str, tuple[int, str]]) -> tuple[File, ...]:
    return tuple(
        File(f'{base}/{stem}-ubyte.gz', size, f'sha256:{digest}')
        for stem, (size, digest) in sizes_and_digests.items()
    )


_MNIST = _idx(
    'https://storage.googleapis.com/cvdf-datasets/mnist',
    {
        'train-images-idx3': (
            9_912_422,
            '440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609',
        ),
        'train-labels-idx1': (
            28_881,
            '3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c',
        ),
        't10k-images-idx3': (
            1_648_877,
            '8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6',
        ),
        't10k-labels-idx1': (
            4_542,
            'f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6',
        ),
    },
)
_FASHION_MNIST = _idx(
    'http://fashion-mnist.s3-website.eu-central-1.amazonaws.com',
    {
        'train-images-idx3': (
            26_421_880,
            '3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84',
        ),
        'train-labels-idx1': (
            29_515,
            'a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845',
        ),
        't10k-images-idx3': (
            4_422_102,
            '346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073',
        ),
        't10k-labels-idx1': (
            5_148,
            '67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5',
        ),
    },
)
_EMNIST = (
    File(
        'https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip',
        561_753_746,
        'sha256:fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e',
    ),
)
_CIFAR10 = (
    File(
        'https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz',
        170_052_171,
        'sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd',
    ),
)
_SVHN = (
    File(
        'http://ufldl.stanford.edu/housenumbers/train_32x32.mat',
        182_040_794,
        'sha256:435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8',
    ),
    File(
        'http://ufldl.stanford.edu/housenumbers/test_32x32.mat',
        64_275_384,
        'sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b',
    ),
)
_SVHN_EXTRA = (
    File(
        'http://ufldl.stanford.edu/housenumbers/extra_32x32.mat',
        1_329_278_602,
        'sha256:a133a4beb38a00fcdda90c9489e0c04f900b660ce8a316a5e854838379a71eb3',
    ),
)
_CINIC10 = (
    File(
        'https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz',
        687_544_992,
        'md5:6ee4d0c996905fe93221de577967a372',
    ),
)
_EMNIST_PARTS: Mapping[str, tuple[int, tuple[tuple[int, int], ...]]] = {
    'balanced': (47, ((112_800, 18_800),)),
    'byclass': (62, ((697_932, 116_323),)),
    'bymerge': (47, ((697_932, 116_323),)),
    'digits': (10, ((240_000, 40_000),)),
    'letters': (26, ((124_800, 20_800), (88_800, 14_800))),
    'mnist': (10, ((60_000, 10_000),)),
}


def _emnist(part: str) -> Recipe:
    num_classes, counts = _EMNIST_PARTS[part]
    return Recipe(
        _EMNIST,
        'emnist',
        functools.partial(formats.read_emnist, part=part),
        (28, 28, 1),
        num_classes,
        counts,
    )


RECIPES: Mapping[str, Recipe] = {
    'mnist': Recipe(*(_MNIST, 'mnist', formats.read_mnist, (28, 28, 1), 10, ((60_000, 10_000),))),
    'fashion_mnist': Recipe(
        _FASHION_MNIST,
        'fashion_mnist',
        formats.read_mnist,
        (28, 28, 1),
        10,
        ((60_000, 10_000),),
    ),
    **{f'emnist/{part}': _emnist(part) for part in _EMNIST_PARTS},
    'cifar10': Recipe(
        _CIFAR10,
        'cifar10',
        formats.read_cifar10,
        (32, 32, 3),
        10,
        ((50_000, 10_000),),
    ),
    'svhn': Recipe(
        _SVHN,
        'svhn',
        functools.partial(formats.read_svhn, train=('train',)),
        (32, 32, 3),
        10,
        ((73_257, 26_032),),
    ),
    'svhn/extra': Recipe(
        (*_SVHN, *_SVHN_EXTRA),
        'svhn',
        functools.partial(formats.read_svhn, train=('train', 'extra')),
        (32, 32, 3),
        10,
        ((604_388, 26_032),),
    ),
    'cinic10': Recipe(
        _CINIC10,
        'cinic10',
        functools.partial(formats.read_cinic10, train=('train',)),
        (32, 32, 3),
        10,
        ((90_000, 90_000),),
    ),
    'cinic10/valid': Recipe(
        _CINIC10,
        'cinic10',
        functools.partial(formats.read_cinic10, train=('train', 'valid')),
        (32, 32, 3),
        10,
        ((180_000, 90_000),),
    ),
}
"""By name; a variant stands behind a slash."""
