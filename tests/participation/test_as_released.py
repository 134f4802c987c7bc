"""Bug-compatible variants: what the released samplers draw."""

import numpy as np
import pytest

from fedjax_links.participation import as_released, cyclic, periodic_groups, replay, sine
from tests.participation.sampling import Z, assert_frequencies, masks, refuses, roll

P = np.array([0.02, 0.3, 0.5, 0.9])
SEEDS = 20_000


@pytest.mark.statistical
def test_released_markov_is_bernoulli():
    schedule = sine(P, gamma=0.4, period=8)
    pattern = as_released.memoryless_markov(schedule)
    mask = masks(pattern, 4, SEEDS)
    prob = roll(pattern, 4).prob
    for t in range(4):
        assert_frequencies(mask[:, t].sum(axis=0), prob[t], SEEDS)
    assert_frequencies((mask[:, 1] & mask[:, 2]).sum(axis=0), prob[1] * prob[2], SEEDS)


def test_released_reset_has_six_tenths_of_the_participation():
    mask = roll(as_released.reduced_cyclic(P), 1000).mask
    np.testing.assert_array_equal(mask.sum(axis=0), 10 * np.rint(60 * P))
    same = roll(cyclic(np.float32(0.6) * np.float32(P), reset=True), 1000).mask
    np.testing.assert_array_equal(mask, same)
    intended = roll(cyclic(P, reset=True), 1000).mask
    np.testing.assert_array_equal(intended.sum(axis=0), 1000 * P)


@pytest.mark.statistical
def test_released_permutation_picks_twice_in_five_percent_of_rounds():
    # 250 clients, 5 groups, turns of 100 rounds, 10 per round: 5.3 % (827 of 12 x 1300 rounds).
    num_groups, turn = 5, 100
    available = np.repeat(np.eye(num_groups, dtype=bool), turn, axis=0)
    recording = np.repeat(available, 50, axis=1)
    pattern = as_released.permutation_consumer(replay(recording), 10)
    sizes = masks(pattern, 1300, 24).sum(axis=2)
    assert set(np.unique(sizes)) <= {8, 9, 10}
    share = (sizes < 10).mean(axis=1)  # per run: rounds of one run are dependent
    error = share.std(ddof=1) * np.sqrt(1 / 24 + 1 / 12)
    assert abs(share.mean() - 0.053) < Z * error + 0.0005
    assert error < 0.002
    intended = masks(
        periodic_groups(np.repeat(np.arange(5), 50), active_rounds=100, cohort_size=10), 200, 2
    )
    assert (intended.sum(axis=2) == 10).all()


def test_errors():
    refuses(
        lambda: as_released.permutation_consumer(replay(np.ones((1, 3), bool)), 4),
        '`cohort_size` must be at most 3, got 4.',
    )
    refuses(
        lambda: as_released.reduced_cyclic(P, gamma=0.7), '`gamma` must lie in [0, 0.5], got 0.7.'
    )
    refuses(lambda: as_released.memoryless_markov(P, 0.0), '`up_rate` must be positive, got 0.0.')
