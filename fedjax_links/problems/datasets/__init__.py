"""Data sets as arrays on the host, ready for a partitioner and `problems.from_arrays`.

`digits` and `synthetic_images` need no file; the others read files that are already there and never
a network. `DATASETS` names every loader, what ``data list`` shows by the same names.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from fedjax_links.core import checks
from fedjax_links.problems.datasets.dataset import Dataset, make_dataset
from fedjax_links.problems.datasets.digits import digits
from fedjax_links.problems.datasets.npz import from_npz, save_npz
from fedjax_links.problems.datasets.png_tree import from_png_tree
from fedjax_links.problems.datasets.published import (
    EMNIST_CONFIGS,
    cifar10,
    cinic10,
    emnist,
    fashion_mnist,
    mnist,
    svhn,
)
from fedjax_links.problems.datasets.synthetic_images import synthetic_images
from fedjax_links.problems.datasets.tfds import from_tfds

DATASETS: Mapping[str, Callable[..., Dataset]] = {
    'cifar10': cifar10,
    'cinic10': cinic10,
    'cinic10/valid': functools.partial(cinic10, include_valid=True),
    'digits': digits,
    'emnist': emnist,
    **{f'emnist/{config}': functools.partial(emnist, config=config) for config in EMNIST_CONFIGS},
    'fashion_mnist': fashion_mnist,
    'mnist': mnist,
    'npz': from_npz,
    'png_tree': from_png_tree,
    'svhn': svhn,
    'svhn/extra': functools.partial(svhn, extra=True),
    'synthetic_images': synthetic_images,
    'tfds': from_tfds,
}


def load(name: str, /, **options: Any) -> Dataset:
    """Loads a data set by name.

    Args:
      name: one of `DATASETS`.
      **options: keywords of that loader.

    Returns:
      The data set.

    Raises:
      ValueError: if there is no such name or option, or an option is out of range.
    """
    checks.choice('name', name, DATASETS)
    checks.options(name, DATASETS[name], options)
    return DATASETS[name](**options)


__all__ = [
    'DATASETS',
    'Dataset',
    'cifar10',
    'cinic10',
    'digits',
    'emnist',
    'fashion_mnist',
    'from_npz',
    'from_png_tree',
    'from_tfds',
    'load',
    'make_dataset',
    'mnist',
    'save_npz',
    'svhn',
    'synthetic_images',
]
