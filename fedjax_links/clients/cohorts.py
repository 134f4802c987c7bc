"""Who computes: from a mask over all clients to a loop over the active ones.

A mask is compacted into a list of client ids (links that name a cohort bring it along), and the
list is worked off in chunks of fixed width
for as many chunks as it takes. Cost follows the number of members, whatever it is; no capacity is
guessed and nobody is dropped. A chunk's empty slots compute something that is then discarded by
selection.

On a mesh, inside a `jax.shard_map` over an axis ``'clients'``, every device takes a chunk in each
turn. All of them then add what these chunks contributed in the order of chunks, and store the new
rows: all of them or, of a table that is divided (`meshes.Share`), those that a device keeps. Rows
are brought to whoever trains their clients. Chunks are as wide on any mesh, so all meshes give the
same bits; an algorithm that is written with `map_reduce` need not know where it runs.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_links.base import (
    Array,
    CohortLinkSample,
    DuplexLinkSample,
    Links,
    PyTree,
    computes,
    delivers,
    participants,
)
from fedjax_links.core import meshes, tree

_Carry = tuple[PyTree, PyTree, tuple[PyTree, Array, PyTree]]
_RowCarry = tuple[PyTree, PyTree, tuple[Array, PyTree]]

_MESH_SHARES = 8  # parts of a chunk that take turns on a mesh, of at most so many devices at best


class Cohort(NamedTuple):
    """Client ids in increasing order, packed to the front.

    Attributes:
      ids: int32[K]; an empty slot holds N, one past the last client.
      size: number of members, int32[] or a Python int where the trace knows it.
      num_clients: N.
    """

    ids: Array
    size: Array | int
    num_clients: int


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
    return Cohort(ids=ids, size=num_clients, num_clients=num_clients)


def participating(links: Links) -> Cohort:
    """The cohort of the clients that can hear the server, train from its model and deliver.

    Args:
      links: the links of a round. Where they name a cohort, this is it: B slots, at no cost.
    """
    if isinstance(links, CohortLinkSample):
        return Cohort(ids=links.ids, size=links.size, num_clients=links.num_clients)
    return make_cohort(participants(links))


def delivering(links: Links) -> Cohort:
    """The cohort of the clients that train from a model of their own and whose result arrives."""
    if isinstance(links, CohortLinkSample):
        return participating(links)
    return make_cohort(delivers(links))


def computing(links: Links) -> Cohort:
    """The cohort of the clients able to train: everyone, unless the links say otherwise."""
    if isinstance(links, DuplexLinkSample):
        return make_cohort(computes(links))
    if isinstance(links, CohortLinkSample):
        return everyone(links.num_clients)
    return everyone(links.mask.shape[0])


def count(links: Links, counts: Array) -> Array:
    """``counts`` int32[N], one more for every participant; cost follows a cohort that is named."""
    if isinstance(links, CohortLinkSample):
        return counts.at[links.ids].add(1, mode='drop', indices_are_sorted=True)
    return counts + participants(links)


def num_members(cohort: Cohort) -> Array:
    """int32[], the number of members."""
    return jnp.asarray(cohort.size, jnp.int32)


def gather(cohort: Cohort, client_tree: PyTree) -> PyTree:
    """Rows of the cohort's slots.

    Args:
      cohort: K slots.
      client_tree: leaves [N, ...].

    Returns:
      Leaves [K, ...]; an empty slot repeats the last client's row and must not be used.
    """
    return _rows_at(cohort.ids, client_tree)


def _rows_at(places: Array, client_tree: PyTree) -> PyTree:
    return jax.tree.map(lambda a: jnp.take(a, places, axis=0, mode='clip'), client_tree)


def scatter(cohort: Cohort, client_tree: PyTree, new_rows: PyTree) -> PyTree:
    """``client_tree`` with the members' rows replaced.

    Args:
      cohort: K slots.
      client_tree: leaves [N, ...].
      new_rows: leaves [K, ...]; those of empty slots are dropped.

    Returns:
      Leaves [N, ...].
    """
    return jax.tree.map(
        lambda a, r: a.at[cohort.ids].set(
            r.astype(a.dtype), mode='drop', indices_are_sorted=True, unique_indices=False
        ),
        client_tree,
        new_rows,
    )


def weighted_sum(cohort: Cohort, slot_tree: PyTree, weights: Array | None = None) -> PyTree:
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
        kept = jnp.where(tree.rows(member, a), a, jnp.zeros_like(a)) if has_empty_slots else a
        if weights is not None:
            kept = kept * tree.rows(weights.astype(dtype), a)
        return jnp.sum(kept, axis=0, dtype=dtype)

    return jax.tree.map(leaf_sum, slot_tree)


def map_reduce(
    fn: Callable[..., tuple[PyTree, PyTree]],
    cohort: Cohort,
    client_tree: PyTree,
    *,
    chunk_size: int,
    lent: Callable[[Array], PyTree] | None = None,
) -> tuple[PyTree, PyTree]:
    """Runs ``fn`` for every member, sums what it contributes, stores the rows it returns.

    Args:
      fn: ``(client id, the client's row) -> (contribution, new row)``, written for one client. The
        new row has the structure of the row; both may be ``()``.
      cohort: who takes part.
      client_tree: leaves [N, ...], the table the rows come from, or a `meshes.Share` of it; ``()``
        if clients keep nothing.
      chunk_size: members that run side by side, on a mesh an eighth of it per device. Memory is
        this many contributions.
      lent: on a mesh, ``ids [W] -> leaves [W, ...]``, what a device keeps of clients (anything for
        those of others) and lends to those that train them: ``fn`` then takes it, too, of one
        client.

    Returns:
      The sum of the contributions (zero for an empty cohort), in float32 at least, and the updated
      table.
    """
    if not meshes.is_inside():
        return _map_reduce(fn, cohort, client_tree, chunk_size)
    chunk_size = math.ceil(chunk_size / _MESH_SHARES)
    if not isinstance(client_tree, meshes.Share):
        return _map_reduce(fn, cohort, client_tree, chunk_size, axis=meshes.AXIS, lent=lent)
    total, rows = _map_reduce(
        fn, cohort, client_tree.rows, chunk_size, axis=meshes.AXIS, is_share=True, lent=lent
    )
    return total, meshes.Share(rows, client_tree.num_clients)


def _map_reduce(
    fn: Callable[..., tuple[PyTree, PyTree]],
    cohort: Cohort,
    client_tree: PyTree,
    chunk_size: int,
    axis: str | None = None,
    is_share: bool = False,
    lent: Callable[[Array], PyTree] | None = None,
) -> tuple[PyTree, PyTree]:
    """`map_reduce`, with the chunks divided over the devices of an axis, and perhaps the table."""
    num_slots = cohort.ids.shape[0]
    num_devices = jax.lax.axis_size(axis) if axis else 1
    run = jax.vmap(fn)
    everyone_fits = num_slots == cohort.num_clients and num_slots <= chunk_size
    if axis is None and isinstance(cohort.size, int) and everyone_fits:
        contributions, new_rows = run(cohort.ids, client_tree)
        return weighted_sum(cohort, contributions), tree.cast_like(new_rows, client_tree)

    if axis is None and chunk_size == 1:
        return _one_by_one(fn, cohort, client_tree)
    num_chunks = math.ceil(num_slots / chunk_size)
    width = math.ceil(num_slots / num_chunks) if isinstance(cohort.size, int) else chunk_size
    at_once = num_devices * width
    num_turns = math.ceil(num_chunks / num_devices)
    padding = num_turns * at_once - num_slots
    ids = jnp.concatenate([cohort.ids, jnp.full(padding, cohort.num_clients, jnp.int32)])

    def run_chunk(turn: Array, carry: _Carry) -> _Carry:
        """Stores the rows of the last chunks, then reads and trains its own.

        The table is written before it is read, so the compiler replaces rows in place. Stored as
        soon as they are computed, they would cost a copy of the whole table per chunk.
        """
        total, table, (sums, *finished) = carry
        total, table = add(total, sums), store(table, *finished)
        index = turn * num_devices + jax.lax.axis_index(axis) if axis else turn
        chunk = Cohort(
            ids=jax.lax.dynamic_slice_in_dim(ids, index * width, width),
            size=cohort.size - index * width,
            num_clients=cohort.num_clients,
        )
        in_range = jnp.minimum(chunk.ids, cohort.num_clients - 1)
        of_turn = chunk.ids
        if axis is not None:
            of_turn = jax.lax.dynamic_slice_in_dim(ids, turn * at_once, at_once)
        inputs = [in_range, read(table, chunk, of_turn)]
        if lent is not None:
            inputs.append(bring(of_turn, lent))
        contributions, new_rows = run(*inputs)
        chunk_sum = weighted_sum(chunk, contributions)
        new_rows = tree.cast_like(new_rows, table)
        if axis is None:
            return jax.tree.map(jnp.add, total, chunk_sum), table, ((), of_turn, new_rows)
        sums, rows = meshes.gathered((chunk_sum, new_rows))
        rows = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), rows)
        return total, table, (sums, of_turn, rows)

    def add(total: PyTree, sums: PyTree) -> PyTree:
        """Adds the sums of a turn's chunks, one after the other.

        They come from the turn before: at once, the compiler would merge a chunk's sum into the
        total where there is one device, and round differently.
        """
        for place in range(num_devices if axis else 0):
            total = jax.tree.map(lambda a, b, d=place: a + b[d], total, sums)
        return total

    def bring(of_turn: Array, own: Callable[[Array], PyTree]) -> PyTree:
        in_range = jnp.minimum(of_turn, cohort.num_clients - 1)
        return meshes.brought(in_range, cohort.num_clients, own)

    def read(table: PyTree, chunk: Cohort, of_turn: Array) -> PyTree:
        if not is_share:
            return gather(chunk, table)

        def own_rows(ids: Array) -> PyTree:
            return _rows_at(meshes.own_places(ids, cohort.num_clients), table)

        return bring(of_turn, own_rows)

    def store(table: PyTree, ids: Array, new_rows: PyTree) -> PyTree:
        if is_share:
            places = meshes.own_places(ids, cohort.num_clients)
            return jax.tree.map(lambda a, r: a.at[places].set(r, mode='drop'), table, new_rows)
        return scatter(Cohort(ids, at_once, cohort.num_clients), table, new_rows)

    nobody = jnp.full(at_once, cohort.num_clients, jnp.int32)
    no_rows = jax.tree.map(lambda a: jnp.zeros((at_once, *a.shape[1:]), a.dtype), client_tree)
    turns_needed = (cohort.size + at_once - 1) // at_once
    nothing = _no_contribution(fn, client_tree, lent)
    no_sums: PyTree = ()
    if axis is not None:
        no_sums = jax.tree.map(lambda a: jnp.zeros((num_devices, *a.shape), a.dtype), nothing)
        turns_needed = meshes.hidden(jnp.asarray(turns_needed))
    start = (nothing, client_tree, (no_sums, nobody, no_rows))
    total, table, (sums, *finished) = jax.lax.fori_loop(0, turns_needed, run_chunk, start)
    if axis is not None:  # in a loop, for what follows to be compiled alike on every mesh
        once = meshes.hidden(jnp.int32(1))
        total = jax.lax.fori_loop(0, once, lambda _, total: add(total, sums), total)
    return total, store(table, *finished)


def _one_by_one(
    fn: Callable[[Array, PyTree], tuple[PyTree, PyTree]], cohort: Cohort, client_tree: PyTree
) -> tuple[PyTree, PyTree]:
    """`map_reduce` without empty slots: as many turns as there are members.

    Rows are read and written as slices, which replaces them in place. As in chunks, a row is
    written in the next turn, before that turn's own is read.
    """

    def read(table: PyTree, i: Array) -> PyTree:
        return jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), table)

    def write(table: PyTree, finished: tuple[Array, PyTree]) -> PyTree:
        i, row = finished
        return jax.tree.map(
            lambda a, r: jax.lax.dynamic_update_index_in_dim(a, r, i, 0), table, row
        )

    def run(index: Array, carry: _RowCarry) -> _RowCarry:
        total, table, finished = carry
        table = write(table, finished)
        i = cohort.ids[index]
        row = read(table, i)
        contribution, new_row = fn(i, row)
        return jax.tree.map(jnp.add, total, contribution), table, (i, tree.cast_like(new_row, row))

    first = jnp.minimum(cohort.ids[0], cohort.num_clients - 1)  # whose row replaces itself
    start = (_no_contribution(fn, client_tree), client_tree, (first, read(client_tree, first)))
    total, table, finished = jax.lax.fori_loop(0, cohort.size, run, start)
    return total, write(table, finished)


def _no_contribution(
    fn: Callable[..., tuple[PyTree, PyTree]],
    client_tree: PyTree,
    lent: Callable[[Array], PyTree] | None = None,
) -> PyTree:
    tables = [client_tree]
    if lent is not None:
        tables.append(jax.eval_shape(lent, jax.ShapeDtypeStruct((1,), jnp.int32)))
    rows = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), tables)
    contribution, _ = jax.eval_shape(fn, jax.ShapeDtypeStruct((), jnp.int32), *rows)
    return tree.zero_sums(contribution)


def assign(cohort: Cohort, client_tree: PyTree, value: PyTree, *, chunk_size: int = 16) -> PyTree:
    """``client_tree`` with the members' rows set to one value; cost follows the members.

    Args:
      cohort: K slots.
      client_tree: leaves [N, ...], or a `meshes.Share` of them.
      value: leaves [...].
      chunk_size: rows written side by side.

    Returns:
      Leaves [N, ...].
    """
    if isinstance(client_tree, meshes.Share):
        nobody = jnp.zeros(cohort.num_clients, bool)
        members = nobody.at[cohort.ids].set(True, mode='drop', indices_are_sorted=True)
        return tree.fill_rows(members, tree.cast_like(value, client_tree), client_tree)
    width = min(chunk_size, cohort.ids.shape[0])
    _, table = _map_reduce(lambda i, row: ((), value), cohort, client_tree, width)
    return table
