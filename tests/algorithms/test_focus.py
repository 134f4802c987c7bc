"""FOCUS against its listing, and its limit against the optimum."""

import numpy as np
import pytest

from fedjax_links import algorithms
from tests.reference import harness, limits, newer_loops, quadratic_loops


@pytest.mark.parametrize('server_lr', [None, 0.05])
def test_it_follows_the_listing(x64, server_lr):
    setting = quadratic_loops.gentle_setting()
    expected, gradients = newer_loops.focus(setting, server_lr)
    result = harness.follow(setting, algorithms.focus, expected, server_lr=server_lr)
    state = result.state.algorithm
    np.testing.assert_allclose(state.memory, gradients, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        state.memory_sum, gradients.sum(axis=0), rtol=0, atol=1e-12
    )


@pytest.mark.slow
def test_it_ends_at_the_optimum_under_unequal_links(x64):
    assert limits.distance(algorithms.focus(limits.program())) < limits.ROUNDING
