"""The participation report against loops over rounds."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis
from fedjax_links.analysis import recorded_links
from tests.refusals import refuses


def counted(masks):
    """Gaps and ages of each client, round by round."""
    gaps = []
    ages = []
    for column in masks.T:
        last = -1
        client_gaps = []
        client_ages = []
        for t, active in enumerate(column):
            client_ages.append(t - last)
            if active:
                if last >= 0:
                    client_gaps.append(t - last)
                last = t
        gaps.append(client_gaps)
        ages.append(client_ages)
    return gaps, ages


@pytest.mark.parametrize('density', [0.0, 0.03, 0.3, 1.0])
@pytest.mark.parametrize('num_rounds', [1, 2, 57])
def test_report_equals_loops(rng, density, num_rounds):
    masks = rng.uniform(size=(num_rounds, 9)) < density
    report = analysis.participation_report(masks)
    gaps, ages = counted(masks)
    np.testing.assert_array_equal(report.counts, masks.sum(axis=0))
    np.testing.assert_allclose(report.rates, masks.mean(axis=0))
    np.testing.assert_allclose(
        report.mean_staleness, [np.mean(client_ages) for client_ages in ages]
    )
    np.testing.assert_array_equal(
        report.max_staleness, [max(client_ages) for client_ages in ages]
    )
    for client, client_gaps in enumerate(gaps):
        expected = (np.nan, np.nan, np.nan)
        if client_gaps:
            expected = (np.mean(client_gaps), max(client_gaps), min(client_gaps) - 1)
        result = (
            report.mean_gaps[client],
            report.max_gaps[client],
            report.min_separations[client],
        )
        np.testing.assert_allclose(result, expected)
    assert report.num_rounds == num_rounds
    assert report.empty_rounds == sum(not row.any() for row in masks)
    shares = [row / row.sum() for row in masks if row.any()]
    if shares:
        weights = np.mean(shares, axis=0)
        np.testing.assert_allclose(report.weights, weights)
        assert report.distance_to_uniform == pytest.approx(
            np.abs(weights - 1 / 9).sum()
        )
        assert report.effective_sample_size == pytest.approx(1.0 / np.sum(weights**2))
    else:
        assert np.all(np.isnan(report.weights))


def test_cyclic_participation():
    report = analysis.participation_report(np.tile(np.eye(5, dtype=bool), (4, 1)))
    np.testing.assert_array_equal(report.min_separations, 4.0)
    np.testing.assert_array_equal(report.max_gaps, 5.0)
    assert report.distance_to_uniform == pytest.approx(0.0, abs=1e-14)
    assert report.effective_sample_size == pytest.approx(5.0)


@pytest.mark.statistical
def test_mean_staleness_is_one_over_p(rng):
    """Means of 30 runs, four clients, two-sided 1e-6 each: false alarms below 1e-5.

    Ages start at 1 instead of their stationary law, which shifts the mean of T rounds by less than
    (1/p)^2 / T. So the mean is taken over rounds 500 to 2,999. It is T times the mean of all
    rounds, minus 500 times that of the first 500, over 2,500.
    """
    probs = np.array([0.1, 0.3, 0.6, 1.0])
    means = []
    for _ in range(30):
        masks = rng.uniform(size=(3000, 4)) < probs
        head = analysis.participation_report(masks[:500]).mean_staleness
        full = analysis.participation_report(masks).mean_staleness
        means.append((3000 * full - 500 * head) / 2500)
    error = np.std(means, axis=0, ddof=1) / np.sqrt(30)
    limit = stats.t.isf(5e-7, 29) * error + 1e-12
    assert np.all(np.abs(np.mean(means, axis=0) - 1.0 / probs) < limit)


def test_blocks_of_clients_change_nothing(rng, monkeypatch):
    """Blocks of ten clients, in little memory."""
    masks = rng.uniform(size=(400, 500)) < rng.uniform(0.1, 0.9, 500)
    report = analysis.participation_report(masks)
    gaps = analysis.gap_counts(masks)
    monkeypatch.setattr(recorded_links, '_CELLS', 4000)
    tracemalloc.start()
    gaps_by_block = analysis.gap_counts(masks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * masks.size
    np.testing.assert_array_equal(gaps_by_block, gaps)
    report_by_block = analysis.participation_report(masks)
    for result, expected in zip(report_by_block, report, strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize('density', [0.0, 0.2])
def test_text_fits_one_screen(rng, density):
    report = analysis.participation_report(rng.uniform(size=(200, 1000)) < density)
    lines = report.text().splitlines()
    assert len(lines) <= 24
    assert max(len(line) for line in lines) <= 80
    assert 'clients 1000, rounds 200' in lines[0]


def test_a_report_prints_as_text_with_errors_of_weights(rng):
    masks = rng.uniform(size=(320, 30)) < np.linspace(0.1, 0.9, 30)
    report = analysis.participation_report(masks)
    assert str(report) == repr(report) == report.text()
    expected = analysis.effective_weights(masks=masks)
    np.testing.assert_array_equal(report.weight_errors, expected.standard_errors)
    (line,) = (line for line in str(report).splitlines() if 'standard error' in line)
    quantiles = np.quantile(30 * expected.standard_errors, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(
        [float(word) for word in line.split()[2:]], quantiles, rtol=1e-3
    )
    assert np.isnan(analysis.participation_report(masks[:31]).weight_errors).all()


def test_text_of_a_known_run():
    report = analysis.participation_report(
        [[True, False], [True, True], [False, False]]
    )
    lines = report.text().splitlines()
    assert lines[0] == 'clients 2, rounds 3, empty rounds 1, clients never active 0'
    assert lines[2].split() == ['participations', '1', '1.25', '1.5', '1.75', '2']
    assert (
        lines[-1] == 'weights: L1 distance to uniform 0.5, effective clients 1.6 of 2'
    )


def test_text_of_a_run_without_participants():
    lines = analysis.participation_report(np.zeros((3, 2), bool)).text().splitlines()
    assert lines[0] == 'clients 2, rounds 3, empty rounds 3, clients never active 2'
    assert lines[-1] == 'weights: none, as each round is empty'


def test_links_that_never_change_have_no_gaps():
    counts = recorded_links.expected_gap_counts(
        [0.0, 0.0], 0.0, num_rounds=9, max_gap=3
    )
    np.testing.assert_array_equal(counts, np.zeros(4))


def test_errors():
    with refuses('`masks` must be non-empty [T, N], got shape (0, 3).'):
        analysis.participation_report(np.zeros((0, 3), dtype=bool))
    with refuses('`masks` must be boolean, got 0.5.'):
        analysis.participation_report([[0.5, 1.0]])
