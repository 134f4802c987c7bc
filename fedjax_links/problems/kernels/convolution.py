"""Convolution as a matrix product, and 2 x 2 max-pooling, for training in compiled loops.

In a compiled loop on a CPU, and under `vmap` over the weights of many clients, XLA's own
convolution is far slower than a matrix product of shifted images with the kernel. Values and
gradients agree to rounding.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_links.base import Array
from fedjax_links.core import errors
from fedjax_links.problems.kernels import forms

_NHWC = jax.lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))

Form = Callable[[Array, Array, forms.Padding], Array]


def fastest_form(kernel_width: int, channels: int) -> Form | None:
    """The form of a convolution that was measured to be the fastest on JAX's default backend.

    | backend    | form                                                                  |
    |------------|-----------------------------------------------------------------------|
    | cpu        | patches where kernel width x channels of the images <= 40, else rows  |
    | all others | `jax.lax`'s own: the forms are not measured there                     |

    On a CPU, patches of many channels leave the cache, and rows of few make narrow products.
    ``python -m benchmarks.convolution`` compares the choice with `jax.lax`'s convolution, wherever
    it is run.

    Args:
      kernel_width: kw.
      channels: C, of the images.

    Returns:
      `forms.by_patches` or `forms.by_rows`; None for `jax.lax`'s own.
    """
    if jax.default_backend() != 'cpu':
        return None
    return forms.by_rows if kernel_width * channels > 40 else forms.by_patches


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
    """`jax.lax.conv_general_dilated`, on a CPU with the plain case as a matrix product.

    ``y[b, i, j, :] = sum_{u, v} x[b, i + u, j + v, :] K[u, v]``, in the form that `fastest_form`
    names: all shifts of the padded image side by side on the channel axis, or those of its columns
    alone. That is done for two spatial axes, channels last, arrays of single or double precision,
    and without strides or ``options`` (dilation, groups, precision); everything else goes to
    `jax.lax`. Scratch memory is ``kh kw`` times the image by patches, and ``kw`` times the image
    and ``kh`` times the result by rows. As a layer:
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
      form: one of `forms`; `fastest_form` by default.
      **options: further ones of `jax.lax.conv_general_dilated`.

    Returns:
      [B, H', W', D].
    """
    numbers = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    plain = (
        numbers == _NHWC
        and tuple(window_strides) == (1, 1)
        and all(value in (None, 1, (1, 1)) for value in options.values())
        and lhs.shape[3] == rhs.shape[2]
        and lhs.dtype == rhs.dtype
        and lhs.dtype in (jnp.float32, jnp.float64)
    )
    if plain and (form := form or fastest_form(rhs.shape[1], lhs.shape[3])) is not None:
        if isinstance(padding, str):
            padding = jax.lax.padtype_to_pads(lhs.shape[1:3], rhs.shape[:2], (1, 1), padding)
        if min(forms.output_size(lhs, rhs, padding)) > 0:
            return form(lhs, rhs, padding)
    return jax.lax.conv_general_dilated(
        lhs, rhs, window_strides, padding, dimension_numbers=dimension_numbers, **options
    )


def max_pool(images: Array) -> Array:
    """Maxima over 2 x 2 windows side by side; an odd last row or column is left out.

    A gradient is shared equally by the entries that tie for a maximum, where
    `flax.linen.max_pool` gives it to the first of them. The backward pass is written by hand:
    forward mode (`jax.jvp`) exists for `flax.linen.max_pool` alone.

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
    """By entries of the windows: on a CPU, faster than a reduction over windows."""
    first, *others = (images[:, top::2, left::2] for top in (0, 1) for left in (0, 1))
    return functools.reduce(jnp.maximum, others, first)


def _forward(images: Array) -> tuple[Array, tuple[Array, Array]]:
    maxima = _maxima(images)
    return maxima, (images, maxima)


def _backward(saved: tuple[Array, Array], slope: Array) -> tuple[Array]:
    images, maxima = saved
    batch, height, width, channels = images.shape
    windows = images.reshape(batch, height // 2, 2, width // 2, 2, channels)
    hits = (windows == maxima[:, :, None, :, None]).astype(slope.dtype)
    shares = slope / jnp.sum(hits, axis=(2, 4))
    return ((hits * shares[:, :, None, :, None]).reshape(images.shape),)


_pool = jax.custom_vjp(_maxima)
_pool.defvjp(_forward, _backward)
