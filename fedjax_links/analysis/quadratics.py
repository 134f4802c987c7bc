r"""Computes means and variances of FedAvg and FedPBC on quadratics, by round and in the limit.

On ``F_i(x) = 0.5 ||x - u_i||^2`` a round of either algorithm is linear in the models. Its
random coefficients do not depend on the models if links are independent from round to
round. So the first two moments obey closed linear recursions, and the noise floor
solves a linear system. All models start at zero. For another start, measure the targets from
there.
"""

from collections.abc import Callable
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
      client_mean: float64[d], mean of the limits, which is the minimiser x* itself.
      server: float64[d], limit of the expected server model.
    """

    clients: np.ndarray
    client_mean: np.ndarray
    server: np.ndarray


class FedavgMoments(NamedTuple):
    """Holds the law of FedAvg's server model up to second order.

    Attributes:
      mean: float64[T + 1, d], ``E[x^t]`` for t = 0..T.
      variance: float64[T + 1, d], variance of each coordinate of x^t. The sum over coordinates is
        the trace of the covariance.
      limit_mean: float64[d], limit of the mean, ``sum_i w_i u_i``.
      limit_covariance: float64[d, d], limit of the covariance.
    """

    mean: np.ndarray
    variance: np.ndarray
    limit_mean: np.ndarray
    limit_covariance: np.ndarray


class FedpbcMoments(NamedTuple):
    """Holds the law of FedPBC's server model up to second order.

    Mean squares are expected squared distances from x*, the mean of the targets.

    Attributes:
      client_mean: float64[T + 1, d], the mean of the client models, which is not random.
      server_mean: float64[T + 1, d], ``E[x^t]``.
      server_mean_square: float64[T + 1], ``E ||x^t - x*||^2``.
      limit_server_mean: float64[d], limit of ``E[x^t]``.
      limit_server_mean_square: limit of ``server_mean_square``, the squared noise floor of the
        server model.
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

    The server holds the mean of the trained models ``z_i = a x_i + (1 - a) u_i`` of the active
    clients A, and keeps its model if A is empty. A round's links are independent of the models
    before the round. So with ``P_0`` the probability of an empty round
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
    probs, targets, contraction = _checked(probs, targets, learning_rate, local_steps)
    weights = independent_links.fedavg_weights(probs)
    mixing = independent_links.expected_mixing_matrix(probs)
    centre = targets.mean(axis=0)
    # I - a M is worst conditioned along the mean of the models. The offsets from x* have mean zero,
    # so solving for the offsets avoids rounding errors in this direction.
    offsets = targets - centre
    system = np.eye(weights.size) - contraction * mixing
    clients = (1.0 - contraction) * linalg.solve(
        system, mixing @ offsets, assume_a='sym'
    )
    server = weights @ (contraction * clients + (1.0 - contraction) * offsets)
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

    Curvatures are equal, and A is the set of active clients. With ``a = (1 - eta)^s`` a non-empty
    round makes ``x' = a x + (1 - a) mean_A u``. An empty round, of probability ``P_0``, keeps x.
    With ``q = 1 - P_0``, ``m_u = sum_i w_i u_i`` and ``C_u = Cov(mean_A u | A not empty)``,

    * ``E[x'] - m_u = (P_0 + q a) (E[x] - m_u)``,
    * ``Cov(x') = (P_0 + q a^2) Cov(x) + q (1 - a)^2 C_u + P_0 q (1 - a)^2 D D^T`` with
      ``D = E[x] - m_u``; the last term comes from rounds being empty at random.

    The limits are ``m_u`` and ``(1 - a) / (1 + a) C_u``. Empty rounds change only the speed.

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

    probs, targets, contraction = _checked(probs, targets, learning_rate, local_steps)
    targets = targets.reshape(len(probs), -1)
    rounds = _checked_rounds(num_rounds, targets)
    progress = 1.0 - contraction
    non_empty = cohort_sizes.non_empty_probability(probs)
    limit_mean = independent_links.fedavg_weights(probs) @ targets
    covariance = cohort_sizes.mean_covariance(probs, targets - limit_mean) / non_empty

    mean_decay = 1.0 - non_empty * progress
    offset = np.outer(mean_decay ** np.arange(rounds + 1), -limit_mean)
    # The variance follows v^{t+1} = variance_decay v^t + new_variance^t from v^0 = 0.
    variance_decay = 1.0 - non_empty * (1.0 - contraction**2)
    spread = np.diagonal(covariance) + (1.0 - non_empty) * offset**2
    new_variance = non_empty * progress**2 * spread
    variance = signal.lfilter([0.0, 1.0], [1.0, -variance_decay], new_variance, axis=0)
    return FedavgMoments(
        mean=limit_mean + offset,
        variance=variance,
        limit_mean=limit_mean,
        limit_covariance=progress / (1.0 + contraction) * covariance,
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
    computed exactly in O(N^2) operations per round, without the N^4 entries of
    ``E[W kron W]``. The limit solves one symmetric positive definite system, by conjugate
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
    probs, targets, contraction = _checked(probs, targets, learning_rate, local_steps)
    targets = targets.reshape(len(probs), -1)
    rounds = _checked_rounds(num_rounds, targets)
    centre = targets.mean(axis=0)
    system = _FedpbcSystem(
        contraction=contraction,
        offsets=targets - centre,
        non_empty=cohort_sizes.non_empty_probability(probs),
        weights=cohort_sizes.reciprocal_means(probs),
        mixing=independent_links.expected_mixing_matrix(probs),
        gossip=cohort_sizes.gossip_map(probs),
        pairs=cohort_sizes.pair_means(probs, power=2),
    )
    server_means, mean_squares = _fedpbc_server_moments(system, -centre, rounds)
    limit = fedpbc_fixed_point(probs, targets, learning_rate, local_steps)
    client_mean = centre - np.outer(contraction ** np.arange(rounds + 1), centre)
    return FedpbcMoments(
        client_mean=client_mean,
        server_mean=server_means + centre,
        server_mean_square=mean_squares,
        limit_server_mean=limit.server,
        limit_server_mean_square=_fedpbc_limit_mean_square(
            system, limit.clients - centre
        ),
    )


class _FedpbcSystem(NamedTuple):
    """Holds what FedPBC's moments depend on; models are measured from x*.

    Attributes:
      contraction: a.
      offsets: float64[N, d], the targets' distances from x*.
      non_empty: probability of a round with an active client.
      weights: float64[N], ``E[1{i in A} / |A|]``, zero for empty rounds.
      mixing: float64[N, N], ``E[W]``.
      gossip: maps H, float64[N, N], to ``E[W H W]``.
      pairs: float64[N, N], ``E[1{i, j in A} / |A|^2]``.
    """

    contraction: float
    offsets: np.ndarray
    non_empty: float
    weights: np.ndarray
    mixing: np.ndarray
    gossip: Callable[[np.ndarray], np.ndarray]
    pairs: np.ndarray

    def trained(self, clients: np.ndarray) -> np.ndarray:
        """Returns ``E[Z] = a E[X] + (1 - a) U``, float64[N, d]."""
        return self.contraction * clients + (1.0 - self.contraction) * self.offsets

    def second_moment(self, covariance: np.ndarray, trained: np.ndarray) -> np.ndarray:
        """Returns ``H = a^2 Cov(X) + E[Z] E[Z]^T``, float64[N, N], summed over coordinates."""
        return self.contraction**2 * covariance + trained @ trained.T


def _fedpbc_server_moments(
    system: _FedpbcSystem, start: np.ndarray, num_rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Computes mean and mean square of the server model after rounds 0 to T.

    Args:
      system: what the moments depend on.
      start: float64[d], the initial model.
      num_rounds: T.

    Returns:
      float64[T + 1, d] and float64[T + 1].
    """
    size = len(system.offsets)
    empty = 1.0 - system.non_empty
    clients = np.tile(start, (size, 1))
    covariance = np.zeros((size, size))
    means = [start]
    mean_squares = [float(start @ start)]
    for _ in range(num_rounds):
        trained = system.trained(clients)
        moment = system.second_moment(covariance, trained)
        means.append(empty * means[-1] + system.weights @ trained)
        active_square = float(np.sum(system.pairs * moment))
        mean_squares.append(empty * mean_squares[-1] + active_square)
        clients = system.mixing @ trained
        covariance = system.gossip(moment) - clients @ clients.T
    return np.stack(means), np.array(mean_squares)


def _fedpbc_limit_mean_square(system: _FedpbcSystem, clients: np.ndarray) -> float:
    """Computes the limit of the server model's mean square.

    The covariance C of the client models solves
    ``C - a^2 E[W C W] = E[W Z Z^T W] - E[X] E[X]^T``, where Z stands for ``E[Z]``.

    Args:
      system: what the moments depend on.
      clients: float64[N, d], the limit of the expected client models.
    """
    size = len(system.offsets)

    def left_side(vector: np.ndarray) -> np.ndarray:
        # `gossip` maps symmetric matrices. An asymmetric part from rounding would grow.
        covariance = _symmetric_part(vector.reshape(size, size))
        mixed = system.gossip(covariance)
        return _symmetric_part(covariance - system.contraction**2 * mixed).ravel()

    trained = system.trained(clients)
    operator = sparse_linalg.LinearOperator(
        (size**2, size**2), left_side, dtype=np.float64
    )
    right_side = system.gossip(trained @ trained.T) - clients @ clients.T
    solution, _ = sparse_linalg.cg(
        operator, _symmetric_part(right_side).ravel(), rtol=1e-13, maxiter=10_000
    )
    moment = system.second_moment(solution.reshape(size, size), trained)
    # Rounding may leave the mean square slightly below zero.
    return max(0.0, float(np.sum(system.pairs * moment)) / system.non_empty)


def _symmetric_part(matrix: np.ndarray) -> np.ndarray:
    """Returns the mean of a matrix and its transpose."""
    return 0.5 * (matrix + matrix.T)


def _checked(
    probs: ArrayLike, targets: ArrayLike, learning_rate: float, local_steps: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Checks probabilities and targets; returns them with ``a = (1 - eta)^s``."""
    link_probs = _checks.checked_some_link('probs', probs)
    points = _checks.checked_targets('targets', targets, link_probs.size)
    return link_probs, points, _checks.checked_contraction(learning_rate, local_steps)


def _checked_rounds(num_rounds: int, targets: np.ndarray) -> int:
    """Checks the number of rounds. Each round has two results per coordinate of the targets."""
    num_bytes = 16 * targets.shape[1]
    return _checks.checked_rounds(
        'num_rounds', num_rounds, minimum=0, num_bytes=num_bytes
    )
