"""Signals, full disks and colleagues, as a user meets them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, '-m', 'fedjax_links', 'simulate']
LONG = """
from ml_collections import ConfigDict


def get_config():
    return ConfigDict({
        'title': 'Long enough to be stopped',
        'problem': {'name': 'counterexample', 'num_clients': 10, 'dimension': 50},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'local_steps': 3, 'learning_rate': 0.1},
        'algorithms': {'fedavg': {}},
        'num_rounds': 400_000,
        'eval_every': 100,
        'num_seeds': 1,
    })
"""


@pytest.fixture(scope='module')
def config(tmp_path_factory):
    """A config that runs for a while."""
    path = tmp_path_factory.mktemp('config') / 'long.py'
    path.write_text(LONG)
    return path


def started(config, folder):
    """The command, with a few evaluations behind it."""
    process = subprocess.Popen(
        [*COMMAND, f'--config={config}', f'--workdir={folder}'],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics, deadline = folder / 'metrics.jsonl', time.monotonic() + 120
    while not (metrics.exists() and metrics.read_bytes().count(b'\n') > 5):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def last_save(folder):
    """The last line of the journal, and the number of lines of metrics."""
    line = (folder / 'checkpoints' / 'journal.jsonl').read_text().splitlines()[-1]
    entry = json.loads(line.partition(' ')[2])
    return entry, (folder / 'metrics.jsonl').read_bytes().count(b'\n')


@pytest.mark.parametrize('number, status', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(config, tmp_path, number, status):
    process = started(config, tmp_path)
    process.send_signal(number)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == status
    assert f'all is saved in {tmp_path}, and the same command goes on.' in told
    assert 'Traceback' not in told
    entry, count = last_save(tmp_path)
    assert entry['round'] == 100 * count  # nothing is left to be cut


def test_one_of_two_processes_works_and_the_other_is_told_who(config, tmp_path):
    first = started(config, tmp_path)
    try:
        second = subprocess.run(
            [*COMMAND, f'--config={config}', f'--workdir={tmp_path}'],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert second.returncode == 2
        assert f'by process {first.pid} on ' in second.stderr
        assert second.stderr.count('\n') == 1
        assert first.poll() is None
    finally:
        first.kill()
        first.communicate()


def refused(config, folder, *arguments, **changes):
    """The one line of a command that ends with status 2."""
    command = [*COMMAND, f'--config={config}', f'--workdir={folder}', *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, **changes
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count('\n') == 1, done.stderr
    return done.stderr


def test_a_disk_that_is_full_costs_one_line_and_no_earlier_data(config, tmp_path):
    """A limit on the size of files stands in for the disk."""
    import resource

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    environment = {**os.environ, 'JAX_ENABLE_COMPILATION_CACHE': 'false'}
    told = refused(config, tmp_path, preexec_fn=limit, env=environment)
    assert 'cannot be used: File too large' in told
    assert str(tmp_path) in told
    process = started(config, tmp_path)  # without the limit it goes on
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    entry, count = last_save(tmp_path)
    assert entry['round'] == 100 * count


def test_a_folder_that_is_a_file_costs_one_line(config, tmp_path):
    path = tmp_path / 'file'
    path.touch()
    assert f'{path}' in refused(config, path)


def test_start_over_sets_the_folder_aside(config, tmp_path):
    folder = tmp_path / 'run'
    folder.mkdir()
    (folder / 'experiment.json').write_text('{"title": "something else"}')
    assert 'must be new or hold a run with the same config' in refused(config, folder)
    process = subprocess.Popen(
        [*COMMAND, f'--config={config}', f'--workdir={folder}', '--start_over'],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not (folder / 'metrics.jsonl').exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    aside = tmp_path / 'run.old-1' / 'experiment.json'
    assert aside.read_text() == '{"title": "something else"}'
