"""Tables of one row per client: their size, their precision, and what a round costs on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, participation, problems, simulation, tree

NUM_CLIENTS, DIMENSION = 50, 30
WITH_TABLE = ['feddyn', 'fedstale', 'fedvarp', 'focus', 'mifa', 'mifa_waiting', 'scaffold']
OPTIONS = {
    'amplified_scaffold': {'period': 5, 'amplification': 1.2},
    'fedbuff': {'buffer_size': 8},
    'feddyn': {'alpha': 1.0},
    'fedstale': {'stale_weight': 1.0},
    'focus': {'server_lr': 0.005},
}


def federation(num_clients=NUM_CLIENTS, dimension=DIMENSION):
    targets = np.random.default_rng(2).normal(size=(num_clients, dimension)) * 3
    return problems.quadratic(targets)


def build(name, **kwargs):
    program = local_training.local_sgd(0.05, local_steps=3)
    return getattr(algorithms, name)(program, **OPTIONS.get(name, {}), **kwargs)


def simulate(algorithm, problem, num_rounds, num_active=10):
    links = participation.uniform_cohort(problem.num_clients, num_active)
    run = jax.jit(
        lambda key, problem: simulation.simulate(
            key, algorithm, links, problem, num_rounds=num_rounds
        )
    )
    return run(jax.random.key(3), problem).state.algorithm


def scratch_bytes(algorithm, links, problem):
    """What five compiled rounds take beside their state, which they overwrite as a scan does."""
    key = jax.random.key(0)
    state = jax.eval_shape(lambda k, p: simulation.init(k, algorithm, links, p), key, problem)

    def rounds(key, problem, state):
        options = {'num_rounds': 5, 'initial_state': state}
        return simulation.simulate(key, algorithm, links, problem, **options).state

    compiled = jax.jit(rounds, donate_argnums=2).lower(key, problem, state).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def table_and_sum(name, state):
    """The table and what the state holds as its sum, in float64."""
    if name == 'scaffold':
        return state.client_controls, np.asarray(state.control, float) * NUM_CLIENTS
    state = state.memory if name == 'mifa_waiting' else state
    return state.memory, np.asarray(state.memory_sum, float)


@pytest.mark.parametrize('name', WITH_TABLE)
@pytest.mark.parametrize('dtype, width', [(None, 4), (jnp.bfloat16, 2)])
def test_the_state_holds_one_table_and_two_models(name, dtype, width):
    problem = federation()
    algorithm = build(name, table_dtype=dtype)
    state = jax.eval_shape(algorithm.init, jnp.zeros(DIMENSION), problem)
    models = 4 * 2 * DIMENSION + width * NUM_CLIENTS * DIMENSION
    flags = NUM_CLIENTS + 4 if name == 'mifa_waiting' else 0
    assert tree.num_bytes(state) == models + flags


@pytest.mark.parametrize('dtype, width', [(None, 4), (jnp.bfloat16, 2)])
def test_fedpbc_keeps_a_model_per_client(dtype, width):
    algorithm = build('fedpbc', table_dtype=dtype)
    state = jax.eval_shape(algorithm.init, jnp.zeros(DIMENSION), federation())
    assert tree.num_bytes(state) == 4 * DIMENSION + width * NUM_CLIENTS * DIMENSION


@pytest.mark.parametrize('dtype, width', [(None, 4), (jnp.bfloat16, 2)])
def test_what_else_keeps_more_than_a_row(dtype, width):
    problem, row = federation(), width * NUM_CLIENTS * DIMENSION
    for name, num_models, num_rows, num_integers in (
        ('amplified_scaffold', 4, 2, NUM_CLIENTS),
        ('fedbuff', 2, 1, NUM_CLIENTS + 2),
    ):
        algorithm = build(name, table_dtype=dtype)
        state = jax.eval_shape(algorithm.init, jnp.zeros(DIMENSION), problem)
        kept = 4 * (num_models * DIMENSION + num_integers) + num_rows * row
        assert tree.num_bytes(state) == kept, name


def test_with_narrow_rows_the_controls_sum_is_that_of_the_rounded_means():
    state = simulate(build('amplified_scaffold', table_dtype=jnp.bfloat16), federation(), 62)
    means = np.asarray(state.clients[1].astype(jnp.float32), float)
    assert state.clients[1].dtype == jnp.bfloat16
    error = np.abs(np.asarray(state.mean_sum, float) - means.sum(axis=0)).max()
    assert error < 1e-5 * NUM_CLIENTS * np.abs(means).max()


def test_rounded_client_models_stay_within_their_precision():
    """Each round rounds every model by at most 2^-9 of itself, and training contracts."""
    problem, num_rounds = federation(), 200
    plain = simulate(build('fedpbc'), problem, num_rounds)
    rounded = simulate(build('fedpbc', table_dtype=jnp.bfloat16), problem, num_rounds)
    assert rounded.server.dtype == jnp.float32
    assert rounded.clients.dtype == jnp.bfloat16
    models = algorithms.fedpbc(local_training.local_sgd(0.05, local_steps=3)).models
    ours, theirs = (models(state)['client_mean'] for state in (rounded, plain))
    assert ours.dtype == jnp.float32
    largest = float(jnp.abs(plain.clients).max())
    contraction = 1 - 0.95**3  # of the distance to the client's own target in a round
    bound = 2.0**-9 * largest / contraction
    np.testing.assert_allclose(rounded.clients.astype(float), plain.clients, atol=2 * bound)
    np.testing.assert_allclose(ours, theirs, atol=bound)
    assert float(jnp.abs(rounded.clients.astype(float) - plain.clients).max()) > 0


def test_fedawe_keeps_one_model_and_one_integer_per_client():
    state = jax.eval_shape(build('fedawe').init, jnp.zeros(DIMENSION), federation())
    assert tree.num_bytes(state) == 4 * ((1 + NUM_CLIENTS) * DIMENSION + NUM_CLIENTS)


@pytest.mark.parametrize('name', WITH_TABLE)
def test_the_running_sum_stays_the_tables_sum_within_the_documented_drift(name):
    num_rounds = 1000
    state = simulate(build(name), federation(), num_rounds)
    table, running = table_and_sum(name, state)
    exact = np.asarray(table, float).sum(axis=0)
    largest = 3 * NUM_CLIENTS  # the first sums, of gradients at the start
    drift = np.finfo(np.float32).eps * largest * np.sqrt(10 * num_rounds)
    assert np.abs(running - exact).max() < drift


@pytest.mark.parametrize('name', WITH_TABLE)
def test_with_a_bfloat16_table_the_sum_is_that_of_the_rounded_rows(name):
    """Summing unrounded rows would be off by the rounding of bfloat16, 50 times the bound."""
    state = simulate(build(name, table_dtype=jnp.bfloat16), federation(), 60)
    table, running = table_and_sum(name, state)
    assert table.dtype == jnp.bfloat16
    exact = np.asarray(table.astype(jnp.float32), float).sum(axis=0)
    scale = np.abs(np.asarray(table.astype(jnp.float32))).max()
    assert np.abs(running - exact).max() < 1e-5 * NUM_CLIENTS * max(scale, 1e-3)
    assert scale > 0


@pytest.mark.parametrize('name', WITH_TABLE)
def test_a_bfloat16_table_ends_near_the_full_one(name):
    problem = federation()
    full = simulate(build(name), problem, 300)
    half = simulate(build(name, table_dtype=jnp.bfloat16), problem, 300)
    server = {'full': full, 'half': half}
    if name == 'mifa_waiting':
        server = {key: state.memory for key, state in server.items()}
    optimum = np.asarray(problem.data).mean(axis=0)
    np.testing.assert_allclose(server['full'].server, optimum, atol=2e-3)
    np.testing.assert_allclose(server['half'].server, optimum, atol=3e-2)


@pytest.mark.optimised
@pytest.mark.parametrize(
    'name',
    [
        pytest.param(
            name, marks=() if name in ('scaffold', 'fedawe', 'fedbuff') else pytest.mark.slow
        )
        for name in [*WITH_TABLE, 'fedawe', 'fedbuff', 'amplified_scaffold']
    ],
)
def test_a_round_neither_copies_nor_sums_the_table(name):
    """Scratch memory of compiled rounds stays far below the table: cost follows the active."""
    problem = federation(num_clients=2000, dimension=500)
    algorithm = build(name)
    links = participation.uniform_cohort(2000, 10)
    assert scratch_bytes(algorithm, links, problem) < 0.2 * 4 * 2000 * 500


@pytest.mark.optimised
@pytest.mark.parametrize('name', [*WITH_TABLE, 'amplified_scaffold', 'fedpbc', 'fedavg_all'])
def test_large_models_are_trained_one_by_one_in_a_table_replaced_in_place(name):
    """Of models that clients train one by one: a few in scratch memory, and no second table."""
    num_clients, dimension = 60, 20_000
    problem = federation(num_clients, dimension)
    algorithm = build(name)
    links = participation.bernoulli(np.full(num_clients, 0.2, np.float32))
    assert scratch_bytes(algorithm, links, problem) < 15 * 4 * dimension


@pytest.mark.parametrize('name', ['mifa', 'fedvarp', 'scaffold'])
def test_a_wider_table_changes_nothing(name):
    problem = federation()
    plain = simulate(build(name), problem, 20)
    wide = simulate(build(name, table_dtype=jnp.float32), problem, 20)
    np.testing.assert_array_equal(plain.server, wide.server)
