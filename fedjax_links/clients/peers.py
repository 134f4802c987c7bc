"""Averages rows of clients over their neighbours.

An edge joins two neighbours. Cost follows the edges that are up: clients without such an edge are
left out, and a chunk of clients takes as many iterations as its client with the most edges. On a
mesh of devices, each device gathers all rows for an average. Between rounds the rows are divided
among the devices.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_links import base, mixing
from fedjax_links.base import Array, Links, PyTree
from fedjax_links.clients import cohorts
from fedjax_links.clients.cohort_loops import PerClient
from fedjax_links.clients.cohorts import Cohort
from fedjax_links.core import meshes, tree

# The most entries and rows of a chunk. Chosen: 4 MiB of float32, and few loops over small rows.
_MOST_ENTRIES = 2**20
_MOST_ROWS = 1024


def mix(links: Links, client_tree: PyTree) -> PyTree:
    """Takes one step of gossip: row i becomes ``sum_j M_ij row_j``.

    M is the round's Metropolis matrix.

    Args:
      links: the links of a round.
      client_tree: leaves [N, ...], or a `meshes.TableShard` of them.

    Returns:
      The mixed rows; the same tree if the links have no peers.
    """
    if not base.has_peers(links):
        return client_tree
    neighbours, edges = base.peers(links)
    # Neighbours whose edge is up come first.
    order = jnp.argsort(~edges, axis=1, stable=True)
    weights = mixing.metropolis_weights(neighbours, edges)
    neighbours = jnp.take_along_axis(neighbours, order, axis=1)
    weights = jnp.take_along_axis(weights, order, axis=1)
    degrees = jnp.sum(edges, axis=1)
    rows = meshes.all_gather_table(client_tree)

    def average(i: Array, row: PyTree) -> tuple[PyTree, PyTree]:
        # row_i + sum_j M_ij (row_j - row_i), over the neighbours whose edge is up.
        def add(k: Array, total: PyTree) -> PyTree:
            other = jax.tree.map(lambda a: a[neighbours[i, k]], rows)
            return tree.add_scaled(total, weights[i, k], tree.subtract(other, row))

        return (), jax.lax.fori_loop(0, degrees[i], add, row)

    return _map_reduce(average, cohorts.make_cohort(degrees > 0), client_tree)[1]


def sum_rows(
    of_row: Callable[[PyTree], PyTree], cohort: Cohort, client_tree: PyTree
) -> PyTree:
    """Sums a function of the members' rows, in float32 at least.

    Args:
      of_row: ``row -> pytree``, the summand of a client.
      cohort: the clients to sum over.
      client_tree: leaves [N, ...], as in `mix`.
    """
    return _map_reduce(lambda i, row: (of_row(row), row), cohort, client_tree)[0]


def _map_reduce(
    fn: PerClient, cohort: Cohort, client_tree: PyTree
) -> tuple[PyTree, PyTree]:
    """Applies `cohorts.map_reduce` with chunks that fit memory."""
    rows = jax.tree.leaves(meshes.rows_of(client_tree))
    row_size = tree.size(rows) // len(rows[0])
    fitting = max(_MOST_ENTRIES // row_size, 1)
    chunk_size = min(fitting, _MOST_ROWS, cohort.num_clients)
    return cohorts.map_reduce(fn, cohort, client_tree, chunk_size=chunk_size)
