"""Bug-compatible variants: what the released samplers draw."""

import jax
import numpy as np
import pytest

from fedjax_links import simulation
from fedjax_links.papers.wang2022 import released as wang2022
from fedjax_links.papers.xiang2024 import released as xiang2024
from fedjax_links.participation import (
    bernoulli,
    cap,
    cyclic,
    periodic_groups,
    replay,
    sine,
)
from fedjax_links.testing import PARTICIPATION_CHECKS, DoesNotApply, Promises
from tests.participation.sampling import assert_frequencies, masks, refuses, roll
from tests.tiers import cases

P = np.array([0.02, 0.3, 0.5, 0.9])
SEEDS = 20_000


def probs(num_clients):
    return np.linspace(0.1, 0.9, num_clients)


RELEASED = {
    'memoryless_markov': lambda n: xiang2024.memoryless_markov(probs(n)),
    'reduced_cyclic': lambda n: xiang2024.reduced_cyclic(probs(n), cycle_length=10),
    'permutation_consumer': lambda n: wang2022.permutation_consumer(
        bernoulli(probs(n)), max(1, n // 3)
    ),
}
"""By name: ``num_clients -> Participation``."""


@pytest.mark.parametrize('check', PARTICIPATION_CHECKS)
@pytest.mark.parametrize('name', RELEASED)
def test_engine_promises_hold(name, check):
    promises = Promises(cohort_size=None, prob_is_marginal=name != 'reduced_cyclic')
    try:
        PARTICIPATION_CHECKS[check](RELEASED[name](9), promises)
    except DoesNotApply as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize('name', cases(RELEASED, ['memoryless_markov']))
def test_the_same_links_in_double_precision(name):
    def realised():
        key = jax.random.key(8)
        return simulation.realised_links(key, RELEASED[name](9), num_rounds=40)

    single = realised()
    with jax.enable_x64(True):
        double = realised()
    np.testing.assert_array_equal(double.mask, single.mask)
    assert double.prob.dtype == np.float64
    assert double.mask.dtype == bool


@pytest.mark.parametrize('name', RELEASED)
@pytest.mark.parametrize('num_clients', [3, 4, 20])
def test_examples_exist_at_any_size(name, num_clients):
    assert RELEASED[name](num_clients).num_clients == num_clients


@pytest.mark.statistical
def test_released_markov_is_bernoulli():
    schedule = sine(P, gamma=0.4, period=8)
    pattern = xiang2024.memoryless_markov(schedule)
    mask = masks(pattern, 4, SEEDS)
    prob = roll(pattern, 4).prob
    for t in range(4):
        assert_frequencies(mask[:, t].sum(axis=0), prob[t], SEEDS)
    assert_frequencies((mask[:, 1] & mask[:, 2]).sum(axis=0), prob[1] * prob[2], SEEDS)


def test_released_reset_has_six_tenths_of_the_participation():
    mask = roll(xiang2024.reduced_cyclic(P), 1000).mask
    np.testing.assert_array_equal(mask.sum(axis=0), 10 * np.rint(60 * P))
    same = roll(cyclic(np.float32(0.6) * np.float32(P), reset=True), 1000).mask
    np.testing.assert_array_equal(mask, same)
    intended = roll(cyclic(P, reset=True), 1000).mask
    np.testing.assert_array_equal(intended.sum(axis=0), 1000 * P)


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.statistical
def test_released_permutation_repeats_in_5_percent_of_rounds():
    # 250 clients in 5 groups, turns of 100 rounds, 10 per round. A plain loop over the released
    # rules, 120 runs of 1300 rounds, has such a round with frequency .0534, standard error .0011.
    groups = np.repeat(np.arange(5), 50)
    available = periodic_groups(groups, active_rounds=100, cohort_size=50)
    sizes = masks(wang2022.permutation_consumer(available, 10), 1300, 60).sum(axis=2)
    assert sizes.max() == 10
    share = (sizes < 10).mean(axis=1)  # per run: rounds of one run are dependent
    error = np.sqrt(share.var(ddof=1) / 60 + 0.0011**2)
    assert abs(share.mean() - 0.0534) < 4 * error < 0.01  # false alarm: 6e-5
    intended = masks(cap(available, 10, rule='permutation'), 200, 4)
    assert (intended.sum(axis=2) == 10).all()


def test_errors():
    refuses(
        lambda: wang2022.permutation_consumer(5, 1),
        '`pattern` must be a pattern, as `participation.bernoulli(probs)` makes one, or '
        '`participation.replay(mask)` of a mask, got 5.',
    )
    refuses(
        lambda: wang2022.permutation_consumer(replay(np.ones((1, 3), bool)), 4),
        '`cohort_size` must be at most 3, got 4.',
    )
    refuses(
        lambda: xiang2024.reduced_cyclic(P, gamma=0.7),
        '`gamma` must lie in [0, 0.5], got 0.7.',
    )
    refuses(
        lambda: xiang2024.memoryless_markov(P, 0.0),
        '`up_rate` must be positive, got 0.0.',
    )
