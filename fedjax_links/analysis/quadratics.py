r"""Means and variances of FedAvg and FedPBC on quadratics, round by round and in the limit.

On ``F_i(x) = 0.5 ||x - u_i||^2`` a round of either algorithm is linear in the models, with random
coefficients that do not depend on them when links are independent from round to round. The first
two moments therefore obey linear recursions that close, and the noise floor is a number. All models
start at zero: another start is the same problem with targets measured from there.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.sparse import linalg as sparse_linalg

from fedjax_links.analysis import _checks, cohort_sizes, independent_links, second_moments
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


class FedavgMoments(NamedTuple):
    """Law of FedAvg's server model up to second order.

    Attributes:
      mean: float64[T + 1, d], ``E[x^t]`` for t = 0..T.
      variance: float64[T + 1, d], variance of each coordinate of x^t; its sum over the last axis
        is the trace of the covariance.
      limit_mean: float64[d], ``sum_i w_i u_i``.
      limit_covariance: float64[d, d].
    """

    mean: np.ndarray
    variance: np.ndarray
    limit_mean: np.ndarray
    limit_covariance: np.ndarray


class FedpbcMoments(NamedTuple):
    """Law of FedPBC's server model up to second order.

    Mean squares are sums over coordinates of the distance to x*, the mean of the targets.

    Attributes:
      client_mean: float64[T + 1, d], the mean of the client models: not random.
      server_mean: float64[T + 1, d], ``E[x^t]``.
      server_mean_square: float64[T + 1], ``E ||x^t - x*||^2``.
      limit_server_mean: float64[d].
      limit_server_mean_square: the square of the server model's noise floor, bias included.
    """

    client_mean: np.ndarray
    server_mean: np.ndarray
    server_mean_square: np.ndarray
    limit_server_mean: np.ndarray
    limit_server_mean_square: float


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
    factor = _contraction(learning_rate, local_steps)
    mixing = independent_links.expected_mixing_matrix(probs)
    centre = targets.mean(axis=0)
    # Solving for the offsets from x* keeps the consensus direction, where I - a M is least
    # well conditioned, out of the rounding error.
    offsets = targets - centre
    system = np.eye(weights.size) - factor * mixing
    clients = (1.0 - factor) * linalg.solve(system, mixing @ offsets, assume_a='sym')
    server = weights @ (factor * clients + (1.0 - factor) * offsets)
    return FedpbcFixedPoint(clients + centre, clients.mean(axis=0) + centre, server + centre)


def fedavg_mean_and_covariance(
    probs: ArrayLike, targets: ArrayLike, learning_rate: float, local_steps: int, *, num_rounds: int
) -> FedavgMoments:
    r"""Mean and covariance of FedAvg's model on equal-curvature quadratics, independent links.

    With ``a = (1 - eta)^s`` a non-empty round gives ``x' = a x + (1 - a) mean_A u``, an empty one,
    of probability ``P_0``, keeps x. With ``q = 1 - P_0``, ``m_u = sum_i w_i u_i`` and
    ``C_u = Cov(mean_A u  given A not empty)``,

    * ``E[x'] - m_u = (P_0 + q a) (E[x] - m_u)``,
    * ``Cov(x') = (P_0 + q a^2) Cov(x) + q (1 - a)^2 C_u + P_0 q (1 - a)^2 D D^T`` with
      ``D = E[x] - m_u``, the part that comes from rounds being empty at random.

    The limits are ``m_u`` and ``(1 - a) / (1 + a) C_u``: empty rounds only slow the approach.

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      targets: float[N, d], the clients' minimisers u_i ([N] is read as [N, 1]).
      learning_rate: local step size eta in (0, 2).
      local_steps: number s of full-gradient local steps, at least 1.
      num_rounds: T, at least 0.

    Returns:
      The moments for rounds 0 to T and in the limit.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    Example:
      >>> from fedjax_links import analysis
      >>> moments = analysis.fedavg_mean_and_covariance(
      ...     [0.5, 0.3], [0.0, 100.0], 0.02, 5, num_rounds=10
      ... )
      >>> print(moments.mean[10].round(2), moments.limit_mean.round(2))
      [16.45] [34.62]

    References:
      Xiang et al., CDC 2023, Proposition 1 (the limit of the mean).
    """
    probs, targets = _checked_problem(probs, targets)
    factor = _contraction(learning_rate, local_steps)
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=0)
    some = cohort_sizes.non_empty_probability(probs)
    limit_mean = independent_links.fedavg_weights(probs) @ targets
    spread = second_moments.mean_covariance(probs, targets - limit_mean) / some

    pull = 1.0 - factor
    steps = (1.0 - some * pull) ** np.arange(rounds + 1)
    keep = 1.0 - some * (1.0 - factor**2)
    mean = limit_mean - np.outer(steps, limit_mean)
    variance = np.zeros_like(mean)
    for t in range(rounds):
        from_empty_rounds = (1.0 - some) * (mean[t] - limit_mean) ** 2
        fresh = some * pull**2 * (np.diagonal(spread) + from_empty_rounds)
        variance[t + 1] = keep * variance[t] + fresh
    limit_covariance = pull / (1.0 + factor) * spread
    return FedavgMoments(mean, variance, limit_mean, limit_covariance)


def fedpbc_mean_and_covariance(
    probs: ArrayLike, targets: ArrayLike, learning_rate: float, local_steps: int, *, num_rounds: int
) -> FedpbcMoments:
    r"""Mean and mean square of FedPBC's models on equal-curvature quadratics, independent links.

    All coordinates share the round's mixing matrix W, and models are measured from x*. With
    ``Z = a X + (1 - a) U`` the Gram matrix ``G = E[X X^T]``, summed over coordinates, follows
    ``G' = E[W H W]`` with ``H = E[Z Z^T]``, which G and ``E[X]`` determine; the server follows
    ``E ||x'||^2 = P_0 E ||x||^2 + sum_ij E[1{i, j in A} / |A|^2] H_ij``. Both maps are evaluated
    exactly in O(N^2) operations per round, instead of the N^4 entries of ``E[W kron W]``. The
    limit is one symmetric positive definite solve by conjugate gradients.

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      targets: float[N, d], the clients' minimisers u_i ([N] is read as [N, 1]).
      learning_rate: local step size eta in (0, 2).
      local_steps: number s of full-gradient local steps, at least 1.
      num_rounds: T, at least 0.

    Returns:
      The moments for rounds 0 to T and in the limit.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    References:
      Xiang et al., CDC 2023, Algorithm 2, Section IV and Eq. (3).
    """
    probs, targets = _checked_problem(probs, targets)
    factor = _contraction(learning_rate, local_steps)
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=0)
    centre = targets.mean(axis=0)
    offsets, size, pull = targets - centre, len(targets), 1.0 - factor
    some = cohort_sizes.non_empty_probability(probs)
    shares = cohort_sizes.reciprocal_means(probs)
    mixing = independent_links.expected_mixing_matrix(probs)
    gossip = second_moments.gossip_map(probs)
    pairs = cohort_sizes.pair_means(probs, power=2)

    def trained(clients: np.ndarray, gram: np.ndarray) -> np.ndarray:
        """E[Z Z^T] of the locally trained models, from E[X] and E[X X^T]."""
        cross = clients @ offsets.T
        moment = factor**2 * gram + factor * pull * (cross + cross.T)
        return moment + pull**2 * (offsets @ offsets.T)

    clients, server, square = np.tile(-centre, (size, 1)), -centre, float(centre @ centre)
    gram = clients @ clients.T
    means, squares = [server], [square]
    for _ in range(rounds):
        after, moment = factor * clients + pull * offsets, trained(clients, gram)
        server = (1.0 - some) * server + shares @ after
        square = (1.0 - some) * square + float(np.sum(pairs * moment))
        clients, gram = mixing @ after, gossip(moment)
        means.append(server)
        squares.append(square)

    limit = fedpbc_fixed_point(probs, targets, learning_rate, local_steps)
    clients = limit.clients - centre

    def residual_map(vector: np.ndarray) -> np.ndarray:
        gram = vector.reshape(size, size)
        return (gram - factor**2 * gossip(gram)).ravel()

    operator = sparse_linalg.LinearOperator((size**2, size**2), residual_map, dtype=np.float64)
    right = gossip(trained(clients, np.zeros((size, size)))).ravel()
    gram = sparse_linalg.cg(operator, right, rtol=1e-13, maxiter=10_000)[0].reshape(size, size)
    client_mean = centre - np.outer(factor ** np.arange(rounds + 1), centre)
    server_mean, server_mean_square = np.stack(means) + centre, np.array(squares)
    floor = float(np.sum(pairs * trained(clients, gram))) / some
    return FedpbcMoments(client_mean, server_mean, server_mean_square, limit.server, floor)


def _checked_problem(probs: ArrayLike, targets: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Validated links, and targets as [N, d]."""
    probs = _checks.checked_some_link('probs', probs)
    targets = _checks.checked_targets('targets', targets, probs.size)
    return probs, targets.reshape(probs.size, -1)


def _contraction(learning_rate: float, local_steps: int) -> float:
    """Factor ``a = (1 - eta)^s`` of `local_steps` gradient steps on a unit-curvature quadratic."""
    if not 0.0 < learning_rate < 2.0:
        raise errors.invalid('learning_rate', 'lie in (0, 2)', learning_rate)
    return (1.0 - learning_rate) ** _checks.checked_int('local_steps', local_steps, minimum=1)
