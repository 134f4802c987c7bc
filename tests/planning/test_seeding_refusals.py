"""Draws that cannot follow the seed are refused in one line."""

import pytest

from fedjax_links import experiment
from tests.experiment.configs import values
from tests.planning.redrawn import config
from tests.refusals import refuses


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'redraw': {'partitions': 'by_seed'}},
            "`config.redraw` has no 'partitions'; did you mean 'partition'?",
        ),
        (
            {'redraw': {'partition': 'by seed'}},
            "`config.redraw.partition` has no 'by seed'; did you mean 'by_seed'?",
        ),
        (
            {'redraw': 'fixed'},
            "`config.redraw` must have a stream by seed for 3 seeds, got 'fixed'.",
        ),
        (
            {
                'redraw': {'links_quality': 'by_seed'},
                'links': {
                    'name': 'bernoulli',
                    'probs': {'name': 'equal', 'value': 0.5},
                },
            },
            "`config.redraw.links_quality` must be fixed, as no pattern draws it, got 'by_seed'.",
        ),
        (
            {
                'redraw': {'partition': 'by_seed'},
                'problem': {'name': 'counterexample', 'num_clients': 4},
                'links': {
                    'name': 'bernoulli',
                    'probs': {'name': 'equal', 'value': 0.5},
                },
            },
            "`config.redraw.partition` must be fixed, as no problem draws it, got 'by_seed'.",
        ),
    ],
)
def test_what_cannot_be_redrawn_is_refused(changes, message):
    with refuses(message):
        experiment.build(config(**changes))


def test_a_grid_of_what_is_no_stream_is_refused():
    message = "`config.grid.redraw` has no 'batch'; did you mean 'batches'?"
    with refuses(message):
        experiment.build(config(redraw=None, grid={'redraw': ['batch']}))


@pytest.mark.parametrize(
    'field, seed, message',
    [
        (
            ('links', 'probs', 'seed'),
            2**40,
            r'^`config\.links\.probs\.seed` must be at most 4294967295',
        ),
        (
            ('problem', 'partition_seed'),
            2**40,
            r'^`config\.problem\.partition_seed` must be at most',
        ),
        (('problem', 'seed'), 2**40, r'^`config\.problem\.seed` must be at most'),
        (
            ('links', 'probs', 'seed'),
            None,
            r'^`config\.links\.probs\.seed` must be a Python integer',
        ),
    ],
)
def test_a_seed_that_redraws_replace_is_checked_anyway(field, seed, message):
    probs = {'name': 'label_dependent', 'seed': 0}
    changed = values(links={'name': 'bernoulli', 'probs': probs}, redraw='by_seed')
    *path, name = field
    section = changed
    for part in path:
        section[part] = dict(section[part])
        section = section[part]
    section[name] = seed
    with pytest.raises(ValueError, match=message):
        experiment.build(changed)
