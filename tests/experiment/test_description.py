"""Descriptions of an experiment before it runs: warnings, work and caption."""

import re

import pytest

from fedjax_links import experiment, participation
from fedjax_links.participation import combinators, schedules
from tests.experiment.configs import values

HALF = [0.5] * 8
EQUAL = {'name': 'equal', 'value': 0.5}


def warnings(**changes):
    lines = experiment.build(values(**changes)).describe().splitlines()
    return [line for line in lines if line.startswith('warning')]


def num_rounds_seen(cycle, eval_every, num_rounds):
    """Counts the rounds of a cycle in which evaluations lie."""
    return len({t % cycle for t in range(eval_every, num_rounds + 1, eval_every)})


@pytest.mark.parametrize(
    'cycle, period, seen',
    [
        (100, 100, 1),
        (100, 20, 5),
        (100, 50, 2),
        (100, 10, None),
        (100, 93, None),
        (300, 7, None),
    ],
)
def test_evaluations_that_see_few_rounds_of_a_cycle_are_named(cycle, period, seen):
    """Against counts of the rounds; ten, or one for each evaluation, are no reason to warn."""
    num_rounds = 12 * period
    links = {'name': 'cyclic', 'probs': EQUAL, 'cycle_length': cycle}
    result = warnings(links=links, num_rounds=num_rounds, eval_every=period)
    if seen is None:
        assert num_rounds_seen(cycle, period, 1200 * period) >= 10
        assert not result
        return
    assert num_rounds_seen(cycle, period, num_rounds) == seen
    (line,) = result
    assert f'repeats every {cycle} rounds' in line
    assert f'see {seen} round' in line
    better = int(re.search('of them, `eval_every` = ([0-9]+)', line)[1])
    changed = re.search('`num_rounds` = ([0-9]+)', line)
    if changed:
        num_rounds = int(changed[1])
    assert not warnings(links=links, num_rounds=num_rounds, eval_every=better)
    would_see = int(re.search('would see ([0-9]+)', line)[1])
    assert num_rounds_seen(cycle, better, num_rounds) == would_see


def test_a_recording_that_is_played_once_gives_no_warning():
    links = {'name': 'replay', 'mask': [[True] * 8] * 40}
    assert not warnings(links=links, num_rounds=40, eval_every=8)
    assert warnings(links=links, num_rounds=80, eval_every=8)


def test_patterns_know_their_cycle():
    cyclic = participation.cyclic(HALF, cycle_length=6)
    waves = participation.bernoulli(schedules.sine(HALF, gamma=0.4, period=4.0))
    assert participation.bernoulli(HALF).cycle is None
    assert (
        participation.bernoulli(schedules.sine(HALF, gamma=0.4, period=4.5)).cycle
        is None
    )
    assert waves.cycle == 4
    assert participation.markov(schedules.sine(HALF, gamma=0.1, period=24)).cycle == 24
    assert combinators.both(cyclic, waves).cycle == 12
    assert participation.cap(cyclic, 2).cycle == 6
    assert participation.duplex(uplink=waves, downlink=cyclic).cycle == 12
    turns = participation.periodic_groups(
        [0, 0, 1, 1, 2, 2], active_rounds=5, cohort_size=1
    )
    assert turns.cycle == 15
    replayed = participation.replay([[True, False], [False, True], [True, True]])
    assert replayed.cycle == 3


def test_a_column_of_one_algorithm_is_no_factor_of_all():
    both = {'algorithms': {'fedavg': {}, 'mifa': {'max_age': 5}}}
    rates = [0.1, 0.2]
    ages = [5, 10, 20]
    for grid, text in (
        (
            {'client': {'learning_rate': rates}},
            f'2 points x 2 seeds x 4 rounds: {4 * 2 * 4} rounds',
        ),
        (
            {'algorithms': {'mifa': {'max_age': ages}}},
            f'up to 3 points x 2 seeds x 4 rounds: {(1 + 3) * 2 * 4} rounds',
        ),
    ):
        lines = experiment.build(values(**both, grid=grid)).describe().splitlines()
        assert f'work     2 algorithms x 1 pattern x {text}' in lines


def test_a_caption_tells_what_runs():
    caption = (
        '{config.problem.num_clients} of 100, rates {config.client.rates}, {as is}'
    )
    with pytest.raises(
        ValueError, match=r'^`config.caption` must name fields of the config, got'
    ):
        experiment.build(values(caption=caption))
    caption = '{config.problem.num_clients} of 100, {config.num_rounds} rounds, {as is}'
    assert (
        experiment.build(values(caption=caption)).caption
        == '8 of 100, 4 rounds, {as is}'
    )
    untuned = experiment.build(values(caption='{config.tuning.learning_rates}'))
    assert untuned.caption == 'not given'
    longer = experiment.build(values(caption=caption, num_rounds=4_000))
    assert longer.caption == '8 of 100, 4,000 rounds, {as is}'
