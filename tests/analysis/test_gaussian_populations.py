"""Gaussian classes against normal quantiles, quadrature, simulation and the skewed rule."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from fedjax_links import analysis
from studies.gaussian_accuracy import gaussian_accuracy
from tests import refusals
from tests.reference.statistics import BOUND
from tests.refusals import refuses


@pytest.mark.parametrize('distance', [0.0, 0.3, 2.0, 7.0])
def test_two_classes_have_the_textbook_accuracy(distance):
    result = analysis.equidistant_accuracy(distance, 2)
    np.testing.assert_allclose(result, stats.norm.cdf(distance / 2), rtol=0, atol=1e-15)


@pytest.mark.parametrize('num_classes', [3, 10, 1000])
def test_accuracy_agrees_with_adaptive_quadrature(num_classes):
    for distance in (0.0, 1.5, 4.0):
        ahead = distance / np.sqrt(2)

        def integrand(z, ahead=ahead):
            return stats.norm.pdf(z) * stats.norm.cdf(z + ahead) ** (num_classes - 1)

        expected, _ = integrate.quad(
            integrand, -12, 12, epsabs=1e-13, epsrel=1e-13, limit=200
        )
        result = analysis.equidistant_accuracy(distance, num_classes)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


@pytest.mark.statistical
def test_accuracy_agrees_with_bayes_rule_on_draws():
    rng = np.random.default_rng(0)
    classes = 5
    distance = 2.0
    draws = 200_000
    means = np.eye(classes) * distance / np.sqrt(2)  # pairwise distances: `distance`
    labels = rng.integers(classes, size=draws)
    points = means[labels] + rng.standard_normal((draws, classes))
    nearest = np.argmin(((points[:, None] - means) ** 2).sum(-1), axis=1)
    exact = analysis.equidistant_accuracy(distance, classes)
    z = (np.mean(nearest == labels) - exact) / np.sqrt(exact * (1 - exact) / draws)
    assert abs(z) < BOUND


@pytest.mark.parametrize('num_classes', [2, 10, 100])
def test_distance_is_the_inverse(num_classes):
    for accuracy in (1.2 / num_classes, 0.75, 0.999999):
        distance = analysis.equidistant_distance(accuracy, num_classes)
        result = analysis.equidistant_accuracy(distance, num_classes)
        np.testing.assert_allclose(result, accuracy, rtol=0, atol=1e-12)
    assert analysis.equidistant_distance(1 / num_classes, num_classes) == 0


def weighted_mean(shares, values):
    """The mean over clients of their sample means, [N, draws], and its standard error."""
    mean = shares @ values.mean(axis=1)
    variance = np.sum(shares**2 * values.var(axis=1) / values.shape[1])
    return mean, np.sqrt(variance)


@pytest.mark.statistical
def test_linear_fit_agrees_with_least_squares_on_draws():
    rng = np.random.default_rng(2)
    clients = 4
    dimension = 3
    draws = 50_000
    sigma = 0.7
    vectors, shifts = rng.standard_normal((2, clients, dimension))
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    fit = analysis.best_linear_fit(vectors, shifts, sigma=sigma, weights=shares * 7)
    x = shifts[:, None] + rng.standard_normal((clients, draws, dimension))
    noise = sigma * rng.standard_normal((clients, draws))
    y = np.einsum('ijk,ik->ij', x, vectors) + noise
    # At b* the weighted error is the least, and the weighted gradient vanishes.
    residuals = x @ fit.vector - y
    mean, error = weighted_mean(shares, residuals**2)
    assert abs(mean - fit.error) < BOUND * error
    for j in range(dimension):
        mean, error = weighted_mean(shares, residuals * x[..., j])
        assert abs(mean) < BOUND * error
    # Elsewhere the error grows by the quadratic form of the moment.
    step = np.array([0.5, -1.0, 0.2])
    mean, error = weighted_mean(shares, (x @ (fit.vector + step) - y) ** 2)
    exact = fit.error + step @ fit.moment @ step
    assert abs(mean - exact) < BOUND * error


@pytest.mark.parametrize('num_classes', [2, 3, 10])
def test_skewed_accuracy_is_the_accuracy_of_the_minimiser(num_classes):
    rng = np.random.default_rng(num_classes)
    for distance in (0.5, 2.0, 5.0):
        shares = rng.dirichlet(np.full(num_classes, 0.5)) + 1e-6
        means = np.eye(num_classes) * distance / np.sqrt(2)
        model = analysis.gaussian_minimiser(means, shares[None], [1.0])
        expected = gaussian_accuracy(model, means)
        result = analysis.equidistant_skewed_accuracy(distance, shares)
        assert abs(result - expected.accuracy) < BOUND * expected.error + 1e-12
        equal = analysis.equidistant_skewed_accuracy(
            distance, np.full(num_classes, 7.0)
        )
        best = analysis.equidistant_accuracy(distance, num_classes)
        np.testing.assert_allclose(equal, best, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    'call, message',
    [
        (
            lambda: analysis.equidistant_accuracy(-1.0, 3),
            '`distance` must be finite and at least 0, got -1.0.',
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
            '`accuracy` must lie in [0.25, 1), from chance to below certainty, got 1.0.',
        ),
        (
            lambda: analysis.best_linear_fit([[1.0]], [[1.0]], sigma=-1),
            '`sigma` must be finite and at least 0, got -1.',
        ),
        (
            lambda: analysis.best_linear_fit([[np.nan]], [[1.0]], sigma=1),
            '`vectors` must be finite, got nan.',
        ),
    ],
)
def test_distances_and_shares_out_of_range_are_refused(call, message):
    with refuses(message):
        call()


def test_a_noise_of_a_narrow_type_is_squared_in_float64():
    fit = analysis.best_linear_fit([[1.0]], [[0.0]], sigma=np.int8(20))
    assert fit.error == 400
    assert analysis.best_linear_fit([[1.0]], [[0.0]], sigma=1e200).error == np.inf


EQUAL = np.eye(5) * 2.0 / np.sqrt(2)  # five classes, any two 2 apart


def test_two_classes_lose_what_a_shifted_threshold_loses():
    shares = [0.9, 0.1]
    boundaries = analysis.gaussian_boundaries([[0.0, 0.0], [3.0, 4.0]])
    shift = np.log(9) / 5
    expected = (
        special.ndtr(2.5) - (special.ndtr(2.5 + shift) + special.ndtr(2.5 - shift)) / 2
    )
    loss = analysis.skewed_loss(boundaries, shares)
    assert loss == pytest.approx(expected, rel=1e-11)
    assert boundaries.mass[0, 1] == pytest.approx(stats.norm.pdf(2.5) / 10, rel=1e-14)


def test_mass_at_equal_distances_is_one_integral():
    result = analysis.gaussian_boundaries(EQUAL)
    ahead = np.sqrt(2.0)
    off = ~np.eye(5, dtype=bool)

    def density(z):
        return (
            stats.norm.pdf(z) * stats.norm.pdf(z + ahead) * special.ndtr(z + ahead) ** 3
        )

    expected = integrate.quad(density, -12, 12, epsabs=1e-13)[0] / (5 * ahead)
    assert abs(result.mass.sum() / 2 - 10 * expected) < 5 * result.error
    assert result.error < 1e-3 * result.mass.sum()
    share = expected * 5 * 2 / stats.norm.pdf(1)
    # Relative; the sequences scatter less.
    draw_error = np.sqrt((1 - share) / share / (8 * 512))
    np.testing.assert_allclose(result.mass[off], expected, rtol=5 * draw_error)


def test_mass_is_the_curvature_of_the_accuracy(rng):
    """By differences of the exact accuracy at equal distances, in a direction of log shares."""
    result = analysis.gaussian_boundaries(EQUAL)
    h = rng.normal(size=5)
    step = 1e-3
    before, at_equal_shares, after = (
        analysis.equidistant_skewed_accuracy(2.0, np.exp(s * h))
        for s in (-step, 0, step)
    )
    expected = -(before - 2 * at_equal_shares + after) / step**2
    log_ratios = np.subtract.outer(h, h)
    by_mass = np.sum(result.mass * log_ratios**2) / 2
    assert by_mass == pytest.approx(expected, rel=2e-3)
    by_loss = 2 * analysis.skewed_loss(result, np.exp(step * h)) / step**2
    assert by_loss == pytest.approx(expected, rel=2e-3)


def test_skewed_loss_holds_for_classes_at_unequal_distances(rng):
    means = 1.5 * rng.normal(size=(6, 3))
    shares = np.exp(rng.normal(size=6))

    def accuracy(law):
        return gaussian_accuracy(
            analysis.gaussian_minimiser(means, law[None], [1.0]), means
        )

    best = accuracy(np.ones(6))
    skewed = accuracy(shares)
    expected = best.accuracy - skewed.accuracy
    error = np.hypot(best.error, skewed.error)
    result = analysis.skewed_loss(analysis.gaussian_boundaries(means), shares)
    assert abs(result - expected) < 5 * error + 0.05 * expected
    assert expected > 20 * error


def test_a_confusion_matrix_of_two_classes_has_their_boundary():
    wrong = special.ndtr(-1.0)
    result = analysis.confusion_boundaries(
        1000 * np.array([[1 - wrong, wrong], [wrong, 1 - wrong]])
    )
    expected = analysis.gaussian_boundaries([[0.0], [2.0]])
    np.testing.assert_allclose(result.mass, expected.mass, rtol=1e-12)
    np.testing.assert_allclose(result.distances, expected.distances, rtol=1e-12)


def test_pairs_that_are_never_confused_have_no_boundary():
    table = [[8, 2, 0], [1, 9, 0], [0, 0, 5]]
    result = analysis.confusion_boundaries(table)
    assert not result.mass[2].any()
    assert np.isinf(result.distances[2, :2]).all()
    pair = analysis.confusion_boundaries([[8, 2], [1, 9]])
    pair_loss = analysis.skewed_loss(pair, [3, 1])
    loss = analysis.skewed_loss(result, [3, 1, 1e-6])
    assert loss == pytest.approx(2 / 3 * pair_loss, rel=1e-12)


@pytest.mark.parametrize(
    'call, field',
    [
        (lambda: analysis.gaussian_boundaries([[0.0]]), 'means'),
        (lambda: analysis.gaussian_boundaries([[1.0], [1.0]]), 'means'),
        (lambda: analysis.confusion_boundaries([[1, 0]]), 'confusion'),
        (lambda: analysis.confusion_boundaries([[1, 0], [1, 0]]), 'confusion'),
        (lambda: analysis.confusion_boundaries([[1, 1], [1, 1]]), 'confusion'),
        (
            lambda: analysis.skewed_loss(analysis.gaussian_boundaries(EQUAL), [1, 1]),
            'shares',
        ),
        (
            lambda: analysis.skewed_loss(
                analysis.gaussian_boundaries(EQUAL), [1, 1, 1, 1, 0]
            ),
            'shares',
        ),
    ],
)
def test_boundaries_out_of_range_are_refused(call, field):
    with refusals.names(field):
        call()
