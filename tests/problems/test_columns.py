"""Columns of a user's data: what is taken over to the bit, and what is refused with its row."""

import functools
import json
import warnings

import numpy as np
import pytest
from flax import linen as nn

from fedjax_links import datasets, partition, problems
from fedjax_links.datasets import columns
from fedjax_links.problems import adapters, models
from tests import refusals
from tests.problems.leaf_files import leaf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype(np.float32)
Y = RNG.integers(0, 4, 7).astype(np.int32)


@pytest.mark.parametrize('make', [list, np.asarray, 'objects', 'series'])
@pytest.mark.parametrize('none', [None, float('nan')])
def test_missing_owners_are_named_in_columns_of_any_kind(make, none):
    pandas = pytest.importorskip('pandas')
    owners = ['ann', 'bob', none, 'ann'] if none is None else [3.0, 1.0, none, 3.0]
    kinds = {'objects': lambda it: np.array(it, object), 'series': pandas.Series}
    column = kinds.get(make, make)(owners)
    with refusals.names('owners', 'name an owner', 'none for example 2'):
        adapters.from_columns(X[:4], Y[:4], column)
    with refusals.names('train_clients', 'name an owner', 'none for example 2'):
        datasets.Dataset(X[:4], Y[:4], column)


@pytest.mark.parametrize('make', [list, lambda it: np.array(it, object)])
def test_owners_named_by_texts_and_numbers_are_refused(make):
    """As a list of both becomes texts, the owners 3 and '3' would be one."""
    owners = make(['3', 'a', 3])
    for field, build in (
        ('owners', adapters.from_columns),
        ('train_clients', datasets.Dataset),
    ):
        with refusals.names(field, 'texts alone or numbers alone', 'for example 2, 3'):
            build(X[:3], Y[:3], owners)


def test_an_owner_that_is_no_name_is_shown():
    owners = ['a', 'a', 'b', ['c']]
    with refusals.names('owners', "got ['c']"):
        adapters.from_columns(np.zeros((4, 1)), [0] * 4, owners)


def test_numbers_beyond_32_bits_are_refused_whoever_reads_them():
    for value in (1e39, -1e39, -(2**63), 2**31):
        rows = np.array([[0], [value]])
        dtype = 'float32' if isinstance(value, float) else 'int32'
        with refusals.names('features', f'fit into {dtype}', 'in row 1'):
            adapters.from_columns(rows, [0, 1], ['a', 'b'])
        with refusals.names('features', f'fit into {dtype}', 'in row 1'):
            problems.from_flax(rows, [0, 1], [0, 1], module=nn.Dense(2))
    limit = np.finfo(np.float32).max
    assert adapters.from_columns([[float(limit)]], [0], ['a']).features[0, 0] == limit


def test_frames_of_flags_and_numbers_are_numbers():
    pandas = pytest.importorskip('pandas')
    frame = pandas.DataFrame(
        {'age': [1.5, 2.0, 3.0], 'colour': ['r', 'g', 'r'], 'n': [1, 2, 3]}
    )
    words = pandas.get_dummies(frame)
    expected = np.array([[1.5, 1, 0, 1], [2, 2, 1, 0], [3, 3, 0, 1]], np.float32)
    for features in (words, words.to_numpy()):
        result = adapters.from_columns(features, [0, 1, 0], ['a', 'b', 'a']).features
        np.testing.assert_array_equal(result, expected)
        assert result.dtype == np.float32
    nullable = frame[['n']].astype('Int64')
    result = adapters.from_columns(nullable, [0, 1, 0], ['a', 'b', 'a']).features
    np.testing.assert_array_equal(result[:, 0], [1, 2, 3])


@pytest.mark.parametrize(
    'column, words',
    [
        (['r', 'g', 'r'], ["'bad'", 'get_dummies']),
        ([1.0, float('nan'), 2.0], ["'bad'", 'row 1']),
        ([1, None, 2.5], ["'bad'", 'row 1']),
    ],
)
def test_a_column_that_holds_no_numbers_is_named(column, words):
    pandas = pytest.importorskip('pandas')
    frame = pandas.DataFrame({'good': [1.0, 2.0, 3.0], 'bad': column})
    with refusals.names('features', *words):
        adapters.from_columns(frame, [0, 1, 0], ['a', 'b', 'a'])


def numbered_apart(kind, tmp_path):
    """Training examples of ann, bob and eve, and a function that makes test examples.

    The test examples are eve's, zoe's and bob's. The function takes options of the reader ``kind``.
    """
    names = ['ann', 'bob', 'eve']
    others = ['eve', 'zoe', 'bob']
    x = np.zeros((3, 2), np.float32)
    y = [0, 1, 1]
    if kind == 'columns':
        make = functools.partial(adapters.from_columns, x, y)
        return make(names), lambda **options: make(others, **options)
    if kind == 'pandas':
        frame = pytest.importorskip('pandas').DataFrame

        def make(owners, **options):
            table = frame({'a': x[:, 0], 'y': y, 'who': owners})
            return adapters.from_pandas(
                table, client='who', features=['a'], label='y', **options
            )

        return make(names), lambda **options: make(others, **options)
    if kind == 'torch':
        rows = [*zip(x, y, strict=True)]
        make = functools.partial(adapters.from_torch, rows)
        return make(names), lambda **options: make(others, **options)
    if kind == 'hugging face':
        library = pytest.importorskip('datasets')

        def make(owners, **options):
            split = library.Dataset.from_dict({'x': x.tolist(), 'y': y, 'who': owners})
            named = {'client': 'who', 'features': 'x', 'label': 'y'}
            return adapters.from_hugging_face(split, **named, **options)

        return make(names), lambda **options: make(others, **options)
    for file, users in (('train', names), ('test', others)):
        (tmp_path / f'{file}.json').write_text(json.dumps(leaf(x.tolist(), y, users)))
    read = adapters.from_leaf
    return read(tmp_path / 'train.json'), lambda **options: read(
        tmp_path / 'test.json', **options
    )


@pytest.mark.parametrize('kind', ['columns', 'pandas', 'torch', 'hugging face', 'leaf'])
def test_test_examples_have_the_clients_of_training_examples(kind, tmp_path):
    train, make = numbered_apart(kind, tmp_path)
    assert train.names == ('ann', 'bob', 'eve')
    assert make().clients.tolist() == [
        1,
        2,
        0,
    ]  # numbered for themselves: bob, eve, zoe
    test = make(names=train.names)
    assert test.names == ('ann', 'bob', 'eve', 'zoe')
    assert test.clients.tolist() == [2, 3, 1]
    problem = problems.from_flax(*train[:3], module=nn.Dense(2), eval_data=test[:3])
    counts = np.asarray(problem.eval_owned.counts)
    expected = {'ann': 0, 'bob': 1, 'eve': 1, 'zoe': 1}
    assert dict(zip(test.names, counts.tolist(), strict=True)) == expected


def test_names_of_another_kind_are_refused():
    train = adapters.from_columns(X[:2], Y[:2], [1, 2])
    with refusals.names('owners', 'as `names` does (1, ...)', "got '1'"):
        adapters.from_columns(X[:2], Y[:2], ['1', '2'], names=train.names)


@pytest.mark.parametrize('kind', [np.array, iter, dict.fromkeys])
def test_names_of_clients_may_be_any_iterable(kind):
    names = kind(['b', 'a'])
    examples = adapters.from_columns(X[:2], Y[:2], ['a', 'c'], names=names)
    assert examples.names == ('b', 'a', 'c')
    assert examples.clients.tolist() == [1, 2]


def test_a_name_that_stands_twice_is_refused():
    """Else two owners would have one number."""
    with refusals.names('names', 'hold each name once', "got ['a', 'a']"):
        adapters.from_columns(X[:2], Y[:2], ['a', 'b'], names=['a', 'a'])


@pytest.mark.parametrize('mode', ['1', 'L', 'LA', 'P', 'RGBA', 'CMYK'])
def test_images_have_one_channel_only_in_shades_of_grey(mode):
    image = pytest.importorskip('PIL.Image').new(mode, (3, 2))
    channels = 1 if mode == 'L' else 3
    assert columns.stack_features([image]).shape == (1, 2, 3, channels)


@pytest.mark.parametrize('labels', [[0.0, 3.0, 1.0], [True, False, True]])
def test_floats_without_fractions_and_flags_are_classes(labels, tmp_path):
    """As LEAF's generators and FedProx's write them."""
    x = X[:3]
    owners = ['u', 'v', 'u']
    expected = [int(label) for label in labels]
    data = datasets.Dataset(x, labels, owners)
    assert data.train_labels.tolist() == expected
    assert (data.train_labels.dtype, data.num_classes) == (np.int32, max(expected) + 1)
    result = adapters.from_columns(x, labels, owners)
    problem = problems.from_flax(*result[:3], module=nn.Dense(4))
    assert problem.data.labels.dtype == np.int32
    path = tmp_path / 'synthetic.json'
    path.write_text(json.dumps(leaf(x.tolist(), labels, owners)))
    read = datasets.from_leaf(path)
    # The file holds the examples of u, the first and the third, before that of v.
    by_user = [expected[0], expected[2], expected[1]]
    assert read.train_labels.tolist() == by_user
    assert partition.iid(np.array(labels), num_clients=2, seed=0).shape == (3,)


def test_labels_with_fractions_are_no_classes():
    with refusals.names('train_labels', 'integer dtype'):
        datasets.Dataset(X[:3], [0.0, 0.5, 1.0])
    with refusals.names('labels', 'be classes'):
        problems.from_flax(
            X[:3], np.array([0.0, 0.5, 1.0]), [0, 1, 0], module=nn.Dense(4)
        )


def test_examples_to_test_on_must_be_some_of_the_kind_trained_on():
    def build(eval_features, eval_labels=(0, 1), features=X):
        return problems.from_flax(
            features,
            Y,
            [0] * 7,
            module=nn.Dense(4),
            eval_data=(eval_features, eval_labels),
        )

    assert build(X[:2].astype(float)).held_out
    for rows, words in (
        (X[:2, :2], ['shape [3], got [2]']),
        (X[:2, None], ['shape [3], got [1, 3]']),
        (np.zeros((2, 3), np.uint8), ['the kind of `features`, float32', 'uint8']),
        (np.zeros((2, 3), int), ['the kind of `features`, float32', 'int64']),
    ):
        with refusals.names('eval_data', *words):
            build(rows)
    with refusals.names('eval_data', 'hold examples, got none'):
        build(X[:0], Y[:0])
    with refusals.names(
        'test_features', 'the kind of `train_features`, float32', 'uint8'
    ):
        datasets.Dataset(
            X, Y, test_features=np.zeros((2, 3), np.uint8), test_labels=[0, 1]
        )


@pytest.mark.parametrize('number', [2**31 - 1, 4_000_000_000])
def test_numbers_of_a_hash_cost_one_line_and_no_memory(number):
    ids = np.array([0, 1, number])
    x = X[:3]
    y = np.array([0, 1, 1])
    module = nn.Dense(2)
    for field, build in (
        ('clients', lambda: problems.from_flax(x, y, ids, module=module)),
        (
            'eval_data',
            lambda: problems.from_flax(
                x, y, [0] * 3, module=module, eval_data=(x, y, ids)
            ),
        ),
        ('train_labels', lambda: datasets.Dataset(x, ids)),
        ('owners', lambda: partition.divide(ids, seed=0)),
        ('labels', lambda: partition.dirichlet(ids, num_clients=2, seed=0)),
        ('clients', lambda: partition.report(ids, y)),
        ('labels', lambda: partition.report(y, ids)),
    ):
        with refusals.names(field):
            build()


@pytest.mark.parametrize('share', [0.01, 0.02])
def test_a_share_that_holds_out_nothing_is_refused(share):
    owners = np.repeat(np.arange(5), 24)
    with refusals.names(
        'holdout_examples', 'hold out an example', 'at most 24', str(share)
    ):
        partition.divide(owners, holdout_examples=share, seed=0)
    with refusals.names('holdout_clients', 'at least one of 5 clients', str(share)):
        partition.divide(owners, holdout_clients=share, seed=0)
    some = partition.divide(owners, holdout_examples=0.03, seed=0)  # rint(0.72) = 1
    assert np.bincount(some.held_clients).tolist() == [1] * 5


def test_files_with_other_names_list_them(tmp_path):
    path = tmp_path / 'mnist.npz'
    np.savez(path, x_train=X, y_train=Y, train_labels=Y)
    with refusals.names(
        'path', 'the array train_features', 'train_labels, x_train, y_train'
    ):
        datasets.from_npz(path)


def test_data_sets_of_others_say_what_could_provide_them():
    with refusals.names(
        'dataset', "'kmnist'", "'tfds' with `data` {'name': 'kmnist'}", "'npz'"
    ):
        problems.images(dataset='kmnist', num_clients=2, model='softmax')


def test_modules_that_cannot_train_here_are_named():
    nnx = pytest.importorskip('flax.nnx')
    layer = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    for field, build in (
        ('module', lambda: problems.from_flax(X, Y, [0] * 7, module=layer)),
        (
            'model',
            lambda: problems.images(dataset='digits', num_clients=2, model=layer),
        ),
        (
            'model',
            lambda: problems.images(
                dataset='digits', num_clients=2, model=lambda _: layer
            ),
        ),
    ):
        with refusals.names(field, 'flax', 'one of flax.nnx'):
            build()

    class Drops(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(4)(nn.Dropout(0.5, deterministic=False)(x))

    with refusals.names('module', 'flag `train`', 'deterministic=not train'):
        problems.from_flax(X, Y, [0] * 7, module=Drops())

    class DropsByAnotherName(nn.Module):
        @nn.compact
        def __call__(self, x, training):
            return nn.Dense(4)(nn.Dropout(0.5, deterministic=not training)(x))

    for module in (DropsByAnotherName(), nn.Sequential([nn.Dropout(0.5), nn.Dense(4)])):
        with refusals.names('module', 'flag `train`', 'deterministic=not train'):
            problems.from_flax(X, Y, [0] * 7, module=module)
    with refusals.names('module', 'parameters only', 'GroupNorm'):
        layers = nn.Sequential([nn.Dense(4), nn.BatchNorm(use_running_average=False)])
        problems.from_flax(X, Y, [0] * 7, module=layers)


def test_pixels_that_reach_a_module_unscaled_are_warned_of():
    pixels = np.arange(21, dtype=np.uint8).reshape(7, 3)
    with pytest.warns(
        UserWarning, match='uint8 up to 20, .*pixels / 255.0` scales pixels'
    ):
        problems.from_flax(pixels, Y, [0] * 7, module=nn.Dense(4))
    deep = datasets.Dataset(np.full((7, 2, 2, 1), 4095, np.uint16), Y)
    with pytest.warns(
        UserWarning, match='uint16 up to 4095, .*pixels / 65535.0` scales'
    ):
        problems.images(dataset=deep, num_clients=2, partition='iid', model='softmax')
    images = np.resize(np.arange(256.0), (7, 8, 8, 1))
    flat = nn.Sequential([lambda x: x.reshape(len(x), -1), nn.Dense(4)])
    for dtype in (np.float64, np.int32, np.int64, np.uint16):
        pixels_of_255 = images.astype(dtype)
        words = f'{pixels_of_255.dtype} up to 255, which reach .*pixels / 255.0` scales'
        with pytest.warns(UserWarning, match=words):
            problems.from_flax(pixels_of_255, Y, [0] * 7, module=flat)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        problems.from_flax(images / 255, Y, [0] * 7, module=flat)
        scale = {'preprocess': lambda rows: rows / 255.0}
        problems.from_flax(pixels, Y, [0] * 7, module=nn.Dense(4), **scale)
        problems.from_flax(pixels % 2, Y, [0] * 7, module=nn.Dense(4))
        tokens = models.GRU(4, num_tokens=21, hidden=2, embedding=2)
        problems.from_flax(pixels, Y, [0] * 7, module=tokens)


def test_ids_below_0_are_no_embedding():
    tokens = np.array([[0, 1], [-1, 2]])
    with refusals.names('features', 'at least 0', '-1'):
        problems.from_flax(
            tokens, [0, 1], [0, 1], module=models.GRU(2, num_tokens=3, hidden=2)
        )


@pytest.mark.parametrize('field', ['preprocess', 'augment'])
def test_what_is_no_function_of_features_is_named(field):
    features = np.zeros((7, 3), np.float32)
    with refusals.names(field, "'crop'"):
        problems.from_flax(features, Y, [0] * 7, module=nn.Dense(4), **{field: 'crop'})
