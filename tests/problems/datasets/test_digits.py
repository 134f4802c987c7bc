"""The embedded data set against its source, and its split."""

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
        total, test = np.sum(source.target == c), np.sum(data.test_labels == c)
        assert abs(test - 0.2 * total) <= 0.5


def test_digits_parts_keep_the_order_of_the_data(source):
    data = datasets.digits(seed=1)
    position = {image.tobytes(): i for i, image in enumerate(np.rint(source.images).astype(int))}
    for features in (data.train_features, data.test_features):
        images = np.rint(16 * features[..., 0]).astype(int)
        assert np.all(np.diff([position[image.tobytes()] for image in images]) > 0)


def test_digits_split_depends_on_the_seed_alone():
    first, again, other = (datasets.digits(seed=seed) for seed in (0, 0, 1))
    for name, value in vars(first).items():
        np.testing.assert_array_equal(value, getattr(again, name))
    assert (first.test_features != other.test_features).any()


def test_a_seed_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r'^`seed` must be at most 4294967295, got 4294967296\.$'):
        datasets.digits(seed=2**32)
