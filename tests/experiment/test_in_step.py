"""Runs of two processes that share a mesh: they keep what one keeps."""

import os
import socket
import subprocess
import sys

import pytest

from fedjax_links import devices, experiment, journal, processes
from fedjax_links.experiment import running
from tests.experiment.configs import values
from tests.test_devices import ROOT

PROGRAM = """
import sys
from pathlib import Path

import jax
from fedjax_links import devices, experiment, journal, processes
from fedjax_links.experiment import running
from tests.experiment.configs import values

folder, coordinator, own = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
said = []
devices.prepare(2)
processes.join(coordinator, 2, own)()
journal.SaveClock.is_due = lambda clock: True
used = devices.places(None, 4)
planned = experiment.build(values())

class End(experiment.Callback):
    def on_period(self, lane, record):
        if own == 1 and lane.seed and record['round'] == 2:
            raise experiment.Stop

def attempt(name, planned, *callbacks):
    try:
        result = running.run(planned, folder / name, callbacks, places=used)
    except (experiment.Stop, ValueError) as error:
        return said.append(f'{type(error).__name__}: {error}')
    said.append(f"{len(used[0].devices)} {result.columns['round'].tolist()}")

attempt('unbroken', planned)
attempt('ended', planned, End())
attempt('ended', planned)
attempt('ended', experiment.build(values(num_seeds=1)))
told = processes.told(lambda: b'by the leader').decode()
said.append(f'told {told} {processes.any_of(own == 1)}')
# The transport prints to the output whatever it pleases.
(folder / f'said by {own}').write_text(chr(10).join(said))
"""


def kept(folder):
    """All files but those that say where and when a run took place."""
    left_out = 'environment.json', '.lock', 'journal.jsonl'
    files = sorted(path for path in folder.rglob('*') if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.name not in left_out
    }


def of_two_processes(folder):
    """What the two say."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        coordinator = f'127.0.0.1:{probe.getsockname()[1]}'
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    both = [
        subprocess.Popen(
            [sys.executable, '-c', PROGRAM, str(folder), coordinator, str(place)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for place in range(2)
    ]
    try:
        printed = [process.communicate(timeout=300)[0] for process in both]
    finally:
        for process in both:
            process.kill()
    assert [process.returncode for process in both] == [0, 0], printed
    return [(folder / f'said by {own}').read_text().splitlines() for own in range(2)]


@pytest.mark.slow
def test_two_processes_keep_what_one_keeps(tmp_path, monkeypatch):
    """Also if the second ends the run and they go on; what the first refuses, both do."""
    monkeypatch.setattr(journal.SaveClock, 'is_due', lambda clock: True)
    alone = tmp_path / 'alone'
    running.run(experiment.build(values()), alone, places=devices.places(1, 1))
    leader, other = of_two_processes(tmp_path)
    assert leader == other
    rounds = '4 [2, 4, 2, 4]'
    refused = leader.pop(3)
    assert refused.startswith(
        'ValueError: `workdir` must be new or hold a run with the same config'
    )
    assert leader == [rounds, 'Stop: ', rounds, 'told by the leader True']
    assert kept(tmp_path / 'unbroken') == kept(alone)
    assert kept(tmp_path / 'ended') == kept(alone)


@pytest.mark.parametrize(
    'given, message',
    [
        ((None, 2, 0), r'^`coordinator` must be given with num_processes and process_id, got None'),
        (('here:80', 2, None), r'^`process_id` must be given with coordinator and num_processes'),
        (('here', 2, 0), r'^`coordinator` must read HOST:PORT, got here\.$'),
        (('here:80', 0, 0), r'^`num_processes` must be at least 1, got 0\.$'),
        (('here:80', 2, 2), r'^`process_id` must be at most 1, got 2\.$'),
    ],
)
def test_processes_that_cannot_join_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        processes.join(*given)
