r"""Computes the constants of a problem that theorems use: exactly for quadratics, else bounds."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, linear_models
from fedjax_links.analysis.theorems import _numbers, gradient_runs


class ProblemConstants(NamedTuple):
    """Holds the constants of a problem that theorems use. F is the mean of the clients' objectives.

    The clients' gradients satisfy
    ``1/N sum_i ||grad F_i - grad F||^2 <= beta^2 ||grad F||^2 + zeta^2``.

    Attributes:
      num_clients: N.
      smoothness: L, the largest Lipschitz constant of a client's gradient.
      slope: beta.
      offset: zeta.
      dissimilarity: G, the largest ``||grad F_i - grad F||`` at any point; infinite if it grows
        without bound.
      noise: sigma, the standard deviation of stochastic gradients; 0 for full gradients, infinite
        if it grows without bound.
      initial_gap: ``F(x^0) - F*``, or a bound on it.
      gradient_differences: float64[N, d], ``grad F_i - grad F`` if it is the same at every point;
        otherwise None.
      are_exact: whether the numbers are exact, not bounds.
    """

    num_clients: int
    smoothness: float
    slope: float
    offset: float
    dissimilarity: float
    noise: float
    initial_gap: float
    gradient_differences: np.ndarray | None
    are_exact: bool


def quadratic_constants(
    targets: ArrayLike,
    curvatures: ArrayLike | None = None,
    *,
    initial_point: ArrayLike | None = None,
    noise: float = 0.0,
) -> ProblemConstants:
    r"""Computes the constants of ``F_i(x) = h_i / 2 ||x - u_i||^2``.

    The minimiser is ``x* = sum h_i u_i / sum h_i``. With ``c_i = h_i (x* - u_i)`` and hbar the mean
    curvature, ``grad F_i - grad F = (h_i - hbar) (x - x*) + c_i``. Equal curvatures give beta = 0
    and ``zeta^2 = mean ||c_i||^2`` exactly. Otherwise ``||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2``
    gives ``beta^2 = 2 mean (h_i - hbar)^2 / hbar^2`` and ``zeta^2 = 2 mean ||c_i||^2``. This pair
    is valid but not the least.

    Args:
      targets: float[N, d] (or float[N]), u_i.
      curvatures: float[N], h_i, positive; 1 by default.
      initial_point: float[d], x^0; zeros by default.
      noise: sigma, at least 0.

    Returns:
      The constants.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    Example:
      >>> from fedjax_links.analysis.theorems import problem_constants
      >>> known = problem_constants.quadratic_constants([0.0, 100.0])
      >>> print(known.smoothness, known.offset, known.dissimilarity, known.initial_gap)
      1.0 50.0 50.0 1250.0
    """
    points, h, start = _numbers.quadratics(targets, curvatures, initial_point)
    mean_curvature = float(h.mean())
    minimiser = h @ points / h.sum()
    differences = h[:, None] * (minimiser - points)
    slope = 0.0  # The mean of equal curvatures may differ from them by rounding.
    if h.min() < h.max():
        spread = float(np.mean((h - mean_curvature) ** 2))
        slope = math.sqrt(2.0 * spread) / mean_curvature
    return _of_quadratics(
        differences,
        slope=slope,
        smoothness=float(h.max()),
        noise=_numbers.at_least_zero('noise', noise),
        initial_gap=0.5 * mean_curvature * float(np.sum((start - minimiser) ** 2)),
    )


def linear_model_constants(
    features: ArrayLike,
    labels: ArrayLike,
    owners: ArrayLike,
    *,
    loss: str = linear_models.SOFTMAX,
    num_classes: int | None = None,
    l2: float = 0.0,
    start: linear_models.LinearModel | None = None,
    batch_size: int = 0,
) -> ProblemConstants:
    r"""Computes the constants of linear models with a penalty ``l2 / 2 |B|^2``.

    Scores are ``B'x + b``. `fedjax_links.analysis.weighted_minimiser` names the losses. With
    ``z = (x, 1)``:

    * ``least_squares`` is quadratic, with the Hessian ``H_i = 2 / C mean z z' + penalty`` and
      ``c_i = grad F_i(w*)`` at the minimiser w* of F. So ``grad F_i - grad F`` is
      ``(H_i - Hbar) (w - w*) + c_i``, and with ``M_i = (H_i - Hbar) Hbar^+`` a valid pair is
      ``beta^2 = 2 lambda_max(mean M_i' M_i)`` and ``zeta^2 = 2 mean |c_i|^2``; equal Hessians give
      beta = 0 and ``zeta^2 = mean |c_i|^2`` exactly. L and the initial gap are exact. The variance
      of minibatches grows without bound in w, so sigma is infinite with a ``batch_size``.
    * ``softmax`` and ``logistic`` have bounds. The derivative of the loss by the scores has a norm
      of at most q: ``q = sqrt(2)`` for softmax, q = 1 for logistic. So a client's gradient without
      the penalty has a norm of at most ``r_i = q mean |z|``. The penalty cancels in
      ``|grad F_i - grad F| <= r_i + rbar``. The loss is at least 0, so the initial gap is at most
      the loss at the start. A minibatch of b examples drawn with replacement has
      ``sigma^2 <= q^2 mean |z|^2 / b``.

    L is in units of the loss per squared parameter. zeta, G and sigma are in units of the loss per
    parameter. beta has no unit.

    Args:
      features: float[E, ...], one row for each example.
      labels: int[E], or float[E] (or float[E, C]) for ``least_squares``.
      owners: int[E], the client of each example, 0 to N - 1; every client has an example.
      loss: ``'softmax'``, ``'logistic'`` or ``'least_squares'``.
      num_classes: C of ``softmax``; by default one more than the largest label.
      l2: at least 0.
      start: the model at the start; zero by default.
      batch_size: b of minibatches drawn with replacement; 0 for full gradients.

    Returns:
      The constants.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    Example:
      >>> import numpy as np
      >>> from fedjax_links.analysis.theorems import problem_constants
      >>> known = problem_constants.linear_model_constants(
      ...     np.eye(4), [0, 1, 0, 1], [0, 0, 1, 1], l2=0.1
      ... )
      >>> print(round(known.smoothness, 3), round(known.dissimilarity, 3))
      0.85 4.0
    """
    objectives = gradient_runs.client_objectives(
        features, labels, owners, loss=loss, num_classes=num_classes, l2=l2
    )
    batch = _checks.checked_int('batch_size', batch_size, minimum=0)
    point = gradient_runs.start_parameters(objectives, start)
    if loss == linear_models.LEAST_SQUARES:
        return _least_squares(objectives, point, batch)
    # q, the largest norm of the derivative of the loss by the scores.
    score_slope = 1.0 if loss == linear_models.LOGISTIC else math.sqrt(2.0)
    lengths = [np.linalg.norm(each.design, axis=1) for each in objectives]
    reaches = score_slope * np.array([rows.mean() for rows in lengths])
    distances = reaches + reaches.mean()
    largest_square = score_slope**2 * max(float(np.mean(rows**2)) for rows in lengths)
    values = [each.value_and_gradient(point)[0] for each in objectives]
    return ProblemConstants(
        num_clients=len(objectives),
        smoothness=max(each.smoothness() for each in objectives),
        slope=0.0,
        offset=float(np.sqrt(np.mean(distances**2))),
        dissimilarity=float(distances.max()),
        noise=math.sqrt(largest_square / batch) if batch else 0.0,
        initial_gap=float(np.mean(values)),
        gradient_differences=None,
        are_exact=False,
    )


def _least_squares(
    objectives: list[linear_models.WeightedLoss], start: np.ndarray, batch: int
) -> ProblemConstants:
    """Returns the constants of linear least squares; all outputs share one Hessian."""
    outputs = objectives[0].num_outputs
    hessians = []
    for each in objectives:
        gram = each.design.T @ (each.shares[:, None] * each.design)
        hessians.append(2.0 / outputs * gram + np.diag(each.penalty))
    hessians_by_client = np.array(hessians)
    mean_hessian = hessians_by_client.mean(axis=0)
    inverse = np.linalg.pinv(mean_hessian, hermitian=True)
    zero = np.zeros(start.size)
    pulls = np.array([-each.value_and_gradient(zero)[1] for each in objectives])
    minimiser = (inverse @ pulls.mean(axis=0).reshape(-1, outputs)).ravel()
    differences = np.array(
        [each.value_and_gradient(minimiser)[1] for each in objectives]
    )
    differences = differences - differences.mean(axis=0)
    hessian_differences = hessians_by_client - mean_hessian
    ratios = hessian_differences @ inverse
    spread = np.mean(np.swapaxes(ratios, 1, 2) @ ratios, axis=0)
    smoothness = float(np.linalg.eigvalsh(hessians_by_client)[:, -1].max())
    # The Hessians are equal up to rounding.
    are_equal = np.abs(hessian_differences).max() <= 1e-12 * smoothness
    largest_square = 0.0 if are_equal else float(np.linalg.eigvalsh(spread)[-1])
    displacement = (start - minimiser).reshape(-1, outputs)
    return _of_quadratics(
        differences,
        slope=math.sqrt(2.0 * largest_square),
        smoothness=smoothness,
        noise=math.inf if batch else 0.0,
        initial_gap=0.5 * float(np.sum(displacement * (mean_hessian @ displacement))),
    )


def _of_quadratics(
    differences: np.ndarray,
    *,
    slope: float,
    smoothness: float,
    noise: float,
    initial_gap: float,
) -> ProblemConstants:
    """Returns the constants of quadratics.

    Args:
      differences: float64[N, P], c_i, the clients' gradients at the minimiser.
      slope: beta. It is 0 if the Hessians are equal; then the differences are the same everywhere.
      smoothness: L.
      noise: sigma.
      initial_gap: ``F(x^0) - F*``.
    """
    are_equal = slope == 0
    # With different Hessians, ||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2 doubles the square.
    factor = 1.0 if are_equal else 2.0
    squares = np.sum(differences**2, axis=1)
    return ProblemConstants(
        num_clients=len(differences),
        smoothness=smoothness,
        slope=slope,
        offset=math.sqrt(factor * float(squares.mean())),
        dissimilarity=math.sqrt(float(squares.max())) if are_equal else math.inf,
        noise=noise,
        initial_gap=initial_gap,
        gradient_differences=differences if are_equal else None,
        are_exact=are_equal,
    )
