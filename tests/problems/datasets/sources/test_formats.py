"""Every published format, read back through the loader that configs use."""

import numpy as np
import pytest

from fedjax_links import problems
from fedjax_links.problems import datasets
from fedjax_links.problems.datasets import sources
from fedjax_links.problems.datasets.sources import RECIPES
from tests.problems.datasets.sources import published
from tests.problems.datasets.sources.published import TRAIN, small

pytest.importorskip('pooch')


def assert_holds(data, train, test, name, num_classes=10):
    """What a loader gives is what was written, in its order."""
    for (images, labels), found, classes in (
        (train, data.train_features, data.train_labels),
        (test, data.test_features, data.test_labels),
    ):
        np.testing.assert_array_equal(found, np.float32(images) / np.float32(255))
        np.testing.assert_array_equal(classes, labels)
    assert data.num_classes == num_classes


def convert(monkeypatch, tmp_path, *names):
    """Makes data sets of files that are in their folder of downloads already."""
    for name in names:
        folder = tmp_path / 'downloads' / name
        small(monkeypatch, name, folder)
        file = sources.fetch(name, data_dir=tmp_path)
    return file


@pytest.mark.parametrize('name', ['mnist', 'fashion_mnist'])
def test_idx(name, tmp_path, monkeypatch):
    parts = published.write_mnist(tmp_path / 'downloads' / name)
    assert convert(monkeypatch, tmp_path, name) == tmp_path / f'{name}.npz'
    data = datasets.published(name, data_dir=tmp_path)
    assert_holds(data, parts['train'], parts['test'], name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ['downloads', f'{name}.npz']


def test_emnist_comes_out_upright(tmp_path, monkeypatch):
    parts = published.write_emnist(tmp_path / 'downloads' / 'emnist')
    convert(monkeypatch, tmp_path, 'emnist')
    data = datasets.published('emnist', data_dir=tmp_path)
    assert_holds(
        data, parts['train'], parts['test'], 'emnist', TRAIN
    )  # as many classes as there are


def test_cifar10(tmp_path, monkeypatch):
    parts = published.write_cifar10(tmp_path / 'downloads' / 'cifar10')
    convert(monkeypatch, tmp_path, 'cifar10')
    assert_holds(
        datasets.published('cifar10', data_dir=tmp_path), parts['train'], parts['test'], 'cifar10'
    )


def test_svhn(tmp_path, monkeypatch):
    parts = published.write_svhn(tmp_path / 'downloads' / 'svhn', 'train', 'test')
    convert(monkeypatch, tmp_path, 'svhn')
    data = datasets.published('svhn', data_dir=tmp_path)
    assert_holds(data, parts['train'], parts['test'], 'svhn')


def test_cinic10(tmp_path, monkeypatch):
    raw = tmp_path / 'downloads' / 'cinic10'
    parts = published.write_cinic10(raw)
    convert(monkeypatch, tmp_path, 'cinic10')
    plain = datasets.published('cinic10', data_dir=tmp_path)
    assert_holds(plain, parts['train'], parts['test'], 'cinic10')
    assert [child.name for child in raw.iterdir()] == ['CINIC-10.tar.gz']


def test_a_full_disk_leaves_the_older_file(tmp_path, monkeypatch):
    published.write_mnist(tmp_path / 'downloads' / 'mnist')
    file = convert(monkeypatch, tmp_path, 'mnist')
    before = file.read_bytes()

    def full(stream, **arrays):
        stream.write(b'half of it')
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(np, 'savez', full)
    with pytest.raises(ValueError, match=r'cannot be used: No space left on device\.$'):
        sources.fetch('mnist', data_dir=tmp_path)
    assert file.read_bytes() == before
    assert sorted(child.name for child in tmp_path.iterdir()) == ['downloads', 'mnist.npz']


def test_names_of_other_places_lead_to_ours():
    for name, ours in (('svhn_cropped', 'svhn'), ('emnist/balanced', 'emnist')):
        with pytest.raises(ValueError, match=f"has no '{name}'; did you mean '{ours}'"):
            problems.images(dataset=name, num_clients=2, model='softmax')
        with pytest.raises(ValueError, match=f"has no '{name}'; did you mean '{ours}'"):
            sources.fetch(name)


def test_every_recipe_has_its_loader(tmp_path, monkeypatch):
    """The loader of each name looks for the file that is written for it, and names the command."""
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    for name in RECIPES:
        command = f'python -m fedjax_links data fetch {name}`'
        with pytest.raises(ValueError, match=command) as caught:
            datasets.published(name)
        assert f'{tmp_path}/{name}.npz' in str(caught.value)
