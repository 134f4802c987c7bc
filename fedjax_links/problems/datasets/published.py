"""The published image sets, from the npz that ``python -m fedjax_links data`` makes of each."""

from fedjax_links.core import checks, errors
from fedjax_links.problems.datasets.dataset import Dataset
from fedjax_links.problems.datasets.npz import from_npz
from fedjax_links.problems.datasets.places import PathLike, missing, npz_file

EMNIST_CONFIGS = ('balanced', 'byclass', 'bymerge', 'digits', 'letters', 'mnist')


def mnist(*, data_dir: PathLike | None = None) -> Dataset:
    """Handwritten digits: 60000 and 10000 images of 28 x 28, 10 classes.

    Args:
      data_dir: folder with the npz that ``data fetch`` makes, by default ``TFDS_DATA_DIR`` from the
        environment or else ``~/tensorflow_datasets``.

    Returns:
      Images float32[*, 28, 28, 1] in [0, 1].

    Raises:
      ValueError: if the data are not there.

    References:
      LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition,
      Proceedings of the IEEE, 1998.
    """
    return _published('mnist', data_dir)


def fashion_mnist(*, data_dir: PathLike | None = None) -> Dataset:
    """Articles of clothing: 60000 and 10000 images of 28 x 28, 10 classes.

    Args:
      data_dir: as in `mnist`.

    Returns:
      Images float32[*, 28, 28, 1] in [0, 1].

    Raises:
      ValueError: if the data are not there.

    References:
      Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017.
    """
    return _published('fashion_mnist', data_dir)


def cifar10(*, data_dir: PathLike | None = None) -> Dataset:
    """Photographs of objects: 50000 and 10000 images of 32 x 32, 10 classes.

    Args:
      data_dir: as in `mnist`.

    Returns:
      Images float32[*, 32, 32, 3] in [0, 1].

    Raises:
      ValueError: if the data are not there.

    References:
      Krizhevsky, Learning multiple layers of features from tiny images, 2009.
    """
    return _published('cifar10', data_dir)


def svhn(*, extra: bool = False, data_dir: PathLike | None = None) -> Dataset:
    """House numbers, cropped to a digit: 73257 and 26032 images of 32 x 32, 10 classes.

    Args:
      extra: whether the 531131 easier images of the split ``extra`` follow the training data.
      data_dir: as in `mnist`.

    Returns:
      Images float32[*, 32, 32, 3] in [0, 1].

    Raises:
      ValueError: if the data are not there.

    References:
      Netzer et al., Reading digits in natural images with unsupervised feature learning, 2011.
    """
    return _published('svhn/extra' if extra else 'svhn', data_dir)


def emnist(*, config: str = 'balanced', data_dir: PathLike | None = None) -> Dataset:
    """Handwritten digits and letters, images of 28 x 28, upright.

    Args:
      config: ``'balanced'`` (47 classes, 112800 and 18800 images), ``'byclass'`` (62),
        ``'bymerge'`` (47), ``'letters'`` (26), ``'digits'`` (10) or ``'mnist'`` (10).
      data_dir: as in `mnist`.

    Returns:
      Images float32[*, 28, 28, 1] in [0, 1].

    Raises:
      ValueError: for an unknown config, or if the data are not there.

    References:
      Cohen, Afshar, Tapson and van Schaik, EMNIST: extending MNIST to handwritten letters, 2017.
    """
    checks.choice('config', config, EMNIST_CONFIGS)
    return _published(f'emnist/{config}', data_dir)


def cinic10(*, include_valid: bool = False, data_dir: PathLike | None = None) -> Dataset:
    """CINIC-10: 90000 images each for training, validation and test, 32 x 32, 10 classes.

    Args:
      include_valid: whether the validation images follow the training data; otherwise they are not
        read.
      data_dir: as in `mnist`.

    Returns:
      Images float32[*, 32, 32, 3] in [0, 1].

    Raises:
      ValueError: if the data are not there.

    References:
      Darlow, Crowley, Antoniou and Storkey, CINIC-10 is not ImageNet or CIFAR-10, 2018.
    """
    return _published('cinic10/valid' if include_valid else 'cinic10', data_dir)


def _published(name: str, data_dir: PathLike | None) -> Dataset:
    """A data set of ``data list``."""
    file = npz_file(name, data_dir)
    if not file.is_file():
        raise missing(name, data_dir)
    with errors.inside('data_dir'):
        return from_npz(file, name=name.partition('/')[0])
