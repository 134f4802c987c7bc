"""Every published format, read back through the loader that configs use."""

import gzip
import re

import numpy as np
import pytest

from fedjax_links.problems import datasets
from fedjax_links.problems.datasets import sources
from fedjax_links.problems.datasets.sources import RECIPES
from tests.problems.sources import published
from tests.problems.sources.published import TEST, TRAIN, small


def assert_holds(data, train, test, name, num_classes=10):
    """What a loader gives is what was written, in its order."""
    for (images, labels), found, classes in (
        (train, data.train_features, data.train_labels),
        (test, data.test_features, data.test_labels),
    ):
        np.testing.assert_array_equal(found, np.float32(images) / np.float32(255))
        np.testing.assert_array_equal(classes, labels)
    assert (data.name, data.num_classes) == (name, num_classes)


@pytest.mark.parametrize('name', ['mnist', 'fashion_mnist'])
@pytest.mark.parametrize('layout', [{}, {'zipped': False}, {'zipped': False, 'dot': True}])
def test_idx(name, layout, tmp_path, monkeypatch):
    small(monkeypatch, name)
    parts = published.write_mnist(tmp_path / 'raw' / 'deep', **layout)
    done = sources.convert(name, tmp_path / 'raw', data_dir=tmp_path / 'new')
    assert done == (tmp_path / 'new' / f'{name}.npz', done.file.stat().st_size, TRAIN, TEST)
    data = datasets.load(name, data_dir=tmp_path / 'new')
    assert_holds(data, parts['train'], parts['test'], name)
    assert [file.name for file in (tmp_path / 'new').iterdir()] == [f'{name}.npz']


def test_emnist_comes_out_upright_and_numbered_from_zero(tmp_path, monkeypatch):
    for part, num_classes, first in (('balanced', 47, 0), ('letters', 26, 1)):
        small(monkeypatch, f'emnist/{part}')
        parts = published.write_emnist(tmp_path, part, num_classes, first_label=first)
        sources.convert(f'emnist/{part}', tmp_path, data_dir=tmp_path)
        data = datasets.emnist(config=part, data_dir=tmp_path)
        assert_holds(data, parts['train'], parts['test'], 'emnist', num_classes)
    again = sources.convert('emnist', tmp_path / 'emnist-balanced.npz', data_dir=tmp_path / 'new')
    assert again.file.read_bytes() == (tmp_path / 'emnist-balanced.npz').read_bytes()


@pytest.mark.parametrize('packed', [True, False])
def test_cifar10(packed, tmp_path, monkeypatch):
    small(monkeypatch, 'cifar10')
    parts = published.write_cifar10(tmp_path, packed=packed)
    sources.convert('cifar10', tmp_path, data_dir=tmp_path)
    assert_holds(datasets.cifar10(data_dir=tmp_path), parts['train'], parts['test'], 'cifar10')


def test_svhn_with_and_without_extra(tmp_path, monkeypatch):
    small(monkeypatch, 'svhn')
    small(monkeypatch, 'svhn/extra', counts=((2 * TRAIN, TEST),))
    parts = published.write_svhn(tmp_path, 'train', 'test', 'extra')
    for name in ('svhn', 'svhn/extra'):
        sources.convert(name, tmp_path, data_dir=tmp_path)
    plain, more = (datasets.svhn(data_dir=tmp_path, extra=k) for k in (False, True))
    assert_holds(plain, parts['train'], parts['test'], 'svhn')
    both = [np.concatenate(pair) for pair in zip(parts['train'], parts['extra'], strict=True)]
    assert_holds(more, both, parts['test'], 'svhn')


@pytest.mark.parametrize('packed', [True, False])
def test_cinic10_is_the_same_packed_unpacked_and_read_as_a_tree(packed, tmp_path, monkeypatch):
    raw = tmp_path / 'raw'
    small(monkeypatch, 'cinic10', counts=((TRAIN, TRAIN),))
    small(monkeypatch, 'cinic10/valid', counts=((2 * TRAIN, TRAIN),))
    parts = published.write_cinic10(raw, packed=packed)
    for name in ('cinic10', 'cinic10/valid'):
        sources.convert(name, raw, data_dir=tmp_path)
    plain, more = (datasets.cinic10(data_dir=tmp_path, include_valid=k) for k in (False, True))
    assert_holds(plain, parts['train'], parts['test'], 'cinic10')
    both = [np.concatenate(pair) for pair in zip(parts['train'], parts['valid'], strict=True)]
    assert_holds(more, both, parts['test'], 'cinic10')
    before = ['CINIC-10.tar.gz'] if packed else ['README.md', 'test', 'train', 'valid']
    assert sorted(child.name for child in raw.iterdir()) == before
    if not packed:
        tree = datasets.from_png_tree(raw)
        np.testing.assert_array_equal(tree.train_features, plain.train_features)
        np.testing.assert_array_equal(tree.train_labels, plain.train_labels)


def fails(name, source, message):
    """One line, and nothing half-written."""
    target = source / 'new'
    with pytest.raises(ValueError, match=message) as caught:
        sources.convert(name, source, data_dir=target)
    assert str(caught.value).count('\n') == 0
    assert not list(target.glob('*'))


def test_missing_files_are_named(tmp_path):
    for name, wanted in (
        ('mnist', 'train-images-idx3-ubyte or train-images.idx3-ubyte or '),
        ('emnist', 'emnist-balanced-train-images-idx3-ubyte or '),
        ('cifar10', 'data_batch_1.bin'),
        ('svhn', 'train_32x32.mat'),
        ('cinic10', 'CINIC-10.tar.gz or CINIC-10.tar'),
    ):
        fails(name, tmp_path, f'^`source` must hold {re.escape(wanted)}.*, got none in ')
    gone = tmp_path / 'gone'
    with pytest.raises(ValueError, match=f'^`source` must name a file or folder, got {gone}'):
        sources.convert('mnist', gone)
    with pytest.raises(ValueError, match=r"^`data` has no 'minst'; did you mean 'mnist'"):
        sources.convert('minst', tmp_path)


@pytest.mark.parametrize(
    'name, write, file',
    [
        ('mnist', published.write_mnist, 'train-images-idx3-ubyte.gz'),
        ('emnist', lambda f: published.write_emnist(f, 'balanced', 47), 'gzip.zip'),
        ('cifar10', published.write_cifar10, 'cifar-10-binary.tar.gz'),
        ('svhn', lambda f: published.write_svhn(f, 'train', 'test'), 'test_32x32.mat'),
        ('cinic10', published.write_cinic10, 'CINIC-10.tar.gz'),
    ],
)
def test_files_cut_short_or_damaged_cost_one_line(name, write, file, tmp_path, monkeypatch):
    small(monkeypatch, 'emnist/balanced' if name == 'emnist' else name)
    write(tmp_path)
    whole = (tmp_path / file).read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:40], b'', b'<html>not here</html>' * 9):
        (tmp_path / file).write_bytes(damaged)
        fails(name, tmp_path, rf'^`source` must hold intact files \(.*\), got {tmp_path}/{file}')


def test_pickles_are_refused_and_never_opened(tmp_path):
    (tmp_path / 'data_batch_1').write_bytes(b'cos\nsystem\n(Vtouch pickled\ntR.')
    fails('cifar10', tmp_path, r'^`source` must hold the binary version of CIFAR-10 .*pickles')


def test_other_data_than_published_are_refused(tmp_path, monkeypatch):
    published.write_mnist(tmp_path)
    fails(
        'mnist', tmp_path, r'^`source` must hold 60000 and 10000 training and test images, got 20'
    )
    labels = tmp_path / 't10k-labels-idx1-ubyte.gz'
    whole = labels.read_bytes()
    for changed, message in (
        (np.full(TEST, 10), 'labels from 0 to 9, got 10 to 10 of test'),
        (np.zeros(TEST - 1), r'a label per image, got shape \[9\] for 10 of test'),
    ):
        labels.write_bytes(gzip.compress(published.idx(changed)))
        fails('mnist', tmp_path, f'^`source` must hold {message}')
    labels.write_bytes(whole)
    small(monkeypatch, 'mnist', shape=(32, 32, 1))
    fails(
        'mnist', tmp_path, r'^`source` must hold images of shape \[32, 32, 1\], got \[28, 28, 1\]'
    )
    batch = tmp_path / 'data_batch_1.bin'
    for name in [*(f'data_batch_{k}.bin' for k in range(1, 6)), 'test_batch.bin']:
        (tmp_path / name).write_bytes(bytes(3073))
    batch.write_bytes(bytes(3072))
    fails('cifar10', tmp_path, '^`source` must hold whole records of 3073 bytes in data_batch_1')


def test_real_numbers_in_an_npz_are_refused(tmp_path):
    data = datasets.synthetic_images(num_train=4, num_test=2, shape=(28, 28, 1), num_classes=2)
    datasets.save_npz(data, tmp_path / 'mine.npz')
    with pytest.raises(ValueError, match=r'^`source` must hold uint8 pixels and integer labels'):
        sources.convert('mnist', tmp_path / 'mine.npz', data_dir=tmp_path)


def test_a_full_disk_leaves_the_older_file(tmp_path, monkeypatch):
    small(monkeypatch, 'mnist')
    published.write_mnist(tmp_path)
    file = sources.convert('mnist', tmp_path, data_dir=tmp_path / 'new').file
    before = file.read_bytes()

    def full(stream, **arrays):
        stream.write(b'half of it')
        raise OSError(28, 'No space left on device')

    with monkeypatch.context() as patch:
        patch.setattr(np, 'savez', full)
        with pytest.raises(ValueError, match=r'cannot be used: No space left on device\.$'):
            sources.convert('mnist', tmp_path, data_dir=tmp_path / 'new')
        patch.setattr('shutil.disk_usage', lambda path: type('', (), {'free': 1500}))
        message = r'^`data_dir` must have room for 0.0236 MB, got 0.0015 MB in '
        with pytest.raises(ValueError, match=message):
            sources.convert('mnist', tmp_path, data_dir=tmp_path / 'new')
    assert file.read_bytes() == before
    assert [child.name for child in file.parent.iterdir()] == ['mnist.npz']


def test_names_of_other_places_lead_to_ours():
    for name, ours in (('svhn_cropped', 'svhn'), ('emnist/letter', 'emnist/letters')):
        with pytest.raises(ValueError, match=f"has no '{name}'; did you mean '{ours}'"):
            datasets.load(name)
        with pytest.raises(ValueError, match=f"has no '{name}'; did you mean '{ours}'"):
            sources.status(name)


def test_every_recipe_has_its_loader(tmp_path, monkeypatch):
    """The loader of each name looks for the file that is written for it, and names the command."""
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    for name in RECIPES:
        command = f'python -m fedjax_links data fetch {name}`'
        with pytest.raises(ValueError, match=command) as caught:
            datasets.load(name)
        assert f'{tmp_path}/{name.replace("/", "-")}.npz' in str(caught.value)
        assert sources.status(name) == (None, sum(file.size for file in RECIPES[name].files))
