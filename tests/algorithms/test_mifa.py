"""MIFA in its three forms against the listings, and its limit against the optimum."""

import numpy as np
import pytest

from fedjax_links import algorithms
from tests.reference import harness, memory_loops, quadratic_loops, statistics


@pytest.mark.parametrize(
    'memory, chunk_size', [('delta', None), ('delta', 2), ('gradient', None)]
)
def test_it_follows_the_listing(x64, memory, chunk_size):
    setting = quadratic_loops.hard_setting()
    expected, rows = memory_loops.mifa(setting, memory)
    options = {'server_lr': 1.3, 'memory': memory, 'chunk_size': chunk_size}
    result = harness.follow(setting, algorithms.mifa, expected, **options)
    state = result.state.algorithm
    np.testing.assert_allclose(state.memory, rows, rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.memory_sum, rows.sum(axis=0), rtol=0, atol=1e-12)


def test_the_two_memories_differ_exactly_when_the_rate_varies(x64):
    setting = quadratic_loops.hard_setting()
    delta = memory_loops.mifa(setting, 'delta')[0]
    gradient = memory_loops.mifa(setting, 'gradient')[0]
    harness.assert_caught(delta, gradient)
    constant = setting._replace(rate=lambda t: 0.1)
    expected = memory_loops.mifa(constant, 'delta')[0]
    options = {'server_lr': 1.3, 'memory': 'gradient'}
    harness.follow(constant, algorithms.mifa, expected, **options)


def test_an_empty_round_moves_the_server(x64):
    setting = quadratic_loops.hard_setting()
    path, _ = harness.run(setting, algorithms.mifa, server_lr=1.0, memory='delta')
    assert not setting.mask[10:14].any()
    assert (np.abs(np.diff(path[9:14], axis=0)).max(axis=1) > 1e-3).all()


@pytest.mark.slow
@pytest.mark.statistical
def test_the_mean_reaches_the_optimum(x64):
    """Claim: convergence to the optimum for arbitrary unavailability, in expectation over batches.

    On quadratics x is linear in the gradient noise for given links, so its mean over batches obeys
    the noise-free recursion, whose only fixed point is the optimum: exact full gradients reach it
    to rounding, noisy ones on average. It fails where a client is never heard.
    """
    statistics.assert_ends_at_the_optimum(algorithms.mifa)


def test_fedlaavg_is_mifa_of_gradients(x64):
    """Yan et al. 2020: the server steps by the mean of all clients' latest gradient sums."""
    setting = quadratic_loops.hard_setting()._replace(server_lr=1.0)
    x = setting.start
    latest = np.zeros_like(setting.targets)
    path = []
    for t, active in enumerate(setting.mask):
        for i in np.flatnonzero(active):
            y = x
            latest[i] = 0
            for _ in range(setting.local_steps):
                gradient = y - setting.targets[i]
                latest[i] += gradient
                y = y - setting.rate(t) * gradient
        x = x - setting.rate(t) * latest.mean(axis=0)
        path.append(x)
    options = {'server_lr': 1.0, 'memory': 'gradient'}
    harness.follow(setting, algorithms.mifa, np.array(path), **options)
