"""Loads data sets as arrays on the host, ready for a partitioner and `problems.from_arrays`.

`digits` and `synthetic_images` need no file. The other loaders read files on this machine, and use
no network. `DATASETS` names every loader. The published data sets have the names that
``python -m fedjax_links data list`` prints:

* ``mnist``: LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document
  recognition, Proceedings of the IEEE, 1998.
* ``fashion_mnist``: Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017.
* ``emnist``, the balanced part of EMNIST: Cohen, Afshar, Tapson and van Schaik, EMNIST: extending
  MNIST to handwritten letters, 2017.
* ``cifar10`` and ``cifar100``: Krizhevsky, Learning multiple layers of features from tiny images,
  2009.
* ``svhn``: Netzer et al., Reading digits in natural images with unsupervised
  feature learning, 2011.
* ``cinic10``: Darlow, Crowley, Antoniou and Storkey, CINIC-10 is not ImageNet or
  CIFAR-10, 2018.
* ``femnist`` and ``shakespeare``, with owners (the client that has each example): Caldas et al.,
  LEAF: a benchmark for federated settings, 2018. This and the next two are read as Flower publishes
  them.
* ``celeba``, whose label is ``Smiling``: Liu, Luo, Wang and Tang, Deep learning face attributes in
  the wild, 2015.
* ``fed_isic2019``: Ogier du Terrail et al., FLamby: datasets and benchmarks for cross-silo
  federated learning in realistic healthcare settings, 2022.
"""

import functools
from collections.abc import Callable, Iterable, Mapping

from fedjax_links.core import checks, errors
from fedjax_links.core.registry import Registry
from fedjax_links.datasets import system_copies
from fedjax_links.datasets.images import digits, synthetic_images
from fedjax_links.datasets.npz import Dataset, PathLike, from_npz, npz_file, save_npz
from fedjax_links.datasets.prepared import from_leaf, from_tfds
from fedjax_links.datasets.publishers import RECIPES

__all__ = [
    'DATASETS',
    'Dataset',
    'digits',
    'from_leaf',
    'from_npz',
    'from_tfds',
    'published',
    'save_npz',
    'synthetic_images',
    'unknown',
]


def published(name: str, *, data_dir: PathLike | None = None) -> Dataset:
    """Reads a published data set from the npz that ``python -m fedjax_links data fetch`` writes.

    Args:
      name: as ``python -m fedjax_links data list`` prints it.
      data_dir: folder with the npz, by default ``TFDS_DATA_DIR`` from the environment or else
        ``~/tensorflow_datasets``.

    Returns:
      Pixels uint8[*, height, width, channels] or tokens uint8[*, L], and owners if there are any.

    Raises:
      ValueError: for another name, or if the data are missing. The error names the shortest way to
        get the data on this machine.
    """
    checks.choice('name', name, RECIPES)
    file = npz_file(name, data_dir)
    if not file.is_file():
        advice = system_copies.how_to_get(name, RECIPES[name].file_names, data_dir)
        raise errors.invalid('data_dir', f'hold the data set ({advice})', f'no {file}')
    with errors.context('data_dir'):
        return from_npz(file)


_LOADERS = digits, from_leaf, from_npz, synthetic_images, from_tfds
DATASETS: Mapping[str, Callable[..., Dataset]] = Registry(
    {
        **{name: functools.partial(published, name) for name in RECIPES},
        **{load.__name__.removeprefix('from_'): load for load in _LOADERS},
    }
)
"""Loaders by name, for ``dataset`` of `problems.images`."""


def unknown(argument: str, name: object, valid: Iterable[str]) -> errors.InvalidError:
    """Builds the error for an unknown data set; the error also names other sources of data.

    Args:
      argument: name of the argument.
      name: the unknown name.
      valid: every valid name.

    Returns:
      The error, for the caller to raise.
    """
    error = errors.unknown_name(argument, name, valid)
    if not isinstance(name, str):
        return error
    prepared = (
        f"'tfds' with `data` {{'name': {name!r}}} for what TensorFlow Datasets prepared"
    )
    mark = '' if str(error.message).endswith('?') else '.'
    hint = f"There are also {prepared}, 'npz' and 'leaf' for files of your own"
    message = f'{error.message}{mark} {hint}'
    return errors.InvalidError(argument, error.requirement, name, message)
