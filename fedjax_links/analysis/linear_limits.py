r"""Computes minimisers of linear models under client weights, and models during training."""

from collections.abc import Callable
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, optimize, special

from fedjax_links.analysis import (
    _checks,
    cohort_sizes,
    independent_links,
    linear_models,
)
from fedjax_links.core import errors

# The gradient at a minimiser has a norm below this.
_TOLERANCE = 1e-8
# At a minimiser, Newton's step changes each score by less than this.
_SCORE_TOLERANCE = 1e-6
_MAX_STEPS = 60  # Newton steps, more than finding a minimiser needs.
# If more steps than this have a small gradient but still change scores, there is no minimiser.
_MAX_DIVERGING_STEPS = 4
# Singular values below this fraction of the largest one count as zero.
_RANK = 1e-10
_EXISTS = 'overlap or `l2` be positive for a minimiser to exist'
_LBFGS = {'maxiter': 300, 'gtol': 1e-6, 'ftol': 1e-14}
# Chebyshev steps have this fraction of the longest stable length.
_SAFETY = 0.6
_MAX_GRADIENTS = 10**7  # This many gradients take ten minutes or more.
# The step of the differences that approximate a third derivative.
_PROBE = 1e-3


class NoMinimiserError(errors.InvalidError):
    """Says that a loss falls for ever, because some labels are separable."""


class LongFlowError(errors.InvalidError):
    """Says that a gradient flow would take more gradients than are allowed."""


class WeightedMinimiser(NamedTuple):
    """Holds the minimiser of a weighted loss.

    Attributes:
      model: the minimiser; if several models have the same scores, the one of least norm.
      loss: F at the minimiser, the penalty included.
      gradient_norm: norm of the gradient of F at the minimiser, below 1e-8.
    """

    model: linear_models.LinearModel
    loss: float
    gradient_norm: float


def weighted_minimiser(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    weights: ArrayLike,
    **options: Unpack[linear_models.LossOptions],
) -> WeightedMinimiser:
    r"""Minimises ``sum_i w_i F_i(B, b) + l2 / 2 |B|^2`` over linear models.

    F_i is client i's mean loss. FedAvg with small steps ends at the minimiser under FedAvg's
    implicit weights (`fedavg_weights`, `effective_weights`). The mean of FedPBC's client models
    ends at the minimiser under equal weights. This function runs L-BFGS in coordinates where the
    features are uncorrelated, and then Newton steps with the exact Hessian.

    Args:
      features: float[E, ...], flattened.
      labels: int[E], 0 to C - 1; for ``'logistic'`` 0 and 1; for ``'least_squares'`` float[E, ...].
      clients: int[E], the owner of each example.
      weights: float[N], w_i, not negative; examples of clients without weight do not count.
      **options: ``loss``: ``'softmax'`` (the default), ``'logistic'`` or ``'least_squares'``, see
        `analysis.linear_models`; ``num_classes``: C of ``'softmax'``, by default one more than the
        largest label, without effect on the others; ``l2``: weight of the penalty, which spares the
        intercept, 0 by default.

    Returns:
      The minimiser.

    Raises:
      ValueError: if an argument is out of range.
      linear_limits.NoMinimiserError: a ValueError, if there is no minimiser. If a linear model
        separates some of the labels, parameters grow to infinity unless ``l2`` is positive. If a
        class has no example, they do so in any case.
    """
    objective = linear_models.weighted_loss(
        features, labels, clients, weights, **options
    )
    objective.check_hessian_fits(options.get('num_classes'))
    basis = _whitening(objective)
    rank = basis.shape[1]
    penalty = objective.penalty[:rank]
    reduced = objective._replace(design=objective.design @ basis, penalty=penalty)
    loss = reduced.value_and_gradient
    start = np.zeros(rank * objective.num_outputs)
    coordinates = optimize.minimize(
        loss, start, jac=True, method='L-BFGS-B', options=_LBFGS
    ).x
    factor = None
    num_diverging = 0
    for _ in range(_MAX_STEPS):
        value, slope = loss(coordinates)
        if not objective.penalty.any() and reduced.separates(coordinates):
            got = 'all labels are separated by a linear model'
            raise NoMinimiserError('labels', _EXISTS, got)
        parameters = basis @ coordinates.reshape(rank, objective.num_outputs)
        norm = float(np.linalg.norm(objective.value_and_gradient(parameters)[1]))
        if norm < _TOLERANCE and factor is not None:
            # On the way to infinity the gradient vanishes too, but Newton's step does not.
            score_changes = np.abs(reduced.scores(linalg.cho_solve(factor, slope)))
            if score_changes.max() < _SCORE_TOLERANCE:
                return WeightedMinimiser(objective.model(parameters), value, norm)
            num_diverging += 1
        if num_diverging > _MAX_DIVERGING_STEPS:
            break
        try:
            factor = linalg.cho_factor(reduced.hessian(coordinates))
        except linalg.LinAlgError:
            break
        step = -linalg.cho_solve(factor, slope)
        coordinates = coordinates + _step_length(loss, coordinates, step) * step
    got = 'some labels are separated by a linear model'
    raise NoMinimiserError('labels', _EXISTS, got)


def _step_length(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]],
    point: np.ndarray,
    step: np.ndarray,
) -> float:
    """Halves a step until F falls by 1e-4 of what the slope of F predicts (Armijo's rule)."""
    value, slope = loss(point)
    fall = float(slope @ step)
    goal = value + 1e-14 * abs(value)
    length = 1.0
    while length > 1e-6:
        if loss(point + length * step)[0] <= goal + 1e-4 * length * fall:
            break
        length /= 2
    return length


def _whitening(objective: linear_models.WeightedLoss) -> np.ndarray:
    """Returns a basis float64[D, r] in which features are uncorrelated and of variance 1.

    Features that never vary are left out. With a penalty the basis is the identity.
    """
    if objective.penalty.any():
        return np.eye(objective.design.shape[1])
    weights = objective.shares / objective.shares.sum()
    rows = np.sqrt(weights)[:, None] * objective.design
    triangle = np.linalg.qr(rows, mode='r')
    _, sizes, directions = np.linalg.svd(triangle, full_matrices=False)
    rank = int(np.sum(sizes > _RANK * sizes[0]))
    return directions[:rank].T / sizes[:rank]


def weighted_gradient_flow(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    weights: ArrayLike,
    *,
    time: float,
    start: linear_models.LinearModel | None = None,
    num_steps: int = 40,
    max_gradients: int | None = None,
    **options: Unpack[linear_models.LossOptions],
) -> linear_models.LinearModel:
    r"""Predicts a linear model during training by a gradient flow.

    The flow is ``x' = -grad F(x)`` with ``F = sum_i w_i F_i + l2 / 2 |B|^2``.

    With small steps, a round of FedAvg with active clients moves the model by
    ``-eta s grad F`` on average, under FedAvg's implicit weights. The mean of FedPBC's client
    models moves in this way in each round, under equal weights. So after T rounds both are
    near the flow at ``time = eta s T``. For FedAvg, T counts rounds with active clients. This
    also holds before convergence, and without a minimiser.

    Time steps grow in proportion to the time passed, as the flow slows down. Each is a
    Runge-Kutta-Chebyshev step of second order. A step of twice the length takes ``sqrt 2``
    times as many gradients.

    Args:
      features: float[E, ...], as in `weighted_minimiser`.
      labels: as in `weighted_minimiser`.
      clients: int[E], as in `weighted_minimiser`.
      weights: float[N], as in `weighted_minimiser`.
      time: duration of the flow, at least 0.
      start: the model at time 0; zeros if absent.
      num_steps: steps in time, at least 1. The error falls as 1 over its square.
      max_gradients: most gradients that may be computed, at least 0; None for 10 million.
      **options: ``loss``, ``num_classes`` and ``l2``, as in `weighted_minimiser`.

    Returns:
      The model at the end.

    Raises:
      ValueError: if an argument is out of range.
      LongFlowError: if the flow would take more gradients; raised before any is computed.

    References:
      Sommeijer, Shampine and Verwer, RKC: an explicit solver for parabolic PDEs, 1998.
    """
    objective = linear_models.weighted_loss(
        features, labels, clients, weights, **options
    )
    if start is None:
        point = np.zeros(objective.penalty.size * objective.num_outputs)
    else:
        point = objective.checked_parameters('start', start)
    time = _checks.checked_at_least_zero('time', time)
    if max_gradients is not None:
        most = _checks.checked_number('max_gradients', max_gradients)
        _checks.require(most >= 0, 'max_gradients', 'be at least 0', max_gradients)
    smoothness = objective.smoothness()
    # A step has at least two gradients.
    steps = _checks.checked_int(
        'num_steps', num_steps, minimum=1, maximum=_MAX_GRADIENTS // 2
    )
    growth = np.log1p(smoothness * time) / steps
    times = np.expm1(growth * np.arange(steps + 1)) / smoothness
    lengths = np.diff(times)
    # A step of s stages is stable for lengths of about 2 (s^2 - 1) / 3 over the smoothness.
    stages = np.ceil(np.sqrt(1 + 1.5 * lengths * smoothness / _SAFETY))
    stages = np.maximum(2, stages)
    limit = _MAX_GRADIENTS if max_gradients is None else max_gradients
    if not stages.sum() <= limit:  # For times near the largest float, it is infinite.
        requirement = f'take at most {limit:,} gradients'
        got = f'{time:.4g}, which takes {stages.sum():,.0f}'
        raise LongFlowError('time', requirement, got)
    for length, num_stages in zip(lengths, stages.astype(int), strict=True):
        point = _chebyshev_step(objective, point, length, int(num_stages))
    return objective.model(point)


def _chebyshev_step(
    objective: linear_models.WeightedLoss, point: np.ndarray, length: float, stages: int
) -> np.ndarray:
    """Takes a Runge-Kutta-Chebyshev step in time, of `stages` stages."""
    w0 = 1 + 2 / 13 / stages**2
    degrees = np.arange(2, stages + 1)
    # First and second derivatives of the Chebyshev polynomials.
    firsts = degrees * special.eval_chebyu(degrees - 1, w0)
    seconds = 2 * degrees * special.eval_gegenbauer(degrees - 2, 2, w0)
    w1 = firsts[-1] / seconds[-1]
    b = np.pad(seconds / firsts**2, (2, 0), mode='edge')
    a = 1 - b * special.eval_chebyt(np.arange(stages + 1), w0)

    def slope(at: np.ndarray) -> np.ndarray:
        return -objective.value_and_gradient(at)[1]

    start_slope = slope(point)
    before = point
    now = point + b[1] * w1 * length * start_slope
    for j in range(2, stages + 1):
        mu = 2 * b[j] * w0 / b[j - 1]
        nu = -b[j] / b[j - 2]
        pull = 2 * b[j] * w1 / b[j - 1] * length
        moved = (1 - mu - nu) * point + mu * now + nu * before
        moved += pull * (slope(now) - a[j - 1] * start_slope)
        before = now
        now = moved
    return now


def fedavg_finite_steps(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    probs: ArrayLike,
    *,
    learning_rate: float,
    local_steps: int,
    **options: Unpack[linear_models.LossOptions],
) -> linear_models.LinearModel:
    r"""Computes the long-run mean of FedAvg's model, to first order in the step.

    Links are independent, with the same probabilities in each round. Clients take s local
    steps of size eta on full local data. Let x_w be the minimiser of ``F_w = sum_i w_i F_i``
    under `fedavg_weights`, and g_i and H_i the clients' gradients and Hessians at x_w. Then

    ``H_w (E x - x_w) = eta (s - 1) / 2 sum_i w_i H_i g_i - 1/2 D^3 F_w [C]``.

    The first term is the drift of local steps. The second is the effect of the third
    derivative on the model's covariance C, which is due to random sets A of active clients:
    ``H_w C + C H_w = eta s Cov(mean_A g)``, over non-empty A. The error is of second order.
    Minibatches would add to the covariance; this formula leaves them out.

    Args:
      features: float[E, ...], as in `weighted_minimiser`.
      labels: as in `weighted_minimiser`.
      clients: int[E], as in `weighted_minimiser`.
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      learning_rate: eta, positive.
      local_steps: s, at least 1.
      **options: ``loss``, ``num_classes`` and ``l2``, as in `weighted_minimiser`.

    Returns:
      The mean model.

    Raises:
      ValueError: if an argument is out of range or there is no minimiser.
    """
    weights = independent_links.fedavg_weights(probs)
    link_probs = np.asarray(probs, np.float64)
    steps = _checks.checked_int('local_steps', local_steps, minimum=1)
    learning_rate = _checks.checked_positive('learning_rate', learning_rate)
    minimiser = weighted_minimiser(features, labels, clients, weights, **options)
    point = minimiser.model.parameters.ravel()

    objective = linear_models.weighted_loss(
        features, labels, clients, weights, **options
    )
    # The drift of local steps.
    factors = learning_rate * (steps - 1) / 2 * weights
    slopes, pull = client_slopes(objective, point, factors)

    non_empty = cohort_sizes.non_empty_probability(link_probs)
    covariance = cohort_sizes.mean_covariance(link_probs, slopes) / non_empty
    drive = learning_rate * steps * covariance
    return mean_near_minimiser(objective, point, pull, drive)


def client_slopes(
    objective: linear_models.WeightedLoss, point: np.ndarray, factors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the clients' gradients g_i, and ``sum_i f_i H_i g_i`` with the Hessians H_i.

    Args:
      objective: the weighted loss.
      point: float64[size], parameters.
      factors: float64[N], f_i.

    Returns:
      float64[N, size], zero for clients without weight; and float64[size].
    """
    slopes = np.zeros((factors.size, point.size))
    pull = np.zeros(point.size)
    for i in np.unique(objective.owners):
        local = objective.of_client(i)
        slopes[i] = local.value_and_gradient(point)[1]
        pull += factors[i] * local.hessian(point) @ slopes[i]
    return slopes, pull


def mean_near_minimiser(
    objective: linear_models.WeightedLoss,
    minimiser: np.ndarray,
    pull: np.ndarray,
    drive: np.ndarray,
) -> linear_models.LinearModel:
    """Computes the mean of a model that noise and a small pull keep off a minimiser.

    The mean solves ``H (E x - x*) = pull - 1/2 D^3 F [C]`` with ``H C + C H = drive``.

    Args:
      objective: F.
      minimiser: float64[size], x*.
      pull: float64[size], what a round adds on average to a gradient step on F, divided by
        the round's step size.
      drive: float64[size, size], the covariance that a round adds, divided by its step size.
    """
    # The covariance C, by its principal axes.
    curvatures, basis = linalg.eigh(objective.hessian(minimiser))
    # Features that never vary have no curvature and no gradient.
    is_curved = curvatures > 1e-10 * curvatures[-1]
    curvatures = curvatures[is_curved]
    basis = basis[:, is_curved]
    driven = basis.T @ drive @ basis
    sizes, axes = linalg.eigh(driven / np.add.outer(curvatures, curvatures))

    # The third derivative along each axis, by differences of gradients.
    total_pull = pull.copy()
    middle = objective.value_and_gradient(minimiser)[1]
    for size, axis in zip(sizes, (basis @ axes).T, strict=True):
        if size > 1e-12 * sizes[-1]:
            ahead = objective.value_and_gradient(minimiser + _PROBE * axis)[1]
            behind = objective.value_and_gradient(minimiser - _PROBE * axis)[1]
            total_pull -= 0.5 * size / _PROBE**2 * (ahead + behind - 2 * middle)
    shift = basis @ (basis.T @ total_pull / curvatures)
    return objective.model(minimiser + shift)
