"""The handwritten digits embedded in scikit-learn."""

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.problems.datasets.dataset import Dataset

_STREAM = 0x4453  # keeps splits independent of other host draws that use the same seed


def digits(*, test_fraction: float = 0.2, seed: int = 0) -> Dataset:
    """Loads 1797 handwritten digits of 8 x 8 pixels, embedded in scikit-learn.

    The split is stratified: of the n_c examples of a class, ``rint(n_c * test_fraction)`` random
    ones, but at least one and not all, are for testing. Both parts keep the order of the data.

    Args:
      test_fraction: share of the test data, strictly between 0 and 1.
      seed: integer in ``[0, 2**32)``, fixes the split.

    Returns:
      Features float32[*, 8, 8, 1] in [0, 1] and 10 classes.

    Raises:
      ValueError: if an argument is out of range.

    References:
      Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI, 1998 (its test part).
    """
    if not 0 < test_fraction < 1:
        raise errors.invalid('test_fraction', 'lie strictly between 0 and 1', test_fraction)
    checks.seed('seed', seed)
    from sklearn.datasets import load_digits  # slow to import, so only here

    raw = load_digits()
    features = (raw.images[..., None] / 16).astype(np.float32)
    labels = raw.target.astype(np.int32)
    rng = np.random.default_rng([int(seed), _STREAM])
    test = np.zeros(labels.size, bool)
    for c in range(10):
        examples = np.flatnonzero(labels == c)
        size = int(np.clip(np.rint(examples.size * test_fraction), 1, examples.size - 1))
        test[rng.permutation(examples)[:size]] = True
    return Dataset(features[~test], labels[~test], features[test], labels[test], 10, 'digits')
