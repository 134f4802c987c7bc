"""Computes link probabilities that depend on the data of clients.

Clients of favoured classes deliver more often. This is host code in NumPy, which looks at a
partition once, before the run.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors

# Keeps the draws of weights independent of a partition with the same seed.
_STREAM = 0x4C50
# A normal draw times this value is finite, and so is the difference of two such products.
_LARGEST_SIGMA = 1e300


def class_weights(
    num_classes: int, *, sigma: float = 10.0, seed: int
) -> NDArray[np.float64]:
    """Draws a random weight for each class, by which examples of the class improve a link.

    ``r_c = exp(z_c) / sum_k exp(z_k)`` with ``z_c ~ N(0, sigma^2)``. The weights are log-normal
    numbers divided by their sum. At ``sigma = 10`` one class usually has nearly all of the weight.

    Args:
      num_classes: C, at least 1.
      sigma: standard deviation of z, in [0, 1e300].
      seed: integer in ``[0, 2**32)``.

    Returns:
      Weights r, float64[C], non-negative, of sum one.

    Raises:
      ValueError: if an argument is out of range.
    """
    checks.static_int('num_classes', num_classes)
    checks.seed('seed', seed)
    checks.number_within('sigma', sigma, 0, _LARGEST_SIGMA)
    z = np.random.default_rng([int(seed), _STREAM]).normal(0, sigma, num_classes)
    weights = np.exp(z - z.max())
    return weights / weights.sum()


def label_dependent_probs(
    class_mix: ArrayLike, *, sigma: float = 10.0, minimum: float = 0.02, seed: int
) -> NDArray[np.float64]:
    """Computes link probabilities that grow with the share of favoured classes in a client's data.

    ``p_i = max(minimum, <r, nu_i>)`` with ``r = class_weights(C, sigma=sigma, seed=seed)``. In the
    released code, nu_i counts the classes among the client's examples (`partition.class_mix`). In
    the paper's text, nu_i is the distribution from which the client's examples were drawn
    (`partition.dirichlet_shares`).

    Args:
      class_mix: float[N, C], class shares nu, one row nu_i for each client; rows sum to one.
      sigma: as in `class_weights`, in [0, 1e300].
      minimum: lower clip in [0, 1], called delta in the papers. A schedule modulates the
        probabilities after the clip.
      seed: integer in ``[0, 2**32)``. The same seed in a partitioner gives independent draws.

    Returns:
      Probabilities float64[N] in [minimum, 1].

    Raises:
      ValueError: if an argument is out of range or a row is not a distribution.

    References:
      Xiang et al., FedPBC, 2024 (journal version), experiments: 10 classes, sigma 10, minimum 0.02.
    """
    mix = checks.numbers('class_mix', class_mix).astype(np.float64)
    if mix.ndim != 2 or 0 in mix.shape:
        raise errors.invalid(
            'class_mix', 'have one row per client', f'shape {mix.shape}'
        )
    sums_to_one = np.isclose(mix.sum(axis=1), 1.0, rtol=0, atol=1e-5)
    is_distribution = (mix >= 0).all(axis=1) & sums_to_one
    if not is_distribution.all():
        row = int(np.argmin(is_distribution))
        got = f'row {row} of sum {mix[row].sum():.6g} and minimum {mix[row].min():.6g}'
        raise errors.invalid('class_mix', 'have non-negative rows of sum one', got)
    checks.number_within('minimum', minimum, 0, 1)
    weights = class_weights(mix.shape[1], sigma=sigma, seed=seed)
    return np.clip(mix @ weights, minimum, 1.0)
