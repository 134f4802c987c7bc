"""Crops and mirror images against slices, and how often each comes up."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.problems import augmentation

NUM_DRAWS = 1800
IMAGES = np.arange(1, 2 * 5 * 6 * 2 + 1, dtype=np.float32).reshape(2, 5, 6, 2)


def windows(padding):
    """Every crop of the batch, by its place."""
    padded = np.pad(IMAGES, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    places = range(2 * padding + 1)
    return {(i, j): padded[:, i : i + 5, j : j + 6] for i in places for j in places}


def many(transform):
    keys = jax.random.split(jax.random.key(7), NUM_DRAWS)
    return np.asarray(jax.jit(jax.vmap(lambda key: transform(key, jnp.asarray(IMAGES))))(keys))


def chi_squared(counts, num_cells):
    """Pearson's statistic of equal shares, in standard errors from its mean."""
    expected = sum(counts.values()) / num_cells
    observed = [*counts.values(), *[0] * (num_cells - len(counts))]
    statistic = sum((count - expected) ** 2 / expected for count in observed)
    return (statistic - (num_cells - 1)) / np.sqrt(2 * (num_cells - 1))


def test_a_batch_is_cropped_at_one_uniform_place():
    names = {window.tobytes(): place for place, window in windows(1).items()}
    counts = collections.Counter(
        names[draw.tobytes()] for draw in many(functools.partial(augmentation.crop, padding=1))
    )
    assert set(counts) == set(names.values())
    assert chi_squared(counts, 9) < 5


def test_each_image_is_cropped_at_a_place_of_its_own():
    names = [{w[b].tobytes(): place for place, w in windows(1).items()} for b in (0, 1)]
    draws = many(functools.partial(augmentation.crop_each, padding=1))
    pairs = collections.Counter(
        (names[0][draw[0].tobytes()], names[1][draw[1].tobytes()]) for draw in draws
    )
    assert chi_squared(pairs, 81) < 5


def test_a_batch_is_mirrored_as_a_whole_half_of_the_time():
    draws = many(augmentation.mirror)
    mirrored = [np.array_equal(draw, IMAGES[:, :, ::-1]) for draw in draws]
    kept = [np.array_equal(draw, IMAGES) for draw in draws]
    assert np.all(np.add(mirrored, kept) == 1)
    assert abs(np.mean(mirrored) - 0.5) < 5 * 0.5 / np.sqrt(NUM_DRAWS)


def test_each_image_is_mirrored_independently():
    flipped = IMAGES[:, :, ::-1]
    draws = many(augmentation.mirror_each)
    kinds = collections.Counter(
        tuple(np.array_equal(draw[b], flipped[b]) for b in (0, 1)) for draw in draws
    )
    assert chi_squared(kinds, 4) < 5
    for draw in draws[:50]:
        for b in (0, 1):
            assert np.array_equal(draw[b], flipped[b]) or np.array_equal(draw[b], IMAGES[b])


@pytest.mark.parametrize('padding', [0, -1])
def test_padding_out_of_range_is_refused(padding):
    with pytest.raises(ValueError, match=rf'^`padding` must be at least 1, got {padding}\.$'):
        augmentation.crop(jax.random.key(0), jnp.asarray(IMAGES), padding=padding)


@pytest.mark.parametrize('as_array', [np.asarray, jnp.asarray])
@pytest.mark.parametrize('dataset', augmentation.CHANNEL_STATISTICS)
def test_channels_are_normalised_one_by_one(rng, dataset, as_array):
    mean, deviation = augmentation.CHANNEL_STATISTICS[dataset]
    noise = rng.normal(mean, deviation, size=(4000, 3, 3, len(mean))).astype(np.float32)
    outputs = augmentation.normalise(as_array(noise), dataset)
    assert type(outputs) is type(as_array(noise))
    assert outputs.dtype == np.float32
    assert abs(np.asarray(outputs).mean(axis=(0, 1, 2))).max() < 5 / np.sqrt(36_000)
    assert abs(np.asarray(outputs).std(axis=(0, 1, 2)) - 1).max() < 5 / np.sqrt(72_000)


def test_unknown_statistics_and_channels_are_refused():
    with pytest.raises(ValueError, match="`dataset` has no 'cifar'; did you mean 'cifar10'"):
        augmentation.normalise(IMAGES, 'cifar')
    with pytest.raises(ValueError, match=r'^`images` must have 3 channels, got shape \(2, 5, 6, 2'):
        augmentation.normalise(IMAGES, 'svhn')
