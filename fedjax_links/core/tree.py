"""Pytree arithmetic, with and without a leading client axis.

Results keep the dtypes of their first pytree, so a scan's carry never changes type.
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, PyTree
from fedjax_links.core import meshes


def add_scaled(x: PyTree, scale: Array | float, y: PyTree) -> PyTree:
    """``x + scale * y`` for a scalar ``scale``."""
    return jax.tree.map(lambda a, b: (a + scale * b).astype(a.dtype), x, y)


def add_compensated(
    x: PyTree, excess: PyTree, scale: Array | float, y: PyTree
) -> PyTree:
    """``x + scale * y`` of a long running sum, and by how much rounding has left it too large.

    Kahan's summation: what a step loses to rounding is made up for in the next, so that the sum
    stays within a few units in the last place however many steps there are.

    Args:
      x: the sum so far.
      excess: as `zero_sums` at first, then as returned.
      scale: a scalar.
      y: what is added, times ``scale``.

    Returns:
      The sum in the dtypes of x, and its excess in those of sums.
    """

    def step(a: Array, over: Array, b: Array) -> Array:
        return (scale * b).astype(over.dtype) - over

    def total(a: Array, change: Array) -> Array:
        return a.astype(change.dtype) + change

    def left(a: Array, change: Array, after: Array) -> Array:
        return (after - a.astype(change.dtype)) - change

    change = jax.tree.map(step, x, excess, y)
    after = round_to(jax.tree.map(total, x, change), x)
    return cast_like(after, x), jax.tree.map(left, x, change, after)


def subtract(x: PyTree, y: PyTree) -> PyTree:
    """``x - y``."""
    return jax.tree.map(lambda a, b: (a - b).astype(a.dtype), x, y)


def scale(factor: Array | float, x: PyTree) -> PyTree:
    """``factor * x`` for a scalar factor."""
    return jax.tree.map(lambda a: (factor * a).astype(a.dtype), x)


def zeros_like(x: PyTree) -> PyTree:
    """Zeros of the shapes and dtypes of ``x`` (arrays or shape structs)."""
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), x)


def zero_sums(x: PyTree) -> PyTree:
    """Zeros of the shapes of ``x`` (arrays or shape structs), in the dtypes of its sums."""
    return jax.tree.map(lambda a: jnp.zeros(a.shape, sum_dtype(a.dtype)), x)


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of sums over clients of values of another: float32 at least, or the integer's."""
    is_float = jnp.issubdtype(dtype, jnp.floating)
    return jnp.promote_types(dtype, jnp.float32) if is_float else dtype


def round_to(x: PyTree, like: PyTree) -> PyTree:
    """``x`` rounded to the precision of ``like``'s dtypes where that is coarser, in its own dtype.

    A cast there and back would do, were the compiler not free to drop the pair.
    """

    def leaf(a: Array, b: Array) -> Array:
        if (
            not jnp.issubdtype(b.dtype, jnp.floating)
            or b.dtype.itemsize >= a.dtype.itemsize
        ):
            return a
        info = jnp.finfo(b.dtype)  # type: ignore[no-untyped-call]
        return jax.lax.reduce_precision(
            a, exponent_bits=info.nexp, mantissa_bits=info.nmant
        )

    return jax.tree.map(leaf, x, like)


def change(new: PyTree, old: PyTree) -> PyTree:
    """``new - old`` as a running sum of rows takes it: of rows as stored, in `sum_dtype`."""
    wide = jax.tree.map(lambda a: a.astype(sum_dtype(a.dtype)), new)
    return subtract(round_to(wide, new), old)


def divide(x: PyTree, count: Array) -> PyTree:
    """``x / count`` for a scalar count, and zero where the count is zero."""
    safe = jnp.where(count > 0, count, 1)

    def quotient(a: Array) -> Array:
        divisor = safe.astype(a.dtype)
        if meshes.is_inside():
            divisor = meshes.hide(jnp.broadcast_to(divisor, a.shape))
        return jnp.where(count > 0, a / divisor, jnp.zeros_like(a))

    return jax.tree.map(quotient, x)


def cast_like(x: PyTree, like: PyTree) -> PyTree:
    """``x`` in the dtypes of ``like``."""
    return jax.tree.map(lambda a, b: a.astype(b.dtype), x, meshes.rows_of(like))


def select(condition: Array, x: PyTree, y: PyTree) -> PyTree:
    """``x`` where a scalar condition holds, else ``y``; never multiplies, so NaN cannot leak."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b.astype(a.dtype)), x, y)


def rows(weights: Array, like: Array) -> Array:
    """A vector [N] shaped to broadcast against an array [N, ...]."""
    return weights.reshape(weights.shape + (1,) * (like.ndim - 1))


def select_rows(mask: Array, x: PyTree, y: PyTree) -> PyTree:
    """Rows of ``x`` where ``mask`` [N] holds, rows of ``y`` elsewhere; leaves are [N, ...]."""
    return jax.tree.map(lambda a, b: jnp.where(rows(mask, a), a, b), x, y)


def broadcast(x: PyTree, num_clients: int) -> PyTree:
    """One copy of ``x`` per client: leaves [N, ...]."""
    return jax.tree.map(lambda a: jnp.broadcast_to(a, (num_clients, *a.shape)), x)


def fill_rows(mask: Array, value: PyTree, client_tree: PyTree) -> PyTree:
    """``client_tree`` with the rows in ``mask`` replaced by ``value``."""
    if isinstance(client_tree, meshes.TableShard):
        filled = fill_rows(meshes.own_entries(mask), value, client_tree.rows)
        return meshes.TableShard(filled, client_tree.num_clients)
    return jax.tree.map(
        lambda a, v: jnp.where(rows(mask, a), v[None], a), client_tree, value
    )


def client_mean(client_tree: PyTree, like: PyTree | None = None) -> PyTree:
    """Mean over the leading client axis, in the dtypes of ``like``; in its own by default."""
    like = meshes.rows_of(client_tree) if like is None else like
    dtypes = jax.tree.map(lambda x: sum_dtype(x.dtype), like)
    if isinstance(client_tree, meshes.TableShard):
        return cast_like(meshes.mean(client_tree, dtypes), like)
    mean = jax.tree.map(
        lambda a, dtype: jnp.mean(a, axis=0, dtype=dtype), client_tree, dtypes
    )
    return cast_like(mean, like)


def global_norm(x: PyTree) -> Array:
    """L2 norm of all leaves flattened into one vector."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(a)) for a in jax.tree.leaves(x)))


def all_finite(x: PyTree) -> Array:
    """bool[]: every entry of every leaf is finite."""
    checks = [jnp.all(jnp.isfinite(a)) for a in jax.tree.leaves(x)]
    return jnp.all(jnp.stack(checks)) if checks else jnp.array(True)


def by_name(x: PyTree) -> dict[str, Array]:
    """Names the leaves by where they are, ``Dense_0.kernel``, in their order."""
    leaves = jax.tree_util.tree_leaves_with_path(x)
    return {
        jax.tree_util.keystr(path, simple=True, separator='.'): leaf
        for path, leaf in leaves
    }


def size(x: PyTree) -> int:
    """Number of entries over all leaves."""
    return sum(int(np.prod(a.shape)) for a in jax.tree.leaves(x))


def num_bytes(x: PyTree) -> int:
    """Bytes over all leaves (arrays or shape structs)."""
    return sum(int(np.prod(a.shape)) * a.dtype.itemsize for a in jax.tree.leaves(x))
