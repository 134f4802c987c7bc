"""Tables of one row per client: their size, their precision, and what a round costs on them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, participation, problems, simulation
from fedjax_links.core import tree
from tests.tiers import cases

NUM_CLIENTS = 50
DIMENSION = 30
AS_MIFA = ['feddyn', 'fedstale', 'fedvarp', 'focus']
"""They renew rows and their sum by the function that MIFA does it by."""
WITH_TABLE = [*AS_MIFA, 'mifa', 'scaffold']
LONG = 1000  # rounds
OPTIONS = {
    'amplified_scaffold': {'period': 5, 'amplification': 1.2},
    'ca2fl': {'buffer_size': 8},
    'fedbuff': {'buffer_size': 8},
    'feddyn': {'alpha': 1.0},
    'fedstale': {'stale_weight': 1.0},
    'fedstale_async': {'stale_weight': 1.0},
    'focus': {'server_lr': 0.005},
}


def federation(num_clients=NUM_CLIENTS, dimension=DIMENSION):
    targets = np.random.default_rng(2).normal(size=(num_clients, dimension)) * 3
    return problems.quadratic(targets)


def build(name, **kwargs):
    program = local_training.local_sgd(0.05, local_steps=3)
    return getattr(algorithms, name)(program, **OPTIONS.get(name, {}), **kwargs)


def run_of(algorithm, num_rounds, num_active=10):
    """A run of the algorithm, as a function of the federation."""
    links = participation.uniform_cohort(NUM_CLIENTS, num_active)
    key = jax.random.key(3)
    return lambda problem: (
        simulation.simulate(
            key, algorithm, links, problem, num_rounds=num_rounds
        ).state.algorithm
    )


@functools.cache
def end(name, num_rounds, **kwargs):
    """The state after so many rounds; the program is compiled once."""
    return jax.jit(run_of(build(name, **kwargs), num_rounds))(federation())


def scratch_bytes(algorithm, links, problem):
    """What five compiled rounds take beside their state, which they overwrite as a scan does."""
    key = jax.random.key(0)
    state = jax.eval_shape(
        lambda k, p: simulation.init(k, algorithm, links, p), key, problem
    )

    def resume(key, problem, state):
        options = {'num_rounds': 5, 'initial_state': state}
        return simulation.simulate(key, algorithm, links, problem, **options).state

    compiled = jax.jit(resume, donate_argnums=2).lower(key, problem, state).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def table_and_sum(name, state):
    """The table and what the state holds as its sum, in float64."""
    if name == 'scaffold':
        return state.client_controls, np.asarray(state.control, float) * NUM_CLIENTS
    return state.memory, np.asarray(state.memory_sum, float)


@pytest.mark.parametrize('name', WITH_TABLE)
@pytest.mark.parametrize('dtype, width', [(None, 4), (jnp.bfloat16, 2)])
def test_the_state_holds_one_table_and_two_models(name, dtype, width):
    problem = federation()
    algorithm = build(name, table_dtype=dtype)
    state = jax.eval_shape(algorithm.init, jnp.zeros(DIMENSION), problem)
    models = 4 * 2 * DIMENSION + width * NUM_CLIENTS * DIMENSION
    assert tree.num_bytes(state) == models


@pytest.mark.parametrize('dtype, width', [(None, 4), (jnp.bfloat16, 2)])
def test_fedpbc_keeps_a_model_per_client(dtype, width):
    algorithm = build('fedpbc', table_dtype=dtype)
    state = jax.eval_shape(algorithm.init, jnp.zeros(DIMENSION), federation())
    assert tree.num_bytes(state) == 4 * DIMENSION + width * NUM_CLIENTS * DIMENSION


@pytest.mark.parametrize('name', ['fedbuff', 'fedpbc'])
def test_client_models_that_are_cast_may_have_eight_bits(name):
    state = end(name, 3, table_dtype=jnp.float8_e4m3fn)
    assert state.clients.dtype == jnp.float8_e4m3fn
    assert np.isfinite(state.server).all()


@pytest.mark.parametrize('dtype, width', [(None, 4), (jnp.bfloat16, 2)])
def test_states_with_further_rows_have_their_documented_size(dtype, width):
    problem = federation()
    table = width * NUM_CLIENTS * DIMENSION
    for name, num_models, num_tables, num_integers in (
        ('amplified_scaffold', 4, 2, NUM_CLIENTS),
        ('ca2fl', 3, 2, 1),
        ('fedbuff', 2, 1, NUM_CLIENTS + 2),
        ('fedstale_async', 1, 2, 4 * NUM_CLIENTS),
    ):
        algorithm = build(name, table_dtype=dtype)
        state = jax.eval_shape(algorithm.init, jnp.zeros(DIMENSION), problem)
        expected = 4 * (num_models * DIMENSION + num_integers) + num_tables * table
        assert tree.num_bytes(state) == expected, name


def test_with_narrow_rows_controls_sum_the_rounded_means():
    state = end('amplified_scaffold', 62, table_dtype=jnp.bfloat16)
    means = np.asarray(state.clients[1].astype(jnp.float32), float)
    assert state.clients[1].dtype == jnp.bfloat16
    error = np.abs(np.asarray(state.mean_sum, float) - means.sum(axis=0)).max()
    assert error < 1e-5 * NUM_CLIENTS * np.abs(means).max()


def test_rounded_client_models_stay_within_their_precision():
    """Each round rounds every model by at most 2^-9 of itself, and training contracts."""
    plain = end('fedpbc', 200)
    rounded = end('fedpbc', 200, table_dtype=jnp.bfloat16)
    assert rounded.server.dtype == jnp.float32
    assert rounded.clients.dtype == jnp.bfloat16
    models = algorithms.fedpbc(local_training.local_sgd(0.05, local_steps=3)).models
    ours = models(rounded)['client_mean']
    theirs = models(plain)['client_mean']
    assert ours.dtype == jnp.float32
    largest = float(jnp.abs(plain.clients).max())
    contraction = 1 - 0.95**3  # of the distance to the client's own target in a round
    bound = 2.0**-9 * largest / contraction
    np.testing.assert_allclose(
        rounded.clients.astype(float), plain.clients, atol=2 * bound
    )
    np.testing.assert_allclose(ours, theirs, atol=bound)
    assert float(jnp.abs(rounded.clients.astype(float) - plain.clients).max()) > 0


def test_fedawe_keeps_one_model_and_one_integer_per_client():
    state = jax.eval_shape(build('fedawe').init, jnp.zeros(DIMENSION), federation())
    assert tree.num_bytes(state) == 4 * ((1 + NUM_CLIENTS) * DIMENSION + NUM_CLIENTS)


@pytest.mark.slow
@pytest.mark.parametrize('name', WITH_TABLE)
def test_the_running_sum_stays_within_the_documented_drift(name):
    """In a run that ends at the optimum."""
    state = end(name, LONG)
    optimum = np.asarray(federation().data).mean(axis=0)
    np.testing.assert_allclose(state.server, optimum, atol=2e-3)
    table, running = table_and_sum(name, state)
    exact = np.asarray(table, float).sum(axis=0)
    largest = 3 * NUM_CLIENTS  # the first sums, of gradients at the start
    # Ten rows change in a round, and roundings add up like the square root of their number.
    drift = np.finfo(np.float32).eps * largest * np.sqrt(10 * LONG)
    assert np.abs(running - exact).max() < drift


@pytest.mark.slow
@pytest.mark.parametrize('name', WITH_TABLE)
def test_a_bfloat16_table_sums_the_rounded_rows(name):
    """Summing unrounded rows would be off by the rounding of bfloat16, 50 times the bound."""
    state = end(name, 300, table_dtype=jnp.bfloat16)
    table, running = table_and_sum(name, state)
    assert table.dtype == jnp.bfloat16
    exact = np.asarray(table.astype(jnp.float32), float).sum(axis=0)
    scale = np.abs(np.asarray(table.astype(jnp.float32))).max()
    assert np.abs(running - exact).max() < 1e-5 * NUM_CLIENTS * max(scale, 1e-3)
    assert scale > 0


@pytest.mark.parametrize('dtype', [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize(
    'name',
    cases(['mifa', 'scaffold'], ['mifa'])
    + cases(AS_MIFA, [], 'test_with_parameters_of_16_bits_the_sum_is_the_tables'),
)
def test_with_parameters_of_16_bits_the_sum_is_the_tables(name, dtype):
    """A running sum in bfloat16 would be off by the rounding of the sum in every round.

    So would a sum of float16 rows that are stored in bfloat16.
    """
    problem = dataclasses.replace(
        federation(), init_params=lambda key: jnp.zeros(DIMENSION, dtype)
    )
    state = jax.jit(run_of(build(name, table_dtype=jnp.bfloat16), 60))(problem)
    table, running = table_and_sum(name, state)
    assert table.dtype == jnp.bfloat16
    exact = np.asarray(table.astype(jnp.float32), float).sum(axis=0)
    largest = np.abs(np.asarray(table.astype(jnp.float32))).max()
    assert np.abs(running - exact).max() < 1e-5 * NUM_CLIENTS * largest
    assert largest > 0.01


@pytest.mark.parametrize('name', WITH_TABLE)
def test_with_a_bfloat16_table_a_run_ends_near_the_optimum(name):
    half = end(name, 300, table_dtype=jnp.bfloat16)
    optimum = np.asarray(federation().data).mean(axis=0)
    np.testing.assert_allclose(half.server, optimum, atol=3e-2)


@pytest.mark.optimised
@pytest.mark.parametrize(
    'name',
    cases(
        ['scaffold', 'mifa', 'fedawe', 'fedbuff', 'amplified_scaffold', 'ca2fl'],
        ['scaffold'],
    )
    + cases(AS_MIFA, [], 'test_a_round_neither_copies_nor_sums_the_table'),
)
def test_a_round_neither_copies_nor_sums_the_table(name):
    """Scratch memory of compiled rounds stays far below the table: cost follows the active."""
    problem = federation(num_clients=2000, dimension=500)
    algorithm = build(name)
    links = participation.uniform_cohort(2000, 10)
    assert scratch_bytes(algorithm, links, problem) < 0.2 * 4 * 2000 * 500


@pytest.mark.optimised
@pytest.mark.parametrize(
    'name',
    cases(
        ['scaffold', 'mifa', 'amplified_scaffold', 'fedpbc', 'fedavg_all'], ['fedpbc']
    )
    + cases(AS_MIFA, [], 'test_large_models_train_one_by_one_in_a_table_in_place'),
)
def test_large_models_train_one_by_one_in_a_table_in_place(name):
    """Of models that clients train one by one: a few in scratch memory, and no second table."""
    num_clients = 60
    dimension = 20_000
    problem = federation(num_clients, dimension)
    algorithm = build(name)
    links = participation.bernoulli(np.full(num_clients, 0.2, np.float32))
    assert scratch_bytes(algorithm, links, problem) < 15 * 4 * dimension


@pytest.mark.parametrize('name', ['mifa', 'fedvarp', 'scaffold'])
def test_a_table_of_the_models_dtype_changes_nothing(name):
    plain = jax.make_jaxpr(run_of(build(name), 20))(federation())
    explicit = run_of(build(name, table_dtype=jnp.float32), 20)
    wide = jax.make_jaxpr(explicit)(federation())
    assert str(plain) == str(wide)
