"""The sum over pairs against closed forms, one integral and the accuracy of the skewed rule."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from fedjax_links import analysis
from studies.gaussian_accuracy import gaussian_accuracy
from tests import refusals

EQUAL = np.eye(5) * 2.0 / np.sqrt(2)  # five classes, any two 2 apart


def test_two_classes_lose_what_a_shifted_threshold_loses():
    shares = [0.9, 0.1]
    both = analysis.gaussian_boundaries([[0.0, 0.0], [3.0, 4.0]])
    shift = np.log(9) / 5
    wanted = special.ndtr(2.5) - (special.ndtr(2.5 + shift) + special.ndtr(2.5 - shift)) / 2
    assert analysis.skewed_loss(both, shares) == pytest.approx(wanted, rel=1e-11)
    assert both.mass[0, 1] == pytest.approx(stats.norm.pdf(2.5) / 10, rel=1e-14)


def test_mass_at_equal_distances_is_one_integral():
    found = analysis.gaussian_boundaries(EQUAL)
    ahead, off = np.sqrt(2.0), ~np.eye(5, dtype=bool)

    def density(z):
        return stats.norm.pdf(z) * stats.norm.pdf(z + ahead) * special.ndtr(z + ahead) ** 3

    wanted = integrate.quad(density, -12, 12, epsabs=1e-13)[0] / (5 * ahead)
    assert abs(found.mass.sum() / 2 - 10 * wanted) < 5 * found.error
    assert found.error < 1e-3 * found.mass.sum()
    share = wanted * 5 * 2 / stats.norm.pdf(1)
    of_draws = np.sqrt((1 - share) / share / (8 * 512))  # relative; the sequences scatter less
    np.testing.assert_allclose(found.mass[off], wanted, rtol=5 * of_draws)


def test_mass_is_the_curvature_of_the_accuracy(rng):
    """By differences of the exact accuracy at equal distances, in a direction of log shares."""
    found = analysis.gaussian_boundaries(EQUAL)
    h, step = rng.normal(size=5), 1e-3
    levels = [analysis.equidistant_skewed_accuracy(2.0, np.exp(s * h)) for s in (-step, 0, step)]
    wanted = -(levels[0] - 2 * levels[1] + levels[2]) / step**2
    ratios = np.subtract.outer(h, h)
    assert np.sum(found.mass * ratios**2) / 2 == pytest.approx(wanted, rel=2e-3)
    assert 2 * analysis.skewed_loss(found, np.exp(step * h)) / step**2 == pytest.approx(
        wanted, rel=2e-3
    )


def test_loss_is_that_of_the_skewed_rule_where_classes_are_unequally_far(rng):
    means = 1.5 * rng.normal(size=(6, 3))
    shares = np.exp(rng.normal(size=6))

    def accuracy(law):
        return gaussian_accuracy(analysis.gaussian_minimiser(means, law[None], [1.0]), means)

    best, skewed = accuracy(np.ones(6)), accuracy(shares)
    wanted = best.accuracy - skewed.accuracy
    found = analysis.skewed_loss(analysis.gaussian_boundaries(means), shares)
    assert abs(found - wanted) < 5 * np.hypot(best.error, skewed.error) + 0.05 * wanted
    assert wanted > 20 * np.hypot(best.error, skewed.error)


def test_a_confusion_matrix_of_two_classes_tells_all():
    wrong = special.ndtr(-1.0)
    found = analysis.confusion_boundaries(1000 * np.array([[1 - wrong, wrong], [wrong, 1 - wrong]]))
    wanted = analysis.gaussian_boundaries([[0.0], [2.0]])
    np.testing.assert_allclose(found.mass, wanted.mass, rtol=1e-12)
    np.testing.assert_allclose(found.distances, wanted.distances, rtol=1e-12)


def test_pairs_that_are_never_confused_have_no_boundary():
    table = [[8, 2, 0], [1, 9, 0], [0, 0, 5]]
    found = analysis.confusion_boundaries(table)
    assert not found.mass[2].any()
    assert np.isinf(found.distances[2, :2]).all()
    pair = analysis.skewed_loss(analysis.confusion_boundaries([[8, 2], [1, 9]]), [3, 1])
    assert analysis.skewed_loss(found, [3, 1, 1e-6]) == pytest.approx(2 / 3 * pair, rel=1e-12)


@pytest.mark.parametrize(
    'call, field',
    [
        (lambda: analysis.gaussian_boundaries([[0.0]]), 'means'),
        (lambda: analysis.gaussian_boundaries([[1.0], [1.0]]), 'means'),
        (lambda: analysis.confusion_boundaries([[1, 0]]), 'confusion'),
        (lambda: analysis.confusion_boundaries([[1, 0], [1, 0]]), 'confusion'),
        (lambda: analysis.confusion_boundaries([[1, 1], [1, 1]]), 'confusion'),
        (lambda: analysis.skewed_loss(analysis.gaussian_boundaries(EQUAL), [1, 1]), 'shares'),
        (
            lambda: analysis.skewed_loss(analysis.gaussian_boundaries(EQUAL), [1, 1, 1, 1, 0]),
            'shares',
        ),
    ],
)
def test_arguments_out_of_range_are_refused(call, field):
    with refusals.names(field):
        call()
