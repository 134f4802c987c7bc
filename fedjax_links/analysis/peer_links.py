"""Links between clients: mixing matrices and their moments, relays, gradient codes.

Edges are independent of each other and of the uplinks here, and a graph is given as
``neighbours``, int[N, K], with the own id where a client has fewer. The weight of an edge hangs on
the degrees at both ends, which are sums of independent edges: all moments are finite sums.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from fedjax_links.analysis import _checks, cohort_sizes, independent_links, second_moments
from fedjax_links.core import errors


class _Edges(NamedTuple):
    """Edges of a graph.

    Attributes:
      num_clients: N.
      ends: int[E, 2], i < j.
      probs: float64[E].
      weight: float64[K + 1, K + 1], of an edge, by the degrees at its ends, at most K.
    """

    num_clients: int
    ends: np.ndarray
    probs: np.ndarray
    weight: np.ndarray

    def among(self, i: int, j: int) -> float:
        """P(the edge of i and j is up), zero where there is none."""
        return float(self.probs[(self.ends == sorted((i, j))).all(axis=1)].sum())

    def degree(self, client: int, without: set[int]) -> np.ndarray:
        """Law of how many edges of a client are up but for those to some clients, [K + 1]."""
        at = (self.ends == client).any(axis=1) & ~np.isin(self.ends, [*without]).any(axis=1)
        law = cohort_sizes.poisson_binomial_pmf(self.probs[at]) if at.any() else np.ones(1)
        return np.pad(law, (0, len(self.weight) - len(law)))


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
    square = up.ndim > 1 and up.shape[-2] == size
    if not square or (up != np.swapaxes(up, -1, -2)).any() or up[..., np.eye(size) > 0].any():
        raise errors.invalid('edges', 'be symmetric [..., N, N], without a diagonal', up.shape)
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
    graph = _edges(neighbours, probs)
    return np.eye(graph.num_clients) - _laplacian(graph, _mean_weights(graph))


def metropolis_map(neighbours: ArrayLike, probs: ArrayLike) -> Callable[[np.ndarray], np.ndarray]:
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
    graph = _edges(neighbours, probs)
    means, moments = _mean_weights(graph), _weight_moments(graph)
    laplacian, ends = _laplacian(graph, means), _differences(graph)

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
    uplinks = second_moments.gossip_map(_checks.checked_probs('probs', probs))
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
    non-negative least squares for who carries whose update, then exactly for how much.

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
    if edges.shape != (size, size) or not np.array_equal(edges, edges.T):
        raise errors.invalid('edge_probs', f'be symmetric, [{size}, {size}]', edges.shape)
    np.fill_diagonal(edges, 1.0)
    carrier, source = np.nonzero(edges * uplink[:, None])
    through = uplink[carrier] * edges[source, carrier]
    constraints = (source == np.arange(size)[:, None]) * through
    if (lost := ~constraints.any(axis=1)).any():
        client = int(np.argmax(lost))
        raise errors.invalid('probs', 'let every update through', f'none of client {client}')
    quadratic = _colrel_variance(uplink, edges, carrier, source)
    values, vectors = np.linalg.eigh(quadratic)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T
    heavy = 1e4 * max(1.0, float(np.sqrt(values[-1])))
    rows, right = np.vstack([root, heavy * constraints]), np.r_[np.zeros(len(root)), [heavy] * size]
    rough, _ = optimize.nnls(rows, right, maxiter=100 * rows.shape[1])
    kept = rough > 1e-9 * rough.max()
    own, by = quadratic[np.ix_(kept, kept)], constraints[:, kept]
    system = np.block([[own, by.T], [by, np.zeros((size, size))]])
    solved = np.linalg.lstsq(system, np.r_[np.zeros(kept.sum()), np.ones(size)], rcond=None)[0]
    weights = np.zeros((size, size))
    weights[carrier[kept], source[kept]] = np.clip(solved[: kept.sum()], 0, None)
    return weights


def colrel_variance(probs: ArrayLike, edge_probs: ArrayLike, weights: ArrayLike) -> float:
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
    uplink, edges = _checks.checked_probs('probs', probs), np.array(edge_probs, np.float64)
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
    complete = float(_checks.checked_rate('p', p)) * float(_checks.checked_rate('q', q)) ** failures
    return float(stats.binom.sf(clients - failures - 1, clients, complete))


def edges_of(neighbours: ArrayLike, probs: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Ends i < j of the edges of a graph, int[E, 2], and their probabilities, float64[E]."""
    graph = _edges(neighbours, probs)
    return graph.ends, graph.probs


# Weights of edges.


def _edges(neighbours: ArrayLike, probs: ArrayLike) -> _Edges:
    table = np.asarray(neighbours)
    if table.ndim != 2 or table.dtype.kind not in 'iu':
        raise errors.invalid('neighbours', 'be int[N, K]', f'{table.dtype}{list(table.shape)}')
    size = len(table)
    if table.size and not 0 <= table.min() <= table.max() < size:
        raise errors.invalid('neighbours', f'lie in [0, {size - 1}]', table.max())
    each = np.broadcast_to(_checks.checked_rate('probs', probs), table.shape)
    dense = np.full((size, size), -1.0)  # no edge
    np.put_along_axis(dense, table, each, axis=1)
    np.fill_diagonal(dense, -1.0)
    if not np.array_equal(dense, dense.T):
        raise errors.invalid('neighbours', 'name each edge at both of its ends, alike', 'one end')
    ends = np.argwhere(np.triu(dense >= 0))
    degrees = np.arange(np.bincount(ends.ravel(), minlength=1).max() + 1)
    weight = 1.0 / (1.0 + np.maximum.outer(degrees, degrees))
    return _Edges(size, ends, dense[tuple(ends.T)], weight)


def _differences(graph: _Edges) -> np.ndarray:
    """b_e as columns, float64[N, E]."""
    first, second = np.eye(graph.num_clients)[:, graph.ends.T].transpose(1, 0, 2)
    return first - second


def _laplacian(graph: _Edges, weights: np.ndarray) -> np.ndarray:
    ends = _differences(graph)
    return (ends * weights) @ ends.T


def _mean_weights(graph: _Edges) -> np.ndarray:
    """E[m_e]."""
    laws = [(graph.degree(i, {j}), graph.degree(j, {i})) for i, j in graph.ends]
    found = [np.roll(one, 1) @ graph.weight @ np.roll(other, 1) for one, other in laws]
    return graph.probs * np.array(found)


def _weight_moments(graph: _Edges) -> np.ndarray:
    """E[m_e m_f], float64[E, E]."""
    means = _mean_weights(graph)
    moments = np.outer(means, means)
    ends = [{*pair} for pair in graph.ends.tolist()]
    for e, f in itertools.combinations_with_replacement(range(len(ends)), 2):
        one, other = ends[e], ends[f]
        between = [{*pair} for pair in itertools.combinations(one | other, 2)]
        crossing = [pair for pair in between if pair not in (one, other) and graph.among(*pair) > 0]
        if one & other or crossing:  # else they are independent
            both_up = graph.probs[e] * (graph.probs[f] if e != f else 1.0)
            moments[e, f] = moments[f, e] = both_up * _joint(graph, one, other, crossing)
    return moments


def _joint(graph: _Edges, one: set[int], other: set[int], crossing: list[set[int]]) -> float:
    """Mean product of the weights of two edges that are up, and edges between their ends."""
    weight, clients, total = graph.weight, one | other, 0.0
    laws = {a: graph.degree(a, clients - {a}) for a in clients}
    probs = np.array([graph.among(*pair) for pair in crossing])
    for ups in itertools.product((False, True), repeat=len(crossing)):
        chance = np.prod(np.where(ups, probs, 1.0 - probs))
        up = [one, *itertools.compress(crossing, ups), *([other] if one != other else [])]
        law = {a: np.roll(laws[a], sum(a in pair for pair in up)) for a in clients}
        if one == other:
            i, j = (law[a] for a in one)
            total += chance * (i @ weight**2 @ j)
        elif shared := one & other:
            i, j, k = (law[a] for a in (*shared, *(one ^ other)))
            total += chance * (i @ ((weight @ j) * (weight @ k)))
        else:
            h, i, j, k = (law[a] for a in (*one, *other))
            total += chance * (h @ weight @ i) * (j @ weight @ k)
    return float(total)
