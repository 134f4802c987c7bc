"""Who computes: from a mask over all clients to a loop over the active ones.

A mask is compacted into a list of client ids (links that name a cohort bring it along), and the
list is worked off in chunks of fixed width, as many as it takes. Cost follows the number of
members, whatever it is; no capacity is guessed and nobody is dropped. A chunk's empty slots compute
something that is then discarded by selection.

On a mesh, inside a `jax.shard_map` over an axis ``'clients'``, every device takes a chunk in each
turn. All of them then add what these chunks contributed in the order of chunks, and store the new
rows: all of them or, of a table that is divided (`meshes.TableShard`), those that a device keeps.
Rows are brought to whoever trains their clients. Chunks are as wide on any mesh, so all meshes give
the same bits; an algorithm that is written with `map_reduce` need not know where it runs.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.base import Array, CohortLinkSample, Links, PyTree
from fedjax_links.core import memory, meshes, tree

PerClient = Callable[[Array, PyTree], tuple[PyTree, PyTree]]
"""``(client id, the client's row) -> (contribution, new row)``."""

_Carry = tuple[PyTree, PyTree, tuple[PyTree, ...]]

ROWS_AT_ONCE = 16  # are written side by side where nobody trains
_MESH_SHARES = (
    8  # parts of a chunk that take turns on a mesh, of at most so many devices at best
)


class Cohort(NamedTuple):
    """Client ids in increasing order, packed to the front.

    Attributes:
      ids: int32[K]; an empty slot holds N, one past the last client.
      size: number of members, int32[] or a Python int where the trace knows it.
      num_clients: N.
      is_everyone: whether the slots are all clients in order, so that rows need not be looked up.
    """

    ids: Array
    size: Array | int
    num_clients: int
    is_everyone: bool = False


def make_cohort(mask: Array) -> Cohort:
    """The cohort of the clients in a mask.

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


def everyone(num_clients: int) -> Cohort:
    """The cohort of all clients; its size is known to the compiler."""
    ids = jnp.arange(num_clients, dtype=jnp.int32)
    return Cohort(ids=ids, size=num_clients, num_clients=num_clients, is_everyone=True)


def participating(links: Links) -> Cohort:
    """The cohort of the clients that can hear the server, train from its model and deliver.

    Args:
      links: the links of a round. Where they name a cohort, this is it: B slots, at no cost.
    """
    return _named_or(links, base.participants)


def delivering(links: Links) -> Cohort:
    """The cohort of the clients that train from a model of their own and whose result arrives."""
    return _named_or(links, base.delivers)


def answered(links: Links) -> Cohort:
    """The cohort of those that deliver and hear what the server then says."""
    return _named_or(links, lambda links: base.delivers(links) & base.receives(links))


def _named_or(links: Links, mask_of: Callable[[Links], Array]) -> Cohort:
    """The cohort that links name; of others, that of a mask."""
    if isinstance(links, CohortLinkSample):
        return Cohort(ids=links.ids, size=links.size, num_clients=links.num_clients)
    return make_cohort(mask_of(links))


def computing(links: Links) -> Cohort:
    """The cohort of the clients able to train: everyone, unless the links say otherwise."""
    if base.tells_directions(links):
        return make_cohort(base.computes(links))
    return everyone(links.mask.shape[0])


def count(links: Links, counts: Array) -> Array:
    """``counts`` int32[N], one more for every participant; cost follows a cohort that is named."""
    if isinstance(links, CohortLinkSample):
        return counts.at[links.ids].add(1, mode='drop', indices_are_sorted=True)
    return counts + base.participants(links)


def num_members(cohort: Cohort) -> Array:
    """int32[], the number of members, which the compiler does not know: it divides by it."""
    return meshes.barrier(jnp.asarray(cohort.size, jnp.int32))


def gather(cohort: Cohort, client_tree: PyTree) -> PyTree:
    """Rows of the cohort's slots.

    Args:
      cohort: K slots.
      client_tree: leaves [N, ...].

    Returns:
      Leaves [K, ...]; an empty slot repeats the last client's row and must not be used.
    """
    return jax.tree.map(
        lambda a: jnp.take(a, cohort.ids, axis=0, mode='clip'), client_tree
    )


def scatter(cohort: Cohort, client_tree: PyTree, new_rows: PyTree) -> PyTree:
    """``client_tree`` with the members' rows replaced.

    Args:
      cohort: K slots.
      client_tree: leaves [N, ...].
      new_rows: leaves [K, ...]; those of empty slots are dropped.

    Returns:
      Leaves [N, ...].
    """

    def put(a: Array, r: Array) -> Array:
        return a.at[cohort.ids].set(
            r.astype(a.dtype), mode='drop', indices_are_sorted=True
        )

    return jax.tree.map(put, client_tree, new_rows)


def weighted_sum(
    cohort: Cohort, slot_tree: PyTree, weights: Array | None = None
) -> PyTree:
    """Sum over the members of ``weight * row``.

    Args:
      cohort: K slots, the members first.
      slot_tree: leaves [K, ...].
      weights: float[K], one by default.

    Returns:
      Leaves [...], in float32 at least. Empty slots are selected away before they are weighted:
      0 x NaN is NaN.
    """
    num_slots = cohort.ids.shape[0]
    has_empty_slots = not (isinstance(cohort.size, int) and cohort.size == num_slots)
    member = jnp.arange(num_slots) < cohort.size

    def leaf_sum(a: Array) -> Array:
        dtype = tree.sum_dtype(a.dtype)
        kept = (
            jnp.where(tree.expand_dims_like(member, a), a, jnp.zeros_like(a))
            if has_empty_slots
            else a
        )
        if weights is not None:
            kept = kept * tree.expand_dims_like(weights.astype(dtype), a)
        return jnp.sum(kept, axis=0, dtype=dtype)

    return jax.tree.map(leaf_sum, slot_tree)


def map_reduce(
    fn: PerClient,
    cohort: Cohort,
    client_tree: PyTree,
    *,
    chunk_size: int = ROWS_AT_ONCE,
) -> tuple[PyTree, PyTree]:
    """Runs ``fn`` for every member, sums what it contributes, stores the rows it returns.

    Args:
      fn: ``(client id, the client's row) -> (contribution, new row)``, written for one client. The
        new row has the structure of the row; both may be ``()``.
      cohort: who takes part.
      client_tree: leaves [N, ...], the table the rows come from, or a `meshes.TableShard` of it;
        ``()`` if clients keep nothing.
      chunk_size: members that run side by side, on a mesh an eighth of it per device. Memory is
        this many contributions. The default is for rows that nobody trains.

    Returns:
      The sum of the contributions (zero for an empty cohort), in float32 at least, and the updated
      table.
    """
    if meshes.in_shard_map():
        return _in_chunks(fn, cohort, client_tree, math.ceil(chunk_size / _MESH_SHARES))
    if (
        isinstance(cohort.size, int)
        and cohort.size <= chunk_size
        and not _is_alike(cohort)
    ):
        rows = client_tree if cohort.is_everyone else gather(cohort, client_tree)
        contributions, new_rows = jax.vmap(fn)(cohort.ids, rows)
        new_rows = tree.cast_like(new_rows, client_tree)
        table = (
            new_rows if cohort.is_everyone else scatter(cohort, client_tree, new_rows)
        )
        return weighted_sum(cohort, contributions), table
    if chunk_size == 1:
        return _one_by_one(fn, cohort, client_tree)
    return _in_chunks(fn, cohort, client_tree, chunk_size)


def _is_alike(cohort: Cohort) -> bool:
    """Whether its loop is compiled as where the size is not known, so that it rounds alike.

    The compiler dissolves a loop that it knows to turn once. On a CPU, where a loop costs nothing,
    links give the same bits whether they name their cohort or a record has them as masks; elsewhere
    no loop is to wait for its bound.
    """
    is_named = isinstance(cohort.size, int) and not cohort.is_everyone
    return is_named and memory.platform() == 'cpu'


def _bound(cohort: Cohort, turns: Array | int) -> Array | int:
    """How often the loop over a cohort turns."""
    return meshes.barrier(jnp.asarray(turns)) if _is_alike(cohort) else turns


@jax.custom_batching.custom_vmap
def _of_all_lanes(turns: Array) -> Array:
    """The most turns of any lane that runs beside this one, itself included.

    Were the bound each lane's own, a loop over lanes would select their whole tables in every turn.
    """
    return turns


@_of_all_lanes.def_vmap
def _most(axis_size: int, in_batched: list[bool], turns: Array) -> tuple[Array, bool]:
    return jnp.max(turns), False


def _in_chunks(
    fn: PerClient, cohort: Cohort, client_tree: PyTree, chunk_size: int
) -> tuple[PyTree, PyTree]:
    """`map_reduce` with chunks, which the devices of a mesh divide among them."""
    num_slots, num_clients, on_mesh = (
        cohort.ids.shape[0],
        cohort.num_clients,
        meshes.in_shard_map(),
    )
    num_devices = jax.lax.axis_size(meshes.AXIS) if on_mesh else 1
    num_chunks = math.ceil(num_slots / chunk_size)
    is_even = isinstance(cohort.size, int) and not _is_alike(cohort)
    width = math.ceil(num_slots / num_chunks) if is_even else chunk_size
    at_once = num_devices * width
    padding = math.ceil(num_chunks / num_devices) * at_once - num_slots
    ids = jnp.concatenate([cohort.ids, jnp.full(padding, num_clients, jnp.int32)])
    train = meshes.isolate_from_fusion(jax.vmap(fn)) if on_mesh else jax.vmap(fn)

    def run_chunk(turn: Array, carry: _Carry) -> _Carry:
        """Stores the rows of the last chunks, then reads and trains its own.

        The table is written before it is read, so the compiler replaces rows in place. Stored as
        soon as they are computed, they would cost a copy of the whole table per chunk.
        """
        total, table, (sums, *finished) = carry
        total, table = add(total, sums), store(table, *finished)
        of_turn = jax.lax.dynamic_slice_in_dim(ids, turn * at_once, at_once)
        index = (
            turn * num_devices + jax.lax.axis_index(meshes.AXIS) if on_mesh else turn
        )
        own = (
            jax.lax.dynamic_slice_in_dim(ids, index * width, width)
            if on_mesh
            else of_turn
        )
        chunk = Cohort(own, cohort.size - index * width, num_clients)
        if isinstance(table, meshes.TableShard):
            rows = meshes.fetch_rows(jnp.minimum(of_turn, num_clients - 1), table)
        else:
            rows = gather(chunk, table)
        contributions, new_rows = train(jnp.minimum(own, num_clients - 1), rows)
        chunk_sum, new_rows = (
            weighted_sum(chunk, contributions),
            tree.cast_like(new_rows, table),
        )
        if not on_mesh:
            return (
                jax.tree.map(jnp.add, total, chunk_sum),
                table,
                ((), of_turn, new_rows),
            )
        sums, new_rows = meshes.gather((chunk_sum, new_rows))
        new_rows = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), new_rows)
        return total, table, (sums, of_turn, new_rows)

    def add(total: PyTree, sums: PyTree) -> PyTree:
        """Adds the sums of a turn's chunks, one after the other.

        They come from the turn before: at once, the compiler would merge a chunk's sum into the
        total where there is one device, and round differently.
        """
        for device in range(num_devices if on_mesh else 0):
            total = jax.tree.map(lambda a, b, d=device: a + b[d], total, sums)
        return total

    def store(table: PyTree, ids: Array, new_rows: PyTree) -> PyTree:
        if isinstance(table, meshes.TableShard):
            return meshes.store_rows(table, ids, new_rows)
        return scatter(Cohort(ids, at_once, num_clients), table, new_rows)

    rows = meshes.rows_of(client_tree)
    no_rows = jax.tree.map(lambda a: jnp.zeros((at_once, *a.shape[1:]), a.dtype), rows)
    turns_needed = _bound(cohort, (cohort.size + at_once - 1) // at_once)
    if not isinstance(turns_needed, int):
        turns_needed = _of_all_lanes(turns_needed)
    nothing, no_sums = _no_contribution(fn, client_tree), ()
    if on_mesh:
        no_sums = jax.tree.map(
            lambda a: jnp.zeros((num_devices, *a.shape), a.dtype), nothing
        )
        turns_needed = meshes.barrier(jnp.asarray(turns_needed))
    start = (
        nothing,
        client_tree,
        (no_sums, jnp.full(at_once, num_clients, jnp.int32), no_rows),
    )
    total, table, (sums, *finished) = jax.lax.fori_loop(
        0, turns_needed, run_chunk, start
    )
    if on_mesh:
        total = meshes.isolate_from_fusion(add)(total, sums)
    return total, store(table, *finished)


def _one_by_one(
    fn: PerClient, cohort: Cohort, client_tree: PyTree
) -> tuple[PyTree, PyTree]:
    """`map_reduce` without empty slots: as many turns as there are members.

    Rows are read and written as slices, which replaces them in place. As in chunks, a row is
    written in the next turn, before that turn's own is read.
    """

    def read(table: PyTree, i: Array) -> PyTree:
        return jax.tree.map(
            lambda a: jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), table
        )

    def write(table: PyTree, i: Array, row: PyTree) -> PyTree:
        update = jax.lax.dynamic_update_index_in_dim
        return jax.tree.map(lambda a, r: update(a, r, i, 0), table, row)

    def run(index: Array, carry: _Carry) -> _Carry:
        total, table, finished = carry
        table = write(table, *finished)
        i = cohort.ids[index]
        row = read(table, i)
        contribution, new_row = fn(i, row)
        return (
            jax.tree.map(jnp.add, total, contribution),
            table,
            (i, tree.cast_like(new_row, row)),
        )

    first = jnp.minimum(
        cohort.ids[0], cohort.num_clients - 1
    )  # whose row replaces itself
    start = (
        _no_contribution(fn, client_tree),
        client_tree,
        (first, read(client_tree, first)),
    )
    total, table, finished = jax.lax.fori_loop(
        0, _bound(cohort, cohort.size), run, start
    )
    return total, write(table, *finished)


def _no_contribution(fn: PerClient, client_tree: PyTree) -> PyTree:
    rows = meshes.rows_of(client_tree)
    row = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), rows)
    contribution, _ = jax.eval_shape(fn, jax.ShapeDtypeStruct((), jnp.int32), row)
    return tree.zero_sums(contribution)


def assign(cohort: Cohort, client_tree: PyTree, value: PyTree) -> PyTree:
    """``client_tree`` with the members' rows set to one value; cost follows the members.

    Args:
      cohort: K slots.
      client_tree: leaves [N, ...], or a `meshes.TableShard` of them.
      value: leaves [...].

    Returns:
      Leaves [N, ...].
    """
    if isinstance(client_tree, meshes.TableShard):
        nobody = jnp.zeros(cohort.num_clients, bool)
        members = nobody.at[cohort.ids].set(True, mode='drop', indices_are_sorted=True)
        return tree.fill_rows(members, tree.cast_like(value, client_tree), client_tree)
    if isinstance(cohort.size, int):
        return scatter(cohort, client_tree, tree.broadcast(value, cohort.size))
    width = min(ROWS_AT_ONCE, cohort.ids.shape[0])
    return _in_chunks(lambda i, row: ((), value), cohort, client_tree, width)[1]
