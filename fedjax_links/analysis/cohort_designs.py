"""The three designs by which weights turn into a cohort of fixed size."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks
from fedjax_links.core import errors

MAX_COHORTS = 200_000


class CohortLaw(NamedTuple):
    """Law of one round's cohort.

    Attributes:
      cohorts: int64[K, B], every set of B clients in lexicographic order.
      probs: float64[K], their probabilities.
    """

    cohorts: np.ndarray
    probs: np.ndarray


def cohort_law(weights: ArrayLike, cohort_size: int, design: str = 'product') -> CohortLaw:
    r"""Law of a cohort of fixed size drawn among weighted clients.

    * ``'product'``, conditional Poisson: ``P(S) = prod_{i in S} p_i / e_B(p)``.
    * ``'successive'``, Plackett-Luce: members are drawn one by one in proportion to the weights of
      those that remain; ``P(S)`` sums over the orders of S.
    * ``'sum'``, Midzuno: the first member by weight, the others uniformly;
      ``P(S) = sum_{i in S} p_i / (C(N-1, B-1) sum_i p_i)``.

    For a cohort of one they coincide.

    Args:
      weights: float[N], positive weights of the clients that may be selected.
      cohort_size: B, from 1 to N.
      design: ``'product'``, ``'successive'`` or ``'sum'``.

    Returns:
      The cohorts and their probabilities.

    Raises:
      ValueError: if an argument is out of range or there are over 200,000 cohorts.

    Example:
      >>> from fedjax_links import analysis
      >>> law = analysis.cohort_law([1.0, 1.0, 2.0], 2)
      >>> print(law.cohorts.tolist(), law.probs.round(3))
      [[0, 1], [0, 2], [1, 2]] [0.2 0.4 0.4]

    References:
      Sun et al., ICLR 2025: Section 3 for the sum, Eq. (3) for the product.
    """
    weights = _checks.checked_weights('weights', weights)
    size = _checks.checked_int('cohort_size', cohort_size, minimum=1)
    if size > weights.size or math.comb(weights.size, size) > MAX_COHORTS:
        raise errors.invalid(
            'cohort_size', f'allow 1 to {MAX_COHORTS} cohorts of {weights.size} clients', size
        )
    if design not in _DESIGNS:
        names = ', '.join(repr(name) for name in _DESIGNS)
        raise errors.invalid('design', f'be one of {names}', f'{design!r}')
    cohorts = np.array(list(itertools.combinations(range(weights.size), size)))
    # Ratios too small for float64 count as the smallest one: no 0 / 0 below.
    ratios = np.maximum(weights / weights.max(), np.finfo(np.float64).tiny)
    probs = _DESIGNS[design](ratios, cohorts)
    return CohortLaw(cohorts, probs / probs.sum())


def _product_masses(weights: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
    log_masses = np.log(weights)[cohorts].sum(axis=1)
    return np.exp(log_masses - log_masses.max())


def _successive_masses(weights: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
    members = np.zeros((len(cohorts), weights.size), dtype=bool)
    np.put_along_axis(members, cohorts, True, axis=1)
    outside = np.where(members, 0.0, weights).sum(axis=1, keepdims=True)
    masses = np.zeros(len(cohorts))
    for order in itertools.permutations(range(cohorts.shape[1])):
        drawn = weights[cohorts[:, order]]
        # What remains is summed up from the last draw: subtracting would cancel.
        remaining = outside + np.cumsum(drawn[:, ::-1], axis=1)[:, ::-1]
        masses += np.prod(drawn / remaining, axis=1)
    return masses


def _sum_masses(weights: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
    return weights[cohorts].sum(axis=1)


_DESIGNS = {
    'product': _product_masses,
    'successive': _successive_masses,
    'sum': _sum_masses,
}
