"""Effective weights: exact where a formula exists, with honest errors where it does not."""

import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis
from tests.analysis import enumeration
from tests.analysis.refusals import refuses


def test_independent_links_are_exact(rng):
    probs = rng.uniform(size=6)
    result = analysis.effective_weights(probs)
    np.testing.assert_allclose(result.weights, enumeration.fedavg_weights(probs), rtol=1e-12)
    assert result.exact
    assert not result.standard_errors.any()


def test_equal_cohorts_return_the_selection_law():
    law = analysis.minimum_separation_stationary([1.0, 2.0, 3.0, 4.0], 1, 2)
    result = analysis.effective_weights(selection_law=law)
    np.testing.assert_array_equal(result.weights, law)
    assert result.exact


def test_estimate_is_the_mean_share_over_non_empty_rounds():
    masks = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)
    result = analysis.effective_weights(masks=masks, num_batches=2)
    shares = [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(result.weights, np.mean(shares, axis=0), rtol=1e-14)
    assert not result.exact
    assert result.degrees_of_freedom == 1


def test_standard_errors_are_those_of_a_ratio_of_batch_sums():
    masks = np.array([[1, 0], [0, 0], [1, 1], [0, 1], [1, 1], [1, 0]], dtype=bool)
    result = analysis.effective_weights(masks=masks, num_batches=3)
    sums = np.array([[1.0, 0.0], [0.5, 1.5], [1.5, 0.5]])
    counts = np.array([1.0, 2.0, 2.0])
    residuals = sums - counts[:, None] * sums.sum(axis=0) / 5.0
    expected = np.sqrt(3.0 / 2.0 * np.sum(residuals**2, axis=0)) / 5.0
    np.testing.assert_allclose(result.standard_errors, expected, rtol=1e-13)


def test_deterministic_cycles_have_no_error():
    masks = np.tile(np.eye(4, dtype=bool), (50, 1))
    result = analysis.effective_weights(masks=masks, num_batches=10)
    np.testing.assert_allclose(result.weights, 0.25, rtol=1e-14)
    np.testing.assert_allclose(result.standard_errors, 0.0, atol=1e-15)


@pytest.mark.slow
@pytest.mark.statistical
def test_standard_errors_cover_links_with_memory(rng):
    """Markov links with the exact answer of equal stationary probabilities: uniform weights.

    Over 40 runs of four clients, t-scores beyond the two-sided 5 % point are binomial with a mean
    of 8 of 160; the clients of a run are dependent, so the limit of 28 leaves room: false alarms
    below 1e-6 by simulation. One-round errors (no batches) would put most scores beyond.
    """
    beyond = naive = 0
    for _ in range(40):
        masks = enumeration.simulate_markov(rng, np.full(4, 0.05), np.full(4, 0.05), 6400)
        result = analysis.effective_weights(masks=masks)
        scores = np.abs(result.weights - 0.25) / result.standard_errors
        beyond += np.sum(scores > stats.t.isf(0.025, result.degrees_of_freedom))
        rounds = analysis.effective_weights(masks=masks, num_batches=6400)
        naive += np.sum(np.abs(result.weights - 0.25) / rounds.standard_errors > 1.96)
    assert beyond <= 28
    assert naive > 60


@pytest.mark.statistical
def test_estimate_of_independent_links_agrees_with_the_formula(rng):
    """Six t-tests at a two-sided 1e-6: false alarms below 1e-5."""
    probs = np.array([0.02, 0.1, 0.3, 0.5, 0.9, 0.05])
    result = analysis.effective_weights(masks=rng.uniform(size=(40_000, 6)) < probs)
    scores = np.abs(result.weights - analysis.fedavg_weights(probs)) / result.standard_errors
    assert np.all(scores < stats.t.isf(5e-7, result.degrees_of_freedom))


def test_errors():
    with refuses('`probs` must be given, or `selection_law` or `masks`, one of them, got 0.'):
        analysis.effective_weights()
    with refuses('`probs` must be given, or `selection_law` or `masks`, one of them, got 2.'):
        analysis.effective_weights([0.5], masks=[[True]])
    with refuses('`num_batches` must be at most 3, got 32.'):
        analysis.effective_weights(masks=np.ones((3, 2)))
    with refuses('`masks` must hold an active client, got 40 empty rounds.'):
        analysis.effective_weights(masks=np.zeros((40, 2)))
    with refuses('`masks` must be non-empty [T, N], got shape (4,).'):
        analysis.effective_weights(masks=np.ones(4))
    with refuses('`selection_law` must sum to 1, got 1.5.'):
        analysis.effective_weights(selection_law=[0.5, 1.0])
