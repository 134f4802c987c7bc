"""FedDyn against its listing, and its limit against the optimum."""

import numpy as np
import pytest

from fedjax_links import algorithms
from tests.reference import harness, limits, newer_loops, quadratic_loops


def test_it_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    expected, h, gradients = newer_loops.feddyn(setting, 0.3)
    state = harness.follow(setting, algorithms.feddyn, expected, alpha=0.3).state
    np.testing.assert_allclose(state.algorithm.memory, gradients, rtol=0, atol=1e-9)
    num_clients = len(setting.targets)
    np.testing.assert_allclose(
        state.algorithm.memory_sum / num_clients, h, rtol=0, atol=1e-9
    )


@pytest.mark.parametrize('exactly', [True, False])
def test_it_ends_at_the_optimum_under_unequal_links(x64, exactly):
    """With exact local minimisation, one step of length 1 / (1 + alpha), and with few steps."""
    alpha = 0.05
    program = limits.program(0.2)
    if exactly:
        program = limits.program(1 / (1 + alpha), local_steps=1)
    assert limits.distance(algorithms.feddyn(program, alpha=alpha)) < limits.ROUNDING
