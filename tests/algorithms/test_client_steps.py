"""Clients with their own numbers of local steps do exactly the first ones."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.clients import step_counts
from fedjax_links.core import prng
from tests import refusals
from tests.reference import statistics
from tests.tiers import cases


@pytest.mark.parametrize('batch_size', cases([None, 1, 3], [3]))
@pytest.mark.parametrize('optimizer', [None, optax.adam])
def test_a_client_with_k_steps_equals_a_program_of_k_steps(batch_size, optimizer):
    problem = statistics.noisy_quadratic(statistics.TARGETS)
    kwargs = {'batch_size': batch_size, 'optimizer': optimizer}
    uneven = local_training.local_sgd(
        0.1, local_steps=5, client_steps=np.array([1, 5, 2, 2]), **kwargs
    )
    start = jnp.array([0.3, -0.2])
    run = jax.jit(uneven.run)
    key = prng.client_key(jax.random.key(3), 0)
    for client, steps in enumerate([1, 5, 2]):
        even = local_training.local_sgd(0.1, local_steps=steps, **kwargs)
        ours = run(start, client, jnp.int32(0), key, problem)
        theirs = jax.jit(even.run)(start, client, jnp.int32(0), key, problem)
        assert ours.num_steps == theirs.num_steps == steps
        # Plain steps are the same to the bit. Adam divides by a root and by a power of the step's
        # number, which compilers round differently in loops of different lengths.
        rtol = 0 if optimizer is None else 1e-6
        np.testing.assert_allclose(ours.params, theirs.params, rtol=rtol, atol=0)
        np.testing.assert_allclose(ours.delta, theirs.delta, rtol=rtol, atol=0)
        np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-6)


def test_nothing_that_happens_after_the_last_step_can_leak():
    """Steps past a client's own may overflow; they are selected away, not multiplied by zero."""
    problem = problems.quadratic(np.zeros((2, 1)))
    program = local_training.local_sgd(
        1e30, local_steps=5, client_steps=np.array([1, 5])
    )
    key = jax.random.key(0)
    run = jax.jit(program.run)
    one_step = run(jnp.ones(1), 0, jnp.int32(0), key, problem)
    np.testing.assert_allclose(one_step.delta, [-1e30], rtol=1e-6)
    assert one_step.loss == 0.5
    # The same steps overflow for a client that keeps them.
    five_steps = run(jnp.ones(1), 1, jnp.int32(0), key, problem)
    assert not np.isfinite(five_steps.delta).any()


def test_traced_steps_are_accepted():
    problem = problems.quadratic(np.ones((2, 1)))

    def server(steps):
        program = local_training.local_sgd(0.5, local_steps=3, client_steps=steps)
        result = simulation.simulate(
            jax.random.key(0),
            algorithms.fedavg(program),
            participation.always(2),
            problem,
            num_rounds=1,
        )
        return result.state.algorithm.server

    models = jax.jit(jax.vmap(server))(jnp.array([[1, 1], [2, 2], [1, 3]]))
    np.testing.assert_allclose(models[:, 0], [0.5, 0.75, (0.5 + 0.875) / 2], rtol=1e-6)


@pytest.mark.parametrize(
    'steps, message',
    [
        (np.array([1, 5]), r'`client_steps` must lie in \[1, 4\], got 5 at client 1'),
        (np.array([0, 4]), r'`client_steps` must lie in \[1, 4\], got 0 at client 0'),
        (np.array([1.0, 2.0]), '`client_steps` must hold integers, got dtype float'),
        (3, '`client_steps` must be a vector with one entry per client, got 3'),
    ],
)
def test_impossible_steps_are_refused(steps, message):
    with pytest.raises(ValueError, match=message):
        local_training.local_sgd(0.1, local_steps=4, client_steps=steps)


def test_steps_for_other_clients_are_refused():
    program = local_training.local_sgd(
        0.1, local_steps=4, client_steps=np.array([1, 2, 3])
    )
    problem = problems.quadratic(np.ones((2, 1)))
    with pytest.raises(
        ValueError, match=r"`client_steps` .*problem's 2 clients, got 3"
    ):
        program.run(jnp.zeros(1), 0, jnp.int32(0), jax.random.key(0), problem)


def sampled_steps(program, problem, num_rounds, seed=5):
    """The steps that each client takes in each round, int[T, N]."""
    stream = prng.stream(jax.random.key(seed), 'client')
    start = problem.init_params(jax.random.key(0))

    def steps(t, client):
        key = prng.client_key(jax.random.fold_in(stream, t), client)
        return program.run(start, client, t, key, problem).num_steps

    clients = jnp.arange(problem.num_clients)
    over_clients = jax.vmap(steps, in_axes=(None, 0))
    return np.asarray(
        jax.jit(jax.vmap(over_clients, in_axes=(0, None)))(
            jnp.arange(num_rounds), clients
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize('make', ['local_sgd', 'proximal_sgd'])
def test_partial_work_is_the_first_steps_of_all(make):
    problem = statistics.noisy_quadratic(statistics.TARGETS)
    options = {'batch_size': 2} | ({'mu': 0.3} if make == 'proximal_sgd' else {})
    factory = getattr(local_training, make)
    partial = factory(0.1, local_steps=5, min_steps=2, **options)
    start = jnp.array([0.3, -0.2])
    seen = set()
    for t in range(12):
        key = prng.client_key(jax.random.fold_in(jax.random.key(3), t), 1)
        ours = jax.jit(partial.run)(start, 1, jnp.int32(t), key, problem)
        steps = int(ours.num_steps)
        even = factory(0.1, local_steps=steps, **options)
        theirs = jax.jit(even.run)(start, 1, jnp.int32(t), key, problem)
        np.testing.assert_array_equal(ours.params, theirs.params)
        seen.add(steps)
    assert seen == {2, 3, 4, 5}


def test_partial_work_is_uniform_and_independent():
    """24,000 draws of four numbers at 4.5 deviations.

    So are pairs of successive rounds and of neighbouring clients.
    """
    problem = problems.quadratic(np.zeros((20, 1)))
    program = local_training.local_sgd(0.1, local_steps=5, min_steps=2)
    steps = sampled_steps(program, problem, 1200)
    shares = np.bincount(steps.ravel(), minlength=6)[2:] / steps.size
    assert np.abs(shares - 0.25).max() < 4.5 * np.sqrt(0.25 * 0.75 / steps.size)
    centred = steps - 3.5
    for one, other in ((centred[1:], centred[:-1]), (centred[:, 1:], centred[:, :-1])):
        correlation = (one * other).mean() / 1.25
        assert abs(correlation) < 4.5 / np.sqrt(one.size)


def test_partial_work_ends_at_the_client_s_own_steps():
    problem = problems.quadratic(np.zeros((3, 1)))
    program = local_training.local_sgd(
        0.1, local_steps=6, client_steps=[2, 6, 4], min_steps=2
    )
    steps = sampled_steps(program, problem, 200)
    assert [sorted(set(column.tolist())) for column in steps.T] == [
        [2],
        [2, 3, 4, 5, 6],
        [2, 3, 4],
    ]


def test_a_round_of_partial_work_contracts_by_the_mean_power():
    """E (1 - eta)^s over s from 1 to 4, of 4,000 clients at 4.5 standard errors."""
    problem = problems.quadratic(np.zeros((4000, 1)), initial_point=np.ones(1))
    program = local_training.local_sgd(0.5, local_steps=4, min_steps=1)
    result = simulation.simulate(
        jax.random.key(1),
        algorithms.fedavg(program),
        participation.always(4000),
        problem,
        num_rounds=1,
    )
    powers = 0.5 ** np.arange(1, 5)
    error = powers.std() / np.sqrt(4000)
    server = float(result.state.algorithm.server[0])
    assert abs(server - powers.mean()) < 4.5 * error


def test_fednova_follows_its_listing_on_random_steps(x64):
    targets = np.random.default_rng(0).normal(size=(4, 2))
    problem = problems.quadratic(targets)
    program = local_training.local_sgd(0.2, local_steps=4, min_steps=1)
    result = simulation.simulate(
        jax.random.key(5),
        algorithms.fednova(program),
        participation.always(4),
        problem,
        num_rounds=12,
    )
    steps = sampled_steps(program, problem, 12)
    x = np.zeros(2)
    for row in steps:
        deltas = (1 - 0.8 ** row[:, None]) * (targets - x)
        x = x + row.mean() * (deltas / row[:, None]).mean(axis=0)
    np.testing.assert_allclose(result.state.algorithm.server, x, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(
        result.rounds.extra['num_local_steps'], steps.sum(axis=1)
    )


@pytest.mark.parametrize(
    'options, message',
    [
        ({'local_steps': 4, 'min_steps': 5}, '`min_steps` must be at most 4, got 5'),
        ({'local_steps': 4, 'min_steps': 0}, '`min_steps` must be at least 1, got 0'),
        (
            {'local_steps': 4, 'client_steps': [2, 4], 'min_steps': 3},
            '`min_steps` must be at most 2, got 3',
        ),
        (
            {'local_epochs': 2, 'batch_size': 1, 'min_steps': 1},
            '`min_steps` must be left out beside `local_epochs`',
        ),
    ],
)
def test_impossible_partial_work_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        local_training.local_sgd(0.1, **options)


def test_a_batch_that_no_number_of_epochs_suits_is_named():
    """Else the error would ask for at most 0 epochs."""
    problem = problems.quadratic([[0.0], [1.0]])
    count = step_counts.steps_of(None, 1, 2**31 - 1, None, None)
    with refusals.names('batch_size', 'divide 1 examples into 1 to 1000000 steps'):
        count(problem, jnp.int32(0), jax.random.key(0))
