r"""Second moments of the random averages that a round takes, under independent links.

Given the generating variable z, a link that is up with probability p behaves like one that is up
with probability ``g = p z / (1 - p + p z)``: divisions by the cohort size, or by its square, become
integrals over z of expressions in independent links, which have closed forms.
"""

from collections.abc import Callable

import numpy as np

from fedjax_links.analysis import cohort_sizes


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
    rows, diagonal = cohort_sizes.pair_rows(probs, power=2)
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
    times, weights = cohort_sizes.rule(probs)
    factors = cohort_sizes.log_factors(probs, times)
    mass = weights * np.exp(factors.sum(axis=1) + times)
    first, second = mass[:, None], (mass * times)[:, None]
    up = probs * np.exp(-times[:, None] - factors)  # g: a link is up, given z
    down = (1.0 - probs) * np.exp(-factors)
    silent, spread, weighted = 1.0 - probs, up * down, up * second
    one_side = (spread * first).T @ down  # how often H_ij itself is met with i active and j not
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
