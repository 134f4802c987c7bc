"""The command that predicts what links do."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
COMMANDS = ('theory', 'links', 'figure')


def run(command, *arguments):
    return subprocess.run(
        [sys.executable, '-m', f'fedjax_links.cli.{command}', *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize('command', COMMANDS)
def test_help_needs_neither_jax_nor_a_second(command):
    probe = (
        f'import sys, fedjax_links.cli.{command}; '
        'print({"jax", "numpy", "matplotlib", "tensorflow"} & sys.modules.keys())'
    )
    done = subprocess.run(
        [sys.executable, '-c', probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == 'set()'
    times = []
    for _ in range(3):
        began = time.perf_counter()
        assert '--config' in run(command, '--help').stdout
        times.append(time.perf_counter() - began)
    assert min(times) < 1


@pytest.mark.parametrize(
    'command, arguments, message',
    [
        ('theory', ['--config=configs/quickstat.py'], 'did you mean configs/quickstart.py?'),
        ('theory', ['--config=configs/quickstart.py', '--rounds=3'], 'flag --rounds=3'),
        (
            'theory',
            ['--config=configs/quickstart.py', '--config.links.probs.minimum=1.5'],
            '`config.links.probs.minimum` must lie in [0, 1], got 1.5.',
        ),
        ('links', ['--config=configs/quickstart.py', '--rouns=3'], 'Did you mean: rounds'),
        (
            'links',
            ['--config=configs/quickstart.py', '--workdir=README.md/x'],
            '`workdir` must name a folder, got README.md/x: Not a directory.',
        ),
        ('figure', ['--config=configs/sun2025_figure1.py'], '`workdir` must name a folder'),
        (
            'figure',
            ['--config=configs/quickstart.py'],
            "`config` has no 'algorithms'; valid names: caption",
        ),
        (
            'figure',
            ['--config=configs/sun2025_figure1.py', '--config.figure.num_client=9'],
            "`config` has no 'figure.num_client'; did you mean 'figure.num_clients'?",
        ),
    ],
)
def test_a_mistake_costs_one_line(command, arguments, message):
    done = run(command, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith('error: ')


def test_the_screen_is_the_same_every_time():
    arguments = ['--config=configs/quickstart.py', '--rounds=1000']
    first, second = run('theory', *arguments), run('theory', *arguments)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    lines = first.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert 'L1 from uniform 1.187, effective clients 11.8 of 50' in first.stdout
    assert 'As simulated (1,000 rounds of seed 0)' in first.stdout
