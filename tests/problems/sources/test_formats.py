"""Every published format, read back through the loader that configs use."""

import numpy as np
import pytest

from fedjax_links.problems import datasets
from fedjax_links.problems.datasets import sources
from fedjax_links.problems.datasets.sources import RECIPES
from tests.problems.sources import published
from tests.problems.sources.published import TEST, TRAIN, small

pytest.importorskip('pooch')


def assert_holds(data, train, test, name, num_classes=10):
    """What a loader gives is what was written, in its order."""
    for (images, labels), found, classes in (
        (train, data.train_features, data.train_labels),
        (test, data.test_features, data.test_labels),
    ):
        np.testing.assert_array_equal(found, np.float32(images) / np.float32(255))
        np.testing.assert_array_equal(classes, labels)
    assert (data.name, data.num_classes) == (name, num_classes)


def convert(monkeypatch, tmp_path, *names):
    """Makes data sets of files that are in their folder of downloads already."""
    for name in names:
        folder = tmp_path / 'downloads' / name.partition('/')[0]
        small(monkeypatch, name, folder)
        fetched = sources.fetch(name, data_dir=tmp_path)
        assert fetched.downloads == folder
    return fetched


@pytest.mark.parametrize('name', ['mnist', 'fashion_mnist'])
def test_idx(name, tmp_path, monkeypatch):
    parts = published.write_mnist(tmp_path / 'downloads' / name)
    done = convert(monkeypatch, tmp_path, name)
    assert done[:3] == (tmp_path / f'{name}.npz', TRAIN, TEST)
    data = datasets.load(name, data_dir=tmp_path)
    assert_holds(data, parts['train'], parts['test'], name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ['downloads', f'{name}.npz']


def test_emnist_comes_out_upright_and_numbered_from_zero(tmp_path, monkeypatch):
    for part, num_classes, first in (('balanced', 47, 0), ('letters', 26, 1)):
        name = 'emnist' if part == 'balanced' else f'emnist/{part}'
        parts = published.write_emnist(
            tmp_path / 'downloads' / 'emnist', part, num_classes, first_label=first
        )
        convert(monkeypatch, tmp_path, name)
        data = datasets.published(name, data_dir=tmp_path)
        assert_holds(data, parts['train'], parts['test'], 'emnist', num_classes)


def test_cifar10(tmp_path, monkeypatch):
    parts = published.write_cifar10(tmp_path / 'downloads' / 'cifar10')
    convert(monkeypatch, tmp_path, 'cifar10')
    assert_holds(
        datasets.published('cifar10', data_dir=tmp_path), parts['train'], parts['test'], 'cifar10'
    )


def test_svhn_with_and_without_extra(tmp_path, monkeypatch):
    parts = published.write_svhn(tmp_path / 'downloads' / 'svhn', 'train', 'test', 'extra')
    convert(monkeypatch, tmp_path, 'svhn', 'svhn/extra')
    plain, more = (datasets.published(k, data_dir=tmp_path) for k in ('svhn', 'svhn/extra'))
    assert_holds(plain, parts['train'], parts['test'], 'svhn')
    both = [np.concatenate(pair) for pair in zip(parts['train'], parts['extra'], strict=True)]
    assert_holds(more, both, parts['test'], 'svhn')


def test_cinic10_is_the_same_packed_and_read_as_a_tree(tmp_path, monkeypatch):
    raw = tmp_path / 'downloads' / 'cinic10'
    parts = published.write_cinic10(raw)
    convert(monkeypatch, tmp_path, 'cinic10', 'cinic10/valid')
    plain, more = (datasets.published(k, data_dir=tmp_path) for k in ('cinic10', 'cinic10/valid'))
    assert_holds(plain, parts['train'], parts['test'], 'cinic10')
    both = [np.concatenate(pair) for pair in zip(parts['train'], parts['valid'], strict=True)]
    assert_holds(more, both, parts['test'], 'cinic10')
    assert [child.name for child in raw.iterdir()] == ['CINIC-10.tar.gz']
    published.write_cinic10(tmp_path / 'tree', packed=False)
    tree = datasets.from_png_tree(tmp_path / 'tree')
    np.testing.assert_array_equal(tree.train_features, plain.train_features)
    np.testing.assert_array_equal(tree.train_labels, plain.train_labels)


def test_a_full_disk_leaves_the_older_file(tmp_path, monkeypatch):
    published.write_mnist(tmp_path / 'downloads' / 'mnist')
    file = convert(monkeypatch, tmp_path, 'mnist').file
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
    for name, ours in (('svhn_cropped', 'svhn'), ('emnist/letter', 'emnist/letters')):
        with pytest.raises(ValueError, match=f"has no '{name}'; did you mean '{ours}'"):
            datasets.load(name)
        with pytest.raises(ValueError, match=f"has no '{name}'; did you mean '{ours}'"):
            sources.fetch(name)


def test_every_recipe_has_its_loader(tmp_path, monkeypatch):
    """The loader of each name looks for the file that is written for it, and names the command."""
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    for name in RECIPES:
        command = f'python -m fedjax_links data fetch {name}`'
        with pytest.raises(ValueError, match=command) as caught:
            datasets.load(name)
        assert f'{tmp_path}/{name.replace("/", "-")}.npz' in str(caught.value)
