"""Tests saves of two processes: each writes and reads its own rows; any mesh resumes from them."""

import shutil
import subprocess

import numpy as np
import pytest

from fedjax_links import runs
from fedjax_links.storage import checkpoints
from tests import ROOT
from tests.experiment import several
from tests.storage.flips import flip_bit

HALF = '--config.num_rounds=80'
NUM_LANES = 2
NUM_CLIENTS = 18
# Of four devices, three have five clients each and the last has three. A process has two devices.
ROWS_OF_PROCESSES = (10, 8)


@pytest.fixture(scope='module')
def full_run(tmp_path_factory):
    """Runs all rounds in one process, and returns what it saves."""
    folder = tmp_path_factory.mktemp('alone') / 'run'
    several.run_alone(folder)
    return several.saved_files(folder)


@pytest.fixture(scope='module')
def original_half(tmp_path_factory):
    """Runs the first 80 rounds in two processes."""
    folder = tmp_path_factory.mktemp('both') / 'run'
    assert several.wait_for_end(several.start(folder, HALF)) == ([0, 0], ['', ''])
    return folder


@pytest.fixture
def half(original_half, tmp_path):
    """Copies the folder of the first 80 rounds."""
    return shutil.copytree(original_half, tmp_path / 'run')


def saves(folder):
    """Returns the files of all saves of a run."""
    return [path for files in runs.saves(folder).values() for path in files.values()]


@pytest.mark.slow
def test_no_file_holds_more_than_the_rows_of_a_process(original_half):
    assert len(saves(original_half)) == 2 * NUM_LANES
    for path in saves(original_half):
        tables = {
            f'{index:05d}'
            for index, (name, array) in enumerate(checkpoints.arrays(path).items())
            if name.startswith('.algorithm') and array.shape[:1] == (NUM_CLIENTS,)
        }
        assert tables
        with np.load(path) as stored:
            assert tables.isdisjoint(stored.files)
        for process, num_rows in enumerate(ROWS_OF_PROCESSES):
            with np.load(checkpoints.part_file(path, process)) as stored:
                sizes = {
                    name: len(stored[name]) for name in stored.files if name != 'about'
                }
            assert sizes == dict.fromkeys(tables, num_rows)


@pytest.mark.slow
@pytest.mark.parametrize('mesh_size', [1, 2, 3])
def test_one_process_resumes_on_a_mesh_of_any_size(half, full_run, mesh_size):
    several.run_alone(half, f'--mesh=clients:{mesh_size}')
    assert several.saved_files(half) == full_run
    parted = {path.name.partition('.part')[0] for path in half.rglob('*.part*')}
    assert parted <= {path.stem for path in saves(half) if path.stem.endswith('@80')}


@pytest.mark.slow
def test_two_processes_resume_before_a_damaged_part(half, full_run):
    for files in runs.saves(half).values():
        flip_bit(checkpoints.part_file(files[80], 1))
    statuses, output = several.wait_for_end(several.start(half))
    assert statuses == [0, 0]
    warning = '@80.npz is damaged; resuming from the save before it\n'
    assert output[0].count(warning) == NUM_LANES
    assert several.saved_files(half) == full_run
    assert len(list(half.rglob('*.part*'))) == 2 * 2 * NUM_LANES


@pytest.mark.slow
def test_merged_and_forked_saves_equal_those_of_one_process(half, tmp_path):
    merged = tmp_path / 'merged'
    runs.merge([half], into=merged)
    # The saves of `half` become those of one process; those of `merged` stay divided.
    for path in saves(half):
        content = several.merged_save(path)
        merged_path = runs.checkpoint_file(merged, *path.stem.split('@'))
        assert several.merged_save(merged_path) == content
        checkpoints.remove(path)
        path.write_bytes(content)
    lines = []
    for origin in (merged, half):
        fork = tmp_path / f'from-{origin.name}'
        flags = [f'--fork_from={origin}', '--at_round=80', '--config.num_rounds=90']
        without_mesh = [
            f for f in several.command(fork, *flags) if not f.startswith('--mesh')
        ]
        subprocess.run(without_mesh, cwd=ROOT, env=several.environment(), check=True)
        lines.append((fork / 'metrics.jsonl').read_bytes())
    assert lines[0].count(b'\n') == 10 * NUM_LANES
    assert lines[0] == lines[1]


@pytest.mark.slow
@pytest.mark.parametrize('has_folder', [False, True])
def test_processes_without_a_shared_disk_are_refused(tmp_path, has_folder):
    other = tmp_path / 'other' / 'checkpoints'
    if has_folder:
        other.mkdir(parents=True)
    both = several.start(tmp_path / 'run', flags_of_other=[f'--workdir={other.parent}'])
    absent = '.part1.npz.\n' if has_folder else f' without {other}.\n'
    for status, text in zip(*several.wait_for_end(both), strict=True):
        assert status == 2
        assert text.startswith(
            'error: `workdir` must be on a disk that all processes share, as '
        )
        assert text.endswith(absent)
        assert text.count('\n') == 1
