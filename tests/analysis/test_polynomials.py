"""Cohort-size laws and quadrature against enumeration and exact rational arithmetic."""

import math
import time

import numpy as np
import pytest
from scipy import special, stats

from fedjax_links import analysis
from fedjax_links.analysis import polynomials
from tests.analysis import enumeration


@pytest.mark.parametrize('probs', [[0.3], [0.0, 1.0], [0.2, 0.9, 0.0, 1.0, 0.5, 1e-9]])
def test_pmf_equals_enumeration(probs):
    expected = np.zeros(len(probs) + 1)
    for mask, prob in enumeration.active_sets(probs):
        expected[mask.sum()] += prob
    np.testing.assert_allclose(analysis.poisson_binomial_pmf(probs), expected, atol=1e-15)


def test_pmf_of_equal_probs_is_binomial_with_relative_precision_in_the_tails():
    pmf = analysis.poisson_binomial_pmf(np.full(60, 0.01))
    np.testing.assert_allclose(pmf, stats.binom.pmf(np.arange(61), 60, 0.01), rtol=1e-11)


def test_pmf_of_ten_thousand_clients(rng):
    probs = rng.uniform(size=10_000)
    started = time.perf_counter()
    pmf = analysis.poisson_binomial_pmf(probs)
    assert time.perf_counter() - started < 20.0
    sizes = np.arange(pmf.size)
    mean = pmf @ sizes
    np.testing.assert_allclose(pmf.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(mean, probs.sum(), rtol=1e-12)
    np.testing.assert_allclose(pmf @ (sizes - mean) ** 2, np.sum(probs * (1 - probs)), rtol=1e-10)


@pytest.mark.parametrize('num_nodes', [1, 2, 3, 4, 7, 40, 301])
def test_gauss_rule_agrees_with_scipy_and_is_symmetric(num_nodes):
    rule = polynomials.gauss_legendre(num_nodes)
    nodes, weights = special.roots_legendre(num_nodes)
    np.testing.assert_allclose(rule.nodes, 0.5 * (nodes + 1.0), atol=1e-14)
    np.testing.assert_allclose(rule.weights, 0.5 * weights, rtol=1e-8)
    np.testing.assert_allclose(rule.nodes + rule.complements, 1.0, rtol=1e-15)
    np.testing.assert_array_equal(rule.nodes, rule.complements[::-1])
    np.testing.assert_array_equal(rule.weights, rule.weights[::-1])


@pytest.mark.parametrize('degree', [0, 1, 2, 5, 30, 599])
def test_gauss_rule_integrates_powers_at_the_peaked_end(degree):
    rule = polynomials.gauss_legendre(degree // 2 + 1)
    powers = np.exp(degree * np.log1p(-rule.complements))
    np.testing.assert_allclose(rule.weights @ powers, 1.0 / (degree + 1.0), rtol=2e-14)


@pytest.mark.parametrize('num_clients', [1, 2, 3, 8, 30])
def test_logarithmic_rule_gives_inverse_squares(num_clients):
    rule = polynomials.logarithmic_rule(np.ones(num_clients))
    for degree in range(num_clients):
        np.testing.assert_allclose(
            rule.weights @ rule.nodes**degree, 1.0 / (degree + 1.0) ** 2, rtol=1e-11
        )


@pytest.mark.parametrize('scale', [1e-7, 0.02, 0.4, 1.0])
@pytest.mark.parametrize('num_clients', [3, 400, 3000])
def test_shortened_rules_lose_nothing(rng, scale, num_clients):
    """The means of 1/(1+S) and 1/(1+S)^2 agree with sums over the law of S."""
    probs = scale * rng.uniform(size=num_clients)
    pmf = analysis.poisson_binomial_pmf(probs)
    padded = np.append(probs, scale)  # the rules serve integrands that lack one client's factor
    for rule, power in (
        (polynomials.plain_rule(padded), 1),
        (polynomials.logarithmic_rule(padded), 2),
    ):
        assert rule.nodes.size <= num_clients + 1
        value = rule.weights @ np.exp(polynomials.log_factors(probs, rule).sum(axis=1))
        expected = math.fsum(pmf / np.arange(1.0, pmf.size + 1.0) ** power)
        np.testing.assert_allclose(value, expected, rtol=1e-11)


def test_large_federations_need_few_nodes():
    assert polynomials.sufficient_degree(np.full(10_000, 0.5)) < 800
    assert polynomials.sufficient_degree(np.full(1_000_000, 1e-5)) < 60
    assert polynomials.sufficient_degree(np.zeros(5)) <= 4
