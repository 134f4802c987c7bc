"""Parts of runs, compared with a loop over their rows."""

import dataclasses
import re

import numpy as np
import pytest

from fedjax_links import runs
from tests import ROOT, refusals

SIGMA = 'links.probs.sigma'
OVERLAP = 'problem.bayes_accuracy'
ALPHA = 'problem.alpha'


@pytest.fixture(scope='module')
def run():
    return runs.read(ROOT / 'studies' / 'records' / 'maps' / 'space')


def test_a_part_has_the_rows_of_its_labels_and_points(run):
    part = run.select(
        {OVERLAP: [0.5, 0.98], ALPHA: 0.1, SIGMA: np.array([10.0, 0.0])},
        algorithms=['fedpbc', 'fedavg'],
        seeds=run.facts['seeds'][1],
    )
    chosen = [
        run[OVERLAP][row] in (0.5, 0.98)
        and run[ALPHA][row] == 0.1
        and run[SIGMA][row] in (0.0, 10.0)
        and run['algorithm'][row] in ('fedavg', 'fedpbc')
        and run['seed'][row] == run.facts['seeds'][1]
        for row in range(len(run['round']))
    ]
    assert 0 < sum(chosen) < len(chosen)
    for name, column in part.columns.items():
        np.testing.assert_array_equal(column, run[name][chosen])
    assert list(part.facts['grid']) == [
        name for name in run.facts['grid'] if name != ALPHA
    ]
    assert part.facts['grid'][SIGMA] == [0.0, 10.0]
    assert part.facts['seeds'] == [run.facts['seeds'][1]]
    assert part.facts['models'] == run.facts['models']
    full = run.select()
    assert full.facts == run.facts
    assert len(full['round']) == len(run['round'])


def test_rows_of_a_grid_stay_together():
    points = ('"a": 1, "b": [2],', '"a": 3, "b": [2],', '"a": 3, "b": [4],', '')
    start = '{"algorithm": "mine", "pattern": "links", "seed": 0, "round": 1'
    lines = [
        f'{start}, {point} "s/loss": {index}}}' for index, point in enumerate(points)
    ]
    grid = {'a': [1, 3, 3], 'b': [[2], [2], [4]]}
    facts = {
        'grid': grid,
        'grid_mode': 'together',
        'algorithms': ['mine'],
        'seeds': [0],
    }
    run = runs.Results(runs.as_columns(lines), facts)
    first = run.select({'a': 3})
    second = run.select({'b': [2]})
    third = run.select({'b': [[2], [4]]})
    assert first.facts['grid'] == {'b': [[2], [4]]}
    assert second.facts['grid'] == {'a': [1, 3]}
    assert third.facts['grid'] == grid
    results = [part['s/loss'].tolist() for part in (first, second, third)]
    assert results == [[1, 2, 3], [0, 1, 3], [0, 1, 2, 3]]  # what has no column stays
    with pytest.raises(ValueError, match='`at` must leave a point of the grid, got '):
        run.select({'a': 1, 'b': [4]})


def test_points_take_the_rows_of_lanes_without_a_column():
    """A lane that has only ``b`` is at the points of the ``a`` that is left."""
    start = '{"pattern": "links", "seed": 0, "round": 1'
    lines = [
        f'{start}, "algorithm": "mine", "a": 1, "b": 10, "s/loss": 0}}',
        f'{start}, "algorithm": "mine", "a": 2, "b": 20, "s/loss": 1}}',
        f'{start}, "algorithm": "other", "b": 10, "s/loss": 2}}',
        f'{start}, "algorithm": "other", "b": 20, "s/loss": 3}}',
    ]
    facts = {
        'grid': {'a': [1, 2], 'b': [10, 20]},
        'grid_mode': 'together',
        'algorithms': ['mine', 'other'],
        'seeds': [0],
    }
    run = runs.Results(runs.as_columns(lines), facts)
    assert run.select({'a': 1})['s/loss'].tolist() == [0, 2]
    assert run.select({'b': 20})['s/loss'].tolist() == [1, 3]
    crossed = dataclasses.replace(run, facts={**facts, 'grid_mode': 'cross'})
    assert crossed.select({'a': 1})['s/loss'].tolist() == [0, 2, 3]


def test_a_part_without_the_first_point_has_no_clients(run):
    clients = {'seed': np.array([0]), 'loss': np.zeros((1, 3))}
    measured = {'links': {'fedavg': clients}}
    first, second = run.facts['grid'][SIGMA][:2]
    run = dataclasses.replace(run, measure_clients=lambda: measured)
    for part in (run, run.select({SIGMA: first}), run.select({SIGMA: [second, first]})):
        assert part.clients['loss'].shape == (1, 1, 1, 3)
    part = run.select({SIGMA: second})
    for later in (part, part.select(algorithms='fedavg')):
        with pytest.raises(
            ValueError, match=r'^`at` must keep the first point of the '
        ):
            _ = later.clients


def test_seeds_can_be_any_sequence(run):
    seeds = range(1, 3)
    assert run.select(seeds=seeds).facts == run.select(seeds=[1, 2]).facts


def test_before_the_first_evaluation_a_part_is_empty(run):
    empty = dataclasses.replace(run, columns={})
    part = empty.select({OVERLAP: 0.5}, algorithms='fedavg')
    assert (part.columns, part.facts['algorithms']) == ({}, ['fedavg'])


@pytest.mark.parametrize(
    'at, labels, message',
    [
        ({'sigma': 1}, {}, "`at` has no 'sigma'; "),
        ({SIGMA: 3}, {}, f'`at.{SIGMA}` must be among 0.0, '),
        (
            {},
            {'algorithms': 'fedpcb'},
            "`algorithms` has no 'fedpcb'; did you mean 'fedpbc'?",
        ),
        ({}, {'patterns': ['link']}, "`patterns` has no 'link'; did you mean 'links'?"),
        ({}, {'seeds': 1_000}, '`seeds` must be among '),
        ({}, {'seeds': []}, '`seeds` must have at least one value, got []'),
        ({}, {'algorithms': ()}, '`algorithms` must have at least one value, got ()'),
        ({SIGMA: []}, {}, f'`at.{SIGMA}` must have at least one value, got []'),
    ],
)
def test_mistakes_cost_one_line(run, at, labels, message):
    with refusals.one_line(f'^{re.escape(message)}'):
        run.select(at, **labels)
