r"""Bounds local drift: how far several local steps leave the direction of the first step.

References:
  Xiang et al., CDC 2023, Lemma 3; journal version 2024, Lemma 1.
"""

import math

import numpy as np
from scipy import special

from fedjax_links.analysis import _checks
from fedjax_links.analysis.theorems import _numbers

_LARGEST_BUDGET = 1_000.0  # Beyond this budget the bound exceeds all floats.


def local_drift_factor(
    learning_rate: float, smoothness: float, local_steps: int
) -> float:
    r"""Computes kappa, by which several local steps may leave their first gradient.

    ``kappa = [(1 + eta L)^s - 1 - s eta L] / [C(s, 2) (eta L)^2]``. It bounds the drift:
    ``||sum_k [grad l_i(x^k) - grad l_i(x)]|| <= kappa eta C(s, 2) L ||grad l_i(x)||``. kappa is 0
    for one local step, 1 for two steps, and at least 1 for more steps. kappa grows with the rate.

    Args:
      learning_rate: eta, at least 0. At 0 the limit is returned: 1 for two steps or more.
      smoothness: L, the largest Lipschitz constant of the gradients, positive.
      local_steps: s, at least 1.

    Returns:
      kappa, without unit.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import local_drift
      >>> print(round(local_drift.local_drift_factor(1e-4, 1.0, 100), 6))
      1.003275

    References:
      Xiang et al., CDC 2023, Eq. (4).
    """
    rate = _numbers.at_least_zero('learning_rate', learning_rate)
    step = rate * _checks.checked_positive('smoothness', smoothness)
    steps = _checks.checked_length('local_steps', local_steps, minimum=1)
    if steps == 1:
        return 0.0
    # The series in eta L has positive terms. The printed form would cancel digits.
    degrees = np.arange(3, steps + 1)
    with np.errstate(over='ignore'):  # A kappa beyond floats becomes infinite.
        terms = np.cumprod((steps - degrees + 1) / degrees * step)
        return 1.0 + float(terms.sum())


def local_drift_factor_bound(rate_budget: float) -> float:
    r"""Bounds kappa for every rate of at most ``c / (s L)``: ``(e^c - 1 - c) / (c^2 / 2)``.

    Args:
      rate_budget: c, at least 0.

    Returns:
      The bound, at least 1.

    Raises:
      ValueError: if c is negative.

    Example:
      >>> from fedjax_links.analysis.theorems import local_drift
      >>> print(round(local_drift.local_drift_factor_bound(1.0), 4))
      1.4366

    References:
      Xiang et al., CDC 2023, Remark 2.
    """
    budget = _numbers.at_least_zero('rate_budget', rate_budget)
    if budget > _LARGEST_BUDGET:
        return math.inf
    return float(special.hyp1f1(1.0, 3.0, budget))


def squared_drift(learning_rate: float, smoothness: float, local_steps: int) -> float:
    r"""Computes ``kappa^2 L^2``, infinite if it exceeds all floats.

    Args:
      learning_rate: eta, at least 0.
      smoothness: L, positive.
      local_steps: s, at least 1.

    Returns:
      The square.

    Example:
      >>> from fedjax_links.analysis.theorems import local_drift
      >>> print(local_drift.squared_drift(0.1, 3.0, 2), local_drift.squared_drift(1.0, 50.0, 100))
      9.0 inf
    """
    drift = local_drift_factor(learning_rate, smoothness, local_steps) * smoothness
    return drift * drift  # `**` would raise on overflow.


def drift_constant(learning_rate: float, smoothness: float, local_steps: int) -> float:
    r"""Computes the paper's fraktur C: ``kappa^2 L^2 + 2 L (1 + kappa^2 L^2 / 4)``.

    Args:
      learning_rate: eta, at least 0.
      smoothness: L, positive.
      local_steps: s, at least 1.

    Returns:
      The constant. Its units do not match unless L is a pure number, as the paper assumes.

    Example:
      >>> from fedjax_links.analysis.theorems import local_drift
      >>> print(local_drift.drift_constant(0.1, 3.0, 1))
      6.0

    References:
      Xiang et al., CDC 2023, Lemma 4.
    """
    square = squared_drift(learning_rate, smoothness, local_steps)
    return square + 2.0 * smoothness * (1.0 + square / 4.0)
