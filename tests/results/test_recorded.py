"""What is read from the lines of a run."""

import itertools

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import local_training, participation, problems
from fedjax_links.results import dataset, recorded

FACTS = {
    'algorithms': ['fedavg'],
    'models': {'fedavg': ['server']},
    'grid': {},
    'metric': 'eval_accuracy',
    'num_rounds': 4,
    'eval_every': 2,
    'evaluate_start': False,
    'tuning': {'grid': {'rate': [0.1, 0.2]}, 'model': None},
}


def test_a_run_without_lines_has_no_final_metrics():
    for stage in (recorded.MAIN, recorded.TIE):
        assert recorded.final_metrics({}, FACTS, 'fedavg', stage=stage) == {}


@pytest.mark.parametrize(
    'values', [('a', None), ('a', 'b'), (1, '1', None), (True, 2.5), ((1, 2), None)]
)
def test_rows_are_of_the_series_with_their_values(values):
    """Also where a value is None, which is not a missing one."""
    facts = {**FACTS, 'grid': {'first': values, 'second': (None, 'b')}}
    points = list(itertools.product(values, (None, 'b')))
    chosen = [points[i] for i in (0, 2, 1, 3, 3, 0, 2)]
    first, second = (dataset.as_objects(column) for column in zip(*chosen, strict=True))
    rows = {
        'round': np.arange(len(chosen)),
        'algorithm': np.full(len(chosen), 'fedavg'),
        'first': first,
        'second': second,
    }
    facts['grid_mode'] = 'cross'
    members, same_rows, series = recorded.by_series(rows, facts, recorded.MAIN)
    read = [tuple(members[index][1].values()) for index in series]
    assert read == chosen
    assert same_rows is rows


def test_a_pattern_without_a_column_is_at_all_its_values():
    """Its lanes do not take the column, so they run once."""
    client = local_training.local_sgd(0.1, local_steps=1)
    results = fl.Experiment(
        title='one pattern takes p',
        problem=problems.quadratic(np.array([[0.0], [10.0]])),
        patterns={
            'usual': lambda p: participation.bernoulli([p, 0.5]),
            'other': lambda p, q: participation.bernoulli([p, q]),
            'fixed': participation.bernoulli([0.5, 0.5]),
        },
        algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
        num_rounds=8,
        eval_every=2,
        seeds=[0, 1],
        grid={'p': [0.2, 0.9], 'q': [0.3, 0.6]},
    ).run()
    columns = results.columns
    table = results.dataset['loss'].sel(model='server')
    assert table.sizes['series'] == 4
    assert results.dataset['complete'].all()
    for series in table:
        for row, pattern in enumerate(columns['pattern']):
            takes = {'usual': ['p'], 'other': ['p', 'q'], 'fixed': []}[pattern]
            if all(columns[name][row] == series[name] for name in takes):
                index = {
                    name: columns[name][row] for name in ('pattern', 'seed', 'round')
                }
                assert series.sel(index) == columns['server/loss'][row]
    assert repr(results).count(' on fixed: distance: ') == 4


@pytest.mark.parametrize(
    ('tuned', 'shown'),
    [
        (None, 'client_mean'),
        ('best', 'client_mean'),
        ('client_mean', 'client_mean'),
        ('server', 'server'),
        ({'fedavg': 'server'}, 'client_mean'),
        ({'fedpbc': 'best'}, 'client_mean'),
        ({'fedpbc': 'server'}, 'server'),
    ],
)
def test_the_model_shown_is_the_one_that_was_tuned(tuned, shown):
    facts = {
        'models': {'fedavg': ['server'], 'fedpbc': ['server', 'client_mean']},
        'tuning': None if tuned is None else {'model': tuned},
    }
    assert recorded.main_models(facts) == {'fedavg': 'server', 'fedpbc': shown}
