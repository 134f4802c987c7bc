r"""Computes means and variances of FedAvg and FedPBC on quadratics, by round and in the limit.

On ``F_i(x) = 0.5 ||x - u_i||^2`` a round of either algorithm is linear in the models. Its
random coefficients do not depend on the models if links are independent from round to
round. So the first two moments obey linear recursions that close, and the noise floor is
a number. All models start at zero: another start is the same problem with targets
measured from there.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.sparse import linalg as sparse_linalg

from fedjax_links.analysis import _checks, cohort_sizes, independent_links


class FedpbcFixedPoint(NamedTuple):
    """Holds the limits of FedPBC's expected models.

    The last axis is absent for targets of shape [N].

    Attributes:
      clients: float64[N, d], limit of the expected client models.
      client_mean: float64[d], their mean, which is the minimiser x* itself.
      server: float64[d], limit of the expected server model.
    """

    clients: np.ndarray
    client_mean: np.ndarray
    server: np.ndarray


class FedavgMoments(NamedTuple):
    """Holds the law of FedAvg's server model up to second order.

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
    """Holds the law of FedPBC's server model up to second order.

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
    r"""Computes the limits of FedPBC's expected models on quadratics, under independent links.

    Clients have ``F_i(x) = 0.5 ||x - u_i||^2``. With ``a = (1 - eta)^s`` the stacked client
    models (rows) follow ``X' = W (a X + (1 - a) U)``. Hence
    ``E[X] -> (1 - a) (I - a M)^{-1} M U`` with ``M = E[W]``. W is doubly stochastic, so the
    mean of the client models tends to the mean of the targets whatever the links.

    The server holds the mean over A of the locally trained ``z_i = a x_i + (1 - a) u_i``
    and keeps its model when A is empty. A round's links are independent of the models that
    enter it. So with ``P_0`` the probability of an empty round
    ``E[x'] = P_0 E[x] + (1 - P_0) sum_i w_i E[z_i]``. The limit is ``sum_i w_i E[z_i]``
    with `fedavg_weights`, independent of ``P_0``.

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
    probs, targets, factor = _checked(probs, targets, learning_rate, local_steps)
    weights = independent_links.fedavg_weights(probs)
    mixing = independent_links.expected_mixing_matrix(probs)
    centre = targets.mean(axis=0)
    # I - a M is conditioned worst in the direction of consensus. Solving for the offsets
    # from x* keeps that direction out of the rounding error.
    offsets = targets - centre
    system = np.eye(weights.size) - factor * mixing
    clients = (1.0 - factor) * linalg.solve(system, mixing @ offsets, assume_a='sym')
    server = weights @ (factor * clients + (1.0 - factor) * offsets)
    return FedpbcFixedPoint(
        clients=clients + centre,
        client_mean=clients.mean(axis=0) + centre,
        server=server + centre,
    )


def fedavg_mean_and_covariance(
    probs: ArrayLike,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    num_rounds: int,
) -> FedavgMoments:
    r"""Computes mean and covariance of FedAvg's model on quadratics, under independent links.

    Curvatures are equal. With ``a = (1 - eta)^s`` a non-empty round makes
    ``x' = a x + (1 - a) mean_A u``; an empty one, of probability ``P_0``, keeps x. With
    ``q = 1 - P_0``, ``m_u = sum_i w_i u_i`` and ``C_u = Cov(mean_A u | A not empty)``,

    * ``E[x'] - m_u = (P_0 + q a) (E[x] - m_u)``,
    * ``Cov(x') = (P_0 + q a^2) Cov(x) + q (1 - a)^2 C_u + P_0 q (1 - a)^2 D D^T`` with
      ``D = E[x] - m_u``; the last term comes from rounds being empty at random.

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
    from scipy import signal  # slow to import, so only here

    probs, targets, factor = _checked(probs, targets, learning_rate, local_steps)
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=0)
    targets = targets.reshape(len(probs), -1)
    pull = 1.0 - factor
    non_empty = cohort_sizes.non_empty_probability(probs)
    limit_mean = independent_links.fedavg_weights(probs) @ targets
    covariance = cohort_sizes.mean_covariance(probs, targets - limit_mean) / non_empty

    offset = np.outer((1.0 - non_empty * pull) ** np.arange(rounds + 1), -limit_mean)
    # v' = keep v + added.
    keep = 1.0 - non_empty * (1.0 - factor**2)
    spread = np.diagonal(covariance) + (1.0 - non_empty) * offset**2
    added = non_empty * pull**2 * spread
    variance = signal.lfilter([0.0, 1.0], [1.0, -keep], added, axis=0)
    return FedavgMoments(
        mean=limit_mean + offset,
        variance=variance,
        limit_mean=limit_mean,
        limit_covariance=pull / (1.0 + factor) * covariance,
    )


def fedpbc_mean_and_covariance(
    probs: ArrayLike,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    num_rounds: int,
) -> FedpbcMoments:
    r"""Computes mean and mean square of FedPBC's models on quadratics, under independent links.

    Curvatures are equal. All coordinates share the round's mixing matrix W, and models are
    measured from x*. With ``Z = a X + (1 - a) U`` the Gram matrix ``G = E[X X^T]``, summed
    over coordinates, follows ``G' = E[W H W]`` with
    ``H = E[Z Z^T] = a^2 (G - E[X] E[X]^T) + E[Z] E[Z]^T``. The server follows
    ``E ||x'||^2 = P_0 E ||x||^2 + sum_ij E[1{i, j in A} / |A|^2] H_ij``. Both maps are
    evaluated exactly in O(N^2) operations per round, instead of the N^4 entries of
    ``E[W kron W]``. The limit is one symmetric positive definite solve by conjugate
    gradients.

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
    probs, targets, factor = _checked(probs, targets, learning_rate, local_steps)
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=0)
    targets = targets.reshape(len(probs), -1)
    centre = targets.mean(axis=0)
    offsets = targets - centre
    size = len(targets)
    pull = 1.0 - factor
    non_empty = cohort_sizes.non_empty_probability(probs)
    shares = cohort_sizes.reciprocal_means(probs)
    mixing = independent_links.expected_mixing_matrix(probs)
    gossip = cohort_sizes.gossip_map(probs)
    pairs = cohort_sizes.pair_means(probs, power=2)

    clients = np.tile(-centre, (size, 1))
    covariance = np.zeros((size, size))
    means = [-centre]
    squares = [float(centre @ centre)]
    for _ in range(rounds):
        trained = factor * clients + pull * offsets
        moment = factor**2 * covariance + trained @ trained.T
        means.append((1.0 - non_empty) * means[-1] + shares @ trained)
        square = float(np.sum(pairs * moment))
        squares.append((1.0 - non_empty) * squares[-1] + square)
        clients = mixing @ trained
        covariance = gossip(moment) - clients @ clients.T

    def residual_map(vector: np.ndarray) -> np.ndarray:
        covariance = vector.reshape(size, size)
        return (covariance - factor**2 * gossip(covariance)).ravel()

    limit = fedpbc_fixed_point(probs, targets, learning_rate, local_steps)
    clients = limit.clients - centre
    trained = factor * clients + pull * offsets
    shape = (size**2, size**2)
    operator = sparse_linalg.LinearOperator(shape, residual_map, dtype=np.float64)
    right = (gossip(trained @ trained.T) - clients @ clients.T).ravel()
    covariance = sparse_linalg.cg(operator, right, rtol=1e-13, maxiter=10_000)[0]
    moment = factor**2 * covariance.reshape(size, size) + trained @ trained.T
    noise_floor = float(np.sum(pairs * moment)) / non_empty
    client_mean = centre - np.outer(factor ** np.arange(rounds + 1), centre)
    server_mean = np.stack(means) + centre
    return FedpbcMoments(
        client_mean=client_mean,
        server_mean=server_mean,
        server_mean_square=np.array(squares),
        limit_server_mean=limit.server,
        limit_server_mean_square=noise_floor,
    )


def _checked(
    probs: ArrayLike, targets: ArrayLike, learning_rate: float, local_steps: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Checks links and targets, and returns them with ``a = (1 - eta)^s``."""
    links = _checks.checked_some_link('probs', probs)
    points = _checks.checked_targets('targets', targets, links.size)
    is_valid = 0.0 < _checks.checked_number('learning_rate', learning_rate) < 2.0
    _checks.require(is_valid, 'learning_rate', 'lie in (0, 2)', learning_rate)
    steps = _checks.checked_int('local_steps', local_steps, minimum=1)
    return links, points, (1.0 - learning_rate) ** steps
