"""Long-run laws against powers of the chain, and against closed forms of long periods."""

import numpy as np
from scipy import sparse

from fedjax_links.analysis import link_chains, long_run_laws


def random_chain(rng):
    """Returns a chain of up to 30 states, often with several classes, and a law to start by."""
    size = int(rng.integers(1, 30))
    moves = rng.uniform(size=(size, size)) < rng.uniform(0.05, 0.5)
    moves[np.arange(size), rng.integers(size, size=size)] = True
    weights = rng.uniform(0.1, 1.0, (size, size)) * moves
    start = rng.dirichlet(np.ones(size)) * (rng.uniform(size=size) < 0.7)
    start[0] += 0.1
    return weights / weights.sum(axis=1, keepdims=True), start / start.sum()


def test_long_run_laws_are_limits_of_lazy_steps(rng):
    """A chain that stays in half of the rounds has the same law, and no period."""
    num_classes = set()
    for _ in range(100):
        transition, start = random_chain(rng)
        power = (np.eye(len(start)) + transition) / 2
        for _ in range(60):
            power = power @ power
            power /= power.sum(axis=1, keepdims=True)
        matrix = sparse.csr_array(transition)
        law = long_run_laws.long_run_law(matrix, start)
        np.testing.assert_allclose(law, start @ power, rtol=0, atol=1e-11)
        _, classes = long_run_laws.closed_classes(matrix)
        num_classes.add(len(classes))
    assert num_classes >= {1, 2}


def test_modes_of_a_long_period_have_the_law_of_each_round():
    """A linear system with a row over all modes took minutes for 20,000 rounds."""
    period = 3_000
    probs = 0.5 + 0.4 * np.sin(2 * np.pi * np.arange(period) / period)
    modes = link_chains.independent(probs[:, None]).modes()
    is_up = modes.masks[:, 0]
    # A run is in each round of the period equally often.
    round_probs = probs[modes.shared_state]
    expected = np.where(is_up, round_probs, 1 - round_probs) / period
    np.testing.assert_allclose(modes.stationary, expected, rtol=1e-9)
