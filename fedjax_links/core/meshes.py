"""Stores client tables on a mesh of devices, and moves rows between them.

A program runs inside a mesh if it is the body of a `jax.shard_map` over an axis ``'clients'``, as
in `simulation.simulate`. A client table has a row for each client. Tables are sharded: each device
stores a `TableShard` of every table. All other arrays are replicated. Devices exchange rows and
never add them up on the way, so no sum depends on the number of devices. `mesh_layouts` has the
view from outside of the mesh.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from fedjax_links.base import PyTree

_Values = TypeVar('_Values')

AXIS = 'clients'
"""The axis over which the work of a round's clients is divided."""
REPLICATED: Any = PartitionSpec()
"""The sharding of an array that every device stores in full."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TableShard:
    """Holds the rows of a client table that one device of a mesh stores.

    Each device has a contiguous range of K = ceil(N / number of devices) client ids. Rows behind
    the last client are padding and never read.

    Attributes:
      rows: leaves [K, ...].
      num_clients: N, of the full table.
    """

    rows: PyTree
    num_clients: int = dataclasses.field(metadata={'static': True})


def in_shard_map() -> bool:
    """Returns whether the function that is being traced runs inside a mesh."""
    return AXIS in jax.sharding.get_abstract_mesh().manual_axes


def table(num_clients: int, make: Callable[[int], PyTree]) -> PyTree:
    """Makes a client table; inside a mesh, this device's shard of it.

    Args:
      num_clients: N.
      make: ``number of rows -> pytree with leaves [rows, ...]``, all rows equal.

    Returns:
      Leaves [N, ...], or a `TableShard`.
    """
    if not in_shard_map():
        return make(num_clients)
    return TableShard(make(_shard_size(num_clients)), num_clients)


def rows_of(table: PyTree) -> PyTree:
    """Returns the rows of a table, or of this device's shard of it."""
    return table.rows if isinstance(table, TableShard) else table


def paired(one: PyTree, other: PyTree) -> PyTree:
    """Joins two client tables, or this device's shards of both, into one table of paired rows."""
    if not isinstance(one, TableShard):
        return one, other
    return TableShard((one.rows, other.rows), one.num_clients)


def unpaired(table: PyTree) -> tuple[PyTree, PyTree]:
    """Splits a client table of pairs of rows into two."""
    one, other = rows_of(table)
    if not isinstance(table, TableShard):
        return one, other
    return TableShard(one, table.num_clients), TableShard(other, table.num_clients)


def local_entries(values: jax.Array) -> jax.Array:
    """Returns the entries [K] of this device's clients from a replicated vector [N]."""
    size = _shard_size(values.shape[0])
    padded = jnp.pad(values, (0, size * jax.lax.axis_size(AXIS) - values.shape[0]))
    return _local_slice(padded, size)


def _local_slice(values: jax.Array, size: int) -> jax.Array:
    """Returns this device's ``size`` entries of an array that has as many for each device."""
    return jax.lax.dynamic_slice_in_dim(values, jax.lax.axis_index(AXIS) * size, size)


def _local_indices(ids: jax.Array, num_clients: int) -> jax.Array:
    """Returns the indices of clients' rows in this device's shard; K for other devices' clients."""
    size = _shard_size(num_clients)
    indices = ids - jax.lax.axis_index(AXIS) * size
    is_here = (indices >= 0) & (indices < size) & (ids < num_clients)
    return jnp.where(is_here, indices, size)


def fetch_rows(ids: jax.Array, shard: TableShard) -> PyTree:
    """Fetches the rows of the clients that train on this device from the storing devices.

    Args:
      ids: int32[D * w], below N: w clients that train on each of the D devices.
      shard: this device's shard of the table.

    Returns:
      Leaves [w, ...], the rows of the w clients that train here.
    """
    num_devices = jax.lax.axis_size(AXIS)
    width = ids.shape[0] // num_devices
    indices = _local_indices(ids, shard.num_clients).reshape(num_devices, width)
    sent = jax.tree.map(lambda a: jnp.take(a, indices, axis=0, mode='clip'), shard.rows)

    def exchange(a: jax.Array) -> jax.Array:
        return jax.lax.all_to_all(a, AXIS, 0, 0)

    received = _in_one_buffer(exchange, sent, leading_axes=1)
    # Each device has sent a row for each client. Take the row from the device that stores the
    # client.
    storing_device = _local_slice(ids, width) // _shard_size(shard.num_clients)
    slots = jnp.arange(width)
    return barrier(jax.tree.map(lambda a: a[storing_device, slots], received))


def store_rows(shard: TableShard, ids: jax.Array, new_rows: PyTree) -> TableShard:
    """Replaces the rows of clients, as far as this device stores them."""
    indices = _local_indices(ids, shard.num_clients)

    def store(a: jax.Array, new: jax.Array) -> jax.Array:
        return a.at[indices].set(new, mode='drop')

    return TableShard(jax.tree.map(store, shard.rows, new_rows), shard.num_clients)


def gather(values: PyTree) -> PyTree:
    """Gathers the values of all devices: leaves [...] become leaves [D, ...]."""

    def gather_leaf(a: jax.Array) -> jax.Array:
        return jax.lax.all_gather(a, AXIS)

    return _in_one_buffer(gather_leaf, values, leading_axes=0)


def all_gather_table(table: PyTree) -> PyTree:
    """Returns all rows of a table, leaves [N, ...] and perhaps padding, on every device."""
    if not isinstance(table, TableShard):
        return table
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), gather(table.rows))


def mean(shard: TableShard, dtypes: PyTree) -> PyTree:
    """Averages a table over all clients, in ``dtypes``, one for each leaf.

    Each device sums some columns over all rows. It adds rows in fixed pairs, so the order of
    additions does not depend on the number of devices.
    """
    num_clients = shard.num_clients
    num_devices = jax.lax.axis_size(AXIS)

    def leaf_mean(a: jax.Array, dtype: np.dtype) -> jax.Array:
        flat = a.reshape(a.shape[0], -1)
        num_columns = flat.shape[1]
        flat = jnp.pad(flat, ((0, 0), (0, -num_columns % num_devices)))
        by_column = jax.lax.all_to_all(flat, AXIS, 1, 0, tiled=True)
        total = by_column[:num_clients].astype(dtype)
        while total.shape[0] > 1:
            # `half` is the largest power of two below the number of rows. Add the rows behind it to
            # the first rows.
            half = 2 ** ((total.shape[0] - 1).bit_length() - 1)
            num_pairs = total.shape[0] - half
            sums = total[:num_pairs] + total[half:]
            total = jnp.concatenate([sums, total[num_pairs:half]])
        divisor = barrier(jnp.full(total.shape[1:], num_clients, dtype))
        means: jax.Array = jax.lax.all_gather(total[0] / divisor, AXIS, tiled=True)
        return means[:num_columns].reshape(a.shape[1:])

    return jax.tree.map(leaf_mean, shard.rows, dtypes)


def barrier(value: _Values) -> _Values:
    """Hides a value from the compiler, so that meshes of all sizes give the same bits.

    The compiler treats programs of one device and of several differently. It unrolls a loop that it
    knows to run once, and it may multiply by the inverse of a constant divisor.
    """
    return jax.lax.optimization_barrier(value)


def isolate_from_fusion(fn: Callable[..., _Values]) -> Callable[..., _Values]:
    """Wraps a function so that it gives the same bits on meshes of any size.

    How values reach a device depends on the number of devices. Operations that are fused with the
    transfer are rounded differently: a product and a sum once or twice. The body of a loop is fused
    with nothing outside it, so the function becomes the body of a loop that runs once.
    """

    def run(*arguments: PyTree) -> _Values:
        shapes = jax.eval_shape(fn, *arguments)
        zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)

        def body(_: PyTree, carry: PyTree) -> PyTree:
            inputs, _ = carry
            return inputs, fn(*inputs)

        _, output = jax.lax.fori_loop(
            0, barrier(jnp.int32(1)), body, (arguments, zeros)
        )
        return output

    return run


def on_each(
    fn: Callable[..., PyTree],
    mesh: jax.sharding.Mesh,
    in_specs: PyTree = REPLICATED,
    out_specs: PyTree = REPLICATED,
) -> Callable[..., PyTree]:
    """Returns a function that runs inside a mesh.

    Args:
      fn: of pytrees.
      mesh: with the axis ``'clients'``.
      in_specs: the shardings of its arguments; replicated by default.
      out_specs: the shardings of its results; replicated by default.

    Returns:
      The function, of the same arguments.
    """
    return jax.shard_map(
        fn, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def _shard_size(num_clients: int) -> int:
    """Returns K, the number of rows that a device stores."""
    return math.ceil(num_clients / jax.lax.axis_size(AXIS))


def _in_one_buffer(
    collective: Callable[[jax.Array], jax.Array], values: PyTree, leading_axes: int
) -> PyTree:
    """Applies a collective once to all leaves of a dtype, since each call synchronises devices.

    Args:
      collective: a function of one array, which may add a leading axis.
      values: a pytree.
      leading_axes: number of leading axes of its leaves that the collective acts on.
    """
    leaves, treedef = jax.tree.flatten(values)
    results = list(leaves)
    for dtype in dict.fromkeys(a.dtype for a in leaves):
        indices = [index for index, a in enumerate(leaves) if a.dtype == dtype]
        flat = [leaves[i].reshape(*leaves[i].shape[:leading_axes], -1) for i in indices]
        buffer = flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=-1)
        output = collective(buffer)
        ends = list(itertools.accumulate(a.shape[-1] for a in flat))
        parts = jnp.split(output, ends[:-1], axis=-1)
        for i, part in zip(indices, parts, strict=True):
            shape = (*output.shape[:-1], *leaves[i].shape[leading_axes:])
            results[i] = part.reshape(shape)
    return jax.tree.unflatten(treedef, results)
