"""Inside a mesh: whether a trace is, what each device keeps there, and how it gets to the others.

A program is traced inside a mesh where it is the body of a `jax.shard_map` over an axis
``'clients'``, as `simulation.simulate` makes it. All is whole on each device but client tables, of
which a device keeps a `Share`, and examples that `devices.divided` has divided. What devices tell
each other is moved and never added up on the way, so that no bit depends on their number.
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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Share:
    """What one device of a mesh keeps of a client table.

    Devices keep contiguous ranges of client ids, of K = ceil(N / number of devices) ids each. Rows
    past the last client belong to nobody and are never read.

    Attributes:
      rows: leaves [K, ...].
      num_clients: N, of the whole table.
    """

    rows: Any
    num_clients: int = dataclasses.field(metadata={'static': True})


def is_inside() -> bool:
    """Whether what is being traced runs on every device of a mesh."""
    return AXIS in jax.sharding.get_abstract_mesh().manual_axes


def table(num_clients: int, make: Callable[[int], Any]) -> Any:
    """A new client table; inside a mesh, this device's share of it.

    Args:
      num_clients: N.
      make: ``number of rows -> pytree with leaves [rows, ...]``, all rows alike.

    Returns:
      Leaves [N, ...], or a `Share`.
    """
    if not is_inside():
        return make(num_clients)
    return Share(make(_share_size(num_clients)), num_clients)


def own_entries(values: jax.Array) -> jax.Array:
    """Of a vector [N] that is whole on each device, the entries [K] of this device's clients."""
    size = _share_size(values.shape[0])
    padded = jnp.pad(values, (0, size * jax.lax.axis_size(AXIS) - values.shape[0]))
    return jax.lax.dynamic_slice_in_dim(padded, jax.lax.axis_index(AXIS) * size, size)


def own_places(ids: jax.Array, num_clients: int) -> jax.Array:
    """Where this device keeps clients' rows: int32 like ``ids``, K for those it does not keep."""
    size = _share_size(num_clients)
    places = ids - jax.lax.axis_index(AXIS) * size
    is_own = (places >= 0) & (places < size) & (ids < num_clients)
    return jnp.where(is_own, places, size)


def brought(ids: jax.Array, num_clients: int, read: Callable[[jax.Array], Any]) -> Any:
    """What is kept of clients, on the devices that are to have it.

    Args:
      ids: int32[D * w], below N: w clients of each of the D devices.
      num_clients: N.
      read: ``ids [W] -> leaves [W, ...]``, what this device keeps of clients; anything for those it
        keeps nothing of.

    Returns:
      Leaves [w, ...], of this device's clients.
    """
    num_devices = jax.lax.axis_size(AXIS)
    width = ids.shape[0] // num_devices
    sent = jax.tree.map(lambda a: a.reshape(num_devices, width, *a.shape[1:]), read(ids))
    received = _packed(lambda a: jax.lax.all_to_all(a, AXIS, 0, 0), sent, kept_axes=1)
    own = jax.lax.dynamic_slice_in_dim(ids, jax.lax.axis_index(AXIS) * width, width)
    keepers, slots = own // _share_size(num_clients), jnp.arange(width)
    return hidden(jax.tree.map(lambda a: a[keepers, slots], received))


def gathered(values: Any) -> Any:
    """What all devices have: leaves [D, ...] of leaves [...]."""
    return _packed(lambda a: jax.lax.all_gather(a, AXIS), values, kept_axes=0)


def mean(share: Share, dtypes: Any) -> Any:
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
        divisor = hidden(jnp.full(total.shape[1:], count, dtype))
        means: jax.Array = jax.lax.all_gather(total[0] / divisor, AXIS, tiled=True)
        return means[:num_columns].reshape(a.shape[1:])

    return jax.tree.map(leaf_mean, share.rows, dtypes)


def hidden(value: Any) -> Any:
    """A value that the compiler knows nothing of.

    It treats programs of one device and of several differently: it dissolves a loop that it knows
    to turn once, and may multiply by the inverse of what all entries are divided by.
    """
    return jax.lax.optimization_barrier(value)


class Layout:
    """How a pytree with client tables, such as a federation's state, lies on a mesh.

    Seen from outside, its tables have leaves [N, ...]; or [D * K, ...], as many rows as the shares
    of all devices, to stay divided where the D devices do not divide the N clients.
    """

    def __init__(self, make: Callable[..., Any], mesh: jax.sharding.Mesh, *arguments: Any) -> None:
        """Finds it by tracing.

        Args:
          make: what makes the pytree, outside a mesh and inside.
          mesh: with the axis ``'clients'``.
          *arguments: of ``make``, whole on each device; arrays or their shapes.
        """
        self._mesh = mesh
        inside: list[Any] = []

        def probe(*arguments: Any) -> None:
            inside.append(jax.eval_shape(make, *arguments))

        jax.eval_shape(on_each(probe, mesh), *arguments)
        self._inside = jax.tree.structure(inside[0])
        self.outside = jax.tree.structure(jax.eval_shape(make, *arguments))
        nodes = jax.tree.leaves(inside[0], is_leaf=lambda node: isinstance(node, Share))
        self._num_clients = [
            node.num_clients if isinstance(node, Share) else None
            for node in nodes
            for _ in jax.tree.leaves(node)
        ]
        self.specs = [Spec() if n is None else Spec(AXIS) for n in self._num_clients]

    @property
    def shardings(self) -> list[jax.sharding.NamedSharding]:
        """Of the leaves, with tables of D * K rows."""
        return [jax.sharding.NamedSharding(self._mesh, spec) for spec in self.specs]

    def entered(self, values: Any) -> list[Any]:
        """The leaves of the pytree from outside, tables with D * K rows."""
        pairs = zip(jax.tree.leaves(values), self._num_clients, strict=True)
        return [a if n is None else self._filled(a, n) for a, n in pairs]

    def inside(self, leaves: Sequence[Any]) -> Any:
        """The pytree as its maker makes it inside."""
        return jax.tree.unflatten(self._inside, leaves)

    def left(self, leaves: Sequence[Any], *, in_shares: bool = False) -> Any:
        """The pytree as seen from outside.

        Args:
          leaves: as they come from inside, tables with D * K rows.
          in_shares: whether tables keep those; else they have N.
        """
        pairs = zip(leaves, self._num_clients, strict=True)
        found = [a if n is None or in_shares else self._without_rest(a, n) for a, n in pairs]
        return jax.tree.unflatten(self.outside, found)

    def whole(self, values: Any, read: Callable[[jax.Array], np.ndarray]) -> Any:
        """The pytree with tables of N rows.

        Args:
          values: with tables of D * K rows, perhaps.
          read: what gives all rows of one.
        """
        leaves = jax.tree.leaves(values)
        pairs = zip(leaves, self._num_clients, strict=True)
        found = [a if n is None else read(a)[:n] for a, n in pairs]
        return jax.tree.unflatten(self.outside, found)

    def table_bytes(self, values: Any) -> int:
        """Bytes of a pytree's tables, of arrays or their shapes."""
        pairs = zip(jax.tree.leaves(values), self._num_clients, strict=True)
        return sum(math.prod(a.shape) * a.dtype.itemsize for a, n in pairs if n is not None)

    def is_in_shares(self, values: Any) -> bool:
        """Whether a pytree's tables have more rows than there are clients."""
        pairs = zip(jax.tree.leaves(values), self._num_clients, strict=True)
        return any(n is not None and a.shape[0] > n for a, n in pairs)

    def _filled(self, a: Any, num_clients: int) -> Any:
        rows = self._mesh.size * math.ceil(num_clients / self._mesh.size)
        if a.shape[0] == rows:
            return a
        pad = np.pad if isinstance(a, np.ndarray) else jnp.pad
        return pad(a, [(0, rows - num_clients)] + [(0, 0)] * (a.ndim - 1))

    def _without_rest(self, a: jax.Array, num_clients: int) -> jax.Array:
        if a.shape[0] == num_clients:
            return a
        whole = jax.sharding.NamedSharding(self._mesh, Spec())
        return jax.lax.with_sharding_constraint(a[:num_clients], whole)


def on_each(
    fn: Callable[..., Any], mesh: jax.sharding.Mesh, in_specs: Any = None, out_specs: Any = None
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
    run: Callable[..., Any] = jax.shard_map(
        fn,
        mesh=mesh,
        in_specs=Spec() if in_specs is None else in_specs,
        out_specs=Spec() if out_specs is None else out_specs,
        check_vma=False,
    )
    return run


def _share_size(num_clients: int) -> int:
    """K, the rows that a device keeps."""
    return math.ceil(num_clients / jax.lax.axis_size(AXIS))


def _packed(collective: Callable[[jax.Array], jax.Array], values: Any, kept_axes: int) -> Any:
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
