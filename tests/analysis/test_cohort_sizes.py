"""The law of the cohort size and the means of its reciprocals against enumeration."""

import math
import time

import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis
from fedjax_links.analysis import cohort_sizes
from tests.analysis import enumeration


@pytest.mark.parametrize('probs', [[0.3], [0.0, 1.0], [0.2, 0.9, 0.0, 1.0, 0.5, 1e-9]])
def test_pmf_equals_enumeration(probs):
    expected = np.zeros(len(probs) + 1)
    for mask, prob in enumeration.active_sets(probs):
        expected[mask.sum()] += prob
    np.testing.assert_allclose(
        analysis.poisson_binomial_pmf(probs), expected, atol=1e-15
    )


def test_pmf_of_equal_probs_is_binomial_in_the_tails_too():
    pmf = analysis.poisson_binomial_pmf(np.full(60, 0.01))
    np.testing.assert_allclose(
        pmf, stats.binom.pmf(np.arange(61), 60, 0.01), rtol=1e-11
    )


def test_pmf_of_ten_thousand_clients(rng):
    probs = rng.uniform(size=10_000)
    started = time.perf_counter()
    pmf = analysis.poisson_binomial_pmf(probs)
    # The order of a second; the bound leaves room for slow machines.
    assert time.perf_counter() - started < 20.0
    sizes = np.arange(pmf.size)
    mean = pmf @ sizes
    np.testing.assert_allclose(pmf.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(mean, probs.sum(), rtol=1e-12)
    np.testing.assert_allclose(
        pmf @ (sizes - mean) ** 2, np.sum(probs * (1 - probs)), rtol=1e-10
    )


@pytest.mark.parametrize('size', [1, 2, 3, 6, 31, 600, 100_000])
def test_rule_gives_reciprocals_and_their_squares(size):
    """``1/n = int z^(n-1) dz``, where the size is certain and where it is one of many."""
    for probs in (np.ones(size), np.full(2 * size, 0.5)):
        times, weights = cohort_sizes.quadrature(probs)
        powers = weights * np.exp(-(size - 1.0) * times)
        np.testing.assert_allclose(powers.sum(), 1.0 / size, rtol=1e-14)
        np.testing.assert_allclose(powers @ times, 1.0 / size**2, rtol=1e-14)


@pytest.mark.parametrize('scale', [1e-7, 0.02, 0.4, 1.0])
@pytest.mark.parametrize('num_clients', [1, 3, 400, 3000])
@pytest.mark.parametrize('num_left_out', [1, 2])
def test_rule_gives_the_means_of_random_sizes(rng, scale, num_clients, num_left_out):
    """The means of 1/(1+S) and 1/(1+S)^2 agree with sums over the law of S."""
    probs = scale * rng.uniform(size=num_clients)
    pmf = analysis.poisson_binomial_pmf(probs)
    sizes = np.arange(1.0, pmf.size + 1.0)
    # Serves f without one or two factors.
    left_out = np.full(num_left_out, scale)
    times, weights = cohort_sizes.quadrature(np.append(probs, left_out))
    without = weights * np.exp(cohort_sizes.log_factors(probs, times).sum(axis=1))
    np.testing.assert_allclose(without.sum(), math.fsum(pmf / sizes), rtol=2e-14)
    np.testing.assert_allclose(without @ times, math.fsum(pmf / sizes**2), rtol=2e-14)


def test_factors_of_certain_and_of_absent_clients_are_exact():
    times = np.array([1e-18, 1e-3, 0.5, 49.0])
    factors = cohort_sizes.log_factors(np.array([0.0, 0.25, 1.0]), times)
    np.testing.assert_array_equal(factors[:, 0], 0.0)
    np.testing.assert_allclose(
        factors[:, 1], np.log1p(0.25 * np.expm1(-times)), rtol=1e-15
    )
    np.testing.assert_allclose(factors[:, 2], -times, rtol=1e-15)


def test_few_nodes_do_for_any_federation():
    for probs in (
        np.zeros(5),
        np.ones(40),
        np.full(10_000, 0.5),
        np.full(1_000_000, 1e-5),
    ):
        times, weights = cohort_sizes.quadrature(probs)
        assert times.size < 90
        assert np.all(weights > 0)
