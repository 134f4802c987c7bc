r"""Computes theory of amplified FedAvg: Theorem 3.1, its conditions and rates.

The weight of client n in round t is ``q_t^n``: ``1 / |A|`` in the set A of active clients, else 0.
rho^2 bounds ``sum_n (q_t^n)^2`` over all rounds. Active clients make I local steps of rate gamma.
Blocks of P rounds begin at ``t_0 = 0, P, 2 P, ...``. Amplification multiplies each block's update
by eta. The assumptions:

1. every local gradient is Lipschitz with constant L;
2. stochastic gradients are unbiased and independent, with variance at most ``sigma^2``;
3. at any point x and for every block and round
   ``||1/P sum_t sum_n q_t^n (grad F_n - grad f)||^2 <= delta~^2(P)``,
   ``||sum_n q_t^n (grad F_n - grad f)||^2 <= beta~^2`` and
   ``sum_n q_t^n ||grad F_n - sum_k q_t^k grad F_k||^2 <= nu~^2``;
4. ``sum_n q_t^n = 1``: no round is empty.

The bounds hold for one realised sequence of weights, so each recorded run has bounds of its own.
For random patterns the mean of delta~^2(P) over blocks takes the place of the largest value.

References:
  Wang and Ji, NeurIPS 2022, with its appendix.
"""

import math
from typing import NamedTuple

from fedjax_links.analysis import _checks
from fedjax_links.analysis.theorems import _numbers


class Theorem31Terms(NamedTuple):
    """Holds the terms of Theorem 3.1, in the units of a squared gradient norm.

    Attributes:
      start: ``8 (f(x_0) - f*) / (gamma eta I T)``.
      divergence: ``126 gamma^2 L^2 I^2 nu~^2``.
      round_deviation: ``144 gamma^2 L^2 I^2 P^2 beta~^2``.
      block_deviation: ``6 delta~^2(P)``.
      noise: ``(21 gamma^2 L^2 I + 18 gamma^2 L^2 I P rho^2 + 2 gamma eta L rho^2) sigma^2``.
    """

    start: float
    divergence: float
    round_deviation: float
    block_deviation: float
    noise: float

    @property
    def total(self) -> float:
        """Returns the bound: the sum of the terms."""
        return sum(self)


def local_rate_cap(*, smoothness: float, local_steps: int, period: int) -> float:
    """Computes the largest local rate of Theorem 3.1: ``1 / (12 L I P)``.

    Args:
      smoothness: L, positive.
      local_steps: I, at least 1.
      period: P, at least 1.

    Returns:
      The largest gamma.

    Example:
      >>> from fedjax_links.analysis.theorems import wang2022
      >>> print(wang2022.local_rate_cap(smoothness=0.5, local_steps=5, period=10))
      0.0033333333333333335

    References:
      Wang and Ji, NeurIPS 2022, Theorem 3.1.
    """
    block_rounds = _numbers.at_least_one('period', period)
    return 1.0 / (12.0 * _work(smoothness, local_steps, block_rounds))


def rate_product_cap(*, smoothness: float, local_steps: int, period: int) -> float:
    """Computes the largest product of local rate and amplification: ``1 / (L I P)``.

    Args:
      smoothness: L, positive.
      local_steps: I, at least 1.
      period: P, at least 1.

    Returns:
      The largest gamma times eta.

    Example:
      >>> from fedjax_links.analysis.theorems import wang2022
      >>> print(wang2022.rate_product_cap(smoothness=0.5, local_steps=5, period=10))
      0.04

    References:
      Wang and Ji, NeurIPS 2022, Theorem 3.1.
    """
    block_rounds = _numbers.at_least_one('period', period)
    return 1.0 / _work(smoothness, local_steps, block_rounds)


def theorem31_terms(
    local_rate: float,
    amplification: float,
    *,
    num_rounds: int,
    local_steps: int,
    period: int,
    smoothness: float,
    initial_gap: float,
    block_deviation: float,
    round_deviation: float,
    round_divergence: float,
    largest_weight_square: float = 1.0,
    noise: float = 0.0,
) -> Theorem31Terms:
    r"""Computes Theorem 3.1 with the explicit constants of its proof.

    The theorem bounds ``min_t E ||grad f(x_t)||^2``. The proof even bounds the mean over the starts
    of blocks. The bound holds for local rates up to `local_rate_cap`, for products gamma eta up to
    `rate_product_cap`, and for ``P <= T / 2``.

    Args:
      local_rate: gamma, positive.
      amplification: eta, positive.
      num_rounds: T, at least 1.
      local_steps: I, at least 1.
      period: P, at least 1.
      smoothness: L, positive.
      initial_gap: ``f(x_0) - f*``, at least 0.
      block_deviation: delta~^2(P), at least 0.
      round_deviation: beta~^2, at least 0.
      round_divergence: nu~^2, at least 0.
      largest_weight_square: rho^2, in [0, 1].
      noise: sigma, at least 0.

    Returns:
      The terms; ``total`` is the bound.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import wang2022
      >>> terms = wang2022.theorem31_terms(
      ...     0.01, 2.0, num_rounds=100, local_steps=1, period=2, smoothness=1.0,
      ...     initial_gap=0.5, block_deviation=0.0, round_deviation=1.0, round_divergence=0.0,
      ... )
      >>> print(round(terms.start, 4), round(terms.round_deviation, 4), round(terms.total, 4))
      2.0 0.0576 2.0576

    References:
      Wang and Ji, NeurIPS 2022, Theorem 3.1, with the constants of appendix C.3.
    """
    gamma = _checks.checked_positive('local_rate', local_rate)
    eta = _checks.checked_positive('amplification', amplification)
    rounds = _numbers.at_least_one('num_rounds', num_rounds)
    steps = _numbers.at_least_one('local_steps', local_steps)
    block_rounds = _numbers.at_least_one('period', period)
    gap = _numbers.at_least_zero('initial_gap', initial_gap)
    rho_squared = _checks.checked_prob('largest_weight_square', largest_weight_square)
    _numbers.all_at_least_zero(
        block_deviation=block_deviation,
        round_deviation=round_deviation,
        round_divergence=round_divergence,
        noise=noise,
    )
    _checks.checked_positive('smoothness', smoothness)
    rate_smoothness_squared = (gamma * smoothness) ** 2
    noise_factor = 21.0 * rate_smoothness_squared * steps
    noise_factor += 18.0 * rate_smoothness_squared * steps * block_rounds * rho_squared
    noise_factor += 2.0 * gamma * eta * smoothness * rho_squared
    deviation_factor = 144.0 * rate_smoothness_squared * (steps * block_rounds) ** 2
    return Theorem31Terms(
        start=8.0 * gap / (gamma * eta * steps * rounds),
        divergence=126.0 * rate_smoothness_squared * steps**2 * round_divergence,
        round_deviation=deviation_factor * round_deviation,
        block_deviation=6.0 * block_deviation,
        noise=noise_factor * noise**2,
    )


def corollary32_product(
    *,
    smoothness: float,
    local_steps: int,
    period: int,
    num_rounds: int,
    initial_gap: float,
    noise: float,
    largest_weight_square: float = 1.0,
) -> float:
    r"""Computes gamma times eta of Corollary 3.2.

    The product is ``min{sqrt(F) / (sigma rho sqrt(L I T)), 1 / (L I P)}``, with F the initial gap.

    Args:
      smoothness: L, positive.
      local_steps: I, at least 1.
      period: P, at least 1.
      num_rounds: T, at least 1.
      initial_gap: F, positive.
      noise: sigma, at least 0. Without noise the second limit is the product.
      largest_weight_square: rho^2, in (0, 1].

    Returns:
      The product, at most `rate_product_cap`.

    Example:
      >>> from fedjax_links.analysis.theorems import wang2022
      >>> print(wang2022.corollary32_product(
      ...     smoothness=1.0, local_steps=1, period=2, num_rounds=100, initial_gap=4.0, noise=2.0
      ... ))
      0.1

    References:
      Wang and Ji, NeurIPS 2022, Corollary 3.2 and appendix C.4.
    """
    cap = rate_product_cap(
        smoothness=smoothness, local_steps=local_steps, period=period
    )
    product = corollary33_product(
        smoothness=smoothness,
        local_steps=local_steps,
        num_rounds=num_rounds,
        initial_gap=initial_gap,
        largest_weight_square=largest_weight_square,
    )
    sigma = _checks.checked_at_least_zero('noise', noise)
    return min(product / sigma, cap) if sigma else cap


def corollary33_product(
    *,
    smoothness: float,
    local_steps: int,
    num_rounds: int,
    initial_gap: float,
    largest_weight_square: float = 1.0,
) -> float:
    r"""Computes gamma times eta of Corollary 3.3: ``sqrt(F) / (rho sqrt(L I T))``.

    The corollary needs this product to be at most ``1 / (L I P)``. Its units are those of a rate
    times those of sigma, because the corollary leaves sigma out.

    Args:
      smoothness: L, positive.
      local_steps: I, at least 1.
      num_rounds: T, at least 1.
      initial_gap: F, positive.
      largest_weight_square: rho^2, in (0, 1].

    Returns:
      The product.

    Example:
      >>> from fedjax_links.analysis.theorems import wang2022
      >>> print(wang2022.corollary33_product(
      ...     smoothness=1.0, local_steps=1, num_rounds=100, initial_gap=4.0
      ... ))
      0.2

    References:
      Wang and Ji, NeurIPS 2022, Corollary 3.3 and appendix C.4.
    """
    gap = _checks.checked_positive('initial_gap', initial_gap)
    _checks.checked_prob('largest_weight_square', largest_weight_square)
    rho = math.sqrt(
        _checks.checked_positive('largest_weight_square', largest_weight_square)
    )
    rounds = _numbers.at_least_one('num_rounds', num_rounds)
    work = _work(smoothness, local_steps, rounds)
    return math.sqrt(gap) / (rho * math.sqrt(work))


def client_drift_bound(
    local_rate: float,
    *,
    local_steps: int,
    round_divergence: float,
    weight_square: float,
    noise: float = 0.0,
) -> float:
    r"""Bounds how far local models of a round drift apart.

    ``sum_n q_t^n E ||y^n - sum_k q_t^k y^k||^2 <= 3 I gamma^2 [6 I nu~^2 + sigma^2 (1 - r)]`` with
    ``r = sum_n (q_t^n)^2``, after any number of local steps, for rates up to `local_rate_cap`.

    Args:
      local_rate: gamma, at least 0.
      local_steps: I, at least 1.
      round_divergence: nu~^2, at least 0.
      weight_square: r of this round, in [0, 1].
      noise: sigma, at least 0.

    Returns:
      The bound.

    Example:
      >>> from fedjax_links.analysis.theorems import wang2022
      >>> print(round(wang2022.client_drift_bound(
      ...     0.1, local_steps=2, round_divergence=1.0, weight_square=0.5
      ... ), 6))
      0.72

    References:
      Wang and Ji, NeurIPS 2022, Lemma C.1.
    """
    steps = _numbers.at_least_one('local_steps', local_steps)
    _checks.checked_prob('weight_square', weight_square)
    _numbers.all_at_least_zero(
        local_rate=local_rate, round_divergence=round_divergence, noise=noise
    )
    spread = 6.0 * steps * round_divergence + noise**2 * (1.0 - weight_square)
    return 3.0 * steps * local_rate**2 * spread


def block_drift_bound(
    local_rate: float,
    *,
    local_steps: int,
    period: int,
    gradient_square: float,
    round_deviation: float,
    round_divergence: float,
    weight_square: float,
    noise: float = 0.0,
    largest_weight_square: float = 1.0,
) -> float:
    r"""Bounds how far the weighted local models move from the start of their block.

    ``E ||sum_n q_t^n y^n - x_{t_0}||^2 <= 3 gamma^2 I^2 nu~^2 + 24 gamma^2 I^2 P^2 beta~^2``
    ``+ 24 gamma^2 I^2 P^2 E ||grad f(x_{t_0})||^2``
    ``+ 3 gamma^2 I P sigma^2 [rho^2 + (1 - r) / (6 P)]`` with ``r = sum_n (q_t^n)^2``.

    Args:
      local_rate: gamma, at least 0.
      local_steps: I, at least 1.
      period: P, at least 1.
      gradient_square: ``E ||grad f(x_{t_0})||^2``, at least 0.
      round_deviation: beta~^2, at least 0.
      round_divergence: nu~^2, at least 0.
      weight_square: r of this round, in [0, 1].
      noise: sigma, at least 0.
      largest_weight_square: rho^2, in [0, 1].

    Returns:
      The bound.

    Example:
      >>> from fedjax_links.analysis.theorems import wang2022
      >>> print(round(wang2022.block_drift_bound(
      ...     0.01, local_steps=1, period=2, gradient_square=1.0, round_deviation=1.0,
      ...     round_divergence=0.0, weight_square=1.0,
      ... ), 6))
      0.0192

    References:
      Wang and Ji, NeurIPS 2022, Lemma C.2.
    """
    steps = _numbers.at_least_one('local_steps', local_steps)
    block_rounds = _numbers.at_least_one('period', period)
    _checks.checked_prob('weight_square', weight_square)
    _checks.checked_prob('largest_weight_square', largest_weight_square)
    _numbers.all_at_least_zero(
        local_rate=local_rate,
        gradient_square=gradient_square,
        round_deviation=round_deviation,
        round_divergence=round_divergence,
        noise=noise,
    )
    rate_steps_squared = (local_rate * steps) ** 2
    from_noise = largest_weight_square + (1.0 - weight_square) / (6.0 * block_rounds)
    gradients = round_deviation + gradient_square
    return (
        3.0 * rate_steps_squared * round_divergence
        + 24.0 * rate_steps_squared * block_rounds**2 * gradients
        + 3.0 * local_rate**2 * steps * block_rounds * noise**2 * from_noise
    )


def _work(smoothness: float, local_steps: int, num_rounds: int) -> float:
    """Returns L I times a number of rounds, which the caller has checked."""
    steps = _numbers.at_least_one('local_steps', local_steps)
    return _checks.checked_positive('smoothness', smoothness) * steps * num_rounds
