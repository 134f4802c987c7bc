"""Signals, full disks, second processes and errors, as a user meets them."""

import os
import signal
import subprocess
import time

import pytest

from fedjax_links import experiment, runs
from tests import ROOT
from tests.cli import command

COMMAND = [*command.COMMAND, 'simulate']
LONG = """
from ml_collections import ConfigDict


def get_config():
    return ConfigDict({
        'title': 'Long enough to be stopped',
        'problem': {'name': 'counterexample', 'num_clients': 10, 'dimension': 50},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'local_steps': 3, 'learning_rate': 0.1},
        'algorithms': {'fedavg': {}},
        'num_rounds': 40_000_000,
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
    """Starts the command, and waits until it has made a few new evaluations."""
    before = num_lines(folder)
    process = subprocess.Popen(
        [*COMMAND, f'--config={config}', f'--workdir={folder}'],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while num_lines(folder) <= before + 5:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def num_lines(folder):
    """The number of lines of metrics."""
    metrics = folder / 'metrics.jsonl'
    return metrics.read_bytes().count(b'\n') if metrics.exists() else 0


def last_save(folder):
    """The round of the one lane's last save, and the lines of metrics in it."""
    (lane,) = runs.lanes(folder)
    return lane.round, len(lane.lines)


def stop(process, folder, number, status):
    """Sends a signal: the command saves, and says how to resume."""
    process.send_signal(number)
    output = process.communicate(timeout=60)[1]
    assert process.returncode == status
    assert f'all is saved in {folder}, and the same command resumes.' in output
    assert 'Traceback' not in output
    assert last_save(folder) == (100 * num_lines(folder), num_lines(folder))


@pytest.mark.slow
def test_one_of_two_processes_works_and_the_other_names_it(config, tmp_path):
    first = started(config, tmp_path)
    try:
        second = command.in_a_process(
            'simulate', f'--config={config}', f'--workdir={tmp_path}'
        )
        message = command.one_line(second)
        assert f'by process {first.pid} on ' in message
        assert first.poll() is None
        stop(first, tmp_path, signal.SIGTERM, 143)
    finally:
        first.kill()
        first.communicate()


def test_ctrl_c_before_the_run_says_nothing(tmp_path):
    """A config that interrupts itself stands in for the user while modules are imported."""
    path = tmp_path / 'interrupted.py'
    path.write_text(f'import os, signal\n{LONG}\nos.kill(os.getpid(), signal.SIGINT)\n')
    done = subprocess.run(
        [*COMMAND, f'--config={path}', f'--workdir={tmp_path / "run"}'],
        cwd=ROOT,
        # The signal may be ignored in this process, which a child inherits.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, '', '')
    assert not (tmp_path / 'run').exists()


@pytest.mark.slow
def test_a_disk_that_is_full_costs_one_line_and_no_earlier_data(config, tmp_path):
    """A limit on the size of files stands in for the disk."""
    import resource

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    done = subprocess.run(
        [*COMMAND, f'--config={config}', f'--workdir={tmp_path}'],
        cwd=ROOT,
        env={**os.environ, 'JAX_ENABLE_COMPILATION_CACHE': 'false'},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    message = command.one_line(done)
    assert 'cannot be used: File too large' in message
    assert str(tmp_path) in message
    process = started(config, tmp_path)  # without the limit it resumes
    stop(process, tmp_path, signal.SIGINT, 130)


def test_a_folder_that_is_a_file_costs_one_line(config, tmp_path):
    path = tmp_path / 'file'
    path.touch()
    link = tmp_path / 'link'
    link.symlink_to(tmp_path / 'nothing')
    for workdir, kind in ((path, 'a file'), (link, 'a link to nothing')):
        line = command.refused('simulate', f'--config={config}', f'--workdir={workdir}')
        assert f'`workdir` must name a folder, got {workdir}' in line
        assert line.endswith(f' is {kind}.\n')


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_start_over_sets_the_folder_aside(plain, tmp_path):
    folder = tmp_path / 'run'
    simulate = [*plain, f'--workdir={folder}']
    first = command.run(*simulate, '--config.client.learning_rate=0.001')
    assert first.returncode == 0, first.stderr
    before = (folder / 'metrics.jsonl').read_bytes()
    other = command.run(*simulate)
    assert 'must be new or hold a run with the same config' in command.one_line(other)
    assert other.stdout == ''  # before problem and links are described
    done = command.run(*simulate, '--start_over')
    assert done.returncode == 0, done.stderr
    assert (folder / 'metrics.jsonl').read_bytes() != before
    assert (tmp_path / 'run.old-1' / 'metrics.jsonl').read_bytes() == before


def test_a_folder_of_something_else_is_not_set_aside(plain, tmp_path):
    (tmp_path / 'experiment.json').write_text('{"title": "something else"}')
    message = command.one_line(
        command.run(*plain, f'--workdir={tmp_path}', '--start_over')
    )
    assert 'must name a new folder, an empty one, or that of a run' in message
    assert (tmp_path / 'experiment.json').read_text() == '{"title": "something else"}'


OWN_CONFIG = """
import fedjax_links as fl


def get_config():
    return {{
        'title': 'One of my own',
        'problem': {{'name': 'counterexample', 'num_clients': 10, 'dimension': 5}},
        'links': {links},
        'client': {{'local_steps': 3, 'learning_rate': 0.1}},
        'algorithms': {{'fedavg': {{}}}},
        'num_rounds': 10,
        'eval_every': 5,
    }}


def links(num_clients):
    return fl.participation.bernoulli([{prob}] * num_clients)


def raises(num_clients):
    return num_clients.missing


def raises_itself(num_clients):
    error = KeyError('one')
    raise error from error
"""


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'links': "'own:raises'"}, '`own.py` must run, got AttributeError: '),
        (
            {'links': "'own:raises_itself'"},
            "`own.py` must run, got KeyError: 'one' on ",
        ),
        (
            {'links': "'own:links'", 'prob': 2.0},
            '`config.links.schedule` must lie in [0, 1], ',
        ),
        (
            {'links': "'owm:links'"},
            '`config.links` must name a module that can be imported, '
            'got owm:links; beside the config is own.py.',
        ),
    ],
)
def test_an_error_of_ones_own_code_is_named_with_its_line(tmp_path, changes, message):
    defaults = {'links': "'always'", 'prob': 0.5}
    text = OWN_CONFIG.format(**{**defaults, **changes})
    (tmp_path / 'own.py').write_text(text)
    error = command.refused('simulate', '--config=own.py', '--workdir=w', cwd=tmp_path)
    assert error.startswith(f'error: {message}')
    if 'AttributeError' in message:
        lines = enumerate(text.splitlines(), 1)
        line = next(number for number, line in lines if 'num_clients.missing' in line)
        assert f'line {line} of ' in error


def test_an_error_in_a_traced_function_has_no_note_of_jax(tmp_path):
    text = OWN_CONFIG.format(links="'always'", prob=0.5)
    (tmp_path / 'own.py').write_text(
        f'{text}\n\ndef measured():\n'
        '    def measure(params, key, problem):\n'
        "        raise KeyError('lost')\n"
        '    return measure\n'
    )
    flags = ['--config=own.py', '--workdir=w', '--config.eval_fn=own:measured']
    error = command.refused('simulate', *flags, cwd=tmp_path)
    assert error.startswith("error: `own.py` must run, got KeyError: 'lost' on line ")
    assert error.endswith('own.py.\n')


def test_a_bug_keeps_its_traceback_and_asks_for_a_report(tmp_path, monkeypatch):
    (tmp_path / 'own.py').write_text(OWN_CONFIG.format(links="'always'", prob=0.5))
    monkeypatch.setattr(experiment.Experiment, 'describe', None)
    done = command.run('simulate', '--config=own.py', '--workdir=w', cwd=tmp_path)
    assert done.returncode == 1
    assert 'Traceback' in done.stderr
    assert "TypeError: 'NoneType' object is not callable" in done.stderr
    assert done.stderr.splitlines()[-1].startswith('This is a bug of fedjax_links')
