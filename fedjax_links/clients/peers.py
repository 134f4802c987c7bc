"""What links between clients do to what clients keep: averages over neighbours.

Cost follows the edges that are up: clients without any are left out, and those that train side by
side take as many turns as the one with the most. On a mesh every device looks at all rows for the
time of an average; between rounds they stay divided.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_links import base, mixing
from fedjax_links.base import Array, Links, PyTree
from fedjax_links.clients import cohorts
from fedjax_links.clients.cohorts import Cohort
from fedjax_links.core import meshes, tree

_MOST_ENTRIES, _MOST_ROWS = 2**20, 1024


def mix(links: Links, client_tree: PyTree) -> PyTree:
    """One step of gossip: row i becomes ``sum_j M_ij row_j``, M the round's Metropolis matrix.

    Args:
      links: the links of a round.
      client_tree: leaves [N, ...], or a `meshes.TableShard` of them.

    Returns:
      The same; the very tree where the links have no peers.
    """
    if not base.has_peers(links):
        return client_tree
    neighbours, edges = base.peers(links)
    order = jnp.argsort(~edges, axis=1, stable=True)  # those that are up first
    weights = mixing.metropolis_weights(neighbours, edges)
    neighbours, weights = (
        jnp.take_along_axis(a, order, axis=1) for a in (neighbours, weights)
    )
    degrees, rows = jnp.sum(edges, axis=1), meshes.all_gather_table(client_tree)

    def average(i: Array, own: PyTree) -> tuple[PyTree, PyTree]:
        def add(k: Array, total: PyTree) -> PyTree:
            other = jax.tree.map(lambda a: a[neighbours[i, k]], rows)
            return tree.add_scaled(total, weights[i, k], tree.subtract(other, own))

        return (), jax.lax.fori_loop(0, degrees[i], add, own)

    return _map(average, cohorts.make_cohort(degrees > 0), client_tree)[1]


def sum_rows(
    of_row: Callable[[PyTree], PyTree], cohort: Cohort, client_tree: PyTree
) -> PyTree:
    """Sum over the members of a function of their rows, in float32 at least."""
    return _map(lambda i, row: (of_row(row), row), cohort, client_tree)[0]


def _map(
    fn: cohorts.PerClient, cohort: Cohort, client_tree: PyTree
) -> tuple[PyTree, PyTree]:
    rows = jax.tree.leaves(meshes.rows_of(client_tree))
    entries = tree.size(rows) // len(rows[0])
    width = min(max(_MOST_ENTRIES // entries, 1), _MOST_ROWS, cohort.num_clients)
    return cohorts.map_reduce(fn, cohort, client_tree, chunk_size=width)
