r"""Computes where weighted FedAvg ends on linear models under links with memory.

A round adds ``sum_i c_i Delta_i`` to the model, with ``c_i = v_i 1{i in A} / N`` for the set A of
active clients. The factor v_i is one (`fedavg_all`), ``1 / p_i`` (`fedavg_known`), or the mean
interval between client i's participations (`fedau`).
"""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, linear_limits, linear_models


def weighted_finite_steps(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    *,
    up_rate: ArrayLike,
    down_rate: ArrayLike,
    multipliers: ArrayLike,
    learning_rate: float,
    local_steps: int,
    **options: Unpack[linear_models.LossOptions],
) -> linear_models.LinearModel:
    r"""Computes the long-run mean of the model, to first order in the step.

    Links are independent two-state chains with ``lambda_i = 1 - q_i - q*_i``. Let
    ``w_i = v_i p_i / sum_j v_j p_j``, and x_w the minimiser of ``F_w = sum_i w_i F_i``. Let g_i
    and H_i be the clients' gradients and Hessians at x_w, and ``c = sum_i c_i``. The relative
    coefficient ``c_i / E[c]`` has the variance ``k_i``. Its covariances sum to
    ``G_i = k_i lambda_i / (1 - lambda_i)`` over all lags. With the mean progress
    ``epsilon = eta s E[c]``,

    ``H_w (E x - x_w) = eta (s - 1) / 2 sum_i w_i H_i g_i + epsilon sum_i G_i H_i g_i
    - 1/2 D^3 F_w [C]``, where ``H_w C + C H_w = epsilon sum_i (k_i + 2 G_i) g_i g_i^T``.

    The first term is the drift of local steps. Memory of the links adds the second term, and G
    in C. The error is of second order. The noise of minibatches is left out.

    Args:
      features: float[E, ...], as in `weighted_minimiser`.
      labels: as in `weighted_minimiser`.
      clients: int[E], as in `weighted_minimiser`.
      up_rate: q*, P(down -> up), in (0, 1], one number or float[N].
      down_rate: q, P(up -> down), in [0, 1], one number or float[N]; ``1 - q*`` for links without
        memory.
      multipliers: float[N], v_i, positive.
      learning_rate: eta, positive.
      local_steps: s, at least 1.
      **options: ``loss``, ``num_classes`` and ``l2``, as in `weighted_minimiser`.

    Returns:
      The mean model.

    Raises:
      ValueError: if an argument is out of range or there is no minimiser.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import analysis
      >>> model = analysis.weighted_finite_steps(
      ...     np.zeros((2, 1)), [0.0, 100.0], [0, 1],
      ...     up_rate=[0.05, 0.05], down_rate=[0.05, 0.35 / 3], multipliers=[2, 10 / 3],
      ...     learning_rate=0.0005, local_steps=5, loss='least_squares',
      ... )  # two clients with known probabilities 1/2 and 3/10
      >>> print(model.intercept.round(2))
      [49.83]
    """
    rise = _checks.checked_rate('up_rate', up_rate)
    fall = _checks.checked_rate('down_rate', down_rate)
    _checks.checked('up_rate', rise, rise > 0, 'be positive')
    factors = _checks.checked_weights('multipliers', multipliers)
    num_clients = factors.size
    what = f'one for each of {num_clients} clients'
    rise = _checks.checked_shape('up_rate', rise, (num_clients,), what)
    fall = _checks.checked_shape('down_rate', fall, (num_clients,), what)
    steps = _checks.checked_int('local_steps', local_steps, minimum=1)
    learning_rate = _checks.checked_positive('learning_rate', learning_rate)
    probs = rise / (rise + fall)
    correlation = 1.0 - rise - fall  # lambda
    means = factors * probs
    weights = means / means.sum()
    variances = (factors / means.sum()) ** 2 * probs * (1.0 - probs)
    covariance_sums = variances * correlation / (1.0 - correlation)
    progress = learning_rate * steps * means.mean()

    minimiser = linear_limits.weighted_minimiser(
        features, labels, clients, weights, **options
    )
    point = minimiser.model.parameters.ravel()
    objective = linear_models.weighted_loss(
        features, labels, clients, weights, **options
    )
    # The drift of local steps, plus what memory of the links adds.
    factors = learning_rate * (steps - 1) / 2 * weights + progress * covariance_sums
    slopes, pull = linear_limits.client_slopes(objective, point, factors)
    drive = np.zeros((point.size, point.size))
    for slope, variance in zip(slopes, variances + 2 * covariance_sums, strict=True):
        drive += progress * variance * np.outer(slope, slope)
    return linear_limits.mean_near_minimiser(objective, point, pull, drive)
