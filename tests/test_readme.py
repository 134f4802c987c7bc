"""Everything README.md shows is executed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / 'README.md').read_text()


def blocks(language):
    return re.findall(rf'```{language}\n(.*?)```', README, flags=re.DOTALL)


OTHER_COMMANDS = blocks('bash')[2].strip().splitlines()


def run(arguments, **kwargs):
    return subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, timeout=300, **kwargs
    )


def strict_environment():
    return {**os.environ, 'JAX_NUMPY_RANK_PROMOTION': 'raise'}


def test_the_example_recovers_the_exact_bias():
    done = run([sys.executable, '-c', blocks('python')[0]], env=strict_environment())
    assert done.returncode == 0, done.stderr
    fedavg = float(re.search(r"fedavg \{'server': ([\d.]+)\}", done.stdout)[1])
    client_mean = float(re.search(r"'client_mean': ([\d.]+)", done.stdout)[1])
    assert '34.615' in done.stdout
    assert abs(fedavg - 34.615) < 4 * 0.3  # standard error over 1000 seeds, measured 0.3
    assert client_mean == 50.0
    assert '34.4 with' in README
    assert f'{fedavg:.1f}' == '34.4'


def test_the_pieces_run_as_shown():
    done = run([sys.executable, '-c', blocks('python')[2]], env=strict_environment())
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r'0\.\d+', done.stdout)) == 5


def test_the_experiment_runs_as_shown():
    done = run([sys.executable, '-c', blocks('python')[1]], env=strict_environment())
    assert done.returncode == 0, done.stderr
    assert '1 algorithm x 2 patterns x 2 points x 3 seeds x 40 rounds: 480 rounds' in done.stdout
    assert done.stdout.count('0.1 0.1') >= 1
    assert len(re.findall(r'0\.\d{4,}', done.stdout)) == 2 * 2 * 3 * 2


def test_the_first_command_prints_the_table_that_readme_shows(tmp_path):
    """The command after installation, letter for letter but for the interpreter and the folder."""
    install_and_run = blocks('bash')[0].strip().split(' && ')
    assert install_and_run[0] == 'python3 -m venv .venv'
    assert install_and_run[1] == '.venv/bin/pip install -q -e .'
    command = shlex.split(install_and_run[2])
    assert command[0] == '.venv/bin/python'
    command = [sys.executable, *command[1:-1], f'--workdir={tmp_path / "run"}']
    done = run(command)
    assert done.returncode == 0, done.stderr
    row = r'^\| (fed\w+) \| (server|client mean) \| ([\d.]+) '
    shown = re.findall(row, README, flags=re.MULTILINE)
    report = (tmp_path / 'run' / 'report.md').read_text()
    printed = re.findall(row, report, flags=re.MULTILINE)
    assert len(shown) == 4
    assert [row[:2] for row in printed] == [row[:2] for row in shown]
    for ours, theirs in zip(printed, shown, strict=True):
        assert float(ours[2]) == pytest.approx(float(theirs[2]), abs=0.02)
    difference = re.search(r'client mean is ([\d.]+) ± ([\d.]+) points above FedAvg', README)
    assert f'| fedpbc | client mean | 93.3 ± 0.4 | +{difference[1]} ± {difference[2]} * |' in report
    for name in re.findall(r'`(\w+\.(?:png|jsonl|json|npz|md))`', README):
        assert (tmp_path / 'run' / name).exists() or (ROOT / name).exists(), name
    (again,) = (shlex.split(c) for c in OTHER_COMMANDS if 'report' in c)
    assert again[-1] == install_and_run[2].split()[-1]  # the same folder
    done = run([sys.executable, *again[1:-1], f'--workdir={tmp_path / "run"}'])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / 'run' / 'report.md').read_text() == report


def test_the_error_that_readme_shows_is_the_error():
    done = run(
        [
            sys.executable,
            *['-m', 'fedjax_links', 'simulate', '--config=configs/quickstart.py'],
            '--config.num_ronds=5',
        ]
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == blocks('text')[0].strip()


def test_the_test_command_is_the_one_that_ci_runs():
    assert blocks('bash')[1].strip().endswith('.venv/bin/python -m pytest -q -n 2')
    lines = [line for line in README.splitlines() if 'pytest' in line]
    assert lines[0] == blocks('bash')[1].strip()


def test_links_lead_somewhere():
    prose = re.sub(r'```.*?```', '', README, flags=re.DOTALL)
    for target in re.findall(r'\]\(([^)]+)\)', prose):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize(
    'command',
    [
        pytest.param(c, marks=pytest.mark.slow if 'simulate' in c else ())
        for c in OTHER_COMMANDS
        if 'report' not in c
    ],
)
def test_the_other_commands_run(command, tmp_path):
    """As shown, but for the interpreter, the folder and the length of the longest."""
    words = [w for w in shlex.split(command)[1:] if not w.startswith('--workdir=')]
    if '--workdir=' in command:
        words.append(f'--workdir={tmp_path}')
    if 'simulate' in command:
        words.append('--dry_run')
    done = run([sys.executable, *words])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3
