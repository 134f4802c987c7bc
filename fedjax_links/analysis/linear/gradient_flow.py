r"""How far gradient methods on linear models get: the flow ``x' = -sum_i w_i grad F_i(x)``."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fedjax_links.analysis import _checks
from fedjax_links.analysis.linear.linear_models import (
    LinearModel,
    LossOptions,
    WeightedLoss,
    weighted_loss,
)
from fedjax_links.core import errors

_STEPS = 40
_SAFETY = 0.6  # of what Chebyshev stages could stretch over


class LongFlowError(errors.InvalidError):
    """A flow that takes more gradients than it may."""


def weighted_gradient_flow(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    weights: ArrayLike,
    *,
    time: float,
    start: LinearModel | None = None,
    num_steps: int = _STEPS,
    most_gradients: int | None = None,
    **options: Unpack[LossOptions],
) -> LinearModel:
    r"""Follows ``x' = -grad F(x)``, ``F = sum_i w_i F_i + l2 / 2 |B|^2``, for a while.

    With small steps a round of FedAvg in which somebody is active moves by ``-eta s grad F`` on
    average, under its implicit weights, and the mean of FedPBC's client models does in every round,
    under equal weights. So after T rounds they are near the flow at ``time = eta s T`` (times the
    share of rounds that are not empty, for FedAvg), converged or not, and also where there is no
    minimiser to converge to.

    Time steps grow in proportion to the time passed, as the flow slows down. Each is a
    Runge-Kutta-Chebyshev step of second order, whose number of gradients grows with the square root
    of its length.

    Args:
      features: float[E, ...], as all further arguments in `weighted_minimiser`.
      labels: as there.
      clients: int[E].
      weights: float[N].
      time: how long, at least 0.
      start: where from; zeros if absent.
      num_steps: steps in time; the error falls with their square.
      most_gradients: how many may be computed; None for any number.
      **options: ``loss``, ``num_classes`` and ``l2``, as in `weighted_minimiser`.

    Returns:
      The model at the end.

    Raises:
      ValueError: if an argument is out of range.
      LongFlowError: before anything is computed, if more gradients would be.

    References:
      Sommeijer, Shampine and Verwer, RKC: an explicit solver for parabolic PDEs, 1998.
    """
    objective = weighted_loss(features, labels, clients, weights, **options)
    shape = objective.design.shape[1], objective.num_outputs
    point = np.zeros(shape) if start is None else start.parameters
    if not 0 <= time < np.inf:
        raise errors.invalid('time', 'be finite and at least 0', time)
    steepest = objective.smoothness()
    steps = _checks.checked_int('num_steps', num_steps, minimum=1)
    growth = np.log1p(steepest * time) / steps
    lengths = np.diff(np.expm1(growth * np.arange(steps + 1)) / steepest)
    # A step of s stages is stable for lengths of about 2 (s^2 - 1) / 3 over the steepness.
    stages = np.maximum(2, np.ceil(np.sqrt(1 + 1.5 * lengths * steepest / _SAFETY)))
    if most_gradients is not None and stages.sum() > most_gradients:
        requirement = f'take at most {most_gradients:,} gradients'
        raise LongFlowError('time', requirement, f'{time:.4g}, which takes {stages.sum():,.0f}')
    for length, count in zip(lengths, stages.astype(int), strict=True):
        point = _chebyshev_step(objective, point, length, int(count))
    return objective.model(point)


def _chebyshev_step(
    objective: WeightedLoss, point: np.ndarray, length: float, stages: int
) -> np.ndarray:
    """A Runge-Kutta-Chebyshev step in time, of so many stages."""
    w0 = 1 + 2 / 13 / stages**2
    degrees = np.arange(2, stages + 1)
    firsts = degrees * special.eval_chebyu(degrees - 1, w0)  # derivatives of Chebyshev polynomials
    seconds = 2 * degrees * special.eval_gegenbauer(degrees - 2, 2, w0)
    w1 = firsts[-1] / seconds[-1]
    b = np.empty(stages + 1)
    b[2:] = seconds / firsts**2
    b[:2] = b[2]
    a = 1 - b * special.eval_chebyt(np.arange(stages + 1), w0)

    def slope(at: np.ndarray) -> np.ndarray:
        return -objective.value_and_gradient(at)[1]

    begin = slope(point)
    before, now = point, point + b[1] * w1 * length * begin
    for j in range(2, stages + 1):
        mu, nu = 2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2]
        pull = 2 * b[j] * w1 / b[j - 1] * length
        moved = (1 - mu - nu) * point + mu * now + nu * before
        moved += pull * (slope(now) - a[j - 1] * begin)
        before, now = now, moved
    return now
