"""SCAFFOLD, option II, against its listing, and its limit against the optimum."""

import numpy as np
import pytest

from fedjax_links import algorithms
from tests.reference import harness, memory_loops, quadratic_loops, statistics


@pytest.mark.parametrize('chunk_size', [None, 2])
def test_it_follows_the_listing(x64, chunk_size):
    setting = quadratic_loops.hard_setting()
    expected, controls = memory_loops.scaffold(setting)
    options = {'server_lr': 1.3, 'chunk_size': chunk_size}
    result = harness.follow(setting, algorithms.scaffold, expected, **options)
    state = result.state.algorithm
    np.testing.assert_allclose(state.client_controls, controls, rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.control, controls.mean(axis=0), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.statistical
def test_the_mean_reaches_the_optimum_under_unequal_links(x64):
    """Claim: no client drift, for uniformly drawn clients.

    At the optimum with c_i = grad F_i no client's corrected local steps move. So it is the fixed
    point under any links, to rounding with full gradients. On quadratics x is linear in the noise
    of the gradients, so with noisy gradients its mean is the optimum.
    """
    statistics.assert_ends_at_the_optimum(algorithms.scaffold)
