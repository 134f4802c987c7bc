"""Metrics of a store in memory are the columns that their lines say when they are read."""

import json

import numpy as np
import pytest

from fedjax_links import experiment, runs
from fedjax_links.runner.in_memory import InMemoryStore
from tests.experiment.configs import quadratic_values

LANES = {
    'a': {'stage': 'tuning', 'algorithm': 'fedavg', 'seed': 3, 'rate': 0.1},
    'b': {
        'stage': 'main',
        'algorithm': 'fedpbc',
        'seed': 0,
        'sizes': [1, 2],
        'name': 'x',
    },
    'c': {'stage': 'main', 'algorithm': 'mifa', 'seed': 1, 'sizes': None, 'rate': 1},
}
ROWS = {
    'a': [
        {'round': 2, 'loss': 0.5, 'finite': True},
        {'round': 4, 'loss': None, 'finite': True},
    ],
    'b': [{'round': 2, 'loss': 3, 'count': 7, 'finite': False, 'first_bad_round': 1}],
    'c': [{'round': 2, 'loss': 1, 'only': None}, {'round': 4, 'loss': 1.5, 'count': 9}],
}


def as_lines(order):
    return [json.dumps({**LANES[lane], **row}) for lane in order for row in ROWS[lane]]


def assert_same(actual, expected):
    assert list(actual) == list(expected)
    for name, column in expected.items():
        assert actual[name].dtype == column.dtype, name
        np.testing.assert_array_equal(actual[name], column, err_msg=name)


@pytest.mark.parametrize('order', ['abc', 'cab', 'ba', 'c', ''])
def test_columns_are_those_of_the_lines_in_any_order_of_lanes(order):
    """Rows of several lanes come in turn, and of every kind."""
    store = InMemoryStore({'algorithms': [LANES[lane]['algorithm'] for lane in order]})
    store.register_lanes(
        {lane: {'labels': LANES[lane], 'position': (0, 0)} for lane in order}
    )
    for index in range(2):
        for lane, rows in ROWS.items():
            store.append(lane, rows[index : index + 1])
    assert_same(store.columns(), runs.as_columns(as_lines(order)))


def test_a_run_returns_the_columns_of_its_lines(tmp_path):
    """In memory, in a folder, and in one where all is done; some lanes diverge."""
    algorithms = {'fedavg': {}, 'fedpbc': {'server_lr': 1e30}}
    planned = experiment.build(
        quadratic_values(algorithms=algorithms, evaluate_start=True)
    )
    results = [planned.run(folder) for folder in (None, tmp_path, tmp_path)]
    lines = (tmp_path / runs.METRICS).read_text().splitlines()
    expected = runs.as_columns(lines)
    assert set(expected['finite']) == {True, False}
    for result in results:
        assert_same(result.columns, expected)


@pytest.mark.slow
@pytest.mark.parametrize('count', [2, 4])
def test_only_lines_of_earlier_runs_are_read_from_text(tmp_path, monkeypatch, count):
    """However many algorithms are tuned one after the other."""
    config = quadratic_values(
        algorithms={f'a{k}': {'name': 'fedavg'} for k in range(count)},
        client={'local_steps': 2},
        tuning={'learning_rates': (0.001, 0.1), 'grow': 0, 'num_seeds': 2},
        metric='loss',
        num_seeds=1,
    )
    planned = experiment.build(config)
    read = []
    loads = json.loads

    def counted(text, **options):
        if '"round"' in str(text):
            read.append(text)
        return loads(text, **options)

    monkeypatch.setattr(json, 'loads', counted)
    results = planned.run(tmp_path)
    assert read == []
    again = planned.run(tmp_path)
    assert len(again['round']) == len(results['round'])
    # Each line once, and the last of a lane once more: its round must be that of the file's name.
    num_lanes = (again['round'] == 4).sum()
    assert len(read) == len(again['round']) + num_lanes
