"""Exact laws of configured links against simulated masks, and against enumeration."""

import itertools

import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis, base
from fedjax_links.analysis import recorded_links
from fedjax_links.config.link_sections import bind_links
from fedjax_links.participation.link_laws import LinkLaw
from fedjax_links.preview import configured_chains, configured_links
from fedjax_links.preview.configured_links import link_law
from fedjax_links.preview.links import folding_period
from tests.report import plans
from tests.tiers import cases

# Per coordinate of a Student t with 31 degrees of freedom; 3e-5 over all coordinates of a pattern.
FALSE_ALARM = 2.5e-6
BOUND = stats.t.isf(FALSE_ALARM / 2, 31)


def batch_t(values, exact):
    """Returns deviations of means over rounds, in standard errors of 32 batch means."""
    means = np.array([part.mean(axis=0) for part in np.array_split(values, 32)])
    error = means.std(axis=0, ddof=1) / np.sqrt(32)
    off = values.mean(axis=0) - exact
    return np.where(error > 1e-12, off / np.maximum(error, 1e-12), off * 1e3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    'name',
    cases(
        plans.KNOWN,
        ['bernoulli', 'duplex', 'markov', 'periodic_groups', 'separation', 'sine'],
    ),
)
def test_rates_and_weights_are_those_of_the_simulated_links(name):
    law = plans.named_plan(name).law
    active = np.asarray(base.participants(plans.named_record(name)))
    assert np.abs(batch_t(active, law.rates)).max() < BOUND
    result = analysis.effective_weights(masks=active)
    off = result.weights - law.weights
    error = np.maximum(result.standard_errors, 1e-4)
    assert np.abs(off / error).max() < BOUND
    np.testing.assert_allclose(law.weights.sum(), 1, rtol=1e-9)
    assert not (law.never_empty and (active.sum(axis=1) == 0).any())


@pytest.mark.statistical
@pytest.mark.parametrize('name', ['bernoulli', 'draws', 'quorum', 'uniform_cohort'])
def test_rounds_of_a_law_without_memory_are_uncorrelated(name):
    law = plans.named_plan(name).law
    assert law.memoryless
    active = np.asarray(base.participants(plans.named_record(name)))
    deviations = active - law.rates
    assert np.abs(batch_t(deviations[1:] * deviations[:-1], 0)).max() < BOUND


def test_a_wrong_law_is_noticed():
    active = np.asarray(base.participants(plans.named_record('separation')))
    changed = {**plans.KNOWN['separation'], 'separation': 1}
    wrong = link_law(bind_links(changed, plans.named_plan('separation').problem))
    assert np.abs(batch_t(active, wrong.rates)).max() > BOUND


@pytest.mark.parametrize('name', plans.UNKNOWN)
def test_what_is_not_known_is_not_claimed(name):
    law = plans.named_plan(name).law
    assert law.weights is None
    assert law.probs is None
    assert not law.memoryless


def test_links_of_one_correlation_time_have_one_decay():
    law = plans.named_plan('markov_time').law
    np.testing.assert_allclose(law.up_rate / (law.up_rate + law.down_rate), law.probs)
    np.testing.assert_allclose(1 - law.up_rate - law.down_rate, np.exp(-1 / 4))


def test_cyclic_rates_count_whole_cycles():
    law = plans.named_plan('cyclic').law
    # All clients start down, once.
    active = base.participants(plans.named_record('cyclic', 1010))[10:]
    np.testing.assert_allclose(active.mean(axis=0), law.rates, atol=1e-12)
    assert law.period == 10


def test_cyclic_laws_break_ties_as_the_pattern_does():
    # 100 p lies between two whole numbers, in single and in double precision on different sides.
    probs = (0.295, 0.545, 0.575, *(9 * [0.5]))
    links = {'name': 'cyclic', 'probs': probs, 'cycle_length': 100}
    plan = plans.plan(links)
    active = base.participants(plans.record(plan, 1100))[100:]
    simulated = active.mean(axis=0)
    np.testing.assert_allclose(simulated[:3], [0.29, 0.54, 0.58], atol=1e-12)
    np.testing.assert_allclose(plan.law.rates, simulated, atol=1e-12)
    bound = configured_links.bound_links(plan.experiment, plan.label)
    chain = configured_chains.link_chain(bound)
    up_rounds = [chain.kinds[kind].is_up.mean() for kind in chain.kind_of_client]
    np.testing.assert_allclose(up_rounds, simulated, atol=1e-12)


def paths(up, down, rate, num_rounds):
    """Yields every path of a stationary two-state chain and its probability."""
    for path in itertools.product([0, 1], repeat=num_rounds):
        prob = rate if path[0] else 1 - rate
        for before, after in itertools.pairwise(path):
            change = down if before else up
            prob *= change if before != after else 1 - change
        yield np.array(path, bool)[:, None], prob


@pytest.mark.parametrize(
    'up, down',
    [(0.3, 0.7), (0.2, 0.3), (0.5, 1.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)],
)
def test_expected_gap_counts_are_means_over_all_paths(up, down):
    rate = up / (up + down)
    rounds = 7
    mean = sum(
        prob * analysis.gap_counts(path) for path, prob in paths(up, down, rate, rounds)
    )
    exact = analysis.expected_gap_counts([up], [down], rounds, rounds - 1)
    np.testing.assert_allclose(exact, mean, atol=1e-14)
    num_gaps = recorded_links.expected_num_gaps([up], [down], rounds)
    np.testing.assert_allclose(num_gaps, mean.sum(), atol=1e-14)


def test_gap_counts_by_hand():
    active = np.array([[1, 0], [0, 0], [1, 1], [1, 0], [0, 1]], bool)
    np.testing.assert_array_equal(analysis.gap_counts(active), [0, 1, 2, 0, 0])


def test_autocorrelation_of_one_client_is_the_textbook_estimate(rng):
    active = rng.uniform(size=(500, 1)) < 0.4
    x = active[:, 0] - active.mean()
    expected = [1.0, *(np.mean(x[:-k] * x[k:]) / np.mean(x**2) for k in range(1, 6))]
    np.testing.assert_allclose(
        analysis.autocorrelation(active, 5), expected, rtol=0, atol=1e-13
    )


@pytest.mark.parametrize('cells', [recorded_links._CELLS, 500])
def test_autocorrelations_of_many_clients_are_pooled(rng, monkeypatch, cells):
    """Against sums over clients, computed for all clients together and in parts."""
    monkeypatch.setattr(recorded_links, '_CELLS', cells)
    active = rng.uniform(size=(60, 40)) < rng.uniform(0.1, 0.9, 40)
    x = active - active.mean(axis=0)
    expected = [1.0]
    for lag in range(1, 60):
        covariances = np.mean(x[:-lag] * x[lag:], axis=0)
        expected.append(covariances.sum() / x.var(axis=0).sum())
    np.testing.assert_allclose(
        analysis.autocorrelation(active, 59), expected, rtol=0, atol=1e-13
    )


@pytest.mark.parametrize(
    'call, message',
    [
        (
            lambda: analysis.autocorrelation(np.eye(4, dtype=bool), 4),
            '`max_lag` .* 4, got 4.',
        ),
        (
            lambda: analysis.autocorrelation(np.eye(4, dtype=bool), -1),
            '`max_lag` .* 0, got -1.',
        ),
        (
            lambda: analysis.expected_gap_counts(0.5, 0.5, 7, 7),
            '`max_gap` .* 7, got 7.',
        ),
        (
            lambda: analysis.expected_gap_counts(0.5, 0.5, 7, 9),
            '`max_gap` .* 7, got 9.',
        ),
        (
            lambda: analysis.expected_gap_counts(0.5, 0.5, 7, 0),
            '`max_gap` .* 1, got 0.',
        ),
        (
            lambda: analysis.expected_gap_counts(0.5, 0.5, 7.5, 3),
            '`num_rounds` .* got 7.5.',
        ),
        (
            lambda: analysis.expected_autocorrelation(0.5, 0.5, -1),
            '`max_lag` .* 0, got -1.',
        ),
    ],
)
def test_gaps_and_lags_that_no_record_has_are_refused(call, message):
    with pytest.raises(ValueError, match=f'^{message}$'):
        call()


def test_autocorrelation_is_pooled_by_variance():
    up = np.array([0.1, 0.05, 1.0])
    down = np.array([0.1, 0.45, 0.0])
    exact = analysis.expected_autocorrelation(up, down, 2)
    by_hand = [1, (0.25 * 0.8 + 0.09 * 0.5) / 0.34, (0.25 * 0.64 + 0.09 * 0.25) / 0.34]
    np.testing.assert_allclose(exact, by_hand, rtol=1e-12)
    assert np.isnan(analysis.autocorrelation(np.ones((9, 2), bool), 3)).all()


def test_a_record_is_folded_at_a_period_that_it_has_seen_twice():
    assert folding_period(LinkLaw('', period=4), 7) is None
    assert folding_period(LinkLaw('', period=4), 8) == 4
