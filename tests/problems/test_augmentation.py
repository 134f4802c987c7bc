"""Crops and mirror images against slices, and label noise: how often each comes up."""

import collections
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import problems
from fedjax_links.datasets.publishers import RECIPES
from fedjax_links.problems import augmentation
from tests.problems.augmented import IMAGES, chi_squared, draws_of, windows
from tests.refusals import refuses


def test_each_image_is_cropped_at_its_own_position():
    first = {}
    second = {}
    for position, window in windows(1).items():
        first[window[0].tobytes()] = position
        second[window[1].tobytes()] = position
    draws = draws_of(functools.partial(augmentation.crop, padding=1))
    pairs = collections.Counter(
        (first[draw[0].tobytes()], second[draw[1].tobytes()]) for draw in draws
    )
    assert chi_squared(pairs, 81) < 5


def test_double_precision_crops_too(x64):
    images = IMAGES.astype(np.float64)
    crop = jax.jit(functools.partial(augmentation.crop, padding=1))
    cropped = np.asarray(crop(jax.random.key(0), images))
    assert cropped.dtype == np.float64
    for b in (0, 1):
        assert any(
            np.array_equal(cropped[b], window[b]) for window in windows(1).values()
        )


def test_each_image_is_mirrored_independently():
    pixels = (2, 3, 4)
    draws = draws_of(augmentation.mirror)
    mirrored = (draws == IMAGES[:, :, ::-1]).all(axis=pixels)
    unchanged = (draws == IMAGES).all(axis=pixels)
    np.testing.assert_array_equal(mirrored, ~unchanged)
    kinds = collections.Counter(map(tuple, mirrored.tolist()))
    assert chi_squared(kinds, 4) < 5


@pytest.mark.parametrize('padding', [0, -1])
def test_padding_out_of_range_is_refused(padding):
    with pytest.raises(
        ValueError, match=rf'^`padding` must be at least 1, got {padding}\.$'
    ):
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


def test_each_published_image_data_set_has_its_statistics():
    """But those with owners, for which none are on record."""
    numbers = augmentation.CHANNEL_STATISTICS
    with_owners = {'femnist', 'shakespeare', 'celeba', 'fed_isic2019'}
    assert with_owners < RECIPES.keys()
    for name in RECIPES.keys() - with_owners:
        colours = 3 if name in ('cifar10', 'cifar100', 'svhn', 'cinic10') else 1
        assert len(numbers[name].mean) == colours
    assert len(set(numbers.values())) == len(numbers)


def test_statistics_may_be_given_as_numbers():
    section = {'mean': [0.5, 1.0], 'deviation': [2.0, 4.0]}
    expected = (IMAGES - np.float32([0.5, 1])) / np.float32([2, 4])
    for inputs in (section, augmentation.ChannelStatistics(**section)):
        np.testing.assert_allclose(
            augmentation.normalise(IMAGES, inputs), expected, rtol=1e-6
        )


def test_unknown_statistics_and_channels_are_refused():
    with pytest.raises(
        ValueError, match="`normalise` has no 'cifar'; did you mean 'cifar10'"
    ):
        augmentation.normalise(IMAGES, 'cifar')
    for section, message in (
        (True, '`normalise` must be a name, or have mean and deviation, got True.'),
        ({'mean': (0.1,)}, '`normalise.deviation` must be given'),
        (
            {'mean': (0.1,), 'deviation': (0.0,)},
            '`normalise.deviation` must be positive',
        ),
        (
            {'mean': (0.1,), 'deviation': (0.2, 0.3)},
            '`normalise` must have a finite mean and',
        ),
    ):
        with pytest.raises(ValueError, match=f'^{re.escape(message)}'):
            augmentation.normalise(IMAGES, section)
    with pytest.raises(
        ValueError, match=r'^`images` must have 3 channels, got shape \(2, 5, 6, 2'
    ):
        augmentation.normalise(IMAGES, 'svhn')
    with pytest.raises(
        ValueError, match=r'^`images` must be floats in \[0, 1\], got ui'
    ):
        augmentation.normalise(np.full((2, 5, 6, 3), 200, np.uint8), 'svhn')


LIMIT = 4.5
DRAWS = 60_000

LABELS = np.random.default_rng(0).integers(4, size=DRAWS)


def assert_rate(hits, rate):
    """Asserts that a frequency is within `LIMIT` standard errors of its probability."""
    assert abs(np.mean(hits) - rate) <= LIMIT * np.sqrt(rate * (1 - rate) / len(hits))


@pytest.mark.statistical
@pytest.mark.parametrize('rate', [0.3, 0, 1])
def test_labels_follow_the_confusion(rate):
    table = np.where(np.eye(4, dtype=bool), 1 - rate, rate / 3)
    noisy = problems.label_noise(jax.random.key(0), LABELS, num_classes=4, rate=rate)
    assert noisy.dtype == np.int32
    for true in range(4):
        for label in range(4):
            assert_rate(noisy[true == LABELS] == label, table[true, label])


def test_noise_is_a_function_of_its_key_and_grows_with_the_rate():
    def noisy(seed, rate):
        return problems.label_noise(
            jax.random.key(seed), LABELS, num_classes=4, rate=rate
        )

    low = noisy(0, 0.1)
    high = noisy(0, 0.4)
    np.testing.assert_array_equal(low, noisy(0, 0.1))
    assert not np.array_equal(low, noisy(1, 0.1))
    np.testing.assert_array_equal(high[low != LABELS], low[low != LABELS])


def classification_problems(**noise):
    """Builds every kind of classification problem, with this label noise."""
    images = {
        'dataset': 'synthetic_images',
        'num_clients': 4,
        'model': 'softmax',
        'alpha': 10.0,
    }
    images['data'] = {'num_train': 400, 'num_test': 200}
    return {
        'digits': problems.digits(num_clients=4, alpha=10.0, **noise),
        'images': problems.images(**images, **noise),
        'gaussians': problems.gaussians(
            num_clients=4, examples_per_client=300, **noise
        ),
        'synthetic': problems.synthetic(num_clients=4, max_examples=400, **noise),
    }


@pytest.mark.statistical
def test_every_classification_problem_takes_the_same_section():
    clean = classification_problems()
    noisy = classification_problems(label_noise={'rate': 0.4})
    for name, problem in clean.items():
        np.testing.assert_array_equal(problem.data.features, noisy[name].data.features)
        noisy_labels = np.asarray(noisy[name].data.labels)
        assert_rate(np.asarray(problem.data.labels) != noisy_labels, 0.4)
        np.testing.assert_array_equal(
            problem.eval_data.labels, noisy[name].eval_data.labels
        )
    assert noisy['gaussians'].attainable['accuracy'] == pytest.approx(0.75, abs=1e-12)


@pytest.mark.parametrize(
    'section, message',
    [
        ({'rat': 0.1}, "`label_noise` has no 'rat'; did you mean 'rate'?"),
        ({'rate': 1.2}, '`label_noise.rate` must lie in [0, 1], got 1.2.'),
        ({'rate': [0.1, 0.2]}, '`label_noise.rate` must be a number, got [0.1, 0.2].'),
        ({}, '`label_noise.rate` must be given, got None.'),
    ],
)
def test_sections_that_say_no_noise_are_refused(section, message):
    with refuses(message):
        problems.digits(num_clients=4, label_noise=section)
