"""The training command as a user meets it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, '-m', 'fedjax_links.cli.simulate']
QUICKSTART = [*COMMAND, '--config=configs/quickstart.py']
SMALL = [*QUICKSTART, '--config.num_rounds=200', '--config.eval_every=10', '--config.num_seeds=2']


def run(command, **kwargs):
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, **kwargs
    )


def test_help_needs_neither_jax_nor_a_second():
    probe = (
        'import sys, fedjax_links.cli.simulate; '
        'print({"jax", "matplotlib", "orbax", "tensorflow"} & sys.modules.keys())'
    )
    assert run([sys.executable, '-c', probe]).stdout.strip() == 'set()'
    times = []
    for _ in range(3):
        began = time.perf_counter()
        assert 'workdir' in run([*COMMAND, '--help']).stdout
        times.append(time.perf_counter() - began)
    assert min(times) < 1


def test_dry_run_says_what_it_costs_and_writes_nothing(tmp_path):
    done = run([*SMALL, '--dry_run', f'--workdir={tmp_path / "run"}'])
    assert done.returncode == 0, done.stderr
    assert '3 algorithms x 2 seeds x 200 rounds = 1,200 rounds in 3 programs' in done.stdout
    assert done.stdout.count('compiled in') == 3
    assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--config.num_ronds=5'], "`config` has no 'num_ronds'; did you mean 'num_rounds'?"),
        (['--config.num_rounds=many'], '--config.num_rounds=many'),
        (['--config.links.probs.minimum=1.5'], '`minimum` must lie in [0, 1], got 1.5.'),
        (['--confg=x'], "Unknown command line flag 'confg'. Did you mean: config ?"),
        (['extra'], "unexpected argument 'extra'"),
        (['--config.num_seeds=0'], '`config.num_seeds` must be at least 1, got 0.'),
        ([], '`workdir` must name a folder'),
        (['--config=configs/quickstat.py'], 'did you mean configs/quickstart.py?'),
    ],
)
def test_a_mistake_costs_one_line(arguments, message):
    done = run([*QUICKSTART, *arguments])
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith('error: ')


def test_a_killed_run_goes_on_and_ends_like_an_unbroken_one(tmp_path):
    whole = run([*SMALL, f'--workdir={tmp_path / "whole"}'])
    assert whole.returncode == 0, whole.stderr

    killed = subprocess.Popen(
        [*SMALL, f'--workdir={tmp_path / "killed"}'],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    metrics = tmp_path / 'killed' / 'metrics.jsonl'
    deadline = time.monotonic() + 200
    while not (metrics.exists() and metrics.read_bytes().count(b'\n') > 22):
        assert time.monotonic() < deadline
        assert killed.poll() is None, 'the run was over before it could be killed'
        time.sleep(0.002)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert metrics.read_bytes().count(b'\n') < 60

    resumed = run([*SMALL, f'--workdir={tmp_path / "killed"}'])
    assert resumed.returncode == 0, resumed.stderr
    assert metrics.read_bytes() == (tmp_path / 'whole' / 'metrics.jsonl').read_bytes()
    assert (tmp_path / 'killed' / 'table.md').read_text() == (
        tmp_path / 'whole' / 'table.md'
    ).read_text()


def test_another_config_does_not_overwrite_a_run(tmp_path):
    few = [*SMALL, '--config.num_rounds=20', f'--workdir={tmp_path}']
    assert run(few).returncode == 0
    before = (tmp_path / 'metrics.jsonl').read_bytes()
    done = run([*few, '--config.num_seeds=3'])
    assert done.returncode == 2
    assert 'config.num_seeds is 2 and not 3' in done.stderr
    assert (tmp_path / 'metrics.jsonl').read_bytes() == before
