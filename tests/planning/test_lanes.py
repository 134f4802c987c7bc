"""Lanes have names of their own, and seeds stay with their shard."""

import itertools

import pytest

from fedjax_links import experiment
from fedjax_links.planning.lanes import Lane
from tests.experiment.configs import tuned, values
from tests.refusals import names

PARTS = ('f', 'x-0000', '0000', '-', '0001-', '12345', 'x')


def lane(algorithm, series, pattern, seed):
    return Lane('main', algorithm, pattern, {}, seed, 4, (series, 0))


@pytest.mark.slow
def test_no_two_lanes_have_one_name_whatever_their_labels_are():
    labels = sorted(
        {
            ''.join(parts)
            for n in (1, 2, 3)
            for parts in itertools.product(PARTS, repeat=n)
        }
    )
    labels = [label for label in labels if len(label) < 14]
    results = {}
    for algorithm, pattern in itertools.product(labels, labels):
        for series, seed in ((0, 0), (1, 0), (0, 10_000), (12_345, 1)):
            name = lane(algorithm, series, pattern, seed).name
            there = results.setdefault(name, (algorithm, series, pattern, seed))
            assert there == (algorithm, series, pattern, seed)


@pytest.mark.parametrize(
    'algorithm, pattern',
    [
        ('fedavg', 'links'),
        ('fed-avg', 'p-0.1'),
        ('v2024', '2024'),
        ('2024', '0.5'),
        ('f-12', 'y-1'),
    ],
)
def test_names_that_could_be_told_apart_before_stay(algorithm, pattern):
    assert lane(algorithm, 3, pattern, 7).name == f'main-{algorithm}-0003-{pattern}-7'


def test_labels_that_read_like_numbers_of_series_differ():
    pattern = {'name': 'bernoulli', 'probs': 0.5}
    planned = experiment.build(
        values(
            algorithms={'f': {'name': 'fedavg'}, 'f-0001-x': {'name': 'fedpbc'}},
            links=None,
            patterns={'y': pattern, 'x-0000-y': pattern},
            num_seeds=1,
        )
    )
    lanes = [
        x for label in planned.algorithms for x in planned.plan.schedule.main(label)
    ]
    assert len({x.name for x in lanes}) == len(lanes) == 4


def test_by_seed_near_ties_are_those_of_the_shard_of_their_seed():
    tuning = {'learning_rates': (0.1, 0.2), 'num_seeds': 2, 'most_seeds': 4}
    planned = experiment.build(tuned(num_seeds=5, tuning=tuning))
    for count in (2, 3):
        division = planned.plan.divide(count, 'seed').lanes
        possible = [
            x
            for label in planned.algorithms
            for x in planned.plan.schedule.possible(label)
        ]
        assert {x.stage for x in possible} == {'tuning', 'main', 'tie'}
        shards = {}
        for each in possible:
            shards.setdefault(each.seed, set()).add(division[each.name])
        assert all(len(result) == 1 for result in shards.values())


def test_a_seed_twice_is_refused():
    from tests.runner.made_in_python import in_python

    with names('seeds', 'hold each seed once', '[1, 2, 1]'):
        in_python(seeds=[1, 2, 1])
