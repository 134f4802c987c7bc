"""Normalisation, and random crops and mirror images as pure functions of a key and a batch.

``crop`` and ``mirror`` draw once for the whole batch, ``crop_each`` and ``mirror_each`` once per
image. Images that are normalised first are padded with the data's mean. `AUGMENTATIONS` names them
and `chain` composes them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import checks, errors
from fedjax_links.base import Array, Key


class ChannelStatistics(NamedTuple):
    """Mean and standard deviation of each channel over a training set of images in [0, 1]."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


CHANNEL_STATISTICS: Mapping[str, ChannelStatistics] = {
    'cifar10': ChannelStatistics((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    'svhn': ChannelStatistics(
        (0.4376821, 0.4437697, 0.47280442), (0.19803012, 0.20101562, 0.19703614)
    ),
    'cinic10': ChannelStatistics(
        (0.47889522, 0.47227842, 0.43047404), (0.24205776, 0.23828046, 0.25874835)
    ),
    'fashion_mnist': ChannelStatistics((0.1307,), (0.3081,)),
}
"""As in the released experiments of the papers, which use MNIST's for FashionMNIST."""


def normalise(images: Array | np.ndarray, dataset: str) -> Array | np.ndarray:
    """``(x - mean) / deviation`` by channel.

    Args:
      images: [..., C] in [0, 1]; NumPy arrays stay on the host.
      dataset: a name in `CHANNEL_STATISTICS`.

    Returns:
      [..., C], in the dtype of the images.

    Raises:
      ValueError: for an unknown name, or another number of channels.
    """
    checks.choice('dataset', dataset, CHANNEL_STATISTICS)
    mean, deviation = (np.asarray(a, images.dtype) for a in CHANNEL_STATISTICS[dataset])
    if images.shape[-1:] != mean.shape:
        raise errors.invalid('images', f'have {mean.size} channels', f'shape {images.shape}')
    axes = (1,) * (images.ndim - 1)
    return (images - mean.reshape(*axes, -1)) / deviation.reshape(*axes, -1)


def crop(key: Key, images: Array, *, padding: int = 4) -> Array:
    """Pads with zeros on all sides, then cuts one window of the old size out of all images.

    The window is uniform over its ``(2 padding + 1)^2`` places, the same for the whole batch. So do
    the released experiments of Xiang et al. 2024 and Wang and Ji 2022.

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
    return jax.lax.dynamic_slice(_pad(images, padding), start, images.shape)


def mirror(key: Key, images: Array) -> Array:
    """Swaps left and right of the whole batch with probability one half.

    Args:
      key: consumed.
      images: [B, H, W, C].

    Returns:
      [B, H, W, C].
    """
    return jnp.where(jax.random.bernoulli(key), images[:, :, ::-1], images)


def crop_each(key: Key, images: Array, *, padding: int = 4) -> Array:
    """`crop` with a window of its own for each image."""
    checks.static_int('padding', padding)
    corners = jax.random.randint(key, (len(images), 2), 0, 2 * padding + 1)

    def cut(image: Array, corner: Array) -> Array:
        start = (corner[0], corner[1], jnp.int32(0))
        return jax.lax.dynamic_slice(image, start, images.shape[1:])

    return jax.vmap(cut)(_pad(images, padding), corners)


def mirror_each(key: Key, images: Array) -> Array:
    """`mirror` with a draw of its own for each image."""
    swapped = jax.random.bernoulli(key, shape=(len(images), 1, 1, 1))
    return jnp.where(swapped, images[:, :, ::-1], images)


def _pad(images: Array, padding: int) -> Array:
    return jnp.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))


Augmentation = Callable[[Key, Array], Array]

AUGMENTATIONS: Mapping[str, Augmentation] = {
    'crop': crop,
    'crop_each': crop_each,
    'mirror': mirror,
    'mirror_each': mirror_each,
}


def chain(names: Sequence[str]) -> Augmentation:
    """Augmentations one after the other.

    Args:
      names: in `AUGMENTATIONS`, in the order in which they are applied, all with their defaults.

    Returns:
      ``(key, images) -> images``. The k-th, from 0, draws with ``jax.random.fold_in(key, k)``.

    Raises:
      ValueError: for an unknown name.
    """
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise errors.invalid('augment', 'be a sequence of names', repr(names))
    for name in names:
        checks.choice('augment', name, AUGMENTATIONS)

    def augment(key: Key, images: Array) -> Array:
        for place, name in enumerate(names):
            images = AUGMENTATIONS[name](jax.random.fold_in(key, place), images)
        return images

    return augment
