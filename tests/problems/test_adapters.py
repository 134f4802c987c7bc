"""Data of other libraries, against the same arrays by hand."""

import io
import json
import tracemalloc

import numpy as np
import pytest
from flax import linen as nn

from fedjax_links import problems
from fedjax_links.problems import adapters
from tests import refusals
from tests.problems.leaf_files import leaf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype(np.float32)
Y = RNG.integers(0, 4, 7).astype(np.int32)
OWNERS = ['eve', 'bob', 'eve', 'ann', 'bob', 'bob', 'ann']
NUMBERS = [2, 1, 2, 0, 1, 1, 0]
NAMES = ('ann', 'bob', 'eve')


def assert_columns(columns):
    """Asserts that columns hold the data above, to the bit, and make a problem."""
    np.testing.assert_array_equal(columns.features, X)
    np.testing.assert_array_equal(columns.labels, Y)
    assert (columns.features.dtype, columns.labels.dtype) == (np.float32, np.int32)
    assert columns.clients.tolist() == NUMBERS
    assert columns.names == NAMES
    problem = problems.from_flax(*columns[:3], module=nn.Dense(4))
    assert problem.counts.tolist() == [2, 3, 2]


def test_leaf_is_read_user_by_user(tmp_path):
    (tmp_path / 'a.json').write_text(
        json.dumps(leaf(X[:4].tolist(), Y[:4].tolist(), OWNERS[:4]))
    )
    (tmp_path / 'b.json').write_text(
        json.dumps(leaf(X[4:].tolist(), Y[4:].tolist(), OWNERS[4:]))
    )
    result = adapters.from_leaf(tmp_path)
    order = [0, 2, 1, 3, 4, 5, 6]  # of the first file: eve's, bob's, ann's
    np.testing.assert_array_equal(result.features, X[order])
    np.testing.assert_array_equal(result.labels, Y[order])
    assert result.names == NAMES
    assert result.clients.tolist() == [NUMBERS[position] for position in order]


def test_no_more_than_one_file_of_leaf_is_held_in_lists(tmp_path, rng):
    samples = rng.random((120, 1000))
    for part in range(6):
        rows = samples[part::6]
        names = [f'user {n % 7}' for n in range(20)]
        (tmp_path / f'{part}.json').write_text(
            json.dumps(leaf(rows.tolist(), [part] * 20, names))
        )
    tracemalloc.start()
    result = adapters.from_leaf(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.features.shape == (120, 1000)
    assert np.bincount(result.clients).tolist() == [18] * 6 + [12]
    np.testing.assert_array_equal(
        np.unique(result.features), np.unique(samples.astype(np.float32))
    )
    assert peak < 5 * result.features.nbytes  # the lists alone take eight times as much


def test_files_of_leaf_with_rows_of_other_shapes_are_refused(tmp_path):
    for name, row in (('a', [1, 2]), ('b', [1, 2, 3])):
        (tmp_path / f'{name}.json').write_text(json.dumps(leaf([row], [0], ['u'])))
    with pytest.raises(
        ValueError, match=r'`features` must have one shape, got \(2,\) and \(3,\)'
    ):
        adapters.from_leaf(tmp_path)


def test_leaf_of_texts(tmp_path):
    path = tmp_path / 'texts.json'
    path.write_text(json.dumps(leaf(['abc', 'bcd'], ['d', 'a'], ['u', 'v'])))
    result = adapters.from_leaf(
        path,
        features=lambda text: [ord(c) - 97 for c in text],
        label=lambda c: ord(c) - 97,
    )
    assert result.features.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert result.labels.tolist() == [3, 0]
    with pytest.raises(ValueError, match=r'`features` must hold numbers, .*, got <U3'):
        adapters.from_leaf(path)


@pytest.mark.parametrize(
    'content, message',
    [
        ('{', 'JSONDecodeError'),
        ('{"users": []}', "KeyError: 'user_data'"),
        ('{"user_data": {"u": {"x": [1], "y": []}}}', 'user u has 1 x, 0 y'),
        ('{"user_data": {}}', '`path` must hold examples'),
        (
            '{"user_data": {"u": {"x": [1], "y": ["a"]}}}',
            '`label` must hold numbers, as np.unique(',
        ),
        (
            '{"user_data": {"u": {"x": [[1], [1, 2]], "y": [0, 1]}}}',
            '`features` must have one sha',
        ),
        (
            '{"user_data": {"u": {"x": [1], "y": [0]}, "v": {"x": [1], "y": [[0]]}}}',
            '`label` must have one shape',
        ),
    ],
)
def test_what_is_not_leaf_is_named(content, message, tmp_path):
    path = tmp_path / 'data.json'
    path.write_text(content)
    with pytest.raises(ValueError) as raised:  # noqa: PT011  compared below
        adapters.from_leaf(path)
    assert message in str(raised.value)


def test_a_frame_with_a_column_of_clients():
    pandas = pytest.importorskip('pandas')
    frame = pandas.DataFrame(
        {'who': OWNERS, 'a': X[:, 0], 'b': X[:, 1], 'c': X[:, 2], 'y': Y}
    )
    assert_columns(
        adapters.from_pandas(frame, client='who', features=['a', 'b', 'c'], label='y')
    )
    full = pandas.DataFrame({'who': OWNERS, 'x': list(X), 'y': Y})
    assert_columns(adapters.from_pandas(full, client='who', features='x', label='y'))
    with pytest.raises(ValueError, match="`client` has no 'whom'; did you mean 'who'"):
        adapters.from_pandas(frame, client='whom', features='a', label='y')
    numbered = frame.set_axis([0, 1, 2, 3, 4], axis='columns')
    assert_columns(
        adapters.from_pandas(numbered, client=0, features=[1, 2, 3], label=4)
    )
    with pytest.raises(
        ValueError, match=r'^`label` has no 5; valid names: 0, 1, 2, 3, 4\.$'
    ):
        adapters.from_pandas(numbered, client=0, features=[1, 2, 3], label=5)
    levels = frame.set_axis([('a', name) for name in frame.columns], axis='columns')
    levels = adapters.from_pandas(
        levels,
        client=('a', 'who'),
        features=[('a', 'b'), ('a', 'c')],
        label=[('a', 'y')],
    )
    np.testing.assert_array_equal(levels.features, X[:, 1:])
    np.testing.assert_array_equal(levels.labels, Y[:, None])
    frame.loc[3, 'who'] = None
    with pytest.raises(
        ValueError, match='`client` must name an owner, got none for example 3'
    ):
        adapters.from_pandas(frame, client='who', features=['a'], label='y')


def test_a_split_with_a_column_of_clients():
    library = pytest.importorskip('datasets')
    rows = {'who': OWNERS, 'x': X.tolist(), 'y': Y.tolist(), 'text': ['t'] * 7}
    split = library.Dataset.from_dict(rows)
    assert_columns(
        adapters.from_hugging_face(split, client='who', features='x', label='y')
    )
    with pytest.raises(ValueError, match=r'`features` must hold numbers, .* got <U1'):
        adapters.from_hugging_face(split, client='who', features='text', label='y')
    with pytest.raises(ValueError, match="`label` has no 'z'"):
        adapters.from_hugging_face(split, client='who', features='x', label='z')


@pytest.mark.parametrize('channels', [1, 3])
def test_a_split_of_images(channels):
    library = pytest.importorskip('datasets')
    pixels = RNG.integers(0, 256, (7, 4, 5, channels), dtype=np.uint8)
    rows = {'who': OWNERS, 'image': list(np.squeeze(pixels)), 'y': Y.tolist()}
    features = {'who': library.Value('string'), 'image': library.Image()}
    features = library.Features(features | {'y': library.ClassLabel(num_classes=4)})
    split = library.Dataset.from_dict(rows, features=features)
    for result in (
        adapters.from_hugging_face(split, client='who', features='image', label='y'),
        adapters.from_columns(split['image'], split['y'], split['who']),
    ):
        np.testing.assert_array_equal(result.features, pixels)
        assert (result.features.dtype, result.names) == (np.uint8, NAMES)
        np.testing.assert_array_equal(result.labels, Y)


def test_torch_data_sets():
    torch = pytest.importorskip('torch')
    data = torch.utils.data
    full = data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    assert_columns(adapters.from_torch(full, OWNERS))
    positions = {
        name: [i for i, owner in enumerate(OWNERS) if owner == name] for name in NAMES
    }
    parts = {name: data.Subset(full, indices) for name, indices in positions.items()}
    result = adapters.from_torch(parts)
    np.testing.assert_array_equal(
        result.features, X[[i for indices in positions.values() for i in indices]]
    )
    assert result.clients.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert adapters.from_torch(list(parts.values())).names == (0, 1, 2)


class Pairs(list):
    """A map-style data set."""


@pytest.mark.parametrize(
    'dataset, clients, message',
    [
        (
            Pairs([(1.0, 2)]),
            [0, 1],
            r'`dataset.features` must have one row per entry of `clients` \(2\), got 1\.',
        ),
        (
            iter([]),
            [0],
            '`dataset` must have a length and items by number, .* got list_iterator',
        ),
        (
            Pairs([1.0]),
            [0],
            r'`dataset` must have items that are pairs \(features, label\)',
        ),
        (
            Pairs([([1.0], 2), ([1.0, 2.0], 1)]),
            [0, 1],
            r'must have one shape, got \(1,\) and \(2',
        ),
        (
            {'a': Pairs([(1.0, 2)]), 'b': Pairs()},
            None,
            'give every client an example, got none fo',
        ),
        (object(), None, '`clients` must be given for a single data set'),
        (
            Pairs([(1, 2**40)]),
            [0],
            '`dataset.label` must fit into int32, got 1099511627776.',
        ),
    ],
)
def test_data_sets_that_do_not_fit_are_named(dataset, clients, message):
    with pytest.raises(ValueError, match=message):
        adapters.from_torch(dataset, clients)


def test_a_map_style_data_set_needs_no_torch():
    assert_columns(adapters.from_torch(Pairs(zip(X, Y, strict=True)), OWNERS))


def test_a_dictionary_of_splits_is_refused():
    splits = pytest.importorskip('datasets').DatasetDict(train=_split(), test=_split())
    with pytest.raises(
        ValueError, match=r"^`features` has no 'x'; valid names: test, train"
    ):
        adapters.from_hugging_face(splits, client='who', features='x', label='y')


def _split():
    return pytest.importorskip('datasets').Dataset.from_dict(
        {'who': [0], 'x': [1.0], 'y': [0]}
    )


def test_columns_by_themselves():
    assert_columns(adapters.from_columns(X.astype(float), Y.tolist(), OWNERS))
    for owners, message in (
        (3, 'have one entry per'),
        ([0], r'have one row per entry of `owners` \(1\), got 7'),
    ):
        with pytest.raises(ValueError, match=f'^`(owners|features)` must {message}'):
            adapters.from_columns(X, Y, owners)


@pytest.mark.parametrize('make', ['array', 'list', 'frame', 'pictures', 'bytes'])
def test_columns_of_any_kind(make):
    pandas = pytest.importorskip('pandas')
    image = pytest.importorskip('PIL.Image')
    grey = RNG.integers(0, 256, (7, 4, 5), dtype=np.uint8)
    owners = OWNERS
    expected = grey[..., None]
    if make == 'array':
        features = grey[..., None]
        labels = Y.astype(np.int64)
    elif make == 'list':
        features = list(grey[..., None])
        labels = Y.tolist()
    elif make == 'frame':
        features = pandas.DataFrame(grey.reshape(7, 20))
        labels = pandas.Series(Y, index=range(9, 16))
        owners = pandas.Series(OWNERS)
        expected = grey.reshape(7, 20)
    else:
        features = [image.fromarray(pixels) for pixels in grey]
        labels = Y
        if make == 'bytes':  # as Hugging Face stores them
            streams = [io.BytesIO() for _ in features]
            for picture, stream in zip(features, streams, strict=True):
                picture.save(stream, 'PNG')
            features = [
                {'bytes': stream.getvalue(), 'path': None} for stream in streams
            ]
    result = adapters.from_columns(features, labels, owners)
    np.testing.assert_array_equal(result.features, expected)
    np.testing.assert_array_equal(result.labels, Y)
    assert (result.features.dtype, result.labels.dtype) == (np.uint8, np.int32)
    assert (result.clients.tolist(), result.names) == (NUMBERS, NAMES)


def test_images_of_several_kinds_are_shades_of_grey_or_colours():
    image = pytest.importorskip('PIL.Image')
    pixels = RNG.integers(0, 256, (4, 5, 4), dtype=np.uint8)
    clear = image.fromarray(pixels)
    result = adapters.from_columns([clear, clear.convert('RGB')], [0, 1], [0, 1])
    np.testing.assert_array_equal(result.features, np.stack([pixels[..., :3]] * 2))
    few = clear.convert('RGB').quantize(4)  # of a palette
    named = adapters.from_columns([few], [0], [0]).features
    np.testing.assert_array_equal(named[0], np.asarray(few.convert('RGB')))
    with pytest.raises(ValueError, match=r'`features` must have one shape, got'):
        adapters.from_columns([clear, clear.resize((3, 3))], [0, 1], [0, 1])


def test_a_label_by_itself_is_a_vector_and_in_a_list_a_column():
    pandas = pytest.importorskip('pandas')
    frame = pandas.DataFrame(
        {'who': OWNERS, 'a': X[:, 0], 'y': X @ np.float32([1, 2, 3])}
    )
    for label in ('y', ['y']):
        result = adapters.from_pandas(frame, client='who', features=['a'], label=label)
        problem = problems.from_flax(
            *result[:3], module=nn.Dense(1), loss='squared_error'
        )
        assert problem.data.labels.shape == (7, 1)
    assert adapters.from_columns(
        frame[['a']], frame['y'], frame['who']
    ).labels.shape == (7,)


@pytest.mark.parametrize('none', [None, float('nan'), 'NA'])
def test_owners_that_are_missing_are_named(none):
    pandas = pytest.importorskip('pandas')
    owners = ['nan', 'None', pandas.NA if none == 'NA' else none]
    owners = pandas.Series(owners, dtype=object)
    with pytest.raises(
        ValueError, match='`owners` must name an owner, got none for example 2'
    ):
        adapters.from_columns(X[:3], Y[:3], owners)
    assert adapters.from_columns(X[:2], Y[:2], owners[:2]).names == ('None', 'nan')


def test_errors_name_the_label_as_a_caller_of_pandas_does():
    pandas = pytest.importorskip('pandas')
    frame = pandas.DataFrame({'who': [0, 1], 'x': [1.0, 2.0], 'y': ['a', 'b']})
    with refusals.names('label', 'hold numbers'):
        adapters.from_pandas(frame, client='who', features='x', label='y')


WRONG_KINDS = {
    'frame': lambda: adapters.from_pandas(3, client='c', features='f', label='l'),
    'dataset': lambda: adapters.from_hugging_face(
        [3], client='c', features='f', label='l'
    ),
    'path': lambda: adapters.from_leaf(3),
    'features': lambda: adapters.from_columns(3, Y, OWNERS),
    'labels': lambda: adapters.from_columns(X, None, OWNERS),
    'owners': lambda: adapters.from_columns(X, Y, 3),
    'clients': lambda: adapters.from_torch(Pairs([(1.0, 2)]), 3),
    'names': lambda: adapters.from_columns(X, Y, OWNERS, names=3),
}


@pytest.mark.parametrize('field', WRONG_KINDS)
def test_what_is_no_data_set_of_a_kind_is_refused(field):
    with refusals.names(field):
        WRONG_KINDS[field]()


def test_numbers_in_place_of_data_sets_are_refused():
    for dataset, clients in ((3, [0]), ([3, 4], None), ({'ann': None}, None)):
        with refusals.names('dataset'):
            adapters.from_torch(dataset, clients)
