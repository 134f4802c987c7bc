"""Images without files: the embedded digits against their source, and what drawn images are."""

import numpy as np
import pytest

from fedjax_links import datasets
from tests.refusals import refuses


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
    assert data.num_classes == 10


def test_digits_split_uses_every_example_once_and_is_stratified(source):
    data = datasets.digits(seed=3)

    def rows(features, labels):
        flat = np.rint(16 * np.asarray(features, np.float64)).reshape(len(labels), 64)
        return sorted(map(tuple, np.column_stack([flat, labels]).astype(int).tolist()))

    joined = np.concatenate([data.train_features, data.test_features])
    labels = np.concatenate([data.train_labels, data.test_labels])
    assert rows(joined, labels) == rows(source.images / 16, source.target)
    for c in range(10):
        total = np.sum(source.target == c)
        test = np.sum(data.test_labels == c)
        assert abs(test - 0.2 * total) <= 0.5


def test_digits_parts_keep_the_order_of_the_data(source):
    data = datasets.digits(seed=1)
    position = {
        image.tobytes(): i for i, image in enumerate(np.rint(source.images).astype(int))
    }
    for features in (data.train_features, data.test_features):
        images = np.rint(16 * features[..., 0]).astype(int)
        assert np.all(np.diff([position[image.tobytes()] for image in images]) > 0)


def test_digits_split_depends_on_the_seed_alone():
    first = datasets.digits(seed=0)
    again = datasets.digits(seed=0)
    other = datasets.digits(seed=1)
    for name, value in vars(first).items():
        np.testing.assert_array_equal(value, getattr(again, name))
    assert (first.test_features != other.test_features).any()


def test_a_seed_out_of_range_is_refused():
    with pytest.raises(
        ValueError, match=r'^`seed` must be at most 4294967295, got 4294967296\.$'
    ):
        datasets.digits(seed=2**32)


DIFFICULTIES = (0.0, 0.25, 0.5, 0.75, 1.0)


@pytest.mark.parametrize('shape', [(28, 28, 1), (32, 32, 3), (5, 9, 2)])
@pytest.mark.parametrize('num_classes', [1, 10])
def test_shapes_ranges_and_balance(shape, num_classes):
    data = datasets.synthetic_images(
        num_train=603, num_test=47, shape=shape, num_classes=num_classes
    )
    for number, features, labels in (
        (603, data.train_features, data.train_labels),
        (47, data.test_features, data.test_labels),
    ):
        assert features.shape == (number, *shape)
        assert (features.dtype, labels.dtype) == (np.float32, np.int32)
        assert 0 <= features.min() < 0.1 < 0.9 < features.max() <= 1
        counts = np.bincount(labels, minlength=num_classes)
        assert len(counts) == num_classes
        assert counts.max() - counts.min() <= 1
    assert data.num_classes == num_classes


def nearest_prototype_accuracy(data):
    """Accuracy on the test data of the nearest class mean of the training data."""
    train = data.train_features.reshape(len(data.train_labels), -1)
    test = data.test_features.reshape(len(data.test_labels), -1)
    means = np.stack(
        [train[data.train_labels == c].mean(axis=0) for c in range(data.num_classes)]
    )
    distances = np.square(means).sum(axis=1) - 2 * test @ means.T
    return np.mean(distances.argmin(axis=1) == data.test_labels)


@pytest.mark.parametrize(
    'shape', [(28, 28, 1), pytest.param((32, 32, 3), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize('seed', [0, pytest.param(1, marks=pytest.mark.slow)])
def test_difficulty_is_monotone(shape, seed):
    accuracies = [
        nearest_prototype_accuracy(
            datasets.synthetic_images(
                num_train=1000,
                num_test=700,
                shape=shape,
                difficulty=difficulty,
                seed=seed,
            )
        )
        for difficulty in DIFFICULTIES
    ]
    assert accuracies[0] == 1
    assert (np.diff(accuracies) <= 0).all(), accuracies
    assert (np.diff(accuracies[1:]) < -0.005).all(), accuracies
    assert accuracies[2] > 0.75  # learnable in the middle
    assert 0.2 < accuracies[-1] < 0.85  # and well above chance at the end


def test_without_difficulty_examples_of_a_class_are_equal():
    data = datasets.synthetic_images(num_train=100, num_test=30, difficulty=0)
    for c in range(10):
        patterns = np.concatenate(
            [
                data.train_features[data.train_labels == c],
                data.test_features[data.test_labels == c],
            ]
        )
        np.testing.assert_array_equal(
            patterns, np.broadcast_to(patterns[0], patterns.shape)
        )
    firsts = [data.train_features[data.train_labels == c][0] for c in range(10)]
    gaps = [np.abs(a - b).mean() for i, a in enumerate(firsts) for b in firsts[:i]]
    assert min(gaps) > 0.1


def test_patterns_are_smooth():
    """Neighbouring pixels of a pattern differ by much less than distant ones."""
    data = datasets.synthetic_images(num_train=10, num_test=1, difficulty=0)
    steps = np.abs(np.diff(data.train_features, axis=1)).mean()
    halves = np.abs(data.train_features[:, :14] - data.train_features[:, 14:]).mean()
    assert steps < 0.35 * halves


def test_examples_of_a_class_differ_and_labels_are_shuffled():
    data = datasets.synthetic_images(num_train=200, num_test=10)
    images = {image.tobytes() for image in data.train_features}
    assert len(images) == 200
    assert not np.array_equal(data.train_labels, np.arange(200) % 10)


def test_draws_depend_on_the_seed_alone():
    first = datasets.synthetic_images(num_train=50, num_test=20, seed=3)
    again = datasets.synthetic_images(num_train=50, num_test=20, seed=3)
    other = datasets.synthetic_images(num_train=50, num_test=20, seed=4)
    for name, value in vars(first).items():
        np.testing.assert_array_equal(value, getattr(again, name))
    assert (first.train_features != other.train_features).mean() > 0.5
    more = datasets.synthetic_images(num_train=90, num_test=20, seed=3)
    np.testing.assert_array_equal(more.test_features, first.test_features)
    np.testing.assert_array_equal(more.test_labels, first.test_labels)


@pytest.mark.parametrize(
    'options, message',
    [
        ({'num_train': 0}, '`num_train` must be at least 1, got 0.'),
        ({'num_test': 1.5}, '`num_test` must be a Python integer, got 1.5.'),
        ({'num_classes': 0}, '`num_classes` must be at least 1, got 0.'),
        ({'difficulty': 1.5}, '`difficulty` must lie in [0, 1], got 1.5.'),
        ({'difficulty': float('nan')}, '`difficulty` must lie in [0, 1], got nan.'),
        ({'shape': (28, 28)}, '`shape` must be height, width, channels, got [28, 28].'),
        ({'shape': [[1, 2], [3]]}, '`shape` must hold numbers, got [[1, 2], [3]].'),
        ({'shape': (28, 0, 1)}, '`shape` must be at least 1, got 0.'),
        ({'seed': -1}, '`seed` must be at least 0, got -1.'),
    ],
)
def test_arguments_out_of_range_are_refused(options, message):
    with refuses(message):
        datasets.synthetic_images(**options)
