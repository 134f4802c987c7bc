"""The command that shows how data are spread, and mistakes about data on the command line."""

import os
import subprocess
import sys

import pytest

from tests import ROOT
from tests.cli.command import refused, run

CONFIG = '--config=configs/comparison.py'
CONFIG_OF_A_PROBLEM = """
def get_config():
    return {
        'title': 'test',
        'problem': %r,
        'links': 'always',
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedavg': {}},
        'num_rounds': 2,
        'eval_every': 2,
    }
"""


def test_a_partition_is_described_and_drawn(tmp_path):
    folder = tmp_path / 'new'
    done = run(
        'partition', CONFIG, '--config.problem.num_clients=12', f'--workdir={folder}'
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (
        lines[0]
        == 'digits, num_clients 12, partition dirichlet, order numbers, alpha 0.1, seed 0'
    )
    assert lines[1] == '12 clients (0 without examples), 1438 examples, 10 classes'
    assert lines[-1] == f'Wrote {folder}/partition.png'
    assert max(map(len, lines[:-1])) <= 80
    assert (folder / 'partition.png').read_bytes().startswith(b'\x89PNG')


def test_a_problem_without_classes_shows_its_volumes(tmp_path):
    section = {'name': 'counterexample', 'num_clients': 4, 'dimension': 3}
    (tmp_path / 'config.py').write_text(CONFIG_OF_A_PROBLEM % section)
    done = run('partition', f'--config={tmp_path}/config.py', f'--workdir={tmp_path}')
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == '4 clients (0 without examples), 4 examples'
    assert (tmp_path / 'partition.png').read_bytes().startswith(b'\x89PNG')


def test_a_config_without_a_problem_costs_one_line(tmp_path):
    (tmp_path / 'config.py').write_text(
        "def get_config():\n    return {'title': 'test'}\n"
    )
    message = refused('partition', f'--config={tmp_path}/config.py')
    assert message.startswith("error: `config` must have 'problem', got only ['title']")


def test_a_mistake_about_data_costs_one_line(tmp_path):
    section = {
        'name': 'images',
        'model': 'softmax',
        'num_clients': 4,
        'dataset': 'cifar10',
        'data': {'data_dir': '/nowhere'},
    }
    (tmp_path / 'config.py').write_text(CONFIG_OF_A_PROBLEM % section)
    message = (
        '`config.problem.data.data_dir` must hold the data set (run `python -m fedjax_links '
        'data fetch cifar10 --data_dir=/nowhere`), got no /nowhere/cifar10.npz.'
    )
    assert message in refused('partition', f'--config={tmp_path}/config.py')


def run_with(prelude, config, tmp_path):
    """The command in a process that does ``prelude`` first."""
    script = (
        f'import runpy, sys\n{prelude}\n'
        f'sys.argv = ["partition", {config!r}, "--workdir={tmp_path}"]\n'
        'runpy.run_module("fedjax_links.cli.partition", run_name="__main__")'
    )
    return subprocess.run(
        [sys.executable, '-c', script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
    )


@pytest.mark.slow
def test_a_missing_package_is_one_line_and_a_bug_a_traceback(tmp_path):
    section = {
        'name': 'images',
        'model': 'softmax',
        'num_clients': 4,
        'dataset': 'tfds',
        'data': {'name': 'mnist', 'data_dir': str(tmp_path)},
    }
    (tmp_path / 'mnist' / '3.0.1').mkdir(parents=True)
    (tmp_path / 'mnist' / '3.0.1' / 'dataset_info.json').touch()
    (tmp_path / 'config.py').write_text(CONFIG_OF_A_PROBLEM % section)
    prelude = 'sys.modules["tensorflow_datasets"] = None'
    done = run_with(prelude, f'--config={tmp_path}/config.py', tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        'error: prepared data need TensorFlow Datasets: `pip install'
    )
    assert done.stderr.count('\n') == 1
    prelude = 'sys.modules["fedjax_links.preview.partitions"] = None'
    bug = run_with(prelude, CONFIG, tmp_path)
    assert bug.returncode == 1
    assert 'Traceback' in bug.stderr
    assert 'ModuleNotFoundError: import of' in bug.stderr
