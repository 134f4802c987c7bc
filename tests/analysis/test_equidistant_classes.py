"""Accuracies and errors in closed form against normal quantiles, quadrature and simulation."""

import re

import numpy as np
import pytest
from scipy import integrate, stats

from fedjax_links import analysis
from studies.gaussian_accuracy import gaussian_accuracy

LIMIT = 4.5


@pytest.mark.parametrize('distance', [0.0, 0.3, 2.0, 7.0])
def test_two_classes_have_the_textbook_accuracy(distance):
    found = analysis.equidistant_accuracy(distance, 2)
    np.testing.assert_allclose(found, stats.norm.cdf(distance / 2), rtol=0, atol=1e-15)


@pytest.mark.parametrize('num_classes', [3, 10, 1000])
def test_accuracy_agrees_with_adaptive_quadrature(num_classes):
    for distance in (0.0, 1.5, 4.0):
        ahead = distance / np.sqrt(2)

        def integrand(z, ahead=ahead):
            return stats.norm.pdf(z) * stats.norm.cdf(z + ahead) ** (num_classes - 1)

        wanted, _ = integrate.quad(integrand, -12, 12, epsabs=1e-13, epsrel=1e-13, limit=200)
        found = analysis.equidistant_accuracy(distance, num_classes)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.statistical
def test_accuracy_agrees_with_bayes_rule_on_draws():
    rng, classes, distance, draws = np.random.default_rng(0), 5, 2.0, 200_000
    means = np.eye(classes) * distance / np.sqrt(2)  # pairwise distances: `distance`
    labels = rng.integers(classes, size=draws)
    points = means[labels] + rng.standard_normal((draws, classes))
    nearest = np.argmin(((points[:, None] - means) ** 2).sum(-1), axis=1)
    exact = analysis.equidistant_accuracy(distance, classes)
    z = (np.mean(nearest == labels) - exact) / np.sqrt(exact * (1 - exact) / draws)
    assert abs(z) < LIMIT


@pytest.mark.parametrize('num_classes', [2, 10, 100])
def test_distance_is_the_inverse(num_classes):
    for accuracy in (1.2 / num_classes, 0.75, 0.999999):
        distance = analysis.equidistant_distance(accuracy, num_classes)
        found = analysis.equidistant_accuracy(distance, num_classes)
        np.testing.assert_allclose(found, accuracy, rtol=0, atol=1e-12)
    assert analysis.equidistant_distance(1 / num_classes, num_classes) == 0


@pytest.mark.statistical
def test_linear_fit_agrees_with_least_squares_on_draws():
    rng, clients, dimension, draws, sigma = np.random.default_rng(2), 4, 3, 50_000, 0.7
    vectors, shifts = rng.standard_normal((2, clients, dimension))
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    fit = analysis.best_linear_fit(vectors, shifts, sigma=sigma, weights=shares * 7)
    x = shifts[:, None] + rng.standard_normal((clients, draws, dimension))
    y = np.einsum('ijk,ik->ij', x, vectors) + sigma * rng.standard_normal((clients, draws))
    off = np.einsum('ijk,k->ij', x, fit.vector) - y
    # At w* the weighted gradient vanishes and the weighted error is the least.
    for values, exact in ((off**2, fit.error), *((off * x[..., j], 0.0) for j in range(dimension))):
        mean = shares @ values.mean(axis=1)
        error = np.sqrt(np.sum(shares**2 * values.var(axis=1) / draws))
        assert abs(mean - exact) < LIMIT * error
    other = fit.vector + np.array([0.5, -1.0, 0.2])
    values = (np.einsum('ijk,k->ij', x, other) - y) ** 2
    exact = fit.error + (other - fit.vector) @ fit.moment @ (other - fit.vector)
    error = np.sqrt(np.sum(shares**2 * values.var(axis=1) / draws))
    assert abs(shares @ values.mean(axis=1) - exact) < LIMIT * error


@pytest.mark.parametrize('num_classes', [2, 3, 10])
def test_skewed_accuracy_agrees_with_the_accuracy_of_the_minimiser(num_classes):
    rng = np.random.default_rng(num_classes)
    for distance in (0.5, 2.0, 5.0):
        shares = rng.dirichlet(np.full(num_classes, 0.5)) + 1e-6
        means = np.eye(num_classes) * distance / np.sqrt(2)
        model = analysis.gaussian_minimiser(means, shares[None], [1.0])
        wanted = gaussian_accuracy(model, means)
        found = analysis.equidistant_skewed_accuracy(distance, shares)
        assert abs(found - wanted.accuracy) < LIMIT * wanted.error + 1e-12
        equal = analysis.equidistant_skewed_accuracy(distance, np.full(num_classes, 7.0))
        best = analysis.equidistant_accuracy(distance, num_classes)
        np.testing.assert_allclose(equal, best, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    'call, message',
    [
        (
            lambda: analysis.equidistant_accuracy(-1.0, 3),
            '`distance` must be at least 0 and finite, got -1.0.',
        ),
        (
            lambda: analysis.equidistant_accuracy(1.0, 1),
            '`num_classes` must be an integer of at least 2, got 1.',
        ),
        (
            lambda: analysis.equidistant_skewed_accuracy(0.0, [1, 1]),
            '`distance` must be positive and finite, got 0.0.',
        ),
        (
            lambda: analysis.equidistant_skewed_accuracy(1.0, [1, 0]),
            '`shares` must be positive, got 0.0.',
        ),
        (
            lambda: analysis.equidistant_skewed_accuracy(1.0, [1]),
            '`shares` must have at least 2 entries, got 1.',
        ),
        (
            lambda: analysis.equidistant_distance(1.0, 4),
            '`accuracy` must lie in [0.25, 1), chance and below certainty, got 1.0.',
        ),
        (
            lambda: analysis.best_linear_fit([[1.0]], [[1.0]], sigma=-1),
            '`sigma` must be at least 0 and finite, got -1.',
        ),
    ],
)
def test_arguments_out_of_range_are_refused(call, message):
    with pytest.raises(ValueError, match=f'^{re.escape(message)}$'):
        call()
