r"""Computes best linear models of clients with Gaussian features, and what weights cost.

With unit covariance the best model has a closed form. With classes, an example of client i is of
class c with probability ``q_ic``, and then x has the law ``N(mu_c, I)``. Under client weights w the
classes have the shares ``q_c = sum_i w_i q_ic``. By Bayes' rule ``P(c | x)`` is proportional to
``exp(mu_c^T x - |mu_c|^2 / 2 + log q_c)``, so scores are linear. The cross-entropy of a softmax
model is least at the true conditional probabilities. So client weights change the intercept alone,
by the logarithms of the shares. The accuracy that this costs on equally likely classes is one
integral if all means are equally far apart. Otherwise it is a sum over the boundaries of pairs of
classes (`class_boundaries`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, optimize, special

from fedjax_links.analysis import _checks
from fedjax_links.analysis.linear_models import LinearModel

# Integrals over z end here: beyond, the normal density is below 1e-31.
_REACH = 12.0
# Nodes of the sum, in steps of 0.005. `equidistant_distance` places the class means of data sets,
# and another number of nodes would change their last bits.
_NODES = 4801
# At this distance the accuracy is 1 in float64, whatever the number of classes.
_FARTHEST = 60.0
# Second moments of features farther from the origin leave too few digits of a fit.
_LARGEST_SHIFT = 1e6


class LinearFit(NamedTuple):
    """Holds the best linear model of all clients together.

    Attributes:
      vector: float64[d], the model b*.
      error: the mean squared error of b*, the least of all models.
      moment: float64[d, d], S, the clients' mean of ``E[x x^T]``; a model b has error
        ``error + (b - b*)^T S (b - b*)``.
    """

    vector: np.ndarray
    error: float
    moment: np.ndarray


def best_linear_fit(
    vectors: ArrayLike,
    shifts: ArrayLike,
    *,
    sigma: float,
    weights: ArrayLike | None = None,
) -> LinearFit:
    """Computes the least-squares fit of clients with shifted Gaussian features.

    At client i, x has the law ``N(s_i, I)``, and ``y = <x, v_i> + sigma e`` with standard normal
    noise e. The second moment of x is ``E_i[x x^T] = S_i = I + s_i s_i^T``. So the model b has
    the error ``sigma^2 + (b - v_i)^T S_i (b - v_i)`` at client i. The mean of the errors under
    client weights w_i is least at ``b* = S^-1 sum_i w_i S_i v_i`` with ``S = sum_i w_i S_i``.

    Args:
      vectors: float[N, d], v_i.
      shifts: float[N, d], s_i, in [-1e6, 1e6].
      sigma: standard deviation of the noise, at least 0.
      weights: float[N], w_i, how much clients count, scaled to sum one; equal by default.
        With the `fedavg_weights` of independent links, the fit is FedAvg's limit as the step
        size tends to zero.

    Returns:
      The fit.

    Raises:
      ValueError: if an argument is out of range.
    """
    truths = _checks.as_doubles('vectors', vectors)
    centres = _checks.as_doubles('shifts', shifts)
    shape = list(truths.shape)
    is_table = len(shape) == 2 and 0 not in shape
    _checks.require(is_table, 'vectors', 'have shape [N, d]', shape)
    _checks.checked('vectors', truths, np.isfinite(truths), 'be finite')
    same = centres.shape == truths.shape
    _checks.require(same, 'shifts', f'have shape {shape}', centres.shape)
    out_of_range = np.argwhere(~(np.abs(centres) <= _LARGEST_SHIFT))
    if out_of_range.size:
        i, j = out_of_range[0]
        requirement = f'lie in [{-_LARGEST_SHIFT:g}, {_LARGEST_SHIFT:g}]'
        got = f'{centres[i, j]} at coordinate {j} of client {i}'
        _checks.require(False, 'shifts', requirement, got)
    sigma = _checks.checked_at_least_zero('sigma', sigma)
    num_clients, dimension = shape
    weights = np.ones(num_clients) if weights is None else weights
    shares = _checks.checked_client_weights('weights', weights)
    fits = shares.size == num_clients
    requirement = f'have one entry per client ({num_clients})'
    _checks.require(fits, 'weights', requirement, shares.size)
    shares = shares / shares.sum()
    moment = np.eye(dimension) + (shares[:, None] * centres).T @ centres
    # b* = S^-1 sum_i w_i S_i v_i with S_i v = v + s_i <s_i, v>.
    s_v = truths + centres * np.sum(centres * truths, axis=1, keepdims=True)
    vector = linalg.solve(moment, shares @ s_v, assume_a='pos')
    # Client i's error above sigma^2: d^T S_i d = |d|^2 + <s_i, d>^2 for d = b* - v_i.
    d = vector - truths
    excess = np.sum(d**2, axis=1) + np.sum(centres * d, axis=1) ** 2
    return LinearFit(vector, float(sigma * sigma + shares @ excess), moment)


def gaussian_minimiser(
    means: ArrayLike, proportions: ArrayLike, weights: ArrayLike
) -> LinearModel:
    r"""Computes the softmax model that minimises ``sum_i w_i E[loss]`` over Gaussian classes.

    Args:
      means: float[C, d], mu_c.
      proportions: float[N, C], q_ic, the class shares of each client.
      weights: float[N], w_i, not negative.

    Returns:
      The exact minimiser. Its coefficients are ``B_c = mu_c`` minus the mean of mu_c over the
      classes. Its intercept is ``b_c = log q_c - |mu_c|^2 / 2`` minus the mean of this over the
      classes. A gradient method from zero tends to this minimiser.

    Raises:
      ValueError: if an argument is out of range, or a class has no share under the weights.
        Then there is no minimiser: the intercept of this class would fall for ever.
    """
    centres = class_means(means)
    client_weights = _checks.checked_client_weights('weights', weights)
    table = _checks.as_doubles('proportions', proportions)
    shape = (client_weights.size, len(centres))
    got = f'shape {list(table.shape)}'
    _checks.require(
        table.shape == shape, 'proportions', f'have shape {list(shape)}', got
    )
    is_valid = np.isfinite(table) & (table >= 0)
    _checks.checked('proportions', table, is_valid, 'be finite and at least 0')
    shares = client_weights @ table
    got = f'0 for class {np.argmin(shares)}'
    _checks.require(shares.all(), 'proportions', 'give every class a share', got)
    shares = shares / shares.sum()
    intercept = np.log(shares) - 0.5 * np.sum(centres**2, axis=1)
    return LinearModel((centres - centres.mean(axis=0)).T, intercept - intercept.mean())


def equidistant_accuracy(distance: float, num_classes: int) -> float:
    """Computes the Bayes accuracy of K Gaussian classes whose means are equally far apart.

    Classes are equally likely, class c is ``N(m_c, I)``, and ``|m_c - m_k| = D`` for all
    pairs. Up to a common term, the scores ``<x, m_c>`` are K independent normal numbers. The
    mean score of the true class is ahead by ``D / sqrt 2`` standard deviations of a score. So
    the accuracy is ``E[Phi(z + D / sqrt 2)^(K - 1)]``, z standard normal. Bayes' rule picks
    the largest score and is linear. So no model does better, and softmax regression reaches
    this accuracy.

    Args:
      distance: D, at least 0, in standard deviations of a class.
      num_classes: K, at least 2.

    Returns:
      A probability in [1 / K, 1]. The trapezoidal sum that computes it errs by a few 1e-16.
      Such a sum converges geometrically for entire functions that decay like the normal density.

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
    distance = _checks.checked_at_least_zero('distance', distance)
    z, weights = _normal_rule(_NODES)
    correct = np.exp((classes - 1) * special.log_ndtr(z + distance / np.sqrt(2)))
    return float(weights @ correct / weights.sum())


def equidistant_skewed_accuracy(distance: float, shares: ArrayLike) -> float:
    """Computes the accuracy on equally likely classes after training on unequal shares.

    The classes are those of `equidistant_accuracy`. The weighted training data hold them in
    the shares q. By `gaussian_minimiser`, the scores of softmax regression are then the scores
    of Bayes' rule plus ``log q_c``. With ``a = D / sqrt 2`` the accuracy is the mean over c of
    ``E[prod_{k != c} Phi(z + a + log(q_c / q_k) / a)]``, z standard normal.

    Args:
      distance: D, positive.
      shares: float[K], q, positive; their scale does not matter.

    Returns:
      A probability. The trapezoidal sum that computes it errs by about 1e-15.

    Raises:
      ValueError: if an argument is out of range.
    """
    law = _checks.checked_vector('shares', shares, axis='class')
    _checks.require(np.all(law > 0), 'shares', 'be positive', law.min())
    _checks.require(law.size > 1, 'shares', 'have at least 2 entries', law.size)
    distance = _checks.checked_positive('distance', distance)
    # The integrand continues to the complex plane, where it grows like exp(K y^2 / 2). So a sum
    # of step h errs by about exp(-2 pi^2 / (K h^2)). For the step below this is exp(-40).
    step = min(0.1, 2 * np.pi / np.sqrt(80 * law.size))
    z, weights = _normal_rule(1 + 2 * int(np.ceil(_REACH / step)))
    ahead = distance / np.sqrt(2)
    correct = np.zeros(z.size)
    for c in range(law.size):
        leads = ahead + np.log(law[c] / np.delete(law, c)) / ahead
        correct += np.exp(special.log_ndtr(z + leads[:, None]).sum(axis=0))
    return float(weights @ correct / weights.sum() / law.size)


def equidistant_distance(accuracy: float, num_classes: int) -> float:
    """Computes the distance of class means at which the Bayes accuracy has a given value.

    Args:
      accuracy: the Bayes accuracy, in [1 / K, 1).
      num_classes: K, at least 2.

    Returns:
      D, at least 0; for two classes ``2 Phi^{-1}(accuracy)``.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> print(round(analysis.equidistant_distance(0.9, 2), 4))
      2.5631
    """
    least = equidistant_accuracy(0.0, num_classes)
    accuracy = _checks.checked_number('accuracy', accuracy)
    is_valid = least - 1e-12 <= accuracy <= 1 - 1e-12
    requirement = f'lie in [{least:g}, 1), from chance to below certainty'
    _checks.require(is_valid, 'accuracy', requirement, accuracy)
    if accuracy <= least:
        return 0.0

    def excess(distance: float) -> float:
        return equidistant_accuracy(distance, num_classes) - accuracy

    return float(optimize.brentq(excess, 0.0, _FARTHEST, xtol=1e-13, rtol=1e-14))


def _normal_rule(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns nodes and unscaled weights of the trapezoidal sum for the mean of h(z)."""
    z = np.linspace(-_REACH, _REACH, num_nodes)
    return z, np.exp(-0.5 * z**2)


def class_means(means: ArrayLike) -> np.ndarray:
    """Checks the means of classes and returns them as float64[C, d]."""
    centres = _checks.as_doubles('means', means)
    is_table = centres.ndim == 2 and len(centres) > 1 and centres.size > 0
    got = f'shape {list(centres.shape)}'
    _checks.require(is_table, 'means', 'have shape [C, d] with C >= 2', got)
    return _checks.checked('means', centres, np.isfinite(centres), 'be finite')
