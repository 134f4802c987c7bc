"""Amplified SCAFFOLD against its listing, and its limit against the optimum."""

import numpy as np
import pytest

from fedjax_links import algorithms
from tests.reference import harness, limits, newer_loops, quadratic_loops


@pytest.mark.parametrize(
    'period, chunk_size', [(1, None), (6, None), (6, 2), (200, None)]
)
def test_it_follows_the_listing(x64, period, chunk_size):
    """Windows of one round and of several, the last one open, and one that never ends."""
    setting = quadratic_loops.hard_setting()
    expected, control, means = newer_loops.amplified_scaffold(setting, period, 1.2)
    state = harness.follow(
        setting,
        algorithms.amplified_scaffold,
        expected,
        chunk_size=chunk_size,
        period=period,
        amplification=1.2,
    ).state.algorithm
    np.testing.assert_allclose(state.control, control, rtol=0, atol=1e-9)
    _, mean_gradients = state.clients
    np.testing.assert_allclose(mean_gradients, means, rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.mean_sum, means.sum(axis=0), rtol=0, atol=1e-9)
    window_start = len(setting.mask) // period * period
    uploads = setting.mask[window_start:].sum(axis=0)
    np.testing.assert_array_equal(state.num_uploads, uploads)


@pytest.mark.slow
def test_it_ends_at_the_optimum_under_unequal_links(x64):
    algorithm = algorithms.amplified_scaffold(
        limits.program(), period=20, amplification=1.5
    )
    assert limits.distance(algorithm) < limits.ROUNDING
