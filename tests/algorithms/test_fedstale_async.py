"""FedStaleAsync against its listing and FedStale, and its limit against the optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, problems
from tests import refusals
from tests.reference import harness, limits, newer_loops, quadratic_loops

TIGHT = {'rtol': 0, 'atol': 1e-12}
HINGES = {
    'stale_decay': 0.3,
    'stale_patience': 2,
    'late_decay': 0.2,
    'late_patience': 1,
}
NO_HINGES = dict.fromkeys(HINGES, 0.0)
DECAY_AND_PATIENCE = ((0.3, 2), (0.2, 1))


@pytest.mark.parametrize('cutoff', [None, 8])
@pytest.mark.parametrize('decays', [False, True])
def test_it_follows_the_listing_on_three_histories(x64, decays, cutoff):
    settings = [quadratic_loops.gentle_setting(seed) for seed in range(3)]
    settings = [s._replace(start=np.zeros(3)) for s in settings]
    pairs = DECAY_AND_PATIENCE if decays else ()
    results = [
        newer_loops.fedstale_async(setting, 0.7, *pairs, cutoff=cutoff)
        for setting in settings
    ]
    paths, rows = zip(*results, strict=True)
    states = harness.follow_many(
        settings,
        algorithms.fedstale_async,
        paths,
        stale_weight=0.7,
        server_lr=1.3,
        cutoff=cutoff,
        **(HINGES if decays else NO_HINGES),
    )
    for state, expected in zip(states, rows, strict=True):
        np.testing.assert_allclose(state.memory, expected, **TIGHT)


@pytest.mark.parametrize('beta', [0.0, 0.6, 1.0])
def test_it_is_fedstale_where_no_client_returns_late(x64, beta):
    """Clients arrive in every round until they leave for good, so they always hold x."""
    setting = quadratic_loops.gentle_setting()
    num_rounds = np.array([3, 80, 10, 25, 80, 50, 80])
    setting = setting._replace(mask=np.arange(80)[:, None] < num_rounds)
    options = {'stale_weight': beta, 'server_lr': 1.3}
    ours, _ = harness.run(
        setting, algorithms.fedstale_async, **options, cutoff=None, **NO_HINGES
    )
    theirs, _ = harness.run(setting, algorithms.fedstale, **options)
    np.testing.assert_allclose(ours, theirs, **TIGHT)
    assert np.abs(ours[-1] - ours[-2]).max() > 1e-3


def test_a_client_without_broadcast_keeps_its_model_and_ages():
    problem = problems.quadratic(np.arange(8.0).reshape(4, 2))
    algorithm = algorithms.fedstale_async(
        local_training.local_sgd(0.1, local_steps=1), stale_weight=0.5
    )
    ctx = harness.round_with_partial_links()
    start = algorithm.init(jnp.zeros(2), problem)
    state, metrics = jax.jit(algorithm.round_step)(start, ctx, problem)
    assert metrics.num_active == 2
    np.testing.assert_allclose(state.server, [0.1, 0.2], rtol=1e-6)
    np.testing.assert_array_equal(state.clients[0], state.server)
    np.testing.assert_array_equal(state.clients[1:], np.zeros((3, 2)))
    np.testing.assert_array_equal(state.client_rounds, [1, 0, 0, 0])
    np.testing.assert_array_equal(state.waited, [0, 0, 1, 1])


@pytest.mark.parametrize(
    'field', ['stale_decay', 'stale_patience', 'late_decay', 'late_patience']
)
@pytest.mark.parametrize('value', [-0.1, float('nan'), float('inf')])
def test_invalid_decay_and_patience_are_refused(field, value):
    program = local_training.local_sgd(0.1, local_steps=1)
    with refusals.names(field):
        algorithms.fedstale_async(program, stale_weight=0.5, **{field: value})


@pytest.mark.parametrize('weight', [-0.1, 1.5, float('nan')])
def test_a_weight_outside_0_and_1_is_refused(weight):
    program = local_training.local_sgd(0.1, local_steps=1)
    with refusals.names('stale_weight'):
        algorithms.fedstale_async(program, stale_weight=weight)


@pytest.mark.slow
def test_without_decay_it_ends_at_the_optimum_to_rounding(x64):
    algorithm = algorithms.fedstale_async(limits.program(), stale_weight=1.0)
    models = limits.late_models(algorithm)
    assert np.abs(models - limits.OPTIMUM).max() < limits.ROUNDING


@pytest.mark.slow
def test_decay_of_stale_weights_adds_little_bias(x64):
    """Less than a tenth of that of FedBuff, which has the same arrivals."""
    algorithm = algorithms.fedstale_async(
        limits.program(), stale_weight=0.9, stale_decay=0.02, stale_patience=5
    )
    models = limits.late_models(algorithm)
    fedbuff = limits.late_models(algorithms.fedbuff(limits.program(), buffer_size=5))
    ours = np.linalg.norm(models.mean(axis=0) - limits.OPTIMUM)
    theirs = np.linalg.norm(fedbuff.mean(axis=0) - limits.OPTIMUM)
    assert ours < 0.1 * theirs
