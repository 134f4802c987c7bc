"""Runs a function for all members of a cohort, chunk by chunk or one by one.

A client's row is its part of a table that an algorithm keeps. The rows that an iteration computes
are stored at the start of the next iteration, before the next iteration reads rows. So the compiler
replaces rows in place. If rows were stored as soon as they are computed, each iteration would copy
the table.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, PyTree
from fedjax_links.clients import chunk_widths
from fedjax_links.clients.cohort_rows import Cohort, gather, scatter, weighted_sum
from fedjax_links.core import memory, meshes, tree

PerClient = Callable[[Array, PyTree], tuple[PyTree, PyTree]]
"""``(client id, the client's row) -> (contribution, new row)``."""

_Carry = tuple[PyTree, PyTree, tuple[PyTree, ...]]
"""The sum so far, the table, and what the last iteration has not stored yet."""


def hides_size(cohort: Cohort) -> bool:
    """Returns whether to hide a static size from the compiler.

    If the compiler knows that a loop has one iteration, it unrolls the loop and rounds differently.
    Links that name their cohort may have a static size, and a mask has none. On a CPU the static
    size is hidden. So a run on recorded masks has the bits of the run whose links named their
    cohorts. On other devices the size is not hidden, as the host would wait for the loop's bound.
    """
    is_named = isinstance(cohort.size, int) and not cohort.is_everyone
    return is_named and memory.platform() == 'cpu'


def _loop_bound(cohort: Cohort, iterations: Array | int) -> Array | int:
    """Returns the number of iterations, hidden from the compiler if the size is."""
    return meshes.barrier(jnp.asarray(iterations)) if hides_size(cohort) else iterations


@jax.custom_batching.custom_vmap
def _max_over_lanes(iterations: Array) -> Array:
    """Returns the largest number of iterations of any lane, a training run under `jax.vmap`.

    If each lane had a separate bound, a loop over lanes would select whole tables in each
    iteration.
    """
    return iterations


@_max_over_lanes.def_vmap
def _max_of_batch(
    axis_size: int, in_batched: list[bool], iterations: Array
) -> tuple[Array, bool]:
    return jnp.max(iterations), False


def in_chunks(
    fn: PerClient, cohort: Cohort, client_tree: PyTree, chunk_size: int
) -> tuple[PyTree, PyTree]:
    """Implements `cohorts.map_reduce` in chunks; each device of a mesh runs some of them.

    Args:
      fn: ``(client id, the client's row) -> (contribution, new row)``.
      cohort: who takes part.
      client_tree: the table.
      chunk_size: slots that run in parallel on a device.

    Returns:
      The sum of the contributions and the updated table.
    """
    num_slots = cohort.ids.shape[0]
    num_clients = cohort.num_clients
    on_mesh = meshes.in_shard_map()
    num_devices = jax.lax.axis_size(meshes.AXIS) if on_mesh else 1
    num_chunks = math.ceil(num_slots / chunk_size)
    width = chunk_size
    if isinstance(cohort.size, int) and not hides_size(cohort):
        # The size is static, so chunks can be of equal width.
        width = math.ceil(num_slots / num_chunks)
    slots_at_once = num_devices * width
    padding = math.ceil(num_chunks / num_devices) * slots_at_once - num_slots
    ids = jnp.concatenate([cohort.ids, jnp.full(padding, num_clients, jnp.int32)])
    train = meshes.isolate_from_fusion(jax.vmap(fn)) if on_mesh else jax.vmap(fn)

    def add(total: PyTree, sums: PyTree) -> PyTree:
        """Adds the sums of the last iteration's chunks, one after the other.

        If the iteration that computes a chunk's sum also added it, the compiler would round
        differently on a mesh of one device: it would merge the chunk's sum into the total.
        """
        for device in range(num_devices):
            total = jax.tree.map(lambda a, b, d=device: a + b[d], total, sums)
        return total

    def store(table: PyTree, ids: Array, new_rows: PyTree) -> PyTree:
        if isinstance(table, meshes.TableShard):
            return meshes.store_rows(table, ids, new_rows)
        return scatter(Cohort(ids, slots_at_once, num_clients), table, new_rows)

    def run_chunk(iteration: Array, carry: _Carry) -> _Carry:
        # Store what the last iteration computed.
        total, table, (sums, *finished) = carry
        if on_mesh:
            total = add(total, sums)
        table = store(table, *finished)
        # Read the rows of this iteration's chunk.
        iteration_ids = jax.lax.dynamic_slice_in_dim(
            ids, iteration * slots_at_once, slots_at_once
        )
        chunk_index = iteration
        chunk_ids = iteration_ids
        if on_mesh:
            chunk_index = iteration * num_devices + jax.lax.axis_index(meshes.AXIS)
            chunk_ids = jax.lax.dynamic_slice_in_dim(ids, chunk_index * width, width)
        chunk = Cohort(chunk_ids, cohort.size - chunk_index * width, num_clients)
        if isinstance(table, meshes.TableShard):
            rows = meshes.fetch_rows(jnp.minimum(iteration_ids, num_clients - 1), table)
        else:
            rows = gather(chunk, table)
        # Train its clients and sum what they contribute.
        contributions, new_rows = train(jnp.minimum(chunk_ids, num_clients - 1), rows)
        chunk_sum = weighted_sum(chunk, contributions)
        new_rows = tree.cast_like(new_rows, table)
        if not on_mesh:
            total = jax.tree.map(jnp.add, total, chunk_sum)
            return total, table, ((), iteration_ids, new_rows)
        sums, new_rows = meshes.gather((chunk_sum, new_rows))
        new_rows = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), new_rows)
        return total, table, (sums, iteration_ids, new_rows)

    num_iterations = _loop_bound(
        cohort, (cohort.size + slots_at_once - 1) // slots_at_once
    )
    if not isinstance(num_iterations, int):
        num_iterations = _max_over_lanes(num_iterations)
    zero_sums = _zero_sums(fn, client_tree)
    pending_sums: PyTree = ()
    if on_mesh:
        pending_sums = jax.tree.map(
            lambda a: jnp.zeros((num_devices, *a.shape), a.dtype), zero_sums
        )
        num_iterations = meshes.barrier(jnp.asarray(num_iterations))
    pending_rows = jax.tree.map(
        lambda a: jnp.zeros((slots_at_once, *a.shape[1:]), a.dtype),
        meshes.rows_of(client_tree),
    )
    no_ids = jnp.full(slots_at_once, num_clients, jnp.int32)
    start = (zero_sums, client_tree, (pending_sums, no_ids, pending_rows))
    total, table, (sums, *finished) = jax.lax.fori_loop(
        0, num_iterations, run_chunk, start
    )
    if on_mesh:
        total = meshes.isolate_from_fusion(add)(total, sums)
    return total, store(table, *finished)


def in_chunks_of_widths(
    fn: PerClient, cohort: Cohort, client_tree: PyTree, widths: tuple[int, ...]
) -> tuple[PyTree, PyTree]:
    """Implements `cohorts.map_reduce` in chunks of several widths, the widest first.

    Args:
      fn: as in `in_chunks`.
      cohort: who takes part.
      client_tree: the table.
      widths: in increasing order; ``fn`` is compiled for each.

    Returns:
      The sum of the contributions and the updated table.
    """
    size = meshes.barrier(jnp.asarray(cohort.size, jnp.int32))
    counts = chunk_widths.divide(size, widths)
    sums_of_parts = []
    first: Array | int = 0
    for index in reversed(range(len(widths))):
        num_members = jnp.minimum(counts[index] * widths[index], size - first)
        part = _part(cohort, first, num_members)
        sums, client_tree = in_chunks(fn, part, client_tree, widths[index])
        sums_of_parts.append(sums)
        first = first + num_members
    total = jax.tree.map(lambda *sums: functools.reduce(jnp.add, sums), *sums_of_parts)
    return total, client_tree


def _part(cohort: Cohort, first: Array | int, num_members: Array) -> Cohort:
    """Returns some consecutive members as a cohort.

    Args:
      cohort: K slots.
      first: the slot of the first member.
      num_members: int32[].
    """
    num_clients = cohort.num_clients
    slots = jnp.arange(cohort.ids.shape[0])
    ids = jnp.take(cohort.ids, first + slots, mode='fill', fill_value=num_clients)
    ids = jnp.where(slots < num_members, ids, num_clients)
    return Cohort(ids, num_members, num_clients)


def one_by_one(
    fn: PerClient, cohort: Cohort, client_tree: PyTree
) -> tuple[PyTree, PyTree]:
    """Implements `cohorts.map_reduce` with an iteration for each member.

    There are no empty slots. Rows are read and written as slices, which replaces them in
    memory.
    """

    def read(table: PyTree, i: Array) -> PyTree:
        return jax.tree.map(
            lambda a: jax.lax.dynamic_index_in_dim(a, i, 0, keepdims=False), table
        )

    def write(table: PyTree, i: Array, row: PyTree) -> PyTree:
        update = jax.lax.dynamic_update_index_in_dim
        return jax.tree.map(lambda a, r: update(a, r, i, 0), table, row)

    def run_member(index: Array, carry: _Carry) -> _Carry:
        total, table, finished = carry
        table = write(table, *finished)
        client = cohort.ids[index]
        row = read(table, client)
        contribution, new_row = fn(client, row)
        total = jax.tree.map(jnp.add, total, contribution)
        return total, table, (client, tree.cast_like(new_row, row))

    # The first write replaces a row by itself.
    first = jnp.minimum(cohort.ids[0], cohort.num_clients - 1)
    start = (
        _zero_sums(fn, client_tree),
        client_tree,
        (first, read(client_tree, first)),
    )
    num_iterations = _loop_bound(cohort, cohort.size)
    total, table, finished = jax.lax.fori_loop(0, num_iterations, run_member, start)
    return total, write(table, *finished)


def _zero_sums(fn: PerClient, client_tree: PyTree) -> PyTree:
    """Returns zeros of the shape of a sum of contributions."""
    rows = meshes.rows_of(client_tree)
    row = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), rows)
    contribution, _ = jax.eval_shape(fn, jax.ShapeDtypeStruct((), jnp.int32), row)
    return tree.zero_sums(contribution)
