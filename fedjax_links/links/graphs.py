"""Graphs of clients that could hear each other: who is a neighbour of whom.

A graph says which edges there are; which of them are up in a round is a pattern's matter
(`fedjax_links.participation.peers`). All are undirected, and memory is O(N K).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors

_STREAM = 0x4752  # keeps graphs apart from other draws that use the same seed


class Graph(NamedTuple):
    """Neighbours, and the numbers of the edges to them.

    Attributes:
      neighbours: int32[N, K], in increasing order; a client's own id where it has fewer than K.
      edge_ids: int32[N, K], numbers from 0 to E - 1; E where there is no neighbour.
      num_edges: E.
    """

    neighbours: NDArray[np.int32]
    edge_ids: NDArray[np.int32]
    num_edges: int

    @property
    def num_clients(self) -> int:
        """N."""
        return len(self.neighbours)


def from_edges(num_clients: int, edges: ArrayLike) -> Graph:
    """A graph of one's own.

    Args:
      num_clients: N.
      edges: int[E, 2], pairs of clients, each pair once and nobody with itself.

    Returns:
      The graph; edges are numbered as given.

    Raises:
      ValueError: for what are no such pairs.

    Example:
      >>> from fedjax_links.links import graphs
      >>> print(graphs.from_edges(3, [(0, 1), (1, 2)]).neighbours)
      [[1 0]
       [0 2]
       [1 2]]
    """
    checks.static_int('num_clients', num_clients)
    pairs = np.asarray(edges) if np.size(edges) else np.zeros((0, 2), int)
    if (
        pairs.ndim != 2
        or pairs.shape[1] != 2
        or not np.issubdtype(pairs.dtype, np.integer)
    ):
        raise errors.invalid(
            'edges', 'be pairs of clients, int[E, 2]', f'shape {pairs.shape}'
        )
    checks.within('edges', pairs, 0, num_clients - 1)
    own = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if own.size:
        raise errors.invalid('edges', 'join two clients', pairs[own[0]].tolist())
    _, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    if len(first) < len(pairs):
        twice = np.setdiff1d(np.arange(len(pairs)), first)[0]
        raise errors.invalid('edges', 'name each pair once', pairs[twice].tolist())
    return _from_pairs(num_clients, pairs)


def _from_pairs(num_clients: int, pairs: NDArray[np.integer]) -> Graph:
    """A graph of pairs that are known to be different."""
    from_, to = np.concatenate([pairs, pairs[:, ::-1]]).T
    order = np.lexsort((to, from_))
    degrees = np.bincount(from_, minlength=num_clients)
    slots = np.arange(len(order)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    shape = num_clients, int(degrees.max(initial=1))
    checks.fits('num_clients', num_clients, 8.0 * shape[0] * shape[1])
    neighbours = np.repeat(
        np.arange(num_clients, dtype=np.int32)[:, None], shape[1], axis=1
    )
    edge_ids = np.full(shape, len(pairs), np.int32)
    neighbours[from_[order], slots] = to[order]
    edge_ids[from_[order], slots] = order % max(len(pairs), 1)
    return Graph(neighbours, edge_ids, len(pairs))


def ring(num_clients: int, degree: int = 2) -> Graph:
    """Every client with the ``degree / 2`` next ones on each side, around a circle.

    Args:
      num_clients: N, more than ``degree``.
      degree: neighbours of each, even.

    Raises:
      ValueError: for a degree that is odd or does not fit.
    """
    checks.static_int('num_clients', num_clients, minimum=2)
    checks.static_int('degree', degree, maximum=num_clients - 1)
    if degree % 2:
        raise errors.invalid('degree', 'be even', degree)
    clients = np.arange(num_clients)
    steps = np.arange(1, degree // 2 + 1)
    ends = (clients[:, None] + steps) % num_clients
    return _from_pairs(
        num_clients, np.stack([np.repeat(clients, steps.size), ends.ravel()], 1)
    )


def complete(num_clients: int) -> Graph:
    """Everybody with everybody: memory is O(N^2)."""
    checks.static_int('num_clients', num_clients)
    checks.fits('num_clients', num_clients, 40.0 * num_clients**2)
    return _from_pairs(num_clients, np.stack(np.triu_indices(num_clients, 1), axis=1))


def torus(rows: int, columns: int) -> Graph:
    """A grid whose ends meet: client ``r columns + c`` with those above, below and beside it.

    Args:
      rows: at least 3.
      columns: at least 3.

    Raises:
      ValueError: for fewer.
    """
    checks.static_int('rows', rows, minimum=3)
    checks.static_int('columns', columns, minimum=3)
    ids = np.arange(rows * columns).reshape(rows, columns)
    pairs = [
        np.stack([ids, np.roll(ids, -1, axis)], axis=-1).reshape(-1, 2)
        for axis in (0, 1)
    ]
    return _from_pairs(ids.size, np.concatenate(pairs))


def erdos_renyi(num_clients: int, p: float, seed: int = 0) -> Graph:
    """Every pair is an edge with probability p, independently; cost is O(N + E).

    Args:
      num_clients: N.
      p: in [0, 1].
      seed: of the graph.

    Raises:
      ValueError: for a value out of range.
    """
    checks.static_int('num_clients', num_clients)
    checks.within('p', p, 0, 1)
    checks.static_int('seed', seed, minimum=0)
    rng, most = (
        np.random.default_rng([seed, _STREAM]),
        num_clients * (num_clients - 1) // 2,
    )
    chosen = np.sort(rng.choice(most, rng.binomial(most, p), replace=False))
    high = np.floor((1 + np.sqrt(1.0 + 8.0 * chosen)) / 2).astype(
        np.int64
    )  # high > low >= 0
    high -= chosen < high * (high - 1) // 2  # where the root was rounded up
    return _from_pairs(
        num_clients, np.stack([chosen - high * (high - 1) // 2, high], axis=1)
    )


def geometric(num_clients: int, radius: float, seed: int = 0) -> Graph:
    """Clients lie uniformly in the unit square, those within a radius are neighbours.

    Args:
      num_clients: N.
      radius: positive.
      seed: of their places.

    Raises:
      ValueError: for a value out of range.
    """
    from scipy import spatial

    checks.static_int('num_clients', num_clients)
    checks.positive('radius', radius)
    checks.static_int('seed', seed, minimum=0)
    places = np.random.default_rng([seed, _STREAM]).random((num_clients, 2))
    checks.fits('radius', radius, 32.0 * num_clients**2 * min(1.0, np.pi * radius**2))
    pairs = spatial.KDTree(places).query_pairs(radius, output_type='ndarray')
    return _from_pairs(num_clients, pairs)


_ALL = complete, erdos_renyi, from_edges, geometric, ring, torus
GRAPHS: Mapping[str, Callable[..., Graph]] = {
    factory.__name__: factory for factory in _ALL
}
"""``graph`` of `fedjax_links.participation.peers`: given N as ``num_clients`` where they ask."""
