"""Builds graphs of clients that can send to each other.

A graph lists every edge that can be up. The pattern `fedjax_links.participation.peers` draws which
edges are up in a round. Graphs are undirected. Memory is O(N K), for N clients of up to K
neighbours.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors
from fedjax_links.core.registry import Registry

_STREAM = 0x4752  # keeps graphs apart from other draws that use the same seed

# What building a graph takes at its peak for each neighbour of each client, 64 to 80 bytes as a
# test measures: pairs, lists of edges from both ends, their order, and the graph.
_BYTES_PER_NEIGHBOUR = 80.0


class Graph(NamedTuple):
    """Holds the neighbours of each client, and the number of each edge.

    Attributes:
      neighbours: int32[N, K], each client's neighbours in increasing order. A client with fewer
        than K neighbours fills its row with its own id.
      edge_ids: int32[N, K], the number of the edge to each neighbour, from 0 to E - 1; E where
        there is no neighbour.
      num_edges: E.
    """

    neighbours: NDArray[np.int32]
    edge_ids: NDArray[np.int32]
    num_edges: int

    @property
    def num_clients(self) -> int:
        """Returns N."""
        return len(self.neighbours)


def from_edges(num_clients: int, edges: ArrayLike) -> Graph:
    """Builds a graph from its edges.

    Args:
      num_clients: N.
      edges: int[E, 2], pairs of different clients, each pair once.

    Returns:
      The graph; edges are numbered as given.

    Raises:
      ValueError: if ``edges`` are not pairs of different clients, or hold a pair twice.

    Example:
      >>> from fedjax_links.links import graphs
      >>> print(graphs.from_edges(3, [(0, 1), (1, 2)]).neighbours)
      [[1 0]
       [0 2]
       [1 2]]
    """
    checks.static_int('num_clients', num_clients)
    is_empty = 0 in checks.shape('edges', edges)
    pairs = np.zeros((0, 2), int) if is_empty else np.asarray(edges)
    are_pairs = pairs.ndim == 2 and pairs.shape[1] == 2
    if not are_pairs or not np.issubdtype(pairs.dtype, np.integer):
        got = f'{pairs.dtype}{list(pairs.shape)}'
        raise errors.invalid('edges', 'be pairs of clients, int[E, 2]', got)
    unknown = np.flatnonzero(((pairs < 0) | (pairs >= num_clients)).any(axis=1))
    if unknown.size:
        requirement = f'name clients from 0 to {num_clients - 1}'
        raise errors.invalid('edges', requirement, pairs[unknown[0]].tolist())
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        raise errors.invalid('edges', 'join two clients', pairs[loops[0]].tolist())
    _, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    if len(first) < len(pairs):
        repeated = np.setdiff1d(np.arange(len(pairs)), first)[0]
        raise errors.invalid('edges', 'name each pair once', pairs[repeated].tolist())
    return _from_pairs(num_clients, pairs)


def _from_pairs(num_clients: int, pairs: NDArray[np.integer]) -> Graph:
    """Builds a graph from pairs that are known to be different."""
    # List each edge at both of its ends, by client and then by neighbour.
    client, neighbour = np.concatenate([pairs, np.flip(pairs, axis=1)]).T
    order = np.lexsort((neighbour, client))
    degrees = np.bincount(client, minlength=num_clients)
    first_entries = np.cumsum(degrees) - degrees
    slots = np.arange(len(order)) - np.repeat(first_entries, degrees)
    max_degree = int(degrees.max(initial=1))
    # The result: two int32 arrays [N, K].
    checks.fits('num_clients', num_clients, 8.0 * num_clients * max_degree)
    ids = np.arange(num_clients, dtype=np.int32)
    neighbours = np.repeat(ids[:, None], max_degree, axis=1)
    edge_ids = np.full((num_clients, max_degree), len(pairs), np.int32)
    neighbours[client[order], slots] = neighbour[order]
    # The second half of the list repeats the edges from their other ends.
    edge_ids[client[order], slots] = order % max(len(pairs), 1)
    return Graph(neighbours, edge_ids, len(pairs))


def ring(num_clients: int, degree: int = 2) -> Graph:
    """Joins each client with its ``degree / 2`` nearest clients on each side of a circle.

    Args:
      num_clients: N, at least 3 and more than ``degree``.
      degree: number of neighbours of each client, even.

    Raises:
      ValueError: for a degree that is odd or not below N, or a graph larger than the memory.
    """
    checks.static_int('num_clients', num_clients, minimum=3)
    checks.static_int('degree', degree, maximum=num_clients - 1)
    if degree % 2:
        raise errors.invalid('degree', 'be even', degree)
    _check_memory('num_clients', num_clients, num_clients * degree)
    clients = np.arange(num_clients)
    steps = np.arange(1, degree // 2 + 1)
    ends = (clients[:, None] + steps) % num_clients
    pairs = np.stack([np.repeat(clients, steps.size), ends.ravel()], axis=1)
    return _from_pairs(num_clients, pairs)


def complete(num_clients: int) -> Graph:
    """Joins all pairs of clients; memory is O(N^2)."""
    checks.static_int('num_clients', num_clients)
    _check_memory('num_clients', num_clients, num_clients**2)
    pairs = np.stack(np.triu_indices(num_clients, 1), axis=1)
    return _from_pairs(num_clients, pairs)


def torus(rows: int, columns: int) -> Graph:
    """Joins each client with its four neighbours on a grid whose opposite sides meet.

    Client ``r * columns + c`` lies in row r and column c.

    Args:
      rows: at least 3.
      columns: at least 3.

    Raises:
      ValueError: for fewer rows or columns, or a graph larger than the memory.
    """
    checks.static_int('rows', rows, minimum=3)
    checks.static_int('columns', columns, minimum=3)
    _check_memory('rows', rows, 4 * rows * columns)
    ids = np.arange(rows * columns).reshape(rows, columns)
    pairs = [
        np.stack([ids, np.roll(ids, -1, axis)], axis=-1).reshape(-1, 2)
        for axis in (0, 1)
    ]
    return _from_pairs(ids.size, np.concatenate(pairs))


def erdos_renyi(num_clients: int, p: float, seed: int = 0) -> Graph:
    """Joins each pair of clients independently with probability p; cost is O(N + E).

    Args:
      num_clients: N.
      p: probability of an edge, in [0, 1].
      seed: integer in ``[0, 2**32)``.

    Raises:
      ValueError: for a value out of range, or a graph larger than the memory.
    """
    checks.static_int('num_clients', num_clients)
    checks.number_within('p', p, 0, 1)
    checks.seed('seed', seed)
    rng = np.random.default_rng([seed, _STREAM])
    num_pairs = num_clients * (num_clients - 1) // 2
    num_edges = rng.binomial(num_pairs, p)
    _check_memory('p', p, 2 * num_edges)
    if 50 * num_edges > num_pairs:
        # To choose at least one pair in fifty, NumPy shuffles the int64 numbers of all pairs.
        checks.fits('p', p, 8.0 * (num_pairs + num_edges))
    pair_ids = np.sort(rng.choice(num_pairs, num_edges, replace=False))
    # Pair (low, high), low < high, has the id high (high - 1) / 2 + low.
    high = np.floor((1 + np.sqrt(1.0 + 8.0 * pair_ids)) / 2).astype(np.int64)
    was_rounded_up = pair_ids < high * (high - 1) // 2
    high -= was_rounded_up
    low = pair_ids - high * (high - 1) // 2
    return _from_pairs(num_clients, np.stack([low, high], axis=1))


def geometric(num_clients: int, radius: float, seed: int = 0) -> Graph:
    """Joins clients that lie within a radius, at uniform positions in the unit square.

    Args:
      num_clients: N.
      radius: positive.
      seed: of the positions, integer in ``[0, 2**32)``.

    Raises:
      ValueError: for a value out of range, or a graph larger than the memory.
    """
    from scipy import spatial

    checks.static_int('num_clients', num_clients)
    checks.positive_number('radius', radius)
    checks.seed('seed', seed)
    positions = np.random.default_rng([seed, _STREAM]).random((num_clients, 2))
    # The probability that two uniform positions in the square are within the radius; 1 bounds the
    # probability for a radius of 1 or more.
    p = 1.0
    if radius < 1:
        p = np.pi * radius**2 - 8 / 3 * radius**3 + radius**4 / 2
    _check_memory('radius', radius, p * num_clients**2)
    pairs = spatial.KDTree(positions).query_pairs(radius, output_type='ndarray')
    return _from_pairs(num_clients, pairs)


def _check_memory(argument: str, value: float, num_neighbours: float) -> None:
    """Raises unless a graph can be built with so many neighbours of all clients together."""
    checks.fits(argument, value, _BYTES_PER_NEIGHBOUR * num_neighbours)


GRAPHS: Mapping[str, Callable[..., Graph]] = Registry(
    {
        'complete': complete,
        'erdos_renyi': erdos_renyi,
        'from_edges': from_edges,
        'geometric': geometric,
        'ring': ring,
        'torus': torus,
    }
)
"""Choices for ``graph`` of `fedjax_links.participation.peers`. A function with an argument
``num_clients`` is called with N."""
