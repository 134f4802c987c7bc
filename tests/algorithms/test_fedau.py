"""FedAU against lists of intervals, and its limit with and without an effective cut-off."""

import numpy as np
import pytest

from fedjax_links import algorithms, analysis, local_training, problems
from tests.reference import harness, interval_loops, quadratic_loops, statistics


@pytest.mark.parametrize('cutoff', [1, 5, 50])
def test_it_follows_the_listing(x64, cutoff):
    setting = quadratic_loops.hard_setting()
    expected = interval_loops.fedau(setting, cutoff)
    result = harness.follow(
        setting, algorithms.fedau, expected, cutoff=cutoff, server_lr=1.3
    )
    state = result.state.algorithm
    np.testing.assert_array_equal(state.interval_sum + state.waited, len(setting.mask))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.optimised  # runs longer than it compiles
@pytest.mark.parametrize('cutoff', [3, 50])
def test_the_mean_reaches_the_limit_of_the_truncated_intervals(x64, cutoff):
    """Claim: weights tend to 1/p_i. Truth: to ``(1 - (1 - p_i)^K) / p_i``, the truncated mean.

    So the limit weighs F_i by ``1 - (1 - p_i)^K``: at K = 50 and p >= 0.2 the optimum to 2e-5, at
    K = 3 something else, which is tested too. The weights are random at finite times, which leaves
    a bias of order 1/T; it is below the resolution at T = 2000. Probabilities that change in time
    are beyond this test, and beyond FedAU: its mean forgets nothing.
    Two coordinates at 4.5 standard errors: false alarm 1.4e-5 each.
    """
    probs = statistics.PROBS
    targets = statistics.TARGETS
    finals = statistics.final_models(
        algorithms.fedau(local_training.local_sgd(0.01, local_steps=4), cutoff=cutoff),
        problems.quadratic(targets),
        num_rounds=2000,
        num_seeds=2000,
    )
    weights = probs * analysis.truncated_interval_mean(probs, cutoff)
    limit = weights @ targets / weights.sum()
    assert np.abs(statistics.z_scores(finals, limit)).max() < statistics.BOUND
    if cutoff == 50:
        assert np.abs(limit - statistics.OPTIMUM).max() < 1e-4
        assert (
            np.abs(statistics.z_scores(finals, statistics.OPTIMUM)).max()
            < statistics.BOUND
        )
    else:
        assert np.abs(statistics.z_scores(finals, statistics.OPTIMUM)).min() > 20
