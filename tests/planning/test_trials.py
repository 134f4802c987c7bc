"""What tuning tries next, against a loop over lists and against optima by calculus."""

import numpy as np
import pytest
from scipy import stats

import fedjax_links as fl
from fedjax_links import algorithms, experiment, local_training, participation, problems
from fedjax_links.planning import trials
from fedjax_links.planning.tuning import search
from fedjax_links.runner.program_cache import Programs
from tests.experiment.configs import last_files_of as files
from tests.runner import running


def search_to_the_end(scores, ranges, num_seeds):
    """Searches and scores what is planned until nothing is, as a run does."""
    done = np.zeros(scores.shape, bool)
    for _ in range(1000):
        state = search(np.where(done, scores, np.nan), done, ranges, num_seeds)
        new = state.planned & ~done
        if not new.any():
            return state, done
        assert state.best is None
        done |= new
    raise AssertionError('never done')


def by_hand(scores, start, num_seeds):
    """Searches one column alone, with lists.

    Returns:
      The seeds of each point, the best point, and those that tie with it.
    """
    low, high = start
    most_seeds = scores.shape[1]
    seeds = {}
    target = num_seeds
    while True:
        for point in range(low, high):
            seeds.setdefault(point, num_seeds)
        compared = sorted(k for k, count in seeds.items() if count == target)
        best = max(compared, key=lambda k: scores[k, :target].mean())
        # Grow the grid while its edge is best.
        if best == low > 0:
            low -= 1
            continue
        if best == high - 1 and high < len(scores):
            high += 1
            continue
        near = ties_of(best, scores[:, :target], seeds)
        late = [k for k in near if seeds[k] < target]
        if not late and (len(near) == 1 or target == most_seeds):
            return seeds, best, near
        if not late:
            # All near points have their seeds and tie: they get more.
            target = min(target + num_seeds, most_seeds)
            late = near
        seeds |= dict.fromkeys(late, target)


def ties_of(best, scores, seeds):
    """Returns the best point and those whose mean loss against it may be zero."""
    near = {best}
    for point, count in seeds.items():
        lost = (scores[best] - scores[point])[:count]
        if may_be_zero(lost):
            near.add(point)
    return near


def may_be_zero(lost):
    """Whether the 95 % interval of the mean of some differences reaches zero."""
    if len(lost) < 2:
        return True
    error = stats.sem(lost) or 1e-300
    low_end, _ = stats.t.interval(0.95, len(lost) - 1, lost.mean(), error)
    return low_end <= 0


@pytest.mark.parametrize('seed', range(20))
def test_a_search_is_that_of_a_loop_over_lists(seed):
    rng = np.random.default_rng(seed)
    scores = -0.3 * abs(np.arange(9.0) - rng.uniform(0, 8))[:, None] + rng.normal(
        size=(9, 8)
    )
    scores += 2 * rng.normal(size=8)  # what a seed does to all
    seeds, best, near = by_hand(scores, (3, 6), 2)
    state, done = search_to_the_end(scores, [(3, 6)], 2)
    assert state.best == (best,)
    assert {k: n for k, n in enumerate(done.sum(axis=1).tolist()) if n} == seeds
    assert set(np.flatnonzero(state.statistical_ties).tolist()) == near


@pytest.mark.parametrize('num_seeds', [2, 3, 5])
@pytest.mark.parametrize('gain', [0, 3])
def test_equal_gains_of_all_seeds_decide_whatever_their_rounding(rng, num_seeds, gain):
    """The best value has ``gain`` more examples of 397 with each seed; no gain is a tie."""
    for _ in range(200):
        correct = rng.integers(0, 390, num_seeds)
        scores = np.float32([correct, correct + gain]) / np.float32(397)
        done = np.ones(scores.shape, bool)
        state = search(scores, done, [(0, 2)], num_seeds)
        assert state.statistical_ties.tolist() == [gain == 0, True]


def test_two_columns_grow_until_the_best_lies_inside():
    peak = np.array([7.0, 1.0])
    positions = np.stack(np.meshgrid(np.arange(9), np.arange(9), indexing='ij'), -1)
    scores = -((positions - peak) ** 2).sum(-1)[..., None]
    state, done = search_to_the_end(scores, [(3, 6), (3, 6)], 1)
    assert state.best == (7, 1)
    assert done[..., 0].sum() == 6 * 6  # indices 3 to 8 by 0 to 5
    bounded, _ = search_to_the_end(scores[:6], [(3, 6), (3, 6)], 1)
    assert bounded.best == (5, 1)


def test_what_diverged_is_never_the_best_nor_near_it():
    scores = np.array([[np.nan, 5.0], [1.0, 1.0], [1.0, 1.1]])
    state, _ = search_to_the_end(scores, [(0, 3)], 2)
    assert state.best == (2,)
    assert state.statistical_ties.tolist() == [False, True, True]
    state, _ = search_to_the_end(np.full((3, 2), np.nan), [(0, 3)], 2)
    assert state.best is None


def test_columns_grow_by_their_last_ratio():
    tuning = experiment.Tuning(
        grid={
            'rate': [0.1, 0.05],
            'server': [1.0, 10.0, 20.0],
            'steps': [1, 2],
            'one': [0.3],
        },
        grow=2,
    )
    result = tuning.candidates()
    assert result['rate'] == ([0.4, 0.2, 0.1, 0.05, 0.025, 0.0125], (2, 4))
    assert result['server'] == ([0.01, 0.1, 1.0, 10.0, 20.0, 40.0, 80.0], (2, 5))
    assert result['steps'] == ([1, 2], (0, 2))
    assert result['one'] == ([0.3], (0, 1))


@pytest.mark.parametrize(
    'values', [[0.9999999, 1.0], [1.0, 0.9999999], [1e-300, 5e-324]]
)
def test_no_column_grows_by_what_it_has_or_by_zero(values):
    tuning = experiment.Tuning(grid={'rate': values}, grow=3)
    column, (start, stop) = tuning.candidates()['rate']
    assert column[start:stop] == values
    assert min(column) > 0
    assert len({*column}) == len(column)


def quadratic(**options):
    """Builds one step to the mean of targets, which a rate of 1 / 16 alone takes exactly."""
    targets = np.array([[0.0], [2.0]])

    def fedavg(learning_rate):
        client = local_training.local_sgd(learning_rate, local_steps=1)
        return algorithms.fedavg(client, server_lr=16.0)

    return experiment.Experiment(
        title='Growth',
        problem=problems.quadratic(targets, initial_point=[5.0]),
        patterns={'all': participation.always(2), 'also': participation.always(2)},
        algorithms={'fedavg': fedavg},
        num_rounds=1,
        eval_every=1,
        seeds=(0, 1),
        metric='distance',
        tuning=experiment.Tuning(grid={'learning_rate': [1.0, 0.5]}, **options),
    )


def test_a_run_finds_a_rate_beyond_its_grid_on_every_pattern():
    run = quadratic(grow=5).run()
    main = run['stage'] == 'main'
    assert set(run['learning_rate'][main]) == {1 / 16}
    tried = trials.read_trials(run.columns, run.facts, 'fedavg')
    assert [entry.pattern for entry in tried] == ['all', 'also']
    for entry in tried:
        assert entry.columns['learning_rate'].tolist() == [
            1.0,
            0.5,
            0.25,
            0.125,
            1 / 16,
            1 / 32,
        ]
        assert entry.columns['learning_rate'][entry.best] == 1 / 16


def test_one_pattern_is_tuned_for_all_up_to_the_last_growth():
    run = quadratic(grow=2, pattern='all').run()
    main = run['stage'] == 'main'
    assert set(run['pattern'][~main]) == {'all'}
    assert set(run['pattern'][main]) == {'all', 'also'}
    assert set(run['learning_rate'][main]) == {1 / 8}


def stop_after(count):
    """Returns a callback that stops a run after so many periods."""
    stopping = experiment.Callback()
    left = iter(range(count - 1))

    def on_period(lane, record):
        if next(left, None) is None:
            raise experiment.Stop

    stopping.on_period = on_period
    return stopping


def racing_run():
    """Builds a tuned run whose rates need more seeds to differ, and whose grid grows."""
    probs = np.array([0.4, 0.9, 0.5, 0.7])

    def algorithm(make, learning_rate):
        return make(local_training.local_sgd(learning_rate, local_steps=3))

    makers = {'fedavg': algorithms.fedavg, 'fedpbc': algorithms.fedpbc}
    return experiment.Experiment(
        title='Races',
        problem=problems.quadratic(np.array([[0.0], [1.0], [4.0], [9.0]])),
        patterns={'some': participation.bernoulli(probs)},
        algorithms={
            name: lambda learning_rate, make=make: algorithm(make, learning_rate)
            for name, make in makers.items()
        },
        num_rounds=8,
        eval_every=4,
        seeds=(0, 1),
        metric='distance',
        tuning=experiment.Tuning(
            grid={'learning_rate': [0.02, 0.04]}, num_seeds=2, most_seeds=5, grow=4
        ),
    )


@pytest.mark.slow
def test_interrupted_or_sharded_tuning_has_the_bytes_of_one_run(
    tmp_path,
):
    planned = racing_run()
    programs = Programs(planned.plan)
    running.run(planned, tmp_path / 'whole', programs=programs)
    full = files(tmp_path / 'whole')
    run = fl.runs.read(tmp_path / 'whole')
    tuning = run['stage'] == 'tuning'
    tried = set(
        zip(run['algorithm'][tuning], run['learning_rate'][tuning], strict=True)
    )
    assert len(tried) > 4
    assert len(set(run['seed'][tuning])) > 2
    for after in (3, 9, 20):
        folder = tmp_path / f'{after}'
        with pytest.raises(experiment.Stop):
            running.run(planned, folder, [stop_after(after)], programs=programs)
        running.run(planned, folder, programs=programs)
        assert files(folder) == full
    for index in (2, 0, 1):
        part = planned.shard(index, 3)
        running.run(part, tmp_path / 'shards', programs=programs)
    fl.runs.merge(tmp_path / 'shards')
    assert files(tmp_path / 'shards') == full


@pytest.mark.slow
def test_shards_that_run_at_the_same_time_race_once(tmp_path):
    """Every lane has a shard, and the status counts the lanes that were requested."""
    planned = racing_run()
    schedule = planned.plan.schedule
    num_possible = sum(len(schedule.possible(label)) for label in planned.algorithms)
    planned.shard(0, 2).run(tmp_path)
    before = fl.runs.status(tmp_path)
    assert before.done < before.lanes < num_possible
    planned.shard(1, 2).run(tmp_path)
    after = fl.runs.status(tmp_path)
    assert after.done == after.lanes
    states = saved_states(tmp_path)
    fl.runs.merge(tmp_path)
    assert saved_states(tmp_path) == states


def saved_states(folder):
    """Returns the names of the last save of each lane."""
    return sorted(name for name in files(folder) if name.startswith('checkpoints'))


def test_a_model_has_a_rate_of_its_own_under_a_label_of_its_own():
    planned = racing_run()
    maker = planned.algorithms['fedpbc']
    tuning = experiment.Tuning(
        grid={'learning_rate': [0.01, 0.3]},
        num_seeds=3,
        grow=0,
        model={'at_server': 'server', 'at_clients': 'client_mean'},
    )
    run = experiment.Experiment(
        title='Models',
        problem=planned.problem,
        patterns=planned.patterns,
        algorithms={'at_server': maker, 'at_clients': maker},
        num_rounds=200,
        eval_every=100,
        metric='distance',
        tuning=tuning,
    ).run()
    labels = run.dataset['algorithm'].values.tolist()
    mains = run.dataset['main_model'].values.tolist()
    assert dict(zip(labels, mains, strict=True)) == tuning.model
    for label, model in tuning.model.items():
        (tried,) = trials.read_trials(run.columns, run.facts, label)
        rows = run['stage'] == 'tuning'
        rows &= run['algorithm'] == label
        rows &= run['round'] == 200
        for rate, score in zip(
            tried.columns['learning_rate'], tried.scores, strict=True
        ):
            values = run[f'{model}/distance'][rows & (run['learning_rate'] == rate)]
            assert score == pytest.approx(values.mean())


def test_a_description_says_what_may_be_added():
    """Each lane has 8 rounds. Two rates grow to ten, and two seeds to five."""
    lines = racing_run().describe().splitlines()
    (work,) = [line for line in lines if line.startswith('work')]
    tuning = 2 * 2
    main = 2
    more_tuning = 10 * 5 - tuning
    near_ties = 2 * main
    rounds = 2 * 8 * (tuning + main)  # of two algorithms
    more_rounds = 2 * 8 * (more_tuning + near_ties)
    assert work.endswith(
        f': {rounds} rounds, and up to {more_rounds} more as results ask for'
    )


def test_fields_of_tuning_are_checked():
    for field, value in {'grow': -1, 'most_seeds': 1}.items():
        with pytest.raises(ValueError, match=rf'`tuning\.{field}` must be at least'):
            quadratic(**{field: value})
    with pytest.raises(ValueError, match=r"`tuning\.model` has no 'fedpbc'"):
        quadratic(model={'fedpbc': 'server'})
