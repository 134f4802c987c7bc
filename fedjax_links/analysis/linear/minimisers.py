"""Where gradient methods on linear models end: the minimiser of the clients' weighted losses."""

from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, optimize

from fedjax_links.analysis.linear.linear_models import (
    LinearModel,
    LossOptions,
    WeightedLoss,
    weighted_loss,
)

_TOLERANCE = 1e-8  # of the gradient's norm
_STILL = 1e-6  # what Newton's step may still add to a score
_MOST_STEPS = 60
_MOST_BEYOND = 4  # steps with a gradient below the tolerance that still move the scores
_RANK = 1e-10  # singular values below this part of the largest one are zero


class NoMinimiserError(ValueError):
    """A loss falls for ever: some labels are separable."""


class WeightedMinimiser(NamedTuple):
    """The minimiser of a weighted loss.

    Attributes:
      model: the minimiser; where several have the same scores, the smallest of them.
      loss: F at the minimiser, the penalty included.
      gradient_norm: of F there, below 1e-8.
    """

    model: LinearModel
    loss: float
    gradient_norm: float


def weighted_minimiser(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    weights: ArrayLike,
    **options: Unpack[LossOptions],
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
        `analysis.linear.linear_models`; ``num_classes``: C, by default as many as there are labels;
        ``l2``: weight of the penalty, which spares the intercept, 0 by default.

    Returns:
      The minimiser.

    Raises:
      ValueError: if an argument is out of range.
      minimisers.NoMinimiserError: a ValueError, if there is no minimiser: labels that a linear
        model separates, some or all, pull it to infinity unless ``l2`` is positive, and a class
        without an example does in any case.
    """
    objective = weighted_loss(features, labels, clients, weights, **options)
    basis, plain = _whitening(objective), not objective.penalty.any()
    penalty = objective.penalty[: basis.shape[1]]
    reduced = objective._replace(design=objective.design @ basis, penalty=penalty)
    coordinates = _run_lbfgs(reduced)
    factor, beyond = None, 0
    for _ in range(_MOST_STEPS):
        value, slope = reduced.value_and_gradient(coordinates)
        if plain and reduced.separates(coordinates):
            raise _no_minimiser('all labels are')
        norm = float(np.linalg.norm(objective.value_and_gradient(basis @ coordinates)[1]))
        if norm < _TOLERANCE and factor is not None:
            # On the way to infinity the gradient vanishes, too, but not what Newton's step does.
            if np.abs(reduced.scores(_solve(factor, slope))).max() < _STILL:
                return WeightedMinimiser(objective.model(basis @ coordinates), value, norm)
            beyond += 1
        if beyond > _MOST_BEYOND:
            break
        try:
            factor = linalg.cho_factor(reduced.hessian(coordinates))
        except linalg.LinAlgError:
            break
        step = -_solve(factor, slope)
        fall = float(np.sum(slope * step))
        coordinates = coordinates + _step_length(reduced, coordinates, value, fall, step) * step
    raise _no_minimiser('some labels are')


def _no_minimiser(which: str) -> NoMinimiserError:
    return NoMinimiserError(
        f'`labels` must overlap or `l2` be positive for a minimiser to exist, got {which} '
        'separated by a linear model.'
    )


def _whitening(objective: WeightedLoss) -> np.ndarray:
    """float64[D, r]: coordinates in which the features that vary are uncorrelated, of size 1."""
    if objective.penalty.any():
        return np.eye(objective.design.shape[1])
    rows = np.sqrt(objective.shares / objective.shares.sum())[:, None] * objective.design
    triangle = np.linalg.qr(rows, mode='r')
    _, sizes, directions = np.linalg.svd(triangle, full_matrices=False)
    rank = int(np.sum(sizes > _RANK * sizes[0]))
    return directions[:rank].T / sizes[:rank]


def _run_lbfgs(objective: WeightedLoss) -> np.ndarray:
    """Near the minimiser, float64[r, C], or on the way where there is none."""
    shape = (objective.design.shape[1], objective.num_outputs)

    def flat(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective.value_and_gradient(vector.reshape(shape))
        return value, gradient.ravel()

    options = {'maxiter': 300, 'gtol': 1e-6, 'ftol': 1e-14}
    start = np.zeros(shape).ravel()
    end = optimize.minimize(flat, start, jac=True, method='L-BFGS-B', options=options)
    return end.x.reshape(shape)


def _solve(factor: tuple[np.ndarray, bool], slope: np.ndarray) -> np.ndarray:
    """The inverse of the Hessian, given its Cholesky factor, times a gradient float64[r, C]."""
    return linalg.cho_solve(factor, slope.ravel()).reshape(slope.shape)


def _step_length(
    objective: WeightedLoss, coordinates: np.ndarray, value: float, fall: float, step: np.ndarray
) -> float:
    """The longest of 1, 1/2, 1/4, ... by which F falls as it should, or is as low as floats say."""
    length = 1.0
    while length > 1e-6:
        reached = objective.value_and_gradient(coordinates + length * step)[0]
        if reached <= value + 1e-4 * length * fall + 1e-14 * abs(value):
            break
        length /= 2
    return length
