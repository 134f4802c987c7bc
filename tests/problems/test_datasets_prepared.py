"""Data prepared by TensorFlow Datasets, read back from files in both of its formats."""

import pathlib
import re
import socket
import subprocess
import sys

import numpy as np
import pytest

from fedjax_links.problems import datasets
from fedjax_links.problems.datasets import tfds as loaders
from fedjax_links.problems.datasets.tfrecord import masked_crc32c, read_records
from tests.problems import prepared_data

pytest.importorskip('tensorflow_datasets')

STOCK = {
    'mnist': ((28, 28, 1), 10),
    'fashion_mnist': ((28, 28, 1), 10),
    'cifar10': ((32, 32, 3), 10),
    'svhn': ((32, 32, 3), 10),
}
PREPARED = {'svhn': 'svhn_cropped'}
"""Names in TensorFlow Datasets that are others."""


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    """Any attempt to reach a host fails the test, and the cache is the test's own."""

    def refuse(*args, **kwargs):
        pytest.fail(f'network access: {args}')

    monkeypatch.setattr(socket, 'getaddrinfo', refuse)
    monkeypatch.setattr(socket.socket, 'connect', refuse)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'xdg'))


def sorted_pairs(features, labels):
    """Examples as comparable rows, so that the order of the files does not matter."""
    pixels = np.rint(255 * np.float64(features)).astype(np.uint8)
    return sorted((row.tobytes(), int(label)) for row, label in zip(pixels, labels, strict=True))


def assert_holds(data, parts, shape, num_classes):
    for split, features, labels in (
        ('train', data.train_features, data.train_labels),
        ('test', data.test_features, data.test_labels),
    ):
        images, classes = parts[split]
        assert features.shape == (len(images), *shape)
        assert (features.dtype, labels.dtype) == (np.float32, np.int32)
        assert sorted_pairs(features, labels) == sorted_pairs(images / 255, classes)
    assert data.num_classes == num_classes


@pytest.mark.parametrize('name', STOCK)
def test_array_record(name, tmp_path):
    shape, num_classes = STOCK[name]
    prepared = PREPARED.get(name, name)
    parts = prepared_data.write_array_record(tmp_path, prepared, shape, num_classes)
    data = datasets.load(name, data_dir=tmp_path)
    assert_holds(data, parts, shape, num_classes)
    assert data.name == name


@pytest.mark.parametrize('name', STOCK)
def test_tfrecord(name, tmp_path, monkeypatch):
    monkeypatch.setattr(loaders, '_CHUNK', 5)  # several chunks, the last one short
    shape, num_classes = STOCK[name]
    prepared = PREPARED.get(name, name)
    parts = prepared_data.write_tfrecord(tmp_path, prepared, shape, num_classes)
    data = datasets.load(name, data_dir=tmp_path)
    assert_holds(data, parts, shape, num_classes)
    images, labels = parts['train']
    np.testing.assert_array_equal(data.train_features, np.float32(images) / np.float32(255))
    np.testing.assert_array_equal(data.train_labels, labels)  # in the order of the files


def test_the_two_formats_agree_in_small_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(loaders, '_CHUNK', 4)
    prepared_data.write_array_record(tmp_path / 'a', 'mnist', (28, 28, 1), 10)
    prepared_data.write_tfrecord(tmp_path / 'b', 'mnist', (28, 28, 1), 10)
    first, second = (datasets.mnist(data_dir=tmp_path / folder) for folder in 'ab')
    assert sorted_pairs(first.train_features, first.train_labels) == sorted_pairs(
        second.train_features, second.train_labels
    )


def test_emnist_is_turned_upright(tmp_path):
    parts = prepared_data.write_array_record(tmp_path, 'emnist/balanced', (28, 28, 1), 47)
    data = datasets.emnist(data_dir=tmp_path)
    upright = {k: (images.transpose(0, 2, 1, 3), labels) for k, (images, labels) in parts.items()}
    assert_holds(data, upright, (28, 28, 1), 47)
    assert data.name == 'emnist'


def test_emnist_letters_are_numbered_from_zero(tmp_path):
    parts = prepared_data.write_array_record(
        tmp_path, 'emnist/letters', (28, 28, 1), 27, first_label=1
    )
    data = datasets.emnist(config='letters', data_dir=tmp_path)
    shifted = {k: (x.transpose(0, 2, 1, 3), labels - 1) for k, (x, labels) in parts.items()}
    assert_holds(data, shifted, (28, 28, 1), 26)


def test_svhn_extra_follows_the_training_data(tmp_path):
    parts = prepared_data.write_array_record(
        tmp_path, 'svhn_cropped', (32, 32, 3), 10, extra_splits=['extra']
    )
    plain = datasets.svhn(data_dir=tmp_path)
    more = datasets.svhn(data_dir=tmp_path, extra=True)
    np.testing.assert_array_equal(more.train_features[: prepared_data.TRAIN], plain.train_features)
    tail = slice(prepared_data.TRAIN, None)
    assert sorted_pairs(more.train_features[tail], more.train_labels[tail]) == sorted_pairs(
        parts['extra'][0] / 255, parts['extra'][1]
    )


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    parts = prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path))
    assert_holds(datasets.mnist(), parts, (28, 28, 1), 10)


def test_the_newest_version_is_read_unless_named(tmp_path):
    for version, shape in (('3.0.1', (6, 6, 1)), ('3.0.10', (7, 7, 1)), ('2.9.9', (8, 8, 1))):
        prepared_data.write_tfrecord(tmp_path, 'mnist', shape, 10, version=version)
    assert datasets.mnist(data_dir=tmp_path).train_features.shape[1] == 7
    old = datasets.mnist(data_dir=tmp_path, version='2.9.9')
    assert old.train_features.shape[1] == 8
    with pytest.raises(ValueError, match=r"^`version` has no '3.0.2'; did you mean '3.0.1"):
        datasets.mnist(data_dir=tmp_path, version='3.0.2')


def test_a_second_call_reads_the_cache_and_new_data_replace_it(tmp_path, monkeypatch):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    options = {'data_dir': tmp_path, 'cache_dir': tmp_path / 'cache'}
    first = datasets.mnist(**options)
    (file,) = (tmp_path / 'cache').iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(loaders, '_read', lambda *args: pytest.fail('read the source again'))
        again = datasets.mnist(**options)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    file.write_bytes(file.read_bytes()[:1000])  # a damaged cache is no obstacle
    for a, b in zip(first, datasets.mnist(**options), strict=True):
        np.testing.assert_array_equal(a, b)
    changed = tmp_path / 'mnist' / '3.0.1' / 'mnist-test.tfrecord-00000-of-00002'
    content = changed.read_bytes()
    changed.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match='damaged record'):
        datasets.mnist(**options)


def test_the_cache_knows_the_parts(tmp_path):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    sizes = {
        len(datasets.from_tfds('mnist', data_dir=tmp_path, train=train, test=test).train_labels)
        for train, test in ((['train'], ['test', 'test']), (['train', 'test'], ['test']))
    }
    assert sizes == {prepared_data.TRAIN, prepared_data.TRAIN + prepared_data.TEST}


def test_the_cache_is_optional_and_in_the_cache_home_by_default(tmp_path):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    datasets.mnist(data_dir=tmp_path, cache=False)
    assert not (tmp_path / 'xdg').exists()
    datasets.mnist(data_dir=tmp_path)
    (file,) = (tmp_path / 'xdg' / 'fedjax_links' / 'datasets').iterdir()
    assert re.fullmatch(r'mnist-[0-9a-f]{16}\.npz', file.name)


def test_a_cache_that_cannot_be_written_costs_a_warning(tmp_path):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    blocked = tmp_path / 'file'
    blocked.touch()
    with pytest.warns(UserWarning, match=f'^mnist could not be cached in {blocked}: File exists'):
        data = datasets.mnist(data_dir=tmp_path, cache_dir=blocked)
    assert len(data.train_labels) == prepared_data.TRAIN


@pytest.mark.parametrize(
    'load, name, prepared',
    [
        (datasets.mnist, 'mnist', 'mnist'),
        (datasets.fashion_mnist, 'fashion_mnist', 'fashion_mnist'),
        (datasets.cifar10, 'cifar10', 'cifar10'),
        (datasets.svhn, 'svhn', 'svhn_cropped'),
        (datasets.emnist, 'emnist/balanced', 'emnist/balanced'),
    ],
)
def test_absent_data_name_the_command(load, name, prepared, tmp_path):
    root = tmp_path / 'my data'
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load(data_dir=root)
    file = root / f'{name.replace("/", "-")}.npz'
    assert str(caught.value) == (
        f'`data_dir` must hold the data set (run `python -m fedjax_links data fetch {name} '
        f"--data_dir='{root}'`), got neither {file} nor prepared data in {root / prepared}."
    )


def test_what_else_is_absent_names_the_command_of_tfds(tmp_path):
    root = tmp_path / 'my data'
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        datasets.from_tfds('kmnist', data_dir=root)
    assert str(caught.value) == (
        '`data_dir` must hold prepared data (run `tfds build kmnist --file_format=array_record '
        f"--data_dir='{root}'`, which needs TensorFlow), got none in {root / 'kmnist'}."
    )


def test_what_was_fetched_comes_before_what_was_prepared(tmp_path):
    parts = prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    drawn = datasets.synthetic_images(num_train=4, num_test=2, shape=(28, 28, 1), num_classes=10)
    datasets.save_npz(drawn, tmp_path / 'mnist.npz')
    fetched = datasets.mnist(data_dir=tmp_path)
    np.testing.assert_array_equal(fetched.train_features, drawn.train_features)
    assert fetched.name == 'mnist'
    assert_holds(datasets.mnist(data_dir=tmp_path, version='3.0.1'), parts, (28, 28, 1), 10)
    (tmp_path / 'mnist.npz').write_bytes(b'PK')
    with pytest.raises(ValueError, match=r'^`data_dir.path` must name an npz file, got an unread'):
        datasets.mnist(data_dir=tmp_path)


def test_a_missing_shard_is_named(tmp_path):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    shard = tmp_path / 'mnist' / '3.0.1' / 'mnist-train.tfrecord-00001-of-00002'
    shard.unlink()
    message = f'`data_dir` must hold every file of mnist, got no {shard}.'
    with pytest.raises(ValueError, match=f'^{re.escape(message)}$'):
        datasets.mnist(data_dir=tmp_path)


def test_missing_and_superfluous_examples_are_counted(tmp_path):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    shard = tmp_path / 'mnist' / '3.0.1' / 'mnist-test.tfrecord-00001-of-00002'
    whole = shard.read_bytes()
    shard.write_bytes(b'')
    with pytest.raises(ValueError, match=r'as described, got 3 instead of 7 examples of test\.$'):
        datasets.mnist(data_dir=tmp_path)
    shard.write_bytes(whole + whole)
    with pytest.raises(ValueError, match=r'as described, got more than 7 examples of test\.$'):
        datasets.mnist(data_dir=tmp_path)


@pytest.mark.parametrize(
    'change, message',
    [
        (('tfrecord', 'riegeli'), 'must hold array_record or tfrecord files, got riegeli in '),
        (('"name": "test"', '"name": "tests"'), "`split` has no 'test'; did you mean 'tests'"),
    ],
)
def test_other_descriptions_are_refused(change, message, tmp_path):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    info = tmp_path / 'mnist' / '3.0.1' / 'dataset_info.json'
    info.write_text(info.read_text().replace(*change))
    with pytest.raises(ValueError, match=message):
        datasets.mnist(data_dir=tmp_path)


def test_images_of_no_fixed_shape_are_refused(tmp_path):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    features = tmp_path / 'mnist' / '3.0.1' / 'features.json'
    features.write_text(features.read_text().replace('"28"', '"-1"'))
    with pytest.raises(ValueError, match=r'^`name` must name images of one shape in uint8, got '):
        datasets.mnist(data_dir=tmp_path)


def test_data_without_labels_are_refused(tmp_path):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    features = tmp_path / 'mnist' / '3.0.1' / 'features.json'
    features.write_text(features.read_text().replace('"label"', '"name"'))
    message = '`name` must name data with the feature label, got only: image, name.'
    with pytest.raises(ValueError, match=f'^{re.escape(message)}$'):
        datasets.mnist(data_dir=tmp_path)


def test_an_unknown_emnist_is_refused():
    with pytest.raises(ValueError, match=r"^`config` has no 'letter'; did you mean 'letters'"):
        datasets.emnist(config='letter')


@pytest.mark.slow
def test_reading_needs_no_tensorflow(tmp_path):
    prepared_data.write_array_record(tmp_path, 'mnist', (28, 28, 1), 10)
    program = (
        'import sys\n'
        'from fedjax_links.problems import datasets\n'
        'heavy = {"tensorflow", "tensorflow_datasets", "PIL"}\n'
        'assert not heavy & set(sys.modules)\n'
        f'print(len(datasets.mnist(data_dir={str(tmp_path)!r}, cache=False).train_labels))\n'
        'assert "tensorflow" not in sys.modules'
    )
    run = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip()) == (0, str(prepared_data.TRAIN)), run.stderr


def test_missing_tensorflow_datasets_is_named(tmp_path, monkeypatch):
    prepared_data.write_tfrecord(tmp_path, 'mnist', (28, 28, 1), 10)
    monkeypatch.setitem(sys.modules, 'tensorflow_datasets', None)
    with pytest.raises(ImportError, match=r'^prepared data need TensorFlow Datasets: `pip install'):
        datasets.mnist(data_dir=tmp_path)


def test_crc32c_against_published_values_and_bit_by_bit():
    """Check values of CRC-32C: RFC 3720, B.4, and the usual digits."""
    assert prepared_data.crc32c(b'123456789') == 0xE3069283
    assert prepared_data.crc32c(bytes(32)) == 0x8A9136AA
    rng = np.random.default_rng(0)
    rows = [rng.bytes(n) for n in (9, 0, 40, 1, 40, 3)]
    expected = [int.from_bytes(prepared_data.masked(row), 'little') for row in rows]
    np.testing.assert_array_equal(masked_crc32c(rows), expected)


@pytest.mark.parametrize('chunk_size', [1, 2, 3, 10])
def test_records_come_back_whole(chunk_size, tmp_path):
    records = [b'one', b'', b'three' * 100, b'\0' * 7, b'five']
    file = tmp_path / 'records'
    file.write_bytes(prepared_data.frame(records))
    chunks = list(read_records(file, chunk_size=chunk_size))
    assert [record for chunk in chunks for record in chunk] == records
    assert {len(chunk) for chunk in chunks[:-1]} <= {chunk_size}


def test_every_flipped_byte_and_every_cut_is_noticed(tmp_path):
    records = [b'one', b'two-two', b'three']
    whole = prepared_data.frame(records)
    file = tmp_path / 'records'
    borders = np.cumsum([0] + [len(record) + 16 for record in records])
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 0x10
        file.write_bytes(flipped)
        number = int(np.searchsorted(borders, position, side='right')) - 1
        with pytest.raises(ValueError, match=f'got a damaged record {number} in '):
            list(read_records(file, chunk_size=2))
        file.write_bytes(whole[:position])
        if position in borders:
            assert len(list(read_records(file, chunk_size=1))) == number
        else:
            with pytest.raises(ValueError, match=f'got a damaged record {number} in '):
                list(read_records(file, chunk_size=2))


def test_tilde_is_the_home_folder(monkeypatch):
    monkeypatch.delenv('TFDS_DATA_DIR', raising=False)
    assert loaders.data_root(None) == pathlib.Path.home() / 'tensorflow_datasets'
