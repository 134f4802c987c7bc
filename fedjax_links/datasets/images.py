"""Makes images that need no download: handwritten digits, and synthetic images."""

import gzip
import math
from collections.abc import Sequence
from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from fedjax_links.core import checks, errors, numpy_random
from fedjax_links.datasets.npz import Dataset

_Floats = NDArray[np.float32]

_TEST_FRACTION = 0.2  # Of the digits.
_CHUNK_SIZE = 512  # Images that are drawn at a time.
_FINENESS = 8  # Points per pixel of the pattern that is sampled.


def digits(*, seed: int = 0) -> Dataset:
    """Loads 1797 handwritten digits of 8 x 8 pixels, embedded in scikit-learn.

    The split is stratified: of the n_c examples of a class, ``rint(0.2 n_c)`` random ones are for
    testing. Both parts keep the order of the data.

    Args:
      seed: integer in ``[0, 2**32)``, fixes the split.

    Returns:
      Features float32[*, 8, 8, 1] in [0, 1] and 10 classes.

    Raises:
      ValueError: if the seed is out of range.

    References:
      Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI, 1998 (the test part).
    """
    rng = numpy_random.generator(seed, 'DS')
    # A file of scikit-learn, whose own reader takes a second: pixels and a label in each row.
    file = metadata.distribution('scikit-learn').locate_file(
        'sklearn/datasets/data/digits.csv.gz'
    )
    with gzip.open(str(file)) as lines:
        table = np.loadtxt(lines, delimiter=',')
    features = (table[:, :-1].reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    labels = table[:, -1].astype(np.int32)
    is_test = np.zeros(labels.size, bool)
    for c in range(10):
        examples = np.flatnonzero(labels == c)
        num_test = round(_TEST_FRACTION * examples.size)
        is_test[rng.permutation(examples)[:num_test]] = True
    return Dataset(
        train_features=features[~is_test],
        train_labels=labels[~is_test],
        test_features=features[is_test],
        test_labels=labels[is_test],
        num_classes=10,
    )


def synthetic_images(
    *,
    num_train: int = 10_000,
    num_test: int = 2_000,
    shape: Sequence[int] = (28, 28, 1),
    num_classes: int = 10,
    difficulty: float = 0.5,
    seed: int = 0,
) -> Dataset:
    """Draws images of classes that a small network can learn, without any file.

    Class c has a pattern g_c, a random sum of plane waves of at most three periods per side. The
    pattern is squeezed into [0, 1], and all classes share a part of it. An example of class c at
    pixel p is

    ``x(p) = clip(g_c(p + s (a + B (p - 1/2) + elastic(p))) + s n(p), 0, 1)``

    with s the difficulty, a Gaussian shift a, stretch B and smooth elastic field, and white noise n
    of standard deviation 0.5. At difficulty 0 all examples of a class are its pattern. For one
    seed, the random draws are the same at every difficulty. Training data do not depend on
    ``num_test``, nor test data on ``num_train``.

    Args:
      num_train: E, at least 1.
      num_test: T, at least 1.
      shape: height, width and channels, such as (28, 28, 1) or (32, 32, 3).
      num_classes: C; classes have equally many examples, up to one, in random order.
      difficulty: in [0, 1].
      seed: integer in ``[0, 2**32)``.

    Returns:
      Images float32[*, height, width, channels] in [0, 1].

    Raises:
      ValueError: if an argument is out of range.
    """
    checks.counts(num_train=num_train, num_test=num_test)
    checks.static_int('num_classes', num_classes, maximum=2**16)
    checks.number_within('difficulty', difficulty, 0, 1)
    if checks.shape('shape', shape) != (3,):
        sizes = errors.text_of(np.asarray(shape).tolist())
        raise errors.invalid('shape', 'be height, width, channels', sizes)
    for size in shape:
        checks.static_int('shape', size, maximum=4096)
    pixels = math.prod(shape)
    # Images are held as drawn, in the order of their owners, and on the device.
    bytes_per_image = 16 * pixels + 4
    checks.fits('num_train', num_train, (num_train + num_test) * bytes_per_image)
    # While patterns are made: complex fields, their real parts, and the mixed patterns.
    checks.fits('num_classes', num_classes, 40 * num_classes * pixels * _FINENESS**2)
    streams = [numpy_random.generator(seed, 'SI', part) for part in range(3)]
    patterns = _patterns(streams[0], num_classes, shape, difficulty)
    train, labels = _draw(streams[1], num_train, patterns, difficulty)
    test, test_labels = _draw(streams[2], num_test, patterns, difficulty)
    return Dataset(
        train_features=train,
        train_labels=labels,
        test_features=test,
        test_labels=test_labels,
        num_classes=num_classes,
    )


def _patterns(
    rng: np.random.Generator, num_classes: int, shape: Sequence[int], difficulty: float
) -> _Floats:
    """Draws the pattern of each class: float32[C, channels, fine height, fine width], periodic."""
    height, width, channels = shape
    waves = np.arange(-3, 4)  # At most three periods per side.
    decay = 1 / (1 + np.hypot(waves[:, None], waves[None]))
    size = (num_classes + 1, channels, 2, len(waves), len(waves))
    parts = rng.normal(size=size) * decay
    amplitudes = parts[:, :, 0] + 1j * parts[:, :, 1]
    rows = _plane_waves(height * _FINENESS, waves)
    columns = _plane_waves(width * _FINENESS, waves)
    fields = np.real(rows @ amplitudes @ columns.T)
    fields /= np.sqrt(np.sum(decay**2))  # Unit variance.
    likeness = 0.6 * difficulty  # The variance that all classes share.
    mixed = np.sqrt(1 - likeness) * fields[1:] + np.sqrt(likeness) * fields[:1]
    return (1 / (1 + np.exp(-2 * mixed))).astype(np.float32)


def _plane_waves(
    num_points: int, waves: NDArray[np.integer]
) -> NDArray[np.complexfloating]:
    """Evaluates plane waves at the centres of ``num_points`` pixels: complex128[points, waves]."""
    points = (np.arange(num_points) + 0.5) / num_points
    waves_at_points: NDArray[np.complexfloating] = np.exp(
        2j * np.pi * np.outer(points, waves)
    )
    return waves_at_points


def _draw(
    rng: np.random.Generator, number: int, patterns: _Floats, difficulty: float
) -> tuple[_Floats, NDArray[np.int32]]:
    """Draws images float32[E, height, width, channels] and their classes."""
    channels, fine_height, fine_width = patterns.shape[1:]
    height = fine_height // _FINENESS
    width = fine_width // _FINENESS
    labels = rng.permutation(np.arange(number) % len(patterns)).astype(np.int32)
    grid = np.mgrid[:height, :width].reshape(2, -1)
    centres = ((grid + 0.5) / np.array([[height], [width]])).astype(np.float32)
    basis, scales = _displacements(*centres)
    by_channel = patterns.reshape(len(patterns), channels, -1)
    flat = by_channel.transpose(0, 2, 1).reshape(-1, channels)
    images = np.empty((number, height * width, channels), np.float32)
    for start in range(0, number, _CHUNK_SIZE):
        chunk = images[start : start + _CHUNK_SIZE]
        size = len(chunk)
        normal = rng.standard_normal((size, 2, len(scales)), dtype=np.float32)
        shifts = (difficulty * scales * normal).reshape(2 * size, -1) @ basis
        points = shifts.reshape(size, 2, -1) + centres
        # Row, column and class of the nearest point of a pattern, in one index of `flat`.
        index = np.floor(points[:, 0] * fine_height).astype(np.int32) % fine_height
        index *= fine_width
        index += np.floor(points[:, 1] * fine_width).astype(np.int32) % fine_width
        index += (labels[start : start + size] * (fine_height * fine_width))[:, None]
        noise = rng.standard_normal(chunk.shape, dtype=np.float32)
        noise *= np.float32(0.5 * difficulty)
        np.clip(flat[index] + noise, 0, 1, out=chunk)
    return images.reshape(number, height, width, channels), labels


def _displacements(row: _Floats, column: _Floats) -> tuple[_Floats, _Floats]:
    """Returns the fields [K, height * width] whose random sums are displacements, and scales [K].

    A scale is the standard deviation of a field's coefficient at difficulty 1, as a fraction of a
    side. The fields are a shift, the two terms of the stretch, and elastic waves of up to two half
    periods per side.
    """
    waves = [(i, j) for i in range(3) for j in range(3) if i + j]
    fields = [np.cos(np.pi * i * row) * np.cos(np.pi * j * column) for i, j in waves]
    scales = [0.16, 0.4, 0.4, *(0.06 / np.hypot(i, j) for i, j in waves)]
    fields = [np.ones_like(row), row - 0.5, column - 0.5, *fields]
    return np.stack(fields), np.array(scales, np.float32)
