"""Finds the clients that compute in a round, and runs a function for each of them.

The clients that compute are the members of a cohort. A mask of all clients is compacted into the
list of the members' ids. Links that name a cohort have this list already. Members run in chunks of
fixed width until all are done. So cost follows the number of members, there is no capacity limit,
and no client is ever dropped. What a chunk's empty slots compute is discarded by selection.

On a mesh, inside a `jax.shard_map` over an axis ``'clients'``, each device runs one chunk per
iteration. All devices then add the contributions in the order of chunks. A table has a row for each
client. If the table is sharded, a device stores the new rows of its shard (`meshes.TableShard`),
otherwise all new rows. A row travels to the device that trains its client. Chunks have one width on
any mesh, so all meshes give the same bits. An algorithm that uses `map_reduce` need not know where
it runs.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.base import Array, CohortLinkSample, Links, PyTree
from fedjax_links.clients import chunk_widths, cohort_loops
from fedjax_links.clients.chunk_widths import ChunkSize
from fedjax_links.clients.cohort_loops import PerClient
from fedjax_links.clients.cohort_rows import Cohort, gather, scatter, weighted_sum
from fedjax_links.core import meshes, tree

__all__ = [
    'Cohort',
    'all_clients',
    'assign',
    'computing',
    'count_participants',
    'delivering',
    'gather',
    'make_cohort',
    'map_reduce',
    'num_members',
    'participating',
    'receiving',
    'scatter',
    'weighted_sum',
]

# The chunk size of functions that do not train. Not measured.
ROWS_AT_ONCE = 16
# On a mesh a chunk is cut into this many parts. A part is what a device runs at a time. It must not
# depend on the number of devices, so that meshes of any size give the same bits. Not measured.
_PARTS_ON_MESH = 8


def make_cohort(mask: Array) -> Cohort:
    """Returns the cohort of the clients in a mask.

    Args:
      mask: bool[N].

    Returns:
      A cohort of N slots with the members first.
    """
    num_clients = mask.shape[0]
    rank = jnp.cumsum(mask, dtype=jnp.int32)
    ids = jnp.full(num_clients, num_clients, jnp.int32)
    slots = jnp.where(mask, rank - 1, num_clients)
    ids = ids.at[slots].set(jnp.arange(num_clients, dtype=jnp.int32), mode='drop')
    return Cohort(ids=ids, size=rank[-1], num_clients=num_clients)


def all_clients(num_clients: int) -> Cohort:
    """Returns the cohort of all clients; the compiler knows its size."""
    ids = jnp.arange(num_clients, dtype=jnp.int32)
    return Cohort(ids=ids, size=num_clients, num_clients=num_clients, is_everyone=True)


def participating(links: Links) -> Cohort:
    """Returns the participating clients: downlink, compute and uplink are available.

    Args:
      links: the links of a round. If the links name a cohort, that cohort is returned: B slots, at
        no cost.
    """
    return _named_or_masked(links, base.participants)


def delivering(links: Links) -> Cohort:
    """Returns the clients that can train and whose result arrives, as `base.delivers`."""
    return _named_or_masked(links, base.delivers)


def receiving(links: Links) -> Cohort:
    """Returns the clients that deliver and receive the server's answer."""
    return _named_or_masked(
        links, lambda links: base.delivers(links) & base.receives(links)
    )


def _named_or_masked(links: Links, mask_of: Callable[[Links], Array]) -> Cohort:
    """Returns the cohort that the links name, or else the cohort of a mask."""
    if isinstance(links, CohortLinkSample):
        return Cohort(ids=links.ids, size=links.size, num_clients=links.num_clients)
    return make_cohort(mask_of(links))


def computing(links: Links) -> Cohort:
    """Returns the clients that can train: all, unless the links have a compute mask."""
    if base.is_duplex(links):
        return make_cohort(base.computes(links))
    return all_clients(links.mask.shape[0])


def count_participants(links: Links, counts: Array) -> Array:
    """Adds one to the entry of each participant in ``counts``, int32[N].

    The cost is O(B) if the links name a cohort of B slots.
    """
    if isinstance(links, CohortLinkSample):
        return counts.at[links.ids].add(1, mode='drop', indices_are_sorted=True)
    return counts + base.participants(links)


def num_members(cohort: Cohort) -> Array:
    """Returns the number of members, int32[], hidden from the compiler.

    If the compiler knew the number, it would round divisions by the number differently.
    """
    return meshes.barrier(jnp.asarray(cohort.size, jnp.int32))


def map_reduce(
    fn: PerClient,
    cohort: Cohort,
    client_tree: PyTree,
    *,
    chunk_size: ChunkSize = ROWS_AT_ONCE,
) -> tuple[PyTree, PyTree]:
    """Applies ``fn`` to each member, sums the contributions and updates the table.

    Args:
      fn: ``(client id, the client's row) -> (contribution, new row)``, written for one
        client. The new row has the structure of the old row. Contribution and rows may be ``()``.
      cohort: who takes part.
      client_tree: leaves [N, ...], the table of rows, or a `meshes.TableShard` of it; ``()`` if
        clients keep nothing.
      chunk_size: how many members run in parallel; on a mesh each device runs an eighth of this
        number. Memory holds this many contributions. The default is for functions that do not
        train. Of several widths, chunks take the ones that leave few slots empty. On a mesh, and
        where the compiler knows the cohort's size, the largest width decides how many chunks there
        are, and all have the same width.

    Returns:
      The sum of the contributions (zero for an empty cohort), in float32 at least, and the updated
      table.
    """
    most_at_once = chunk_widths.largest(chunk_size)
    if meshes.in_shard_map():
        width = math.ceil(most_at_once / _PARTS_ON_MESH)
        return cohort_loops.in_chunks(fn, cohort, client_tree, width)
    # Without a loop the compiler would round otherwise, see `hides_size`.
    is_known = isinstance(cohort.size, int) and not cohort_loops.hides_size(cohort)
    if is_known and cohort.size <= most_at_once:
        return _all_at_once(fn, cohort, client_tree)
    if isinstance(chunk_size, tuple) and not is_known:
        return cohort_loops.in_chunks_of_widths(fn, cohort, client_tree, chunk_size)
    if most_at_once == 1:
        return cohort_loops.one_by_one(fn, cohort, client_tree)
    return cohort_loops.in_chunks(fn, cohort, client_tree, most_at_once)


def _all_at_once(
    fn: PerClient, cohort: Cohort, client_tree: PyTree
) -> tuple[PyTree, PyTree]:
    """Runs `map_reduce` for all slots of a cohort in parallel."""
    rows = client_tree if cohort.is_everyone else gather(cohort, client_tree)
    contributions, new_rows = jax.vmap(fn)(cohort.ids, rows)
    new_rows = tree.cast_like(new_rows, client_tree)
    table = new_rows if cohort.is_everyone else scatter(cohort, client_tree, new_rows)
    return weighted_sum(cohort, contributions), table


def assign(cohort: Cohort, client_tree: PyTree, value: PyTree) -> PyTree:
    """Sets the members' rows to one value; cost follows the members.

    Args:
      cohort: K slots.
      client_tree: leaves [N, ...], or a `meshes.TableShard` of them.
      value: leaves [...].

    Returns:
      Leaves [N, ...].
    """
    if isinstance(client_tree, meshes.TableShard):
        members = jnp.zeros(cohort.num_clients, bool)
        members = members.at[cohort.ids].set(True, mode='drop', indices_are_sorted=True)
        return tree.fill_rows(members, tree.cast_like(value, client_tree), client_tree)
    if isinstance(cohort.size, int):
        return scatter(cohort, client_tree, tree.broadcast(value, cohort.size))
    width = min(ROWS_AT_ONCE, cohort.ids.shape[0])

    def set_row(client: Array, row: PyTree) -> tuple[PyTree, PyTree]:
        return (), value

    _, table = cohort_loops.in_chunks(set_row, cohort, client_tree, width)
    return table
