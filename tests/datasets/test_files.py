"""Data sets from npz archives."""

import dataclasses
import re
from concurrent import futures

import numpy as np
import pytest

from fedjax_links import datasets, runs
from tests import refusals
from tests.refusals import refuses


@pytest.fixture
def arrays(rng):
    return {
        'train_features': rng.integers(0, 256, (5, 4, 3, 1), dtype=np.uint8),
        'train_labels': np.array([0, 2, 1, 1, 0]),
        'test_features': rng.integers(0, 256, (2, 4, 3, 1), dtype=np.uint8),
        'test_labels': np.array([3, 0], np.uint8),
    }


def assert_raises(message, call):
    with refuses(message):
        call()


@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_npz_pixels_stay_pixels(arrays, save, tmp_path):
    save(tmp_path / 'mine.npz', **arrays, comment='more keys do no harm')
    data = datasets.from_npz(tmp_path / 'mine.npz')
    for part in ('train', 'test'):
        features = getattr(data, f'{part}_features')
        labels = getattr(data, f'{part}_labels')
        assert (features.dtype, labels.dtype) == (np.uint8, np.int32)
        np.testing.assert_array_equal(features, arrays[f'{part}_features'])
        np.testing.assert_array_equal(labels, arrays[f'{part}_labels'])
    assert data.num_classes == 4


@pytest.mark.parametrize('dtype', [np.uint8, np.int8, np.uint16, np.int64])
def test_integer_features_keep_their_type(dtype):
    data = datasets.Dataset(np.ones((2, 3), dtype), [0, 1])
    assert data.train_features.dtype == dtype


@pytest.mark.parametrize('dtype', [np.float16, np.float64])
def test_real_features_become_single(dtype):
    data = datasets.Dataset(np.ones((2, 3), dtype), [0, 1])
    assert data.train_features.dtype == np.float32


def test_npz_real_numbers_stay(arrays, tmp_path):
    arrays |= {k: -3.5 * v for k, v in arrays.items() if k.endswith('features')}
    np.savez(tmp_path / 'mine.npz', **arrays, num_classes=7)
    data = datasets.from_npz(tmp_path / 'mine.npz')
    np.testing.assert_array_equal(data.train_features, arrays['train_features'])
    assert data.num_classes == 7


def test_a_saved_data_set_comes_back_bit_for_bit(tmp_path):
    samples = datasets.synthetic_images(
        num_train=12, num_test=3, shape=(5, 6, 3), num_classes=4
    )
    owners = {'train_clients': ['b', 'c', 'b'] * 4, 'test_clients': ['c', 'a', 'b']}
    # Also over an older file.
    for data in (
        samples,
        dataclasses.replace(samples, **owners),
    ):
        datasets.save_npz(data, tmp_path / 'saved.npz')
        again = datasets.from_npz(tmp_path / 'saved.npz')
        for name, value in vars(data).items():
            np.testing.assert_array_equal(value, getattr(again, name))
    assert [file.name for file in tmp_path.iterdir()] == ['saved.npz']


def test_threads_may_save_to_one_file(tmp_path):
    def save(value):
        features = np.full((2000, 300), value, np.float32)
        data = datasets.Dataset(features, np.zeros(2000, int))
        datasets.save_npz(data, tmp_path / 'saved.npz')

    with futures.ThreadPoolExecutor(8) as executor:
        list(executor.map(save, range(16)))
    assert [file.name for file in tmp_path.iterdir()] == ['saved.npz']
    assert np.ptp(datasets.from_npz(tmp_path / 'saved.npz').train_features) == 0


def test_owners_are_numbered_those_with_test_examples_alone_last():
    data = datasets.Dataset(
        np.zeros((4, 1)),
        np.zeros(4, int),
        [17, 3, 17, 5],
        test_features=np.zeros((3, 1)),
        test_labels=np.zeros(3, int),
        test_clients=[4, 5, 1],
    )
    np.testing.assert_array_equal(data.train_clients, [2, 0, 2, 1])
    np.testing.assert_array_equal(data.test_clients, [4, 1, 3])
    assert data.client_names == ('3', '5', '17', '1', '4')


@pytest.mark.parametrize('names', [['5', '7'], (5, 7), np.array([5, 7])])
def test_names_of_owners_become_texts(names):
    features = np.zeros((2, 1))
    data = datasets.Dataset(features, [0, 1], [1, 0], client_names=names)
    assert data.client_names == ('5', '7')


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'train_clients': [0]},
            '`train_clients` must have one owner per row of `train_features`',
        ),
        (
            {'test_clients': [0]},
            '`test_clients` must have one owner per row of `test_features`',
        ),
        (
            {'train_clients': [0, 2], 'client_names': ['a', 'b']},
            'number the 2 `client_names` from',
        ),
        (
            {'train_clients': [0, 1], 'client_names': 'ab'},
            "`client_names` must be a list of names, got 'ab'.",
        ),
        (
            {'train_clients': [0, 1], 'client_names': None},
            '`client_names` must be a list of names, got None.',
        ),
        (
            {'train_labels': np.zeros((2, 0), int)},
            '`train_labels` must not be empty, got shape [2, 0].',
        ),
        (
            {'train_labels': np.full((2, 3), -1)},
            '`train_labels` must hold a class, or else `num_classes` be given, got only '
            'negative ones.',
        ),
        (
            {'train_labels': np.full((2, 3), 0.5)},
            '`train_labels` must have an integer dtype, got floa',
        ),
        (
            {'train_labels': np.array([[0, 1], [0, 2**40]])},
            '`train_labels` must fit into int32, got 1099511627776 in row 1.',
        ),
        (
            {'train_labels': np.array([[2**31], [0]], np.uint32)},
            '`train_labels` must fit into int32, got 2147483648 in row 0.',
        ),
        (
            {'train_clients': [[1, 2], [3]]},
            '`train_clients` must have one shape, got [[1, 2], [3]].',
        ),
        (
            {'num_classes': np.zeros(2, int)},
            '`num_classes` must be a Python integer, got array([0, 0]).',
        ),
        (
            {'train_features': [['a'], ['b']]},
            '`train_features` must hold numbers, as np.unique',
        ),
    ],
)
def test_data_that_do_not_fit_are_refused(changes, message):
    plain = {'train_features': np.zeros((2, 1)), 'train_labels': np.zeros(2, int)}
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.Dataset(**plain | changes)


@pytest.mark.parametrize(
    'change, message',
    [
        (
            {'train_labels': None},
            '`path` must hold the array train_labels, got only: test_features, test_labels, '
            'train_features.',
        ),
        (
            {'test_labels': None},
            '`test_labels` must be given with `test_features`, got None.',
        ),
        (
            {'test_features': None},
            '`test_features` must be given with `test_labels`, got None.',
        ),
        (
            {'train_labels': np.zeros(4, int)},
            '`train_labels` must have one entry per row of `train_features` (5), got 4.',
        ),
        (
            {'test_features': np.zeros((2, 4, 4, 1))},
            '`test_features` must have examples of shape [4, 3, 1], got [4, 4, 1].',
        ),
        (
            {'test_features': np.zeros(2)},
            '`test_features` must have shape [examples, ...], got [2].',
        ),
        (
            {'train_features': np.zeros((0, 4))},
            '`train_features` must have shape [examples, ...], got [0, 4].',
        ),
        (
            {'train_features': np.zeros((5, 4, 3, 1), bool)},
            '`train_features` must be numbers, got bool.',
        ),
        (
            {'test_features': np.full((2, 4, 3, 1), np.nan)},
            '`test_features` must be finite, got not so in row 0.',
        ),
        (
            {'test_labels': np.array([0.5, 1.0])},
            '`test_labels` must have an integer dtype, got float64.',
        ),
        (
            {'test_labels': np.array([0, -1])},
            '`test_labels` must be at least 0, got -1 at 1.',
        ),
        (
            {'num_classes': 3},
            '`test_labels` must lie below num_classes (3), got 3 at 0.',
        ),
        (
            {'num_classes': [5, 5]},
            '`num_classes` must be a Python integer, got [5, 5].',
        ),
    ],
)
def test_npz_arrays_that_do_not_fit_are_refused(arrays, change, message, tmp_path):
    changed = {
        key: value for key, value in (arrays | change).items() if value is not None
    }
    np.savez(tmp_path / 'mine.npz', **changed)
    file = tmp_path / 'mine.npz'
    assert_raises(f'{message[:-1]} in {file}.', lambda: datasets.from_npz(file))


def test_saving_needs_a_folder(tmp_path):
    data = datasets.synthetic_images(
        num_train=2, num_test=1, shape=(2, 2, 1), num_classes=2
    )
    file = tmp_path / 'none' / 'saved.npz'
    with refuses(f'`{file}` cannot be used: No such file or directory.'):
        datasets.save_npz(data, file)
    with refuses(f'`{tmp_path}` cannot be used: Is a directory.'):
        datasets.save_npz(data, tmp_path)


def test_npz_files_that_are_none_are_refused(tmp_path):
    file = tmp_path / 'mine.npz'
    assert_raises(
        f'`path` must name an npz file, got {file}.', lambda: datasets.from_npz(file)
    )
    for content in (b'PK not at all', b'junk', b''):
        file.write_bytes(content)
        assert_raises(
            '`path` must name an intact npz file of numbers, got '
            f'{file}, which is no npz.',
            lambda: datasets.from_npz(file),
        )
    text = rf'^`path` must name an intact npz file of numbers \(.*\), got {file}\.$'
    np.savez(file, train_labels=[None] * 5)
    with pytest.raises(ValueError, match=text.replace('.*', '.*Object arrays.*')):
        datasets.from_npz(file)


def test_a_path_and_a_data_set_are_not_confused(arrays, tmp_path):
    data = datasets.Dataset(**arrays)
    with refusals.names('dataset', 'Dataset'):
        datasets.save_npz(str(tmp_path / 'a.npz'), data)
    with refusals.names('path', 'a path', '3'):
        datasets.save_npz(data, 3)
    with refusals.names('path', 'a path'):
        datasets.from_npz(data)
    with refusals.names('path', 'a path'):
        datasets.from_leaf(3)
    with refusals.names('data_dir', 'a path'):
        datasets.published('mnist', data_dir=3)
    with refusals.names('folder', 'a path', 'None'):
        runs.read(None)


@pytest.mark.parametrize('name, words', [('mnits', "'mnist'"), (3, '3')])
def test_an_unknown_published_name_is_refused(name, words):
    with refusals.names('name', words):
        datasets.published(name)


def test_complex_features_are_refused(arrays):
    """No network takes them."""
    for part in ('train', 'test'):
        arrays[f'{part}_features'] = arrays[f'{part}_features'] * 1j
    with refusals.names('train_features', 'real', 'complex128'):
        datasets.Dataset(**arrays)


def test_a_shape_is_three_numbers():
    with refusals.names('shape', '28'):
        datasets.synthetic_images(shape=28)


def test_data_sets_can_be_imported_from_problems():
    from fedjax_links import datasets as package
    from fedjax_links.problems import datasets
    from fedjax_links.problems.datasets import Dataset, characters

    assert datasets is package
    assert Dataset is package.Dataset
    assert characters.NUM_TOKENS == package.characters.NUM_TOKENS
