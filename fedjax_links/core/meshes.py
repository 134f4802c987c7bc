"""Inside a mesh: whether a trace is, what each device keeps there, and how it gets to the others.

A program is traced inside a mesh where it is the body of a `jax.shard_map` over an axis
``'clients'``, as `simulation.simulate` makes it. All is whole on each device but client tables, of
which a device keeps a `TableShard`. What devices tell each other is moved and never added up on
the way, so that no sum depends on their number.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as Spec

AXIS = 'clients'
"""The axis over which the work of a round's clients is divided."""
WHOLE: Any = Spec()
"""How an array lies that is whole on each device."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TableShard:
    """What one device of a mesh keeps of a client table.

    Devices keep contiguous ranges of client ids, of K = ceil(N / number of devices) ids each. Rows
    past the last client belong to nobody and are never read.

    Attributes:
      rows: leaves [K, ...].
      num_clients: N, of the whole table.
    """

    rows: Any
    num_clients: int = dataclasses.field(metadata={'static': True})


@dataclasses.dataclass(frozen=True)
class LocalRows:
    """Those rows of a client table that one of several processes holds, on the host.

    Attributes:
      own: [k, ...], of consecutive clients.
      first: the first of these.
      num_clients: N, of the whole table.
    """

    own: np.ndarray
    first: int
    num_clients: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole table."""
        return (self.num_clients, *self.own.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """Of the table."""
        return self.own.dtype

    def __getitem__(self, place: tuple[slice, ...]) -> np.ndarray:
        """Part of the table, of rows that are among these; its slices have no steps."""
        rows, *others = place
        start, stop = (
            None if i is None else i - self.first for i in (rows.start, rows.stop)
        )
        return self.own[(slice(start, stop), *others)]


def is_inside() -> bool:
    """Whether what is being traced runs on every device of a mesh."""
    return AXIS in jax.sharding.get_abstract_mesh().manual_axes


def table(num_clients: int, make: Callable[[int], Any]) -> Any:
    """A new client table; inside a mesh, this device's share of it.

    Args:
      num_clients: N.
      make: ``number of rows -> pytree with leaves [rows, ...]``, all rows alike.

    Returns:
      Leaves [N, ...], or a `TableShard`.
    """
    if not is_inside():
        return make(num_clients)
    return TableShard(make(_share_size(num_clients)), num_clients)


def rows_of(table: Any) -> Any:
    """The rows of a table, or of what this device keeps of it."""
    return table.rows if isinstance(table, TableShard) else table


def own_entries(values: jax.Array) -> jax.Array:
    """Of a vector [N] that is whole on each device, the entries [K] of this device's clients."""
    size = _share_size(values.shape[0])
    padded = jnp.pad(values, (0, size * jax.lax.axis_size(AXIS) - values.shape[0]))
    return jax.lax.dynamic_slice_in_dim(padded, jax.lax.axis_index(AXIS) * size, size)


def _own_places(ids: jax.Array, num_clients: int) -> jax.Array:
    """Where this device keeps clients' rows: int32 like ``ids``, K for those it does not keep."""
    size = _share_size(num_clients)
    places = ids - jax.lax.axis_index(AXIS) * size
    return jnp.where(
        (places >= 0) & (places < size) & (ids < num_clients), places, size
    )


def bring_rows(ids: jax.Array, share: TableShard) -> Any:
    """Clients' rows, on the devices that are to have them, whoever keeps them.

    Args:
      ids: int32[D * w], below N: w clients of each of the D devices.
      share: what this device keeps.

    Returns:
      Leaves [w, ...], of this device's clients.
    """
    num_devices = jax.lax.axis_size(AXIS)
    width = ids.shape[0] // num_devices
    places = _own_places(ids, share.num_clients).reshape(num_devices, width)
    sent = jax.tree.map(lambda a: jnp.take(a, places, axis=0, mode='clip'), share.rows)
    received = _packed(lambda a: jax.lax.all_to_all(a, AXIS, 0, 0), sent, kept_axes=1)
    own = jax.lax.dynamic_slice_in_dim(ids, jax.lax.axis_index(AXIS) * width, width)
    keepers, slots = own // _share_size(share.num_clients), jnp.arange(width)
    return hide(jax.tree.map(lambda a: a[keepers, slots], received))


def store_rows(share: TableShard, ids: jax.Array, new_rows: Any) -> TableShard:
    """A share with the rows of clients replaced, of those that this device keeps."""
    places = _own_places(ids, share.num_clients)
    rows = jax.tree.map(
        lambda a, r: a.at[places].set(r, mode='drop'), share.rows, new_rows
    )
    return TableShard(rows, share.num_clients)


def gather(values: Any) -> Any:
    """What all devices have: leaves [D, ...] of leaves [...]."""
    return _packed(lambda a: jax.lax.all_gather(a, AXIS), values, kept_axes=0)


def whole(table: Any) -> Any:
    """All rows of a table, leaves [N, ...] at least, on every device."""
    if not isinstance(table, TableShard):
        return table
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), gather(table.rows))


def mean(share: TableShard, dtypes: Any) -> Any:
    """Mean over all clients of a table, added up and given in ``dtypes``, one for each leaf.

    Every device adds up some columns of all rows, in pairs of fixed ids.
    """
    count, num_devices = share.num_clients, jax.lax.axis_size(AXIS)

    def leaf_mean(a: jax.Array, dtype: np.dtype) -> jax.Array:
        flat = a.reshape(a.shape[0], -1)
        num_columns = flat.shape[1]
        flat = jnp.pad(flat, ((0, 0), (0, -num_columns % num_devices)))
        total = jax.lax.all_to_all(flat, AXIS, 1, 0, tiled=True)[:count].astype(dtype)
        while total.shape[0] > 1:
            half = 1 << (total.shape[0] - 1).bit_length() - 1
            pairs = total.shape[0] - half
            total = jnp.concatenate([total[:pairs] + total[half:], total[pairs:half]])
        divisor = hide(jnp.full(total.shape[1:], count, dtype))
        means: jax.Array = jax.lax.all_gather(total[0] / divisor, AXIS, tiled=True)
        return means[:num_columns].reshape(a.shape[1:])

    return jax.tree.map(leaf_mean, share.rows, dtypes)


def hide(value: Any) -> Any:
    """A value that the compiler knows nothing of.

    It treats programs of one device and of several differently: it dissolves a loop that it knows
    to turn once, and may multiply by the inverse of what all entries are divided by.
    """
    return jax.lax.optimization_barrier(value)


def compiled_alike(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function inside a mesh, which gives the same bits on meshes of any size.

    How values reach a device differs with their number, and what is fused with that is rounded
    differently: a product and a sum once or twice. The body of a loop is fused with nothing outside
    it, so the function becomes that of a loop which turns once.
    """

    def run(*arguments: Any) -> Any:
        zeros = jax.tree.map(
            lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(fn, *arguments)
        )

        def turn(_: Any, carry: Any) -> Any:
            return carry[0], fn(*carry[0])

        return jax.lax.fori_loop(0, hide(jnp.int32(1)), turn, (arguments, zeros))[1]

    return run


class Layout:
    """How a pytree with client tables, such as a federation's state, lies on a mesh.

    Seen from outside, its tables have leaves [N, ...]; or [D * K, ...], as many rows as the shares
    of all devices, to stay divided where the D devices do not divide the N clients.
    """

    def __init__(
        self, make: Callable[..., Any], mesh: jax.sharding.Mesh, *arguments: Any
    ) -> None:
        """Finds it by tracing.

        Args:
          make: what makes the pytree, outside a mesh and inside.
          mesh: with the axis ``'clients'``.
          *arguments: of ``make``, whole on each device; arrays or their shapes.
        """
        self._mesh, self._make = mesh, make
        inside = jax.eval_shape(on_each(make, mesh), *arguments)
        self._inside = jax.tree.structure(inside)
        self._outside = jax.tree.structure(jax.eval_shape(make, *arguments))
        nodes = jax.tree.leaves(
            inside, is_leaf=lambda node: isinstance(node, TableShard)
        )
        self._num_clients = [
            getattr(node, 'num_clients', None)
            for node in nodes
            for _ in jax.tree.leaves(node)
        ]
        self.specs = [WHOLE if n is None else Spec(AXIS) for n in self._num_clients]

    @property
    def shardings(self) -> list[jax.sharding.NamedSharding]:
        """Of the leaves, with tables of D * K rows."""
        return [jax.sharding.NamedSharding(self._mesh, spec) for spec in self.specs]

    def make(self, *arguments: Any) -> Any:
        """The pytree as its maker makes it on the mesh, tables with D * K rows."""
        run = on_each(
            lambda *of: jax.tree.leaves(self._make(*of)), self._mesh, WHOLE, self.specs
        )
        return self.leave(run(*arguments), in_shares=True)

    def advance(
        self, run: Callable[..., Any], values: Any, *arguments: Any
    ) -> tuple[Any, ...]:
        """Runs a function of such a pytree on the mesh.

        Args:
          run: ``(pytree, *arguments) -> (new pytree, output, further output)``, of what is inside.
          values: the pytree from outside, its tables with N or D * K rows; None for ``run`` to
            make it.
          *arguments: whole on each device.

        Returns:
          What ``run`` returns; tables as they came, else with N rows.
        """

        def run_share(leaves: list[Any] | None, *arguments: Any) -> Any:
            inside = (
                None if leaves is None else jax.tree.unflatten(self._inside, leaves)
            )
            new, *outputs = run(inside, *arguments)
            return jax.tree.leaves(new), *outputs

        start, specs, in_shares = None, None, False
        if values is not None:
            start, specs = self.enter(values), self.specs
            pairs = zip(jax.tree.leaves(values), self._num_clients, strict=True)
            in_shares = any(a.shape[0] > n for a, n in pairs if n is not None)
        in_specs, out_specs = (
            (specs, *(WHOLE for _ in arguments)),
            (self.specs, WHOLE, WHOLE),
        )
        leaves, *outputs = on_each(run_share, self._mesh, in_specs, out_specs)(
            start, *arguments
        )
        return self.leave(leaves, in_shares=in_shares), *outputs

    def enter(self, values: Any) -> list[Any]:
        """The leaves of the pytree from outside, tables with D * K rows."""
        return self._with_tables(values, self._filled)

    def leave(self, leaves: Sequence[Any], *, in_shares: bool = False) -> Any:
        """The pytree as seen from outside.

        Args:
          leaves: from inside, tables with D * K rows.
          in_shares: whether tables keep those; else they have N.
        """
        found = leaves if in_shares else self._with_tables(leaves, self._without_rest)
        return jax.tree.unflatten(self._outside, found)

    def fetch(self, values: Any) -> Any:
        """The pytree with tables of N rows on the host, or this process's `LocalRows` of them.

        Args:
          values: with tables of D * K rows, perhaps.
        """
        return jax.tree.unflatten(self._outside, self._with_tables(values, _fetched))

    def _with_tables(self, values: Any, change: Callable[[Any, int], Any]) -> list[Any]:
        """The leaves of a pytree, those of tables changed."""
        pairs = zip(jax.tree.leaves(values), self._num_clients, strict=True)
        return [a if n is None else change(a, n) for a, n in pairs]

    def _filled(self, a: Any, num_clients: int) -> Any:
        rows = self._mesh.size * math.ceil(num_clients / self._mesh.size)
        if a.shape[0] == rows:
            return a
        if isinstance(a, LocalRows):
            return LocalRows(self._filled(a.own, num_clients), a.first, rows)
        pad = np.pad if isinstance(a, np.ndarray) else jnp.pad
        return pad(a, [(0, rows - num_clients)] + [(0, 0)] * (a.ndim - 1))

    def _without_rest(self, a: jax.Array, num_clients: int) -> jax.Array:
        if a.shape[0] == num_clients:
            return a
        whole = jax.sharding.NamedSharding(self._mesh, WHOLE)
        return jax.lax.with_sharding_constraint(a[:num_clients], whole)


def on_each(
    fn: Callable[..., Any],
    mesh: jax.sharding.Mesh,
    in_specs: Any = WHOLE,
    out_specs: Any = WHOLE,
) -> Callable[..., Any]:
    """A function that runs inside a mesh.

    Args:
      fn: of pytrees.
      mesh: with the axis ``'clients'``.
      in_specs: how its arguments lie on the devices; whole on each by default.
      out_specs: likewise of what it returns.

    Returns:
      The function, of the same arguments.
    """
    return jax.shard_map(
        fn, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def _fetched(a: jax.Array, num_clients: int) -> np.ndarray | LocalRows:
    """The rows of clients that devices of this process hold."""
    if a.is_fully_addressable:
        return np.asarray(a)[:num_clients]
    shards = sorted(a.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    first = min(shards[0].index[0].start or 0, num_clients)
    pieces = [np.asarray(shard.data) for shard in shards]
    own = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    return LocalRows(own[: num_clients - first], first, num_clients)


def _share_size(num_clients: int) -> int:
    """K, the rows that a device keeps."""
    return math.ceil(num_clients / jax.lax.axis_size(AXIS))


def _packed(
    collective: Callable[[jax.Array], jax.Array], values: Any, kept_axes: int
) -> Any:
    """A collective of all leaves of a dtype in one buffer, as devices meet once for each.

    Args:
      collective: of one array; it may give it a leading axis.
      values: leaves with ``kept_axes`` leading axes that the collective acts on.
      kept_axes: how many.
    """
    leaves, treedef = jax.tree.flatten(values)
    found = list(leaves)
    for dtype in dict.fromkeys(a.dtype for a in leaves):
        places = [place for place, a in enumerate(leaves) if a.dtype == dtype]
        flat = [leaves[i].reshape(*leaves[i].shape[:kept_axes], -1) for i in places]
        done = collective(flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=-1))
        ends = list(itertools.accumulate(a.shape[-1] for a in flat))
        for i, part in zip(places, jnp.split(done, ends[:-1], axis=-1), strict=True):
            found[i] = part.reshape(*done.shape[:-1], *leaves[i].shape[kept_axes:])
    return jax.tree.unflatten(treedef, found)
