"""What the page on clusters shows runs letter for letter, and leaves the bytes of one process."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from fedjax_links import runs
from tests import ROOT
from tests.cli import command
from tests.docs import pages
from tests.experiment.configs import last_files_of
from tests.experiment.several import environment

PAGE = (pages.DOCS / 'cluster.md').read_text()
CONFIG = {
    'title': 'Cluster',
    'problem': {'name': 'counterexample', 'num_clients': 20, 'dimension': 50},
    'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
    'client': {'local_steps': 3},
    'algorithms': {'fedavg': {}, 'fedpbc': {}},
    'tuning': {'learning_rates': (0.05, 0.1), 'num_rounds': 20},
    'num_rounds': 40,
    'eval_every': 20,
    'num_seeds': 2,
    'metric': 'loss',
}


def text_of(config):
    """Returns the text of a file that has a config."""
    return f'def get_config():\n    return {config!r}\n'


TEXT = text_of(CONFIG)
LONG = 1_000_000
PERIOD = 10_000
PROGRAMS = {
    'ssh': '#!/bin/sh\ncd {node_home} && exec sh -c "$2"\n',
    'rsync': '#!/bin/sh\nexec cp -r "{node_home}/${{2#*:}}" "$3"\n',
}
"""Take the place of those that reach other machines."""
HAS_SLURM = bool(
    shutil.which('sbatch')
    and subprocess.run(['sinfo', '-h'], capture_output=True, check=False).stdout
)
needs_slurm = pytest.mark.skipif(
    not HAS_SLURM, reason='no SLURM: `sinfo` finds no partition'
)


def block(language, word):
    """Returns the one block of a language that has a word."""
    (text,) = [text for text in pages.code(PAGE, language) if word in text]
    return text


SHIPPED = (ROOT / 'configs' / 'quickstart.py').read_text()


def write_configs(folder, text):
    """Writes the configs that the page names: a comparison of this text, and the quickstart."""
    (folder / 'configs').mkdir(parents=True)
    (folder / 'configs' / 'comparison.py').write_text(text)
    (folder / 'quickstart.py').write_text(SHIPPED)


@pytest.fixture
def home(tmp_path):
    """A folder to type in."""
    write_configs(tmp_path, TEXT)
    (tmp_path / 'bin').mkdir()
    return tmp_path


def variables(home, **more):
    """Returns the variables of a shell in which `python` is this one."""
    path = f'{home / "bin"}:{Path(sys.executable).parent}:{os.environ["PATH"]}'
    return environment({'PATH': path, 'PYTHONPATH': f'{home}:{ROOT}', **more})


def run(home, *words, **more):
    """Runs a program to its end."""
    options = {'capture_output': True, 'text': True, 'timeout': 500, 'check': False}
    done = subprocess.run(words, cwd=home, env=variables(home, **more), **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@functools.cache
def files_of_one_process(config):
    """Returns what a run of a config, given as text, keeps in one process."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        (home / 'configs').mkdir()
        (home / 'configs' / 'comparison.py').write_text(config)
        command = [
            'python',
            '-m',
            'fedjax_links',
            'simulate',
            '--config=configs/comparison.py',
        ]
        run(home, *command, '--workdir=one')
        return last_files_of(home / 'one')


def check_is_that_of_one_process(home, folder='runs/map', report=True):
    """Compares all that is kept with a run in one process, its report only if there is one."""
    left_out = ('.old',) if report else ('report.md', '.png', 'clients.npz')
    full = files_of_one_process((home / 'configs' / 'comparison.py').read_text())
    full = {
        name: content for name, content in full.items() if not name.endswith(left_out)
    }
    result = {
        name: content
        for name, content in last_files_of(home / folder).items()
        if not name.endswith(left_out)
    }
    assert result == full


def scripted(home, text, name='script.sh'):
    """Writes a block as a file."""
    (home / name).write_text(text)
    return home / name


@pytest.mark.slow
@pytest.mark.release('test_three_workstations')
def test_the_script_of_an_array_does_as_slurm_would_start_it(home):
    script = scripted(home, block('bash', '#SBATCH'))
    last = re.search(r'--array=0-(\d+)%', script.read_text())[1]
    assert last == '63'
    for index in range(2):
        array = {'TASK_ID': index, 'TASK_MIN': 0, 'TASK_MAX': 1, 'TASK_COUNT': 2}
        options = {f'SLURM_ARRAY_{name}': str(value) for name, value in array.items()}
        run(home, 'bash', script, **options)
    (merge,) = re.findall(r"--wrap='(.*)'", block('bash', '--wrap'))
    run(home, 'bash', '-c', merge)
    check_is_that_of_one_process(home)


def task_of_slurm(output):
    """The number of the job that sbatch made last."""
    return re.search(r'Submitted batch job (\d+)', output)[1]


def is_in_queue(job):
    """Whether a job of SLURM waits or runs."""
    words = ['squeue', '-h', '-j', job]
    return bool(subprocess.run(words, capture_output=True, check=False).stdout)


def wait_until(is_so, seconds):
    """Looks twice a second."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.slow
@needs_slurm
def test_an_array_of_slurm_one_of_whose_tasks_is_requeued(tmp_path):
    """Six tasks, of which one is taken away once it has saved a part of a lane."""
    config = {
        **CONFIG,
        'num_rounds': LONG,
        'eval_every': PERIOD,
        'num_seeds': 6,
        'tuning': {**CONFIG['tuning'], 'num_rounds': PERIOD},
    }
    write_configs(tmp_path, text_of(config))
    scripted(tmp_path, block('bash', '#SBATCH').replace('0-63%16', '0-5'), 'map.sh')
    script = scripted(tmp_path, f'{block("bash", "--wrap")}echo $array')
    output = run(tmp_path, 'bash', script)
    merging = task_of_slurm(output)
    array = output.split()[-1]

    def started_tasks():
        division = runs.read_division(tmp_path / 'runs' / 'map')
        saved = runs.saves(tmp_path / 'runs' / 'map') if division else {}
        return [
            division.lanes[k]
            for k, files in saved.items()
            if PERIOD < max(files) < LONG
        ]

    wait_until(started_tasks, 200)
    task = f'{array}_{started_tasks()[0]}'
    subprocess.run(['scontrol', 'requeue', task], check=True)
    wait_until(lambda: not is_in_queue(merging), 500)
    log = (tmp_path / f'slurm-{task}.out').read_text()
    assert log.count('as SLURM_ARRAY_TASK_ID says') == 2
    check_is_that_of_one_process(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    'has_one_disk',
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.release(
                'test_the_script_of_an_array_does_as_slurm_would_start_it'
            ),
        ),
    ],
)
def test_three_workstations(home, has_one_disk):
    """This machine plays all of them, each in its home folder."""
    scripts = pages.code(PAGE, 'bash')
    shared, copied = [text for text in scripts if text.startswith('for k')]
    assert 'rsync' not in shared
    assert 'rsync' in copied
    if has_one_disk:
        script = shared
        node_home = home
    else:
        script = copied
        node_home = f'{home}/$(echo $@ | grep -o node. | head -1)-home'
        for number in (1, 2, 3):
            write_configs(home / f'node{number}-home', TEXT)
    for name, text in PROGRAMS.items():
        program = scripted(home / 'bin', text.format(node_home=node_home), name)
        program.chmod(0o755)
    run(home, 'bash', scripted(home, script))
    check_is_that_of_one_process(home)


@pytest.mark.parametrize('index', [0, 63])
def test_a_pod_has_a_command_that_is_one(home, index):
    yaml = pytest.importorskip('yaml')
    job = yaml.safe_load(block('yaml', 'kind: Job'))
    pod = job['spec']['template']['spec']
    (container,) = pod['containers']
    (mounted,) = container['volumeMounts']
    (volume,) = pod['volumes']
    assert (job['apiVersion'], job['spec']['completionMode']) == ('batch/v1', 'Indexed')
    assert mounted['name'] == volume['name']
    python, module, package, *words = container['command']
    assert [python, module, package] == ['python', '-m', 'fedjax_links']
    options = dict(word.split('=', 1) for word in words if '=' in word)
    assert options['--workdir'].startswith(f'{mounted["mountPath"]}/')
    assert options['--shard'] == f'$(JOB_COMPLETION_INDEX)/{job["spec"]["completions"]}'
    assert (ROOT / 'configs' / f'{options["--config"]}.py').exists()
    options |= {
        '--config': f'{home}/configs/comparison.py',
        '--workdir': f'{home}/run',
        '--shard': options['--shard'].replace('$(JOB_COMPLETION_INDEX)', str(index)),
    }
    done = command.run(words[0], *map('='.join, options.items()), '--dry_run')
    assert done.returncode == 0, done.stderr
    assert f'shard    {index} of 64' in done.stdout


@pytest.mark.parametrize('executor', ['submitit', 'distributed', 'concurrent.futures'])
def test_what_a_script_hands_to_an_executor_is_built(executor, monkeypatch):
    """Its jobs run in `test_jobs_of_an_executor`."""
    monkeypatch.syspath_prepend(ROOT / 'configs')
    text = block('python', executor)
    names = {}
    for line in re.findall(r'^from .*', text, flags=re.MULTILINE):
        if 'distributed' not in line:
            exec(line, names)
    (built,) = re.findall(r'(experiment\.build\(.*?\))\.run\(', text)
    planned = eval(built, names)
    assert list(planned.algorithms) == ['fedavg', 'fedavg_all', 'fedpbc']


@pytest.mark.slow
@pytest.mark.parametrize(
    'executor',
    [
        pytest.param('submitit', marks=pytest.mark.release('test_submitit')),
        pytest.param(
            'distributed',
            marks=pytest.mark.release('test_a_dask_cluster_that_loses_a_worker'),
        ),
        pytest.param(
            'concurrent.futures',
            marks=pytest.mark.release(
                'test_jobs_give_the_bytes_and_periods_of_one_process'
            ),
        ),
    ],
)
def test_jobs_of_an_executor(tmp_path, executor):
    """The page's scripts run; that of Dask on the cluster that the page starts."""
    pytest.importorskip(executor)
    if executor == 'distributed' and not shutil.which('dask'):
        pytest.skip('the command `dask` is not on the path')
    home = tmp_path
    write_configs(home, SHIPPED)
    if executor == 'submitit' and shutil.which('srun') and not HAS_SLURM:
        pytest.skip(
            'submitit takes SLURM where `srun` is, and `sinfo` finds no partition'
        )
    scripted(home, block('python', executor), 'jobs.py')
    if executor == 'distributed':
        text = block('bash', 'dask scheduler')
        text += 'python jobs.py; status=$?; kill $(jobs -p); wait; exit $status'
        run(home, 'bash', scripted(home, text))
    else:
        run(home, 'python', 'jobs.py')
    check_is_that_of_one_process(home, report=False)
