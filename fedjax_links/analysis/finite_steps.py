"""Where FedAvg really hovers on linear models: the terms of first order in the step."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from fedjax_links.analysis import _checks, cohort_sizes, independent_links, second_moments
from fedjax_links.analysis.linear.linear_models import LinearModel, LossOptions, weighted_loss
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
    **options: Unpack[LossOptions],
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
      **options: ``loss``, ``num_classes`` and ``l2``, as in `weighted_minimiser`.

    Returns:
      The mean model.

    Raises:
      ValueError: if an argument is out of range or there is no minimiser.
    """
    weights = independent_links.fedavg_weights(probs)
    chances = np.asarray(probs, np.float64)
    steps = _checks.checked_int('local_steps', local_steps, minimum=1)
    if not 0 < learning_rate < np.inf:
        raise errors.invalid('learning_rate', 'be positive', learning_rate)
    given = features, labels, clients
    model = weighted_minimiser(*given, weights, **options).model
    point, whole = model.parameters, weighted_loss(*given, weights, **options)

    slopes = np.zeros((weights.size, *point.shape))
    pull = np.zeros(point.shape)
    for i in np.flatnonzero(weights):
        one = weighted_loss(*given, np.eye(weights.size)[i], **options)
        slopes[i] = one.value_and_gradient(point)[1]
        drift = learning_rate * (steps - 1) / 2
        pull += drift * weights[i] * (one.hessian(point) @ slopes[i].ravel()).reshape(point.shape)

    some = cohort_sizes.non_empty_probability(chances)
    spread = second_moments.mean_covariance(chances, slopes.reshape(weights.size, -1)) / some
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
