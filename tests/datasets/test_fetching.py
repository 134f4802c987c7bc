"""Downloads from a server on this machine, and all that can go wrong with one."""

import functools
import socket

import numpy as np
import pytest

from fedjax_links import datasets
from fedjax_links.datasets import publishers
from tests.datasets import published
from tests.datasets.published import small
from tests.datasets.serving import serving

pytest.importorskip('pooch')


@pytest.mark.parametrize(
    'name, write, num_classes',
    [
        ('mnist', published.write_mnist, 10),
        ('fashion_mnist', published.write_mnist, 10),
        ('cifar10', published.write_cifar10, 10),
        # As many classes as there are.
        (
            'cifar100',
            published.write_cifar100,
            published.TRAIN,
        ),
        ('svhn', lambda folder: published.write_svhn(folder, 'train', 'test'), 10),
        ('emnist', published.write_emnist, published.TRAIN),
        ('cinic10', published.write_cinic10, 10),
    ],
)
def test_a_data_set_by_one_call(name, write, num_classes, tmp_path, monkeypatch):
    parts = write(tmp_path / 'served')
    recipe = small(monkeypatch, name, tmp_path / 'served')
    with serving(tmp_path / 'served') as (mirror, settings):
        call = functools.partial(
            publishers.fetch,
            name,
            data_dir=tmp_path,
            mirror=f'{mirror}/',
        )
        assert call() == tmp_path / f'{name}.npz'
        assert settings['requests'] == [f'/{file.name}' for file in recipe.files]
        call()  # what is there and right is not asked for again
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
    small(monkeypatch, 'cifar10', file.parent)
    return file, functools.partial(
        publishers.fetch, 'cifar10', data_dir=tmp_path / 'new'
    )


def fails(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('length', [True, False])
def test_an_interrupted_download_leaves_nothing_and_begins_anew(
    cifar10, length, tmp_path
):
    file, call = cifar10
    with serving(file.parent, most=2500, length=length) as (mirror, settings):
        fails(lambda: call(mirror=mirror), r'^`fetch` must get .*http')
        assert not list((tmp_path / 'new' / 'downloads' / 'cifar10').iterdir())
        assert not list((tmp_path / 'new').glob('*.npz'))
        settings['most'] = None
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
        fails(
            lambda: call(mirror=mirror),
            rf'^`fetch` must get the published {file.name} from {mirror}/.*, got a file of ',
        )
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


def test_no_such_file_and_nobody_there(cifar10):
    file, call = cifar10
    file.rename(file.with_name('other'))
    with serving(file.parent) as (mirror, _):
        fails(lambda: call(mirror=mirror), f'^`fetch` must get {mirror}/.*, got .*404')
    message = r'^`fetch` must get http.* \(or try another address by --mirror=URL\), got .*refused'
    fails(lambda: call(mirror=mirror), message)
    fails(
        lambda: call(mirror='nonsense'),
        '^`mirror` must be an address or a folder, got nonse',
    )


def test_no_network_costs_one_line_and_no_minutes(cifar10, monkeypatch):
    def unknown(*args, **options):
        raise socket.gaierror(-3, 'Temporary failure in name resolution')

    monkeypatch.setattr(socket, 'getaddrinfo', unknown)
    _, call = cifar10
    fails(call, r'^`fetch` must get https://www.cs.toronto.edu/.*, got .*resol')


def test_a_full_disk_is_noticed(cifar10, tmp_path, monkeypatch):
    file, call = cifar10
    with serving(file.parent) as (mirror, _):
        folder = tmp_path / 'new' / 'downloads' / 'cifar10'

        def full(*args, **options):
            raise OSError(28, 'No space left on device')

        with monkeypatch.context() as patch:
            patch.setattr('pooch.HTTPDownloader.__call__', full)
            message = f'^`{folder}` cannot be used: No space left on device'
            fails(lambda: call(mirror=mirror), message)
        assert call(mirror=mirror).is_file()


def test_missing_pooch_is_named(cifar10, monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'pooch', None)
    with pytest.raises(
        ImportError, match=r"^downloads need pooch: `pip install 'fedjax_links"
    ):
        cifar10[1]()
