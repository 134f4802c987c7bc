"""The command that predicts what links do."""

import pytest

from tests.cli.command import run


@pytest.mark.parametrize(
    'command, arguments, message',
    [
        (
            'theory',
            ['--config=configs/quickstat.py'],
            'did you mean configs/quickstart.py?',
        ),
        (
            'theory',
            ['--config=configs/quickstart.py', '--rounds=3'],
            '`rounds` must be at least 32, got 3.',
        ),
        (
            'theory',
            ['--config=configs/quickstart.py', '--config.links.probs.minimum=1.5'],
            '`config.links.probs.minimum` must lie in [0, 1], got 1.5.',
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
    done = run(command, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith('error: ')


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
