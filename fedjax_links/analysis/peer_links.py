"""Links between clients: mixing matrices and their moments, relays, gradient codes.

Edges are independent of each other and of the uplinks here, and a graph is given as
``neighbours``, int[N, K], with the own id where a client has fewer. The weight of an edge hangs on
the degrees at both ends, which are sums of independent edges: all moments are finite sums.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from fedjax_links.analysis import _checks, cohort_sizes, independent_links, second_moments
from fedjax_links.core import errors


class _Edges(NamedTuple):
    """Edges of a graph: their ends i < j, int[E, 2], and probabilities float64[E]."""

    num_clients: int
    ends: np.ndarray
    probs: np.ndarray

    def among(self, i: int, j: int) -> float:
        """P(the edge of i and j is up), zero where there is none."""
        return float(self.probs[(self.ends == sorted((i, j))).all(axis=1)].sum())

    def others(self, client: int, without: tuple[int, ...]) -> np.ndarray:
        """Law of how many edges of a client are up but for those to some clients."""
        at = (self.ends == client).any(axis=1) & ~np.isin(self.ends, without).any(axis=1)
        return cohort_sizes.poisson_binomial_pmf(self.probs[at]) if at.any() else np.ones(1)


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
    return _edges(neighbours, probs)[1:]


# Weights of edges.


def _edges(neighbours: ArrayLike, probs: ArrayLike) -> _Edges:
    table = np.asarray(neighbours)
    if table.ndim != 2 or table.dtype.kind not in 'iu':
        raise errors.invalid('neighbours', 'be int[N, K]', f'{table.dtype}{list(table.shape)}')
    size = len(table)
    if table.size and not 0 <= table.min() <= table.max() < size:
        raise errors.invalid('neighbours', f'lie in [0, {size - 1}]', table.max())
    each = np.broadcast_to(_checks.checked_rate('probs', probs), table.shape)
    dense = np.zeros((size, size))
    np.put_along_axis(dense, table, each, axis=1)
    np.fill_diagonal(dense, 0.0)
    there = np.zeros((size, size), bool)
    np.put_along_axis(there, table, True, axis=1)
    np.fill_diagonal(there, False)
    if (there != there.T).any() or not np.array_equal(dense, dense.T):
        raise errors.invalid('neighbours', 'name each edge at both of its ends, alike', 'one end')
    ends = np.argwhere(np.triu(there))
    return _Edges(size, ends, dense[tuple(ends.T)])


def _differences(graph: _Edges) -> np.ndarray:
    """b_e as columns, float64[N, E]."""
    found = np.zeros((graph.num_clients, len(graph.ends)))
    found[graph.ends[:, 0], np.arange(len(graph.ends))] = 1.0
    found[graph.ends[:, 1], np.arange(len(graph.ends))] = -1.0
    return found


def _laplacian(graph: _Edges, weights: np.ndarray) -> np.ndarray:
    ends = _differences(graph)
    return (ends * weights) @ ends.T


def _weight(one: np.ndarray, other: np.ndarray, least: tuple[int, int], power: int = 1) -> float:
    """``E[(1 + max(d, d'))^-power]`` of degrees with these laws beyond the least they have."""
    length = max(len(one) + least[0], len(other) + least[1])
    below = np.ones(length)
    for law, shift in zip((one, other), least, strict=True):
        below *= np.cumsum(np.pad(law, (shift, length - len(law) - shift)))
    law = np.diff(below, prepend=0.0)
    return float(law @ (1.0 + np.arange(length)) ** -power)


def _mean_weights(graph: _Edges) -> np.ndarray:
    """E[m_e]."""
    laws = [(graph.others(i, (j,)), graph.others(j, (i,))) for i, j in graph.ends]
    return graph.probs * np.array([_weight(*law, (1, 1)) for law in laws])


def _weight_moments(graph: _Edges) -> np.ndarray:
    """E[m_e m_f], float64[E, E]."""
    means = _mean_weights(graph)
    moments = np.outer(means, means)
    for e, (i, j) in enumerate(graph.ends):
        laws = graph.others(i, (j,)), graph.others(j, (i,))
        moments[e, e] = graph.probs[e] * _weight(*laws, (1, 1), power=2)
        for f in range(e):
            one, other = {i, j}, {*graph.ends[f]}
            if one & other:
                found = _moment_of_two(graph, *(one & other), *(one ^ other))
            elif crossing := _crossing(graph, one, other):
                found = _moment_of_four(graph, one, other, crossing)
            else:  # independent
                continue
            moments[e, f] = moments[f, e] = graph.probs[e] * graph.probs[f] * found
    return moments


def _moment_of_two(graph: _Edges, middle: int, one: int, other: int) -> float:
    """Of two edges with an end in common, given that both are up."""
    own, fixed = graph.others(middle, (one, other)), np.ones(1)
    laws = graph.others(one, (middle, other)), graph.others(other, (middle, one))
    third, total = graph.among(one, other), 0.0
    for up, chance in ((0, 1.0 - third), (1, third)):
        for more, prob in enumerate(own):
            by = [_weight(fixed, law, (2 + more, 1 + up)) for law in laws]
            total += chance * float(prob) * by[0] * by[1]
    return total


def _crossing(graph: _Edges, one: set[int], other: set[int]) -> list[tuple[int, int, float]]:
    """The edges between the ends of two edges, with their probabilities."""
    found = [(a, b, graph.among(a, b)) for a in one for b in other]
    return [edge for edge in found if edge[2] > 0]


def _moment_of_four(
    graph: _Edges, one: set[int], other: set[int], crossing: list[tuple[int, int, float]]
) -> float:
    """Of two edges without a common end, given that both are up."""
    clients, total = one | other, 0.0
    laws = {a: graph.others(a, tuple(clients - {a})) for a in clients}
    for ups in np.ndindex(*[2] * len(crossing)):
        chance, least = 1.0, dict.fromkeys(clients, 1)
        for up, (a, b, prob) in zip(ups, crossing, strict=True):
            chance *= prob if up else 1.0 - prob
            least[a] += up
            least[b] += up
        by = [_weight(laws[a], laws[b], (least[a], least[b])) for a, b in (one, other)]
        total += chance * by[0] * by[1]
    return total
