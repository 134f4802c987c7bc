"""Computes mixing matrices of links between clients, and the moments of these matrices.

Edges are independent of each other and of the uplinks here. A graph is an array ``neighbours``,
int[N, K]. A client with fewer than K neighbours fills its row with its own id. A client's degree is
its number of edges that are up, a sum of independent edges. The weight of an edge depends on the
degrees at both ends. So all moments are finite sums.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, cohort_sizes, independent_links
from fedjax_links.core import errors


class RandomGraph(NamedTuple):
    """Holds clients and the edges between them, which are up independently.

    Attributes:
      matrix: float64[N, N], symmetric, P(the edge of i and j is up); zero without an edge.
      ends: int[E, 2], the clients i < j of each edge.
      probs: float64[E], P(the edge is up).
      weight: float64[D + 1, D + 1], weight of an edge by the degrees at its ends; D is the
        largest degree.
    """

    matrix: np.ndarray
    ends: np.ndarray
    probs: np.ndarray
    weight: np.ndarray

    @property
    def differences(self) -> np.ndarray:
        """Returns b_e, the difference of the ends' unit vectors, as columns: float64[N, E]."""
        units = np.eye(len(self.matrix))
        first, second = self.ends.T
        return units[:, first] - units[:, second]

    def mean_product(self, *edges: np.ndarray) -> float:
        """Computes the mean product of the weights of one edge or two.

        An edge that is down has weight zero, so only states in which all ``edges`` are up
        count. A state says which edges between the ends of ``edges`` are up. Given the state,
        the degrees at the ends are independent. Each degree is the client's number of other
        edges that are up, plus a constant.

        Args:
          *edges: int[2], the ends of each edge.
        """
        clients = np.unique(edges)
        between = np.array([*itertools.combinations(clients, 2)])
        is_up, state_probs = self._states(between, edges)

        # In each state, shift the laws by the number of edges that are up. A degree below this
        # number wraps around to a number of outer edges that has probability zero.
        laws = self._outer_degree_laws(clients)
        num_degrees = len(self.weight)
        num_up = is_up @ (between[:, :, None] == clients).any(axis=1)
        outer_degrees = (np.arange(num_degrees) - num_up[..., None]) % num_degrees
        degree_laws = np.take_along_axis(laws[None], outer_degrees, axis=2)

        # Sum over states and degrees. The axis of states comes after the axes of clients.
        state_axis = len(clients)
        terms: list[Any] = [state_probs, [state_axis]]
        for axis in range(state_axis):
            terms += [degree_laws[:, axis], [state_axis, axis]]
        for edge in edges:
            terms += [self.weight, np.searchsorted(clients, edge).tolist()]
        return float(np.einsum(*terms, [], optimize=True))

    def _states(
        self, between: np.ndarray, edges: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lists the states of some pairs of clients in which certain edges are up.

        Args:
          between: int[B, 2], the pairs.
          edges: int[2] each, the pairs whose edge must be up.

        Returns:
          int[S, B], 1 where the edge of a pair is up; and float64[S], the probabilities.
        """
        is_up = np.array([*itertools.product([0, 1], repeat=len(between))])
        for edge in edges:
            is_edge = (between == edge).all(axis=1)
            is_up = is_up[is_up[:, is_edge].all(axis=1)]
        probs = self.matrix[tuple(between.T)]
        return is_up, np.where(is_up, probs, 1.0 - probs).prod(axis=1)

    def _outer_degree_laws(self, clients: np.ndarray) -> np.ndarray:
        """Computes the laws of clients' degrees without the edges between them: [C, D + 1]."""
        probs = self.matrix[clients]
        probs[:, clients] = 0.0
        # A client has at most D edges, so further entries have probability zero.
        max_degree = len(self.weight) - 1
        probs = np.sort(probs, axis=1)[:, -max_degree:]
        return np.array([cohort_sizes.poisson_binomial_pmf(row) for row in probs])


def metropolis_matrix(edges: ArrayLike) -> np.ndarray:
    """Computes the Metropolis matrix of the edges that are up.

    ``M_ij = 1 / (1 + max(d_i, d_j))`` if the edge of i and j is up, with the clients' degrees d.
    The diagonal makes the rows sum to one.

    Args:
      edges: bool[..., N, N], symmetric, with an empty diagonal.

    Returns:
      float64[..., N, N], symmetric and doubly stochastic.

    Raises:
      ValueError: if ``edges`` is not boolean, square and symmetric with an empty diagonal.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.metropolis_matrix([[False, True], [True, False]]))
      [[0.5 0.5]
       [0.5 0.5]]
    """
    up = _checks.checked_masks('edges', edges)
    size = up.shape[-1]
    is_square = up.ndim > 1 and up.shape[-2] == size
    got = f'shape {list(up.shape)}'
    _checks.require(is_square, 'edges', 'have shape [..., N, N]', got)
    one_way = np.argwhere(up > np.swapaxes(up, -1, -2))
    if len(one_way):
        first, second = one_way[0, -2:]
        got = f'an edge at client {first} that is none at client {second}'
        raise errors.invalid('edges', 'be symmetric', got)
    loops = np.argwhere(up & np.eye(size, dtype=bool))
    if len(loops):
        got = f'an edge of client {loops[0, -1]} with itself'
        raise errors.invalid('edges', 'have an empty diagonal', got)
    degrees = up.sum(axis=-1)
    matrix = up / (1.0 + np.maximum(degrees[..., :, None], degrees[..., None, :]))
    return matrix + np.eye(size) * (1.0 - matrix.sum(axis=-1))[..., None, :]


def expected_metropolis_matrix(neighbours: ArrayLike, probs: ArrayLike) -> np.ndarray:
    """Computes ``E[M]``, the mean Metropolis matrix of independent edges, exactly.

    Costs O(E D^2) operations for the largest degree D.

    Args:
      neighbours: int[N, K].
      probs: P(an edge is up), one number or float[N, K], the same at both ends.

    Returns:
      float64[N, N].

    Raises:
      ValueError: if ``neighbours`` is no graph or ``probs`` no probabilities.

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
    """Returns the linear map ``H -> E[M H M]`` over independent edges, exactly.

    ``M = I - sum_e m_e b_e b_e^T``. Here m_e is the weight of edge e, zero while the edge is down.
    b_e is the difference of the unit vectors of the ends of e. So the map needs ``E[m_e m_f]`` for
    all pairs of edges. Two edges e and f depend on each other if they share a client, and through
    the edges between their ends, at most four.

    Args:
      neighbours: int[N, K].
      probs: as in `expected_metropolis_matrix`.

    Returns:
      The map of a float64[N, N] to another, in O(N E^2) operations. It is the matrix
      ``E[M kron M]`` in fewer numbers.

    Raises:
      ValueError: as `expected_metropolis_matrix`.
    """
    return _metropolis_map(graph_of(neighbours, probs))


def _metropolis_map(graph: RandomGraph) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the map of `metropolis_map` for a graph."""
    means = np.array([graph.mean_product(edge) for edge in graph.ends])
    moments = np.outer(means, means)
    b = graph.differences
    laplacian = (b * means) @ b.T
    edge_ids = range(len(graph.ends))
    for e, f in itertools.combinations_with_replacement(edge_ids, 2):
        first = graph.ends[e]
        second = graph.ends[f]
        # Two edges are dependent if an edge of the graph lies between their ends. This includes
        # edges that share a client, as then the two edges themselves lie between the ends.
        if graph.matrix[np.ix_(first, second)].any():
            moments[e, f] = moments[f, e] = graph.mean_product(first, second)

    def apply(moment: np.ndarray) -> np.ndarray:
        # E[M H M] = H - L H - H L + sum_ef E[m_e m_f] b_e (b_e^T H b_f) b_f^T, L = I - E[M].
        both = b @ (moments * (b.T @ moment @ b)) @ b.T
        return np.asarray(moment - laplacian @ moment - moment @ laplacian + both)

    return apply


def semi_decentralised_map(
    probs: ArrayLike, neighbours: ArrayLike, edge_probs: ArrayLike
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the linear map ``H -> E[W M H M W]`` of a round of S2S.

    The round is gossip over edges, M, and then the mean of the clients whose upload arrives, W.

    Args:
      probs: float[N], probabilities of the uplinks.
      neighbours: int[N, K].
      edge_probs: as in `expected_metropolis_matrix`.

    Returns:
      The map of a symmetric float64[N, N].

    Raises:
      ValueError: if ``neighbours`` is no graph, for values that are no probabilities, or for
        another number of probabilities than clients.
    """
    graph = graph_of(neighbours, edge_probs, argument='edge_probs')
    uplink_probs = _checked_uplinks(probs, len(graph.matrix))
    edge_map = _metropolis_map(graph)
    uplink_map = cohort_sizes.gossip_map(uplink_probs)
    return lambda moment: uplink_map(edge_map(moment))


def semi_decentralised_rate(
    probs: ArrayLike, neighbours: ArrayLike, edge_probs: ArrayLike
) -> float:
    """Computes by how much a round of S2S contracts the clients' models towards their mean.

    The rate is the least number with ``E ||W M y - mean||^2 <= rate ||y - mean||^2`` for all y. As
    ``W W = W``, it is the largest eigenvalue of ``E[M W M]`` on vectors of mean zero. Without edges
    it is `mixing_rate`.

    Args:
      probs: float[N], probabilities of the uplinks; zeros for gossip alone.
      neighbours: int[N, K].
      edge_probs: as in `expected_metropolis_matrix`.

    Returns:
      The rate, in [0, 1].

    Raises:
      ValueError: if ``neighbours`` is no graph, for values that are no probabilities, or for
        another number of probabilities than clients.

    Example:
      >>> from fedjax_links import analysis
      >>> ring = [[1, 3], [0, 2], [1, 3], [0, 2]]
      >>> for edge_prob in (0.0, 0.5, 1.0):
      ...     print(round(analysis.semi_decentralised_rate([0.2] * 4, ring, edge_prob), 3))
      0.93
      0.504
      0.103
    """
    graph = graph_of(neighbours, edge_probs, argument='edge_probs')
    uplink_probs = _checked_uplinks(probs, len(graph.matrix))
    edge_map = _metropolis_map(graph)
    moment = edge_map(independent_links.expected_mixing_matrix(uplink_probs))
    values = np.linalg.eigvalsh(moment - 1.0 / len(moment))
    return float(np.clip(values[-1], 0.0, 1.0))


def _checked_uplinks(probs: ArrayLike, num_clients: int) -> np.ndarray:
    """Returns probabilities of the uplinks, one for each client of a graph."""
    uplink_probs = _checks.checked_probs('probs', probs)
    requirement = f'have one entry for each of the {num_clients} clients of the graph'
    has_all = len(uplink_probs) == num_clients
    _checks.require(has_all, 'probs', requirement, f'shape {list(uplink_probs.shape)}')
    return uplink_probs


def graph_of(
    neighbours: ArrayLike, probs: ArrayLike, *, argument: str = 'probs'
) -> RandomGraph:
    """Builds the graph of neighbours.

    Args:
      neighbours: int[N, K].
      probs: P(an edge is up), one number or float[N, K], the same at both ends.
      argument: the name of ``probs`` in errors.

    Returns:
      The graph.

    Raises:
      ValueError: if ``neighbours`` is no graph or ``probs`` no probabilities.
    """
    table = _checks.as_array('neighbours', neighbours, 'be int[N, K]')
    is_table = table.ndim == 2 and table.dtype.kind in 'iu'
    got = f'{table.dtype}{list(table.shape)}'
    _checks.require(is_table, 'neighbours', 'be int[N, K]', got)
    size = len(table)
    _checks.require(size > 0, 'neighbours', 'have a row for each client', got)
    known = (table >= 0) & (table < size)
    _checks.checked('neighbours', table, known, f'lie in [0, {size - 1}]')
    # -1 stands for "no edge", since the probability of an edge may be zero.
    matrix = np.full((size, size), -1.0)
    edge_probs = _checks.checked_shape(
        argument,
        _checks.checked_rate(argument, probs),
        table.shape,
        f'have shape {list(table.shape)}',
    )
    np.put_along_axis(matrix, table, edge_probs, axis=1)
    np.fill_diagonal(matrix, -1.0)
    _check_both_ends(table, edge_probs, matrix, argument)
    matrix = np.maximum(matrix, 0.0)
    ends = np.argwhere(np.triu(matrix))
    # Metropolis weights 1 / (1 + max(d_i, d_j)) of all degrees that can occur.
    degrees = np.arange((matrix > 0).sum(axis=1).max() + 1)
    return RandomGraph(
        matrix=matrix,
        ends=ends,
        probs=matrix[tuple(ends.T)],
        weight=1.0 / (1.0 + np.maximum.outer(degrees, degrees)),
    )


def _check_both_ends(
    table: np.ndarray, edge_probs: np.ndarray, matrix: np.ndarray, argument: str
) -> None:
    """Raises unless each edge is named at both of its ends, with one probability.

    Args:
      table: int[N, K], the neighbours; a client's own id names no edge.
      edge_probs: float64[N, K], probabilities of the edges.
      matrix: float64[N, N], the same probabilities by client and neighbour; -1 without an edge.
      argument: the name of ``edge_probs`` in errors.
    """
    clients = np.arange(len(table))[:, None]
    is_edge = table != clients
    other_end_probs = matrix[table, clients]

    one_ended = np.argwhere(is_edge & (other_end_probs < 0))
    if len(one_ended):
        client, column = one_ended[0]
        got = f'{table[client, column]} at client {client} alone'
        raise errors.invalid('neighbours', 'name each edge at both of its ends', got)

    unequal = np.argwhere(is_edge & (edge_probs != other_end_probs))
    if len(unequal):
        client, column = unequal[0]
        neighbour = table[client, column]
        prob = edge_probs[client, column]
        other_prob = other_end_probs[client, column]
        requirement = 'have one number for each edge, the same at both ends'
        got = f'{prob} and {other_prob} for clients {client} and {neighbour}'
        raise errors.invalid(argument, requirement, got)
