"""A million clients: linear patterns run, fill their cohorts and hold O(N) memory."""

import jax
import numpy as np
import pytest

from fedjax_links.participation import (
    bernoulli,
    by_group,
    cap,
    cyclic,
    intervals,
    markov,
    minimum_separation,
    periodic_groups,
    regularized,
    sine,
    trace,
    uniform_cohort,
)
from tests.participation.sampling import advance
from tests.tiers import cases

N = 1_000_000
PROBS = np.linspace(0.001, 0.9, N, dtype=np.float32)
WEIGHTS = np.arange(1.0, N + 1) ** -0.5


def _log():
    start = np.tile([1.0, 8.0], N)
    return intervals(np.repeat(np.arange(N), 2), start, start + 2)


# By name: what builds the pattern, and the size of its cohorts.
PATTERNS = {
    'successive': (
        lambda: minimum_separation(
            WEIGHTS, separation=9, cohort_size=100, design='successive'
        ),
        100,
    ),
    'sum': (
        lambda: minimum_separation(
            WEIGHTS, separation=9, cohort_size=100, design='sum'
        ),
        100,
    ),
    'one': (lambda: minimum_separation(WEIGHTS, separation=N - 1), 1),
    'uniform': (lambda: uniform_cohort(N, 100), 100),
    'regularized': (lambda: regularized(N, 100), 100),
    'permutation': (lambda: cap(bernoulli(PROBS), 100, rule='permutation'), 100),
    'periodic_groups': (
        lambda: periodic_groups(np.arange(N) % 10, active_rounds=5, cohort_size=100),
        100,
    ),
    'markov': (lambda: markov(sine(PROBS, gamma=PROBS / 2, period=24)), None),
    'cyclic': (lambda: cyclic(PROBS, reset=True), None),
    'by_group': (lambda: by_group(np.arange(N) % 2, [bernoulli(PROBS[::2])] * 2), None),
    'trace': (lambda: trace(_log(), tick=1.0, wrap=12.0), None),
}


WITHOUT_REPETITION = {'successive', 'sum', 'one', 'regularized', 'permutation'}
"""In the first rounds no client takes part twice."""


@pytest.mark.parametrize('name', cases(PATTERNS, ['uniform', 'markov']))
def test_a_million_clients(name):
    make, cohort_size = PATTERNS[name]
    pattern = make()
    carry = jax.jit(pattern.init)(jax.random.key(0))
    carry, masks = advance(pattern, carry, jax.random.key(1), 0, 3)
    masks = np.asarray(masks)
    sizes = masks.sum(axis=1)
    if cohort_size is not None:
        np.testing.assert_array_equal(sizes, cohort_size)
    if name in WITHOUT_REPETITION:
        assert masks.sum(axis=0).max() == 1
    if name == 'trace':
        assert sizes.tolist() == [0, N, N]
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(carry)) <= 8 * N
