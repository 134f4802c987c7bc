"""Data sets of images by name, and options that do not suit them."""

import jax
import numpy as np
import pytest

from fedjax_links import datasets, problems
from tests import refusals
from tests.problems.small_images import CLIENTS, build, dataset


def assert_equal_problems(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_named_data_set_is_that_data_set_spread_over_clients(tmp_path):
    datasets.save_npz(dataset(), tmp_path / 'noise.npz')
    named = problems.PROBLEMS['images'](
        dataset='npz',
        data={'path': str(tmp_path / 'noise.npz')},
        num_clients=CLIENTS,
        model='softmax',
        partition='label_shards',
        shards_per_client=1,
        seed=4,
    )
    direct = build(partition='label_shards', shards_per_client=1, seed=4)
    assert_equal_problems(named, direct)


def test_digits_are_the_images_of_that_name():
    images = problems.images(
        dataset='digits', num_clients=10, model='mlp', data={'seed': 0}
    )
    assert_equal_problems(images, problems.digits(num_clients=10, model='mlp'))


def test_label_noise_changes_labels_alone():
    options = {'num_clients': 10, 'model': 'mlp', 'data_seed': 3}
    noise = {'label_noise': {'rate': 0.3}}
    noisy = problems.images(dataset='digits', **options, **noise)
    noisy_digits = problems.digits(**options, **noise)
    clean = problems.digits(**options)
    np.testing.assert_array_equal(noisy.data.labels, noisy_digits.data.labels)
    np.testing.assert_array_equal(noisy.data.features, clean.data.features)
    assert not np.array_equal(noisy.data.labels, clean.data.labels)


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'dataset': 'cifar'},
            "`dataset` has no 'cifar'; did you mean 'cifar10'? There are also 'tfds' with `data` "
            "{'name': 'cifar'} for what TensorFlow Datasets prepared, 'npz' and 'leaf' for files "
            'of your own.',
        ),
        ({'model': 'softmaks'}, "`model` has no 'softmaks'; did you mean 'softmax'?"),
        (
            {'partition': 'dirchlet'},
            "`partition` has no 'dirchlet'; did you mean 'dirichlet'?",
        ),
        ({'normalise': 'cifar'}, "`normalise` has no 'cifar'; did you mean 'cifar10'?"),
        ({'augment': ('crob',)}, "`augment` has no 'crob'; did you mean 'crop'?"),
        ({'augment': 'crop'}, "`augment` must be a sequence of names, got 'crop'."),
        (
            {'alhpa': 0.1},
            "`images` has no 'alhpa'; did you mean 'alpha'?",
        ),
        (
            {'modle': 'cnn'},
            "`images` has no 'modle'; did you mean 'model'?",
        ),
        ({'data': 3}, "`data` must be a section of options of 'emnist', got 3."),
        (
            {'data': {'data_dri': '.'}},
            "`data` has no 'data_dri'; did you mean 'data_dir'?",
        ),
        (
            {'dataset': 'npz'},
            '`data.path` must be given, got None.',
        ),
    ],
)
def test_mistakes_cost_one_line_and_no_reading(changes, message):
    settings = {'dataset': 'emnist', 'num_clients': 5, 'model': 'cnn'}
    with refusals.refuses(message):
        problems.images(**settings | changes)


@pytest.mark.parametrize(
    'options, message',
    [
        (
            {'normalise': 'svhn'},
            '`images` must have 3 channels, got shape (1, 12, 12, 1).',
        ),
        (
            {'partition': 'iid', 'alpha': 1.0},
            "`images` has no 'alpha' with this partition; valid names: augment, data, data_seed, "
            'dataset, holdout_clients, holdout_examples, label_noise, max_examples, min_examples, '
            'model, normalise, num_clients, partition, partition_seed, seed, tokens.',
        ),
    ],
)
def test_options_must_suit_the_images(options, message):
    with refusals.refuses(message):
        build(**options)


def test_options_of_a_loader_are_refused_beside_a_data_set():
    with pytest.raises(
        ValueError, match=r"^`data` must go with a data set by name, got \{'seed'"
    ):
        problems.images(
            dataset=dataset(), data={'seed': 1}, num_clients=2, model='softmax'
        )


def test_only_images_are_cropped():
    flat = datasets.Dataset(np.ones((9, 4)), np.arange(9) % 3)
    with pytest.raises(
        ValueError, match=r"`augment` must be empty .*, got \('crop',\) for \[4\]"
    ):
        build(flat, augment=('crop',))
