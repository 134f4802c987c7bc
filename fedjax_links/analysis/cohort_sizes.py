r"""Computes the law of the number of active clients, and means of its reciprocals.

Links are independent. The number of active clients ``|A|`` has the generating function

``f(z) = E[z^|A|] = prod_j (1 - p_j + p_j z)``.

Means of ``1 / |A|`` and ``1 / |A|^2`` are integrals of f over [0, 1], because
``1/n = int z^(n-1) dz`` and ``1/n^2 = int -log(z) z^(n-1) dz``. With ``z = exp(-t)`` one
quadrature with positive weights computes both integrals. Products are taken in log space. So no
digits cancel and nothing under- or overflows, whatever the number of clients.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks

# The step of the trapezoidal sum. Half the step changes results by rounding only.
_STEP = 0.125
# The first node s, where t is 1e-20 of its scale.
_FIRST = -3.75
# Nodes end where the integrand falls below exp(-50).
_LAST_EXPONENT = 50.0
# Entries of a [nodes, clients] block in memory at a time (512 KiB).
_CHUNK_ELEMENTS = 2**16


def poisson_binomial_pmf(probs: ArrayLike) -> np.ndarray:
    """Computes the law of the number of active clients when links are independent.

    ``P(|A| = k) = [z^k] prod_j (1 - p_j + p_j z)``, one factor at a time. Every term of
    the product is non-negative, so entries keep their relative precision down to
    underflow. Costs O(N^2) operations and O(N) memory.

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
    """Computes the probability that at least one independent link is up.

    The result is precise for tiny ``probs`` too.
    """
    with np.errstate(divide='ignore'):  # log1p(-1) = -inf is the right answer for p = 1
        return float(-np.expm1(np.log1p(-probs).sum()))


def quadrature(probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Returns nodes and weights of a quadrature for ``int_0^1 h(z) dz``.

    The weights times t give a quadrature for ``int -log(z) h(z) dz``. Both quadratures are exact
    to rounding for ``h(z) = f(z)``, and for f without one or two of its factors. (With most factors
    left out, h would reach beyond the last node.)

    With ``mu = sum_j p_j`` the integrand in t falls off over ``1 / (1 + mu)``. The
    substitution ``t = exp(s - exp(-s)) / (1 + mu)`` gives an integrand in s that falls off double
    exponentially on both sides. For such an integrand the trapezoidal sum converges
    geometrically: some 70 nodes are enough for any N.

    Args:
      probs: float64[N], participation probabilities.

    Returns:
      float64[n], t of the nodes ``z = exp(-t)``, increasing from close to 0; and
      float64[n], the positive weights of the nodes.

    References:
      Takahasi and Mori, Double exponential formulas for numerical integration, 1974.
    """
    mu = float(np.sum(probs))
    s = np.arange(_FIRST, np.log(_LAST_EXPONENT * (1.0 + mu)), _STEP)
    times = np.exp(s - np.exp(-s)) / (1.0 + mu)
    # The integrand f(z) z is below exp(-exponent).
    exponent = times - mu * np.expm1(-times)
    is_relevant = exponent < _LAST_EXPONENT
    s = s[is_relevant]
    times = times[is_relevant]
    jacobian = (1.0 + np.exp(-s)) * times * np.exp(-times)
    return times, _STEP * jacobian


def log_factors(probs: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Computes the logarithms of the factors of f at some nodes.

    Args:
      probs: float64[N], participation probabilities.
      times: float64[n], of nodes ``z_k = exp(-t_k)``.

    Returns:
      float64[n, N], ``log(1 - p_i + p_i z_k)``, finite also for p = 1.
    """
    # A factor is one minus p (1 - z). For factors near one, log1p is precise. For other factors
    # log1p would lose digits of p z if p is close to one.
    below_one = probs * -np.expm1(-times)[:, None]
    near_one = np.log1p(-np.minimum(below_one, 0.5))
    elsewhere = np.log((1.0 - probs) + probs * np.exp(-times)[:, None])
    return np.where(below_one < 0.5, near_one, elsewhere)


def reciprocal_means(probs: np.ndarray) -> np.ndarray:
    """Computes means ``E[1{i in A} / |A|]`` under independent links, in bounded memory.

    The mean of client i is ``p_i int_0^1 prod_{j != i} (1 - p_j + p_j z) dz``.

    Args:
      probs: float64[N], participation probabilities.

    Returns:
      float64[N].
    """
    times, weights = quadrature(probs)
    num_chunks = math.ceil(probs.size * times.size / _CHUNK_ELEMENTS)
    chunks = np.array_split(probs, num_chunks)
    log_product = sum(log_factors(chunk, times).sum(axis=1) for chunk in chunks)
    log_mass = np.log(weights) + log_product
    means = []
    for chunk in chunks:
        # The integrand of client i is f without the factor of i.
        integrand = np.exp(log_mass[:, None] - log_factors(chunk, times))
        means.append(integrand.sum(axis=0))
    return probs * np.concatenate(means)


def pair_means(probs: np.ndarray, power: int) -> np.ndarray:
    """Computes the matrix ``E[1{i, j in A} / |A|^power]`` under independent links.

    Args:
      probs: float64[N], participation probabilities.
      power: 1 or 2.

    Returns:
      float64[N, N], symmetric.
    """
    rows, diagonal = pair_rows(probs, power)
    matrix: np.ndarray = rows.T @ rows
    np.fill_diagonal(matrix, diagonal)
    return matrix


def pair_rows(probs: np.ndarray, power: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a matrix whose Gram matrix is `pair_means` off the diagonal, and the diagonal.

    Off the diagonal, ``E[1{i, j in A} / |A|] = p_i p_j int z f(z) / (f_i(z) f_j(z)) dz``, with
    the factors f_i of f. On the diagonal, ``E[1{i in A} / |A|] = p_i int f(z) / f_i(z) dz``.

    Args:
      probs: float64[N], participation probabilities.
      power: 1 or 2.

    Returns:
      Rows float64[n, N], one for each node of the quadrature; and the diagonal, float64[N].
    """
    times, weights = quadrature(probs)
    factors = log_factors(probs, times)
    # The second power has the weight -log(z) = t.
    log_mass = np.log(weights * times ** (power - 1)) + factors.sum(axis=1)
    # Each of the two factors takes the square root of the node's mass, so entries stay below one.
    rows = probs * np.exp(0.5 * (log_mass - times)[:, None] - factors)
    return rows, probs * np.exp(log_mass[:, None] - factors).sum(axis=0)


def mean_covariance(probs: np.ndarray, values: np.ndarray) -> np.ndarray:
    r"""Computes the second moment of the active clients' mean vector, 0 in an empty round.

    It is ``E[1{A not empty} m m^T]`` for ``m = mean_A v``, which equals
    ``sum_ij K_ij v_i v_j^T`` with ``K_ij = E[1{i, j in A} / |A|^2]``. The sum takes O(N d)
    operations, since it does not form K.

    Args:
      probs: float64[N], participation probabilities.
      values: float64[N, d], one vector per client.

    Returns:
      float64[d, d]. If m has mean zero over non-empty rounds, this is the covariance of m over
      non-empty rounds, times the probability of a non-empty round.
    """
    rows, diagonal = pair_rows(probs, power=2)
    means = rows @ values
    # The Gram matrix of the rows differs from K on the diagonal.
    correction = diagonal - np.sum(rows**2, axis=0)
    return np.asarray(means.T @ means + values.T @ (correction[:, None] * values))


def gossip_map(probs: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    r"""Returns the linear map ``H -> E[W H W]`` for the mixing matrix W of a round.

    Entry (i, j) of ``W H W`` is ``H_ij`` if neither i nor j is active. If only i is active, the
    entry is the mean of row j of H over A. If both are active, it is the mean of H over A x A. The
    mean Kronecker square of W is the same map, written with N^4 entries. The form here needs N
    numbers for each of some 70 nodes. The map is self-adjoint with eigenvalues in [0, 1], because
    the Kronecker square of W is an orthogonal projection.

    Args:
      probs: float64[N], participation probabilities.

    Returns:
      The map of a symmetric float64[N, N] to another, in O(N^2) operations.
    """
    times, weights = quadrature(probs)
    factors = log_factors(probs, times)
    # At node z, client i counts as active with probability up = p z / (1 - p + p z), and else as
    # inactive, independently of the others. E[h(A) / |A|] is then the mean of h at z, times
    # f(z) / z, integrated over z. As h is 0 without active clients, a factor up cancels 1 / z. For
    # 1 / |A|^2 the weight has one more factor -log(z) = t.
    first_weight = (weights * np.exp(factors.sum(axis=1) + times))[:, None]
    second_weight = first_weight * times[:, None]
    up = probs * np.exp(-times[:, None] - factors)
    down = (1.0 - probs) * np.exp(-factors)
    inactive = 1.0 - probs
    variance = up * down
    weighted_up = up * second_weight
    # `row_sums` and `totals` below count client i with its probability up. Where i is known to be
    # active it counts fully, so 1 - up = down is missing. These are the coefficients of the missing
    # H_ij, if only i is active, and if i and j are.
    coefficient_if_one = (variance * first_weight).T @ down
    coefficient_if_both = (variance * second_weight).T @ variance

    def apply(moment: np.ndarray) -> np.ndarray:
        diagonal = np.diagonal(moment)
        # row_sums[k, j] = sum_{i != j} up_i H_ij at node k: the mean sum of H_ij over A without j.
        row_sums = up @ moment - up * diagonal
        # The mean total of H over A x A at node k.
        totals = np.sum(up * (row_sums + diagonal), axis=1)
        # How much more the total over A x A is on average if client j is known to be active.
        gain = down * (2.0 * row_sums + diagonal)
        one_active = (up * first_weight).T @ (
            down * row_sums
        ) + coefficient_if_one * moment
        both_active = weighted_up.T @ (up * (0.5 * totals[:, None] + gain))
        result: np.ndarray = one_active + one_active.T + both_active + both_active.T
        result += (np.outer(inactive, inactive) + 2.0 * coefficient_if_both) * moment
        active_terms = np.sum(weighted_up * (totals[:, None] + gain), axis=0)
        np.fill_diagonal(result, inactive * diagonal + active_terms)
        return result

    return apply
