"""FedVARP against its listing, and its limit against the optimum."""

import numpy as np
import pytest

from fedjax_links import algorithms
from tests.reference import harness, memory_loops, quadratic_loops, statistics


def test_it_follows_the_listing(x64):
    setting = quadratic_loops.hard_setting()
    expected, rows = memory_loops.fedvarp(setting)
    result = harness.follow(setting, algorithms.fedvarp, expected, server_lr=1.3)
    state = result.state.algorithm
    np.testing.assert_allclose(state.memory, rows, rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.memory_sum, rows.sum(axis=0), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.statistical
def test_the_mean_reaches_the_optimum_under_unequal_links(x64):
    """Claim: variance from partial participation removed, for uniformly drawn clients.

    Under unequal links v is biased by differences that vanish at the fixed point, so on quadratics
    the mean still ends at the optimum, as for MIFA: exactly with full gradients, on average with
    noisy ones. What is lost is the analysis (and stability at large eta_g), not the limit.
    """
    statistics.assert_ends_at_the_optimum(algorithms.fedvarp)
