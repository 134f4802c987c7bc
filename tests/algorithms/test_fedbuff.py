"""Tests FedBuff against its listing, and its bias against FedAvg's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    analysis,
    base,
    local_training,
    problems,
    simulation,
)
from tests.reference import harness, limits, newer_loops, quadratic_loops


@pytest.mark.parametrize(
    'size, chunk_size', [(1, None), (5, None), (5, 2), (1000, None)]
)
def test_it_follows_the_listing(x64, size, chunk_size):
    setting = quadratic_loops.hard_setting()
    expected, models, versions = newer_loops.fedbuff(setting, size)
    options = {'buffer_size': size, 'server_lr': 1.3, 'chunk_size': chunk_size}
    result = harness.follow(setting, algorithms.fedbuff, expected, **options)
    state = result.state.algorithm
    np.testing.assert_allclose(state.clients, models, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(state.versions, versions)
    assert int(state.version) == int(result.rounds.extra['num_server_steps'].sum())


def test_staleness_counts_the_server_steps_that_a_client_missed(x64):
    """One client arrives per round, in turn, and the server steps at each arrival (K = 1).

    From its second turn on, a client has missed the N - 1 steps of the others.
    """
    num_clients = 4
    mask = np.tile(np.eye(num_clients, dtype=bool), (3, 1))
    setting = quadratic_loops.hard_setting()
    setting = setting._replace(
        mask=mask, prob=None, targets=setting.targets[:num_clients]
    )
    _, result = harness.run(setting, algorithms.fedbuff, buffer_size=1)
    np.testing.assert_array_equal(
        result.rounds.extra['staleness_sum'], [0, 1, 2, 3] + [3] * 8
    )


def test_the_sum_of_staleness_does_not_overflow():
    problem = problems.quadratic(np.ones((3, 2)))
    algorithm = algorithms.fedbuff(
        local_training.local_sgd(0.1, local_steps=1), buffer_size=9
    )
    state = algorithm.init(jnp.zeros(2), problem)._replace(version=jnp.int32(10**9))
    links = base.LinkSample(jnp.ones(3, bool), jnp.ones(3))
    ctx = simulation.round_context(jax.random.key(0), 0, links)
    _, metrics = jax.jit(algorithm.round_step)(state, ctx, problem)
    np.testing.assert_allclose(metrics.extra['staleness_sum'], 3e9, rtol=1e-6)


def test_a_client_without_broadcast_keeps_its_model_and_version():
    problem = problems.quadratic(np.arange(8.0).reshape(4, 2))
    algorithm = algorithms.fedbuff(
        local_training.local_sgd(0.1, local_steps=1),
        buffer_size=2,
        table_dtype=jnp.bfloat16,
    )
    ctx = harness.round_with_partial_links()
    start = algorithm.init(jnp.zeros(2), problem)
    state, metrics = jax.jit(algorithm.round_step)(start, ctx, problem)
    assert metrics.num_active == 2
    np.testing.assert_allclose(state.server, [0.1, 0.2], rtol=1e-6)
    assert state.clients.dtype == jnp.bfloat16
    np.testing.assert_array_equal(state.clients[0], state.server.astype(jnp.bfloat16))
    np.testing.assert_array_equal(state.clients[1:], np.zeros((3, 2)))
    np.testing.assert_array_equal(state.versions, [1, 0, 0, 0])


def test_its_limit_is_biased_towards_frequent_clients(x64):
    """The limit is near the mean of the targets weighted by link probabilities, as FedAvg's.

    The bias is far larger than the scatter of the models.
    """
    models = limits.late_models(algorithms.fedbuff(limits.program(), buffer_size=5))
    fedavg_limit = analysis.fedavg_fixed_point(limits.PROBS, limits.TARGETS)
    bias = np.linalg.norm(models.mean(axis=0) - limits.OPTIMUM)
    fedavg_bias = np.linalg.norm(fedavg_limit - limits.OPTIMUM)
    assert bias > 10 * models.std(axis=0).max()
    assert 0.7 < bias / fedavg_bias < 1.5
    weighted_mean = limits.PROBS @ limits.TARGETS / limits.PROBS.sum()
    assert np.linalg.norm(models.mean(axis=0) - weighted_mean) < 0.3 * bias
