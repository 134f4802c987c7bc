"""Forked runs: with nothing changed, every lane continues to the bit."""

import json
import shutil

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, runs, simulation
from fedjax_links.runner import save_clock
from fedjax_links.storage import checkpoints
from tests import refusals
from tests.experiment.configs import tuned_on_one_pattern
from tests.experiment.futures import (
    MARKOV,
    assert_same_future,
    build,
    by_lane,
    last_states,
    report_of,
    small,
)
from tests.runner import running
from tests.runner.made_in_python import in_python

OTHER_RATE = {'learning_rate': 0.02, 'local_steps': 2, 'batch_size': 4}
OUTAGE = {
    'name': 'outage',
    'pattern': MARKOV,
    'start': 6,
    'stop': 9,
    'clients': [0, 1, 2],
}


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
@pytest.mark.parametrize('at_round', [4, 6])
def test_a_fork_with_nothing_changed_is_the_run_itself(tmp_path, past, at_round):
    """From a round that was not saved, and from a checkpoint."""
    planned = build(log=('links',))
    results = planned.fork(past, at_round, tmp_path / 'fork')
    assert_same_future(tmp_path / 'fork', past, 8, after=at_round)
    assert min(results['round']) == at_round + 2
    facts = json.loads((tmp_path / 'fork' / runs.EXPERIMENT).read_text())
    assert facts['at_round'] == at_round
    assert facts['forked_from'] == str(past)
    with (
        np.load(tmp_path / 'fork' / runs.LINKS) as ours,
        np.load(past / runs.LINKS) as theirs,
    ):
        for name in ('mask/links', 'prob/links', 'mask/links/1', 'prob/links/1'):
            np.testing.assert_array_equal(ours[name], theirs[name][at_round:])
    assert (
        f'Forked from {past} at round {at_round}.'
        in report_of(tmp_path / 'fork').decode()
    )


@pytest.mark.slow
def test_lanes_of_a_fork_run_side_by_side_too(tmp_path, past):
    planned = build(log=('links',))
    states = running.fork(planned, past, 4)
    results = running.run(planned, tmp_path, side_by_side=True, initial_states=states)
    expected = runs.read(past)
    order = np.lexsort([results['round'], results['seed']])
    late = expected['round'] > 4
    for name in ('seed', 'round', 'rounds/num_active'):
        np.testing.assert_array_equal(results[name][order], expected[name][late])
    name = 'server/eval_loss'
    np.testing.assert_allclose(results[name][order], expected[name][late], rtol=2e-5)
    with np.load(tmp_path / runs.LINKS) as ours, np.load(past / runs.LINKS) as theirs:
        np.testing.assert_array_equal(ours['mask/links/1'], theirs['mask/links/1'][4:])


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_a_fork_can_be_made_longer(tmp_path, past):
    for folder, lengths in (('whole', (12,)), ('fork', (8, 12))):
        for num_rounds in lengths:
            planned = build(num_rounds=num_rounds, client=OTHER_RATE)
            planned.fork(past, 6, tmp_path / folder)
    assert_same_future(tmp_path / 'fork', tmp_path / 'whole', 12)
    assert report_of(tmp_path / 'fork') == report_of(tmp_path / 'whole')
    links = [(tmp_path / name / runs.LINKS).read_bytes() for name in ('fork', 'whole')]
    assert links[0] == links[1]


@pytest.mark.slow
def test_a_fork_of_an_unfinished_run_advances_what_is_missing(tmp_path, past):
    planned = build(log=('links',))

    class Cut(experiment.Callback):
        def on_period(self, lane, record):
            if (lane.seed, record['round']) == (1, 2):
                raise experiment.Stop

    with pytest.raises(experiment.Stop):
        planned.run(tmp_path / 'cut', [Cut()])
    planned.fork(tmp_path / 'cut', 6, tmp_path / 'fork')
    assert_same_future(tmp_path / 'fork', past, 8, after=6)


def test_a_damaged_checkpoint_is_computed_again(tmp_path, past):
    folder = shutil.copytree(past, tmp_path / 'past')
    for path in (folder / 'checkpoints').glob('*@6.npz'):
        path.write_bytes(b'')
    build(log=('links',)).fork(folder, 6, tmp_path / 'fork')
    assert_same_future(tmp_path / 'fork', past, 8, after=6)


@pytest.mark.slow
def test_a_fork_of_a_fork_begins_with_the_states_of_the_first(
    tmp_path, past, monkeypatch
):
    # No save but the last, however slow the machine is: the fork computes round 6 again.
    monkeypatch.setattr('fedjax_links.runner.stages._SAVE_SECONDS', 3600.0)
    changed = build(client={'learning_rate': 0.05, 'local_steps': 2, 'batch_size': 4})
    changed.fork(past, 4, tmp_path / 'one')
    assert {
        path.stem[-2:] for path in (tmp_path / 'one' / 'checkpoints').iterdir()
    } == {'@8'}
    changed.fork(tmp_path / 'one', 6, tmp_path / 'two')
    assert by_lane(tmp_path / 'two') == by_lane(tmp_path / 'one', after=6)
    with pytest.raises(ValueError, match=r'`at_round` must lie in \[4, 7\], the '):
        running.fork(changed, tmp_path / 'one', 2)


def states_of(past, seeds):
    """Returns the states of lanes after six rounds, read from their checkpoints."""
    planned = build()
    like = jax.eval_shape(
        lambda key: simulation.init(
            key,
            planned.algorithm_at('fedavg', {'client.learning_rate': 0.1}),
            planned.pattern_at('links', {}),
            planned.problem_at('links', {}),
        ),
        jax.random.key(0),
    )
    paths = [
        past / f'checkpoints/main-fedavg-0000-links-{seed}@6.npz' for seed in seeds
    ]
    return [checkpoints.load(path, like) for path in paths]


def plain_evaluations(planned, states, num_rounds):
    """Returns the evaluations of plain simulations, which begin with the state of each seed."""
    problem = planned.problem_at('links', {})
    rate = np.float32(planned.config['client']['learning_rate'])

    @jax.jit
    def run(key, state, problem, rate):
        return simulation.simulate(
            key,
            planned.algorithm_at('fedavg', {'client.learning_rate': rate}),
            planned.pattern_at('links', {}),
            problem,
            num_rounds=num_rounds,
            eval_every=2,
            eval_fn=planned.plan.eval_fn(problem),
            initial_state=state,
        ).evals['server']

    return [
        run(jax.random.key(seed), state, problem, rate)
        for seed, state in zip(planned.seeds, states, strict=True)
    ]


@pytest.mark.parametrize(
    'changes, keeps_carry',
    [
        pytest.param(
            {'links': {**MARKOV, 'up_rate': 0.2}}, False, marks=pytest.mark.slow
        ),
        pytest.param(
            {'links': {'name': 'bernoulli', 'probs': MARKOV['probs']}},
            False,
            marks=pytest.mark.slow,
        ),
        ({'client': OTHER_RATE, 'links': OUTAGE}, True),
    ],
)
def test_a_fork_is_the_plain_simulation_from_stored_states(
    tmp_path, past, changes, keeps_carry
):
    """A pattern keeps the carry of the run if its section is the same, and restarts if not.

    An outage around a pattern has no carry itself, and changes none.
    """
    planned = build(num_rounds=10, **changes)
    results = planned.fork(past, 6, tmp_path)
    states = states_of(past, planned.seeds)
    if not keeps_carry:
        pattern = planned.pattern_at('links', {})
        for index, seed in enumerate(planned.seeds):
            carry = pattern.init(fl.prng.pattern_key(jax.random.key(seed)))
            states[index] = states[index]._replace(participation=carry)
    expected = plain_evaluations(planned, states, num_rounds=4)
    for seed, evals in zip(planned.seeds, expected, strict=True):
        lane = results['seed'] == seed
        for metric, curve in evals.items():
            np.testing.assert_array_equal(
                np.float32(results[f'server/{metric}'][lane]), curve
            )


@pytest.mark.slow
def test_an_interrupted_fork_has_the_bytes_of_an_unbroken_one(
    tmp_path, past, monkeypatch
):
    monkeypatch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
    planned = build(client=OTHER_RATE, num_rounds=12)
    planned.fork(past, 4, tmp_path / 'whole')

    class PowerCutError(Exception):
        pass

    class Cut(experiment.Callback):
        def on_period(self, lane, record):
            if (lane.seed, record['round']) == (1, 6):
                raise PowerCutError

    with pytest.raises(PowerCutError):
        planned.fork(past, 4, tmp_path / 'cut', [Cut()])
    planned.fork(past, 4, tmp_path / 'cut')
    for name in (runs.METRICS, runs.CONFIG, runs.EXPERIMENT, runs.LINKS):
        assert (tmp_path / 'cut' / name).read_bytes() == (
            tmp_path / 'whole' / name
        ).read_bytes()
    assert_same_future(tmp_path / 'cut', tmp_path / 'whole', 12)


@pytest.mark.slow
def test_a_fork_of_a_tuned_run_is_the_run_itself(tmp_path):
    planned = experiment.build(tuned_on_one_pattern(algorithms={'fedavg': {}}))
    planned.run(tmp_path / 'run')
    planned.fork(tmp_path / 'run', 4, tmp_path / 'fork')
    run_lanes = by_lane(tmp_path / 'run', after=4)
    fork_lanes = by_lane(tmp_path / 'fork')
    assert fork_lanes.keys() == run_lanes.keys()
    ties = {lane for lane in run_lanes if lane[0] == 'tie'}
    assert ties
    # Near ties of a fork begin at its main lanes' states, those of a run at round 0.
    assert all(fork_lanes[lane] == run_lanes[lane] for lane in run_lanes.keys() - ties)
    assert all(json.loads(fork_lanes[lane][0])['round'] > 4 for lane in ties)


@pytest.mark.slow
def test_experiments_made_in_python_fork_at_their_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
    planned = in_python()
    planned.run(tmp_path / 'run')
    planned.fork(tmp_path / 'run', 36, tmp_path / 'fork')
    saved = [json.loads(x) for x in (tmp_path / 'run' / runs.METRICS).open()]
    ours = [json.loads(x) for x in (tmp_path / 'fork' / runs.METRICS).open()]
    assert ours == [row for row in saved if row['round'] > 36]
    assert last_states(tmp_path / 'fork', 40) == last_states(tmp_path / 'run', 40)
    with pytest.raises(ValueError, match=r'has no config, got 20; there is 36, 40\.$'):
        running.fork(planned, tmp_path / 'run', 20)


@pytest.mark.parametrize(
    'changes, at_round, message',
    [
        ({}, 3, r'`at_round` must be a multiple of `eval_every` = 2, got 3'),
        (
            {'eval_every': 4},
            6,
            r'`at_round` must be a multiple of `eval_every` = 4, got 6',
        ),
        (
            {'eval_every': 1},
            5,
            r'`at_round` must be a multiple of `eval_every` = 2, got 5',
        ),
        ({'num_rounds': 20}, 10, r'`at_round` must lie in \[1, 8\]'),
        (
            {},
            8,
            r'`at_round` must lie in \[1, 7\], the rounds of .* below `num_rounds`, got 8',
        ),
        ({}, 0, r'`at_round` must be at least 1, got 0'),
        ({'num_seeds': 3}, 6, r'must hold seed 2, got .* with 0, 1\.'),
        (
            {'algorithms': {'mifa': {}}},
            6,
            r'fit mifa, got .* with fedavg, whose state has none at \.algo',
        ),
        (
            {'problem': {'name': 'digits', 'num_clients': 9, 'alpha': 0.5}},
            6,
            r'has int32\[8\] at ',
        ),
    ],
)
def test_a_fork_that_cannot_be_is_refused_in_a_line(
    tmp_path, past, changes, at_round, message
):
    with refusals.one_line(message):
        # Programs, which are the run's own, are not compared: that takes longest.
        build(**changes).fork(past, at_round, tmp_path / 'f', allow_changed=True)
    assert not (tmp_path / 'f').exists()


@pytest.mark.slow
def test_a_lane_is_matched_by_labels_or_as_the_only_one(tmp_path, past):
    renamed = {'mine': {'name': 'fedavg'}}
    patterns = {'burst': MARKOV, 'calm': {**MARKOV, 'up_rate': 0.2}}
    changed = experiment.build(small(algorithms=renamed, links=None, patterns=patterns))
    results = changed.fork(past, 6)
    same = results['pattern'] == 'burst'
    theirs = runs.read(past)
    late = theirs['round'] > 6
    np.testing.assert_array_equal(
        results['server/eval_loss'][same], theirs['server/eval_loss'][late]
    )
    running.start(changed, tmp_path / 'two')
    for wrong, message in (
        (
            {'patterns': {'burt': MARKOV}},
            "hold pattern 'burt', got .* with burst, calm",
        ),
        ({'links': MARKOV}, "hold pattern 'links', got .* with burst, calm"),
    ):
        planned = experiment.build(small(**{'links': None, **wrong}))
        with pytest.raises(ValueError, match=message):
            running.fork(planned, tmp_path / 'two', 6)


@pytest.mark.slow
def test_points_of_a_grid_are_forked_from_their_own_lanes(tmp_path):
    grid = {'client': {'learning_rate': (0.1, 0.05)}}
    planned = build(grid=grid)
    planned.run(tmp_path / 'run')
    planned.fork(tmp_path / 'run', 6, tmp_path / 'fork')
    assert_same_future(tmp_path / 'fork', tmp_path / 'run', 8, after=6)
    with pytest.raises(
        ValueError, match=r'hold one lane with .*learning_rate 0\.02, got .* with 0'
    ):
        running.fork(
            build(grid={'client': {'learning_rate': (0.02,)}}), tmp_path / 'run', 6
        )


@pytest.mark.slow
def test_a_fork_into_the_folder_of_another_run_is_refused(tmp_path, past):
    folder = shutil.copytree(past, tmp_path / 'there')
    with pytest.raises(
        ValueError, match=r'where config\.at_round is None and not 6\.$'
    ):
        build(log=('links',)).fork(past, 6, folder)
    build().fork(past, 6, tmp_path / 'fork')
    with pytest.raises(
        ValueError, match=r'where config\.at_round is 6 and not None\.$'
    ):
        build().run(tmp_path / 'fork')
