"""Augments images as the released code of Xiang et al. 2024 and of Wang and Ji 2022 does.

One crop and one mirror choice are drawn for a whole minibatch. `common.images` has the other
departures of that code from the papers.
"""

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, Key
from fedjax_links.core import checks
from fedjax_links.problems import augmentation


def crop_together(key: Key, images: Array, *, padding: int = 4) -> Array:
    """Crops like `augmentation.crop`, with one window for all images.

    Args:
      key: consumed.
      images: [B, H, W, C].
      padding: rows and columns added on each side, at least 1.

    Returns:
      [B, H, W, C].

    Raises:
      ValueError: if ``padding`` is out of range.
    """
    checks.static_int('padding', padding)
    corner = jax.random.randint(key, (2,), 0, 2 * padding + 1)
    start = (jnp.int32(0), corner[0], corner[1], jnp.int32(0))
    return jax.lax.dynamic_slice(augmentation.pad(images, padding), start, images.shape)


def mirror_together(key: Key, images: Array) -> Array:
    """Mirrors like `augmentation.mirror`, all images or none.

    Args:
      key: consumed.
      images: [B, H, W, C].

    Returns:
      [B, H, W, C].
    """
    return jnp.where(jax.random.bernoulli(key), images[:, :, ::-1], images)
