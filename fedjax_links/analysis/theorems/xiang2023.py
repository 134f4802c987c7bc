r"""Computes bounds for FedPBC, conference version: drift, descent, consensus error, Theorem 1.

Theorem 1 bounds the mean over rounds of the squared gradient norm at the mean client model,
``1/T sum_t E ||grad F(xbar^t)||^2``. Lemma 4 bounds the change of F in a round, Lemma 5 the
consensus error: how far client models are from their mean. They rest on these assumptions:

1. every local gradient is Lipschitz with constant L (``smoothness``);
2. stochastic gradients are unbiased at the start of a round, with variance at most ``sigma^2``
   (``noise`` is sigma);
3. F is bounded from below;
4. ``1/m sum_i ||grad F_i - grad F||^2 <= beta^2 ||grad F||^2 + zeta^2`` (``slope`` is beta,
   ``offset`` is zeta);
5. rounds are independent, with ``rho = max_t lambda_2(E[W^2])`` (``mixing_rate``) below 1.

The paper does not name the fifth as an assumption, but its Lemma 2 uses it. A client's gradients
within a round may share one sample.

References:
  Xiang et al., CDC 2023.
"""

import math
from typing import NamedTuple

import numpy as np

from fedjax_links.analysis import _checks
from fedjax_links.analysis.theorems import _numbers, local_drift


class Theorem1Terms(NamedTuple):
    """Holds the terms of Theorem 1, in the units of a squared gradient norm.

    kappa and C are those of `fedjax_links.analysis.theorems.local_drift`, and
    ``R = L^2 / (1 - sqrt(rho))^2``.

    Attributes:
      start: ``8 (F(x^0) - F*) / sqrt(m s T)``.
      gradient_noise:
        ``[16 L sqrt(s / (m T)) + 8 sqrt(m s / T) kappa^2 L^2 (1 + L / 2)] sigma^2``.
      client_drift: ``{24 sqrt(m s / T) [C + 24 R] + 1728 (m s / T) C R} zeta^2``, due to
        heterogeneity.
      intermittent_participation: ``144 (m s / T) rho R (1 + 3 C) sigma^2``, zero when everybody
        takes part.
    """

    start: float
    gradient_noise: float
    client_drift: float
    intermittent_participation: float

    @property
    def total(self) -> float:
        """Returns the bound: the sum of the terms."""
        return sum(self)


def step_size_caps(
    learning_rate: float,
    *,
    smoothness: float,
    local_steps: int,
    mixing_rate: float,
    slope: float = 0.0,
) -> np.ndarray:
    r"""Computes the five upper limits of Theorem 1 on the rate, at the kappa of this rate.

    In the printed order:

    * ``1 / {24 (beta^2 + 1) C [1 + 18 s^2 L^2 r] + 144 (beta^2 + 1) s^2 L^2 r}`` with
      ``r = rho / (1 - sqrt(rho))^2``, with C and kappa from
      `fedjax_links.analysis.theorems.local_drift`;
    * ``1 / (2 s)``;
    * ``sqrt(2) / (kappa s L)``, infinite for one local step;
    * ``1 / (rho s^3)``;
    * ``(1 - sqrt(rho)) / (6 sqrt(2) rho L s^2)``. Lemma 5, which the theorem uses, has the
      smaller limit with ``sqrt(2 rho)`` in place of ``sqrt(2) rho``. The five do not imply it.

    Args:
      learning_rate: eta, at which kappa is computed.
      smoothness: L, positive.
      local_steps: s, at least 1.
      mixing_rate: rho, in [0, 1]; at 1 the first and last limits are 0.
      slope: beta, at least 0.

    Returns:
      float64[5]. The theorem covers the rate if it is at most the least entry.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2023
      >>> caps = xiang2023.step_size_caps(
      ...     3e-4, smoothness=1.0, local_steps=30, mixing_rate=0.9018
      ... )
      >>> print(caps)
      [1.88343603e-09 1.66666667e-02 4.70085612e-02 4.10701231e-05
       7.31374753e-06]

    References:
      Xiang et al., CDC 2023, Theorem 1.
    """
    smoothness = _checks.checked_positive('smoothness', smoothness)
    local_steps = _numbers.at_least_one('local_steps', local_steps)
    kappa = local_drift.local_drift_factor(learning_rate, smoothness, local_steps)
    constant = local_drift.drift_constant(learning_rate, smoothness, local_steps)
    rho = _checks.checked_prob('mixing_rate', mixing_rate)
    beta = _numbers.at_least_zero('slope', slope)
    gap = 1.0 - math.sqrt(rho)
    ratio = rho / gap**2 if gap > 0 else math.inf
    mixing_term = (local_steps * smoothness) ** 2 * ratio
    weight = beta**2 + 1.0
    first = 24.0 * weight * constant * (1.0 + 18.0 * mixing_term)
    first += 144.0 * weight * mixing_term
    numerators = np.array([1.0, 1.0, math.sqrt(2.0), 1.0, gap])
    divisors = np.array(
        [
            first,
            2.0 * local_steps,
            kappa * local_steps * smoothness,
            rho * local_steps**3,
            6.0 * math.sqrt(2.0) * rho * smoothness * local_steps**2,
        ]
    )
    with np.errstate(divide='ignore'):  # Limits with a divisor of zero are infinite.
        return numerators / divisors


def step_size_cap(
    *, smoothness: float, local_steps: int, mixing_rate: float, slope: float = 0.0
) -> float:
    """Computes the largest rate that Theorem 1 covers.

    kappa depends on the rate, so the rate occurs on both sides of the condition. The result is the
    largest rate that satisfies the condition.

    Args:
      smoothness: L, positive.
      local_steps: s, at least 1.
      mixing_rate: rho, in [0, 1].
      slope: beta, at least 0.

    Returns:
      The largest eta; 0 if rho is 1.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2023
      >>> cap = xiang2023.step_size_cap(smoothness=1.0, local_steps=30, mixing_rate=0.9018)
      >>> print(f'{cap:.3g}')
      1.89e-09

    References:
      Xiang et al., CDC 2023, Theorem 1.
    """

    def cap_at(rate: float) -> float:
        caps = step_size_caps(
            rate,
            smoothness=smoothness,
            local_steps=local_steps,
            mixing_rate=mixing_rate,
            slope=slope,
        )
        return float(caps.min())

    return _numbers.largest_rate(cap_at)


def descent_bound(
    learning_rate: float,
    *,
    smoothness: float,
    local_steps: int,
    num_clients: int,
    gradient_square: float,
    consensus_error: float,
    slope: float = 0.0,
    offset: float = 0.0,
    noise: float = 0.0,
) -> float:
    r"""Bounds the expected change of F at the mean client model over one round.

    ``sigma^2 eta^2 s^2 [kappa^2 L^2 + 2 L (1/m + kappa^2 L^2 / 4)] + 3 zeta^2 eta^2 s^2 C``
    ``- {s eta / 4 - 3 eta^2 s^2 (beta^2 + 1) C} ||grad F(xbar)||^2``
    ``+ {eta s L^2 + 3 eta^2 s^2 L^2 C} 1/m sum_i ||x_i - xbar||^2``, for ``eta <= 1 / (2 s)``.

    Args:
      learning_rate: eta, at least 0.
      smoothness: L, positive.
      local_steps: s, at least 1.
      num_clients: m, at least 1.
      gradient_square: ``||grad F(xbar^t)||^2``, at least 0.
      consensus_error: ``1/m sum_i ||x_i^t - xbar^t||^2``, at least 0.
      slope: beta, at least 0.
      offset: zeta, at least 0.
      noise: sigma, at least 0.

    Returns:
      An upper bound on ``E[F(xbar^{t+1}) - F(xbar^t)]`` given the models of round t; infinite
      where kappa is beyond floats.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2023
      >>> print(xiang2023.descent_bound(
      ...     0.01, smoothness=1.0, local_steps=1, num_clients=2,
      ...     gradient_square=4.0, consensus_error=0.0,
      ... ))
      -0.0076

    References:
      Xiang et al., CDC 2023, Lemma 4.
    """
    drift = local_drift.squared_drift(learning_rate, smoothness, local_steps)
    constant = local_drift.drift_constant(learning_rate, smoothness, local_steps)
    clients = _numbers.at_least_one('num_clients', num_clients)
    _numbers.all_at_least_zero(
        gradient_square=gradient_square,
        consensus_error=consensus_error,
        slope=slope,
        offset=offset,
        noise=noise,
    )
    rate_steps = learning_rate * local_steps
    if math.isinf(constant):
        return math.inf
    noise_factor = 2.0 * smoothness * (1.0 / clients + drift / 4.0)
    from_noise = noise**2 * (drift + noise_factor)
    from_offset = 3.0 * offset**2 * constant
    descent = rate_steps / 4.0 - 3.0 * rate_steps**2 * (slope**2 + 1.0) * constant
    ascent = smoothness**2 * (rate_steps + 3.0 * rate_steps**2 * constant)
    return (
        rate_steps**2 * (from_noise + from_offset)
        - descent * gradient_square
        + ascent * consensus_error
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

    ``6 eta^2 s^2 [2 r + rho / (1 - rho)] sigma^2 + 72 eta^2 s^4 r zeta^2``
    ``+ 72 (beta^2 + 1) eta^2 s^4 r G`` with ``r = rho / (1 - sqrt(rho))^2``, for
    ``eta <= min{1 / (2 s), sqrt(2) / (kappa s L), (1 - sqrt(rho)) / (6 sqrt(2 rho) L s^2)}``.

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

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2023
      >>> print(round(xiang2023.consensus_bound(
      ...     0.01, local_steps=1, mixing_rate=0.25, mean_gradient_square=2.0
      ... ), 6))
      0.0144

    References:
      Xiang et al., CDC 2023, Lemma 5.
    """
    rho = _checks.checked_prob('mixing_rate', mixing_rate)
    local_steps = _numbers.at_least_one('local_steps', local_steps)
    _numbers.all_at_least_zero(
        learning_rate=learning_rate,
        mean_gradient_square=mean_gradient_square,
        slope=slope,
        offset=offset,
        noise=noise,
    )
    if rho == 1.0:
        return math.inf
    ratio = rho / (1.0 - math.sqrt(rho)) ** 2
    rate_steps_squared = learning_rate**2 * local_steps**2
    noise_factor = 2.0 * ratio + rho / (1.0 - rho)
    from_noise = 6.0 * rate_steps_squared * noise_factor * noise**2
    gradients = offset**2 + (slope**2 + 1.0) * mean_gradient_square
    return from_noise + 72.0 * rate_steps_squared * local_steps**2 * ratio * gradients


def theorem1_learning_rate(
    num_rounds: int, *, num_clients: int, local_steps: int, scale: float = 1.0
) -> float:
    r"""Computes the rate at which Theorem 1 is stated: ``eta = c_0 sqrt(m / (s T))``.

    Args:
      num_rounds: T, at least 1.
      num_clients: m, at least 1.
      local_steps: s, at least 1.
      scale: c_0, positive.

    Returns:
      eta.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2023
      >>> print(xiang2023.theorem1_learning_rate(400, num_clients=4, local_steps=1))
      0.1

    References:
      Xiang et al., CDC 2023, Theorem 1.
    """
    rounds = _numbers.at_least_one('num_rounds', num_rounds)
    clients = _numbers.at_least_one('num_clients', num_clients)
    steps = _numbers.at_least_one('local_steps', local_steps)
    return _checks.checked_positive('scale', scale) * math.sqrt(
        clients / (steps * rounds)
    )


def theorem1_terms(
    num_rounds: int,
    *,
    num_clients: int,
    local_steps: int,
    smoothness: float,
    mixing_rate: float,
    initial_gap: float,
    offset: float = 0.0,
    noise: float = 0.0,
) -> Theorem1Terms:
    r"""Computes the terms of Theorem 1 with the constants that it prints inside its O(.).

    The rate is ``eta = sqrt(m / (s T))``, that is c_0 = 1, and kappa is computed at this rate. The
    proof needs no further constant. So the sum is a bound if this rate is within `step_size_caps`
    and within the limit of Lemma 5 (see `consensus_bound`).

    Args:
      num_rounds: T, at least 1.
      num_clients: m, at least 1.
      local_steps: s, at least 1.
      smoothness: L, positive.
      mixing_rate: rho, in [0, 1].
      initial_gap: ``F(xbar^0) - F*``, at least 0.
      offset: zeta, at least 0.
      noise: sigma, at least 0.

    Returns:
      The terms; ``total`` is the bound.

    Example:
      >>> from fedjax_links.analysis.theorems import xiang2023
      >>> terms = xiang2023.theorem1_terms(
      ...     10000, num_clients=1, local_steps=1, smoothness=1.0, mixing_rate=0.0,
      ...     initial_gap=2.0, noise=1.0,
      ... )
      >>> print(round(terms.start, 4), round(terms.total, 4))
      0.16 0.32

    References:
      Xiang et al., CDC 2023, Theorem 1.
    """
    num_rounds = _numbers.at_least_one('num_rounds', num_rounds)
    num_clients = _numbers.at_least_one('num_clients', num_clients)
    local_steps = _numbers.at_least_one('local_steps', local_steps)
    smoothness = _checks.checked_positive('smoothness', smoothness)
    rate = theorem1_learning_rate(
        num_rounds, num_clients=num_clients, local_steps=local_steps
    )
    drift = local_drift.squared_drift(rate, smoothness, local_steps)
    constant = local_drift.drift_constant(rate, smoothness, local_steps)
    rho = _checks.checked_prob('mixing_rate', mixing_rate)
    gap = _numbers.at_least_zero('initial_gap', initial_gap)
    _numbers.all_at_least_zero(offset=offset, noise=noise)
    rate_steps = math.sqrt(num_clients * local_steps / num_rounds)
    # R of `Theorem1Terms`.
    mixing = math.inf if rho == 1.0 else smoothness**2 / (1.0 - math.sqrt(rho)) ** 2
    from_noise = 16.0 * smoothness * math.sqrt(local_steps / (num_clients * num_rounds))
    from_noise += 8.0 * rate_steps * drift * (1.0 + smoothness / 2.0)
    from_drift = 24.0 * rate_steps * (constant + 24.0 * mixing)
    from_drift += rate_steps**2 * 1728.0 * constant * mixing
    from_links = 0.0
    if rho > 0:
        from_links = rate_steps**2 * 144.0 * rho * mixing * (1.0 + 3.0 * constant)
    return Theorem1Terms(
        start=8.0 * gap / math.sqrt(num_clients * local_steps * num_rounds),
        gradient_noise=_scaled(from_noise, noise),
        client_drift=_scaled(from_drift, offset),
        intermittent_participation=_scaled(from_links, noise),
    )


def _scaled(factor: float, root: float) -> float:
    """Returns ``factor * root**2``; 0 for a zero root, even if the factor is infinite."""
    return factor * root**2 if root else 0.0
