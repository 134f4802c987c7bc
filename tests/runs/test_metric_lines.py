"""Descriptions and lines of tuning that no run writes are refused where a folder is read."""

import re
import shutil

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import local_training, participation, problems, runs
from fedjax_links.experiment import Tuning
from fedjax_links.storage import run_files
from tests import refusals
from tests.attacks import spoiling

RATE = 'learning_rate'
DEEP = 400
"""Lists within each other that JSON reads, and a recursion does not follow."""


def fedavg(learning_rate):
    client = local_training.local_sgd(learning_rate, local_steps=2)
    return fl.ALGORITHMS['fedavg'](client)


@pytest.fixture(scope='module')
def tuned(tmp_path_factory):
    """The folder of a run of two tuned rates."""
    path = tmp_path_factory.mktemp('tuned') / 'run'
    experiment = fl.Experiment(
        title='tuned',
        problem=problems.quadratic(np.array([[0.0], [10.0]])),
        patterns={'links': participation.bernoulli(np.array([0.5, 0.3]))},
        algorithms={'fedavg': fedavg},
        num_rounds=4,
        eval_every=2,
        seeds=[0, 1],
        tuning=Tuning(grid={RATE: [0.1, 0.2]}, num_rounds=4, num_seeds=2, grow=0),
    )
    experiment.run(path, devices=1)
    return path


@pytest.fixture
def copy(tuned, tmp_path):
    return shutil.copytree(tuned, tmp_path / 'copy')


def tuning_with(**changes):
    """Changes the description of tuning; ``...`` removes a field."""

    def spoil(folder):
        tuning = {**runs.read_json(folder, runs.EXPERIMENT)['tuning'], **changes}
        known = {name: value for name, value in tuning.items() if value is not ...}
        spoiling.facts_with(tuning=known)(folder)

    return spoil


def nested(depth):
    value = [0.1]
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    'name, values',
    {
        'num_rounds': [..., 0, 'x'],
        'num_seeds': [..., 0, -1, 'x', 10**12, None],
        'grid': [..., [], {RATE: []}],
        'model': [..., 3, ['server'], {'fedavg': 1}],
        'most_seeds': [0, 'x', 10**12],
        'ties': [-1, 'x', None],
        'given': ['x', {RATE: [1]}, {RATE: [1, 1]}, {RATE: [-5, 2]}, {RATE: 'ab'}],
    }.items(),
)
def test_facts_of_tuning_are_of_their_kinds(name, values, tuned, tmp_path):
    for index, value in enumerate(values):
        folder = shutil.copytree(tuned, tmp_path / str(index))
        tuning_with(**{name: value})(folder)
        with refusals.one_line(re.escape(f': tuning.{name}` must be')):
            runs.read(folder)


def many_columns(folder):
    """Makes 8 columns of tuning with 100 values each, of which every line has the first."""
    grid = {f'c{k}': list(range(100)) for k in range(8)}
    tuning_with(grid={RATE: [0.1, 0.2], **grid})(folder)
    spoiling.rows_with(**dict.fromkeys(grid, 0))(folder)


def nothing_tuned(folder):
    spoiling.facts_with(tuning=None)(folder)
    (folder / run_files.IDENTITY).unlink()  # which would show that lanes are foreign


LINES = {
    'fewer seeds': (tuning_with(num_seeds=1), 'known seeds of tuning'),
    'other seeds': (spoiling.rows_with(seed=1), 'known seeds of tuning'),
    'other seeds of ties': (spoiling.rows_with(stage='tie', seed=7), 'of known seeds'),
    'other values': (tuning_with(grid={RATE: [0.1, 7.0]}), f'known values of {RATE}'),
    'many trials': (many_columns, 'at most 10,000,000 scores of tuning'),
    'no tuning': (nothing_tuned, 'no lines of tuning'),
    'another metric': (
        spoiling.facts_with(metric='other', directions={'other': 'max'}),
        "hold 'server/other' of fedavg",
    ),
    'another model': (
        spoiling.facts_with(models={'fedavg': ['other']}),
        "hold 'other/distance' of fedavg",
    ),
    'a name of control characters': (
        spoiling.rows_with(**{'a\x07': 1}),
        r"name no column 'a\x07'",
    ),
    'deep values': (spoiling.rows_with(x=nested(DEEP)), 'readable lines of metrics'),
    'deep facts': (spoiling.facts_with(grid={'x': nested(DEEP)}), 'plain values'),
    'endless facts': (
        lambda folder: (folder / runs.EXPERIMENT).write_text('[' * 10**5),
        'hold a readable experiment.json',
    ),
}


@pytest.mark.parametrize('way', LINES)
def test_lines_are_what_the_description_lets_a_run_write(way, copy):
    spoil, words = LINES[way]
    spoil(copy)
    with refusals.one_line(re.escape(words)):
        runs.read(copy)


def test_deep_values_of_an_archive_are_refused(copy):
    text = str(nested(DEEP))
    num_lines = len(runs.read(copy).columns['round'])
    spoiling.archive_with(**{'json:x': np.array([text] * num_lines)})(copy)
    with refusals.names('folder', "plain values as 'x'"):
        runs.read(copy)


@pytest.mark.usefixtures('unrendered')
def test_a_run_that_is_not_spoilt_is_read_and_reported(copy):
    run = runs.read(copy)
    assert len(run.tuning[RATE]) == 2
    fl.report.write(run)
