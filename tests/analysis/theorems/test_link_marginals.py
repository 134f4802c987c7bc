"""Marginals of the six kinds of links in Figure 6 of Xiang et al. 2024."""

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import link_marginals

PROBS = np.array([0.01, 0.1, 0.5, 0.9])
SINE = 0.6 + 0.4 * np.sin(2 * np.pi * np.arange(40) / 40)


def rates(probs, star=0.05):
    """The paper's table of q* and q: the chances to rise and to fall."""
    down = star * (1 - probs) / probs
    rise = np.where(down > 1, probs / (1 - probs), star)
    return rise, np.minimum(down, 1)


def test_constant_markov_links_have_independent_marginals():
    """The paper says that they are up more sparsely."""
    rise, fall = rates(PROBS)
    result = link_marginals.periodic_markov_marginals(rise[None], fall[None])
    np.testing.assert_allclose(result[0], PROBS, rtol=1e-12)
    stationary = analysis.markov_stationary(rise, fall)
    np.testing.assert_allclose(result[0], stationary, rtol=1e-12)


def test_changing_markov_links_equal_a_long_recursion():
    rise, fall = rates(SINE[:, None] * PROBS)
    result = link_marginals.periodic_markov_marginals(rise, fall)
    state = np.zeros(4)
    for _ in range(300):
        record = []
        for up, down in zip(rise, fall, strict=True):
            state = state * (1 - down) + (1 - state) * up
            record.append(state)
    np.testing.assert_allclose(result, record, rtol=1e-12)


def test_marginals_agree_with_a_simulation_of_200000_rounds():
    """It had .006 .060 .300 .540 for the sine and .006 .060 .272 .443 for Markov links.

    The bounds are a rounding of 0.0005 and 1.1 standard errors of a share of rounds. Those are
    0.0049 for a probability of 0.5 with the autocorrelation 0.9, and 0.0010 or less for rare links.
    """
    rise, fall = rates(SINE[:, None] * PROBS)
    result = link_marginals.periodic_markov_marginals(rise, fall).mean(axis=0)
    np.testing.assert_allclose(result[2:], [0.272, 0.443], atol=0.006)
    np.testing.assert_allclose(result[:2], [0.006, 0.060], atol=0.0015)
    independent = (SINE[:, None] * PROBS).mean(axis=0)
    np.testing.assert_allclose(independent, 0.6 * PROBS, rtol=1e-12)
    # Markov links of the same schedule are up more sparsely for p of a half and more only.
    np.testing.assert_array_less(result[2:], independent[2:])
    np.testing.assert_allclose(result[:2], independent[:2], rtol=0.02)


@pytest.mark.parametrize('reset', [False, True])
def test_cyclic_links_are_up_for_their_share_of_the_cycle(reset):
    result = link_marginals.cyclic_marginals(PROBS, cycle_length=100, reset=reset)
    np.testing.assert_allclose(result, PROBS, rtol=1e-12)


def test_cyclic_blocks_last_at_least_a_round():
    """P = 0 is up for a round, p = 1 down for one unless the offset is drawn afresh."""
    probs = [0.0, 0.24, 1.0]
    result = link_marginals.cyclic_marginals(probs, cycle_length=10)
    np.testing.assert_allclose(result, [0.1, 0.2, 10 / 11], rtol=1e-12)
    result = link_marginals.cyclic_marginals(probs, cycle_length=10, reset=True)
    np.testing.assert_allclose(result, [0.1, 0.2, 1.0], rtol=1e-12)


def test_links_that_never_forget_are_refused():
    with pytest.raises(ValueError, match='forget'):
        link_marginals.periodic_markov_marginals([[1.0]], [[1.0]])
