"""What is read from the lines of a run."""

import itertools

import numpy as np
import pytest

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
    """Also where a value is None, which is no missing text."""
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
    members, series = recorded.members_of(rows, facts, recorded.MAIN)
    read = [tuple(members[index][1].values()) for index in series]
    assert read == chosen
