"""Links between clients: mixing matrices and their moments, relays, gradient codes.

Edges are independent of each other and of the uplinks here, and a graph is given as
``neighbours``, int[N, K], with the own id where a client has fewer. The weight of an edge hangs on
the degrees at both ends, which are sums of independent edges: all moments are finite sums.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from fedjax_links.analysis import _checks, cohort_sizes, independent_links


class RandomGraph(NamedTuple):
    """Clients and the edges between them that are up independently.

    Attributes:
      matrix: float64[N, N], symmetric, P(the edge of i and j is up); zero where there is none.
      ends: int[E, 2], of the edges, i < j.
      probs: float64[E].
      weight: float64[K + 1, K + 1], of an edge, by the degrees at its ends, at most K.
    """

    matrix: np.ndarray
    ends: np.ndarray
    probs: np.ndarray
    weight: np.ndarray

    @property
    def differences(self) -> np.ndarray:
        """b_e, of its ends, as columns: float64[N, E]."""
        first, second = np.eye(len(self.matrix))[:, self.ends.T].transpose(1, 0, 2)
        return first - second

    def mean_product(self, *edges: np.ndarray) -> float:
        """Mean product of the weights of one edge or two, given by their ends.

        The degrees at these are sums of independent edges, given which of those between them are
        up. In each such state the law of a degree is that without them, shifted by their number.
        """
        clients, weight = np.unique(edges), self.weight
        between = np.array([*itertools.combinations(clients, 2)])
        outer = self.matrix[clients]
        outer[:, clients] = 0.0
        others = np.sort(outer, axis=1)[:, 1 - len(weight) :]  # at most K can be up
        laws = np.array([cohort_sizes.poisson_binomial_pmf(probs) for probs in others])
        ups = np.array([*itertools.product([0, 1], repeat=len(between))])
        for edge in edges:
            ups = ups[ups[:, (between == edge).all(axis=1)].all(axis=1)]
        probs = self.matrix[tuple(between.T)]
        chances = np.where(ups, probs, 1.0 - probs).prod(axis=1)
        shifts = ups @ (between[:, :, None] == clients).any(axis=1)
        places = (np.arange(len(weight)) - shifts[..., None]) % len(weight)
        shifted = np.take_along_axis(laws[None], places, axis=2)
        state = len(clients)  # the index of a state, behind those of the clients
        terms: list[Any] = [chances, [state]]
        for client in range(state):
            terms += shifted[:, client], [state, client]
        for edge in edges:
            terms += weight, np.searchsorted(clients, edge).tolist()
        return float(np.einsum(*terms, [], optimize=True))


def metropolis_matrix(edges: ArrayLike) -> np.ndarray:
    """Metropolis matrix of edges that are up: ``M_ij = 1 / (1 + max(d_i, d_j))``, rest diagonal.

    Args:
      edges: bool[..., N, N], symmetric, nobody with itself.

    Returns:
      float64[..., N, N], symmetric and doubly stochastic.

    Raises:
      ValueError: for edges that are no such matrix.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.metropolis_matrix([[False, True], [True, False]]))
      [[0.5 0.5]
       [0.5 0.5]]
    """
    up = _checks.checked_masks('edges', edges)
    size = up.shape[-1]
    fine = (
        up.ndim > 1 and up.shape[-2] == size and (up == np.swapaxes(up, -1, -2)).all()
    )
    fine = fine and not up[..., np.eye(size) > 0].any()
    _checks.require(
        fine, 'edges', 'be symmetric [..., N, N], without a diagonal', up.shape
    )
    degrees = up.sum(axis=-1)
    matrix = up / (1.0 + np.maximum(degrees[..., :, None], degrees[..., None, :]))
    return matrix + np.eye(size) * (1.0 - matrix.sum(axis=-1))[..., None, :]


def expected_metropolis_matrix(neighbours: ArrayLike, probs: ArrayLike) -> np.ndarray:
    """``E[M]`` over independent edges, exactly: O(E K^2).

    Args:
      neighbours: int[N, K].
      probs: P(an edge is up), one number or float[N, K], the same at both ends.

    Returns:
      float64[N, N].

    Raises:
      ValueError: for what is no graph, or no probabilities.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.expected_metropolis_matrix([[1], [0]], 0.5))
      [[0.75 0.25]
       [0.25 0.75]]
    """
    graph = graph_of(neighbours, probs)
    means = np.array([graph.mean_product(edge) for edge in graph.ends])
    return np.eye(len(graph.matrix)) - (graph.differences * means) @ graph.differences.T


def metropolis_map(
    neighbours: ArrayLike, probs: ArrayLike
) -> Callable[[np.ndarray], np.ndarray]:
    """The linear map ``H -> E[M H M]`` over independent edges, exactly.

    With ``M = I - sum_e m_e b_e b_e^T``, b_e the difference of the ends of edge e, it needs the
    ``E[m_e m_f]``: two edges hang together by a client that they share and by the at most four
    edges between their ends.

    Args:
      neighbours: int[N, K].
      probs: as in `expected_metropolis_matrix`.

    Returns:
      The map of a float64[N, N] to another, O(N E^2) operations; ``E[M kron M]`` in fewer numbers.

    Raises:
      ValueError: as `expected_metropolis_matrix`.
    """
    graph = graph_of(neighbours, probs)
    means = np.array([graph.mean_product(edge) for edge in graph.ends])
    moments, ends = np.outer(means, means), graph.differences
    laplacian = (ends * means) @ ends.T
    for (e, one), (f, other) in itertools.combinations_with_replacement(
        enumerate(graph.ends), 2
    ):
        if graph.matrix[
            np.ix_(one, other)
        ].any():  # they share a client, or edges lie between
            moments[e, f] = moments[f, e] = graph.mean_product(one, other)

    def apply(moment: np.ndarray) -> np.ndarray:
        both = ends @ (moments * (ends.T @ moment @ ends)) @ ends.T
        return np.asarray(moment - laplacian @ moment - moment @ laplacian + both)

    return apply


def semi_decentralised_map(
    probs: ArrayLike, neighbours: ArrayLike, edge_probs: ArrayLike
) -> Callable[[np.ndarray], np.ndarray]:
    """``H -> E[W M H M W]``: a round of S2S, gossip over edges and then the mean of those heard.

    Args:
      probs: float[N], probabilities of the uplinks.
      neighbours: int[N, K].
      edge_probs: as in `expected_metropolis_matrix`.

    Returns:
      The map of a symmetric float64[N, N].

    Raises:
      ValueError: for what is no graph, or no probabilities.
    """
    uplinks = cohort_sizes.gossip_map(_checks.checked_probs('probs', probs))
    between = metropolis_map(neighbours, edge_probs)
    return lambda moment: uplinks(between(moment))


def semi_decentralised_rate(
    probs: ArrayLike, neighbours: ArrayLike, edge_probs: ArrayLike
) -> float:
    """Contraction of a round of S2S: ``E ||W M y - mean||^2 <= rate ||y - mean||^2``, tightly.

    The largest eigenvalue of ``E[M W M]`` off the mean, as ``W W = W``. `mixing_rate` is that
    without edges.

    Args:
      probs: float[N], probabilities of the uplinks; zeros for gossip alone.
      neighbours: int[N, K].
      edge_probs: as in `expected_metropolis_matrix`.

    Returns:
      The rate, in [0, 1].

    Raises:
      ValueError: for what is no graph, or no probabilities.

    Example:
      >>> from fedjax_links import analysis
      >>> ring = [[1, 3], [0, 2], [1, 3], [0, 2]]
      >>> rates = [analysis.semi_decentralised_rate([0.2] * 4, ring, q) for q in (0.0, 0.5, 1.0)]
      >>> print(f'{rates[0]:.3f} {rates[1]:.3f} {rates[2]:.3f}')
      0.930 0.504 0.103
    """
    expected = independent_links.expected_mixing_matrix(probs)
    moment = metropolis_map(neighbours, edge_probs)(expected)
    values = np.linalg.eigvalsh(moment - 1.0 / len(moment))
    return float(np.clip(values[-1], 0.0, 1.0))


def colrel_weights(probs: ArrayLike, edge_probs: ArrayLike) -> np.ndarray:
    """ColRel's weights of least variance, for `fedjax_links.algorithms.colrel`.

    ``alpha >= 0`` with ``sum_i p_i q_ji alpha_ij = 1`` for every j, and least
    ``S = sum_i p_i (1 - p_i) (sum_j q_ji alpha_ij)^2 + sum_ij p_i q_ji (1 - q_ji) alpha_ij^2
    + sum_{i != l} p_i p_l q_il (1 - q_il) alpha_il alpha_li``: a convex programme, solved by
    non-negative least squares, and scaled to be unbiased to rounding.

    Args:
      probs: float[N], p, at least one positive on every way from each client.
      edge_probs: float[N, N], q, symmetric, of a diagonal that is not looked at.

    Returns:
      float64[N, N], row i of what client i sends.

    Raises:
      ValueError: for what are no probabilities, or if an update never gets through.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.colrel_weights([0.5, 1.0], [[1, 1], [1, 1]]).round(2))
      [[0. 0.]
       [1. 1.]]

    References:
      Yemini et al. 2024, section V.
    """
    uplink = _checks.checked_probs('probs', probs)
    size = uplink.size
    edges = _checks.checked_rate('edge_probs', edge_probs).copy()
    fine = edges.shape == (size, size) and np.array_equal(edges, edges.T)
    _checks.require(fine, 'edge_probs', f'be symmetric, [{size}, {size}]', edges.shape)
    np.fill_diagonal(edges, 1.0)
    carrier, source = np.nonzero(edges * uplink[:, None])
    through = uplink[carrier] * edges[source, carrier]
    constraints = (source == np.arange(size)[:, None]) * through
    heard = constraints.any(axis=1)
    lost = f'none of client {np.argmin(heard)}'
    _checks.require(heard.all(), 'probs', 'let every update through', lost)
    quadratic = _colrel_variance(uplink, edges, carrier, source)
    values, vectors = np.linalg.eigh(quadratic)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T
    heavy = 1e4 * max(1.0, float(np.sqrt(values[-1])))
    rows, right = (
        np.vstack([root, heavy * constraints]),
        np.r_[np.zeros(len(root)), [heavy] * size],
    )
    rough, _ = optimize.nnls(rows, right, maxiter=100 * rows.shape[1])
    weights = np.zeros((size, size))
    weights[carrier, source] = rough / (constraints @ rough)[source]
    return weights


def colrel_variance(
    probs: ArrayLike, edge_probs: ArrayLike, weights: ArrayLike
) -> float:
    """S of `colrel_weights`, for any weights: ``sum (1 - p) / p`` without relays.

    Args:
      probs: float[N], p.
      edge_probs: float[N, N], q.
      weights: float[N, N], alpha.

    Returns:
      The variance.

    Raises:
      ValueError: for what are no probabilities.
    """
    uplink, edges = (
        _checks.checked_probs('probs', probs),
        np.array(edge_probs, np.float64),
    )
    np.fill_diagonal(edges, 1.0)
    carrier, source = np.indices(edges.shape).reshape(2, -1)
    alpha = np.asarray(weights, np.float64).ravel()
    return float(alpha @ _colrel_variance(uplink, edges, carrier, source) @ alpha)


def _colrel_variance(
    uplink: np.ndarray, edges: np.ndarray, carrier: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """The matrix of S over weights alpha[carrier, source]."""
    p, q = uplink[carrier], edges[source, carrier]
    same = carrier[:, None] == carrier
    found = same * (p * (1 - p))[:, None] * np.outer(q, q) + np.diag(p * q * (1 - q))
    mirrored = (carrier[:, None] == source) & (source[:, None] == carrier) & ~same
    return found + mirrored * np.outer(p, p) * (q * (1 - q))[:, None]


def cogc_probability(num_clients: int, p: float, q: float, tolerance: int) -> float:
    """Probability of a step of CoGC, ``P(Bin(N, p q^r) >= N - r)``.

    Exact where every sum has edges of its own: for ``2 r < N``.

    Args:
      num_clients: N.
      p: probability of every uplink.
      q: probability of every edge.
      tolerance: r, from 0 to N - 1.

    Returns:
      The probability.

    Raises:
      ValueError: for a value out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> print(round(analysis.cogc_probability(10, 0.9, 1.0, 2), 3))
      0.93

    References:
      Weng et al. 2025, section IV (outage of the standard decoder).
    """
    clients = _checks.checked_int('num_clients', num_clients, minimum=1)
    failures = _checks.checked_int('tolerance', tolerance, minimum=0)
    complete = (
        float(_checks.checked_rate('p', p))
        * float(_checks.checked_rate('q', q)) ** failures
    )
    return float(stats.binom.sf(clients - failures - 1, clients, complete))


def graph_of(neighbours: ArrayLike, probs: ArrayLike) -> RandomGraph:
    """The graph of int[N, K] neighbours, whose edges are up with one probability or float[N, K]."""
    table = np.asarray(neighbours)
    fine, got = (
        table.ndim == 2 and table.dtype.kind in 'iu',
        f'{table.dtype}{list(table.shape)}',
    )
    _checks.require(fine, 'neighbours', 'be int[N, K]', got)
    size = len(table)
    known = (table >= 0) & (table < size)
    _checks.checked('neighbours', table, known, f'lie in [0, {size - 1}]')
    matrix = np.full((size, size), -1.0)  # no edge
    each = np.broadcast_to(_checks.checked_rate('probs', probs), table.shape)
    np.put_along_axis(matrix, table, each, axis=1)
    np.fill_diagonal(matrix, -1.0)
    alike = np.array_equal(matrix, matrix.T)
    _checks.require(
        alike, 'neighbours', 'name each edge at both of its ends, alike', 'one end'
    )
    matrix = np.maximum(matrix, 0.0)
    ends = np.argwhere(np.triu(matrix))
    degrees = np.arange((matrix > 0).sum(axis=1).max() + 1)
    return RandomGraph(
        matrix,
        ends,
        matrix[tuple(ends.T)],
        1.0 / (1.0 + np.maximum.outer(degrees, degrees)),
    )
