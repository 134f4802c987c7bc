"""Lanes have names of their own, and seeds stay with their shard."""

import itertools

import pytest

from fedjax_links import experiment
from fedjax_links.planning.lanes import Lane
from tests.experiment.configs import tuned, values
from tests.refusals import names
from tests.runner.made_in_python import in_python

PARTS = ('f', 'x-0000', '0000', '-', '0001-', '12345', 'x')


def make_lane(algorithm, point, pattern, seed):
    return Lane('main', algorithm, pattern, {}, seed, 4, (point, 0))


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
        for point, seed in ((0, 0), (1, 0), (0, 10_000), (12_345, 1)):
            labels_of_lane = algorithm, point, pattern, seed
            name = make_lane(*labels_of_lane).name
            assert results.setdefault(name, labels_of_lane) == labels_of_lane


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
def test_names_that_are_unambiguous_are_plain(algorithm, pattern):
    assert (
        make_lane(algorithm, 3, pattern, 7).name == f'main-{algorithm}-0003-{pattern}-7'
    )


def test_labels_that_read_like_numbers_of_points_differ():
    pattern = {'name': 'bernoulli', 'probs': 0.5}
    planned = experiment.build(
        values(
            algorithms={'f': {'name': 'fedavg'}, 'f-0001-x': {'name': 'fedpbc'}},
            links=None,
            patterns={'y': pattern, 'x-0000-y': pattern},
            num_seeds=1,
        )
    )
    lanes = []
    for label in planned.algorithms:
        lanes += planned.plan.schedule.main(label)
    assert len(lanes) == 4
    assert len({lane.name for lane in lanes}) == 4


def test_by_seed_near_ties_are_those_of_the_shard_of_their_seed():
    tuning = {'learning_rates': (0.1, 0.2), 'num_seeds': 2, 'most_seeds': 4}
    planned = experiment.build(tuned(num_seeds=5, tuning=tuning))
    for count in (2, 3):
        division = planned.plan.divide(count, 'seed').lanes
        possible = []
        for label in planned.algorithms:
            possible += planned.plan.schedule.possible(label)
        assert {lane.stage for lane in possible} == {'tuning', 'main', 'tie'}
        shards = {}
        for lane in possible:
            shards.setdefault(lane.seed, set()).add(division[lane.name])
        assert all(len(result) == 1 for result in shards.values())


@pytest.mark.parametrize('num_seeds', [1, 3])
@pytest.mark.parametrize('num_tuning_seeds, num_ties', [(1, 0), (2, 1)])
def test_one_seed_of_tuning_has_no_near_ties(num_seeds, num_tuning_seeds, num_ties):
    tuning = {'learning_rates': (0.1, 0.2), 'num_seeds': num_tuning_seeds, 'grow': 0}
    planned = experiment.build(tuned(num_seeds=num_seeds, tuning=tuning))
    for label in planned.algorithms:
        assert planned.plan.schedule.num_ties(label) == num_ties


def test_a_seed_twice_is_refused():
    with names('seeds', 'hold each seed once', '[1, 2, 1]'):
        in_python(seeds=[1, 2, 1])
