"""Data sets in folders of this machine, the system's and the user's, without any download."""

import gzip
import re
import sys

import numpy as np
import pytest

from fedjax_links import datasets
from fedjax_links.datasets import npz, publishers, system_copies
from tests import refusals
from tests.datasets import published


@pytest.fixture(autouse=True)
def empty_system(tmp_path, monkeypatch):
    """A system without data sets, and no package that downloads."""
    monkeypatch.setattr(system_copies, 'FOLDER', tmp_path / 'system')
    monkeypatch.setitem(sys.modules, 'pooch', None)


def decompress(folder, pattern):
    """Replaces the gzipped files that match a pattern by their content."""
    for file in folder.glob(pattern):
        file.with_suffix('').write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()


def check(file, parts):
    """Asserts that a written file has these images and labels by split."""
    data = datasets.from_npz(file)
    for split, (images, labels) in parts.items():
        np.testing.assert_array_equal(getattr(data, f'{split}_features'), images)
        np.testing.assert_array_equal(getattr(data, f'{split}_labels'), labels)


# Patterns of the files that are stored without compression; 'no file' matches none.
@pytest.mark.parametrize('uncompressed', ['no file', '*images*.gz', '*.gz'])
def test_the_systems_copy_needs_no_download(uncompressed, tmp_path):
    copy = tmp_path / 'system' / 'fashion-mnist'
    parts = published.write_mnist(copy)
    decompress(copy, uncompressed)
    file = publishers.fetch('fashion_mnist', data_dir=tmp_path / 'data')
    check(file, parts)
    assert npz.source_of(file) == str(copy)
    assert [child.name for child in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    'name, write, uncompressed',
    [
        ('mnist', published.write_mnist, 'no file'),
        ('mnist', published.write_mnist, '*ubyte.gz'),
        ('emnist', published.write_emnist, 'no file'),
        ('cifar10', published.write_cifar10, 'no file'),
        ('cifar100', published.write_cifar100, 'no file'),
    ],
)
def test_a_folder_needs_no_download(name, write, uncompressed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = write(tmp_path / 'mine')
    decompress(tmp_path / 'mine', uncompressed)
    file = publishers.fetch(name, data_dir=tmp_path / 'data', mirror='mine')
    check(file, parts)
    assert npz.source_of(file) == str(tmp_path / 'mine')


def test_a_folder_is_preferred_to_the_systems_copy(tmp_path):
    published.write_mnist(tmp_path / 'system' / 'mnist')
    parts = published.write_mnist(tmp_path / 'mine')
    labels = tmp_path / 'mine' / 'train-labels-idx1-ubyte.gz'
    images, classes = parts['train']
    labels.write_bytes(gzip.compress(published.idx(classes[::-1])))
    parts['train'] = images, classes[::-1]
    mirror = str(tmp_path / 'mine')
    check(publishers.fetch('mnist', data_dir=tmp_path, mirror=mirror), parts)


def test_half_a_system_copy_is_none(tmp_path):
    copy = tmp_path / 'system' / 'mnist'
    published.write_mnist(copy)
    (copy / 't10k-labels-idx1-ubyte.gz').unlink()
    with pytest.raises(ImportError, match=r'^downloads need pooch'):
        publishers.fetch('mnist', data_dir=tmp_path / 'data')


def test_a_damaged_system_copy_is_named(tmp_path):
    copy = tmp_path / 'system' / 'mnist'
    published.write_mnist(copy)
    file = copy / 't10k-images-idx3-ubyte.gz'
    file.write_bytes(file.read_bytes()[:-9])
    message = "`the system's copy` must hold files of mnist as published ("
    with refusals.one_line(f'^{re.escape(message)}.*{copy}'):
        publishers.fetch('mnist', data_dir=tmp_path / 'data')


def cut(content):
    """Removes the end of a file."""
    return content[:-1]


def of_another_rank(content):
    """Makes the header that of a file of labels."""
    return bytes([0, 0, 8, 2]) + content[4:]


def of_nothing(content):
    """Makes the file empty."""
    return b''


@pytest.mark.parametrize('change', [cut, of_another_rank, of_nothing])
@pytest.mark.parametrize('compressed', [True, False])
def test_damaged_files_cost_one_line(change, compressed, tmp_path):
    folder = tmp_path / 'mine'
    published.write_mnist(folder)
    name = 'train-images-idx3-ubyte'
    content = gzip.decompress((folder / f'{name}.gz').read_bytes())
    (folder / f'{name}.gz').unlink()
    if compressed:
        (folder / f'{name}.gz').write_bytes(gzip.compress(change(content)))
    else:
        (folder / name).write_bytes(change(content))
    message = '`mirror` must hold files of mnist as published ('
    with refusals.one_line(f'^{re.escape(message)}.*{folder}'):
        publishers.fetch('mnist', data_dir=tmp_path, mirror=str(folder))
    assert not list(tmp_path.glob('*.npz'))


@pytest.mark.parametrize(
    'name, file_name',
    [
        ('mnist', 'train-images-idx3-ubyte.gz'),
        ('cifar10', 'cifar-10-binary.tar.gz'),
        ('emnist', 'gzip.zip'),
    ],
)
@pytest.mark.parametrize('content', [b'no archive at all', b'\x1f\x8b\x08\x00cut'])
def test_files_of_another_kind_cost_one_line(name, file_name, content, tmp_path):
    folder = tmp_path / 'mine'
    published.write_mnist(folder)
    (folder / file_name).write_bytes(content)
    message = f'`mirror` must hold files of {name} as published ('
    with refusals.one_line(f'^{re.escape(message)}.*{folder}'):
        publishers.fetch(name, data_dir=tmp_path, mirror=str(folder))


def test_a_missing_file_is_named(tmp_path):
    folder = tmp_path / 'mine'
    published.write_mnist(folder)
    missing = folder / 't10k-images-idx3-ubyte.gz'
    missing.unlink()
    message = f'^`{missing}` cannot be used: No such file or directory'
    with pytest.raises(ValueError, match=message):
        publishers.fetch('mnist', data_dir=tmp_path, mirror=str(folder))
