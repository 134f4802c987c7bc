"""Data prepared by TensorFlow Datasets."""

import json
import socket
import subprocess
import sys

import numpy as np
import pytest

from fedjax_links.problems import datasets
from fedjax_links.problems.datasets import prepared as reader
from tests.problems.datasets import prepared_data


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
        return prepared_data.write_array_record(tmp_path, name, shape, num_classes, **options)

    return write


def sorted_pairs(features, labels):
    """Examples as comparable rows, so that the order of the files does not matter."""
    return sorted((row.tobytes(), int(label)) for row, label in zip(features, labels, strict=True))


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
    [('mnist', (28, 28, 1), 10), ('cifar10', (32, 32, 3), 10), ('emnist/letters', (28, 28, 1), 27)],
)
def test_array_record_in_small_chunks(name, shape, num_classes, tmp_path, prepared, monkeypatch):
    monkeypatch.setattr(reader, '_CHUNK', 5)  # several chunks, the last one short
    parts = prepared(name, shape, num_classes)
    data = datasets.from_tfds(name, data_dir=tmp_path)
    assert_holds(data, parts, shape, num_classes)


def test_splits_follow_one_another(tmp_path, prepared):
    parts = prepared('svhn_cropped', (32, 32, 3), extra_splits=['extra'])
    plain, more = (
        datasets.from_tfds('svhn_cropped', data_dir=tmp_path, train=train)
        for train in (['train'], ['train', 'extra'])
    )
    np.testing.assert_array_equal(more.train_features[: prepared_data.TRAIN], plain.train_features)
    tail = slice(prepared_data.TRAIN, None)
    assert sorted_pairs(more.train_features[tail], more.train_labels[tail]) == sorted_pairs(
        *parts['extra'][:2]
    )


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
        ValueError, match=r'^`data_dir` must hold prepared data .*, got none of mnist:3\.0\.2 in'
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


def fails(tmp_path, said, **options):
    with pytest.raises(ValueError, match=rf'^`data_dir` must hold .*{said}') as caught:
        datasets.from_tfds('mnist', data_dir=tmp_path, **options)
    assert '\n' not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_other_formats_splits_and_features_are_named(tmp_path, prepared):
    prepared()
    fails(tmp_path, "Unknown split 'tests'", test=['tests'])
    folder = tmp_path / 'mnist' / '3.0.1'
    features = folder / 'features.json'
    whole = features.read_text()
    features.write_text(whole.replace('"label"', '"name"'))
    fails(tmp_path, 'label')
    features.write_text(whole[:40])
    fails(tmp_path, 'Error')
    features.write_text(whole)
    info = folder / 'dataset_info.json'
    described = json.loads(info.read_text())
    info.write_text(json.dumps({**described, 'fileFormat': 'tfrecord'}))
    fails(tmp_path, 'TFRECORD is not supported')


def test_a_missing_and_a_damaged_shard_are_named(tmp_path, prepared):
    prepared()
    (shard,) = (tmp_path / 'mnist' / '3.0.1').glob('mnist-test*')
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    fails(tmp_path, 'Error')
    shard.unlink()
    fails(tmp_path, 'Error')


def test_missing_tensorflow_datasets_is_named(tmp_path, monkeypatch):
    folder = tmp_path / 'mnist' / '3.0.1'
    folder.mkdir(parents=True)
    (folder / 'dataset_info.json').touch()
    monkeypatch.setitem(sys.modules, 'tensorflow_datasets', None)
    with pytest.raises(ImportError, match=r'^prepared data need TensorFlow Datasets: `pip install'):
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
    run = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip()) == (0, str(prepared_data.TRAIN)), run.stderr
