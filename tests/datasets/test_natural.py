"""Data with owners, from the publishers' formats to what a config reads."""

import importlib.util
import re
import sys
import tracemalloc

import numpy as np
import pytest

from fedjax_links import datasets
from fedjax_links.datasets import characters, published_formats, publishers
from tests import refusals
from tests.datasets import owned, published
from tests.datasets.serving import serving

pytest.importorskip('pooch')
needs_hugging_face = pytest.mark.skipif(
    importlib.util.find_spec('datasets') is None, reason='needs datasets'
)


def fetch(name, folder, **options):
    publishers.fetch(name, data_dir=folder / 'data', **options)
    return datasets.published(name, data_dir=folder / 'data')


def names_of(data, clients):
    return [data.client_names[client] for client in clients]


@needs_hugging_face
def test_femnist_has_its_writers(tmp_path, monkeypatch):
    pixels, labels, names = owned.write_femnist(
        tmp_path / 'served', writers=5, examples=7
    )
    published.replace_files(monkeypatch, 'femnist', tmp_path / 'served')
    with serving(tmp_path / 'served') as (mirror, settings):
        data = fetch('femnist', tmp_path, mirror=mirror)
    assert settings['requests'] == ['/train-00000-of-00001.parquet']
    np.testing.assert_array_equal(data.train_features, pixels)
    assert data.train_features.dtype == np.uint8
    np.testing.assert_array_equal(data.train_labels, labels)
    assert names_of(data, data.train_clients) == names
    assert data.test_features is None
    assert data.num_classes == 62
    assert len(data.client_names) == 5


@needs_hugging_face
def test_celeba_is_all_its_splits_and_cut_square(tmp_path):
    rng = np.random.default_rng(0)
    rows = {}
    for split, ids in (('train', [7, 9, 7]), ('valid', [8]), ('test', [3, 3])):
        grey = rng.integers(0, 256, len(ids))
        image = np.zeros((len(ids), 218, 178, 3), np.uint8)
        image[:, 20:198] = grey[:, None, None, None]  # the square in the middle
        smiles = [bool(k % 2) for k in ids]
        path = tmp_path / 'published' / f'{split}-00000-of-00001.parquet'
        owned.write_parquet(path, image, celeb_id=ids, Smiling=smiles, Male=smiles)
        rows[split] = grey, smiles, ids
    data = fetch('celeba', tmp_path, mirror=str(tmp_path / 'published'))
    grey = np.concatenate([part[0] for part in rows.values()])
    smiles = np.concatenate([part[1] for part in rows.values()])
    ids = np.concatenate([part[2] for part in rows.values()])
    assert data.train_features.shape == (6, 84, 84, 3)
    # Scaling mixes the outermost rows with those outside the square.
    inside = data.train_features[:, 2:-2]
    np.testing.assert_array_equal(
        inside, np.broadcast_to(grey[:, None, None, None], inside.shape)
    )
    assert data.train_labels.tolist() == smiles.tolist()
    assert names_of(data, data.train_clients) == [str(k) for k in ids]


@needs_hugging_face
def test_centres_have_tests_of_their_own(tmp_path):
    rng = np.random.default_rng(0)
    for split, centres in (('train', [1, 0, 1]), ('test', [0, 5])):
        image = rng.integers(0, 256, (len(centres), 224, 337, 3), dtype=np.uint8)
        path = tmp_path / 'published' / f'{split}-00000-of-00001.parquet'
        owned.write_parquet(path, image, center=centres, label=centres)
    data = fetch('fed_isic2019', tmp_path, mirror=str(tmp_path / 'published'))
    assert data.train_features.shape == (3, 112, 112, 3)
    assert names_of(data, data.train_clients) == ['1', '0', '1']
    assert names_of(data, data.test_clients) == ['0', '5']
    assert (data.test_labels.tolist(), data.num_classes) == ([0, 5], 8)


def test_shakespeare_is_tokens(tmp_path):
    texts, after, names = owned.write_shakespeare(
        tmp_path / 'published', characters=3, examples=4
    )
    data = fetch('shakespeare', tmp_path, mirror=str(tmp_path / 'published'))
    positions = {
        character: index for index, character in enumerate(characters.VOCABULARY)
    }
    expected = [[positions[character] for character in text] for text in texts]
    np.testing.assert_array_equal(data.train_features, expected)
    assert data.train_features.dtype == np.uint8
    assert data.train_labels.tolist() == [positions[character] for character in after]
    assert names_of(data, data.train_clients) == names
    assert data.num_classes == 81


def test_characters_outside_the_vocabulary_share_a_token():
    tokens = characters.encode(['a\u00e9\u2014\U0001f600\x00', 'abc?}'])
    assert tokens[0].tolist() == [characters.VOCABULARY.index('a'), 80, 80, 80, 80]
    assert [characters.VOCABULARY[token] for token in tokens[1]] == [*'abc?}']
    with pytest.raises(
        ValueError, match="`texts` must have 2 characters each, got 'abc'"
    ):
        characters.encode(['ab', 'abc'])


@pytest.mark.parametrize('after', [['ab', 'cd'], ['a', 3], []])
def test_an_error_of_labels_names_their_own_argument(after):
    with refusals.names('after'):
        characters.encode_next(after)


def test_no_texts_are_refused():
    with refusals.names('texts', 'hold at least one value'):
        characters.encode([])


@needs_hugging_face
def test_a_reader_holds_one_chunk_of_the_file_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(published_formats, '_CHUNK', 16)
    owned.write_femnist(tmp_path, writers=40, examples=30)
    recipe = publishers.RECIPES['femnist']
    recipe.read(tmp_path)
    tracemalloc.start()
    arrays = recipe.read(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert arrays['train_features'].shape == (1200, 28, 28, 1)
    assert peak < 1.5 * arrays['train_features'].nbytes


@needs_hugging_face
def test_files_of_another_format_cost_one_line(tmp_path):
    inputs = tmp_path / 'published'
    inputs.mkdir()
    for name, expected in (
        ('femnist', 'train-*.parquet'),
        ('shakespeare', 'shakespeare.csv'),
    ):
        with refusals.one_line(
            f'^`mirror` must hold {re.escape(expected)}, got {inputs}'
        ):
            fetch(name, tmp_path, mirror=str(inputs))
    path = inputs / 'train-00000-of-00001.parquet'
    owned.write_parquet(path, np.zeros((2, 28, 28), np.uint8), character=[1, 2])
    with refusals.one_line(r'`mirror` must hold files of femnist .*\bwriter_id\b'):
        fetch('femnist', tmp_path, mirror=str(inputs))
    path.write_bytes(b'no parquet')
    with refusals.one_line('`mirror` must hold files of femnist as published'):
        fetch('femnist', tmp_path, mirror=str(inputs))
    (inputs / 'shakespeare.csv').write_text('character_id,x,y\nA,abc,d\nA,ab,d\n')
    with refusals.one_line('`texts` must have 3 characters each'):
        fetch('shakespeare', tmp_path, mirror=str(inputs))
    with refusals.one_line('`mirror` must be an address or a folder, got nowhere'):
        fetch('femnist', tmp_path, mirror='nowhere')


def test_missing_pyarrow_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pyarrow', None)
    with pytest.raises(
        ImportError, match=r"^parquet files need pyarrow: `pip install 'fedjax_l"
    ):
        fetch('femnist', tmp_path, mirror=str(tmp_path))
