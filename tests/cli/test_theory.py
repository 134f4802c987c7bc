"""The command that predicts what links do."""

import pytest

from tests.cli.command import refused, run


@pytest.mark.parametrize(
    'command, arguments, message',
    [
        (
            'theory',
            ['--config=configs/quickstart.py', '--rounds=3'],
            '`rounds` must be at least 32, got 3.',
        ),
        (
            'links',
            ['--config=configs/quickstart.py', '--rouns=3'],
            'Did you mean: rounds',
        ),
        (
            'links',
            ['--config=configs/quickstart.py', '--workdir=README.md/x'],
            '`workdir` must name a folder, got README.md/x, where README.md is a file.',
        ),
        (
            'partition',
            ['--config=configs/quickstart.py', '--workdir=README.md/x'],
            '`workdir` must name a folder, got README.md/x, where README.md is a file.',
        ),
        (
            'figure',
            ['--config=configs/sun2025_figure1.py', '--workdir=README.md/x'],
            '`workdir` must name a folder, got README.md/x, where README.md is a file.',
        ),
        (
            'figure',
            ['--config=configs/sun2025_figure1.py', '--config.figure.num_client=9'],
            "`config.figure` has no 'num_client'; did you mean 'num_clients'?",
        ),
    ],
)
def test_a_mistake_costs_one_line(command, arguments, message):
    """Before anything is computed and printed."""
    assert message in refused(command, *arguments)


@pytest.mark.slow
def test_the_screen_is_the_same_every_time():
    arguments = ['--config=configs/quickstart.py', '--rounds=1000']
    first = run('theory', *arguments)
    second = run('theory', *arguments)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    lines = first.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert 'L1 from uniform 1.187, effective clients 11.8 of 50' in first.stdout
    assert 'As simulated (1,000 rounds of seed 0)' in first.stdout
