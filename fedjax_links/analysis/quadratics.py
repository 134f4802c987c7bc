"""Limits of the mean of FedPBC on equal-curvature quadratics under independent links."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from fedjax_links.analysis import _checks, independent_links
from fedjax_links.core import errors


class FedpbcFixedPoint(NamedTuple):
    """Limits of FedPBC's expected models; the last axis is absent for targets of shape [N].

    Attributes:
      clients: float64[N, d], limit of the expected client models.
      client_mean: float64[d], their mean, which is the minimiser x* itself.
      server: float64[d], limit of the expected server model.
    """

    clients: np.ndarray
    client_mean: np.ndarray
    server: np.ndarray


def contraction(learning_rate: float, local_steps: int) -> float:
    """Factor ``a = (1 - eta)^s`` of `local_steps` gradient steps on a unit-curvature quadratic."""
    if not 0.0 < learning_rate < 2.0:
        raise errors.invalid('learning_rate', 'lie in (0, 2)', learning_rate)
    return (1.0 - learning_rate) ** _checks.checked_int('local_steps', local_steps, minimum=1)


def fedpbc_fixed_point(
    probs: ArrayLike, targets: ArrayLike, learning_rate: float, local_steps: int
) -> FedpbcFixedPoint:
    r"""Limits of FedPBC's expected models on ``F_i(x) = 0.5 ||x - u_i||^2``, independent links.

    With ``a = (1 - eta)^s`` the stacked client models (rows) follow ``X' = W (a X + (1 - a) U)``,
    hence ``E[X] -> (1 - a) (I - a M)^{-1} M U`` with ``M = E[W]``. W is doubly stochastic, so the
    mean of the client models tends to the mean of the targets whatever the links. The server holds
    the mean over A of the locally trained ``z_i = a x_i + (1 - a) u_i`` and keeps its model when A
    is empty. A round's links are independent of the models that enter it, so with ``P_0`` the
    probability of an empty round
    ``E[x'] = P_0 E[x] + (1 - P_0) sum_i w_i E[z_i]``; the limit is ``sum_i w_i E[z_i]`` with
    `fedavg_weights`, independent of ``P_0``.

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      targets: float[N, d] or float[N], the clients' minimisers u_i.
      learning_rate: local step size eta in (0, 2), where the local steps contract.
      local_steps: number s of full-gradient local steps, at least 1.

    Returns:
      The limits for the clients, their mean, and the server.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    Example:
      >>> from fedjax_links import analysis
      >>> limit = analysis.fedpbc_fixed_point([0.5, 0.3], [0.0, 100.0], 0.02, 5)
      >>> print(limit.clients.round(1), limit.client_mean.round(1), limit.server.round(1))
      [32.4 67.6] 50.0 43.6

    References:
      Xiang et al., CDC 2023, Algorithm 2 and Section IV (the recursion for the client models).
    """
    weights = independent_links.fedavg_weights(probs)
    targets = _checks.checked_targets('targets', targets, weights.size)
    factor = contraction(learning_rate, local_steps)
    mixing = independent_links.expected_mixing_matrix(probs)
    centre = targets.mean(axis=0)
    # Solving for the offsets from x* keeps the consensus direction, where I - a M is least
    # well conditioned, out of the rounding error.
    offsets = targets - centre
    system = np.eye(weights.size) - factor * mixing
    clients = (1.0 - factor) * linalg.solve(system, mixing @ offsets, assume_a='sym')
    server = weights @ (factor * clients + (1.0 - factor) * offsets)
    return FedpbcFixedPoint(clients + centre, clients.mean(axis=0) + centre, server + centre)
