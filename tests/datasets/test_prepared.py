"""Data that others prepared: LEAF's JSON as a data set by name, and TensorFlow Datasets."""

import json
import socket
import subprocess
import sys

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import datasets, experiment, problems
from fedjax_links.datasets import characters
from fedjax_links.datasets import prepared as reader
from tests import refusals
from tests.datasets import owned, prepared_data
from tests.problems.leaf_files import leaf_of


def write_leaf(path, users):
    """Writes a file of LEAF's, of ``{user: (x, y)}``."""
    data = {user: {'x': x, 'y': y} for user, (x, y) in users.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(leaf_of(data)))


def test_femnist_of_leaf_is_images(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 784))
    rows = (pixels / 255).round(6).tolist()  # as LEAF writes them
    write_leaf(
        tmp_path / 'train' / 'a.json',
        {'f1': (rows[:2], [61, 3]), 'f0': (rows[2:3], [5])},
    )
    write_leaf(tmp_path / 'train' / 'b.json', {'f2': (rows[3:4], [7])})
    write_leaf(tmp_path / 'test' / 'a.json', {'f0': (rows[4:], [1])})
    data = datasets.from_leaf(
        tmp_path / 'train', test=tmp_path / 'test', encode='pixels'
    )
    assert data.train_features.dtype == np.uint8
    np.testing.assert_array_equal(data.train_features, pixels[:4].reshape(4, 28, 28, 1))
    np.testing.assert_array_equal(data.test_features, pixels[4:].reshape(1, 28, 28, 1))
    assert data.train_labels.tolist() == [61, 3, 5, 7]
    assert data.test_labels.tolist() == [1]
    assert [data.client_names[k] for k in data.train_clients] == [
        'f1',
        'f1',
        'f0',
        'f2',
    ]
    assert [data.client_names[k] for k in data.test_clients] == ['f0']
    plain = datasets.from_leaf(tmp_path / 'train')
    np.testing.assert_allclose(plain.train_features, pixels[:4] / 255, atol=1e-6)


@pytest.mark.slow
def test_shakespeare_of_leaf_from_a_config(tmp_path):
    path = tmp_path / 'published'
    texts, after, names = owned.write_shakespeare(path, characters=4, examples=6)
    users = {}
    for text, character, name in zip(texts, after, names, strict=True):
        x, y = users.setdefault(name, ([], []))
        x.append(text)
        y.append(character)
    write_leaf(tmp_path / 'train' / 'all.json', users)
    options = {'path': str(tmp_path / 'train'), 'encode': 'characters'}
    config = {
        'title': 'leaf',
        'problem': {
            'name': 'text',
            'dataset': 'leaf',
            'data': options,
            'model': {'name': 'gru', 'hidden': 4},
            'holdout_clients': 1,
        },
        'links': {'name': 'bernoulli', 'probs': 0.5},
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedavg': {}},
        'num_rounds': 2,
        'eval_every': 2,
        'num_seeds': 1,
    }
    assert 'problem  3 clients' in experiment.build(config).describe()
    full = fl.problems.text(
        dataset='leaf', data=options, model={'name': 'gru', 'hidden': 4}
    )
    order = np.argsort(names, kind='stable')
    np.testing.assert_array_equal(
        full.data.features, characters.encode([texts[index] for index in order])
    )
    expected = [characters.VOCABULARY.index(after[index]) for index in order]
    assert full.data.labels.tolist() == expected


def test_mistakes_cost_one_line(tmp_path):
    write_leaf(tmp_path / 'a.json', {'u': ([[0.5] * 5], [0])})
    with refusals.one_line("`encode` has no 'pixel'; did you mean 'pixels'"):
        datasets.from_leaf(tmp_path, encode='pixel')
    with refusals.one_line(
        r"entries of 'x' that must be squares of numbers in .* got \[5\] from 0.5 to"
    ):
        datasets.from_leaf(tmp_path, encode='pixels')
    write_leaf(tmp_path / 'a.json', {'u': ([[]], [0])})
    with pytest.raises(ValueError, match=r"entries of 'x' that must .* got no numbers"):
        datasets.from_leaf(tmp_path, encode='pixels')
    settings = {
        'dataset': 'leaf',
        'data': {'path': str(tmp_path / 'none')},
        'model': 'softmax',
    }
    with refusals.one_line(r"^`data.path` must name JSON of LEAF's form"):
        problems.images(**settings, partition='natural')
    (tmp_path / 'a.json').write_text('[' * 10**5)
    with refusals.one_line(r"^`path` must name JSON of LEAF's form"):
        datasets.from_leaf(tmp_path)


@pytest.mark.parametrize(
    'users, fault',
    [
        (
            {'u': ([[0.5], [float('nan')]], [0, 1])},
            "entries of 'x' that must be finite",
        ),
        (
            {'u': ([[0.5], [0.5, 1.0]], [0, 1])},
            "entries of 'x' that must have one shape",
        ),
        (
            {'u': ([[0.5]], [0]), 'v': ([[1.0, 0.0]], [1])},
            "of 'x' that must have one shape",
        ),
        ({'u': ([[0.5]], ['a'])}, "entries of 'y' that must hold numbers"),
        ({'u': ([[{}]], [0])}, "entries of 'x' that must hold numbers"),
    ],
)
def test_entries_of_leaf_are_named_by_file_and_user(users, fault, tmp_path):
    write_leaf(tmp_path / 'good.json', {'w': ([[0.5]], [1])})
    write_leaf(tmp_path / 'bad' / 'all.json', users)
    for options, argument in (
        ({'path': tmp_path / 'bad'}, 'path'),
        ({'path': tmp_path / 'good.json', 'test': tmp_path / 'bad'}, 'test'),
    ):
        with refusals.one_line(rf'^`{argument}` must lead to .*{fault}.*/bad'):
            datasets.from_leaf(**options)


@pytest.mark.parametrize(
    'users, fault',
    [
        ({'u': ([1, 2], ['a', 'b'])}, "'x' that must be texts, got 1"),
        ({'u': ([['a', 'b']], ['c'])}, r"'x' that must be texts, got \['a', 'b'\]"),
        ({'u': (['ab'], [''])}, "'y' that must be single characters, got ''"),
        ({'u': (['ab'], ['cd'])}, "'y' that must be single characters, got 'cd'"),
        ({'u': (['ab', 'a'], ['c', 'd'])}, "'x' that must have 2 characters each"),
    ],
)
def test_entries_that_are_no_characters_are_named(users, fault, tmp_path):
    write_leaf(tmp_path / 'all.json', users)
    with refusals.one_line(rf"^`path` must lead to .*{fault}.* of user 'u'"):
        datasets.from_leaf(tmp_path, encode='characters')


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Any attempt to reach a host fails the test."""

    def refuse(*args, **kwargs):
        pytest.fail(f'network access: {args}')

    monkeypatch.setattr(socket, 'getaddrinfo', refuse)
    monkeypatch.setattr(socket.socket, 'connect', refuse)


@pytest.fixture
def prepared(tmp_path):
    """Writes prepared data; skips where TensorFlow Datasets is not installed."""
    pytest.importorskip('tensorflow_datasets')

    def write(name='mnist', shape=(28, 28, 1), num_classes=10, **options):
        return prepared_data.write_array_record(
            tmp_path, name, shape, num_classes, **options
        )

    return write


def sorted_pairs(features, labels):
    """Examples as comparable rows, so that the order of the files does not matter."""
    return sorted(
        (row.tobytes(), int(label)) for row, label in zip(features, labels, strict=True)
    )


def assert_holds(data, parts, shape, num_classes):
    for split, features, labels in (
        ('train', data.train_features, data.train_labels),
        ('test', data.test_features, data.test_labels),
    ):
        images, classes = parts[split]
        assert features.shape == (len(images), *shape)
        assert (features.dtype, labels.dtype) == (np.uint8, np.int32)
        assert sorted_pairs(features, labels) == sorted_pairs(images, classes)
    assert data.num_classes == num_classes


@pytest.mark.parametrize(
    'name, shape, num_classes',
    [
        ('mnist', (28, 28, 1), 10),
        ('cifar10', (32, 32, 3), 10),
        ('emnist/letters', (28, 28, 1), 27),
    ],
)
def test_array_record_in_small_chunks(
    name, shape, num_classes, tmp_path, prepared, monkeypatch
):
    monkeypatch.setattr(reader, '_CHUNK_SIZE', 5)  # several chunks, the last one short
    parts = prepared(name, shape, num_classes)
    data = datasets.from_tfds(name, data_dir=tmp_path)
    assert_holds(data, parts, shape, num_classes)


def test_splits_follow_one_another(tmp_path, prepared):
    parts = prepared('svhn_cropped', (32, 32, 3), extra_splits=['extra'])
    plain = datasets.from_tfds('svhn_cropped', data_dir=tmp_path, train=['train'])
    more = datasets.from_tfds(
        'svhn_cropped', data_dir=tmp_path, train=['train', 'extra']
    )
    np.testing.assert_array_equal(
        more.train_features[: prepared_data.TRAIN], plain.train_features
    )
    tail = slice(prepared_data.TRAIN, None)
    assert sorted_pairs(
        more.train_features[tail], more.train_labels[tail]
    ) == sorted_pairs(*parts['extra'])


def test_the_environment_names_the_folder(tmp_path, prepared, monkeypatch):
    parts = prepared()
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    assert_holds(datasets.from_tfds('mnist'), parts, (28, 28, 1), 10)


def test_the_newest_version_is_read_unless_named(tmp_path, prepared):
    prepared()
    (tmp_path / 'mnist' / '3.0.1').rename(tmp_path / 'mnist' / '2.9.9')
    info = tmp_path / 'mnist' / '2.9.9' / 'dataset_info.json'
    info.write_text(info.read_text().replace('3.0.1', '2.9.9'))
    prepared(shape=(7, 7, 1))
    assert datasets.from_tfds('mnist', data_dir=tmp_path).train_features.shape[1] == 7
    old = datasets.from_tfds('mnist:2.9.9', data_dir=tmp_path)
    assert old.train_features.shape[1] == 28
    with pytest.raises(
        ValueError,
        match=r'^`data_dir` must hold prepared data .*, got none of mnist:3\.0\.2 in',
    ):
        datasets.from_tfds('mnist:3.0.2', data_dir=tmp_path)


def test_what_is_not_prepared_names_the_command(tmp_path):
    root = tmp_path / 'my data'
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        datasets.from_tfds('kmnist', data_dir=root)
    assert str(caught.value) == (
        '`data_dir` must hold prepared data (run `tfds build kmnist --file_format=array_record '
        f"--data_dir='{root}'`, which needs TensorFlow), got none of kmnist in {root}."
    )


def assert_mnist_is_refused(tmp_path, reason, **options):
    """Asserts that one line names the folder of the version and this reason."""
    folder = tmp_path / 'mnist' / '3.0.1'
    with refusals.one_line(
        rf'^`data_dir` must hold prepared data .*, got {folder}: {reason}'
    ):
        datasets.from_tfds('mnist', data_dir=tmp_path, **options)


def test_other_formats_splits_and_features_are_named(tmp_path, prepared):
    prepared()
    assert_mnist_is_refused(
        tmp_path, "ValueError: Unknown split 'tests'", test=['tests']
    )
    folder = tmp_path / 'mnist' / '3.0.1'
    features = folder / 'features.json'
    full = features.read_text()
    features.write_text(full.replace('"label"', '"name"'))
    assert_mnist_is_refused(tmp_path, "KeyError: 'label'")
    features.write_text(full[:40])
    assert_mnist_is_refused(tmp_path, 'JSONDecodeError')
    features.write_text(full)
    info = folder / 'dataset_info.json'
    described = json.loads(info.read_text())
    info.write_text(json.dumps({**described, 'fileFormat': 'tfrecord'}))
    assert_mnist_is_refused(
        tmp_path, 'NotImplementedError: .*TFRECORD is not supported'
    )


def test_a_missing_and_a_damaged_shard_are_named(tmp_path, prepared):
    prepared()
    (shard,) = (tmp_path / 'mnist' / '3.0.1').glob('mnist-test*')
    full = shard.read_bytes()
    shard.write_bytes(full[: len(full) // 2])
    assert_mnist_is_refused(tmp_path, r'\w+Error: ')
    shard.unlink()
    assert_mnist_is_refused(tmp_path, r'\w+Error: .*No such file')


def test_missing_tensorflow_datasets_is_named(tmp_path, monkeypatch):
    folder = tmp_path / 'mnist' / '3.0.1'
    folder.mkdir(parents=True)
    (folder / 'dataset_info.json').touch()
    monkeypatch.setitem(sys.modules, 'tensorflow_datasets', None)
    with pytest.raises(
        ImportError, match=r'^prepared data need TensorFlow Datasets: `pip install'
    ):
        datasets.from_tfds('mnist', data_dir=tmp_path)


@pytest.mark.slow
def test_reading_needs_no_tensorflow(tmp_path, prepared):
    prepared()
    program = (
        'import sys\n'
        'from fedjax_links.problems import datasets\n'
        'heavy = {"tensorflow", "tensorflow_datasets", "PIL"}\n'
        'assert not heavy & set(sys.modules)\n'
        f'print(len(datasets.from_tfds("mnist", data_dir={str(tmp_path)!r}).train_labels))\n'
        'assert "tensorflow" not in sys.modules'
    )
    run = subprocess.run(
        [sys.executable, '-c', program], capture_output=True, text=True
    )
    assert (run.returncode, run.stdout.strip()) == (0, str(prepared_data.TRAIN)), (
        run.stderr
    )


def test_what_is_no_name_of_prepared_data_is_refused():
    for field, value in (('name', 3), ('name', None), ('train', 'train'), ('test', 3)):
        with refusals.names(field):
            datasets.from_tfds(**{'name': 'mnist', field: value})
