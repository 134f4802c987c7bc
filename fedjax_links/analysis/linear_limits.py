r"""Where gradient methods on linear models end, how far they get, and by how much steps miss it."""

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

_TOLERANCE = 1e-8  # of the gradient's norm
_STILL = 1e-6  # what Newton's step may still add to a score
_MOST_STEPS = 60
_MOST_BEYOND = 4  # steps with a gradient below the tolerance that still move the scores
_RANK = 1e-10  # singular values below this part of the largest one are zero
_EXISTS = 'overlap or `l2` be positive for a minimiser to exist'
_LBFGS = {'maxiter': 300, 'gtol': 1e-6, 'ftol': 1e-14}
_SAFETY = 0.6  # of what Chebyshev stages could stretch over
_PROBE = 1e-3  # of the differences that stand for a third derivative


class NoMinimiserError(errors.InvalidError):
    """A loss falls for ever: some labels are separable."""


class LongFlowError(errors.InvalidError):
    """A flow that takes more gradients than it may."""


class WeightedMinimiser(NamedTuple):
    """The minimiser of a weighted loss.

    Attributes:
      model: the minimiser; where several have the same scores, the smallest of them.
      loss: F at the minimiser, the penalty included.
      gradient_norm: of F there, below 1e-8.
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

    F_i is client i's mean loss. FedAvg with small steps ends at the minimiser under its implicit
    weights (`fedavg_weights`, `effective_weights`), the mean of FedPBC's client models at the one
    under equal weights. L-BFGS in coordinates where the features are uncorrelated, then Newton
    steps with the exact Hessian.

    Args:
      features: float[E, ...], flattened.
      labels: int[E], 0 to C - 1; for ``'logistic'`` 0 and 1; for ``'least_squares'`` float[E, ...].
      clients: int[E], the owner of each example.
      weights: float[N], w_i, not negative; examples of clients without weight do not count.
      **options: ``loss``: ``'softmax'`` (the default), ``'logistic'`` or ``'least_squares'``, see
        `analysis.linear_models`; ``num_classes``: C, by default as many as there are labels;
        ``l2``: weight of the penalty, which spares the intercept, 0 by default.

    Returns:
      The minimiser.

    Raises:
      ValueError: if an argument is out of range.
      linear_limits.NoMinimiserError: a ValueError, if there is no minimiser: labels that a linear
        model separates, some or all, pull it to infinity unless ``l2`` is positive, and a class
        without an example does in any case.
    """
    objective = linear_models.weighted_loss(
        features, labels, clients, weights, **options
    )
    basis, plain = _whitening(objective), not objective.penalty.any()
    rank, outputs = basis.shape[1], objective.num_outputs
    penalty = objective.penalty[:rank]
    reduced = objective._replace(design=objective.design @ basis, penalty=penalty)
    loss, start = reduced.value_and_gradient, np.zeros(rank * outputs)
    coordinates = optimize.minimize(
        loss, start, jac=True, method='L-BFGS-B', options=_LBFGS
    ).x
    factor, beyond = None, 0
    for _ in range(_MOST_STEPS):
        value, slope = loss(coordinates)
        if plain and reduced.separates(coordinates):
            raise NoMinimiserError(
                'labels', _EXISTS, 'all labels are separated by a linear model'
            )
        found = basis @ coordinates.reshape(rank, outputs)
        norm = float(np.linalg.norm(objective.value_and_gradient(found)[1]))
        if norm < _TOLERANCE and factor is not None:
            # On the way to infinity the gradient vanishes, too, but not what Newton's step does.
            if np.abs(reduced.scores(linalg.cho_solve(factor, slope))).max() < _STILL:
                return WeightedMinimiser(objective.model(found), value, norm)
            beyond += 1
        if beyond > _MOST_BEYOND:
            break
        try:
            factor = linalg.cho_factor(reduced.hessian(coordinates))
        except linalg.LinAlgError:
            break
        step = -linalg.cho_solve(factor, slope)
        # The longest part by which F falls as it should, or is as low as floats say.
        length, fall, goal = 1.0, float(slope @ step), value + 1e-14 * abs(value)
        while (
            length > 1e-6
            and loss(coordinates + length * step)[0] > goal + 1e-4 * length * fall
        ):
            length /= 2
        coordinates = coordinates + length * step
    raise NoMinimiserError(
        'labels', _EXISTS, 'some labels are separated by a linear model'
    )


def _whitening(objective: linear_models.WeightedLoss) -> np.ndarray:
    """float64[D, r]: coordinates in which the features that vary are uncorrelated, of size 1."""
    if objective.penalty.any():
        return np.eye(objective.design.shape[1])
    rows = (
        np.sqrt(objective.shares / objective.shares.sum())[:, None] * objective.design
    )
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
    most_gradients: int | None = None,
    **options: Unpack[linear_models.LossOptions],
) -> linear_models.LinearModel:
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
    objective = linear_models.weighted_loss(
        features, labels, clients, weights, **options
    )
    at_zero = np.zeros(objective.penalty.size * objective.num_outputs)
    point = at_zero if start is None else start.parameters.ravel()
    _checks.require(0 <= time < np.inf, 'time', 'be finite and at least 0', time)
    steepest = objective.smoothness()
    steps = _checks.checked_int('num_steps', num_steps, minimum=1)
    growth = np.log1p(steepest * time) / steps
    lengths = np.diff(np.expm1(growth * np.arange(steps + 1)) / steepest)
    # A step of s stages is stable for lengths of about 2 (s^2 - 1) / 3 over the steepness.
    stages = np.maximum(2, np.ceil(np.sqrt(1 + 1.5 * lengths * steepest / _SAFETY)))
    if most_gradients is not None and stages.sum() > most_gradients:
        requirement = f'take at most {most_gradients:,} gradients'
        raise LongFlowError(
            'time', requirement, f'{time:.4g}, which takes {stages.sum():,.0f}'
        )
    for length, count in zip(lengths, stages.astype(int), strict=True):
        point = _chebyshev_step(objective, point, length, int(count))
    return objective.model(point)


def _chebyshev_step(
    objective: linear_models.WeightedLoss, point: np.ndarray, length: float, stages: int
) -> np.ndarray:
    """A Runge-Kutta-Chebyshev step in time, of so many stages."""
    w0 = 1 + 2 / 13 / stages**2
    degrees = np.arange(2, stages + 1)
    firsts = degrees * special.eval_chebyu(
        degrees - 1, w0
    )  # derivatives of Chebyshev polynomials
    seconds = 2 * degrees * special.eval_gegenbauer(degrees - 2, 2, w0)
    w1 = firsts[-1] / seconds[-1]
    b = np.pad(seconds / firsts**2, (2, 0), mode='edge')
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
    r"""Long-run mean of FedAvg's model, to first order in the step.

    Independent links that are the same in every round, s local steps of size eta on full local
    data. With x_w the minimiser of ``F_w = sum_i w_i F_i`` under `fedavg_weights`, and g_i and H_i
    the clients' gradients and Hessians there,

    ``H_w (E x - x_w) = eta (s - 1) / 2 sum_i w_i H_i g_i - 1/2 D^3 F_w [C]``.

    The first term is the drift of local steps. The second is what the third derivative makes of the
    spread C that the draw of the cohorts leaves, ``H_w C + C H_w = eta s Cov(mean_A g)``, given
    that A is not empty. What is left out is of second order; minibatches add to the covariance what
    is not counted here.

    Args:
      features: float[E, ...], as all further arguments in `weighted_minimiser`.
      labels: as there.
      clients: int[E].
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      learning_rate: eta, positive.
      local_steps: s, at least 1.
      **options: ``loss``, ``num_classes`` and ``l2``, as in `weighted_minimiser`.

    Returns:
      The mean model.

    Raises:
      ValueError: if an argument is out of range or there is no minimiser.
    """
    weights, chances = (
        independent_links.fedavg_weights(probs),
        np.asarray(probs, np.float64),
    )
    steps = _checks.checked_int('local_steps', local_steps, minimum=1)
    _checks.require(
        0 < learning_rate < np.inf, 'learning_rate', 'be positive', learning_rate
    )
    given = features, labels, clients
    point = weighted_minimiser(*given, weights, **options).model.parameters.ravel()

    slopes, pull = np.zeros((weights.size, point.size)), np.zeros(point.size)
    for i in np.flatnonzero(weights):
        one = linear_models.weighted_loss(*given, np.eye(weights.size)[i], **options)
        slopes[i] = one.value_and_gradient(point)[1]
        pull += (
            learning_rate
            * (steps - 1)
            / 2
            * weights[i]
            * one.hessian(point)
            @ slopes[i]
        )

    whole = linear_models.weighted_loss(*given, weights, **options)
    some = cohort_sizes.non_empty_probability(chances)
    spread = cohort_sizes.mean_covariance(chances, slopes) / some
    rates, basis = linalg.eigh(whole.hessian(point))
    kept = (
        rates > 1e-10 * rates[-1]
    )  # features that never vary have no curvature, and no gradient
    rates, basis = rates[kept], basis[:, kept]
    turned = learning_rate * steps * basis.T @ spread @ basis
    sizes, axes = linalg.eigh(turned / np.add.outer(rates, rates))
    middle = whole.value_and_gradient(point)[1]
    for size, axis in zip(sizes, (basis @ axes).T, strict=True):
        if size > 1e-12 * sizes[-1]:
            ends = [
                whole.value_and_gradient(point + h * axis)[1] for h in (_PROBE, -_PROBE)
            ]
            pull -= 0.5 * size / _PROBE**2 * (sum(ends) - 2 * middle)
    return whole.model(point + basis @ (basis.T @ pull / rates))
