"""Describes how a pytree with client tables lies on a mesh, as seen from outside of it.

A client table has a row for each of the N clients. Inside a mesh of D devices, each device has a
`meshes.TableShard` of K rows. From outside, a table is one array of D * K rows, and all rows after
the first N are padding. With several processes, each host has the `LocalRows` of its own devices.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from fedjax_links.base import PyTree
from fedjax_links.core import errors, meshes


@dataclasses.dataclass(frozen=True)
class LocalRows:
    """Holds the rows of a client table that belong to one of several processes, on the host.

    Attributes:
      rows: [k, ...], of consecutive clients.
      first: the id of the first of these clients.
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
        """Returns a part of the table.

        Args:
          index: slices of the full table, without steps, whose rows are all held here.
        """
        row_slice, *other_slices = index
        start = None if row_slice.start is None else row_slice.start - self.first
        stop = None if row_slice.stop is None else row_slice.stop - self.first
        return self.rows[(slice(start, stop), *other_slices)]


TableLeaf: TypeAlias = jax.Array | np.ndarray | LocalRows
"""A leaf of a pytree with client tables, on devices or on the host."""


class Layout:
    """Shards a pytree with client tables, such as a federation's state, on a mesh.

    From outside, tables have leaves [N, ...], or leaves [D * K, ...] with the padding of all
    shards. If D does not divide N, only tables with padding can stay sharded.
    """

    def __init__(
        self, make: Callable[..., PyTree], mesh: jax.sharding.Mesh, *arguments: PyTree
    ) -> None:
        """Finds the tables of the pytree by tracing ``make``.

        Args:
          make: makes the pytree, outside and inside a mesh.
          mesh: with the one axis ``'clients'``, of any type.
          *arguments: of ``make``, replicated; arrays or their shapes.

        Raises:
          ValueError: if ``mesh`` is no mesh, or has other axes.
        """
        if not isinstance(mesh, jax.sharding.Mesh):
            requirement = 'be a mesh, such as `machines.devices.mesh(2)`'
            raise errors.invalid('mesh', requirement, errors.text_of(mesh))
        if mesh.axis_names != (meshes.AXIS,):
            requirement = f'have the one axis {meshes.AXIS!r}'
            raise errors.invalid('mesh', requirement, mesh.axis_names)
        # `jax.make_mesh` makes explicit axes, on which tables without their padding have no type.
        automatic = (jax.sharding.AxisType.Auto,)
        self._mesh = jax.sharding.Mesh(mesh.devices, mesh.axis_names, automatic)
        self._make = make
        inside = jax.eval_shape(meshes.on_each(make, self._mesh), *arguments)
        self._inside = jax.tree.structure(inside)
        self._shapes = jax.eval_shape(make, *arguments)
        self._outside = jax.tree.structure(self._shapes)
        self._num_clients: list[int | None] = []
        for node in jax.tree.leaves(inside, is_leaf=_is_table_shard):
            num_clients = node.num_clients if _is_table_shard(node) else None
            self._num_clients += [num_clients for _ in jax.tree.leaves(node)]
        self.specs = [
            meshes.REPLICATED if num_clients is None else PartitionSpec(meshes.AXIS)
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

        run = meshes.on_each(make_leaves, self._mesh, meshes.REPLICATED, self.specs)
        return self.from_device_leaves(run(*arguments), is_padded=True)

    def advance(
        self, run: Callable[..., tuple[PyTree, ...]], values: PyTree, *arguments: PyTree
    ) -> tuple[PyTree, ...]:
        """Runs a function of the pytree on the mesh.

        Args:
          run: ``(pytree, *arguments) -> (new pytree, output, further output)``, inside the mesh.
          values: the pytree as seen from outside, with tables of N or D * K rows. If None, ``run``
            makes the pytree.
          *arguments: replicated.

        Returns:
          What ``run`` returns. Tables have as many rows as the tables of ``values``; N rows if
          ``values`` is None.
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
        in_specs = (start_specs, *(meshes.REPLICATED for _ in arguments))
        out_specs = (self.specs, meshes.REPLICATED, meshes.REPLICATED)
        program = meshes.on_each(run_on_device, self._mesh, in_specs, out_specs)
        leaves, *outputs = program(start, *arguments)
        return self.from_device_leaves(leaves, is_padded=is_padded), *outputs

    def shapes_like(self, values: Any) -> Any:
        """Returns the shapes of the pytree from outside.

        Args:
          values: a pytree. If all of its leaves have the shapes with padding, tables have D * K
            rows, and N otherwise.
        """
        padded = jax.eval_shape(self.to_device_leaves, self._shapes)
        if [np.shape(a) for a in jax.tree.leaves(values)] == [a.shape for a in padded]:
            return jax.tree.unflatten(self._outside, padded)
        return self._shapes

    def to_device_leaves(self, values: Any) -> list[Any]:
        """Returns the leaves of the pytree from outside, tables padded to D * K rows."""
        return self._map_tables(self._pad, values)

    def from_device_leaves(
        self, leaves: Sequence[TableLeaf], *, is_padded: bool
    ) -> PyTree:
        """Returns the pytree as seen from outside.

        Args:
          leaves: from inside, tables with D * K rows.
          is_padded: whether tables keep their padding. Otherwise only the N rows of clients are
            left.
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
        """Returns the leaves of a pytree, with ``change(leaf, N)`` for leaves of tables."""
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
        replicated = jax.sharding.NamedSharding(self._mesh, meshes.REPLICATED)
        return jax.lax.with_sharding_constraint(a[:num_clients], replicated)


def _is_table_shard(node: object) -> bool:
    return isinstance(node, meshes.TableShard)


def _to_host(a: jax.Array, num_clients: int) -> np.ndarray | LocalRows:
    """Fetches the clients' rows that devices of this process hold."""
    if a.is_fully_addressable:
        return np.asarray(a)[:num_clients]
    shards = sorted(a.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    first = min(shards[0].index[0].start or 0, num_clients)
    pieces = [np.asarray(shard.data) for shard in shards]
    rows = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    return LocalRows(rows[: num_clients - first], first, num_clients)
