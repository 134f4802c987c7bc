r"""Computes bounds for FedPBC, journal version: descent, consensus error, Theorem 1.

Theorem 1 bounds ``1/T sum_t E ||grad F(xbar^t)||^2`` at the mean client model xbar. Lemma 2 bounds
the change of F in a round. Lemma 4 bounds the consensus error: how far client models are from their
mean. Theorem and lemmas rest on the assumptions of `fedjax_links.analysis.theorems.xiang2023` and
on ``L >= 1``. Rounds must be independent. Inequality (8) of the paper,
``E ||B (prod W - J)||^2 <= rho^t ||B||^2``, fails for links with memory, such as the Markov and
cyclic links of the paper itself. Functions do not check that L is at least 1.

Symbols: m is the number of clients, W the mixing matrix of a round, J the matrix of entries 1/m,
B any matrix, and rho the mixing rate. kappa is
`fedjax_links.analysis.theorems.local_drift.local_drift_factor`. beta is the slope and zeta the
offset in the bound on how far the clients' gradients are from their mean.

References:
  Xiang et al., journal version 2024.
"""

import math

from fedjax_links.analysis import _checks
from fedjax_links.analysis.theorems import _numbers, local_drift


def step_size_limit(
    learning_rate: float,
    *,
    smoothness: float,
    local_steps: int,
    mixing_rate: float,
    slope: float = 0.0,
) -> float:
    r"""Computes the right side of the condition of Theorem 1 on eta, with kappa at this eta.

    ``(1 - sqrt(rho)) / [108 L^2 s^3 (beta^2 + 1) (1 + kappa^2 L^2)]``.

    Args:
      learning_rate: eta, at which kappa is computed.
      smoothness: L, positive; the theorem needs at least 1.
      local_steps: s, at least 1.
      mixing_rate: rho, in [0, 1].
      slope: beta, at least 0.

    Returns:
      The limit. The theorem covers the rate if the rate is at most this limit.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2024
      >>> limit = xiang2024.step_size_limit(
      ...     1e-4, smoothness=1.0, local_steps=100, mixing_rate=0.9018
      ... )
      >>> print(f'{limit:.2g}')
      2.3e-10

    References:
      Xiang et al., journal version 2024, Lemma 4 and Theorem 1.
    """
    smoothness = _checks.checked_positive('smoothness', smoothness)
    local_steps = _numbers.at_least_one('local_steps', local_steps)
    drift = local_drift.squared_drift(learning_rate, smoothness, local_steps)
    rho = _checks.checked_prob('mixing_rate', mixing_rate)
    beta = _numbers.at_least_zero('slope', slope)
    drift_factor = 1.0 + drift
    divisor = 108.0 * smoothness**2 * local_steps**3 * (beta**2 + 1.0) * drift_factor
    return (1.0 - math.sqrt(rho)) / divisor


def step_size_cap(
    *, smoothness: float, local_steps: int, mixing_rate: float, slope: float = 0.0
) -> float:
    """Computes the largest rate that Theorem 1 covers.

    kappa depends on the rate, so the rate occurs on both sides of the condition. The result is the
    largest rate that satisfies the condition.

    Args:
      smoothness: L, positive; the theorem needs at least 1.
      local_steps: s, at least 1.
      mixing_rate: rho, in [0, 1].
      slope: beta, at least 0.

    Returns:
      The largest eta; 0 if rho is 1.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2024
      >>> cap = xiang2024.step_size_cap(smoothness=1.0, local_steps=100, mixing_rate=0.9018)
      >>> print(f'{cap:.2g}')
      2.3e-10

    References:
      Xiang et al., journal version 2024, Theorem 1.
    """

    def cap_at(rate: float) -> float:
        return step_size_limit(
            rate,
            smoothness=smoothness,
            local_steps=local_steps,
            mixing_rate=mixing_rate,
            slope=slope,
        )

    return _numbers.largest_rate(cap_at)


def descent_bound(
    learning_rate: float,
    *,
    smoothness: float,
    local_steps: int,
    gradient_square: float,
    consensus_error: float,
    offset: float = 0.0,
    noise: float = 0.0,
) -> float:
    r"""Bounds the expected change of F at the mean client model over one round.

    ``-eta s / 3 ||grad F(xbar)||^2 + eta s L^2 / m sum_i ||x_i - xbar||^2``
    ``+ 6 eta^2 s^2 L (zeta^2 + sigma^2) (1 + kappa^2 L^2)``, for rates below `step_size_cap` with
    rho = 0 and ``L >= 1``.

    Args:
      learning_rate: eta, at least 0.
      smoothness: L, positive; the lemma needs at least 1.
      local_steps: s, at least 1.
      gradient_square: ``||grad F(xbar^t)||^2``, at least 0.
      consensus_error: ``1/m sum_i ||x_i^t - xbar^t||^2``, at least 0.
      offset: zeta, at least 0.
      noise: sigma, at least 0.

    Returns:
      An upper bound on ``E[F(xbar^{t+1}) - F(xbar^t)]`` given the models of round t; infinite
      where kappa is beyond floats.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2024
      >>> print(xiang2024.descent_bound(
      ...     0.003, smoothness=1.0, local_steps=1, gradient_square=4.0, consensus_error=0.0
      ... ))
      -0.004

    References:
      Xiang et al., journal version 2024, Lemma 2.
    """
    drift = local_drift.squared_drift(learning_rate, smoothness, local_steps)
    _numbers.all_at_least_zero(
        gradient_square=gradient_square,
        consensus_error=consensus_error,
        offset=offset,
        noise=noise,
    )
    rate_steps = learning_rate * local_steps
    if math.isinf(drift):
        return math.inf
    return (
        -rate_steps / 3.0 * gradient_square
        + rate_steps * smoothness**2 * consensus_error
        + 6.0 * rate_steps**2 * smoothness * (offset**2 + noise**2) * (1.0 + drift)
    )


def consensus_bound(
    learning_rate: float,
    *,
    local_steps: int,
    mixing_rate: float,
    mean_gradient_square: float,
    slope: float = 0.0,
    offset: float = 0.0,
    noise: float = 0.0,
) -> float:
    r"""Bounds the mean over rounds of the consensus error of FedPBC's client models.

    ``rho eta^2 s^2 / (1 - sqrt(rho))^2 [12 sigma^2 + 54 zeta^2 + 54 (beta^2 + 1) G]``, for rates
    below `step_size_cap` and ``L >= 1``.

    Args:
      learning_rate: eta, at least 0.
      local_steps: s, at least 1.
      mixing_rate: rho, in [0, 1); at 1 the bound is infinite.
      mean_gradient_square: G, ``1/T sum_t E ||grad F(xbar^t)||^2``.
      slope: beta, at least 0.
      offset: zeta, at least 0.
      noise: sigma, at least 0.

    Returns:
      An upper bound on ``1/(m T) sum_t sum_i E ||x_i^t - xbar^t||^2``.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2024
      >>> print(round(xiang2024.consensus_bound(
      ...     0.01, local_steps=1, mixing_rate=0.25, mean_gradient_square=2.0
      ... ), 6))
      0.0108

    References:
      Xiang et al., journal version 2024, Lemma 4.
    """
    rho = _checks.checked_prob('mixing_rate', mixing_rate)
    _numbers.at_least_one('local_steps', local_steps)
    _numbers.all_at_least_zero(
        learning_rate=learning_rate,
        mean_gradient_square=mean_gradient_square,
        slope=slope,
        offset=offset,
        noise=noise,
    )
    if rho == 1.0:
        return math.inf
    scale = rho * (learning_rate * local_steps) ** 2 / (1.0 - math.sqrt(rho)) ** 2
    gradients = offset**2 + (slope**2 + 1.0) * mean_gradient_square
    return scale * (12.0 * noise**2 + 54.0 * gradients)


def theorem1_bound(
    learning_rate: float,
    *,
    num_rounds: int,
    local_steps: int,
    smoothness: float,
    mixing_rate: float,
    initial_gap: float,
    offset: float = 0.0,
    noise: float = 0.0,
) -> float:
    r"""Computes the bound of Theorem 1, whose constants are explicit.

    ``6 (F(xbar^0) - F*) / (eta s T)``
    ``+ 54 eta s L (kappa^2 L^2 + 1 + 1 / (1 - sqrt(rho))) (sigma^2 + zeta^2)``. The bound holds for
    rates of at most `step_size_cap` and ``L >= 1``. Otherwise the formula is no bound.

    Args:
      learning_rate: eta, positive.
      num_rounds: T, at least 1.
      local_steps: s, at least 1.
      smoothness: L, positive; the theorem needs at least 1.
      mixing_rate: rho, in [0, 1]; at 1 the bound is infinite if there is noise or an offset.
      initial_gap: ``F(xbar^0) - F*``, at least 0.
      offset: zeta, at least 0.
      noise: sigma, at least 0.

    Returns:
      An upper bound on ``1/T sum_t E ||grad F(xbar^t)||^2``.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2024
      >>> print(round(xiang2024.theorem1_bound(
      ...     0.001, num_rounds=1000, local_steps=1, smoothness=1.0, mixing_rate=0.25,
      ...     initial_gap=0.5, offset=1.0,
      ... ), 6))
      3.162

    References:
      Xiang et al., journal version 2024, Theorem 1.
    """
    rate = _checks.checked_positive('learning_rate', learning_rate)
    rounds = _numbers.at_least_one('num_rounds', num_rounds)
    drift = local_drift.squared_drift(rate, smoothness, local_steps)
    rho = _checks.checked_prob('mixing_rate', mixing_rate)
    gap = _numbers.at_least_zero('initial_gap', initial_gap)
    _numbers.all_at_least_zero(offset=offset, noise=noise)
    start = 6.0 * gap / (rate * local_steps * rounds)
    variance = noise**2 + offset**2
    if variance == 0:
        return start
    if rho == 1.0:
        return math.inf
    mixing = drift + 1.0 + 1.0 / (1.0 - math.sqrt(rho))
    return start + 54.0 * rate * local_steps * smoothness * mixing * variance


def corollary1_bound(
    num_rounds: int,
    *,
    local_steps: int,
    smoothness: float,
    mixing_rate: float,
    initial_gap: float,
    offset: float = 0.0,
    noise: float = 0.0,
) -> float:
    """Computes the bound of Corollary 1: Theorem 1 at ``eta = 1 / sqrt(T)``.

    Args:
      num_rounds: T, at least 1.
      local_steps: s, at least 1.
      smoothness: L, positive; the theorem needs at least 1.
      mixing_rate: rho, as in `theorem1_bound`.
      initial_gap: ``F(xbar^0) - F*``, at least 0.
      offset: zeta, at least 0.
      noise: sigma, at least 0.

    Returns:
      The bound, valid if ``1 / sqrt(T)`` is at most `step_size_cap`.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2024
      >>> print(round(xiang2024.corollary1_bound(
      ...     10**6, local_steps=1, smoothness=1.0, mixing_rate=0.25, initial_gap=0.5
      ... ), 6))
      0.003

    References:
      Xiang et al., journal version 2024, Corollary 1.
    """
    rounds = _numbers.at_least_one('num_rounds', num_rounds)
    return theorem1_bound(
        1.0 / math.sqrt(rounds),
        num_rounds=rounds,
        local_steps=local_steps,
        smoothness=smoothness,
        mixing_rate=mixing_rate,
        initial_gap=initial_gap,
        offset=offset,
        noise=noise,
    )
