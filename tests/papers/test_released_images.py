"""What released code does to images, against slices; configs of papers do it only as released."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.config import resolver
from fedjax_links.papers import common, released_images
from fedjax_links.papers.wang2022 import presets as wang2022
from fedjax_links.papers.xiang2024 import presets as xiang2024
from fedjax_links.problems import augmentation
from tests.problems.augmented import (
    IMAGES,
    NUM_DRAWS,
    chi_squared,
    draws_of,
    windows,
)


def test_a_batch_is_cropped_at_one_uniform_position():
    positions = {window.tobytes(): position for position, window in windows(1).items()}
    draws = draws_of(functools.partial(released_images.crop_together, padding=1))
    counts = collections.Counter(positions[draw.tobytes()] for draw in draws)
    assert set(counts) == set(positions.values())
    assert chi_squared(counts, 9) < 5


def test_a_batch_is_mirrored_as_a_whole_half_of_the_time():
    draws = draws_of(released_images.mirror_together)
    mirrored = np.array([np.array_equal(draw, IMAGES[:, :, ::-1]) for draw in draws])
    unchanged = np.array([np.array_equal(draw, IMAGES) for draw in draws])
    np.testing.assert_array_equal(mirrored, ~unchanged)
    assert abs(np.mean(mirrored) - 0.5) < 5 * 0.5 / np.sqrt(NUM_DRAWS)


@pytest.mark.parametrize('dataset', common.IMAGE_DEPARTURES)
def test_captions_name_the_augmentation_of_released_code(dataset):
    augmentations = xiang2024.problem(dataset, 'as_released')['augment']
    names = [name.rpartition(':')[2] for name in augmentations]
    caption = common.IMAGE_DEPARTURES[dataset]
    assert ('crops' in caption) == ('crop_together' in names)
    assert ('mirror images' in caption) == ('mirror_together' in names)


@pytest.mark.parametrize(
    'make, dataset, deviation',
    [
        (wang2022.problem, 'fashion_mnist', [0.3081]),
        (wang2022.problem, 'cifar10', [0.2023, 0.1994, 0.2010]),
        (xiang2024.problem, 'cifar10', [0.2023, 0.1994, 0.2010]),
        (xiang2024.problem, 'svhn', None),
    ],
)
def test_paper_and_released_code_prepare_images_differently(make, dataset, deviation):
    key = jax.random.key(0)
    batch = jnp.asarray(np.repeat(np.arange(32.0).reshape(1, 4, 8, 1), 30, axis=0))
    for code in ('paper', 'as_released'):
        section = make(dataset, code)
        result = augmentation.statistics(section['normalise'])
        if code == 'paper' or deviation is None:
            assert result == augmentation.CHANNEL_STATISTICS[dataset]
        else:
            assert list(result.deviation) == deviation
        if not section['augment']:
            assert dataset == 'fashion_mnist'
            continue
        functions = resolver.import_object('problem.augment', section['augment'])
        images = np.asarray(augmentation.chain(functions)(key, batch))
        is_one_draw = len({image.tobytes() for image in images}) == 1
        assert is_one_draw == (code == 'as_released')
