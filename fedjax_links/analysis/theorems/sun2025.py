r"""Computes theory of FedAvg under a minimum separation: column sums, Theorems 2 and 4.

The chain is `fedjax_links.analysis.minimum_separation_chain`. The assumptions of the bounds:

1. ``||grad f_i - grad F||^2 <= G^2`` everywhere;
2. every f_i is L-smooth;
3. for Theorem 4 ``||grad F|| <= D``, which no quadratic satisfies. For a run, D is the largest norm
   along the run;
4. the chain is aperiodic: R <= M - 2, with ``M = N / B`` for cohorts of B among N clients.

References:
  Sun et al., ICLR 2025.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks
from fedjax_links.analysis.cohort_chain import (
    MinimumSeparationChain,
    check_cohorts_of_one,
)
from fedjax_links.analysis.theorems import _numbers


class Theorem2Quantities(NamedTuple):
    """Holds the quantities of Theorem 2, for probabilities that sum to 1.

    Attributes:
      least_cohort: q_B, the sum of the B smallest probabilities.
      equal_cohort: 1 / M = B / N; q_B is smaller unless all probabilities are equal.
      largest_deviation: the largest ``delta_j = |sum of a cohort - (1 - q_B) / (M - 1)|`` over
        cohorts of the other clients; 0 for M = 1.
    """

    least_cohort: float
    equal_cohort: float
    largest_deviation: float


class Theorem4Terms(NamedTuple):
    """Holds the terms of Theorem 4 with explicit constants, in units of a squared gradient norm.

    Attributes:
      start: ``32 L Delta_0 / (gamma (T - tau)) + 16 tau G^2 / (T - tau)``.
      bias: ``(8 D^2 + 36 G^2) max_i |1 - 1 / (N pi_i)|^2``, which stays for every T.
      steps: ``32 L G^2 (3 gamma + 6 gamma tau^2 + 2 gamma / L + 3 gamma / (16 L^2)``
        ``+ gamma^2 / (16 L))``.
      memory: ``8 (c_1 delta)^2 G^2``, due to the chain's memory after tau rounds.
    """

    start: float
    bias: float
    steps: float
    memory: float

    @property
    def total(self) -> float:
        """Returns the bound: the sum of the terms."""
        return sum(self)


def column_sums(chain: MinimumSeparationChain) -> np.ndarray:
    r"""Computes the column sums b_R of the transition matrix.

    The proof of Theorem 2 shows that the column sums approach 1. All sums are 1 if and only if the
    stationary law is uniform over the states.

    Args:
      chain: cohorts have one client. Larger cohorts, with fewer states than in the paper, raise.

    Returns:
      float64[S], one for each state.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import sun2025
      >>> chain = analysis.minimum_separation_chain([0.25, 0.25, 0.5], 1)
      >>> print(sun2025.column_sums(chain).round(4))
      [0.8333 0.8333 1.3333]

    References:
      Sun et al., ICLR 2025, Appendix D.1.
    """
    check_cohorts_of_one(chain)
    return np.asarray(chain.transition.sum(axis=0)).ravel()


def theorem2_quantities(probs: ArrayLike, cohort_size: int = 1) -> Theorem2Quantities:
    r"""Computes q_B and the largest delta_j, which Theorem 2 needs to be small.

    The theorem says that some bound on delta_j suffices, but not which bound.

    Args:
      probs: float[N], positive selection probabilities; they are normalised to sum to 1.
      cohort_size: B, a divisor of N.

    Returns:
      The quantities.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import sun2025
      >>> known = sun2025.theorem2_quantities([0.1, 0.2, 0.3, 0.4])
      >>> print(known.least_cohort, known.equal_cohort, round(known.largest_deviation, 6))
      0.1 0.25 0.1

    References:
      Sun et al., ICLR 2025, Theorem 2.
    """
    weights = np.sort(_checks.checked_weights('probs', probs))
    law = weights / weights.sum()
    size = _checks.checked_int('cohort_size', cohort_size, minimum=1, maximum=law.size)
    divides = f'divide the {law.size} clients'
    _checks.require(law.size % size == 0, 'cohort_size', divides, size)
    num_cohorts = law.size // size
    least = float(law[:size].sum())
    deviation = 0.0
    if num_cohorts > 1:
        others = law[size:]
        centre = (1.0 - least) / (num_cohorts - 1)
        extremes = np.array([others[:size].sum(), others[-size:].sum()])
        deviation = float(np.abs(extremes - centre).max())
    return Theorem2Quantities(least, 1.0 / num_cohorts, deviation)


def remembered_selection(chain: MinimumSeparationChain, lag: int) -> float:
    r"""Computes ``c_1 delta`` of Lemma 10, exactly, for cohorts of one.

    This is the least number with ``|P(S_t = i | state at t - tau) - pi_i| <= c_1 delta pi_min /
    sqrt(N)`` for all states and clients. Lemma 10 needs ``2 (c_1 delta)^2 <= 1/6``.

    Args:
      chain: a chain with cohorts of one client; larger cohorts raise an error.
      lag: tau, at least 0.

    Returns:
      The number. It tends to 0 as tau grows, if the chain is aperiodic.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import sun2025
      >>> chain = analysis.minimum_separation_chain([1.0, 1.0, 1.0], 1)
      >>> print([round(sun2025.remembered_selection(chain, lag), 4) for lag in (0, 5)])
      [1.7321, 0.0541]

    References:
      Sun et al., ICLR 2025, proof of Lemma 10.
    """
    rounds = _checks.checked_rounds('lag', lag, minimum=0)
    check_cohorts_of_one(chain)
    law = chain.selection
    for _ in range(rounds):
        earlier = law
        law = chain.transition @ law
        if np.array_equal(law, earlier):
            break  # Further rounds do not change the law.
    return _remembered(chain, law)


def least_lag(chain: MinimumSeparationChain, *, max_lag: int = 10_000) -> int | None:
    r"""Finds the least tau >= 1 that Lemma 10 allows: ``2 (c_1 delta)^2 <= 1/6``.

    Args:
      chain: a chain with cohorts of one client; larger cohorts raise an error.
      max_lag: the largest lag that is searched.

    Returns:
      tau, or None if no lag up to ``max_lag`` suffices, as for periodic chains.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import sun2025
      >>> print(sun2025.least_lag(analysis.minimum_separation_chain([1.0, 1.0, 1.0], 1)))
      3

    References:
      Sun et al., ICLR 2025, conditions in the proof of Lemma 10.
    """
    limit = _checks.checked_rounds('max_lag', max_lag, minimum=1)
    check_cohorts_of_one(chain)
    law = chain.transition @ chain.selection
    allowed = math.sqrt(1.0 / 12.0)
    for lag in range(1, limit + 1):
        if _remembered(chain, law) <= allowed:
            return lag
        law = chain.transition @ law
    return None


def theorem4_rate(
    scale: float, *, smoothness: float, local_steps: int, largest_weight: float = 1.0
) -> float:
    r"""Computes the local rate that belongs to gamma: ``alpha = gamma / (8 abar K L)``.

    Args:
      scale: gamma, positive, without unit.
      smoothness: L, positive.
      local_steps: K, at least 1.
      largest_weight: abar, the largest debiasing weight ``1 / (N y_i)``, at least 1; 1 for FedAvg.

    Returns:
      alpha.

    Example:
      >>> from fedjax_links.analysis.theorems import sun2025
      >>> print(sun2025.theorem4_rate(0.008, smoothness=1.0, local_steps=10))
      0.0001

    References:
      Sun et al., ICLR 2025, Lemma 10 with w_i = 1/N; for FedAvg y_t^i = 1/N.
    """
    gamma = _checks.checked_positive('scale', scale)
    steps = _numbers.at_least_one('local_steps', local_steps)
    weight = _weight(largest_weight)
    lipschitz = _checks.checked_positive('smoothness', smoothness)
    return gamma / (8.0 * weight * steps * lipschitz)


def theorem4_scale_cap(
    *, smoothness: float, lag: int, largest_weight: float = 1.0
) -> float:
    r"""Computes the largest gamma: ``min{1 / (384 tau L), L / (384 tau), L / 3}``.

    The proof also uses ``gamma <= min{1 / (2 tau), 1/384, L/9}``; the result obeys these too. With
    debiasing weights the proof has ``abar gamma`` for gamma in all limits but ``1 / (2 tau)``.

    Args:
      smoothness: L, positive.
      lag: tau, at least 1, allowed by `least_lag`.
      largest_weight: abar, as in `theorem4_rate`.

    Returns:
      The largest gamma.

    Example:
      >>> from fedjax_links.analysis.theorems import sun2025
      >>> print(round(1 / sun2025.theorem4_scale_cap(smoothness=1.0, lag=3)))
      1152

    References:
      Sun et al., ICLR 2025, Lemma 10 and its proof.
    """
    lipschitz = _checks.checked_positive('smoothness', smoothness)
    tau = _numbers.at_least_one('lag', lag)
    # L / 9 of the proof is below the printed L / 3.
    printed = min(1.0 / (384.0 * tau * lipschitz), lipschitz / (384.0 * tau))
    limit = min(printed, lipschitz / 9.0, 1.0 / 384.0) / _weight(largest_weight)
    return min(limit, 0.5 / tau)


def theorem4_terms(
    scale: float,
    *,
    num_rounds: int,
    lag: int,
    smoothness: float,
    initial_gap: float,
    dissimilarity: float,
    largest_gradient: float,
    marginal: ArrayLike,
    remembered: float,
) -> Theorem4Terms:
    r"""Computes Theorem 4 with the explicit constants of its proof.

    It bounds ``1/(T - tau) sum_{t < T - tau} E ||grad F(x_t)||^2`` for FedAvg. The rate must
    **equal** `theorem4_rate`. Lemma 10 prints "at most", which is false: with a rate near 0 the
    model stays at its start, while the printed bound does not depend on the rate.

    Args:
      scale: gamma, positive, at most `theorem4_scale_cap`.
      num_rounds: T, above tau.
      lag: tau, at least 1.
      smoothness: L, positive.
      initial_gap: Delta_0, ``F(x_0) - F*``, at least 0.
      dissimilarity: G, at least 0.
      largest_gradient: D, at least 0.
      marginal: float[N], pi_R, positive.
      remembered: ``c_1 delta`` of `remembered_selection`.

    Returns:
      The terms; ``total`` is the bound.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import sun2025
      >>> terms = sun2025.theorem4_terms(
      ...     1 / 1152, num_rounds=10**6, lag=3, smoothness=1.0, initial_gap=1.0,
      ...     dissimilarity=0.0, largest_gradient=1.0, marginal=[0.3, 0.3, 0.4], remembered=0.2,
      ... )
      >>> print(round(terms.start, 4), round(terms.bias, 4))
      0.0369 0.2222

    References:
      Sun et al., ICLR 2025, Lemma 10 and the proof of Theorem 4.
    """
    law = _checks.checked_law('marginal', marginal)
    _checks.checked_weights('marginal', law)
    mismatch = float(np.abs(1.0 - 1.0 / (law.size * law)).max()) ** 2
    terms = lemma10_terms(
        scale,
        num_rounds=num_rounds,
        lag=lag,
        smoothness=smoothness,
        initial_gap=initial_gap,
        dissimilarity=dissimilarity,
        remembered=remembered,
    )
    _numbers.at_least_zero('largest_gradient', largest_gradient)
    bias = (8.0 * largest_gradient**2 + 36.0 * dissimilarity**2) * mismatch
    return terms._replace(bias=bias)


def lemma10_terms(
    scale: float,
    *,
    num_rounds: int,
    lag: int,
    smoothness: float,
    initial_gap: float,
    dissimilarity: float,
    remembered: float,
    largest_weight: float = 1.0,
) -> Theorem4Terms:
    r"""Computes Lemma 10 for debiasing weights at their limit ``nu_i = 1 / (N pi_i)``.

    It bounds the same mean as `theorem4_terms`, without the bias and without D. Theorem 3 adds the
    error of the weights that Debiasing FedAvg estimates by counters. The proof of Theorem 3 takes
    all counters to be at least ``1 / a`` from the first round on. A counter is 0 until its client
    is selected, so the proof covers no run: see
    `fedjax_links.analysis.theorems.selection_counters.lemma2_order`.

    Args:
      scale: gamma, positive, at most `theorem4_scale_cap` with the same ``largest_weight``.
      num_rounds: T, above tau.
      lag: tau, at least 1.
      smoothness: L, positive.
      initial_gap: Delta_0, ``F(x_0) - F*``, at least 0.
      dissimilarity: G, at least 0.
      remembered: ``c_1 delta`` of `remembered_selection`.
      largest_weight: abar, ``1 / (N min_i pi_i)``, at least 1.

    Returns:
      The terms, with abar L for L in ``32 L`` and ``gamma^2 / (16 L)``; ``total`` is the bound.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import sun2025
      >>> terms = sun2025.lemma10_terms(
      ...     1 / 2304, num_rounds=10**6, lag=3, smoothness=1.0, initial_gap=1.0,
      ...     dissimilarity=0.0, remembered=0.2, largest_weight=2.0,
      ... )
      >>> print(round(terms.start, 4), terms.bias)
      0.1475 0.0

    References:
      Sun et al., ICLR 2025, Lemma 10 with w_i = 1/N and y_t^i = pi_i.
    """
    gamma = _checks.checked_positive('scale', scale)
    tau = _numbers.at_least_one('lag', lag)
    rounds = _checks.checked_int(
        'num_rounds', num_rounds, minimum=tau + 1, maximum=None
    )
    lipschitz = _checks.checked_positive('smoothness', smoothness)
    weighted = lipschitz * _weight(largest_weight)
    _numbers.all_at_least_zero(
        initial_gap=initial_gap, dissimilarity=dissimilarity, remembered=remembered
    )
    dissimilarity_squared = dissimilarity**2
    start = 32.0 * weighted * initial_gap / gamma + 16.0 * tau * dissimilarity_squared
    by_rate = 3.0 + 6.0 * tau**2 + 2.0 / lipschitz + 3.0 / (16.0 * lipschitz**2)
    of_rate = gamma * by_rate + gamma**2 / (16.0 * weighted)
    return Theorem4Terms(
        start=start / (rounds - tau),
        bias=0.0,
        steps=32.0 * weighted * dissimilarity_squared * of_rate,
        memory=8.0 * remembered**2 * dissimilarity_squared,
    )


def _remembered(chain: MinimumSeparationChain, law: np.ndarray) -> float:
    """Returns ``c_1 delta`` for the laws of a later selection, float[S, N], by state."""
    largest = float(np.abs(law - chain.marginal).max())
    return largest * math.sqrt(chain.marginal.size) / float(chain.marginal.min())


def _weight(largest_weight: float) -> float:
    """Returns the largest debiasing weight."""
    weight = _checks.checked_positive('largest_weight', largest_weight)
    _checks.require(weight >= 1.0, 'largest_weight', 'be at least 1', weight)
    return weight
