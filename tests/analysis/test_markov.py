"""Two-state links against powers of their transition matrix and simulated runs."""

import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis
from tests.analysis import enumeration
from tests.refusals import refuses

RATES = [(0.05, 0.05), (0.05, 0.45), (1.0, 1.0), (0.3, 0.7), (0.2, 0.0), (0.0, 0.4)]


@pytest.mark.parametrize('up, down', RATES)
def test_stationary_law_is_a_fixed_point(up, down):
    prob = analysis.markov_stationary(up, down)
    np.testing.assert_allclose(
        prob * (1.0 - down) + (1.0 - prob) * up, prob, rtol=1e-14
    )


@pytest.mark.parametrize('up, down', [pair for pair in RATES if min(pair) > 0.0])
def test_autocorrelation_equals_matrix_powers(up, down):
    transition = np.array([[1.0 - up, up], [down, 1.0 - down]])
    prob = analysis.markov_stationary(up, down)
    for lag in range(6):
        joint = prob * np.linalg.matrix_power(transition, lag)[1, 1]
        expected = (joint - prob**2) / (prob * (1.0 - prob))
        value = analysis.markov_autocorrelation(up, down, lag)
        np.testing.assert_allclose(value, expected, atol=1e-14)


def test_functions_map_over_clients_and_lags():
    up = np.array([0.05, 0.3])
    down = np.array([0.2, 0.1])
    assert analysis.markov_stationary(up, down).shape == (2,)
    value = analysis.markov_autocorrelation(up[:, None], down[:, None], np.arange(4))
    np.testing.assert_allclose(value[1], 0.6 ** np.arange(4), rtol=1e-14)
    assert analysis.gap_distribution(up, 0.5, 7).shape == (2, 7)


@pytest.mark.parametrize('up, down', [pair for pair in RATES if pair[0] > 0])
def test_gaps_equal_first_return_times(up, down):
    """P(gap = k): no participation in rounds 1..k-1 after one, then one in round k."""
    law = analysis.gap_distribution(up, down, 40)
    expected = [1.0 - down]
    no_return_prob = down
    for _ in range(39):
        expected.append(no_return_prob * up)
        no_return_prob = no_return_prob * (1.0 - up)
    np.testing.assert_allclose(law, expected, rtol=1e-13)
    np.testing.assert_allclose(1.0 - law.sum(), no_return_prob, atol=1e-13)


@pytest.mark.parametrize('prob', [0.2, 0.9, 1.0])
def test_independent_rounds_have_geometric_gaps_of_mean_1_over_p(prob):
    law = analysis.gap_distribution(prob, 1.0 - prob, 400)
    gaps = np.arange(1, 401)
    np.testing.assert_allclose(
        law, (1.0 - prob) ** (gaps - 1) * prob, rtol=1e-12, atol=1e-300
    )
    np.testing.assert_allclose(law @ gaps, 1.0 / prob, rtol=1e-10)


def test_mean_gap_is_the_inverse_of_the_stationary_law():
    law = analysis.gap_distribution(0.3, 0.2, 400)
    mean = law @ np.arange(1, 401)
    np.testing.assert_allclose(
        mean, 1.0 / analysis.markov_stationary(0.3, 0.2), rtol=1e-10
    )


@pytest.mark.parametrize('cutoff', [1, 2, 50])
def test_truncated_interval_equals_the_sum_over_lengths(cutoff):
    probs = np.array([0.0, 1e-12, 0.02, 0.5, 1.0])
    lengths = np.arange(1, cutoff + 1)
    expected = []
    for prob in probs:
        law = (1.0 - prob) ** (lengths - 1) * prob
        law[-1] = (1.0 - prob) ** (cutoff - 1)
        expected.append(law @ lengths)
    np.testing.assert_allclose(
        analysis.truncated_interval_mean(probs, cutoff), expected, rtol=1e-9
    )


def test_no_cutoff_gives_the_mean_gap():
    value = analysis.truncated_interval_mean([0.0, 0.25, 1.0], None)
    np.testing.assert_array_equal(value, [np.inf, 4.0, 1.0])


@pytest.mark.statistical
def test_simulated_links_agree(rng):
    """Stationary law by t-tests on batch means, gaps by chi-square: false alarms below 1e-5."""
    up = np.array([0.1, 0.3, 0.02])
    down = np.array([0.1, 0.1, 0.08])
    masks = enumeration.simulate_markov(rng, up, down, 40_000)
    num_batches = 25
    batch_means = np.stack(
        [batch.mean(axis=0) for batch in np.array_split(masks, num_batches)]
    )
    error = batch_means.std(axis=0, ddof=1) / np.sqrt(num_batches)
    scores = np.abs(masks.mean(axis=0) - analysis.markov_stationary(up, down)) / error
    assert np.all(scores < stats.t.isf(5e-7, num_batches - 1))
    for client in range(3):
        gaps = np.diff(np.flatnonzero(masks[:, client]))
        law = analysis.gap_distribution(up[client], down[client], 30)
        counts = np.array(
            [np.sum(gaps == k) for k in range(1, 31)] + [np.sum(gaps > 30)]
        )
        expected = np.append(law, 1.0 - law.sum()) * gaps.size
        keep = expected > 5
        distance = np.sum((counts - expected)[keep] ** 2 / expected[keep])
        assert stats.chi2.sf(distance, keep.sum() - 1) > 1e-6


ERRORS = [
    (
        lambda: analysis.markov_stationary(1.2, 0.1),
        '`up_rate` must lie in [0, 1], got 1.2.',
    ),
    (
        lambda: analysis.markov_stationary(0.2, -0.1),
        '`down_rate` must lie in [0, 1], got -0.1.',
    ),
    (
        lambda: analysis.markov_stationary([0.1, 0.0], [0.1, 0.0]),
        '`down_rate` must be positive where `up_rate` is zero, got 0.0.',
    ),
    (
        lambda: analysis.markov_stationary([0.1, 0.2], [0.1, 0.2, 0.3]),
        '`down_rate` must broadcast against `up_rate` (2,), got (3,).',
    ),
    (
        lambda: analysis.markov_autocorrelation(0.1, 0.1, -1),
        '`lag` must hold integers of at least 0, got -1.',
    ),
    (
        lambda: analysis.gap_distribution(0.1, 0.1, 0),
        '`max_gap` must be an integer of at least 1, got 0.',
    ),
    (
        lambda: analysis.truncated_interval_mean([0.1], 0),
        '`cutoff` must be an integer of at least 1, got 0.',
    ),
]


@pytest.mark.parametrize('call, message', ERRORS)
def test_errors(call, message):
    with refuses(message):
        call()
