"""The product of a fully connected layer, with its gradient laid out as the weights are.

The gradient of ``x W`` by W that `jax.lax.dot_general` derives is the transpose of an ``[out, in]``
product. On a CPU, updating a large layer by a transposed matrix takes longer than the product.
"""

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
    ``[in, out]``. That is done for the last axis of x and the first of a matrix W of the same type,
    without a ``precision`` or type of the result; everything else goes to `jax.lax`. As a layer:
    ``nn.Dense(64, dot_general=dense_product)``.
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
    plain = (
        lhs.ndim >= rhs.ndim == 2
        and dimension_numbers == (((lhs.ndim - 1,), (0,)), ((), ()))
        and lhs.dtype == rhs.dtype
        and precision is None
        and preferred_element_type is None
        and jax.default_backend() == 'cpu'
    )
    if plain:
        return product(lhs, rhs)
    return jax.lax.dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def _multiply(features: Array, weights: Array) -> Array:
    return jax.lax.dot_general(features, weights, (((features.ndim - 1,), (0,)), ((), ())))


def _backward(saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    features, weights = saved
    last, rest = slope.ndim - 1, tuple(range(slope.ndim - 1))
    by_features = jax.lax.dot_general(slope, weights, (((last,), (1,)), ((), ())))
    by_weights = jax.lax.dot_general(features, slope, ((rest, rest), ((), ())))
    return by_features, by_weights


product = jax.custom_vjp(_multiply)
"""``x W``, of the last axis of [..., in] and the first of [in, out]."""
product.defvjp(lambda x, w: (_multiply(x, w), (x, w)), _backward)
