"""How much lies at each boundary of two classes, and what skewed class shares cost there."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from fedjax_links.analysis import _checks
from fedjax_links.core import errors

_SCRAMBLES, _POINTS = 8, 2**9  # of a boundary


class Boundaries(NamedTuple):
    """The boundaries of pairs of equally likely classes.

    Attributes:
      mass: float[C, C], b, symmetric, 0 on the diagonal: accuracy per unit of squared log odds.
      distances: float[C, C], D, of the two classes in standard deviations; infinite where nothing
        lies between them.
      error: standard error of the sum of b over all pairs by the quadrature; 0 if there was none.
    """

    mass: NDArray[np.float64]
    distances: NDArray[np.float64]
    error: float = 0.0


def gaussian_boundaries(means: ArrayLike) -> Boundaries:
    r"""Boundaries of equally likely classes ``N(mu_c, I)``.

    Bayes' rule with ``h_c = log q_c`` added to its scores moves the boundary of i and j to log odds
    of ``h_j - h_i``. Between there and 0 an example costs the difference of two posteriors that is
    in first order ``P(i | x) |L_ij|``, ``L_ij`` its log odds, so that the accuracy lost is
    ``sum_{i<j} b_ij (h_i - h_j)^2 / 2 + O(h^3)`` with the boundary mass
    ``b_ij = E[P(i | x) delta(L_ij(x)); i and j lead at x]``. For these classes ``L_ij`` has slope
    ``D_ij = |mu_i - mu_j|``, and ``b_ij = phi(D_ij / 2) / (C D_ij)`` times the share of the
    boundary, a standard normal around ``(mu_i + mu_j) / 2`` in the hyperplane, on which no third
    class is ahead.

    Args:
      means: float[C, d], mu_c, no two alike.

    Returns:
      The boundaries; shares by 8 scrambled Sobol sequences of 512 points each (Owen 1995).

    Raises:
      ValueError: if an argument is out of range.
    """
    centres = np.asarray(means, np.float64)
    if centres.ndim != 2 or len(centres) < 2 or not np.isfinite(centres).all():
        raise errors.invalid('means', 'be finite, [C, d], C >= 2', f'shape {centres.shape}')
    count, dim = centres.shape
    first, second = np.triu_indices(count, 1)
    apart = centres[first] - centres[second]
    distance = np.linalg.norm(apart, axis=1)
    if not distance.all():
        raise errors.invalid('means', 'differ between classes', centres[first[distance.argmin()]])
    normals = apart / distance[:, None]
    heights = -0.5 * np.sum(centres**2, axis=1)
    shares = np.empty((_SCRAMBLES, len(first)))
    for scramble in range(_SCRAMBLES):
        sequence = stats.qmc.Sobol(dim, rng=np.random.default_rng(scramble))
        noise = special.ndtri(sequence.random(_POINTS))
        for pair, (i, j) in enumerate(zip(first, second, strict=True)):
            along = np.outer(noise @ normals[pair], normals[pair])
            scores = (0.5 * (centres[i] + centres[j]) + noise - along) @ centres.T + heights
            others = np.delete(scores, [i, j], axis=1).max(axis=1, initial=-np.inf)
            shares[scramble, pair] = np.mean(scores[:, i] > others)
    full = stats.norm.pdf(distance / 2) / (count * distance)
    error = np.std(shares @ full, ddof=1) / np.sqrt(_SCRAMBLES)
    mass, distances = np.zeros((2, count, count))
    mass[first, second] = mass[second, first] = full * shares.mean(axis=0)
    distances[first, second] = distances[second, first] = distance
    return Boundaries(mass, distances, float(error))


def confusion_boundaries(confusion: ArrayLike) -> Boundaries:
    """Boundaries as far as a confusion matrix tells, each pair taken for two Gaussian classes.

    Of the examples of i and j that are predicted as i or j, a share e goes wrong; two Gaussian
    classes with this error are ``D = -2 Phi^-1(e)`` apart, and of the density at their boundary
    these examples have their part.

    Args:
      confusion: float[C, C], counts or shares by true class (row) and predicted class, of a model
        that weighs classes equally. Rows are scaled to be equally likely.

    Returns:
      The boundaries. A pair that is never confused has none.

    Raises:
      ValueError: if an argument is out of range, or half of a pair's predictions are wrong.
    """
    table = np.asarray(confusion, np.float64)
    if table.ndim != 2 or len(table) < 2 or len(set(table.shape)) > 1:
        raise errors.invalid('confusion', 'be [C, C], C >= 2', f'shape {table.shape}')
    if not (np.isfinite(table) & (table >= 0)).all() or not np.diag(table).all():
        raise errors.invalid('confusion', 'be at least 0, positive on the diagonal', table.min())
    table = table / table.sum(axis=1, keepdims=True) / len(table)
    both, right = table + table.T, np.diag(table)
    part = right[:, None] + right + both
    wrong = np.where(np.eye(len(table), dtype=bool), 0.0, both / part)
    if wrong.max() >= 0.5:
        raise errors.invalid('confusion', 'have less than half of any pair wrong', wrong.max())
    distances = -2 * special.ndtri(wrong)
    mass = 0.5 * part * stats.norm.pdf(distances / 2) / distances
    np.fill_diagonal(distances, 0.0)
    return Boundaries(mass, distances)


def skewed_loss(boundaries: Boundaries, shares: ArrayLike) -> float:
    """Accuracy that Bayes' rule for other class shares loses on equally likely classes, by pairs.

    Every pair loses what two Gaussian classes would, ``Phi(D / 2) - [Phi(D / 2 + s / D) +
    Phi(D / 2 - s / D)] / 2`` of its examples with ``s = log(q_i / q_j)``, times its boundary mass
    over theirs: exact for two classes, exact to second order in s for any number, and bounded.

    Args:
      boundaries: of C classes.
      shares: float[C], q, positive; their scale does not matter.

    Returns:
      Accuracy lost, at least 0.

    Raises:
      ValueError: if an argument is out of range.
    """
    law = _checks.checked_vector('shares', shares)
    if law.shape != boundaries.mass.shape[:1] or not np.all(law > 0):
        raise errors.invalid('shares', f'be positive, {len(boundaries.mass)} of them', law)
    first, second = np.nonzero(np.triu(boundaries.mass, 1))
    mass, distance = boundaries.mass[first, second], boundaries.distances[first, second]
    tilt = np.log(law[first] / law[second]) / distance
    ahead = distance / 2 + np.multiply.outer([0, 1, -1], tilt)
    lost = special.ndtr(ahead).T @ [2, -1, -1]
    return float(lost @ (mass * distance / stats.norm.pdf(distance / 2)))
