"""Runs of two processes that share a mesh: they save what one saves, and end together."""

import shutil
import signal
import subprocess

import pytest

from fedjax_links.machines import processes
from fedjax_links.runner import in_memory, shared_stores
from tests import refusals
from tests.experiment import several

GONE = (
    'error: process {} of 2 has ended or cannot be reached; the same command, given to each of '
    'them, resumes from the last save.\n'
)


@pytest.fixture(scope='module')
def full_run(tmp_path_factory):
    """The files of a run in one process."""
    folder = tmp_path_factory.mktemp('alone') / 'run'
    several.run_alone(folder)
    return several.saved_files(folder)


@pytest.mark.slow
def test_two_processes_keep_what_one_does_on_a_slow_disk(tmp_path, full_run):
    assert several.run_with_a_slow_disk(tmp_path / 'run') == ([0, 0], ['', ''])
    assert several.num_saves(tmp_path / 'run') >= 10
    assert several.saved_files(tmp_path / 'run') == full_run


@pytest.mark.slow
def test_tasks_of_a_slurm_step_find_each_other(tmp_path, full_run):
    folder = tmp_path / 'run'
    statuses, output = several.wait_for_end(several.start_as_a_step(folder))
    assert (statuses, output) == ([0, 0], ['', ''])
    received = [
        (folder.parent / f'task-{index}').read_text().splitlines()[0]
        for index in range(2)
    ]
    assert [line.partition(', coordinator localhost:')[0] for line in received] == [
        f'process {index} of 2 as SLURM_PROCID says' for index in range(2)
    ]
    assert several.saved_files(folder) == full_run


@pytest.mark.slow
def test_processes_that_the_caller_connected_are_joined(tmp_path, full_run):
    folder = tmp_path / 'run'
    both = several.start_connected(folder)
    several.wait_for(folder, 10, both)
    both[1].kill()
    statuses, output = several.wait_for_end(both, timeout=40)
    assert statuses[0] == 2
    assert GONE.format(1) in output[0]
    assert several.wait_for_end(several.start_connected(folder)) == ([0, 0], ['', ''])
    files = several.saved_files(folder)
    # The program starts the run from Python, the compared run began with a command.
    compared = files.keys() - {'config.json', 'environment.json'}
    assert compared > {'metrics.jsonl', 'links.npz', 'identity.json'}
    for name in compared:
        assert files[name] == full_run[name], name


@pytest.mark.slow
def test_where_one_is_killed_the_other_names_it_and_they_resume(tmp_path, full_run):
    folder = tmp_path / 'run'
    for killed, num_lines in ((1, 80), (0, 240)):
        both = several.start(folder)
        several.wait_for(folder, num_lines, both)
        both[killed].kill()
        statuses, output = several.wait_for_end(both, timeout=40)
        assert statuses[1 - killed] == 2
        assert output[1 - killed] == GONE.format(killed)
    assert several.wait_for_end(several.start(folder)) == ([0, 0], ['', ''])
    assert several.saved_files(folder) == full_run


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MB."""
    disk = tmp_path / 'disk'
    disk.mkdir()
    if not shutil.which('mount'):
        pytest.skip('needs `mount`')
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip('needs the right to mount')
    yield disk
    subprocess.run(['umount', str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.release('test_where_one_is_killed_the_other_names_it_and_they_resume')
def test_both_processes_name_a_full_disk_and_resume(small_disk, full_run):
    folder = small_disk / 'run'
    ballast = small_disk / 'ballast'
    both = several.start(folder)
    several.wait_for(folder, 50, both)
    with pytest.raises(OSError, match='No space'):
        ballast.write_bytes(bytes(2**24))
    statuses, output = several.wait_for_end(both, timeout=40)
    assert statuses == [2, 2]
    assert output[0].startswith(f'error: `{folder}')
    assert output[0].endswith('` cannot be used: No space left on device.\n')
    assert output[0].count('\n') == 1
    assert output[1] == output[0]
    assert not list(folder.rglob('*.partial'))
    ballast.unlink()
    assert several.wait_for_end(several.start(folder)) == ([0, 0], ['', ''])
    assert several.saved_files(folder) == full_run


@pytest.mark.slow
@pytest.mark.release('test_where_one_is_killed_the_other_names_it_and_they_resume')
def test_signals_and_mistakes_of_one_process_stop_both(tmp_path, full_run):
    """The second alone has a signal, too little memory, or another config."""
    folder = tmp_path / 'run'
    both = several.start(folder)
    several.wait_for(folder, 50, both)
    both[1].send_signal(signal.SIGTERM)
    statuses, output = several.wait_for_end(both)
    assert statuses == [130, 143]
    stopped = f'Stopped; all is saved in {folder}, and the same command resumes.\n'
    assert [text.splitlines(keepends=True)[-1] for text in output] == [stopped, stopped]

    statuses, output = several.wait_for_end(
        several.start(folder, of_other={'BYTES_FREE': '20000'})
    )
    assert statuses == [2, 2]
    assert output[0].startswith('error: `config` must fit into memory: mifa needs ')
    assert output[0].count('\n') == 1
    assert output[1] == output[0]

    other = '--config.client.learning_rate=0.2'
    statuses, output = several.wait_for_end(
        several.start(folder, flags_of_other=[other])
    )
    assert statuses == [2, 2]
    refused = '`config.client.learning_rate` must be the same in all processes, got 0.1 and 0.2.'
    assert output == [f'error: {refused}\n'] * 2

    assert several.wait_for_end(several.start(folder)) == ([0, 0], ['', ''])
    assert several.saved_files(folder) == full_run


@pytest.mark.parametrize(
    'flags, message',
    [
        (
            (None, 2, 0),
            r'^`coordinator` must be given with num_processes and process_id, got None',
        ),
        (
            ('here:80', 2, None),
            r'^`process_id` must be given with coordinator and num_processes',
        ),
        (('here', 2, 0), r'^`coordinator` must read HOST:PORT, got here\.$'),
        (
            ('here:70000', 2, 0),
            r'^`coordinator` must have a port from 1 to 65,535, got here:70000\.$',
        ),
        (
            ('here:0', 2, 1),
            r'^`coordinator` must have a port from 1 to 65,535, got here:0\.$',
        ),
        (('here:80', 0, 0), r'^`num_processes` must be at least 1, got 0\.$'),
        (('here:80', 2, 2), r'^`process_id` must be at most 1, got 2\.$'),
    ],
)
def test_processes_that_cannot_join_are_refused(flags, message):
    with pytest.raises(ValueError, match=message):
        processes.join(*flags)


def test_the_leaders_store_takes_what_a_loop_passes():
    """Where seeds are added until decided, the loop says at its end that it asks for no more."""
    calls = []

    class Store(in_memory.InMemoryStore):
        def request_lanes(self, lanes, ended=False):
            calls.append((lanes, ended))

    store = shared_stores.ReplicatedStore(lambda: Store({}), {}, None, lambda n: (0, n))
    store.request_lanes(['lane'])
    store.request_lanes([], ended=True)
    assert calls == [(['lane'], False), ([], True)]


def test_a_save_of_any_size_is_sent_in_pieces(monkeypatch):
    """Connections take no message above a limit, which a large model exceeds."""
    lengths = []

    class Connections:
        process_id = 0
        are_over = False

        def exchange(self, message):
            lengths.append(len(message))
            return [message, b'+']

    monkeypatch.setattr(processes, '_open', Connections())
    monkeypatch.setattr(processes, '_PIECE_BYTES', 4)
    assert processes.broadcast_bytes(lambda: b'0123456789') == b'0123456789'
    assert lengths == [1 + 8 + 4, 1 + 4, 1 + 2]
    assert processes.broadcast_from_leader(lambda: [0.5, None]) == [0.5, None]
    assert max(lengths) == 1 + 8 + 4


def test_what_differs_between_processes_is_named(monkeypatch):
    leaders = {'config': None, 'identity': {'lanes': {'a on b': {'version': '1'}}}}
    monkeypatch.setattr(processes, 'broadcast_from_leader', lambda answer: leaders)
    here = {'config': None, 'identity': {'lanes': {'a on b': {'version': '2'}}}}
    words = "be the same in all processes, got '1' and '2'"
    with refusals.names('identity.lanes.a on b.version', words):
        shared_stores.ReplicatedStore(lambda: None, here, None, lambda n: (0, n))
