"""Normalises images, crops and mirrors them at random, and makes labels wrong.

Crops and mirror images are pure functions of a key and a batch, with a draw for each image. Images
that are normalised first are padded with the data's mean. `AUGMENTATIONS` names these functions and
`chain` composes them. `label_noise` makes labels wrong at a known rate.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key
from fedjax_links.core import checks, errors, factory_options, prng
from fedjax_links.core.records import Section
from fedjax_links.core.registry import Registry
from fedjax_links.problems.arrays import Partial

# Keeps these draws independent of others with the same seed.
_LABEL_NOISE = 0x4C4E


class ChannelStatistics(NamedTuple):
    """Holds mean and standard deviation of each channel over a training set of images in [0, 1]."""

    mean: Sequence[float]
    deviation: Sequence[float]


Statistics = str | Mapping[str, Sequence[float]] | ChannelStatistics
"""A name in `CHANNEL_STATISTICS`, a mapping with ``mean`` and ``deviation``, or the numbers."""

CHANNEL_STATISTICS: Mapping[str, ChannelStatistics] = {
    'mnist': ChannelStatistics((0.1307,), (0.3081,)),
    'fashion_mnist': ChannelStatistics((0.2860,), (0.3530,)),
    'emnist': ChannelStatistics((0.1751,), (0.3332,)),
    'cifar10': ChannelStatistics((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    'cifar100': ChannelStatistics((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    'svhn': ChannelStatistics(
        (0.4376821, 0.4437697, 0.47280442), (0.19803012, 0.20101562, 0.19703614)
    ),
    'cinic10': ChannelStatistics(
        (0.47889522, 0.47227842, 0.43047404), (0.24205776, 0.23828046, 0.25874835)
    ),
}
"""Statistics by data set, over its training images; for EMNIST over those of its balanced part."""


def statistics(normalise: Statistics) -> ChannelStatistics:
    """Looks up or checks the channel statistics of a problem's ``normalise``.

    Raises:
      ValueError: for an unknown name, or for values that are not numbers or out of range.
    """
    if isinstance(normalise, str):
        return checks.entry('normalise', normalise, CHANNEL_STATISTICS)
    channels = normalise
    if isinstance(channels, Mapping):
        factory_options.check('normalise', ChannelStatistics, channels)
        channels = ChannelStatistics(**channels)
    if not isinstance(channels, ChannelStatistics):
        requirement = 'be a name, or have mean and deviation'
        raise errors.invalid('normalise', requirement, channels)
    mean = checks.numbers('normalise', list(channels.mean))
    deviation = checks.numbers('normalise', list(channels.deviation))
    checks.positive('normalise.deviation', deviation, axis='channel')
    if mean.ndim != 1 or mean.shape != deviation.shape or not np.isfinite(mean).all():
        requirement = 'have a finite mean and deviation of each channel'
        raise errors.invalid('normalise', requirement, errors.text_of(tuple(channels)))
    return channels


def scale_pixels(channels: ChannelStatistics | None, stored: Array) -> Array:
    """Converts stored images to the features of a model.

    Args:
      channels: mean and deviation to normalise by; None for images as they are.
      stored: uint8 pixels, which are scaled to [0, 1], or floats, [..., channels].
    """
    features = stored.astype(jnp.float32) / 255 if stored.dtype == jnp.uint8 else stored
    if channels is None:
        return features
    return jnp.asarray(normalise(features, channels))


def normalise(images: Array | np.ndarray, data: Statistics) -> Array | np.ndarray:
    """Normalises by channel: ``(x - mean) / deviation``.

    Args:
      images: [..., C] in [0, 1]; NumPy arrays stay on the host.
      data: whose statistics, see `Statistics`.

    Returns:
      [..., C], in the dtype of the images.

    Raises:
      ValueError: for an unknown name, images that are no floats, or another number of channels.
    """
    if not jnp.issubdtype(images.dtype, jnp.floating):
        raise errors.invalid('images', 'be floats in [0, 1]', f'{images.dtype}')
    mean, deviation = np.asarray(statistics(data), images.dtype)
    if images.shape[-1:] != mean.shape:
        raise errors.invalid(
            'images', f'have {mean.size} channels', f'shape {images.shape}'
        )
    shape = (1,) * (images.ndim - 1) + mean.shape
    return (images - mean.reshape(shape)) / deviation.reshape(shape)


def crop(key: Key, images: Array, *, padding: int = 4) -> Array:
    """Pads with zeros on all sides, then cuts a window of the old size out of each image.

    Windows are uniform over their ``(2 padding + 1)^2`` positions.

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
    corners = jax.random.randint(key, (len(images), 2), 0, 2 * padding + 1)
    starts = jnp.pad(corners, ((0, 0), (0, 1)))  # from the first channel on
    cut = functools.partial(jax.lax.dynamic_slice, slice_sizes=images.shape[1:])
    return jax.vmap(cut)(pad(images, padding), starts)


def mirror(key: Key, images: Array) -> Array:
    """Swaps left and right of each image with probability one half.

    Args:
      key: consumed.
      images: [B, H, W, C].

    Returns:
      [B, H, W, C].
    """
    swapped = jax.random.bernoulli(key, shape=(len(images), 1, 1, 1))
    return jnp.where(swapped, images[:, :, ::-1], images)


def pad(images: Array, padding: int) -> Array:
    """Returns images [B, H + 2 padding, W + 2 padding, C], padded with zeros."""
    return jnp.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))


Augmentation = Callable[[Key, Array], Array]

AUGMENTATIONS: Mapping[str, Augmentation] = Registry({'crop': crop, 'mirror': mirror})


def chain(augment: Sequence[str | Augmentation]) -> Augmentation:
    """Applies augmentations one after the other.

    Args:
      augment: names in `AUGMENTATIONS`, with their defaults, or functions ``(key, images) ->
        images``, in the order in which they are applied.

    Returns:
      ``(key, images) -> images``. The k-th augmentation, from 0, draws with
      ``jax.random.fold_in(key, k)``.

    Raises:
      ValueError: for an unknown name.
    """
    if isinstance(augment, str) or not isinstance(augment, Sequence):
        raise errors.invalid('augment', 'be a sequence of names', repr(augment))
    functions = []
    for function in augment:
        if not callable(function):
            function = checks.entry('augment', function, AUGMENTATIONS)
        functions.append(function)
    return Partial(_apply, functions)


def _apply(functions: Sequence[Augmentation], key: Key, images: Array) -> Array:
    for index, function in enumerate(functions):
        images = function(jax.random.fold_in(key, index), images)
    return images


def label_noise(
    key: Key, labels: ArrayLike, *, num_classes: int, rate: float
) -> NDArray[np.int32]:
    """Replaces labels at random, each example on its own.

    With one key, a higher rate makes every change that a lower rate makes, and further ones.

    Args:
      key: a key.
      labels: int[E], classes from 0.
      num_classes: K, at least 2.
      rate: probability that a label becomes one of the K - 1 other classes, all equally likely.

    Returns:
      int32[E].

    Raises:
      ValueError: if a number is out of range.
    """
    prng.check(key)
    checks.static_int('num_classes', num_classes, minimum=2)
    true = checks.ids('labels', labels)
    if true.max() >= num_classes:
        raise errors.invalid(
            'num_classes', f'exceed the largest label {true.max()}', num_classes
        )
    checks.number_within('rate', rate, 0, 1)
    changed, which = np.asarray(prng.uniform(key, (2, true.size)), np.float64)
    wrong = (which * (num_classes - 1)).astype(np.int64)
    wrong += wrong >= true
    return np.where(changed < rate, wrong, true).astype(np.int32)


def with_label_noise(
    section: Section | None,
    seed: int,
    labels: NDArray[np.int32],
    num_classes: int,
) -> NDArray[np.int32]:
    """Returns training labels under the noise of a problem's section.

    Args:
      section: ``rate`` of `label_noise`; None for no noise.
      seed: integer in ``[0, 2**32)``.
      labels: int[E].
      num_classes: K.

    Returns:
      int[E].

    Raises:
      ValueError: for an unknown option, or a rate out of range.
    """
    if section is None:
        return labels
    if not isinstance(section, Mapping):
        raise errors.invalid('label_noise', 'be a section', errors.text_of(section))
    stream = jax.random.fold_in(jax.random.key(np.uint32(seed)), _LABEL_NOISE)
    key = jax.random.fold_in(stream, 0)  # of training labels
    noisy = functools.partial(label_noise, key, labels, num_classes=num_classes)
    factory_options.check('label_noise', noisy, section)
    with errors.context('label_noise'):
        return noisy(**section)
