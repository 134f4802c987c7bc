"""Tests seeds until decided against a loop over lists and uninterrupted runs."""

import dataclasses
import itertools

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import evaluation, experiment, runs
from fedjax_links.planning import sequential_seeds
from tests import refusals
from tests.experiment.configs import last_files_of, values
from tests.tiers import cases

CONFIG = {
    'title': 'Until decided',
    'problem': {'name': 'counterexample', 'num_clients': 20, 'dimension': 10},
    'patterns': {
        'half': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'tenth': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.1}},
    },
    'client': {'local_steps': 3},
    'algorithms': {'fedavg': {}, 'fedpbc': {}, 'fedau': {}},
    'tuning': {'learning_rates': (0.05, 0.1), 'num_rounds': 20, 'num_seeds': 3},
    'num_rounds': 40,
    'eval_every': 10,
    'seeds': {'until': 'decided', 'least': 3, 'most': 9, 'margin': 2e-5, 'tail': 0.5},
    'metric': 'loss',
}


def test_later_looks_are_a_quarter_apart():
    assert list(sequential_seeds.looks(5, 50)) == [
        5,
        6,
        7,
        8,
        10,
        12,
        15,
        18,
        22,
        27,
        33,
        41,
        50,
    ]
    assert list(sequential_seeds.looks(2, 2)) == [2]


def num_seeds_of_pair(values, base, *, least, most, margin):
    """Returns how many seeds a pair takes, by a test at each number of seeds."""
    count = least
    while count < most:
        # Of a loss, smaller is better.
        differences = [base[k] - values[k] for k in range(count)]
        if evaluation.decide(differences, margin=margin).word != evaluation.UNDECIDED:
            return count
        count += count // 4 or 1
    return most


@pytest.fixture(scope='module')
def full_run(tmp_path_factory):
    """Returns the folder of an uninterrupted run."""
    folder = tmp_path_factory.mktemp('whole') / 'run'
    experiment.build(CONFIG).run(folder)
    return folder


def final_losses(run, label, pattern):
    """Returns by seed the mean of the last two of four evaluations."""
    model = 'client_mean' if label == 'fedpbc' else 'server'
    rows = run['stage'] == 'main'
    rows &= run['algorithm'] == label
    rows &= run['pattern'] == pattern
    seeds = sorted(set(run['seed'][rows].tolist()))
    assert seeds == list(range(len(seeds)))
    late = rows & (run['round'] >= 30)
    return [run[f'{model}/loss'][late & (run['seed'] == seed)].mean() for seed in seeds]


def num_seeds_by_pair(run, *labels):
    """Returns the seeds of each algorithm beside FedAvg, after comparing them with a loop."""
    counts = {}
    for pattern in CONFIG['patterns']:
        base = final_losses(run, 'fedavg', pattern)
        for label in labels:
            values = final_losses(run, label, pattern)
            counts[pattern, label] = num_seeds_of_pair(
                values, base, least=3, most=9, margin=2e-5
            )
            assert len(values) == counts[pattern, label]
        assert len(base) == max(counts[pattern, label] for label in labels)
    return counts


def test_every_pair_takes_as_many_seeds_as_a_loop_by_hand():
    untuned = {**CONFIG, 'client': {'local_steps': 3, 'learning_rate': 0.05}}
    del untuned['tuning']
    counts = num_seeds_by_pair(experiment.build(untuned).run(), 'fedpbc', 'fedau')
    assert len(set(counts.values())) > 1


@pytest.mark.slow
def test_tuned_pairs_take_as_many_seeds_as_a_loop_by_hand(full_run):
    counts = num_seeds_by_pair(runs.read(full_run), 'fedpbc', 'fedau')
    assert len(set(counts.values())) > 1


def test_near_ties_run_with_the_seeds_of_what_was_chosen():
    algorithms = {'fedavg': {}, 'fedpbc': {}}
    run = experiment.build({**CONFIG, 'algorithms': algorithms}).run()
    num_seeds_by_pair(run, 'fedpbc')
    tie = run['stage'] == 'tie'
    main = run['stage'] == 'main'
    assert tie.any()
    for label, pattern in itertools.product(algorithms, CONFIG['patterns']):
        rows = (run['algorithm'] == label) & (run['pattern'] == pattern)
        chosen = set(run['client.learning_rate'][rows & main])
        assert len(chosen) == 1
        near = set(run['client.learning_rate'][rows & tie])
        assert len(near) <= 2
        assert not near & chosen
        for rate in near:
            at_rate = rows & tie & (run['client.learning_rate'] == rate)
            assert set(run['seed'][at_rate]) == set(run['seed'][rows & main])
            assert sorted(set(run['round'][at_rate])) == [10, 20, 30, 40]


@pytest.mark.slow
@pytest.mark.release('test_every_pair_takes_as_many_seeds_as_a_loop_by_hand')
def test_interrupted_or_sharded_it_has_the_bytes_of_one_run(full_run, tmp_path):
    planned = experiment.build(CONFIG)
    for after in (50, 200, 300):
        num_left = itertools.count(after, -1)

        class Stopping(experiment.Callback):
            def on_period(self, lane, record, num_left=num_left):
                if not next(num_left):
                    raise experiment.Stop

        with pytest.raises(experiment.Stop):
            planned.run(tmp_path / f'{after}', [Stopping()])
        planned.run(tmp_path / f'{after}')
        assert last_files_of(tmp_path / f'{after}') == last_files_of(full_run)
    for index in (2, 0, 1):
        planned.shard(index, 3).run(tmp_path / 'shards')
    fl.runs.merge(tmp_path / 'shards')
    assert last_files_of(tmp_path / 'shards') == last_files_of(full_run)


@pytest.mark.slow
def test_shards_that_have_not_decided_are_not_merged(tmp_path):
    planned = experiment.build(CONFIG).shard(0, 1)

    class Stopping(experiment.Callback):
        def on_period(self, lane, record):
            if lane.stage == 'main' and lane.seed >= 3:
                raise experiment.Stop

    with pytest.raises(experiment.Stop):
        planned.run(tmp_path, [Stopping()])
    with pytest.raises(ValueError, match=r'^`workdir` must hold all lanes'):
        fl.runs.merge(tmp_path)
    for path in list((tmp_path / 'checkpoints').iterdir()):
        if int(path.name.partition('@')[0].rpartition('-')[2]) in range(3, 9):
            path.unlink()
    division = runs.read_division(tmp_path)
    seeds = {
        int(name.rpartition('-')[2])
        for name in division.requested
        if name.startswith('main')
    }
    assert seeds == {3}
    runs.write_division(tmp_path, dataclasses.replace(division, requested=[]))
    with pytest.raises(ValueError, match='until all pairs are decided'):
        fl.runs.merge(tmp_path)


@pytest.mark.parametrize(
    ('seeds', 'message'),
    [
        ({}, '`config.seeds.until` must be given; valid names: decided'),
        ({'until': 'late'}, "`config.seeds.until` has no 'late'; valid names: decided"),
        (
            {'until': 'decided', 'least': 1},
            '`config.seeds.least` must be at least 2, got 1.',
        ),
        (
            {'until': 'decided', 'least': 9, 'most': 8},
            '`config.seeds.most` must be at least 9',
        ),
        ({'until': 'decided', 'margn': 1}, "`config.seeds` has no 'margn'; .*'margin'"),
        ({'until': 'decided', 'margin': -1}, '`config.seeds.margin` must lie in'),
        (
            {'until': 'decided'},
            '`config.seeds` must be a number of seeds, as one algorithm',
        ),
    ],
)
def test_a_mistake_costs_a_line(seeds, message):
    with pytest.raises(ValueError, match=f'^{message}'):
        experiment.build(values(num_seeds=None, seeds=seeds))


@pytest.mark.parametrize('first', [-1, 0.5, True, None, 2**32, 2**32 - 49])
def test_the_first_seed_leaves_room_for_the_others(first):
    with refusals.names('seeds.first'):
        experiment.UntilDecided(first=first)
    assert experiment.UntilDecided(first=2**32 - 50)[-1] == 2**32 - 1


@pytest.mark.parametrize('first', [-1, 2**32, 2**32 - 49])
def test_the_first_seed_of_a_config_leaves_room_too(first):
    until = {'until': 'decided'}
    with refusals.names('config.first_seed'):
        experiment.build(values(first_seed=first, num_seeds=None, seeds=until))


def test_too_many_seeds_are_named_as_they_were_given():
    config = values(num_seeds=None, seeds={'until': 'decided', 'most': 10**6})
    with refusals.names('config.seeds.most', 'give at most 100,000 lanes'):
        experiment.build(config)
    planned = experiment.build(values())
    with refusals.names('seeds', 'give at most 100,000 lanes'):
        dataclasses.replace(planned, seeds=range(10**6), config=None)


def test_shards_by_seed_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r'^`allow_mixed` must be left out where seeds are added'
    ):
        experiment.build(CONFIG).shard(0, 2, by='seed').run(tmp_path)


def test_a_number_of_seeds_as_well_is_refused():
    with pytest.raises(ValueError, match=r'^`config\.seeds` must be left out'):
        experiment.build(values(seeds={'until': 'decided'}))


@pytest.mark.parametrize('heavy', cases([False, True], [False]))
def test_few_of_a_thousand_equal_sweeps_get_a_verdict(heavy):
    """At most 50 of 1,000 pairs with equal means, each tested until it is decided."""
    rng = np.random.default_rng(0)

    def draw(size):
        return rng.standard_t(4, size=size) if heavy else rng.normal(size=size)

    shared = 3 * draw((1000, 1, 50))
    separate = draw((1000, 2, 50))
    until = {'least': 5, 'margin': 0.0, 'level': 0.95}
    wrong = 0
    for first, second in shared + separate:
        count = sequential_seeds._num_seeds_needed(first - second, until, 50)
        verdict = evaluation.decide((first - second)[:count]).word
        assert count == 50 or verdict != evaluation.UNDECIDED
        wrong += verdict != evaluation.UNDECIDED
    assert wrong <= 50
