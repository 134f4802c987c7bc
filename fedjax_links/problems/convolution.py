"""Computes convolutions as matrix products, 2 x 2 max-pooling and dense layers.

XLA's own convolution can be far slower than a matrix product of shifted images with the kernel: in
a compiled loop on a CPU, and under `jax.vmap` over the weights of many clients. Values and
gradients agree to rounding.

There are two forms, `by_patches` and `by_rows`:
``y[b, i, j] = sum_{u, v} x[b, i + u - top, j + v - left] K[u, v]``, where x is zero outside the
image. Shifts of an array are its copies, each moved by one offset of the kernel. `by_patches` lays
all shifts of the image side by side on the channel axis, then multiplies by the kernel. `by_rows`
lays the shifts along columns side by side, multiplies, then adds up shifts along rows. Laying
shifts side by side and adding shifts up are adjoint operations: each is the other's backward pass.
JAX would derive a padded sum for each shift. There is no forward mode (`jax.jvp`). Gradients of
gradients, and forward mode over a gradient (`jax.hessian`), work.

The gradient of ``x W`` by W that `jax.lax.dot_general` derives is the transpose of an ``[out, in]``
product. On a CPU, updating a large layer by a transposed matrix takes longer than the product;
`dense_product` lays the gradient out as the weights are.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from fedjax_links.base import Array
from fedjax_links.core import errors

_NHWC = jax.lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))

Padding = Sequence[tuple[int, int]]
"""(low, high) of the rows and of the columns; negative crops."""
Form = Callable[[Array, Array, Padding], Array]


def fastest_form(kernel_width: int, channels: int) -> Form | None:
    """Returns the form of a convolution that was measured to be the fastest on this backend.

    | backend    | form                                                                  |
    |------------|-----------------------------------------------------------------------|
    | cpu, gpu   | patches where kernel width x channels of the images <= 40, else rows  |
    | all others | `jax.lax`'s own: the forms are not measured there                     |

    On a CPU, patches of many channels leave the cache, and rows of few channels make narrow
    products. On a GPU, `jax.lax`'s form for the kernels of many clients is a convolution of as many
    groups. Training on an H100 is two to five times as slow with this form (docs/speed.md); other
    GPUs were not measured. ``python -m benchmarks.convolution`` compares the choice with
    `jax.lax`'s convolution on the machine that runs it.

    Args:
      kernel_width: kw.
      channels: C, of the images.

    Returns:
      `by_patches` or `by_rows`; None for `jax.lax`'s own.
    """
    if jax.default_backend() not in ('cpu', 'gpu'):
        return None
    return by_rows if kernel_width * channels > 40 else by_patches


def conv_as_matmul(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: jax.lax.ConvGeneralDilatedDimensionNumbers = None,
    *,
    form: Form | None = None,
    **options: Any,
) -> Array:
    """Computes `jax.lax.conv_general_dilated`, the plain case as a matrix product (CPU, GPU).

    ``y[b, i, j, :] = sum_{u, v} x[b, i + u, j + v, :] K[u, v]``, in the form that `fastest_form`
    chooses. All shifts of the padded image lie side by side on the channel axis, or only the shifts
    along its columns. The product is used for two spatial axes, channels last, in single or double
    precision, without strides or ``options`` (dilation, groups, precision). Everything else goes to
    `jax.lax`. Scratch memory by patches is ``kh kw`` times the image. By rows it is ``kw`` times
    the image and ``kh`` times the result. As a layer:
    ``nn.Conv(32, (5, 5), conv_general_dilated=conv_as_matmul)``.

    The backward pass is then written by hand. So derivatives in forward mode (`jax.jvp`,
    `jax.jacfwd`, `jax.linearize`) exist for `jax.lax.conv_general_dilated` alone; gradients of
    gradients and `jax.hessian`, which is forward mode over a gradient, exist here too.

    Args:
      lhs: [B, H, W, C], the images.
      rhs: [kh, kw, C, D], the kernel.
      window_strides: one per spatial axis.
      padding: ``'SAME'``, ``'VALID'``, or a pair (low, high) per spatial axis.
      dimension_numbers: meaning of the axes, as in `jax.lax`; the shapes given here hold for
        ``('NHWC', 'HWIO', 'NHWC')``.
      form: `by_patches` or `by_rows`; `fastest_form` by default.
      **options: further ones of `jax.lax.conv_general_dilated`.

    Returns:
      [B, H', W', D].
    """
    numbers = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    has_default_options = all(v in (None, 1, (1, 1)) for v in options.values())
    is_plain = (
        numbers == _NHWC
        and tuple(window_strides) == (1, 1)
        and has_default_options
        and _fit_each_other(lhs, rhs)
    )
    if is_plain and form is None:
        form = fastest_form(rhs.shape[1], lhs.shape[3])
    if is_plain and form is not None:
        pads = padding
        if isinstance(pads, str):
            pads = jax.lax.padtype_to_pads(lhs.shape[1:3], rhs.shape[:2], (1, 1), pads)
        if min(_output_size(lhs, rhs, pads)) > 0:
            return form(lhs, rhs, pads)
    return jax.lax.conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        dimension_numbers=dimension_numbers,
        **options,
    )


def _fit_each_other(images: Array, kernel: Array) -> bool:
    """Returns whether channels and dtypes fit, and are of single or double precision."""
    has_channels = images.shape[3] == kernel.shape[2]
    has_one_dtype = images.dtype == kernel.dtype
    return has_channels and has_one_dtype and images.dtype in (jnp.float32, jnp.float64)


def max_pool(images: Array) -> Array:
    """Takes maxima over 2 x 2 windows side by side; an odd last row or column is left out.

    Entries that tie for a maximum share its gradient equally; `flax.linen.max_pool` gives the whole
    gradient to the first of these entries. The backward pass is written by hand: forward mode
    (`jax.jvp`) exists for `flax.linen.max_pool` alone.

    Args:
      images: [B, H, W, C] with H and W at least 2.

    Returns:
      [B, H // 2, W // 2, C].

    Raises:
      ValueError: if an image is smaller than one window.
    """
    _, height, width, _ = images.shape
    if min(height, width) < 2:
        requirement = 'be at least 2 x 2, [height, width, channels]'
        raise errors.invalid('images', requirement, f'{height} x {width}')
    return _pool(images[:, : height // 2 * 2, : width // 2 * 2])


def _maxima(images: Array) -> Array:
    """Computes maxima by entries of the windows, on a CPU faster than over windows."""
    corners = ((0, 0), (0, 1), (1, 0), (1, 1))
    first, *others = [images[:, top::2, left::2] for top, left in corners]
    return functools.reduce(jnp.maximum, others, first)


def _pool_forward(images: Array) -> tuple[Array, tuple[Array, Array]]:
    maxima = _maxima(images)
    return maxima, (images, maxima)


def _pool_backward(saved: tuple[Array, Array], slope: Array) -> tuple[Array]:
    images, maxima = saved
    batch, height, width, channels = images.shape
    windows = images.reshape(batch, height // 2, 2, width // 2, 2, channels)
    hits = (windows == maxima[:, :, None, :, None]).astype(slope.dtype)
    shares = slope / jnp.sum(hits, axis=(2, 4))
    return ((hits * shares[:, :, None, :, None]).reshape(images.shape),)


_pool = jax.custom_vjp(_maxima)
_pool.defvjp(_pool_forward, _pool_backward)


class Shifts(NamedTuple):
    """Holds shifts along an axis.

    Attributes:
      steps: the shifts.
      axis: of rows or of columns.
      single_size: positions along the axis in the array that is shifted.
      stacked_size: positions along the axis in the array of all shifts, side by side on the last
        axis.
    """

    steps: tuple[int, ...]
    axis: int
    single_size: int
    stacked_size: int


def _output_size(images: Array, kernel: Array, padding: Padding) -> tuple[int, int]:
    """Returns the rows and columns of the result."""
    height = images.shape[1] + sum(padding[0]) - kernel.shape[0] + 1
    width = images.shape[2] + sum(padding[1]) - kernel.shape[1] + 1
    return height, width


def by_patches(images: Array, kernel: Array, padding: Padding) -> Array:
    """Multiplies all windows, a row of a matrix each, by the kernel ``[kh kw C, D]``.

    Args:
      images: [B, H, W, C].
      kernel: [kh, kw, C, D], of the same type.
      padding: zeros around the images.

    Returns:
      [B, H', W', D]. Scratch memory is ``kh kw`` times the images.
    """
    rows, columns = _shifts(images, kernel, padding)
    patches = _side_by_side(_side_by_side(images, columns), rows)
    return _product(patches, kernel.reshape(-1, kernel.shape[3]))


def by_rows(images: Array, kernel: Array, padding: Padding) -> Array:
    """Concatenates columns before the product, and adds up rows after it.

    With ``U[b, r, j, (v, c)] = x[b, r, j + v - left, c]`` and K as a matrix ``[kw C, kh D]``:
    ``y[b, i, j] = sum_u (U K)[b, i + u - top, j, u]``. As many operations as by patches, on ``kw``
    instead of ``kh kw`` times the memory.

    Args:
      images: [B, H, W, C].
      kernel: [kh, kw, C, D], of the same type.
      padding: zeros around the images.

    Returns:
      [B, H', W', D]. Scratch memory is ``kw`` times the images and ``kh`` times the result.
    """
    rows, columns = _shifts(images, kernel, padding)
    height, width, inputs, outputs = kernel.shape
    matrix = kernel.transpose(1, 2, 0, 3).reshape(width * inputs, height * outputs)
    back = Shifts(
        tuple(-step for step in rows.steps), 1, rows.stacked_size, rows.single_size
    )
    return _added_up(_product(_side_by_side(images, columns), matrix), back)


def _shifts(images: Array, kernel: Array, padding: Padding) -> tuple[Shifts, Shifts]:
    """Returns how far each row and column of the kernel lies from the output's position."""
    height, width = _output_size(images, kernel, padding)
    top = padding[0][0]
    left = padding[1][0]
    rows = Shifts(tuple(range(-top, kernel.shape[0] - top)), 1, images.shape[1], height)
    columns = Shifts(
        tuple(range(-left, kernel.shape[1] - left)), 2, images.shape[2], width
    )
    return rows, columns


def _take(array: Array, shifts: Shifts) -> Array:
    """Returns ``out[i, (s, c)] = array[i + s, c]``, zero outside."""
    steps, axis, single_size, stacked_size = shifts
    low = min(steps)
    high = stacked_size + max(steps) - single_size
    padded = _padded(array, axis, -low, high)
    starts = [step - low for step in steps]
    shifted = [
        jax.lax.slice_in_dim(padded, s, s + stacked_size, axis=axis) for s in starts
    ]
    return jnp.concatenate(shifted, axis=-1)


def _add(array: Array, shifts: Shifts) -> Array:
    """Returns the adjoint of `_take`: ``out[r, c] = sum_s array[r - s, (s, c)]``."""
    blocks = array.reshape(*array.shape[:-1], len(shifts.steps), -1)
    terms = [
        _padded(
            blocks[..., k, :],
            shifts.axis,
            step,
            shifts.single_size - step - shifts.stacked_size,
        )
        for k, step in enumerate(shifts.steps)
    ]
    return functools.reduce(jnp.add, terms)


def _padded(array: Array, axis: int, low: int, high: int) -> Array:
    config = [(0, 0, 0)] * array.ndim
    config[axis] = (low, high, 0)
    return jax.lax.pad(array, jnp.zeros((), array.dtype), config)


_side_by_side = jax.custom_vjp(_take, nondiff_argnums=(1,))
_side_by_side.defvjp(
    lambda a, s: (_take(a, s), None), lambda s, _, slope: (_add(slope, s),)
)
_added_up = jax.custom_vjp(_add, nondiff_argnums=(1,))
_added_up.defvjp(
    lambda a, s: (_add(a, s), None), lambda s, _, slope: (_take(slope, s),)
)


def dense_product(
    lhs: Array,
    rhs: Array,
    dimension_numbers: jax.lax.DotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Computes `jax.lax.dot_general`; on a CPU its gradient is laid out as the weights are.

    ``y = x W`` with ``dL/dx = dL/dy W^T`` and ``dL/dW = x^T dL/dy``, where dL/dW is computed as
    ``[in, out]``. That is done for the last axis of x and the first axis of a matrix W of the same
    type, if ``precision`` and the type of the result are not set. Everything else goes to
    `jax.lax`. As a
    layer: ``nn.Dense(64, dot_general=dense_product)``. Derivatives in forward mode (`jax.jvp`)
    exist for `jax.lax.dot_general` alone.

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
        rhs.ndim == 2
        and lhs.ndim >= 2
        and dimension_numbers == (((lhs.ndim - 1,), (0,)), ((), ()))
        and lhs.dtype == rhs.dtype
        and precision is None
        and preferred_element_type is None
        and jax.default_backend() == 'cpu'
    )
    if plain:
        return _product(lhs, rhs)
    return jax.lax.dot_general(
        lhs, rhs, dimension_numbers, precision, preferred_element_type
    )


def _multiply(features: Array, weights: Array) -> Array:
    return jax.lax.dot_general(
        features, weights, (((features.ndim - 1,), (0,)), ((), ()))
    )


def _product_backward(saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    features, weights = saved
    last = slope.ndim - 1
    rest = tuple(range(last))
    by_features = jax.lax.dot_general(slope, weights, (((last,), (1,)), ((), ())))
    by_weights = jax.lax.dot_general(features, slope, ((rest, rest), ((), ())))
    return by_features, by_weights


_product = jax.custom_vjp(_multiply)
_product.defvjp(lambda x, w: (_multiply(x, w), (x, w)), _product_backward)
