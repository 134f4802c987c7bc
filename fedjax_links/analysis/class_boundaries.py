"""Computes the boundaries of pairs of classes, and the accuracy that unequal shares cost there.

A class's share is its part of the training data. Training on unequal shares moves the boundary of
two classes by the logarithm of the ratio of their shares. The more examples lie near the boundary,
the more accuracy this costs.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import spatial, special

from fedjax_links.analysis import _checks
from fedjax_links.analysis.gaussian_populations import class_means

# Scrambled sequences for a boundary, and points in each sequence, a power of 2 as Sobol's need.
_SCRAMBLES = 8
_POINTS = 2**9


class Boundaries(NamedTuple):
    """Holds the boundaries of pairs of equally likely classes.

    Attributes:
      mass: float[C, C], b, symmetric, 0 on the diagonal: a boundary that is moved by log odds
        of h costs an accuracy of ``b h^2 / 2``, for small h.
      distances: float[C, C], D, distance of the two classes in standard deviations; infinite
        where no example lies near the boundary.
      error: standard error of the sum of b over all pairs, due to the quadrature; 0 without a
        quadrature.
    """

    mass: NDArray[np.float64]
    distances: NDArray[np.float64]
    error: float = 0.0


def gaussian_boundaries(means: ArrayLike) -> Boundaries:
    r"""Computes the boundaries of equally likely classes ``N(mu_c, I)``.

    Let ``L_ij(x)`` be the log odds of classes i and j at example x. Bayes' rule puts their
    boundary at ``L_ij = 0``. Adding ``h_c = log q_c`` to the scores moves the boundary to
    ``L_ij = h_j - h_i``. An example between the two boundaries then costs the difference of
    two posteriors, to first order ``P(i | x) |L_ij|``. So the accuracy lost is
    ``sum_{i<j} b_ij (h_i - h_j)^2 / 2 + O(h^3)`` with the boundary mass
    ``b_ij = E[P(i | x) delta(L_ij(x)); i and j lead at x]``.

    For Gaussian classes ``L_ij`` has slope ``D_ij = |mu_i - mu_j|``. Therefore
    ``b_ij = phi(D_ij / 2) / (C D_ij)`` times the fraction of the boundary on which no third
    class is ahead. The boundary is a hyperplane. On the boundary, examples are standard normal
    around ``(mu_i + mu_j) / 2``.

    Args:
      means: float[C, d], mu_c, no two of them equal.

    Returns:
      The boundaries. The fractions of boundaries are estimated by 8 scrambled Sobol sequences of
      512 points each (Owen 1995).

    Raises:
      ValueError: if an argument is out of range.
    """
    centres = class_means(means)
    count, dim = centres.shape
    first, second = np.triu_indices(count, 1)
    distance = spatial.distance.pdist(centres)
    nearest = centres[first[distance.argmin()]]
    _checks.require(distance.all(), 'means', 'differ between classes', nearest)
    noise = _scrambled_normals(dim)
    shares = np.empty((_SCRAMBLES, len(first)))
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    for pair, (i, j) in enumerate(pairs):
        shares[:, pair] = _leading_shares(centres, i, j, noise)
    # If no third class is ever ahead, b_ij is phi(D / 2) / (C D).
    mass_of_two = _normal_density(distance / 2) / (count * distance)
    error = np.std(shares @ mass_of_two, ddof=1) / np.sqrt(_SCRAMBLES)
    return Boundaries(
        mass=spatial.distance.squareform(mass_of_two * shares.mean(axis=0)),
        distances=spatial.distance.squareform(distance),
        error=float(error),
    )


def _scrambled_normals(dim: int) -> np.ndarray:
    """Returns standard normal points of scrambled sequences: float64[sequences, points, d]."""
    from scipy.stats import qmc  # Slow to import, so only here.

    requirement = f'have at most {qmc.Sobol.MAXDIM:,} features'
    _checks.require(dim <= qmc.Sobol.MAXDIM, 'means', requirement, dim)
    sequences = []
    for seed in range(_SCRAMBLES):
        sobol = qmc.Sobol(dim, rng=np.random.default_rng(seed))
        sequences.append(sobol.random(_POINTS))
    return np.asarray(special.ndtri(sequences))


def _leading_shares(
    centres: np.ndarray, i: int, j: int, noise: np.ndarray
) -> np.ndarray:
    """Returns the fraction of the boundary of i and j on which no third class is ahead.

    Args:
      centres: float64[C, d], mu_c.
      i: a class.
      j: another class.
      noise: float64[R, P, d], standard normal points of R sequences.

    Returns:
      float64[R], one estimate from each sequence.
    """
    distance = np.sqrt(np.sum((centres[i] - centres[j]) ** 2))
    normal = (centres[i] - centres[j]) / distance
    # Project the points on the hyperplane through the midpoint.
    along = np.multiply.outer(noise @ normal, normal)
    points = 0.5 * (centres[i] + centres[j]) + noise - along
    scores = points @ centres.T - 0.5 * np.sum(centres**2, axis=1)
    others = np.delete(scores, [i, j], axis=2).max(axis=2, initial=-np.inf)
    return np.mean(scores[..., i] > others, axis=1)


def confusion_boundaries(confusion: ArrayLike) -> Boundaries:
    """Estimates boundaries from a confusion matrix.

    Each pair of classes is treated as two Gaussian classes. Of the examples of i and j that
    are predicted as i or j, a fraction e is wrong. Two Gaussian classes with this error are
    ``D = -2 Phi^{-1}(e)`` apart, which determines the density at their boundary.

    Args:
      confusion: float[C, C], counts or fractions of examples by true class (row) and predicted
        class (column), for a model that weighs classes equally. Rows are scaled to equal sums.

    Returns:
      The boundaries. A pair that is never confused has mass 0 and an infinite distance.

    Raises:
      ValueError: if an argument is out of range, or half of a pair's predictions are wrong.
    """
    table = _checks.as_doubles('confusion', confusion)
    square = table.ndim == 2 and len(table) == table.shape[1] > 1
    _checks.require(square, 'confusion', 'be [C, C], C >= 2', f'shape {table.shape}')
    is_valid = np.isfinite(table) & (table >= 0)
    _checks.checked('confusion', table, is_valid, 'be finite and at least 0')
    diagonal = np.diag(table)
    _checks.checked(
        'confusion',
        diagonal,
        diagonal > 0,
        'be positive on the diagonal',
        ' at class {}',
    )
    table = table / table.sum(axis=1, keepdims=True) / len(table)
    confused = table + table.T
    right = np.diag(table)
    pair_mass = right[:, None] + right + confused
    error = np.where(np.eye(len(table), dtype=bool), 0.0, confused / pair_mass)
    largest = error.max()
    requirement = 'have less than half of any pair wrong'
    _checks.require(largest < 0.5, 'confusion', requirement, largest)
    distances = -2 * special.ndtri(error)
    mass = 0.5 * pair_mass * _normal_density(distances / 2) / distances
    np.fill_diagonal(distances, 0.0)
    return Boundaries(mass, distances)


def skewed_loss(boundaries: Boundaries, shares: ArrayLike) -> float:
    """Computes the accuracy lost on equally likely classes by training on unequal shares.

    Two Gaussian classes alone would lose a fraction ``Phi(D / 2) - [Phi(D / 2 + s / D) +
    Phi(D / 2 - s / D)] / 2`` of their examples, with ``s = log(q_i / q_j)``. A pair among C
    classes loses this times the ratio of two boundary masses: the pair's own and that of two
    classes alone. The sum is exact for two Gaussian classes. For more Gaussian classes it is
    exact to second order in s. It is bounded.

    Args:
      boundaries: the boundaries of C classes.
      shares: float[C], q, positive; their scale does not matter.

    Returns:
      Accuracy lost, at least 0.

    Raises:
      ValueError: if an argument is out of range.
    """
    what = 'boundaries, as `gaussian_boundaries` makes them'
    _checks.checked_kind('boundaries', boundaries, Boundaries, what)
    law = _checks.checked_vector('shares', shares, axis='class')
    count = len(boundaries.mass)
    is_valid = law.size == count and np.all(law > 0)
    _checks.require(is_valid, 'shares', f'be positive, {count} of them', law)
    first, second = np.nonzero(np.triu(boundaries.mass, 1))
    mass = boundaries.mass[first, second]
    distance = boundaries.distances[first, second]
    shift = np.log(law[first] / law[second]) / distance  # s / D
    # Without a shift, the correct fractions of the two classes add up to 2 Phi(D / 2).
    with_shift = special.ndtr(distance / 2 + shift) + special.ndtr(distance / 2 - shift)
    lost = 2 * special.ndtr(distance / 2) - with_shift
    return float(lost @ (mass * distance / _normal_density(distance / 2)))


def _normal_density(values: np.ndarray) -> np.ndarray:
    """Returns the standard normal density."""
    return np.exp(-(values**2) / 2.0) / np.sqrt(2.0 * np.pi)
