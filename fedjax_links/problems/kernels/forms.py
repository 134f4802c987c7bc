"""Two forms of the plain convolution as a matrix product, each with a backward pass of its own.

``y[b, i, j] = sum_{u, v} x[b, i + u - top, j + v - left] K[u, v]``, where x is zero outside the
image. Each form is a product between shifts side by side on the channel axis and their adjoint,
shifts added up, and so is its backward pass: derived by JAX, it would pad and add up the shifts one
by one. There is no forward mode (`jax.jvp`); gradients of gradients, and forward mode over a
gradient (`jax.hessian`), are as ever.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from fedjax_links.base import Array

Padding = tuple[tuple[int, int], tuple[int, int]]
"""(low, high) of the rows and of the columns; negative crops."""

_Saved = tuple[Array, Array]


class Plan(NamedTuple):
    """What is known of a convolution besides its arrays.

    Attributes:
      padding: zeros around the images.
      precision: of the products, as in `jax.lax`.
      preferred_element_type: of the result, that of the images by default.
    """

    padding: Padding
    precision: jax.lax.PrecisionLike = None
    preferred_element_type: DTypeLike | None = None


def output_size(images: Array, kernel: Array, plan: Plan) -> tuple[int, int]:
    """Rows and columns of the result."""
    height, width = (
        size + low + high - side + 1
        for size, side, (low, high) in zip(
            images.shape[1:3], kernel.shape[:2], plan.padding, strict=True
        )
    )
    return height, width


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def by_patches(images: Array, kernel: Array, plan: Plan) -> Array:
    """Every window as a row of a matrix, times the kernel as a matrix ``[kh kw C, D]``.

    Args:
      images: [B, H, W, C].
      kernel: [kh, kw, C, D], of the same type.
      plan: the rest.

    Returns:
      [B, H', W', D]. Scratch memory is ``kh kw`` times the images.
    """
    return _patches_forward(images, kernel, plan)[0]


def _patches_forward(images: Array, kernel: Array, plan: Plan) -> tuple[Array, _Saved]:
    height, width = output_size(images, kernel, plan)
    row_shifts, column_shifts = _window(kernel, plan)
    patches = _side_by_side(images, column_shifts, 2, width)
    patches = _side_by_side(patches, row_shifts, 1, height)
    matrix = kernel.reshape(-1, kernel.shape[3])
    outputs = _product(patches, matrix, 0, plan, plan.preferred_element_type)
    return outputs, (patches, kernel)


def _patches_backward(plan: Plan, saved: _Saved, slope: Array) -> tuple[Array, Array]:
    patches, kernel = saved
    row_shifts, column_shifts = _window(kernel, plan)
    height, width = _input_size(slope, kernel, plan)
    by_patch = _product(slope, kernel.reshape(-1, kernel.shape[3]), 1, plan, _wide(slope.dtype))
    by_image = _added_up(by_patch, row_shifts, 1, height)
    by_image = _added_up(by_image, column_shifts, 2, width)
    by_kernel = _gram(patches, slope, plan).reshape(kernel.shape)
    return by_image.astype(kernel.dtype), by_kernel.astype(kernel.dtype)


by_patches.defvjp(_patches_forward, _patches_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def by_rows(images: Array, kernel: Array, plan: Plan) -> Array:
    """Columns side by side before the product, rows added up after it.

    With ``U[b, r, j, (v, c)] = x[b, r, j + v - left, c]`` and K as a matrix ``[kw C, kh D]``:
    ``y[b, i, j] = sum_u (U K)[b, i + u - top, j, u]``. As many operations as by patches, on ``kw``
    instead of ``kh kw`` times the memory.

    Args:
      images: [B, H, W, C].
      kernel: [kh, kw, C, D], of the same type.
      plan: the rest.

    Returns:
      [B, H', W', D]. Scratch memory is ``kw`` times the images and ``kh`` times the result.
    """
    return _rows_forward(images, kernel, plan)[0]


def _rows_forward(images: Array, kernel: Array, plan: Plan) -> tuple[Array, _Saved]:
    height, width = output_size(images, kernel, plan)
    row_shifts, column_shifts = _window(kernel, plan)
    columns = _side_by_side(images, column_shifts, 2, width)
    dtype = plan.preferred_element_type
    dtype = images.dtype if dtype is None else dtype
    rows = _product(columns, _row_matrix(kernel), 0, plan, _wide(dtype))
    outputs = _added_up(rows, [-shift for shift in row_shifts], 1, height)
    return outputs.astype(dtype), (columns, kernel)


def _rows_backward(plan: Plan, saved: _Saved, slope: Array) -> tuple[Array, Array]:
    columns, kernel = saved
    row_shifts, column_shifts = _window(kernel, plan)
    height, width = _input_size(slope, kernel, plan)
    rows = _side_by_side(slope, [-shift for shift in row_shifts], 1, height)
    by_columns = _product(rows, _row_matrix(kernel), 1, plan, _wide(slope.dtype))
    by_image = _added_up(by_columns, column_shifts, 2, width)
    kernel_height, kernel_width, inputs, outputs = kernel.shape
    by_matrix = _gram(columns, rows, plan)
    by_kernel = by_matrix.reshape(kernel_width, inputs, kernel_height, outputs)
    return by_image.astype(kernel.dtype), by_kernel.transpose(2, 0, 1, 3).astype(kernel.dtype)


by_rows.defvjp(_rows_forward, _rows_backward)


def _row_matrix(kernel: Array) -> Array:
    """[kw C, kh D]."""
    height, width, inputs, outputs = kernel.shape
    return kernel.transpose(1, 2, 0, 3).reshape(width * inputs, height * outputs)


def _window(kernel: Array, plan: Plan) -> tuple[Sequence[int], Sequence[int]]:
    """How far each row and column of the kernel lies from the output's position."""
    (top, _), (left, _) = plan.padding
    return range(-top, kernel.shape[0] - top), range(-left, kernel.shape[1] - left)


def _input_size(slope: Array, kernel: Array, plan: Plan) -> tuple[int, int]:
    """Rows and columns of the images."""
    height, width = (
        size - low - high + side - 1
        for size, side, (low, high) in zip(
            slope.shape[1:3], kernel.shape[:2], plan.padding, strict=True
        )
    )
    return height, width


def _side_by_side(array: Array, shifts: Sequence[int], axis: int, size: int) -> Array:
    """``out[i, (s, c)] = array[i + s, c]``, zero outside; ``size`` positions along the axis."""
    least = min(shifts)
    config = [(0, 0, 0)] * array.ndim
    config[axis] = (-least, size + max(shifts) - array.shape[axis], 0)
    padded = jax.lax.pad(array, jnp.zeros((), array.dtype), config)
    shifted = [
        jax.lax.slice_in_dim(padded, shift - least, shift - least + size, axis=axis)
        for shift in shifts
    ]
    return jnp.concatenate(shifted, axis=-1)


def _added_up(array: Array, shifts: Sequence[int], axis: int, size: int) -> Array:
    """The adjoint: ``out[r, c] = sum_s array[r - s, (s, c)]``; ``size`` positions."""
    blocks = array.reshape(*array.shape[:-1], len(shifts), -1)
    zero = jnp.zeros((), array.dtype)
    terms = []
    for k, shift in enumerate(shifts):
        config = [(0, 0, 0)] * array.ndim
        config[axis] = (shift, size - shift - array.shape[axis], 0)
        terms.append(jax.lax.pad(blocks[..., k, :], zero, config))
    return functools.reduce(jnp.add, terms)


def _product(array: Array, matrix: Array, axis: int, plan: Plan, dtype: DTypeLike | None) -> Array:
    """``array``'s last axis times the given axis of a matrix."""
    array, matrix = _alike(array, matrix)
    return jax.lax.dot_general(
        array, matrix, (((array.ndim - 1,), (axis,)), ((), ())), plan.precision, dtype
    )


def _gram(left: Array, right: Array, plan: Plan) -> Array:
    """Sum over all positions of the products of two arrays' last axes."""
    left, right = _alike(left, right)
    positions = tuple(range(left.ndim - 1))
    axes = ((positions, positions), ((), ()))
    return jax.lax.dot_general(left, right, axes, plan.precision)


def _alike(left: Array, right: Array) -> tuple[Array, Array]:
    dtype = jnp.promote_types(left.dtype, right.dtype)
    return left.astype(dtype), right.astype(dtype)


def _wide(dtype: DTypeLike) -> DTypeLike:
    """What to add up in: never half precision."""
    return jnp.promote_types(dtype, jnp.float32)
