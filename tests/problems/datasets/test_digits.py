"""The embedded data set against its source, its split, and the registry."""

import re

import numpy as np
import pytest

from fedjax_links.problems import datasets


@pytest.fixture(scope='module')
def source():
    return pytest.importorskip('sklearn.datasets').load_digits()


def test_digits_arrays():
    data = datasets.digits()
    for features, labels in [
        (data.train_features, data.train_labels),
        (data.test_features, data.test_labels),
    ]:
        assert features.shape == (labels.size, 8, 8, 1)
        assert features.dtype == np.float32
        assert labels.dtype == np.int32
        assert features.min() == 0
        assert features.max() == 1
        np.testing.assert_array_equal(np.unique(labels), np.arange(10))
    assert (data.num_classes, data.name) == (10, 'digits')


@pytest.mark.parametrize('test_fraction', [0.1, 0.2, 0.5])
def test_digits_split_uses_every_example_once_and_is_stratified(source, test_fraction):
    data = datasets.digits(test_fraction=test_fraction, seed=3)

    def rows(features, labels):
        flat = np.rint(16 * np.asarray(features, np.float64)).reshape(len(labels), 64)
        return sorted(map(tuple, np.column_stack([flat, labels]).astype(int).tolist()))

    joined = np.concatenate([data.train_features, data.test_features])
    labels = np.concatenate([data.train_labels, data.test_labels])
    assert rows(joined, labels) == rows(source.images / 16, source.target)
    for c in range(10):
        total, test = np.sum(source.target == c), np.sum(data.test_labels == c)
        assert abs(test - test_fraction * total) <= 0.5


def test_digits_parts_keep_the_order_of_the_data(source):
    data = datasets.digits(seed=1)
    position = {image.tobytes(): i for i, image in enumerate(np.rint(source.images).astype(int))}
    for features in (data.train_features, data.test_features):
        images = np.rint(16 * features[..., 0]).astype(int)
        assert np.all(np.diff([position[image.tobytes()] for image in images]) > 0)


def test_digits_split_depends_on_the_seed_alone():
    first, again, other = (datasets.digits(seed=seed) for seed in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (first.test_features != other.test_features).any()


def test_extreme_fractions_leave_both_parts_every_class():
    few, most = datasets.digits(test_fraction=1e-4), datasets.digits(test_fraction=1 - 1e-4)
    np.testing.assert_array_equal(np.bincount(few.test_labels), np.ones(10))
    np.testing.assert_array_equal(np.bincount(most.train_labels), np.ones(10))


def test_load_passes_options_on():
    for a, b in zip(
        datasets.load('digits', test_fraction=0.3, seed=2),
        datasets.digits(test_fraction=0.3, seed=2),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize('name', ['digits', 'synthetic_images'])
def test_data_sets_know_their_name(name):
    assert datasets.load(name).name == name


@pytest.mark.parametrize(
    'call, message',
    [
        (lambda: datasets.load('digitz'), "`name` has no 'digitz'; did you mean 'digits'?"),
        (
            lambda: datasets.digits(test_fraction=1.0),
            '`test_fraction` must lie strictly between 0 and 1, got 1.0.',
        ),
        (
            lambda: datasets.digits(test_fraction=float('nan')),
            '`test_fraction` must lie strictly between 0 and 1, got nan.',
        ),
        (
            lambda: datasets.digits(seed=2**32),
            '`seed` must be at most 4294967295, got 4294967296.',
        ),
    ],
)
def test_load_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=f'^{re.escape(message)}$'):
        call()
