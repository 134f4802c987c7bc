"""The handwritten digits embedded in scikit-learn."""

import gzip
from importlib import metadata

import numpy as np

from fedjax_links.core import checks
from fedjax_links.problems.datasets.dataset import Dataset

_TEST_SHARE = 0.2
_STREAM = 0x4453  # keeps splits independent of other host draws that use the same seed


def digits(*, seed: int = 0) -> Dataset:
    """Loads 1797 handwritten digits of 8 x 8 pixels, embedded in scikit-learn.

    The split is stratified: of the n_c examples of a class, ``rint(0.2 n_c)`` random ones are for
    testing. Both parts keep the order of the data.

    Args:
      seed: integer in ``[0, 2**32)``, fixes the split.

    Returns:
      Features float32[*, 8, 8, 1] in [0, 1] and 10 classes.

    Raises:
      ValueError: if the seed is out of range.

    References:
      Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI, 1998 (its test part).
    """
    checks.seed('seed', seed)
    table = _table()
    features = (table[:, :-1].reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    labels = table[:, -1].astype(np.int32)
    rng = np.random.default_rng([int(seed), _STREAM])
    test = np.zeros(labels.size, bool)
    for c in range(10):
        examples = np.flatnonzero(labels == c)
        size = round(examples.size * _TEST_SHARE)
        test[rng.permutation(examples)[:size]] = True
    return Dataset(
        features[~test],
        labels[~test],
        test_features=features[test],
        test_labels=labels[test],
        num_classes=10,
    )


def _table() -> np.ndarray:
    """[1797, 65], pixels and label: a file of scikit-learn, whose own reader takes a second."""
    file = metadata.distribution('scikit-learn').locate_file('sklearn/datasets/data/digits.csv.gz')
    with gzip.open(str(file)) as lines:
        return np.loadtxt(lines, delimiter=',')
