"""Computes with pytrees, with and without a leading client axis.

Results keep the dtypes of their first pytree, so a scan's carry never changes type.
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, PyTree
from fedjax_links.core import meshes


def as_arrays(x: PyTree) -> PyTree:
    """Converts leaves that are numbers or arrays of NumPy's to arrays of dtypes that JAX has."""

    def as_array(leaf: Array | np.ndarray | float) -> Array:
        if isinstance(leaf, jax.Array):
            return leaf
        return jnp.asarray(leaf, jnp.result_type(leaf))

    return jax.tree.map(as_array, x)


def add_scaled(x: PyTree, scale: Array | float, y: PyTree) -> PyTree:
    """Computes ``x + scale * y`` for a scalar ``scale``."""
    return jax.tree.map(lambda a, b: (a + scale * b).astype(a.dtype), x, y)


def add_compensated(
    x: PyTree, excess: PyTree, scale: Array | float, y: PyTree
) -> PyTree:
    """Computes ``x + scale * y`` of a long running sum by Kahan's summation.

    The rounding error of a step is corrected in the next step. So the sum stays within a few units
    in the last place, however many steps there are.

    Args:
      x: the sum so far.
      excess: by how much rounding has left the sum too large: `zero_sums` at first, then as
        returned.
      scale: a scalar.
      y: what is added, times ``scale``.

    Returns:
      The sum in the dtypes of x, and its excess in the dtypes of `zero_sums`.
    """

    def compensated_step(e: Array, b: Array) -> Array:
        return (scale * b).astype(e.dtype) - e

    def add_step(a: Array, step: Array) -> Array:
        return a.astype(step.dtype) + step

    def rounding_of(a: Array, step: Array, new: Array) -> Array:
        return (new - a.astype(step.dtype)) - step

    # step = scale y - excess;  sum = x + step, rounded;  new excess = (sum - x) - step.
    steps = jax.tree.map(compensated_step, excess, y)
    sums = round_to(jax.tree.map(add_step, x, steps), x)
    new_excess = jax.tree.map(rounding_of, x, steps, sums)
    return cast_like(sums, x), new_excess


def subtract(x: PyTree, y: PyTree) -> PyTree:
    """Computes ``x - y``."""
    return jax.tree.map(lambda a, b: (a - b).astype(a.dtype), x, y)


def scale(factor: Array | float, x: PyTree) -> PyTree:
    """Computes ``factor * x`` for a scalar factor."""
    return jax.tree.map(lambda a: (factor * a).astype(a.dtype), x)


def zeros_like(x: PyTree) -> PyTree:
    """Makes zeros of the shapes and dtypes of ``x`` (arrays or shape structs)."""
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), x)


def zero_sums(x: PyTree) -> PyTree:
    """Makes zeros of the shapes of ``x`` (arrays or shape structs), in the dtypes of its sums."""
    return jax.tree.map(lambda a: jnp.zeros(a.shape, sum_dtype(a.dtype)), x)


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """Returns the dtype in which values are summed over clients: at least float32 for floats."""
    is_float = jnp.issubdtype(dtype, jnp.floating)
    return jnp.promote_types(dtype, jnp.float32) if is_float else dtype


def round_to(x: PyTree, like: PyTree) -> PyTree:
    """Rounds ``x`` to what the dtypes of ``like`` can hold; its own dtypes stay.

    A cast there and back would not do: the compiler is free to drop the pair.
    """

    def round_leaf(a: Array, b: Array) -> Array:
        if not jnp.issubdtype(b.dtype, jnp.floating):
            return a
        old = jnp.finfo(a.dtype)  # type: ignore[no-untyped-call]
        new = jnp.finfo(b.dtype)  # type: ignore[no-untyped-call]
        if new.nmant >= old.nmant and new.nexp >= old.nexp:
            return a
        # In float16, `reduce_precision` would keep too few digits of subnormal numbers.
        wide = a.astype(sum_dtype(a.dtype))
        rounded = jax.lax.reduce_precision(
            wide, exponent_bits=new.nexp, mantissa_bits=new.nmant
        )
        if new.nexp < jnp.finfo(wide.dtype).nexp:  # type: ignore[no-untyped-call]
            # `reduce_precision` makes numbers zero that are subnormal in the new dtype; a cast
            # keeps them.
            step = float(new.smallest_subnormal)
            is_subnormal = jnp.abs(wide) < float(new.smallest_normal)
            rounded = jnp.where(is_subnormal, jnp.round(wide / step) * step, rounded)
        return rounded.astype(a.dtype)

    return jax.tree.map(round_leaf, x, like)


def row_delta(new: PyTree, old: PyTree) -> PyTree:
    """Computes ``new - old`` of rows as they are stored, in the dtypes of sums."""
    wide = jax.tree.map(lambda a: a.astype(sum_dtype(a.dtype)), new)
    return subtract(round_to(wide, new), old)


def divide(x: PyTree, count: Array) -> PyTree:
    """Computes ``x / count`` for a scalar count, and zero where the count is zero."""
    safe_count = jnp.where(count > 0, count, 1)

    def quotient(a: Array) -> Array:
        divisor = safe_count.astype(a.dtype)
        # On a mesh the compiler could otherwise multiply by the inverse of the divisor.
        if meshes.in_shard_map():
            divisor = meshes.barrier(jnp.broadcast_to(divisor, a.shape))
        return jnp.where(count > 0, a / divisor, jnp.zeros_like(a))

    return jax.tree.map(quotient, x)


def cast_like(x: PyTree, like: PyTree) -> PyTree:
    """Casts ``x`` to the dtypes of ``like``."""
    return jax.tree.map(lambda a, b: a.astype(b.dtype), x, meshes.rows_of(like))


def select(condition: Array, x: PyTree, y: PyTree) -> PyTree:
    """Selects ``x`` where a scalar condition holds, else ``y``.

    Nothing is multiplied, so NaN in the pytree that is not selected cannot leak.
    """
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b.astype(a.dtype)), x, y)


def expand_dims_like(weights: Array, like: Array) -> Array:
    """Reshapes a vector [N] to broadcast against an array [N, ...]."""
    return weights.reshape(weights.shape + (1,) * (like.ndim - 1))


def select_rows(mask: Array, x: PyTree, y: PyTree) -> PyTree:
    """Selects rows of ``x`` where ``mask`` [N] holds, else rows of ``y``; leaves are [N, ...]."""

    def select_leaf(a: Array, b: Array) -> Array:
        return jnp.where(expand_dims_like(mask, a), a, b)

    return jax.tree.map(select_leaf, x, y)


def broadcast(x: PyTree, num_clients: int) -> PyTree:
    """Copies ``x`` for every client: leaves [N, ...]."""
    return jax.tree.map(lambda a: jnp.broadcast_to(a, (num_clients, *a.shape)), x)


def fill_rows(mask: Array, value: PyTree, client_tree: PyTree) -> PyTree:
    """Replaces the rows of ``client_tree`` in ``mask`` by ``value``."""
    if isinstance(client_tree, meshes.TableShard):
        filled = fill_rows(meshes.local_entries(mask), value, client_tree.rows)
        return meshes.TableShard(filled, client_tree.num_clients)

    def fill_leaf(a: Array, v: Array) -> Array:
        return jnp.where(expand_dims_like(mask, a), v[None], a)

    return jax.tree.map(fill_leaf, client_tree, value)


def client_mean(client_tree: PyTree, like: PyTree | None = None) -> PyTree:
    """Averages over the leading client axis, in the dtypes of ``like``; by default in its own."""
    if like is None:
        like = meshes.rows_of(client_tree)
    dtypes = jax.tree.map(lambda x: sum_dtype(x.dtype), like)
    if isinstance(client_tree, meshes.TableShard):
        return cast_like(meshes.mean(client_tree, dtypes), like)

    def leaf_mean(a: Array, dtype: np.dtype) -> Array:
        return jnp.mean(a, axis=0, dtype=dtype)

    return cast_like(jax.tree.map(leaf_mean, client_tree, dtypes), like)


def global_norm(x: PyTree) -> Array:
    """Computes the L2 norm of all leaves, flattened into one vector."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(a)) for a in jax.tree.leaves(x)))


def all_finite(x: PyTree) -> Array:
    """Returns whether every entry of every leaf is finite: bool[]."""
    checks = [jnp.all(jnp.isfinite(a)) for a in jax.tree.leaves(x)]
    return jnp.all(jnp.stack(checks)) if checks else jnp.array(True)


def by_name(x: PyTree) -> dict[str, Array]:
    """Names the leaves by their paths, such as ``Dense_0.kernel``, in their order."""
    leaves: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(x):
        leaves[jax.tree_util.keystr(path, simple=True, separator='.')] = leaf
    return leaves


def size(x: PyTree) -> int:
    """Counts the entries of all leaves."""
    return sum(int(np.prod(a.shape)) for a in jax.tree.leaves(x))


def num_bytes(x: PyTree) -> int:
    """Counts the bytes of all leaves (arrays or shape structs)."""
    return sum(int(np.prod(a.shape)) * a.dtype.itemsize for a in jax.tree.leaves(x))
