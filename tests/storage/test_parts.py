"""Saves that several processes divide: parts, and what is read of them."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.core.mesh_layouts import LocalRows
from fedjax_links.storage import atomic_files, checkpoints, checksummed_npz

BOUNDS = [(0, 3), (3, 6), (6, 7), (7, 7)]  # of seven clients
TABLE = np.arange(14.0, dtype=np.float32).reshape(7, 2)
OTHER = jnp.arange(7, dtype=jnp.bfloat16)
ALONE = np.float32([5.0, 6.0])


def state(start, stop):
    """That of a process with some rows."""
    return {
        'alone': ALONE,
        'key': jax.random.key(3),
        'other': LocalRows(np.asarray(OTHER)[start:stop], start, 7),
        'table': LocalRows(TABLE[start:stop], start, 7),
    }


@pytest.fixture
def path(tmp_path):
    """A save in four parts."""
    path = tmp_path / 'lane.part1 [x]@20.npz'
    states = [state(*bounds) for bounds in BOUNDS]
    parts = [
        checkpoints.write_part(path, index, tree) for index, tree in enumerate(states)
    ]
    assert not path.exists()
    about = {'labels': {'seed': 0}, checkpoints.PARTS: parts}
    atomic_files.write(path, checkpoints.pack(states[0], about, ['a\n', 'b\n']))
    return path


def test_each_part_holds_its_rows_alone_and_the_save_none(path):
    for index, (start, stop) in enumerate(BOUNDS):
        with np.load(checkpoints.part_file(path, index)) as stored:
            assert set(stored.files) == {'about', '00002', '00003'}
            np.testing.assert_array_equal(stored['00003'], TABLE[start:stop])
            assert len(stored['00002']) == stop - start
    with np.load(path) as stored:
        assert set(stored.files) == {'about', 'lines', '00000', '00001'}


def test_all_of_them_are_the_state(path):
    full = {
        'alone': ALONE,
        'key': jax.random.key(3),
        'other': OTHER,
        'table': jnp.array(TABLE),
    }
    result = checkpoints.load(path, jax.eval_shape(lambda: full))
    assert jax.tree.structure(result) == jax.tree.structure(full)
    for name, leaf in full.items():
        assert result[name].dtype == leaf.dtype
        assert jnp.all(result[name] == leaf)
    stored = checkpoints.arrays(path)
    np.testing.assert_array_equal(stored["['table']"], TABLE)
    assert checkpoints.read(path)[1] == ['a\n', 'b\n']
    with pytest.raises(ValueError, match=r'must hold float32\[8, 2\] at'):
        checkpoints.load(
            path, jax.eval_shape(lambda: {**full, 'table': jnp.zeros((8, 2))})
        )


@pytest.mark.parametrize('bounds', [(0, 7), (1, 2), (2, 7), (3, 6), (5, 7), (6, 7)])
def test_a_process_reads_its_rows_from_the_parts_with_them(path, bounds):
    for index, (start, stop) in enumerate(BOUNDS):
        if min(stop, bounds[1]) <= max(start, bounds[0]):
            checkpoints.part_file(path, index).unlink()
    like = jax.eval_shape(
        lambda: {
            'alone': jnp.array(ALONE),
            'key': jax.random.key(3),
            'other': OTHER,
            'table': jnp.array(TABLE),
        }
    )
    content = checkpoints.read_verified(path)
    result = checkpoints.load(
        path, like, content=content, local_rows=lambda count: bounds
    )
    rows = slice(*bounds)
    np.testing.assert_array_equal(result['table'].rows, TABLE[rows])
    np.testing.assert_array_equal(result['other'].rows, np.asarray(OTHER)[rows])
    np.testing.assert_array_equal(result['alone'], ALONE)
    assert result['table'].first == result['other'].first == bounds[0]
    assert result['other'].dtype == OTHER.dtype
    np.testing.assert_array_equal(
        result['table'][slice(bounds[0], None), slice(1)], TABLE[rows, :1]
    )


def test_a_save_whose_part_has_changed_or_is_absent_is_damaged(path):
    part = checkpoints.part_file(path, 0)
    other = checkpoints.part_file(path, 1)
    content = part.read_bytes()
    for changed in (
        other.read_bytes(),
        content[:-1],
        content[:200] + b'?' + content[201:],
    ):
        part.write_bytes(changed)
        for read in (checkpoints.read, checkpoints.leaves, checkpoints.arrays):
            with pytest.raises(
                checkpoints.DamagedError, match=r'part0\.npz: it has changed'
            ):
                read(path)
    part.unlink()
    absent = (
        r'part0\.npz: No such file or directory \(all processes must share the disk\)'
    )
    with pytest.raises(checkpoints.DamagedError, match=absent):
        checkpoints.read(path)


def test_parts_go_with_their_save_and_what_was_left_of_one(path):
    before = path.with_name('lane.part1 [x]@10.npz')
    before.touch()
    left = [
        checkpoints.part_file(before.with_name('lane@30.npz'), index)
        for index in range(2)
    ]
    strange = path.with_name('lane@b.part1@7.npz')
    strange.touch()
    left += map(atomic_files.temporary_name, (left[0], before.with_name('a@3.npz')))
    for file in left:
        file.touch()
    assert checkpoints.files_of(before) == [before]
    assert len(checkpoints.files_of(path)) == 5
    checkpoints.remove_partial_files(path.parent)
    assert not any(file.exists() for file in left)
    assert set(path.parent.iterdir()) == {before, strange, *checkpoints.files_of(path)}
    checkpoints.remove(path)
    assert set(path.parent.iterdir()) == {before, strange}


def test_nothing_is_divided_where_there_are_no_tables(path):
    assert checkpoints.write_part(path.with_name('b@1.npz'), 0, {'alone': ALONE}) == {}
    assert checkpoints.write_part(path.with_name('b@1.npz'), 0, None) == {}
    assert not list(path.parent.glob('b@*'))


def test_rows_of_an_array_in_fortran_order_are_refused(tmp_path):
    """They are not contiguous in the file, and were once read as other entries."""
    path = tmp_path / 'table.npz'
    arrays = {'rows': TABLE, 'columns': np.asfortranarray(TABLE)}
    path.write_bytes(checksummed_npz.npz(arrays, compress=False))
    np.testing.assert_array_equal(
        checksummed_npz.rows(path, 'rows', 2, 5), TABLE[2:5], strict=True
    )
    with pytest.raises(
        ValueError, match=r"`columns` must be in C's order, got Fortran"
    ):
        checksummed_npz.rows(path, 'columns', 2, 5)


def test_rows_are_read_without_loading_the_array(tmp_path):
    path = tmp_path / 'table.npz'
    table = np.zeros((64, 2**20), np.uint8)
    path.write_bytes(checksummed_npz.npz({'table': table}, compress=False))
    tracemalloc.start()
    try:
        rows = checksummed_npz.rows(path, 'table', 62, 63)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(rows, table[62:63], strict=True)
    # The file is read up to the rows, in chunks.
    assert peak_bytes < 0.75 * table.nbytes


@pytest.mark.parametrize('dtype', [np.complex64, np.complex128, np.float16, np.bool_])
def test_a_state_of_any_dtype_is_read_back(dtype, tmp_path):
    state = np.array([0, 1, 1], dtype) * dtype(1)
    path = tmp_path / 'lane@1.npz'
    path.write_bytes(checkpoints.pack({'x': state}))
    read = checkpoints.arrays(path)["['x']"]
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, state)


@pytest.mark.parametrize('verify', [True, False])
def test_a_missing_save_is_damaged_verified_or_not(tmp_path, verify):
    """Who follows a run reads a save that a later one may just have replaced."""
    with pytest.raises(checkpoints.DamagedError, match='No such file or directory'):
        checkpoints.read(tmp_path / 'lane@2.npz', verify=verify)
