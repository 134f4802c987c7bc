"""The training command as a user meets it."""

import json
import os
import signal
import subprocess
import sys
import time
import types

import pytest

from fedjax_links.cli import sharding
from fedjax_links.runner import timing
from tests import ROOT
from tests.cli.command import COMMAND, in_a_process, refused, run

QUICKSTART = ['simulate', '--config=configs/quickstart.py']
OF_TWO = ['--coordinator=127.0.0.1:9999', '--num_processes=2']


@pytest.mark.slow
def test_dry_run_says_what_it_costs_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, '_TIMED_SECONDS', 0.0)  # one period of each program
    done = run(
        *QUICKSTART,
        '--config.num_rounds=200',
        '--config.eval_every=10',
        '--config.num_seeds=2',
        '--dry_run',
        f'--workdir={tmp_path / "run"}',
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('dry run  ')
    assert (
        '3 algorithms x 1 pattern x 2 seeds x 200 rounds: 1,200 rounds' in done.stdout
    )
    assert "FedAvg's implicit weights are 1.19 from equal (L1, exact)" in done.stdout
    assert done.stdout.count('compiled in') == 3
    assert not (tmp_path / 'run').exists()


PRINT_IMPORTS_OF_THREADS = """
import runpy, sys, threading
imports = []
def note(event, arguments):
    if event == 'import' and threading.current_thread() is not threading.main_thread():
        imports.append(arguments[0])
sys.addaudithook(note)
try:
    runpy.run_module('fedjax_links', run_name='__main__', alter_sys=True)
finally:
    print('of threads:', imports)
"""


@pytest.mark.slow
def test_only_the_main_thread_imports_while_it_loads(tmp_path):
    # Threads that import modules of each other can wait for each other's locks forever.
    small = ['--config.num_rounds=20', '--config.num_seeds=2']
    command = [sys.executable, '-c', PRINT_IMPORTS_OF_THREADS, *QUICKSTART, *small]
    done = subprocess.run(
        [*command, f'--workdir={tmp_path / "run"}'],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == 'of threads: []'


@pytest.mark.parametrize(
    'arguments, message',
    [
        (
            ['--config.links.probs.minimum=1.5'],
            '`config.links.probs.minimum` must lie in [0, 1], got 1.5.',
        ),
        (['--config.num_seeds=0'], '`config.num_seeds` must be at least 1, got 0.'),
        (['--devices=0'], '`devices` must be at least 1, got 0.'),
        (['--mesh=runs:2'], '`mesh` must read clients:N, N at least 1, got runs:2.'),
        (
            ['--mesh=clients:0'],
            '`mesh` must read clients:N, N at least 1, got clients:0.',
        ),
        (
            ['--mesh=clients:2', '--devices=1'],
            'a number of devices that divides `devices` = 1',
        ),
        ([*OF_TWO, '--process_id=2'], '`process_id` must be at most 1, got 2.'),
        (
            [*OF_TWO, '--process_id=0', '--mesh=clients:3'],
            '`mesh` must read clients:N, N a multiple of `num_processes` = 2, got clients:3.',
        ),
        (
            [*OF_TWO, '--process_id=0', '--mesh=clients:2', '--dry_run'],
            '`dry_run` must be left out with --coordinator, got True.',
        ),
        (['--workdir='], "`workdir` must name a file or folder, got ''."),
        (
            ['--workdir=README.md/x'],
            '`workdir` must name a folder, got README.md/x, where README.md',
        ),
        (
            ['--workdir=x', '--fork_from=./x', '--at_round=20'],
            '`workdir` must be another folder',
        ),
        (['--workdir=x', '--fork_from=tests'], '`at_round` must be given too'),
        (
            ['--workdir=x', '--allow_imports'],
            '`allow_imports` must go with `fork_from`',
        ),
        (
            ['--workdir=x', '--fork_from=tests', '--at_round=20'],
            '`fork_from` must hold a run',
        ),
        (['--config=configs/quickstat.py'], 'did you mean configs/quickstart.py?'),
    ],
)
def test_a_mistake_costs_one_line(arguments, message):
    assert message in refused(*QUICKSTART, '--workdir=x', *arguments)


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_a_killed_run_resumes_and_ends_like_an_unbroken_one(plain, tmp_path):
    # 500 evaluations of two algorithms and two seeds: 2000 lines.
    small = [*plain, '--config.num_rounds=2000', '--config.eval_every=4']
    full = run(*small, f'--workdir={tmp_path / "full"}')
    assert full.returncode == 0, full.stderr

    killed = subprocess.Popen(
        [*COMMAND, *small, f'--workdir={tmp_path / "killed"}'],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    metrics = tmp_path / 'killed' / 'metrics.jsonl'
    deadline = time.monotonic() + 200
    # It is killed soon after its first lines.
    while not (metrics.exists() and metrics.read_bytes().count(b'\n') > 22):
        assert time.monotonic() < deadline
        assert killed.poll() is None, 'the run was over before it could be killed'
        time.sleep(0.002)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert metrics.read_bytes().count(b'\n') < 2000

    resumed = in_a_process(*small, f'--workdir={tmp_path / "killed"}')
    assert resumed.returncode == 0, resumed.stderr
    assert metrics.read_bytes() == (tmp_path / 'full' / 'metrics.jsonl').read_bytes()
    report = (tmp_path / 'killed' / 'report.md').read_text()
    assert report == (tmp_path / 'full' / 'report.md').read_text()


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_a_run_is_extended_and_forked_but_takes_no_other_config(plain, tmp_path):
    done = run(*plain, f'--workdir={tmp_path / "run"}')
    assert done.returncode == 0, done.stderr
    before = (tmp_path / 'run' / 'metrics.jsonl').read_bytes()
    for field, text in (
        ('num_seeds=1', '`num_seeds` must be at least 2, the seeds of'),
        ('first_seed=1', 'config.first_seed is None and not 1'),
    ):
        other = run(*plain, f'--config.{field}', f'--workdir={tmp_path / "run"}')
        assert other.returncode == 2
        assert text in other.stderr
    assert (tmp_path / 'run' / 'metrics.jsonl').read_bytes() == before

    longer = run(*plain, '--config.num_rounds=40', f'--workdir={tmp_path / "run"}')
    full = run(*plain, '--config.num_rounds=40', f'--workdir={tmp_path / "full"}')
    assert longer.returncode == full.returncode == 0, longer.stderr
    extended_lines, full_lines = (
        (tmp_path / name / 'metrics.jsonl').read_text().splitlines()
        for name in ('run', 'full')
    )
    assert sorted(extended_lines) == sorted(full_lines)
    extended_report, full_report = (
        (tmp_path / name / 'report.md').read_bytes() for name in ('run', 'full')
    )
    assert extended_report == full_report

    fork = [
        *plain,
        '--config.num_rounds=40',
        f'--fork_from={tmp_path / "full"}',
        '--at_round=20',
    ]
    same = run(*fork, f'--workdir={tmp_path / "fork"}')
    assert same.returncode == 0, same.stderr
    ours = (tmp_path / 'fork' / 'metrics.jsonl').read_text().splitlines()
    assert ours == [line for line in full_lines if json.loads(line)['round'] > 20]
    assert 'fedavg' in (tmp_path / 'fork' / 'report.md').read_text()

    for command, message in (
        (
            [*plain, f'--fork_from={tmp_path}', '--at_round=20'],
            '`fork_from` must hold a run',
        ),
        ([*plain, '--at_round=20'], '`fork_from` must be given too, got None.'),
        (
            [*fork, '--config.eval_every=8'],
            '`at_round` must be a multiple of `eval_every` = 8',
        ),
    ):
        assert message in refused(*command, f'--workdir={tmp_path / "wrong"}')
        assert not (tmp_path / 'wrong').exists()
    onto = refused(*fork, '--start_over', f'--workdir={tmp_path / "full"}')
    assert '`workdir` must be another folder than `fork_from`' in onto
    assert (tmp_path / 'full' / 'metrics.jsonl').exists()


FEW = """
from configs.comparison import get_config as everything

def get_config():
    config = everything()
    for label in list(config.algorithms):
        if label not in ('fedavg', 'mifa'):
            del config.algorithms[label]
    for label in list(config.patterns):
        if label not in ('bernoulli_sine', 'cyclic'):
            del config.patterns[label]
    config.update({'num_rounds': 10, 'eval_every': 5, 'num_seeds': 2})
    config.tuning.update({'num_rounds': 5, 'num_seeds': 1, 'learning_rates': (0.1,)})
    return config
"""


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_a_finished_comparison_takes_another_title_at_once(tmp_path):
    config = tmp_path / 'few.py'
    folder = tmp_path / 'run'
    config.write_text(FEW)
    command = ['simulate', f'--config={config}', f'--workdir={folder}']
    first = run(*command)
    assert first.returncode == 0, first.stderr
    report = (folder / 'report.md').read_text()
    metrics = (folder / 'metrics.jsonl').read_text()
    assert report.count('| mifa | server |') == 2

    shorter = run(*command, '--config.num_rounds=5')
    assert shorter.returncode == 2
    assert shorter.stderr.count('\n') == 1
    assert shorter.stderr.startswith(
        'error: `num_rounds` must be at least 10, the rounds of '
    )
    assert (folder / 'report.md').read_text() == report

    shown = run(*command, '--config.title=Another title')
    assert shown.returncode == 0, shown.stderr
    assert (folder / 'metrics.jsonl').read_text() == metrics
    _, *body = report.splitlines()
    new_report = (folder / 'report.md').read_text().splitlines()
    assert new_report == ['# Another title', *body]
    assert '"title": "Another title"' in (folder / 'config.json').read_text()


MINE = """
import jax.numpy as jnp
import numpy as np
import fedjax_links as fl
from fedjax_links import base
from fedjax_links.clients import cohorts
from fedjax_links.core import tree
from fedjax_links.algorithms import common


def slow_fedavg(local_train, *, damping):
    return fl.ALGORITHMS['fedavg'](local_train, server_lr=damping)


def odd_rounds(num_clients):
    def sample(carry, key, round):
        mask = jnp.arange(num_clients) % 2 == round % 2
        return carry, base.LinkSample(mask=mask, prob=jnp.full(num_clients, 0.5))

    return base.Participation(init=lambda key: (), sample=sample, num_clients=num_clients)


def lines(*, num_clients):
    features = np.linspace(-1, 1, 8 * num_clients).astype(np.float32)[:, None]

    def loss_fn(params, batch):
        return jnp.mean(jnp.square(batch.features @ params - batch.labels))

    def metrics(params, batch):
        error = batch.features @ params - batch.labels
        return {'loss': loss_fn(params, batch), 'closeness': -jnp.max(jnp.abs(error))}

    return fl.problems.from_arrays(
        features, 3 * features[:, 0], np.arange(len(features)) % num_clients,
        init_params=lambda key: jnp.zeros(1), loss_fn=loss_fn, metrics=metrics,
        larger_is_better=('closeness',),
    )
"""
OWN = """
from ml_collections import ConfigDict


def get_config():
    return ConfigDict({
        'title': 'All my own',
        'problem': {'name': 'mine:lines', 'num_clients': 4},
        'links': {'name': 'mine:odd_rounds'},
        'client': {'local_steps': 2},
        'algorithms': {'slow': {'name': 'mine:slow_fedavg', 'damping': 0.5}, 'fedavg': {}},
        'tuning': {
            'learning_rates': (1e-4, 0.1),
            'pattern': 'links',
            'num_rounds': 10,
            'num_seeds': 1,
        },
        'metric': 'train_closeness',
        'num_rounds': 10,
        'eval_every': 5,
        'num_seeds': 1,
    })
"""


@pytest.mark.usefixtures('unrendered')
def test_a_config_runs_parts_of_a_file_beside_it(tmp_path):
    """Tuning takes the rate with the larger value of their metric, as they say."""
    (tmp_path / 'mine.py').write_text(MINE)
    (tmp_path / 'own.py').write_text(OWN)
    arguments = ['simulate', f'--config={tmp_path / "own.py"}']
    done = run(*arguments, f'--workdir={tmp_path / "run"}')
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / 'run' / 'metrics.jsonl').open()]
    main = [row for row in rows if 'stage' not in row]
    assert {row['client.learning_rate'] for row in main} == {0.1}
    final_closeness = {
        row['algorithm']: row['server/train_closeness']
        for row in main
        if row['round'] == 10
    }
    assert final_closeness['slow'] < final_closeness['fedavg'] < 0
    assert {row['rounds/num_active'] for row in main} == {10}
    assert refused(*arguments, '--dry_run', '--config.links.name=mine:od_rounds') == (
        "error: `config.links.name` has no 'od_rounds'; did you mean 'odd_rounds'?\n"
    )


def test_only_a_mesh_reads_how_its_process_was_started(monkeypatch, capsys):
    step = {
        'JOB_ID': '5',
        'PROCID': '1',
        'STEP_NUM_TASKS': '4',
        'STEP_NODELIST': 'node[3-6]',
    }
    for name, value in step.items():
        monkeypatch.setenv(f'SLURM_{name}', value)
    names = 'mesh', 'coordinator', 'num_processes', 'process_id'
    unset = dict.fromkeys(names)
    for changes in ({}, {'mesh': 'clients:4', 'coordinator': 'here:1'}, {'devices': 2}):
        flags = types.SimpleNamespace(**unset | changes)
        sharding.set_process_flags(flags)
        assert vars(flags) == unset | changes
    assert capsys.readouterr().out == ''
    flags = types.SimpleNamespace(**unset | {'mesh': 'clients:4'})
    sharding.set_process_flags(flags)
    assert flags.coordinator == 'node3:61445'
    assert flags.num_processes == 4
    assert flags.process_id == 1
    text = 'process 1 of 4 as SLURM_PROCID says, coordinator node3:61445\n'
    assert capsys.readouterr().out == text
