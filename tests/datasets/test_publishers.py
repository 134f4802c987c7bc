"""Fetching keeps the older file on failure, and names lead to recipes and loaders."""

import numpy as np
import pytest

from fedjax_links import datasets, problems
from fedjax_links.datasets import npz, publishers
from fedjax_links.datasets.publishers import RECIPES
from tests import refusals
from tests.datasets import published

pytest.importorskip('pooch')


def test_a_full_disk_leaves_the_older_file(tmp_path, monkeypatch):
    folder = tmp_path / 'downloads' / 'mnist'
    published.write_mnist(folder)
    published.replace_files(monkeypatch, 'mnist', folder)
    file = publishers.fetch('mnist', data_dir=tmp_path)
    before = file.read_bytes()

    def full(stream, **arrays):
        stream.write(b'half of it')
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(np, 'savez', full)
    with pytest.raises(ValueError, match=r'cannot be used: No space left on device\.$'):
        publishers.fetch('mnist', data_dir=tmp_path)
    assert file.read_bytes() == before
    assert sorted(child.name for child in tmp_path.iterdir()) == [
        'downloads',
        'mnist.npz',
    ]


def test_damaged_downloads_without_a_checksum_are_named(tmp_path):
    name = 'fed_isic2019'
    folder = tmp_path / 'downloads' / name
    folder.mkdir(parents=True)
    for file in RECIPES[name].files:
        assert not file.digest
        (folder / file.name).write_bytes(b'cut off')
    with refusals.names('downloads', f'hold files of {name} as published', str(folder)):
        publishers.fetch(name, data_dir=tmp_path)


def test_a_mirror_may_be_a_path_and_is_never_empty(tmp_path):
    published.write_mnist(tmp_path / 'published')
    file = publishers.fetch('mnist', data_dir=tmp_path, mirror=tmp_path / 'published')
    assert npz.source_of(file) == str(tmp_path / 'published')
    for mirror in ('', 5):
        with refusals.names('mirror', 'be a path', repr(mirror)):
            publishers.fetch('mnist', data_dir=tmp_path, mirror=mirror)


def test_names_of_other_libraries_lead_to_ours():
    for name, ours in (('svhn_cropped', 'svhn'), ('emnist/balanced', 'emnist')):
        with pytest.raises(ValueError, match=f"has no '{name}'; did you mean '{ours}'"):
            problems.images(dataset=name, num_clients=2, model='softmax')
        with pytest.raises(ValueError, match=f"has no '{name}'; did you mean '{ours}'"):
            publishers.fetch(name)


def test_every_recipe_has_its_loader(tmp_path, monkeypatch):
    """The loader of each name looks for the file that is written for it, and names the command."""
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    for name in RECIPES:
        command = f'python -m fedjax_links data fetch {name}`'
        with pytest.raises(ValueError, match=command) as caught:
            datasets.published(name)
        assert f'{tmp_path}/{name}.npz' in str(caught.value)
