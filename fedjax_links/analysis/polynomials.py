r"""Polynomials of participation: the law of the cohort size and the integrals built on it.

With independent links the size of the active set has the generating function
``f(z) = prod_j (1 - p_j + p_j z)``. Means of reciprocals of the size are integrals of ``f`` over
[0, 1], because ``1/n = int z^(n-1) dz`` and ``1/n^2 = int -log(z) z^(n-1) dz``. Both kinds are
evaluated by quadrature in log space, so that nothing under- or overflows at 10,000 clients.
"""

import functools
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike
from scipy import special

from fedjax_links.analysis import _checks

# Truncation target, below the rounding error of float64 relative to the integral itself.
_LOG_TOLERANCE = np.log(1e-18)


class Quadrature(NamedTuple):
    """A rule for ``int_0^1 weight(z) h(z) dz``, exact where ``h`` has the stated degree.

    The integrands peak at z = 1 with a width of one over the expected cohort size, so nodes carry
    their distance from 1 as well: `1 - nodes` would have lost the digits that matter.

    Attributes:
      nodes: float64[n], z inside (0, 1).
      complements: float64[n], 1 - z to full relative precision.
      weights: float64[n], for the weight function 1 or -log(z).
    """

    nodes: np.ndarray
    complements: np.ndarray
    weights: np.ndarray


def poisson_binomial_pmf(probs: ArrayLike) -> np.ndarray:
    """Law of the number of active clients when links are independent.

    ``P(|A| = k) = [z^k] prod_j (1 - p_j + p_j z)``, built one client at a time. Every term of the
    recursion is non-negative, so entries keep their relative precision down to underflow. Costs
    O(N^2) operations and O(N) memory.

    Args:
      probs: float[N], participation probabilities in [0, 1].

    Returns:
      float64[N + 1], entry k is the probability of exactly k active clients.

    Raises:
      ValueError: if ``probs`` is not a vector of probabilities.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.poisson_binomial_pmf([0.5, 0.3]).round(3))
      [0.35 0.5  0.15]
    """
    probs = _checks.checked_probs('probs', probs)
    pmf = np.zeros(probs.size + 1)
    pmf[0] = 1.0
    for count, prob in enumerate(probs, start=1):
        gained = prob * pmf[:count]
        pmf[:count] *= 1.0 - prob
        pmf[1 : count + 1] += gained
    return pmf


def plain_rule(probs: np.ndarray) -> Quadrature:
    """Gauss-Legendre rule for ``int h(z) dz``, `h` being `f` without one factor, or a part of it.

    With ``ceil(N/2)`` nodes the rule is exact for every polynomial of degree N - 1. In a large
    federation far fewer nodes reach rounding error: see `sufficient_degree`.

    Args:
      probs: float64[N], participation probabilities.

    Returns:
      The rule on [0, 1] for the weight function 1.
    """
    return gauss_legendre((sufficient_degree(probs) + 2) // 2)


def logarithmic_rule(probs: np.ndarray) -> Quadrature:
    """Interpolatory rule for ``int -log(z) h(z) dz`` at Gauss-Legendre nodes.

    The weight function enters through its exact Legendre moments, 1 for degree 0 and
    ``(-1)^l / (l (l + 1))`` for degree l, so the rule is exact for polynomials of degree below its
    number of nodes.

    Args:
      probs: float64[N], participation probabilities.

    Returns:
      The rule on [0, 1] for the weight function -log(z).
    """
    rule = gauss_legendre(sufficient_degree(probs) + 1)
    degrees = np.arange(1, rule.nodes.size)
    moments = np.append(1.0, (-1.0) ** degrees / (degrees * (degrees + 1.0)))
    moments *= 2.0 * np.arange(rule.nodes.size) + 1.0
    density = legendre.legval(rule.nodes - rule.complements, moments)
    return rule._replace(weights=rule.weights * density)


def sufficient_degree(probs: np.ndarray) -> int:
    r"""Polynomial degree that represents `f` on [0, 1] to rounding error; at most N - 1.

    On the Bernstein ellipse with parameter ``e^s`` around [0, 1], ``|z| - 1`` is at most
    ``sinh(s/2)^2``, hence ``|f(z)| <= exp(mu sinh(s/2)^2)`` with ``mu = sum_j p_j``, and the best
    approximation of degree D errs by about ``exp(mu sinh(s/2)^2 - D s)``. The ellipse with
    ``sinh(s) = 2 D / mu`` minimises this, so a degree of order ``sqrt(mu)`` is enough. The target
    is relative to ``1/(2 + mu)^2``, the smallest integral of interest by Jensen's inequality.

    Args:
      probs: float64[N], participation probabilities.

    Returns:
      The degree.

    References:
      Trefethen, Approximation Theory and Approximation Practice, 2013, Theorems 8.2 and 19.3.
    """
    mean = max(float(np.sum(probs)), 1e-9)
    degrees = np.arange(1, probs.size + 1, dtype=np.float64)
    ratio = 2.0 * degrees / mean
    ellipse = np.arcsinh(ratio)
    excess = 0.5 * (np.sqrt(1.0 + ratio**2) - 1.0)  # sinh(s/2)^2
    log_error = mean * excess - degrees * ellipse + np.log1p(excess)
    log_error += np.log(4.0) - np.log(-np.expm1(-ellipse))
    enough = log_error <= _LOG_TOLERANCE - 2.0 * np.log(2.0 + mean)
    first = int(np.argmax(enough)) + 1 if np.any(enough) else probs.size
    return min(first, probs.size - 1)


def log_factors(probs: np.ndarray, rule: Quadrature) -> np.ndarray:
    """Logarithms of the factors of `f`.

    Args:
      probs: float64[N], participation probabilities.
      rule: quadrature rule with n nodes.

    Returns:
      float64[n, N], ``log(1 - p_i + p_i z_k)``: finite, for p = 1 as well.
    """
    drop = probs * rule.complements[:, None]
    near_one = np.log1p(-np.minimum(drop, 0.5))
    elsewhere = np.log((1.0 - probs) + probs * rule.nodes[:, None])
    return np.where(drop < 0.5, near_one, elsewhere)


@functools.lru_cache(maxsize=32)
def gauss_legendre(num_nodes: int) -> Quadrature:
    """Gauss-Legendre rule on [0, 1] with full relative precision at both ends.

    Library nodes near the ends are good to an absolute 1e-16, which their weights magnify by the
    square of the number of nodes. Newton steps in the distance y from the end repair that, with the
    recursion for ``P_k(1 - 2 y)`` written in differences so that it never forms ``1 - 2 y``.

    Args:
      num_nodes: number of nodes n, at least 1. The rule is exact up to degree 2 n - 1.

    Returns:
      The rule, read-only because it is cached.

    References:
      Weights: ``w = 4 y (1 - y) / (n P_{n-1})^2`` on [0, 1], Abramowitz and Stegun 25.4.29.
    """
    half = (num_nodes + 1) // 2
    ends = 0.5 * (special.roots_legendre(num_nodes)[0][:half] + 1.0)
    for _ in range(3):
        value, before = _legendre_pair(num_nodes, ends)
        slope = num_nodes * (before - (1.0 - 2.0 * ends) * value) / (4.0 * ends * (1.0 - ends))
        ends = ends + value / (2.0 * slope)
    _, before = _legendre_pair(num_nodes, ends)
    weights = 4.0 * ends * (1.0 - ends) / (num_nodes * before) ** 2
    mirrored = slice(num_nodes // 2 - 1, None, -1) if num_nodes > 1 else slice(0, 0)
    nodes = np.concatenate([ends, (1.0 - ends)[mirrored]])
    complements = np.concatenate([1.0 - ends, ends[mirrored]])
    rule = Quadrature(nodes, complements, np.concatenate([weights, weights[mirrored]]))
    for array in rule:
        array.flags.writeable = False
    return rule


def _legendre_pair(degree: int, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Legendre polynomials of `degree` and of one degree less at ``1 - 2 y``."""
    value, before = 1.0 - 2.0 * ends, np.ones_like(ends)
    step = -2.0 * ends
    for k in range(1, degree):
        step = (k * step - 2.0 * (2 * k + 1) * ends * value) / (k + 1)
        value, before = value + step, value
    return value, before
