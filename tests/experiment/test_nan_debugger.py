"""Debugging a round that is not finite: the client, its local step, the tensor."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, participation, problems, runs
from fedjax_links.core import prng
from fedjax_links.experiment import nan_debugger
from tests.experiment.configs import tuned, tuned_on_one_pattern
from tests.reference import local_loops
from tests.runner import running

NUM_CLIENTS = 5
BAD_CLIENT = 3
BAD_EXAMPLE = 2
BAD_ROUND = 4


def links():
    """All clients in every round, except that one joins in the bad round."""
    mask = np.ones((8, NUM_CLIENTS), bool)
    mask[:BAD_ROUND, BAD_CLIENT] = False
    return participation.replay(mask)


def lines(client=BAD_CLIENT, sizes=(4,) * NUM_CLIENTS):
    """Builds least squares; one entry of one example of one client is not a number."""
    clients = np.repeat(np.arange(NUM_CLIENTS), sizes)
    features = (
        np.random.default_rng(0).normal(size=(clients.size, 2)).astype(np.float32)
    )

    def loss_fn(params, batch):
        error = batch.features @ params['kernel'] - batch.labels
        return jnp.mean(jnp.square(error))

    problem = problems.from_arrays(
        features,
        np.zeros(clients.size, np.float32),
        clients,
        init_params=lambda key: {'bias': jnp.ones(()), 'kernel': jnp.ones(2)},
        loss_fn=loss_fn,
    )
    bad = np.flatnonzero(clients == client)[BAD_EXAMPLE]
    # Set afterwards, because a problem refuses such features.
    features = problem.data.features.at[bad, 1].set(jnp.nan)
    data = problem.data._replace(features=features)
    return dataclasses.replace(problem, data=data, eval_data=data)


def steps_until_sampled(problem, seed, batch_size, num_steps):
    """Returns the first local step of the bad round whose batch has the bad example."""
    key = prng.client_key(
        prng.round_key(jax.random.key(seed), 'client', BAD_ROUND), BAD_CLIENT
    )
    for step in range(num_steps):
        count = problem.counts[BAD_CLIENT]
        rows = local_loops.sampled_rows(
            jax.random.fold_in(key, step), batch_size, count
        )
        if BAD_EXAMPLE in rows.tolist():
            return step
    return None


def planned(
    problem, *, batch_size=1, algorithm='fedavg', steps=6, pattern=None, **changes
):
    client = fl.local_training.local_sgd(0.1, local_steps=steps, batch_size=batch_size)
    base = {
        'title': 'Goes wrong',
        'problem': problem,
        'patterns': {'some': pattern or links()},
        'algorithms': {algorithm: fl.ALGORITHMS[algorithm](client)},
        'num_rounds': 8,
        'eval_every': 2,
        'seeds': (2, 5),  # whose bad round draws the bad example
    }
    return fl.Experiment(**{**base, **changes})


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob('*') if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize('algorithm', ['fedavg', 'scaffold'])
def test_the_client_the_local_step_and_the_tensor_are_named(tmp_path, algorithm):
    problem = lines()
    built = planned(problem, algorithm=algorithm)
    results = built.run(tmp_path)
    before = files(tmp_path)
    bad = results.columns['first_bad_round'][results['round'] == 8]
    np.testing.assert_array_equal(bad, BAD_ROUND)
    computed = list(nan_debugger.debug_round(built, tmp_path, BAD_ROUND))
    expected = [
        f'{algorithm}, some, seed {seed}, round 4: client 3, local step '
        f'{steps_until_sampled(problem, seed, 1, 6)}: the loss and the gradient of '
        "['kernel'] (first entry [0]) are not finite; neither are its data, by example: "
        '.features (first entry [2, 1])'
        for seed in (2, 5)
    ]
    assert computed == expected
    assert files(tmp_path) == before


@pytest.mark.slow
def test_a_client_that_only_pads_a_chunk_is_not_named(tmp_path):
    """Clients train in chunks; the last of all pads a chunk with fewer active ones."""
    last = NUM_CLIENTS - 1
    mask = np.ones((8, NUM_CLIENTS), bool)
    mask[:, last] = False
    pattern = participation.replay(mask)
    built = planned(lines(client=last), pattern=pattern, batch_size=None, seeds=(0,))
    assert built.run(tmp_path)['finite'].all()
    (line,) = nan_debugger.debug_round(built, tmp_path, 7)
    assert line.endswith('round 7: everything is finite (4 clients trained)')


@pytest.mark.slow
@pytest.mark.parametrize('sizes', [(4,) * NUM_CLIENTS, (1, 2, 3, 4, 4)])
def test_full_batches_of_equal_or_unequal_size(tmp_path, sizes):
    built = planned(lines(sizes=sizes), batch_size=None, steps=2, seeds=(0,))
    built.run(tmp_path)
    (line,) = nan_debugger.debug_round(built, tmp_path, BAD_ROUND)
    assert 'client 3, local step 0: the loss and the gradient' in line


@pytest.mark.slow
def test_a_round_before_and_a_round_after(tmp_path):
    built = planned(lines(), seeds=(2,))
    built.run(tmp_path)
    (line,) = nan_debugger.debug_round(built, tmp_path, BAD_ROUND - 1)
    assert line.endswith('round 3: everything is finite (4 clients trained)')
    (line,) = nan_debugger.debug_round(built, tmp_path, BAD_ROUND + 1)
    assert 'the state has not been finite since round 4: .server[' in line
    with pytest.raises(
        ValueError, match='`debug_round` must be below 8, the number of rounds'
    ):
        nan_debugger.debug_round(built, tmp_path, 8)
    with pytest.raises(
        ValueError, match='`workdir` must hold a run of this experiment'
    ):
        nan_debugger.debug_round(planned(lines()), tmp_path, 4)


def test_a_loss_that_is_infinite_before_the_state_is_told_apart(tmp_path):
    """Each local step multiplies the weight by 2,000 until float32 overflows."""

    def loss_fn(params, batch):
        weight = params['weight']
        growth = -2 * jax.lax.stop_gradient(weight) * weight
        return growth + jax.lax.stop_gradient(jnp.where(weight > 5, jnp.inf, 0.0))

    problem = problems.from_arrays(
        np.zeros((NUM_CLIENTS, 1), np.float32),
        np.zeros(NUM_CLIENTS, np.float32),
        np.arange(NUM_CLIENTS),
        init_params=lambda key: {'weight': jnp.ones(())},
        loss_fn=loss_fn,
    )
    client = fl.local_training.local_sgd(999.5, local_steps=2)
    algorithms = {'fedavg': fl.ALGORITHMS['fedavg'](client)}
    built = planned(problem, algorithms=algorithms, seeds=(0,))
    results = built.run(tmp_path)
    np.testing.assert_array_equal(results['first_bad_round'], 1)
    num_finite_steps = int(np.log(np.finfo(np.float32).max) / np.log(2000))
    bad_round = num_finite_steps // 2
    assert bad_round > 1
    (line,) = nan_debugger.debug_round(built, tmp_path, 7)
    since = f'since round {bad_round}: '
    assert line.endswith(f"the state has not been finite {since}.server['weight']")


@pytest.mark.slow
def test_a_checkpoint_that_is_not_finite_is_named(tmp_path):
    mask = np.ones((10, NUM_CLIENTS), bool)
    mask[:BAD_ROUND, BAD_CLIENT] = False
    for num_rounds in (6, 10):
        built = planned(
            lines(),
            pattern=participation.replay(mask),
            batch_size=None,
            num_rounds=num_rounds,
            seeds=(0,),
        )
        built.run(tmp_path)
    (line,) = nan_debugger.debug_round(built, tmp_path, 7)
    assert (
        'the state of its checkpoint after 6 rounds is not finite; its server model or loss '
        "has not been since round 4: .server['kernel']"
    ) in line


def test_a_layer_without_entries_is_finite(tmp_path):
    problem = dataclasses.replace(
        lines(),
        init_params=lambda key: {'empty': jnp.ones((0, 3)), 'kernel': jnp.ones(2)},
    )
    built = planned(problem, batch_size=None, seeds=(0,))
    built.run(tmp_path)
    (line,) = nan_debugger.debug_round(built, tmp_path, BAD_ROUND)
    assert "client 3, local step 0: the loss and the gradient of ['kernel']" in line


def test_a_folder_without_a_completed_round_is_refused(tmp_path):
    built = planned(lines(), seeds=(0,))
    running.start(built, tmp_path)
    with pytest.raises(
        ValueError, match='`workdir` must hold a lane that completed a round, got /'
    ):
        nan_debugger.debug_round(built, tmp_path, 0)


def test_an_initial_model_that_is_not_finite_is_named(tmp_path):
    problem = dataclasses.replace(
        lines(),
        init_params=lambda key: {
            'bias': jnp.ones(()),
            'kernel': jnp.array([1.0, jnp.nan]),
        },
    )
    built = planned(problem, seeds=(0,))
    built.run(tmp_path)
    (line,) = nan_debugger.debug_round(built, tmp_path, 0)
    expected = "the initial state is not finite: .server['kernel'] (first entry [1])"
    assert line == f'fedavg, some, seed 0, round 0: {expected}'


@pytest.mark.slow
def test_a_broken_model_is_found_in_the_round_of_its_local_step(
    tmp_path,
):
    """FedPBC's inactive clients train too, and their uploads reach the server rounds later."""
    built = planned(lines(), algorithm='fedpbc', batch_size=None, seeds=(0,))
    results = built.run(tmp_path)
    assert results['first_bad_round'][-1] == BAD_ROUND
    (line,) = nan_debugger.debug_round(built, tmp_path, BAD_ROUND)
    assert "the state has not been finite since round 0: .clients['kernel']" in line
    (line,) = nan_debugger.debug_round(built, tmp_path, 0)
    assert 'client 3, local step 0: the loss and the gradient of' in line


def test_a_step_that_overflows_shows_in_the_next_one(tmp_path):
    """Losses and gradients of the first step are finite: 1e30 and 1e15."""
    huge = problems.quadratic(np.full((2, 1), 1e15))
    client = fl.local_training.local_sgd(1e30, local_steps=3)
    built = planned(
        huge,
        patterns={'all': participation.always(2)},
        algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
        num_rounds=2,
        seeds=(0,),
    )
    built.run(tmp_path)
    (line,) = nan_debugger.debug_round(built, tmp_path, 0)
    model = (
        'the model that the step before left is not finite: the array (first entry [0])'
    )
    assert f'client 0, local step 1: {model}; 1 more client too: 1' in line


def test_links_of_unknown_probability_are_named(tmp_path):
    """A quorum of clients of several speeds; a known probability is not named."""
    client = fl.local_training.local_sgd(0.1, local_steps=1)
    built = planned(
        problems.quadratic(np.arange(3.0)[:, None]),
        patterns={
            'quorum': participation.quorum([1.0, 2.0, 3.0], quorum=2),
            'known': participation.bernoulli([0.5, 1.0, 1.0]),
        },
        algorithms={'fedavg_known': fl.ALGORITHMS['fedavg_known'](client)},
        num_rounds=2,
        seeds=(0,),
    )
    built.run(tmp_path)
    (line,) = nan_debugger.debug_round(built, tmp_path, 0)
    assert line.startswith('fedavg_known, quorum, ')
    assert 'the pattern does not know the probabilities of its links' in line


@pytest.mark.slow
def test_debugging_a_tuned_run_names_the_trial_that_diverged(tmp_path):
    """Tuning tries a rate that diverges, and chooses another one."""
    tuning = {**tuned()['tuning'], 'learning_rates': (0.1, 1e38), 'num_seeds': 1}
    changes = {'algorithms': {'fedavg': {}}, 'num_seeds': 1, 'num_rounds': 16}
    built = experiment.build(tuned_on_one_pattern(tuning=tuning, **changes))
    results = built.run(tmp_path)
    bad = results['first_bad_round'][~results['finite']]
    (line,) = nan_debugger.debug_round(built, tmp_path, int(bad[0]))
    assert line.startswith(
        'fedavg, bernoulli, seed 10000, learning_rate 1e+38, tuning, round '
    )
    assert 'not finite' in line
    (healthy,) = nan_debugger.debug_round(built, tmp_path, 13)
    assert 'everything is finite' in healthy


def test_finite_runs_have_no_column_of_bad_rounds(past):
    assert 'first_bad_round' not in runs.read(past).columns
