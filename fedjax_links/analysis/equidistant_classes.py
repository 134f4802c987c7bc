"""Accuracy that nothing exceeds on Gaussian classes at equal distances, and under label noise."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from fedjax_links.analysis import _checks
from fedjax_links.core import errors

_REACH = 12.0  # the normal density beyond is below 1e-31
_NODES = 4801
_FARTHEST = 60.0  # where the accuracy is 1 in float64, whatever the number of classes


def equidistant_accuracy(distance: float, num_classes: int) -> float:
    """Bayes accuracy of K equally likely classes ``N(m_c, I)`` whose means are equally far apart.

    With ``|m_c - m_k| = D`` for all pairs, scores ``<x, m_c>`` are, up to what all share, K
    independent normals of which the true one is ahead by ``D / sqrt 2``, so the accuracy is
    ``E[Phi(z + D / sqrt 2)^(K - 1)]``, z standard normal. Bayes' rule picks the largest score and
    is linear: no model does better, and softmax regression reaches it.

    Args:
      distance: D, at least 0, in standard deviations of a class.
      num_classes: K, at least 2.

    Returns:
      A probability in [1 / K, 1]. The trapezoidal rule that gives it errs by a few 1e-16, as it
      converges geometrically for entire functions that decay like the normal density.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> print(round(analysis.equidistant_accuracy(2.0, 10), 4))
      0.4792

    References:
      Trefethen and Weideman, The exponentially convergent trapezoidal rule, SIAM Review, 2014.
    """
    classes = _checks.checked_int('num_classes', num_classes, minimum=2)
    if not 0 <= distance < np.inf:
        raise errors.invalid('distance', 'be at least 0 and finite', distance)
    z, weights = _normal_rule(_NODES)
    correct = np.exp((classes - 1) * special.log_ndtr(z + distance / np.sqrt(2)))
    return float(weights @ correct / weights.sum())


def equidistant_skewed_accuracy(distance: float, shares: ArrayLike) -> float:
    """Accuracy on equally likely classes of the rule that is Bayes' for other class shares.

    What softmax regression reaches on `equidistant_accuracy`'s classes where the weighted training
    data hold them in shares q: by `gaussian_minimiser` its scores are those of Bayes' rule with
    ``log q_c`` added. With ``a = D / sqrt 2``, the mean over c of
    ``E[prod_{k != c} Phi(z + a + log(q_c / q_k) / a)]``, z standard normal.

    Args:
      distance: D, positive.
      shares: float[K], q, positive; their scale does not matter.

    Returns:
      A probability; the trapezoidal rule that gives it errs by about 1e-15.

    Raises:
      ValueError: if an argument is out of range.
    """
    law = _checks.checked_vector('shares', shares)
    if not np.all(law > 0):
        raise errors.invalid('shares', 'be positive', law.min())
    if law.size < 2:
        raise errors.invalid('shares', 'have at least 2 entries', law.size)
    if not 0 < distance < np.inf:
        raise errors.invalid('distance', 'be positive and finite', distance)
    # The integrand continues to the complex plane, where it grows like exp(K y^2 / 2).
    step = min(0.1, 2 * np.pi / np.sqrt(80 * law.size))
    z, weights = _normal_rule(1 + 2 * int(np.ceil(_REACH / step)))
    ahead = distance / np.sqrt(2)
    correct = np.zeros(z.size)
    for c in range(law.size):
        leads = ahead + np.log(law[c] / np.delete(law, c)) / ahead
        correct += np.exp(special.log_ndtr(z + leads[:, None]).sum(axis=0))
    return float(weights @ correct / weights.sum() / law.size)


def equidistant_distance(accuracy: float, num_classes: int) -> float:
    """The distance of class means at which `equidistant_accuracy` has a given value.

    Args:
      accuracy: wanted Bayes accuracy, in [1 / K, 1).
      num_classes: K, at least 2.

    Returns:
      D, at least 0; for two classes ``2 Phi^-1(accuracy)``.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> print(round(analysis.equidistant_distance(0.9, 2), 4))
      2.5631
    """
    least = equidistant_accuracy(0.0, num_classes)
    if not least - 1e-12 <= accuracy <= 1 - 1e-12:
        wanted = f'lie in [{least:g}, 1), chance and below certainty'
        raise errors.invalid('accuracy', wanted, accuracy)
    if accuracy <= least:
        return 0.0

    def excess(distance: float) -> float:
        return equidistant_accuracy(distance, num_classes) - accuracy

    return float(optimize.brentq(excess, 0.0, _FARTHEST, xtol=1e-13, rtol=1e-14))


def _normal_rule(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, of any scale, of the trapezoidal rule for the mean of h(z)."""
    z = np.linspace(-_REACH, _REACH, num_nodes)
    return z, np.exp(-0.5 * z**2)
