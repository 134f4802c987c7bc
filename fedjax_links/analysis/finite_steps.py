"""Where FedAvg really hovers on linear models: the terms of first order in the step."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from fedjax_links.analysis import _checks, independent_links, second_moments
from fedjax_links.analysis.linear.linear_models import (
    SOFTMAX,
    LinearModel,
    WeightedLoss,
    weighted_loss,
)
from fedjax_links.analysis.linear.minimisers import weighted_minimiser
from fedjax_links.core import errors

_PROBE = 1e-3


def fedavg_finite_steps(
    features: ArrayLike,
    labels: ArrayLike,
    clients: ArrayLike,
    probs: ArrayLike,
    *,
    learning_rate: float,
    local_steps: int,
    loss: str = SOFTMAX,
    num_classes: int | None = None,
    l2: float = 0.0,
) -> LinearModel:
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
      loss: as in `weighted_minimiser`.
      num_classes: C.
      l2: weight of the penalty.

    Returns:
      The mean model.

    Raises:
      ValueError: if an argument is out of range or there is no minimiser.
    """
    weights = independent_links.fedavg_weights(probs)
    given = _checks.checked_probs('probs', probs)
    steps = _checks.checked_int('local_steps', local_steps, minimum=1)
    if not 0 < learning_rate < np.inf:
        raise errors.invalid('learning_rate', 'be positive', learning_rate)
    if loss == SOFTMAX and num_classes is None:
        num_classes = int(np.max(np.asarray(labels))) + 1
    options: dict[str, Any] = {'loss': loss, 'num_classes': num_classes, 'l2': l2}

    def under(shares: np.ndarray) -> WeightedLoss:
        return weighted_loss(features, labels, clients, shares, **options)

    model = weighted_minimiser(features, labels, clients, weights, **options).model
    point = np.concatenate([model.coefficients, model.intercept[None]])
    whole = under(weights)

    slopes = np.zeros((weights.size, *point.shape))
    pull = np.zeros(point.shape)
    for i in np.flatnonzero(weights):
        one = under(np.eye(weights.size)[i])
        slopes[i] = one.value_and_gradient(point)[1]
        drift = learning_rate * (steps - 1) / 2
        pull += drift * weights[i] * one.curved(point, slopes[i])

    some = independent_links.non_empty_probability(given)
    spread = second_moments.mean_covariance(given, slopes.reshape(weights.size, -1)) / some
    rates, basis = linalg.eigh(whole.hessian(point))
    kept = rates > 1e-10 * rates[-1]  # features that never vary have no curvature, and no gradient
    rates, basis = rates[kept], basis[:, kept]
    turned = learning_rate * steps * basis.T @ spread @ basis
    sizes, axes = linalg.eigh(turned / (rates[:, None] + rates[None]))
    for size, axis in zip(sizes, (basis @ axes).T, strict=True):
        if size > 1e-12 * sizes[-1]:
            probe = _PROBE * axis.reshape(point.shape)
            ends = [whole.value_and_gradient(point + p)[1] for p in (probe, -probe)]
            bend = ends[0] + ends[1] - 2 * whole.value_and_gradient(point)[1]
            pull -= 0.5 * size / _PROBE**2 * bend
    shift = basis @ ((basis.T @ pull.ravel()) / rates)
    return whole.model(point + shift.reshape(point.shape))
