"""Two forms of the plain convolution as a matrix product.

``y[b, i, j] = sum_{u, v} x[b, i + u - top, j + v - left] K[u, v]``, where x is zero outside the
image. Each form is a product between shifts side by side on the channel axis and their adjoint,
shifts added up. Each is the other's backward pass: derived by JAX, that would pad and add up the
shifts one by one. There is no forward mode (`jax.jvp`); gradients of gradients, and forward mode
over a gradient (`jax.hessian`), are as ever.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_links.base import Array
from fedjax_links.problems.kernels.products import product

Padding = Sequence[tuple[int, int]]
"""(low, high) of the rows and of the columns; negative crops."""


class Shifts(NamedTuple):
    """Shifts along an axis.

    Attributes:
      steps: the shifts.
      axis: of rows or of columns.
      apart: positions along it where shifts are one array.
      together: positions along it where shifts lie side by side on the last axis.
    """

    steps: tuple[int, ...]
    axis: int
    apart: int
    together: int


def output_size(images: Array, kernel: Array, padding: Padding) -> tuple[int, int]:
    """Rows and columns of the result."""
    height, width = (
        size + sum(around) - side + 1
        for size, side, around in zip(images.shape[1:3], kernel.shape[:2], padding, strict=True)
    )
    return height, width


def by_patches(images: Array, kernel: Array, padding: Padding) -> Array:
    """Every window as a row of a matrix, times the kernel as a matrix ``[kh kw C, D]``.

    Args:
      images: [B, H, W, C].
      kernel: [kh, kw, C, D], of the same type.
      padding: zeros around the images.

    Returns:
      [B, H', W', D]. Scratch memory is ``kh kw`` times the images.
    """
    rows, columns = _shifts(images, kernel, padding)
    patches = _side_by_side(_side_by_side(images, columns), rows)
    return product(patches, kernel.reshape(-1, kernel.shape[3]))


def by_rows(images: Array, kernel: Array, padding: Padding) -> Array:
    """Columns side by side before the product, rows added up after it.

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
    back = Shifts(tuple(-step for step in rows.steps), 1, rows.together, rows.apart)
    return _added_up(product(_side_by_side(images, columns), matrix), back)


def _shifts(images: Array, kernel: Array, padding: Padding) -> tuple[Shifts, Shifts]:
    """How far each row and column of the kernel lies from the output's position."""
    rows, columns = (
        Shifts(tuple(range(-low, side - low)), axis, images.shape[axis], size)
        for axis, side, (low, _), size in zip(
            (1, 2), kernel.shape, padding, output_size(images, kernel, padding), strict=False
        )
    )
    return rows, columns


def _take(array: Array, shifts: Shifts) -> Array:
    """``out[i, (s, c)] = array[i + s, c]``, zero outside."""
    least, most = min(shifts.steps), max(shifts.steps)
    padded = _padded(array, shifts.axis, -least, shifts.together + most - shifts.apart)
    starts = [step - least for step in shifts.steps]
    shifted = [
        jax.lax.slice_in_dim(padded, start, start + shifts.together, axis=shifts.axis)
        for start in starts
    ]
    return jnp.concatenate(shifted, axis=-1)


def _add(array: Array, shifts: Shifts) -> Array:
    """The adjoint: ``out[r, c] = sum_s array[r - s, (s, c)]``."""
    blocks = array.reshape(*array.shape[:-1], len(shifts.steps), -1)
    terms = [
        _padded(blocks[..., k, :], shifts.axis, step, shifts.apart - step - shifts.together)
        for k, step in enumerate(shifts.steps)
    ]
    return functools.reduce(jnp.add, terms)


def _padded(array: Array, axis: int, low: int, high: int) -> Array:
    config = [(0, 0, 0)] * array.ndim
    config[axis] = (low, high, 0)
    return jax.lax.pad(array, jnp.zeros((), array.dtype), config)


_side_by_side = jax.custom_vjp(_take, nondiff_argnums=(1,))
_side_by_side.defvjp(lambda a, s: (_take(a, s), None), lambda s, _, slope: (_add(slope, s),))
_added_up = jax.custom_vjp(_add, nondiff_argnums=(1,))
_added_up.defvjp(lambda a, s: (_add(a, s), None), lambda s, _, slope: (_take(slope, s),))
