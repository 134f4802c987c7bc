"""CA2FL against its listing and FedVARP, and its limit against the optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, problems
from tests.reference import harness, limits, newer_loops, quadratic_loops

TIGHT = {'rtol': 0, 'atol': 1e-12}


@pytest.mark.parametrize(
    'size, chunk_size', [(1, None), (5, None), (5, 2), (1000, None)]
)
def test_it_follows_the_listing_on_three_histories(x64, size, chunk_size):
    settings = [quadratic_loops.hard_setting(seed) for seed in range(3)]
    settings = [s._replace(start=np.zeros(3), server_lr=0.4) for s in settings]
    results = [newer_loops.ca2fl(setting, size) for setting in settings]
    paths, models, rows = zip(*results, strict=True)
    states = harness.follow_many(
        settings,
        algorithms.ca2fl,
        paths,
        chunk_size=chunk_size,
        buffer_size=size,
        server_lr=0.4,
    )
    for state, expected, last in zip(states, models, rows, strict=True):
        np.testing.assert_allclose(state.clients, expected, **TIGHT)
        np.testing.assert_allclose(state.memory, last, **TIGHT)


def test_it_is_fedvarp_to_the_bit_where_no_client_returns_late(x64):
    """Clients arrive in every round until they leave for good, so they always hold x."""
    setting = quadratic_loops.hard_setting()
    last_round = np.array([3, 80, 10, 25, 80, 50, 80])
    mask = np.arange(80)[:, None] < last_round
    setting = setting._replace(mask=mask)
    ours, _ = harness.run(setting, algorithms.ca2fl, buffer_size=1, server_lr=1.0)
    theirs, _ = harness.run(setting, algorithms.fedvarp, server_lr=1.0)
    np.testing.assert_array_equal(ours, theirs)
    assert np.abs(ours[-1] - ours[-2]).max() > 0


def test_a_client_without_broadcast_keeps_its_model():
    problem = problems.quadratic(np.arange(8.0).reshape(4, 2))
    algorithm = algorithms.ca2fl(
        local_training.local_sgd(0.1, local_steps=1),
        buffer_size=2,
        table_dtype=jnp.bfloat16,
    )
    ctx = harness.round_with_partial_links()
    start = algorithm.init(jnp.zeros(2), problem)
    state, metrics = jax.jit(algorithm.round_step)(start, ctx, problem)
    assert metrics.num_active == 2
    assert metrics.extra['num_server_steps'] == 1
    np.testing.assert_allclose(state.server, [0.1, 0.2], rtol=4e-3)
    assert state.clients.dtype == state.memory.dtype == jnp.bfloat16
    np.testing.assert_array_equal(state.clients[0], state.server.astype(jnp.bfloat16))
    np.testing.assert_array_equal(state.clients[1:], np.zeros((3, 2)))
    np.testing.assert_array_equal(state.memory[2:], np.zeros((2, 2)))
    rows = np.asarray(state.memory, np.float32)
    np.testing.assert_array_equal(state.memory_sum, rows.sum(axis=0))


@pytest.mark.slow
def test_its_limit_is_the_optimum_under_unequal_links(x64):
    """FedBuff with the same arrivals ends far away."""
    algorithm = algorithms.ca2fl(limits.program(), buffer_size=5, server_lr=0.5)
    models = limits.late_models(algorithm)
    assert np.abs(models - limits.OPTIMUM).max() < limits.ROUNDING
