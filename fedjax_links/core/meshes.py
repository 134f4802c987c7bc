"""Runs programs on a mesh of devices: what each device stores, and how rows get to the others.

A program runs inside a mesh where it is the body of a `jax.shard_map` over an axis ``'clients'``,
as in `simulation.simulate`. Client tables are sharded: a device stores a `TableShard` of each. All
other arrays are replicated. Devices exchange rows and never add them up on the way, so no sum
depends on the number of devices.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

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
    """What one device of a mesh stores of a client table.

    Devices store contiguous ranges of client ids, of K = ceil(N / number of devices) ids each. Rows
    behind the last client are padding and never read.

    Attributes:
      rows: leaves [K, ...].
      num_clients: N, of the full table.
    """

    rows: PyTree
    num_clients: int = dataclasses.field(metadata={'static': True})


@dataclasses.dataclass(frozen=True)
class LocalRows:
    """Those rows of a client table that one of several processes holds, on the host.

    Attributes:
      rows: [k, ...], of consecutive clients.
      first: the first of these clients.
      num_clients: N, of the full table.
    """

    rows: np.ndarray
    first: int
    num_clients: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of the full table."""
        return (self.num_clients, *self.rows.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """Returns the dtype of the table."""
        return self.rows.dtype

    def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray:
        """Returns a part of the table; its rows are among these, and its slices have no steps."""
        row_slice, *other_slices = index
        start = None if row_slice.start is None else row_slice.start - self.first
        stop = None if row_slice.stop is None else row_slice.stop - self.first
        return self.rows[(slice(start, stop), *other_slices)]


TableLeaf: TypeAlias = jax.Array | np.ndarray | LocalRows
"""A leaf of a pytree with client tables, on devices or on the host."""


def in_shard_map() -> bool:
    """Tells whether what is being traced runs on every device of a mesh."""
    return AXIS in jax.sharding.get_abstract_mesh().manual_axes


def table(num_clients: int, make: Callable[[int], PyTree]) -> PyTree:
    """Makes a new client table; inside a mesh, this device's shard of it.

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


def local_entries(values: jax.Array) -> jax.Array:
    """Returns the entries [K] of this device's clients from a replicated vector [N]."""
    size = _shard_size(values.shape[0])
    padded = jnp.pad(values, (0, size * jax.lax.axis_size(AXIS) - values.shape[0]))
    return jax.lax.dynamic_slice_in_dim(padded, jax.lax.axis_index(AXIS) * size, size)


def _local_indices(ids: jax.Array, num_clients: int) -> jax.Array:
    """Returns in which rows this device stores clients; K for those that it does not store."""
    size = _shard_size(num_clients)
    indices = ids - jax.lax.axis_index(AXIS) * size
    is_here = (indices >= 0) & (indices < size) & (ids < num_clients)
    return jnp.where(is_here, indices, size)


def fetch_rows(ids: jax.Array, shard: TableShard) -> PyTree:
    """Fetches clients' rows from the devices that store them to those that need them.

    Args:
      ids: int32[D * w], below N: w clients of each of the D devices.
      shard: what this device stores.

    Returns:
      Leaves [w, ...], of this device's w clients.
    """
    num_devices = jax.lax.axis_size(AXIS)
    width = ids.shape[0] // num_devices
    indices = _local_indices(ids, shard.num_clients).reshape(num_devices, width)
    sent = jax.tree.map(lambda a: jnp.take(a, indices, axis=0, mode='clip'), shard.rows)

    def exchange(a: jax.Array) -> jax.Array:
        return jax.lax.all_to_all(a, AXIS, 0, 0)

    received = _in_one_buffer(exchange, sent, leading_axes=1)
    local_ids = jax.lax.dynamic_slice_in_dim(
        ids, jax.lax.axis_index(AXIS) * width, width
    )
    # Each device offers a row for every client; the row of the device that stores it counts.
    storing_device = local_ids // _shard_size(shard.num_clients)
    slots = jnp.arange(width)
    return barrier(jax.tree.map(lambda a: a[storing_device, slots], received))


def store_rows(shard: TableShard, ids: jax.Array, new_rows: PyTree) -> TableShard:
    """Replaces the rows of those clients that this device stores."""
    indices = _local_indices(ids, shard.num_clients)

    def store(a: jax.Array, new: jax.Array) -> jax.Array:
        return a.at[indices].set(new, mode='drop')

    return TableShard(jax.tree.map(store, shard.rows, new_rows), shard.num_clients)


def gather(values: PyTree) -> PyTree:
    """Gathers values of all devices: leaves [D, ...] of leaves [...]."""

    def gather_leaf(a: jax.Array) -> jax.Array:
        return jax.lax.all_gather(a, AXIS)

    return _in_one_buffer(gather_leaf, values, leading_axes=0)


def all_gather_table(table: PyTree) -> PyTree:
    """Returns all rows of a table, leaves [N, ...] and perhaps padding, on every device."""
    if not isinstance(table, TableShard):
        return table
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), gather(table.rows))


def mean(shard: TableShard, dtypes: PyTree) -> PyTree:
    """Averages a table over all clients, added up and returned in ``dtypes``, one for each leaf.

    Every device adds up some columns of all rows. It adds rows in pairs of fixed ids, so the order
    of additions does not depend on the number of devices.
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
            half = 1 << (total.shape[0] - 1).bit_length() - 1
            num_pairs = total.shape[0] - half
            sums = total[:num_pairs] + total[half:]
            total = jnp.concatenate([sums, total[num_pairs:half]])
        divisor = barrier(jnp.full(total.shape[1:], num_clients, dtype))
        means: jax.Array = jax.lax.all_gather(total[0] / divisor, AXIS, tiled=True)
        return means[:num_columns].reshape(a.shape[1:])

    return jax.tree.map(leaf_mean, shard.rows, dtypes)


def barrier(value: _Values) -> _Values:
    """Hides from the compiler what a value is.

    The compiler treats programs of one device and of several differently: it unrolls a loop that it
    knows to run once, and it may multiply by the inverse of a constant divisor.
    """
    return jax.lax.optimization_barrier(value)


def isolate_from_fusion(fn: Callable[..., _Values]) -> Callable[..., _Values]:
    """Wraps a function so that it gives the same bits on meshes of any size.

    How values reach a device depends on the number of devices, and what is fused with that is
    rounded differently: a product and a sum once or twice. The body of a loop is fused with nothing
    outside it, so the function becomes the body of a loop that runs once.
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


class Layout:
    """How a pytree with client tables, such as a federation's state, is sharded on a mesh.

    Seen from outside, its tables have leaves [N, ...], or [D * K, ...] with the padding of all
    shards. The latter stay sharded where the D devices do not divide the N clients.
    """

    def __init__(
        self, make: Callable[..., PyTree], mesh: jax.sharding.Mesh, *arguments: PyTree
    ) -> None:
        """Finds the tables by tracing.

        Args:
          make: makes the pytree, outside a mesh and inside.
          mesh: with the axis ``'clients'``.
          *arguments: of ``make``, replicated; arrays or their shapes.
        """
        self._mesh = mesh
        self._make = make
        inside = jax.eval_shape(on_each(make, mesh), *arguments)
        self._inside = jax.tree.structure(inside)
        self._shapes = jax.eval_shape(make, *arguments)
        self._outside = jax.tree.structure(self._shapes)
        self._num_clients: list[int | None] = []
        for node in jax.tree.leaves(inside, is_leaf=_is_table_shard):
            num_clients = node.num_clients if _is_table_shard(node) else None
            self._num_clients += [num_clients for _ in jax.tree.leaves(node)]
        self.specs = [
            REPLICATED if num_clients is None else PartitionSpec(AXIS)
            for num_clients in self._num_clients
        ]

    @property
    def shardings(self) -> list[jax.sharding.NamedSharding]:
        """Returns the shardings of the leaves, with tables of D * K rows."""
        return [jax.sharding.NamedSharding(self._mesh, spec) for spec in self.specs]

    def make(self, *arguments: PyTree) -> PyTree:
        """Makes the pytree on the mesh, with tables of D * K rows."""

        def make_leaves(*inner_arguments: PyTree) -> list[jax.Array]:
            return jax.tree.leaves(self._make(*inner_arguments))

        run = on_each(make_leaves, self._mesh, REPLICATED, self.specs)
        return self.from_device_leaves(run(*arguments), is_padded=True)

    def advance(
        self, run: Callable[..., tuple[PyTree, ...]], values: PyTree, *arguments: PyTree
    ) -> tuple[PyTree, ...]:
        """Runs a function of such a pytree on the mesh.

        Args:
          run: ``(pytree, *arguments) -> (new pytree, output, further output)``, inside the mesh.
          values: the pytree from outside, its tables with N or D * K rows; None for ``run`` to make
            the pytree.
          *arguments: replicated.

        Returns:
          What ``run`` returns. Tables have as many rows as those of ``values``, N by default.
        """

        def run_on_device(
            leaves: list[jax.Array] | None, *arguments: PyTree
        ) -> tuple[PyTree, ...]:
            inside = None
            if leaves is not None:
                inside = jax.tree.unflatten(self._inside, leaves)
            new, *outputs = run(inside, *arguments)
            return jax.tree.leaves(new), *outputs

        start = None
        start_specs = None
        is_padded = False
        if values is not None:
            start = self.to_device_leaves(values)
            start_specs = self.specs
            is_padded = self._has_padding(values)
        in_specs = (start_specs, *(REPLICATED for _ in arguments))
        out_specs = (self.specs, REPLICATED, REPLICATED)
        program = on_each(run_on_device, self._mesh, in_specs, out_specs)
        leaves, *outputs = program(start, *arguments)
        return self.from_device_leaves(leaves, is_padded=is_padded), *outputs

    def shapes_like(self, values: Any) -> Any:
        """Returns the shapes of the pytree from outside.

        Args:
          values: such a pytree or something else. Tables have D * K rows if all of its leaves have
            the shapes of that, and N otherwise.
        """
        padded = jax.eval_shape(self.to_device_leaves, self._shapes)
        if [np.shape(a) for a in jax.tree.leaves(values)] == [a.shape for a in padded]:
            return jax.tree.unflatten(self._outside, padded)
        return self._shapes

    def to_device_leaves(self, values: Any) -> list[Any]:
        """Returns the leaves of the pytree from outside, tables padded to D * K rows."""
        return self._map_tables(self._pad, values)

    def from_device_leaves(
        self, leaves: Sequence[TableLeaf], *, is_padded: bool = False
    ) -> PyTree:
        """Returns the pytree as seen from outside.

        Args:
          leaves: from inside, tables with D * K rows.
          is_padded: whether tables keep their padding; by default they get N rows.
        """
        if not is_padded:
            leaves = self._map_tables(self._without_padding, leaves)
        return jax.tree.unflatten(self._outside, leaves)

    def fetch(self, values: PyTree) -> PyTree:
        """Fetches the pytree to the host, with tables of N rows or this process's `LocalRows`.

        Args:
          values: the pytree, its tables with N or D * K rows.
        """
        return jax.tree.unflatten(self._outside, self._map_tables(_to_host, values))

    def _has_padding(self, values: PyTree) -> bool:
        pairs = zip(jax.tree.leaves(values), self._num_clients, strict=True)
        return any(
            num_clients is not None and a.shape[0] > num_clients
            for a, num_clients in pairs
        )

    def _map_tables(
        self, change: Callable[[Any, int], TableLeaf], values: PyTree
    ) -> list[TableLeaf]:
        """Returns the leaves of a pytree, with ``change(leaf, N)`` in place of those of tables."""
        pairs = zip(jax.tree.leaves(values), self._num_clients, strict=True)
        return [
            a if num_clients is None else change(a, num_clients)
            for a, num_clients in pairs
        ]

    def _pad(self, a: TableLeaf, num_clients: int) -> TableLeaf:
        num_rows = self._mesh.size * math.ceil(num_clients / self._mesh.size)
        if a.shape[0] == num_rows:
            return a
        if isinstance(a, LocalRows):
            rows = self._pad(a.rows, num_clients)
            assert isinstance(rows, np.ndarray)
            return LocalRows(rows, a.first, num_rows)
        pad = np.pad if isinstance(a, np.ndarray) else jnp.pad
        widths = [(0, num_rows - num_clients)] + [(0, 0)] * (a.ndim - 1)
        return pad(a, widths)

    def _without_padding(self, a: jax.Array, num_clients: int) -> jax.Array:
        if a.shape[0] == num_clients:
            return a
        replicated = jax.sharding.NamedSharding(self._mesh, REPLICATED)
        return jax.lax.with_sharding_constraint(a[:num_clients], replicated)


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
      out_specs: likewise of what it returns.

    Returns:
      The function, of the same arguments.
    """
    return jax.shard_map(
        fn, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def _is_table_shard(node: object) -> bool:
    return isinstance(node, TableShard)


def _to_host(a: jax.Array, num_clients: int) -> np.ndarray | LocalRows:
    """Fetches the clients' rows that devices of this process hold."""
    if a.is_fully_addressable:
        return np.asarray(a)[:num_clients]
    shards = sorted(a.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    first = min(shards[0].index[0].start or 0, num_clients)
    pieces = [np.asarray(shard.data) for shard in shards]
    rows = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    return LocalRows(rows[: num_clients - first], first, num_clients)


def _shard_size(num_clients: int) -> int:
    """Returns K, the number of rows that a device stores."""
    return math.ceil(num_clients / jax.lax.axis_size(AXIS))


def _in_one_buffer(
    collective: Callable[[jax.Array], jax.Array], values: PyTree, leading_axes: int
) -> PyTree:
    """Applies a collective to all leaves of a dtype in one buffer, as each call costs a meeting.

    Args:
      collective: of one array; it may add a leading axis.
      values: leaves with ``leading_axes`` leading axes that the collective acts on.
      leading_axes: how many.
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
