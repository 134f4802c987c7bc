"""FedAWE against its listing, and the two candidate models against the optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, problems
from tests.reference import harness, interval_loops, quadratic_loops, statistics


@pytest.mark.parametrize('clip, chunk_size', [(None, None), (0.2, 3)])
def test_it_follows_the_listing(x64, clip, chunk_size):
    setting = quadratic_loops.gentle_setting()
    expected, models, tau = interval_loops.fedawe(setting, clip=clip)
    options = {'server_lr': 1.3, 'innovation_clip': clip, 'chunk_size': chunk_size}
    result = harness.follow(setting, algorithms.fedawe, expected, **options)
    state = result.state.algorithm
    np.testing.assert_allclose(state.clients, models, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(state.staleness, tau)
    np.testing.assert_array_equal(
        state.staleness, len(setting.mask) - result.state.counters.last_active
    )
    np.testing.assert_allclose(
        result.evals['client_mean'][-1], models.mean(axis=0), rtol=0, atol=1e-9
    )


def test_a_client_without_broadcast_starts_a_new_echo():
    problem = problems.quadratic(np.arange(8.0).reshape(4, 2))
    algorithm = algorithms.fedawe(local_training.local_sgd(0.1, local_steps=1))
    start = algorithm.init(jnp.zeros(2), problem)
    ctx = harness.round_with_partial_links()
    state, metrics = jax.jit(algorithm.round_step)(start, ctx, problem)
    assert metrics.num_active == 2
    np.testing.assert_allclose(state.server, [0.1, 0.2], rtol=1e-6)
    np.testing.assert_array_equal(state.clients[0], state.server)
    np.testing.assert_array_equal(state.clients[1:], np.zeros((3, 2)))
    np.testing.assert_array_equal(state.staleness, [1, 1, 2, 2])


@pytest.mark.slow
@pytest.mark.statistical
def test_the_client_mean_is_unbiased_and_the_server_model_is_not(x64):
    """Claim: asymptotically unbiased whatever the availability.

    Truth under independent links with constant probabilities, on quadratics: the client mean moves
    by ``mean_i 1{i in A} tau_i Delta_i``; tau_i is independent of the model that client i resumes
    and averages 1/p_i over its active rounds, so in the stationary state the mean of
    ``u_i - x_i`` vanishes and the client mean is exact at any stable rate. The server model is the
    average of those just heard and keeps a bias, of order eta; the test demands that it shows.
    Two coordinates at 4.5 standard errors: false alarm 1.4e-5.
    """
    algorithm = algorithms.fedawe(local_training.local_sgd(0.01, local_steps=4))
    finals = statistics.final_candidates(
        algorithm,
        problems.quadratic(statistics.TARGETS),
        num_rounds=500,
        num_seeds=2000,
    )
    z = {name: statistics.z_scores(f, statistics.OPTIMUM) for name, f in finals.items()}
    assert np.abs(z['client_mean']).max() < statistics.BOUND
    assert np.abs(z['server']).min() > 6
