"""The product of a fully connected layer, with its gradient laid out as the weights are.

The gradient of ``x W`` by W that `jax.lax.dot_general` derives is the transpose of an ``[out, in]``
product. On a CPU, updating a large layer by a transposed matrix takes longer than the product.
"""

import functools

import jax
from jax.typing import DTypeLike

from fedjax_links.base import Array


def dense_product(
    lhs: Array,
    rhs: Array,
    dimension_numbers: jax.lax.DotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """`jax.lax.dot_general`, on a CPU with the gradient of the plain case as the weights lie.

    ``y = x W`` with ``dL/dx = dL/dy W^T`` and ``dL/dW = x^T dL/dy``, the latter computed as
    ``[in, out]``. That is done for the last axis of x and the first of a matrix W of the same type;
    everything else goes to `jax.lax`. As a layer: ``nn.Dense(64, dot_general=dense_product)``.
    Derivatives in forward mode (`jax.jvp`) exist for `jax.lax.dot_general` alone.

    Args:
      lhs: [..., in], the features.
      rhs: [in, out], the weights.
      dimension_numbers: axes, as in `jax.lax`.
      precision: of the products, as in `jax.lax`.
      preferred_element_type: of the result, as in `jax.lax`.

    Returns:
      [..., out].
    """
    contracting, batch = dimension_numbers
    plain = (
        lhs.ndim >= 2
        and rhs.ndim == 2
        and [tuple(axes) for axes in contracting] == [(lhs.ndim - 1,), (0,)]
        and not any(map(len, batch))
        and lhs.dtype == rhs.dtype
        and preferred_element_type is None
        and jax.default_backend() == 'cpu'
    )
    if plain:
        return _product(lhs, rhs, precision)
    return jax.lax.dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(features: Array, weights: Array, precision: jax.lax.PrecisionLike) -> Array:
    axes = (((features.ndim - 1,), (0,)), ((), ()))
    return jax.lax.dot_general(features, weights, axes, precision)


def _forward(
    features: Array, weights: Array, precision: jax.lax.PrecisionLike
) -> tuple[Array, tuple[Array, Array]]:
    return _product(features, weights, precision), (features, weights)


def _backward(
    precision: jax.lax.PrecisionLike, saved: tuple[Array, Array], slope: Array
) -> tuple[Array, Array]:
    features, weights = saved
    last, rest = slope.ndim - 1, tuple(range(slope.ndim - 1))
    by_features = jax.lax.dot_general(slope, weights, (((last,), (1,)), ((), ())), precision)
    by_weights = jax.lax.dot_general(features, slope, ((rest, rest), ((), ())), precision)
    return by_features, by_weights


_product.defvjp(_forward, _backward)
