r"""Runs of FedPBC, FedAvg and amplified FedAvg on quadratics along given links, in float64."""

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks
from fedjax_links.analysis.theorems import _numbers, regularity


def fedpbc_gradient_squares(
    masks: ArrayLike,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    initial_point: ArrayLike | None = None,
) -> np.ndarray:
    r"""Runs FedPBC with full gradients on ``F_i(x) = 1/2 ||x - u_i||^2``.

    Args:
      masks: bool[T, N], whose uploads arrive.
      targets: float[N, d], u_i.
      learning_rate: eta in (0, 2).
      local_steps: s, at least 1.
      initial_point: float[d], x^0; zeros by default.

    Returns:
      float64[T], ``||grad F(xbar^t)||^2`` at the mean client model for t = 0 to T - 1. It is the
      same for any masks, because mixing keeps the mean.

    Example:
      >>> from fedjax_links.analysis.theorems import quadratic_runs
      >>> squares = quadratic_runs.fedpbc_gradient_squares(
      ...     [[1, 0], [1, 1]], [[0.0], [4.0]], 0.5, 1
      ... )
      >>> print(squares)
      [4. 1.]

    References:
      Xiang et al., CDC 2023, Algorithm 2.
    """
    active, points, factor, start = _checked(
        masks, targets, learning_rate, local_steps, initial_point
    )
    centre = points.mean(axis=0)
    clients = np.tile(start, (len(points), 1))
    squares = np.zeros(len(active))
    for t, uploads in enumerate(active):
        squares[t] = np.sum((clients.mean(axis=0) - centre) ** 2)
        clients = factor * clients + (1.0 - factor) * points
        if uploads.any():
            clients[uploads] = clients[uploads].mean(axis=0)
    return squares


def amplified_fedavg_gradient_squares(
    masks: ArrayLike,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    period: int = 1,
    amplification: float = 1.0,
    initial_point: ArrayLike | None = None,
) -> np.ndarray:
    r"""Runs amplified FedAvg with full gradients on ``F_i(x) = 1/2 ||x - u_i||^2``.

    Args:
      masks: bool[T, N], who takes part. An empty round leaves the model as it is.
      targets: float[N, d], u_i.
      learning_rate: gamma in (0, 2).
      local_steps: I, at least 1.
      period: P, at least 1; with 1 and no amplification this is FedAvg.
      amplification: eta, positive.
      initial_point: float[d], x_0; zeros by default.

    Returns:
      float64[T], ``||grad f(x_t)||^2`` at the server model for t = 0 to T - 1. Starts of blocks
      are at 0, P, 2 P, and so on.

    Example:
      >>> from fedjax_links.analysis.theorems import quadratic_runs
      >>> squares = quadratic_runs.amplified_fedavg_gradient_squares(
      ...     [[1, 0], [0, 1], [1, 1]], [[0.0], [4.0]], 0.5, 1, period=2, amplification=2.0
      ... )
      >>> print(squares)
      [4. 4. 4.]

    References:
      Wang and Ji, NeurIPS 2022, Algorithm 1.
    """
    active, points, factor, start = _checked(
        masks, targets, learning_rate, local_steps, initial_point
    )
    size = _checks.checked_int('period', period, minimum=1)
    eta = _numbers.positive('amplification', amplification)
    weights = regularity.participation_weights(active)
    centre = points.mean(axis=0)
    model = np.array(start)
    block_start = model
    squares = np.zeros(len(active))
    for t, shares in enumerate(weights):
        if t % size == 0:
            block_start = model
        squares[t] = np.sum((model - centre) ** 2)
        model = model + (1.0 - factor) * (shares @ points - shares.sum() * model)
        if (t + 1) % size == 0:
            model = block_start + eta * (model - block_start)
    return squares


def _checked(
    masks: ArrayLike,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    initial_point: ArrayLike | None,
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Returns masks, targets [N, d], what local steps leave of a distance, and the start."""
    active = _checks.checked_masks('masks', masks, ndim=2)
    points = _checks.checked_targets('targets', targets, active.shape[1])
    points = points.reshape(len(points), -1)
    in_range = 0.0 < learning_rate < 2.0
    _checks.require(in_range, 'learning_rate', 'lie in (0, 2)', learning_rate)
    factor = (1.0 - learning_rate) ** _numbers.steps('local_steps', local_steps)
    start = np.zeros(points.shape[1]) if initial_point is None else initial_point
    start = _checks.checked_vector('initial_point', start)
    fits = f'have {points.shape[1]} entries'
    _checks.require(start.size == points.shape[1], 'initial_point', fits, start.size)
    return active, points, factor, start
