r"""Computes and bounds mixing rates and staleness of links whose probabilities change.

A round multiplies the clients' models by a random mixing matrix W. The mixing rate rho is the
factor by which W contracts the models towards their mean, in mean square. This module also has the
rates of uniform cohorts.

References:
  Xiang et al., journal version 2024, Proposition 2 and Lemma 3.
"""

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, independent_links
from fedjax_links.analysis.theorems import _numbers


def worst_mixing_rate(probs: ArrayLike) -> float:
    r"""Computes ``rho = max_t lambda_2(E[W(t)^2])`` of independent links whose p change.

    The cost is O(N^3) for each different round. For links with memory rho is defined too, but
    products of W over rounds need not contract as fast as rho says.

    Args:
      probs: float[T, N], ``p_i^t`` for each round and client, in [0, 1]. One period of rounds
        suffices.

    Returns:
      rho, in [0, 1].

    Raises:
      ValueError: if ``probs`` is no matrix of probabilities.

    Example:
      >>> from fedjax_links.analysis.theorems import mixing_rates
      >>> print(round(mixing_rates.worst_mixing_rate([[0.5, 0.3], [0.9, 0.9]]), 4))
      0.85

    References:
      Xiang et al., journal version 2024, rho before Lemma 3; CDC 2023, Eq. (3).
    """
    round_probs = _checked_rounds(probs)
    return max(
        independent_links.mixing_rate(row) for row in np.unique(round_probs, axis=0)
    )


def uniform_cohort_mixing_rate(num_clients: int, cohort_size: int) -> float:
    r"""Computes rho when every round has a uniform cohort of k among m clients.

    ``E[W^2] = E[W]`` has the eigenvalue 1 once and ``1 - (k - 1) / (m - 1)`` otherwise. With
    cohorts of one client, W = I and rho is 1.

    Args:
      num_clients: m, at least 1.
      cohort_size: k, from 1 to m.

    Returns:
      rho, in [0, 1]; 0 for one client.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import mixing_rates
      >>> print([mixing_rates.uniform_cohort_mixing_rate(6, k) for k in (1, 2, 6)])
      [1.0, 0.8, 0.0]

    References:
      Xiang et al., journal version 2024, Lemma 3, second bullet.
    """
    clients, cohort = _checked_cohort(num_clients, cohort_size)
    if clients == 1:
        return 0.0
    return 1.0 - (cohort - 1) / (clients - 1)


def uniform_cohort_mixing_rate_bound(num_clients: int, cohort_size: int) -> float:
    r"""Computes the published bound on `uniform_cohort_mixing_rate`: ``1 - c^2 / 8``, c = k / m.

    **As printed the bound is false for a cohort of one** among two or more clients: the exact rate
    is 1. The bound holds for every larger cohort.

    Args:
      num_clients: m, at least 1.
      cohort_size: k, from 1 to m.

    Returns:
      The printed number, in [7/8, 1).

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import mixing_rates
      >>> for k in (1, 2):
      ...     exact = mixing_rates.uniform_cohort_mixing_rate(6, k)
      ...     print(k, exact, round(mixing_rates.uniform_cohort_mixing_rate_bound(6, k), 4))
      1 1.0 0.9965
      2 0.8 0.9861

    References:
      Xiang et al., journal version 2024, Lemma 3, second bullet.
    """
    clients, cohort = _checked_cohort(num_clients, cohort_size)
    return 1.0 - (cohort / clients) ** 2 / 8.0


def expected_staleness(probs: ArrayLike) -> np.ndarray:
    r"""Computes the expected age of each client's last upload under independent links.

    Let ``tau_i(t)`` be the last active round before t, or -1 if there is none. Then
    ``E[t + 1 - tau_i(t + 1)] = 1 + (1 - p_i^t) E[t - tau_i(t)]``, beginning with 1.

    Args:
      probs: float[T, N], ``p_i^t`` in [0, 1].

    Returns:
      float64[T + 1, N], in rounds, for t = 0 to T.

    Raises:
      ValueError: if ``probs`` is no matrix of probabilities.

    Example:
      >>> from fedjax_links.analysis.theorems import mixing_rates
      >>> print(mixing_rates.expected_staleness([[0.5], [0.25]]).ravel())
      [1.    1.5   2.125]

    References:
      Xiang et al., journal version 2024, Proposition 2. The paper prints ``tau_i(t)`` as a set of
      rounds, and means the last round of this set.
    """
    round_probs = _checked_rounds(probs)
    ages = np.ones((len(round_probs) + 1, round_probs.shape[1]))
    for t, round_prob in enumerate(round_probs):
        ages[t + 1] = 1.0 + (1.0 - round_prob) * ages[t]
    return ages


def expected_staleness_bound(least_prob: float) -> float:
    r"""Bounds the expected staleness of links with ``p_i^t >= c`` by ``1 / c``.

    Args:
      least_prob: c, in (0, 1].

    Returns:
      The bound in rounds. Links with constant p = c reach it in the limit.

    Raises:
      ValueError: if c is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import mixing_rates
      >>> print(mixing_rates.expected_staleness_bound(0.25))
      4.0

    References:
      Xiang et al., journal version 2024, Proposition 2.
    """
    least = _checks.checked_prob('least_prob', least_prob)
    return 1.0 / _checks.checked_positive('least_prob', least)


def _checked_rounds(probs: ArrayLike) -> np.ndarray:
    """Returns probabilities as float64[T, N]."""
    table = _checks.as_doubles('probs', probs)
    is_valid = table.ndim == 2 and table.size > 0
    _checks.require(is_valid, 'probs', 'be a non-empty [T, N]', f'shape {table.shape}')
    return _checks.checked_rate('probs', table)


def _checked_cohort(num_clients: int, cohort_size: int) -> tuple[int, int]:
    """Returns m and k."""
    clients = _numbers.at_least_one('num_clients', num_clients)
    cohort = _checks.checked_int('cohort_size', cohort_size, minimum=1, maximum=clients)
    return clients, cohort
