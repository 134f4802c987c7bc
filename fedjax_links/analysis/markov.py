"""Computes stationary laws, memory and gaps of two-state links, Markov and semi-Markov.

A link is up or down. A Markov link changes its state with fixed probabilities, q* from down to up
and q from up to down. A semi-Markov link stays up and down for independent times of any two laws.
"""

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks
from fedjax_links.core import errors


def markov_stationary(up_rate: ArrayLike, down_rate: ArrayLike) -> np.ndarray:
    """Computes the stationary probability that a Markov link is up, ``q* / (q* + q)``.

    Args:
      up_rate: float[...], q* = P(down -> up) per round, in [0, 1].
      down_rate: float[...], q = P(up -> down) per round, in [0, 1]; broadcast against ``up_rate``.

    Returns:
      float64[...], in [0, 1].

    Raises:
      ValueError: if a rate is out of range, or if both are zero: then any law is stationary.

    Example:
      >>> from fedjax_links import analysis
      >>> print(float(analysis.markov_stationary(0.05, 0.15)))
      0.25

    References:
      Xiang et al., journal version 2024, Appendix B, Fig. 7.
    """
    up, down = _checked_rates(up_rate, down_rate)
    return up / (up + down)


def markov_autocorrelation(
    up_rate: ArrayLike, down_rate: ArrayLike, lag: ArrayLike
) -> np.ndarray:
    """Computes the autocorrelation of a stationary Markov link, ``(1 - q* - q)^lag``.

    Args:
      up_rate: float[...], q* = P(down -> up) per round, in [0, 1].
      down_rate: float[...], q = P(up -> down) per round, in [0, 1].
      lag: int[...], rounds apart, at least 0; broadcast against the rates.

    Returns:
      float64[...], in [-1, 1]; zero beyond lag 0 for independent rounds (``q* + q = 1``).

    Raises:
      ValueError: if a rate or the lag is out of range, or both rates are zero.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.markov_autocorrelation(0.05, 0.15, [0, 1, 2]).round(3))
      [1.   0.8  0.64]

    References:
      Levin and Peres, Markov Chains and Mixing Times, 2017 (two-state chains).
    """
    up, down = _checked_rates(up_rate, down_rate)
    requirement = 'hold integers of at least 0'
    lags = _checks.as_array('lag', lag, requirement)
    is_valid = lags.dtype.kind in 'iu' and np.all(lags >= 0)
    _checks.require_value(is_valid, 'lag', requirement, lag)
    lag_one = 1.0 - up - down
    try:
        np.broadcast_shapes(lag_one.shape, lags.shape)
    except ValueError:
        requirement = f'broadcast against the rates {lag_one.shape}'
        raise errors.invalid('lag', requirement, f'shape {lags.shape}') from None
    return lag_one**lags


def gap_distribution(
    up_rate: ArrayLike, down_rate: ArrayLike, max_gap: int
) -> np.ndarray:
    """Computes the law of the gap between consecutive participations over a Markov link.

    The gap is the number of rounds from one participation to the next: 1 for adjacent
    rounds, k + 1 after k inactive rounds. ``P(1) = 1 - q`` and
    ``P(k) = q (1 - q*)^(k-2) q*`` beyond. Independent rounds with participation
    probability p are ``up_rate=p, down_rate=1-p``, where this is the geometric law
    ``(1 - p)^(k-1) p``.

    Args:
      up_rate: float[...], q* = P(down -> up) per round, in [0, 1].
      down_rate: float[...], q = P(up -> down) per round, in [0, 1]; broadcast against ``up_rate``.
      max_gap: largest gap listed, at least 1.

    Returns:
      float64[..., max_gap], entry k - 1 is P(gap = k). The entries sum to 1 minus the
      probability of a longer gap or of no further participation.

    Raises:
      ValueError: if a rate or ``max_gap`` is out of range, or both rates are zero.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.gap_distribution(0.05, 0.15, max_gap=3).round(4))
      [0.85   0.0075 0.0071]
    """
    up, down = _checked_rates(up_rate, down_rate)
    longest = _checks.checked_length('max_gap', max_gap, minimum=1)
    extra_rounds = np.arange(longest - 1)
    longer = (down * up)[..., None] * (1.0 - up)[..., None] ** extra_rounds
    return np.concatenate([(1.0 - down)[..., None], longer], axis=-1)


def truncated_interval_mean(probs: ArrayLike, cutoff: int | None) -> np.ndarray:
    """Computes the expected length of FedAU's closed intervals, ``(1 - (1 - p)^K) / p``.

    An interval closes at a participation, or after K rounds without one. Its length is the
    smaller of K and a geometric variable. FedAU multiplies updates by mean intervals, which
    tend to this expected length. So client i's expected update is off by a factor: ``p_i`` times
    the expected length.

    Args:
      probs: float[N], probabilities of independent participations, in [0, 1].
      cutoff: K, at least 1, or None for no cut-off.

    Returns:
      float64[N], in [1, K]; K (or infinity) for p = 0.

    Raises:
      ValueError: if ``probs`` or ``cutoff`` is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.truncated_interval_mean([0.1, 0.5], cutoff=50).round(2))
      [9.95 2.  ]

    References:
      Wang and Ji, A Lightweight Method for Tackling Unknown Participation Statistics in Federated
      Averaging, ICLR 2024 (FedAU).
    """
    probs = _checks.checked_probs('probs', probs)
    limit = np.inf
    if cutoff is not None:
        limit = _checks.checked_int('cutoff', cutoff, minimum=1)
    positive = np.where(probs > 0, probs, 1.0)
    with np.errstate(divide='ignore'):  # p = 1: log 0 = -inf, and the interval is 1
        closed = -np.expm1(limit * np.log1p(-positive)) / positive
    return np.where(probs > 0, closed, limit)


def markov_interval_mean(
    up_rate: ArrayLike, down_rate: ArrayLike, cutoff: int | None
) -> np.ndarray:
    """Computes the expected length of FedAU's closed intervals over a Markov link.

    An interval closes at a participation, or after K rounds without one. Without a cut-off
    the mean length is ``1 / p``, whatever the memory of the link. With a cut-off, let
    ``r = 1 - q*``. An interval that follows a participation has the mean length
    ``1 + q (1 - r^(K-1)) / q*``. An interval that follows a cut-off has the mean length
    ``(1 - r^K) / q*``. For each interval after a participation there are
    ``q r^(K-1) / (1 - r^K)`` intervals after a cut-off.

    Args:
      up_rate: float[...], q* = P(down -> up) per round, in (0, 1].
      down_rate: float[...], q = P(up -> down) per round, in [0, 1]; broadcast against
        ``up_rate``.
      cutoff: K, at least 1, or None for no cut-off.

    Returns:
      float64[...], in [1, K]. FedAU's weights tend to this mean.

    Raises:
      ValueError: if a rate or ``cutoff`` is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.markov_interval_mean([0.05, 0.3], [0.15, 0.7], 50).round(2))
      [3.95 3.33]

    References:
      Wang and Ji, A Lightweight Method for Tackling Unknown Participation Statistics in Federated
      Averaging, ICLR 2024 (FedAU).
    """
    up, down = _checked_rates(up_rate, down_rate)
    _checks.checked('up_rate', up, up > 0, 'be positive')
    if cutoff is None:
        return (up + down) / up
    limit = _checks.checked_int('cutoff', cutoff, minimum=1)
    if limit == 1:
        return np.ones_like(up)
    with np.errstate(divide='ignore'):  # q* = 1: log 0 = -inf is right.
        log_stay = np.log1p(-up)
    # P(a link that is down comes up within K - 1 rounds, and within K): precise for tiny rates.
    rises_before = -np.expm1((limit - 1) * log_stay)
    rises = -np.expm1(limit * log_stay)
    after_upload = 1.0 + down * rises_before / up
    after_cut = rises / up
    ratio = down * (1.0 - rises_before) / rises
    return (after_upload + ratio * after_cut) / (1.0 + ratio)


def _checked_rates(
    up_rate: ArrayLike, down_rate: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Checks and broadcasts transition rates; raises if both rates of a link are zero."""
    up = _checks.checked_rate('up_rate', up_rate)
    down = _checks.checked_rate('down_rate', down_rate)
    try:
        up, down = np.broadcast_arrays(up, down)
    except ValueError:
        requirement = f'broadcast against `up_rate` {up.shape}'
        raise errors.invalid('down_rate', requirement, down.shape) from None
    moves = np.all(up + down > 0)
    _checks.require(moves, 'down_rate', 'be positive where `up_rate` is zero', '0.0')
    return up, down


def semi_markov_stationary(up: ArrayLike, down: ArrayLike) -> np.ndarray:
    """Computes the stationary probability that a semi-Markov link is up.

    The probability is ``E[up] / (E[up] + E[down])``, with the mean times that the link stays up
    and down.

    Args:
      up: float[..., L], survival function ``P(D > k)``, k = 0, 1, ..., of the number of rounds D
        that the link stays up.
      down: float[..., L], survival function of the number of rounds that the link stays down.

    Returns:
      float64[...].

    Raises:
      ValueError: if a survival function does not begin at 1, or rises, or if shapes do not fit.

    Example:
      >>> from fedjax_links import analysis
      >>> print(float(analysis.semi_markov_stationary([1.0, 0.5], [1.0, 1.0, 1.0])))
      0.3333333333333333
    """
    mean_up = _checks.checked_survival('up', up).sum(axis=-1)
    mean_down = _checks.checked_survival('down', down).sum(axis=-1)
    try:
        np.broadcast_shapes(mean_up.shape, mean_down.shape)
    except ValueError:
        requirement = f'have one law, or laws of shape {list(mean_up.shape)}'
        got = f'laws of shape {list(mean_down.shape)}'
        raise errors.invalid('down', requirement, got) from None
    return mean_up / (mean_up + mean_down)


def semi_markov_autocorrelation(
    up: ArrayLike, down: ArrayLike, num_lags: int
) -> np.ndarray:
    """Computes the autocorrelation of a semi-Markov link, by its renewal equations.

    Args:
      up: float[L], as in `semi_markov_stationary`.
      down: float[L], as in `semi_markov_stationary`.
      num_lags: the largest lag, at least 0.

    Returns:
      float64[num_lags + 1], for lags from 0 on.

    Raises:
      ValueError: as `semi_markov_stationary`, or for a negative ``num_lags``.

    Example:
      >>> from fedjax_links import analysis
      >>> rounds = [0.8**k for k in range(100)]  # Markov, up and down with rate 0.2
      >>> print(analysis.semi_markov_autocorrelation(rounds, rounds, 2).round(3))
      [1.   0.6  0.36]
    """
    from scipy import signal  # slow to import, so only here

    up_law = _checked_one_law('up', up)
    down_law = _checked_one_law('down', down)
    length = 1 + _checks.checked_length('num_lags', num_lags, minimum=0, num_bytes=80)
    up_ends = _duration_law(up_law)
    down_ends = _duration_law(down_law)
    survival = np.pad(up_law, (0, length))
    # P(up k rounds after the link goes up): U = S + up_ends * down_ends * U, * a convolution.
    cycle = np.convolve(up_ends, down_ends)[:length]
    after_rise = signal.lfilter([1.0], np.append(1.0, -cycle[1:]), survival[:length])
    mean = up_law.sum()
    prob = mean / (mean + down_law.sum())
    # P(the link that is up in a stationary round stays up for k more rounds).
    stays_up = np.cumsum(survival[::-1])[::-1][:length] / mean
    # P(the link that is up in a stationary round goes down after k more rounds).
    residual = np.append(0.0, up_law)[:length] / mean
    after_fall = np.convolve(down_ends, after_rise)[:length]
    comes_back = np.convolve(residual, after_fall)[:length]
    return (stays_up + comes_back - prob) / (1.0 - prob)


def _checked_one_law(name: str, law: ArrayLike) -> np.ndarray:
    """Returns one survival function, float64[L]; raises for several functions."""
    array = _checks.checked_survival(name, law)
    got = f'shape {list(array.shape)}'
    _checks.require(array.ndim == 1, name, 'be one law, a vector', got)
    return array


def _duration_law(survival: np.ndarray) -> np.ndarray:
    """Returns P(D = k), k = 0, ..., L, from the survival function float64[L] of D."""
    law: np.ndarray = -np.diff(survival, prepend=1.0, append=0.0)
    return law


def shock_correlation(probs: ArrayLike, group_prob: float) -> np.ndarray:
    """Computes the correlation within a round of clients with a shared shock.

    A client delivers if its own link and its group are up. The group is up with probability s. The
    covariance of two clients of a group is ``p_i p_j s (1 - s)``.

    Args:
      probs: float[N], p, probabilities of a group's links while the group is up. The links are
        independent of each other.
      group_prob: s, the probability that the group is up, in [0, 1].

    Returns:
      float64[N, N], 1 on the diagonal; zero where a client never changes.

    Raises:
      ValueError: for values that are no probabilities.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.shock_correlation([0.5, 1.0], 0.5).round(3))
      [[1.    0.577]
       [0.577 1.   ]]
    """
    link_probs = _checks.checked_probs('probs', probs)
    group = _checks.checked_prob('group_prob', group_prob)
    rates = link_probs * group
    variances = rates * (1 - rates)
    scale = np.sqrt(np.outer(variances, variances))
    covariance = np.outer(link_probs, link_probs) * group * (1 - group)
    zeros = np.zeros_like(scale)
    correlation = np.divide(covariance, scale, out=zeros, where=scale > 0)
    np.fill_diagonal(correlation, 1.0)
    return correlation
