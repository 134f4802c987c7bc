r"""The number of active clients under independent links: its law, and means of its reciprocals.

The size of the active set A has the generating function ``f(z) = prod_j (1 - p_j + p_j z)``, and
means of ``1 / |A|`` and ``1 / |A|^2`` are integrals of ``f`` over [0, 1], because
``1/n = int z^(n-1) dz`` and ``1/n^2 = int -log(z) z^(n-1) dz``. With ``z = exp(-t)`` one rule with
positive weights serves both, and products are taken in log space, so that nothing cancels and
nothing under- or overflows, whatever the number of clients.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks

_STEP = 0.125  # of the trapezoidal sum: halved, it changes nothing above rounding
_FIRST = -3.75  # where t is 1e-20 of its scale
_LAST_EXPONENT = 50.0  # integrands beyond are below exp(-50)
_CHUNK_ELEMENTS = 2**16  # entries of a [nodes, clients] block held at a time (512 KiB)


def poisson_binomial_pmf(probs: ArrayLike) -> np.ndarray:
    """Law of the number of active clients when links are independent.

    ``P(|A| = k) = [z^k] prod_j (1 - p_j + p_j z)``, one factor at a time. Every term of the
    product is non-negative, so entries keep their relative precision down to underflow. Costs
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
    pmf = np.ones(1)
    for prob in _checks.checked_probs('probs', probs):
        pmf = np.convolve(pmf, [1.0 - prob, prob])
    return pmf


def non_empty_probability(probs: np.ndarray) -> float:
    """Probability that at least one independent link is up, precise for tiny ``probs`` too."""
    with np.errstate(divide='ignore'):  # log1p(-1) = -inf is the right answer for p = 1
        return float(-np.expm1(np.log1p(-probs).sum()))


def rule(probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""A rule for ``int_0^1 h(z) dz``; its weights times t are one for ``int -log(z) h(z) dz``.

    It serves h = `f`, `f` without some factors, and `f` over z, to rounding error.

    With ``mu = sum_j p_j`` the integrand in t falls off over ``1 / (1 + mu)``. The substitution
    ``t = exp(s - exp(-s)) / (1 + mu)`` makes it fall off double exponentially on both sides of the
    real line, where the trapezoidal sum converges geometrically: some 70 nodes for any N.

    Args:
      probs: float64[N], participation probabilities.

    Returns:
      float64[n], t of the nodes ``z = exp(-t)``, increasing from close to 0; and float64[n], their
      positive weights.

    References:
      Takahasi and Mori, Double exponential formulas for numerical integration, 1974.
    """
    mean = float(np.sum(probs))
    s = np.arange(_FIRST, np.log(_LAST_EXPONENT * (1.0 + mean)), _STEP)
    times = np.exp(s - np.exp(-s)) / (1.0 + mean)
    counted = (
        times - mean * np.expm1(-times) < _LAST_EXPONENT
    )  # f(z) z is below exp(-this)
    s, times = s[counted], times[counted]
    return times, _STEP * (1.0 + np.exp(-s)) * times * np.exp(-times)


def log_factors(probs: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Logarithms of the factors of `f`.

    Args:
      probs: float64[N], participation probabilities.
      times: float64[n], of nodes ``z_k = exp(-t_k)``.

    Returns:
      float64[n, N], ``log(1 - p_i + p_i z_k)``: finite, for p = 1 as well.
    """
    drop = probs * -np.expm1(-times)[:, None]
    near_one = np.log1p(-np.minimum(drop, 0.5))
    elsewhere = np.log((1.0 - probs) + probs * np.exp(-times)[:, None])
    return np.where(drop < 0.5, near_one, elsewhere)


def reciprocal_means(probs: np.ndarray) -> np.ndarray:
    """Means ``E[1{i in A} / |A|]`` under independent links, in bounded memory.

    They are ``p_i int_0^1 prod_{j != i} (1 - p_j + p_j z) dz``.

    Args:
      probs: float64[N], participation probabilities.

    Returns:
      float64[N].
    """
    times, weights = rule(probs)
    chunks = np.array_split(probs, -(-probs.size * times.size // _CHUNK_ELEMENTS))
    log_mass = np.log(weights) + sum(
        log_factors(chunk, times).sum(axis=1) for chunk in chunks
    )
    means = [
        np.exp(log_mass[:, None] - log_factors(chunk, times)).sum(axis=0)
        for chunk in chunks
    ]
    return probs * np.concatenate(means)


def pair_means(probs: np.ndarray, power: int) -> np.ndarray:
    """Matrix ``E[1{i, j in A} / |A|^power]`` under independent links, of power 1 or 2.

    Args:
      probs: float64[N], participation probabilities.
      power: of the size.

    Returns:
      float64[N, N], symmetric.
    """
    rows, diagonal = pair_rows(probs, power)
    matrix: np.ndarray = rows.T @ rows
    np.fill_diagonal(matrix, diagonal)
    return matrix


def pair_rows(probs: np.ndarray, power: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows float64[n, N] whose Gram matrix is `pair_means` off its diagonal; and the diagonal."""
    times, weights = rule(probs)
    factors = log_factors(probs, times)
    log_mass = np.log(weights * times ** (power - 1)) + factors.sum(axis=1)
    # The square root of the node's mass goes to each side: every entry stays below one.
    rows = probs * np.exp(0.5 * (log_mass - times)[:, None] - factors)
    return rows, probs * np.exp(log_mass[:, None] - factors).sum(axis=0)


def mean_covariance(probs: np.ndarray, values: np.ndarray) -> np.ndarray:
    r"""Moment ``E[1{A not empty} m m^T]`` of ``m = mean_A v`` for vectors v_i.

    It equals ``sum_ij K_ij v_i v_j^T`` with ``K_ij = E[1{i, j in A} / |A|^2]``, summed without
    forming K: O(N d) operations.

    Args:
      probs: float64[N], participation probabilities.
      values: float64[N, d], one vector per client.

    Returns:
      float64[d, d]; a covariance (up to the probability of a non-empty round) where the mean of m
      given a non-empty round is zero.
    """
    rows, diagonal = pair_rows(probs, power=2)
    means = rows @ values
    singles = diagonal - np.sum(rows**2, axis=0)
    return np.asarray(means.T @ means + values.T @ (singles[:, None] * values))


def gossip_map(probs: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    r"""The linear map ``H -> E[W H W]`` for the mixing matrix W of a round.

    Entry (i, j) is ``H_ij`` where both are silent, the mean of row j over A where only i is active,
    and the mean of H over A x A where both are. The mean over W of the Kronecker square is the same
    map with N^4 entries; this form needs 70 N, one for each node. The map is self-adjoint with
    eigenvalues in [0, 1], because every Kronecker square of W is an orthogonal projection.

    Args:
      probs: float64[N], participation probabilities.

    Returns:
      The map of a symmetric float64[N, N] to another, in O(N^2) operations.
    """
    times, weights = rule(probs)
    factors = log_factors(probs, times)
    first = (weights * np.exp(factors.sum(axis=1) + times))[:, None]
    second = first * times[:, None]
    up = probs * np.exp(-times[:, None] - factors)  # g: a link is up, given z
    down = (1.0 - probs) * np.exp(-factors)
    silent, spread, weighted = 1.0 - probs, up * down, up * second
    one_side = (
        spread * first
    ).T @ down  # how often H_ij itself is met with i active and j not
    both_sides = (spread * second).T @ spread  # the same with both active

    def apply(moment: np.ndarray) -> np.ndarray:
        diagonal = np.diagonal(moment)
        # sums[k, j] = sum over i other than j of g_i H_ij: the active clients' pull on client j.
        sums = up @ moment - up * diagonal
        totals = np.sum(up * (sums + diagonal), axis=1)
        own = down * (2.0 * sums + diagonal)
        lone = (up * first).T @ (down * sums) + one_side * moment
        joint = weighted.T @ (up * (0.5 * totals[:, None] + own))
        result: np.ndarray = lone + lone.T + joint + joint.T
        result += (np.outer(silent, silent) + 2.0 * both_sides) * moment
        alone = silent * diagonal + np.sum(weighted * (totals[:, None] + own), axis=0)
        np.fill_diagonal(result, alone)
        return result

    return apply
