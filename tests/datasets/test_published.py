"""The published sets, from their npz."""

import pathlib

import numpy as np
import pytest

from fedjax_links import datasets
from fedjax_links.datasets import npz

PUBLISHED = ('mnist', 'svhn', 'emnist', 'cinic10')


def sampled(seed=0):
    return datasets.synthetic_images(
        num_train=4, num_test=2, shape=(6, 6, 1), seed=seed
    )


@pytest.mark.parametrize('name', PUBLISHED)
def test_each_published_set_has_a_file_of_its_own(name, tmp_path):
    root = tmp_path / 'my data'
    root.mkdir()
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        datasets.published(name, data_dir=root)
    file = root / f'{name}.npz'
    assert str(caught.value) == (
        f'`data_dir` must hold the data set (run `python -m fedjax_links data fetch {name} '
        f"--data_dir='{root}'`), got no {file}."
    )
    datasets.save_npz(sampled(), file)
    data = datasets.published(name, data_dir=root)
    np.testing.assert_array_equal(data.train_features, sampled().train_features)
    file.write_bytes(b'PK')
    with pytest.raises(
        ValueError, match=r'^`data_dir.path` must name an intact npz file'
    ):
        datasets.published(name, data_dir=root)


def test_tilde_is_the_home_folder(monkeypatch):
    monkeypatch.delenv('TFDS_DATA_DIR', raising=False)
    assert npz.data_root(None) == pathlib.Path.home() / 'tensorflow_datasets'
