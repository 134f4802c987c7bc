r"""Computes how well counters of selections estimate ``pi_R`` under a minimum separation.

``pi_R`` is the stationary law of selections, ``chain.marginal`` of a `MinimumSeparationChain`. The
counter of a client is its share of the selections so far. S_t is the cohort of round t.

References:
  Sun et al., ICLR 2025, Theorem 5, Lemma 2 and Corollary 2.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks
from fedjax_links.analysis.cohort_chain import (
    MinimumSeparationChain,
    check_chain,
    check_cohorts_of_one,
)
from fedjax_links.analysis.theorems import _numbers, mixing_times


def selection_covariances(
    chain: MinimumSeparationChain, values: ArrayLike, *, max_lag: int
) -> np.ndarray:
    r"""Computes the exact autocovariance of a value of the selected clients.

    The autocovariance is ``Cov(f(S_t), f(S_{t+k}))`` for a stationary run, with ``f(S_t)`` the mean
    of the values over the cohort of round t.

    Args:
      chain: a chain with one separation for all clients; if it is 0, cohorts have one client.
      values: float[N], f.
      max_lag: K, at least 0.

    Returns:
      float64[K + 1], for k = 0 to K.

    Raises:
      ValueError: if an argument is out of range or separations differ.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import selection_counters
      >>> chain = analysis.minimum_separation_chain([0.25, 0.25, 0.5], 1)
      >>> values = [1.0, 0.0, 0.0]
      >>> print(selection_counters.selection_covariances(chain, values, max_lag=2).round(3))
      [ 0.21  -0.09   0.043]

    References:
      Sun et al., ICLR 2025, Eq. (11) in the proof of Theorem 5.
    """
    vector = _checked_values(chain, values)
    lags = _checks.checked_rounds('max_lag', max_lag, minimum=0, num_bytes=16)
    covariances = np.zeros(lags + 1)
    if not chain.states.any():  # No separation: rounds are independent.
        check_cohorts_of_one(chain)
        law = chain.marginal
        covariances[0] = law @ vector**2 - float(law @ vector) ** 2
        return covariances
    centred = _centred(chain, vector)
    # The mean of f after k rounds, by the state before these rounds.
    later = centred
    for lag in range(lags + 1):
        covariances[lag] = np.sum(chain.stationary * centred * later)
        later = chain.transition @ later
    return covariances


def counter_mean_square_error(
    chain: MinimumSeparationChain, values: ArrayLike, *, num_rounds: int
) -> float:
    r"""Computes ``E (1/T sum_t f(S_t) - pi_R . f)^2`` exactly for a stationary run.

    If f is the indicator of client i, this is the mean square error of the counter ``lambda_T^i``
    of debiased FedAvg. The limit of the counter is ``pi_R^i``.

    Args:
      chain: as in `selection_covariances`.
      values: float[N], f.
      num_rounds: T, at least 1.

    Returns:
      The mean square error, which falls as 1 / T.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import selection_counters
      >>> chain = analysis.minimum_separation_chain([0.5, 0.5], 0)
      >>> print(selection_counters.counter_mean_square_error(chain, [1.0, 0.0], num_rounds=25))
      0.01

    References:
      Sun et al., ICLR 2025, Theorem 5.
    """
    rounds = _checks.checked_rounds('num_rounds', num_rounds, minimum=1, num_bytes=16)
    covariances = selection_covariances(chain, values, max_lag=rounds - 1)
    lags = np.arange(rounds)
    multiplicity = np.where(lags == 0, 1.0, 2.0) * (1.0 - lags / rounds)
    return float(multiplicity @ covariances) / rounds


def counter_bias(
    chain: MinimumSeparationChain,
    values: ArrayLike,
    start: ArrayLike,
    *,
    num_rounds: int,
) -> float:
    r"""Computes ``E_mu (1/T sum_t f(S_t)) - pi_R . f`` exactly for a run from any start.

    Args:
      chain: a chain with one separation of at least 1 for all clients.
      values: float[N], f.
      start: float[S], the law mu of the state of round 0, whose newest cohort is S_0.
      num_rounds: T, at least 1. The cost grows with T: two products with P for each round.

    Returns:
      The bias, in the units of f. It falls as 1 / T if the chain is aperiodic.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import selection_counters
      >>> chain = analysis.minimum_separation_chain([1.0, 1.0, 1.0], 1)
      >>> print(round(selection_counters.counter_bias(
      ...     chain, [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], num_rounds=2
      ... ), 4))
      0.1667

    References:
      Sun et al., ICLR 2025, Theorem 5, first statement.
    """
    rounds = _checks.checked_rounds('num_rounds', num_rounds, minimum=1)
    mean, _ = _moments_of_sum(chain, values, rounds)
    return float(_checked_start(chain, start) @ mean) / rounds


def counter_mean_square_error_from(
    chain: MinimumSeparationChain,
    values: ArrayLike,
    start: ArrayLike,
    *,
    num_rounds: int,
) -> float:
    r"""Computes ``E_mu (1/T sum_t f(S_t) - pi_R . f)^2`` exactly for a run from any start.

    Args:
      chain: as in `counter_bias`.
      values: float[N], f.
      start: float[S], mu, as in `counter_bias`.
      num_rounds: T, at least 1. The cost grows with T: two products with P for each round.

    Returns:
      The mean square error, in the units of f squared.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import selection_counters
      >>> chain = analysis.minimum_separation_chain([1.0, 1.0, 1.0], 1)
      >>> print(round(selection_counters.counter_mean_square_error_from(
      ...     chain, [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], num_rounds=1
      ... ), 4))
      0.4444

    References:
      Sun et al., ICLR 2025, Theorem 5, third statement.
    """
    rounds = _checks.checked_rounds('num_rounds', num_rounds, minimum=1)
    _, square = _moments_of_sum(chain, values, rounds)
    return float(_checked_start(chain, start) @ square) / rounds**2


def theorem5_bound(
    chain: MinimumSeparationChain, values: ArrayLike, *, num_rounds: int
) -> float:
    r"""Computes the second bound of Theorem 5 on `counter_mean_square_error`, cohorts of one.

    The bound is ``1/T [f' Pi (I - 1 pi') f + c_0 pi_max max|f|^2 N tau_mix]``. Its proof loses a
    factor of 4. The proof has twice a sum of ``||P^k - 1 zeta'||_inf``. Each of these norms is
    twice a total variation distance. But the proof bounds everything by ``c_0 tau_mix`` once. For
    Markov chains in general the printed inequality is false: a chain of two states that stay with
    probability 0.99 violates it. In the tests no chain of minimum separation violates it, among
    1,000 random chains with any values.

    Args:
      chain: an aperiodic chain with cohorts of one client; larger cohorts raise an error.
      values: float[N], f.
      num_rounds: T, at least 1.

    Returns:
      The bound; infinite for a periodic chain.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import selection_counters
      >>> chain = analysis.minimum_separation_chain([0.5, 0.5], 0)
      >>> print(selection_counters.theorem5_bound(chain, [1.0, 0.0], num_rounds=25))
      0.09

    References:
      Sun et al., ICLR 2025, Theorem 5.
    """
    check_cohorts_of_one(chain)
    vector = _checked_values(chain, values)
    rounds = _numbers.at_least_one('num_rounds', num_rounds)
    time = mixing_times.mixing_time(chain.transition, chain.stationary)
    if time is None:
        return math.inf
    constant = mixing_times.series_constant(chain.transition, chain.stationary)
    law = chain.marginal
    variance = float(law @ vector**2 - (law @ vector) ** 2)
    largest_square = float(np.abs(vector).max()) ** 2
    memory = constant * law.max() * largest_square * law.size * time
    return (variance + memory) / rounds


def theorem5_any_start_bound(
    chain: MinimumSeparationChain, values: ArrayLike, *, num_rounds: int
) -> float:
    r"""Computes the third bound of Theorem 5, on `counter_mean_square_error_from`.

    The bound is `counter_mean_square_error` plus ``3 c_0 N^2 max|g|^2 tau_mix / T`` with
    ``g = f - pi_R . f``.

    Args:
      chain: an aperiodic chain with cohorts of one client; larger cohorts raise an error.
      values: float[N], f.
      num_rounds: T, at least 1.

    Returns:
      The bound for every start; infinite for a periodic chain.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import selection_counters
      >>> chain = analysis.minimum_separation_chain([1.0, 1.0, 1.0], 1)
      >>> print(round(selection_counters.theorem5_any_start_bound(
      ...     chain, [1.0, 0.0, 0.0], num_rounds=100
      ... ), 3))
      0.561

    References:
      Sun et al., ICLR 2025, Theorem 5, third statement.
    """
    check_cohorts_of_one(chain)
    stationary = counter_mean_square_error(chain, values, num_rounds=num_rounds)
    vector = _checked_values(chain, values)
    time = mixing_times.mixing_time(chain.transition, chain.stationary)
    if time is None:
        return math.inf
    constant = mixing_times.series_constant(chain.transition, chain.stationary)
    largest = float(np.abs(vector - chain.marginal @ vector).max())
    return (
        stationary + 3.0 * constant * (vector.size * largest) ** 2 * time / num_rounds
    )


def lemma2_order(mixing_time: int, num_rounds: int) -> float:
    r"""Computes ``tau_mix / t``, the order of Lemma 2 for the error of debiasing weights.

    **As printed Lemma 2 is false.** The lemma bounds the mean of
    ``max_i |1 / (N lambda_t^i) - 1 / (N pi_i)|^2``. With R <= M - 2, for ``M = N / B``, a client
    may be left out of the first t rounds. The client's counter is then 0 and the error infinite. So
    the mean is infinite for every t. The lemma's proof takes a lower bound on all counters, which
    does not follow from irreducibility. The mean square error of the counters themselves does fall
    as printed: `counter_mean_square_error`.

    Args:
      mixing_time: tau_mix, at least 1.
      num_rounds: t, at least 1.

    Returns:
      The order, without a constant.

    Example:
      >>> from fedjax_links.analysis.theorems import selection_counters
      >>> print(selection_counters.lemma2_order(8, 100))
      0.08

    References:
      Sun et al., ICLR 2025, Lemma 2 and Corollary 2.
    """
    time = _numbers.at_least_one('mixing_time', mixing_time)
    return time / _numbers.at_least_one('num_rounds', num_rounds)


def _checked_values(chain: MinimumSeparationChain, values: ArrayLike) -> np.ndarray:
    """Returns f as float64[N]."""
    check_chain(chain)
    vector = _checks.checked_vector('values', values)
    _numbers.check_size('values', vector, chain.marginal.size)
    return vector


def _checked_start(chain: MinimumSeparationChain, start: ArrayLike) -> np.ndarray:
    """Returns a law of states as float64[S]."""
    law = _checks.checked_law('start', start, axis='state')
    _numbers.check_size('start', law, len(chain.states))
    return law


def _centred(chain: MinimumSeparationChain, vector: np.ndarray) -> np.ndarray:
    """Returns ``f(newest cohort) - pi_R . f`` of each state."""
    _checks.require(bool(chain.states.any()), 'chain', 'have a separation', 'none')
    # A state holds the rounds that each client still waits. The newest cohort waits longest.
    is_last_cohort = chain.states == chain.states.max()
    sizes = is_last_cohort.sum(axis=1)
    is_common = sizes.min() == sizes.max()
    requirement = 'have one separation for all clients'
    _checks.require(is_common, 'chain', requirement, 'several')
    return np.asarray(is_last_cohort @ vector / sizes - float(chain.marginal @ vector))


def _moments_of_sum(
    chain: MinimumSeparationChain, values: ArrayLike, num_rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and mean square of ``sum_t (f(S_t) - pi_R . f)`` from each state, [S]."""
    centred = _centred(chain, _checked_values(chain, values))
    mean = np.zeros(len(centred))
    square = np.zeros(len(centred))
    for _ in range(num_rounds):
        later = chain.transition @ mean
        square = centred**2 + 2.0 * centred * later + chain.transition @ square
        mean = centred + later
    return mean, square
