"""Convolution as a matrix product, and 2 x 2 max-pooling as a reshape.

In a compiled loop on a CPU, and under `vmap` over the weights of many clients, XLA's own
convolution is far slower than one matrix product of the image's patches with the kernel. Values and
gradients agree to rounding.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from fedjax_links import errors
from fedjax_links.base import Array

_NHWC = jax.lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))


def conv_as_matmul(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: jax.lax.ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """`jax.lax.conv_general_dilated`, with the plain case as patches times a matrix.

    ``y[b, i, j, :] = sum_{u, v} x[b, i + u, j + v, :] K[u, v]``: the ``kh kw`` shifts of the padded
    image side by side on the channel axis, times the kernel as a matrix ``[kh kw C, D]``. That is
    done for two spatial axes, channels last, unit strides, no dilation and no groups; everything
    else goes to `jax.lax`. The patches take ``kh kw`` times the memory of the image. As a layer:
    ``nn.Conv(32, (5, 5), conv_general_dilated=conv_as_matmul)``.

    Args:
      lhs: [B, H, W, C], the images.
      rhs: [kh, kw, C, D], the kernel.
      window_strides: one per spatial axis.
      padding: ``'SAME'``, ``'VALID'``, or a pair (low, high) per spatial axis.
      lhs_dilation: of the images, none by default.
      rhs_dilation: of the kernel, none by default.
      dimension_numbers: meaning of the axes, as in `jax.lax`; the shapes given here hold for
        ``('NHWC', 'HWIO', 'NHWC')``.
      feature_group_count: groups of channels.
      batch_group_count: groups of images.
      precision: of the product, as in `jax.lax`.
      preferred_element_type: of the result, as in `jax.lax`.

    Returns:
      [B, H', W', D].
    """
    numbers = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    plain = (
        numbers == _NHWC
        and all(stride == 1 for stride in window_strides)
        and all(step == 1 for step in (*(lhs_dilation or ()), *(rhs_dilation or ())))
        and feature_group_count == batch_group_count == 1
        and lhs.shape[3] == rhs.shape[2]
    )
    if not plain:
        return jax.lax.conv_general_dilated(
            lhs,
            rhs,
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers,
            feature_group_count,
            batch_group_count,
            precision,
            preferred_element_type,
        )
    height, width, _, num_outputs = rhs.shape
    patches = _patches(lhs, height, width, padding)
    return jax.lax.dot_general(
        patches,
        rhs.reshape(-1, num_outputs),
        (((3,), (0,)), ((), ())),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def max_pool(images: Array) -> Array:
    """Maxima over 2 x 2 windows side by side; an odd last row or column is left out.

    A gradient is shared equally by the entries that tie for a maximum, where
    `flax.linen.max_pool` gives it to the first of them.

    Args:
      images: [B, H, W, C] with H and W at least 2.

    Returns:
      [B, H // 2, W // 2, C].

    Raises:
      ValueError: if an image is smaller than one window.
    """
    batch, height, width, channels = images.shape
    if min(height, width) < 2:
        raise errors.invalid('images', 'be at least 2 x 2', f'{height} x {width}')
    even = images[:, : height // 2 * 2, : width // 2 * 2]
    return even.reshape(batch, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


def _patches(
    images: Array, height: int, width: int, padding: str | Sequence[tuple[int, int]]
) -> Array:
    """[B, H', W', height * width * C]: the window of every position, row by row."""
    if isinstance(padding, str):
        padding = jax.lax.padtype_to_pads(images.shape[1:3], (height, width), (1, 1), padding)
    edges = [(0, 0), *padding, (0, 0)]
    zero = jnp.zeros((), images.dtype)
    padded = jax.lax.pad(images, zero, [(int(low), int(high), 0) for low, high in edges])
    rows, columns = padded.shape[1] - height + 1, padded.shape[2] - width + 1
    shifts = [
        padded[:, top : top + rows, left : left + columns]
        for top in range(height)
        for left in range(width)
    ]
    return jnp.concatenate(shifts, axis=-1)
