"""The commands compare and export as a user meets them."""

import shutil

import pytest

from tests.cli import command
from tests.report.standing import experiment


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Three runs: one, its copy with a caption, and one with a nudged entry."""
    folder = tmp_path_factory.mktemp('runs')
    experiment().run(folder / 'one')
    shutil.copytree(folder / 'one', folder / 'again')
    experiment(caption='The same.').run(folder / 'again')
    experiment(odd={'nudge': (3,)}).run(folder / 'odd')
    return folder


def run(folder, *arguments):
    return command.run(*arguments, cwd=folder)


def test_equal_runs_exit_with_0(folder):
    done = run(folder, 'compare', 'one', 'again')
    assert (done.returncode, done.stderr) == (0, '')
    lines = done.stdout.splitlines()
    assert lines[0] == 'one | again'
    assert lines[-1] == 'equal (8 lanes in common, 32 lines of metrics, 8 states)'


def test_different_runs_exit_with_1_and_say_where(folder):
    done = run(folder, 'compare', 'one', 'odd')
    assert (done.returncode, done.stderr) == (1, '')
    where = 'algorithm odd, pattern some, seed 0, level 2.0'
    assert done.stdout.splitlines()[2:] == [
        f'  round 4, {where}: server/second: 1.0 | 1.0000003576278687',
        f"  round 8, {where}: .algorithm['server'][1]: 1.0 | 1.0000004",
        'different (8 lanes in common, 32 lines of metrics, 8 states)',
    ]


def test_a_run_is_exported(folder, tmp_path):
    done = run(folder, 'export', 'one', f'--to={tmp_path}')
    assert (done.returncode, done.stderr) == (0, '')
    assert (tmp_path / 'states/calm/some/level=1.0/0.npz').exists()
    assert (tmp_path / 'metrics.csv').exists()
    assert done.stdout.splitlines()[-1].endswith(f'files to {tmp_path}')


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['compare', 'one'], '`compare` must be given two run folders, such as'),
        (
            ['compare', 'one', 'two'],
            '`second` must hold a run (experiment.json), got two.',
        ),
        (['compare', 'one', 'odd', 'again'], 'such as runs/first runs/second, got 3.'),
        (['export', 'one'], '`to` must name a folder for the files'),
        (['export', '--to=there'], '`export` must be given one run folder, got 0.'),
        (['report', 'one'], "unexpected argument 'one'"),
    ],
)
def test_a_mistake_costs_one_line(folder, arguments, message):
    assert message in command.refused(*arguments, cwd=folder)
