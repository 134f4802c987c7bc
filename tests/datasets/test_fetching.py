"""Downloads from a server on this machine, and all that can go wrong with one."""

import functools
import socket
import sys

import numpy as np
import pytest

from fedjax_links import datasets
from fedjax_links.datasets import publishers
from tests import refusals
from tests.datasets import published
from tests.datasets.serving import serving

pytest.importorskip('pooch')


@pytest.mark.parametrize(
    'name, write, num_classes',
    [
        ('mnist', published.write_mnist, 10),
        ('fashion_mnist', published.write_mnist, 10),
        ('cifar10', published.write_cifar10, 10),
        # Of more classes than the tiny set has examples.
        ('cifar100', published.write_cifar100, published.TRAIN),
        ('emnist', published.write_emnist, published.TRAIN),
        ('svhn', lambda folder: published.write_svhn(folder, 'train', 'test'), 10),
        ('cinic10', published.write_cinic10, 10),
    ],
)
def test_a_data_set_by_one_call(name, write, num_classes, tmp_path, monkeypatch):
    parts = write(tmp_path / 'served')
    recipe = published.replace_files(monkeypatch, name, tmp_path / 'served')
    with serving(tmp_path / 'served') as (mirror, settings):
        call = functools.partial(
            publishers.fetch,
            name,
            data_dir=tmp_path,
            mirror=f'{mirror}/',
        )
        assert call() == tmp_path / f'{name}.npz'
        assert settings['requests'] == [f'/{file.name}' for file in recipe.files]
        call()  # requests no file that is there and right
        assert len(settings['requests']) == len(recipe.files)
    data = datasets.published(name, data_dir=tmp_path)
    for split, features, labels in (
        ('train', data.train_features, data.train_labels),
        ('test', data.test_features, data.test_labels),
    ):
        images, classes = parts[split]
        assert features.dtype == np.uint8
        np.testing.assert_array_equal(features, images)
        np.testing.assert_array_equal(labels, classes)
    assert data.num_classes == num_classes
    served = {file.name: file.read_bytes() for file in (tmp_path / 'served').iterdir()}
    assert {
        file.name: file.read_bytes()
        for file in (tmp_path / 'downloads' / name).iterdir()
    } == served


@pytest.fixture
def cifar10(tmp_path, monkeypatch):
    """A served folder, the file in it and the call that fetches it."""
    published.write_cifar10(tmp_path / 'served')
    file = tmp_path / 'served' / 'cifar-10-binary.tar.gz'
    published.replace_files(monkeypatch, 'cifar10', file.parent)
    return file, functools.partial(
        publishers.fetch, 'cifar10', data_dir=tmp_path / 'new'
    )


@pytest.mark.parametrize('has_length', [True, False])
def test_an_interrupted_download_leaves_nothing_and_can_restart(
    cifar10, has_length, tmp_path
):
    file, call = cifar10
    options = {'max_bytes': 2500, 'has_length': has_length}
    with serving(file.parent, **options) as (mirror, settings):
        with refusals.one_line(r'^`fetch` must get .*http'):
            call(mirror=mirror)
        assert not list((tmp_path / 'new' / 'downloads' / 'cifar10').iterdir())
        assert not list((tmp_path / 'new').glob('*.npz'))
        settings['max_bytes'] = None
        assert call(mirror=mirror) == tmp_path / 'new' / 'cifar10.npz'
    fetched = tmp_path / 'new' / 'downloads' / 'cifar10' / file.name
    assert fetched.read_bytes() == file.read_bytes()


def test_a_bar_shows_how_far_it_is(cifar10, capsys):
    file, call = cifar10
    with serving(file.parent) as (mirror, _):
        call(mirror=mirror, progressbar=True)
    assert '100%' in capsys.readouterr().err


def test_other_bytes_than_published_are_thrown_away(cifar10, tmp_path):
    file, call = cifar10
    full = file.read_bytes()
    file.write_bytes(full[:-1] + bytes([full[-1] ^ 1]))
    with serving(file.parent) as (mirror, _):
        source = f'the published {file.name} from {mirror}/'
        with refusals.one_line(rf'^`fetch` must get {source}.*, got a file of '):
            call(mirror=mirror)
        assert not list((tmp_path / 'new' / 'downloads' / 'cifar10').iterdir())
        file.write_bytes(full)
        assert call(mirror=mirror).is_file()


def test_an_older_file_that_is_not_right_is_fetched_again(cifar10, tmp_path):
    file, call = cifar10
    folder = tmp_path / 'new' / 'downloads' / 'cifar10'
    folder.mkdir(parents=True)
    (folder / file.name).write_bytes(b'something else')
    with serving(file.parent) as (mirror, _):
        call(mirror=mirror)
    assert (folder / file.name).read_bytes() == file.read_bytes()


def test_a_missing_file_and_an_unreachable_server_are_named(cifar10):
    file, call = cifar10
    file.rename(file.with_name('other'))
    with (
        serving(file.parent) as (mirror, _),
        refusals.one_line(r'^`fetch` must get http://127.0.0.1:\d+/.*, got .*404'),
    ):
        call(mirror=mirror)
    hint = r'\(or try another address by --mirror=URL\)'
    with refusals.one_line(rf'^`fetch` must get http.* {hint}, got .*refused'):
        call(mirror=mirror)
    with refusals.one_line('^`mirror` must be an address or a folder, got nonse'):
        call(mirror='nonsense')


def test_no_network_costs_one_line_and_no_minutes(cifar10, monkeypatch):
    def unknown(*args, **options):
        raise socket.gaierror(-3, 'Temporary failure in name resolution')

    monkeypatch.setattr(socket, 'getaddrinfo', unknown)
    _, call = cifar10
    with refusals.one_line(
        r'^`fetch` must get https://www.cs.toronto.edu/.*, got .*resol'
    ):
        call()


def test_a_full_disk_is_noticed(cifar10, tmp_path, monkeypatch):
    file, call = cifar10
    with serving(file.parent) as (mirror, _):
        folder = tmp_path / 'new' / 'downloads' / 'cifar10'

        def full(*args, **options):
            raise OSError(28, 'No space left on device')

        with monkeypatch.context() as patch:
            patch.setattr('pooch.HTTPDownloader.__call__', full)
            message = f'^`{folder}` cannot be used: No space left on device'
            with refusals.one_line(message):
                call(mirror=mirror)
        assert call(mirror=mirror).is_file()


def test_missing_pooch_is_named(cifar10, monkeypatch):
    _, call = cifar10
    monkeypatch.setitem(sys.modules, 'pooch', None)
    with pytest.raises(
        ImportError, match=r"^downloads need pooch: `pip install 'fedjax_links"
    ):
        call()
