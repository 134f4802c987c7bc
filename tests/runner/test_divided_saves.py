"""Saves of two processes: each writes and reads its own rows, and any mesh goes on from them."""

import shutil
import subprocess

import numpy as np
import pytest

from fedjax_links import runs
from fedjax_links.storage import checkpoints
from tests import ROOT
from tests.experiment import several

HALF = '--config.num_rounds=150'
LANES = 2
CLIENTS = 18
SHARE = 10  # of a process, of four devices with five clients each but the last


@pytest.fixture(scope='module')
def full_run(tmp_path_factory):
    """What one process keeps of all rounds."""
    folder = tmp_path_factory.mktemp('alone') / 'run'
    several.run_alone(folder)
    return several.kept(folder)


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
    """Half of the rounds, of two processes."""
    folder = tmp_path_factory.mktemp('both') / 'run'
    assert several.ended(several.start(folder, HALF)) == ([0, 0], ['', ''])
    return folder


@pytest.fixture
def half(saved, tmp_path):
    """A copy of them."""
    return shutil.copytree(saved, tmp_path / 'run')


def saves(folder):
    """The files of all saves."""
    return [path for files in runs.saves(folder).values() for path in files.values()]


@pytest.mark.slow
def test_no_file_holds_more_than_the_share_of_a_process(saved):
    assert len(saves(saved)) == 2 * LANES
    for path in saves(saved):
        tables = {
            f'{index:05d}'
            for index, (name, array) in enumerate(checkpoints.arrays(path).items())
            if name.startswith('.algorithm') and array.shape[:1] == (CLIENTS,)
        }
        assert tables
        with np.load(path) as stored:
            assert tables.isdisjoint(stored.files)
        for index, share in enumerate((SHARE, CLIENTS - SHARE)):
            with np.load(checkpoints.part_file(path, index)) as stored:
                sizes = {
                    name: len(stored[name]) for name in stored.files if name != 'about'
                }
            assert sizes == dict.fromkeys(tables, share)


@pytest.mark.slow
@pytest.mark.parametrize('mesh_size', [1, 2, 3])
def test_one_process_goes_on_with_a_mesh_of_any_size(half, full_run, mesh_size):
    several.run_alone(half, f'--mesh=clients:{mesh_size}')
    assert several.kept(half) == full_run
    parted = {path.name.partition('.part')[0] for path in half.rglob('*.part*')}
    assert parted <= {path.stem for path in saves(half) if path.stem.endswith('@150')}


@pytest.mark.slow
def test_two_processes_go_on_before_a_part_that_is_damaged(half, full_run):
    for files in runs.saves(half).values():
        part = checkpoints.part_file(files[150], 1)
        content = bytearray(part.read_bytes())
        content[len(content) // 2] ^= 1
        part.write_bytes(content)
    statuses, output = several.ended(several.start(half))
    assert statuses == [0, 0]
    assert (
        output[0].count('@150.npz is damaged; going on from what was saved before\n')
        == LANES
    )
    assert several.kept(half) == full_run
    assert len(list(half.rglob('*.part*'))) == 2 * 2 * LANES


@pytest.mark.slow
def test_merged_and_forked_they_are_those_of_one_process(half, tmp_path):
    merged = tmp_path / 'merged'
    runs.merge([half], into=merged)
    for path in saves(half):
        content = several.as_one(path)
        assert (
            several.as_one(runs.checkpoint_file(merged, *path.stem.split('@')))
            == content
        )
        checkpoints.remove(path)
        path.write_bytes(content)
    lines = []
    for origin in (merged, half):
        fork = tmp_path / f'from-{origin.name}'
        flags = [f'--fork_from={origin}', '--at_round=150', '--config.num_rounds=160']
        without_mesh = [
            f for f in several.command(fork, *flags) if not f.startswith('--mesh')
        ]
        subprocess.run(without_mesh, cwd=ROOT, env=several.environment(), check=True)
        lines.append((fork / 'metrics.jsonl').read_bytes())
    assert lines[0].count(b'\n') == 10 * LANES
    assert lines[0] == lines[1]


@pytest.mark.slow
@pytest.mark.parametrize('has_folder', [False, True])
def test_a_disk_of_its_own_is_refused(tmp_path, has_folder):
    other = tmp_path / 'other' / 'checkpoints'
    if has_folder:
        other.mkdir(parents=True)
    both = several.start(tmp_path / 'run', flags_of_other=[f'--workdir={other.parent}'])
    absent = '.part1.npz.\n' if has_folder else f' without {other}.\n'
    for status, text in zip(*several.ended(both), strict=True):
        assert status == 2
        assert text.startswith(
            'error: `workdir` must be on a disk that all processes share, as '
        )
        assert text.endswith(absent)
        assert text.count('\n') == 1
