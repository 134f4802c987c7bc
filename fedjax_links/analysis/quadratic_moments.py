r"""Mean and variance of FedAvg and FedPBC on quadratics, round by round and in the limit.

On ``F_i(x) = 0.5 ||x - u_i||^2`` a round of either algorithm is linear in the models, with random
coefficients that do not depend on them when links are independent from round to round. The first
two moments therefore obey linear recursions that close, and the noise floor is a number.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import linalg as sparse_linalg

from fedjax_links.analysis import _checks, independent_links, second_moments
from fedjax_links.analysis.quadratics import contraction
from fedjax_links.core import errors


class FedavgMoments(NamedTuple):
    """Law of FedAvg's server model up to second order; x^0 is fixed.

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
    """Law of FedPBC's models up to second order; all models start from one fixed point.

    Mean squares are sums over coordinates of the distance to x*, the mean of the targets.

    Attributes:
      client_mean: float64[T + 1, d], the mean of the client models: not random.
      server_mean: float64[T + 1, d], ``E[x^t]``.
      server_mean_square: float64[T + 1], ``E ||x^t - x*||^2``.
      server_variance: float64[T + 1], trace of the covariance of x^t.
      consensus: float64[T + 1], ``E (1/N) sum_i ||x_i^t - xbar^t||^2``.
      limit_server_mean: float64[d].
      limit_server_mean_square: the square of the server model's noise floor, bias included.
      limit_consensus: limit of ``consensus``.
    """

    client_mean: np.ndarray
    server_mean: np.ndarray
    server_mean_square: np.ndarray
    server_variance: np.ndarray
    consensus: np.ndarray
    limit_server_mean: np.ndarray
    limit_server_mean_square: float
    limit_consensus: float


def fedavg_mean_and_covariance(
    probs: ArrayLike,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    num_rounds: int,
    initial_point: ArrayLike | None = None,
) -> FedavgMoments:
    r"""Mean and covariance of FedAvg's model on equal-curvature quadratics, independent links.

    With ``a = (1 - eta)^s`` a non-empty round gives ``x' = a x + (1 - a) mean_A u``, an empty one,
    of probability ``P_0``, keeps x. With ``q = 1 - P_0``, ``m_u = sum_i w_i u_i`` and
    ``C_u = Cov(mean_A u  given A not empty)``,

    * ``E[x'] - m_u = (P_0 + q a) (E[x] - m_u)``,
    * ``Cov(x') = (P_0 + q a^2) Cov(x) + q (1 - a)^2 C_u + P_0 q (1 - a)^2 D D^T`` with
      ``D = E[x] - m_u``, the part that comes from rounds being empty at random.

    The limits are ``m_u`` and ``(1 - a) / (1 + a) C_u``: empty rounds only slow the approach. As
    ``C_u`` and the first D are the only directions, each round costs O(d).

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      targets: float[N, d], the clients' minimisers u_i ([N] is read as [N, 1]).
      learning_rate: local step size eta in (0, 2).
      local_steps: number s of full-gradient local steps, at least 1.
      num_rounds: T, at least 0.
      initial_point: float[d], x^0; zeros if absent.

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
    probs, targets, start = _checked_problem(probs, targets, initial_point)
    factor = contraction(learning_rate, local_steps)
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=0)
    some = independent_links.non_empty_probability(probs)
    limit = independent_links.fedavg_weights(probs) @ targets
    spread = second_moments.mean_covariance(probs, targets - limit) / some
    offset = start - limit

    pull = 1.0 - factor
    steps = (1.0 - some * pull) ** np.arange(rounds + 1)
    keep = 1.0 - some * (1.0 - factor**2)
    from_cohorts, from_start = np.zeros(rounds + 1), np.zeros(rounds + 1)
    for t in range(rounds):
        from_cohorts[t + 1] = keep * from_cohorts[t] + some * pull**2
        empties = (1.0 - some) * some * pull**2 * steps[t] ** 2
        from_start[t + 1] = keep * from_start[t] + empties
    variance = np.outer(from_cohorts, np.diagonal(spread)) + np.outer(from_start, offset**2)
    return FedavgMoments(
        mean=limit + np.outer(steps, offset),
        variance=variance,
        limit_mean=limit,
        limit_covariance=pull / (1.0 + factor) * spread,
    )


def fedpbc_mean_and_covariance(
    probs: ArrayLike,
    targets: ArrayLike,
    learning_rate: float,
    local_steps: int,
    *,
    num_rounds: int,
    initial_point: ArrayLike | None = None,
) -> FedpbcMoments:
    r"""Mean and mean square of FedPBC's models on equal-curvature quadratics, independent links.

    All coordinates share the round's mixing matrix W, and models are measured from x*. With
    ``Z = a X + (1 - a) U`` the Gram matrix ``G = E[X X^T]``, summed over coordinates, follows
    ``G' = E[W H W]`` with ``H = E[Z Z^T]``, which G and ``E[X]`` determine; the server follows
    ``E ||x'||^2 = P_0 E ||x||^2 + sum_ij E[1{i, j in A} / |A|^2] H_ij``. Both maps are evaluated
    exactly in O(n N^2) operations per round, n <= N quadrature nodes, instead of the N^4 entries of
    ``E[W kron W]``. The limit is one symmetric positive definite solve by conjugate gradients.

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      targets: float[N, d], the clients' minimisers u_i ([N] is read as [N, 1]).
      learning_rate: local step size eta in (0, 2).
      local_steps: number s of full-gradient local steps, at least 1.
      num_rounds: T, at least 0.
      initial_point: float[d], the start of the server and every client; zeros if absent.

    Returns:
      The moments for rounds 0 to T and in the limit.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    References:
      Xiang et al., CDC 2023, Algorithm 2, Section IV and Eq. (3).
    """
    probs, targets, start = _checked_problem(probs, targets, initial_point)
    factor = contraction(learning_rate, local_steps)
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=0)
    centre = targets.mean(axis=0)
    system = _FedpbcSystem(probs, targets - centre, factor)
    state = system.start(start - centre)
    server_mean, squares, consensus = [state.server], [state.square], [system.consensus(state)]
    for _ in range(rounds):
        state = system.advance(state)
        server_mean.append(state.server)
        squares.append(state.square)
        consensus.append(system.consensus(state))
    limit = system.limit()
    means, mean_square = np.stack(server_mean), np.array(squares)
    decay = factor ** np.arange(rounds + 1)
    return FedpbcMoments(
        client_mean=centre + np.outer(decay, start - centre),
        server_mean=means + centre,
        server_mean_square=mean_square,
        server_variance=np.maximum(mean_square - np.sum(means**2, axis=1), 0.0),
        consensus=np.array(consensus),
        limit_server_mean=limit.server + centre,
        limit_server_mean_square=float(limit.square),
        limit_consensus=system.consensus(limit),
    )


class _FedpbcState(NamedTuple):
    """Moments of one round, measured from x*: E[X], E[X X^T], E[x] and E||x||^2."""

    clients: np.ndarray
    gram: np.ndarray
    server: np.ndarray
    square: float


class _FedpbcSystem:
    """The linear recursion of the moments, with everything that stays fixed precomputed."""

    def __init__(self, probs: np.ndarray, offsets: np.ndarray, factor: float) -> None:
        self.offsets, self.factor = offsets, factor
        self.some = independent_links.non_empty_probability(probs)
        self.shares = probs * independent_links.reciprocal_size_means(probs)
        self.mixing = independent_links.expected_mixing_matrix(probs)
        self.moments = second_moments.mixing_moments(probs)
        self.pairs = second_moments.pair_matrix(probs)

    def start(self, point: np.ndarray) -> _FedpbcState:
        clients = np.tile(point, (len(self.offsets), 1))
        return _FedpbcState(clients, clients @ clients.T, point, float(point @ point))

    def trained(self, clients: np.ndarray, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E[Z] and E[Z Z^T] of the locally trained models."""
        pull = 1.0 - self.factor
        cross = clients @ self.offsets.T
        moment = self.factor**2 * gram + self.factor * pull * (cross + cross.T)
        moment += pull**2 * (self.offsets @ self.offsets.T)
        return self.factor * clients + pull * self.offsets, moment

    def advance(self, state: _FedpbcState) -> _FedpbcState:
        trained, moment = self.trained(state.clients, state.gram)
        return _FedpbcState(
            clients=self.mixing @ trained,
            gram=self.moments.apply(moment),
            server=(1.0 - self.some) * state.server + self.shares @ trained,
            square=(1.0 - self.some) * state.square + float(np.sum(self.pairs * moment)),
        )

    def limit(self) -> _FedpbcState:
        size, pull = len(self.offsets), 1.0 - self.factor
        system = np.eye(size) - self.factor * self.mixing
        clients = pull * np.linalg.solve(system, self.mixing @ self.offsets)
        _, constant = self.trained(clients, np.zeros((size, size)))

        def residual_map(vector: np.ndarray) -> np.ndarray:
            gram = vector.reshape(size, size)
            return (gram - self.factor**2 * self.moments.apply(gram)).ravel()

        operator = sparse_linalg.LinearOperator((size**2, size**2), residual_map, dtype=np.float64)
        right = self.moments.apply(constant).ravel()
        gram = sparse_linalg.cg(operator, right, rtol=1e-13, maxiter=10_000)[0]
        trained, moment = self.trained(clients, gram.reshape(size, size))
        square = float(np.sum(self.pairs * moment)) / self.some
        return _FedpbcState(
            clients, gram.reshape(size, size), self.shares @ trained / self.some, square
        )

    def consensus(self, state: _FedpbcState) -> float:
        size = len(self.offsets)
        return max(float(np.trace(state.gram) - state.gram.sum() / size) / size, 0.0)


def _checked_problem(
    probs: ArrayLike, targets: ArrayLike, initial_point: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Validates links, targets as [N, d] and the starting point as [d]."""
    probs = _checks.checked_some_link('probs', probs)
    targets = _checks.checked_targets('targets', targets, probs.size)
    targets = targets.reshape(probs.size, -1)
    if initial_point is None:
        return probs, targets, np.zeros(targets.shape[1])
    start = np.asarray(initial_point, dtype=np.float64)
    if start.shape != targets.shape[1:] and not (start.ndim == 0 and targets.shape[1] == 1):
        raise errors.invalid('initial_point', f'have shape [{targets.shape[1]}]', start.shape)
    if not np.all(np.isfinite(start)):
        raise errors.invalid('initial_point', 'be finite', start[~np.isfinite(start)][0])
    return probs, targets, start.reshape(-1)
