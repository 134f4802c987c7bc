"""Damaged data files are named, in one line."""

import numpy as np
import pytest

from fedjax_links import datasets, experiment
from tests.experiment.configs import values


def save(path, saver=np.savez, **changes):
    """Writes a data set of 20 training and 6 test images, with some arrays changed."""
    rng = np.random.default_rng(0)
    arrays = {
        'train_features': rng.integers(0, 256, (20, 4, 4, 1), dtype=np.uint8),
        'train_labels': np.arange(20) % 3,
        'test_features': rng.integers(0, 256, (6, 4, 4, 1), dtype=np.uint8),
        'test_labels': np.arange(6) % 3,
    }
    saver(path, **{**arrays, **changes})


def message_of(call):
    """Returns the one line of the ValueError that a call raises."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call()
    assert '\n' not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize('saver', [np.savez, np.savez_compressed])
def test_each_damaged_npz_file_is_named(saver, tmp_path):
    """Cut, or with a byte changed, at many positions; a file that still loads has all arrays."""
    full = tmp_path / 'whole.npz'
    file = tmp_path / 'damaged.npz'
    save(full, saver)
    data = full.read_bytes()
    expected = datasets.from_npz(full)
    arguments = set()
    for index in range(0, len(data), 37):
        changed = bytearray(data)
        changed[index] ^= 0xFF
        for damaged in (data[:index], bytes(changed)):
            file.write_bytes(damaged)
            try:
                loaded = datasets.from_npz(file)
            except ValueError as error:
                message = str(error)
            else:
                # No entry of an array changed, such as when the date of a member did.
                for name, value in vars(expected).items():
                    np.testing.assert_array_equal(getattr(loaded, name), value)
                continue
            assert str(file) in message
            assert '\n' not in message
            arguments.add(message.split('`')[1])
    assert 'path' in arguments


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'train_labels': np.r_[np.arange(19) % 3, 7], 'num_classes': 3},
            'got 7 at 19',
        ),
        ({'test_labels': np.array([0, 1, -2, 0, 0, 0])}, 'got -2 at 2'),
        (
            {
                'train_features': np.where(np.arange(20) == 4, np.nan, 1.0)[:, None],
                'test_features': np.ones((6, 1)),
            },
            'in row 4',
        ),
        ({'test_features': np.zeros((6, 5, 4, 1), np.uint8)}, 'got [5, 4, 1]'),
        ({'train_labels': np.zeros(19, int)}, 'got 19'),
    ],
)
def test_a_config_names_file_and_record_of_bad_arrays(changes, message, tmp_path):
    path = tmp_path / 'mine.npz'
    save(path, **changes)
    problem = {
        'name': 'images',
        'dataset': 'npz',
        'data': {'path': str(path)},
        'num_clients': 4,
        'model': 'softmax',
    }
    text = message_of(lambda: experiment.build(values(problem=problem)))
    assert text.startswith('`config.problem.data.')
    assert message in text
    assert str(path) in text
