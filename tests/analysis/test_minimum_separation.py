"""Tests the stationary law of minimum separation.

It is compared with its definition, with enumerated chains and with reference values.
"""

import time
from fractions import Fraction

import numpy as np
import pytest

from fedjax_links import analysis
from tests.analysis import enumeration
from tests.analysis.enumeration import elementary_of_many
from tests.refusals import refuses

# The groups of Sun et al. 2025. Below, by separation R: the L1 distance of their selection law from
# the uniform one, and the probability of the first group.
GROUP_WEIGHTS = np.arange(1.0, 21.0) ** -1.5
DISTANCES = {
    0: 1.1396,
    5: 0.6434,
    8: 0.4581,
    10: 0.3545,
    15: 0.1405,
    18: 0.0331,
    19: 0.0,
}
FIRST_GROUP = {
    0: 0.4607,
    5: 0.1521,
    8: 0.1066,
    10: 0.0886,
    15: 0.0621,
    18: 0.0526,
    19: 0.05,
}


def exact_inclusion(weights, size):
    """Computes inclusion probabilities in rational arithmetic: no rounding, no overflow."""
    exact = [Fraction(float(weight)) for weight in weights]
    total = elementary_of_many(exact, size)
    inclusion = []
    for i, weight in enumerate(exact):
        others = exact[:i] + exact[i + 1 :]
        with_client = weight * elementary_of_many(others, size - 1)
        inclusion.append(float(with_client / total))
    return inclusion


def test_three_clients_of_proposition_3():
    law = analysis.minimum_separation_stationary((0.25, 0.25, 0.5), 1)
    np.testing.assert_allclose(law, (0.3, 0.3, 0.4), rtol=1e-14)


@pytest.mark.parametrize('separation', list(DISTANCES))
def test_groups_of_the_reference(separation):
    law = analysis.minimum_separation_stationary(GROUP_WEIGHTS, separation)
    assert np.abs(law - 1 / 20).sum() == pytest.approx(DISTANCES[separation], abs=5e-5)
    assert law[0] == pytest.approx(FIRST_GROUP[separation], abs=5e-5)


@pytest.mark.parametrize(
    'cohort, separation', [(1, 0), (1, 3), (2, 0), (2, 2), (3, 1), (3, 2)]
)
def test_law_is_the_ratio_of_elementary_polynomials(rng, cohort, separation):
    weights = rng.uniform(size=9)
    size = (separation + 1) * cohort
    total = enumeration.elementary(weights, size)
    expected = []
    for i, weight in enumerate(weights):
        others = enumeration.elementary(np.delete(weights, i), size - 1)
        expected.append(weight * others / (size * total))
    law = analysis.minimum_separation_stationary(weights, separation, cohort)
    np.testing.assert_allclose(law, expected, rtol=1e-12)


@pytest.mark.parametrize(
    'clients, separation, cohort', [(5, 2, 1), (6, 1, 2), (7, 1, 3)]
)
def test_law_is_that_of_the_chain_over_windows(rng, clients, separation, cohort):
    weights = rng.uniform(0.1, 1.0, size=clients)
    law = analysis.minimum_separation_stationary(weights, separation, cohort)
    expected = enumeration.separation_marginal(weights, separation, cohort, 'product')
    np.testing.assert_allclose(law, expected, rtol=1e-10)


@pytest.mark.parametrize('spread', [0.0, 1.0, 10.0, 60.0])
def test_inclusion_keeps_relative_precision_over_any_range(rng, spread):
    weights = np.exp(spread * rng.normal(size=12))
    for size in range(1, 13):
        inclusion = analysis.inclusion_probabilities(weights, size)
        np.testing.assert_allclose(
            inclusion, exact_inclusion(weights, size), rtol=1e-12
        )


def test_inclusion_survives_a_gap_of_hundreds_of_orders():
    weights = np.array([1.0, 1.0, 1e-300, 1e-150])
    for size in (1, 2, 3, 4):
        inclusion = analysis.inclusion_probabilities(weights, size)
        np.testing.assert_allclose(
            inclusion, exact_inclusion(weights, size), rtol=1e-11
        )


def test_scale_of_the_weights_is_free(rng):
    weights = rng.uniform(size=30)
    law = analysis.minimum_separation_stationary(weights, 6, 2)
    scaled = analysis.minimum_separation_stationary(1e200 * weights, 6, 2)
    np.testing.assert_allclose(law, scaled, rtol=1e-12)


def test_curve_of_five_hundred_clients(rng):
    """Every separation of the reference's Figure 1: the distance to uniform falls throughout."""
    weights = rng.uniform(size=500)
    started = time.perf_counter()
    curve = analysis.minimum_separation_curve(weights)
    assert time.perf_counter() - started < 5.0
    assert curve.shape == (500, 500)
    np.testing.assert_allclose(curve.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(curve[0], weights / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(curve[-1], 1 / 500, rtol=1e-14)
    assert np.all(np.diff(np.abs(curve - 1 / 500).sum(axis=1)) < 0)
    # The classical recursion in the sample size, sound for the first few sizes.
    inclusion = np.zeros(500)
    for size in range(1, 60):
        odds = weights * (1.0 - inclusion)
        inclusion = size * odds / odds.sum()
        np.testing.assert_allclose(curve[size - 1], inclusion / size, rtol=1e-10)


def test_curve_rows_are_the_single_laws(rng):
    weights = rng.uniform(size=11)
    curve = analysis.minimum_separation_curve(weights, 3)
    assert curve.shape == (3, 11)
    for separation in range(3):
        law = analysis.minimum_separation_stationary(weights, separation, 3)
        np.testing.assert_array_equal(curve[separation], law)


def test_law_of_ten_thousand_clients(rng):
    weights = rng.pareto(1.5, size=10_000) + 1e-6
    started = time.perf_counter()
    law = analysis.minimum_separation_stationary(weights, 499, 10)
    assert time.perf_counter() - started < 10.0
    np.testing.assert_allclose(law.sum(), 1.0, rtol=1e-11)
    order = np.argsort(weights)
    assert np.all(np.diff(law[order]) >= -1e-17)


def test_equal_weights_give_the_uniform_law():
    for separation in range(4):
        law = analysis.minimum_separation_stationary(np.full(12, 0.2), separation, 3)
        np.testing.assert_allclose(law, 1 / 12, rtol=1e-13)


def test_debiasing_weights():
    nu = analysis.debiasing_weights((0.3, 0.3, 0.4))
    np.testing.assert_allclose(nu, (10 / 9, 10 / 9, 5 / 6), rtol=1e-14)


ERRORS = [
    (
        lambda: analysis.minimum_separation_stationary([1.0, 0.0], 0),
        '`weights` must be positive, got 0.0 at client 1.',
    ),
    (
        lambda: analysis.minimum_separation_stationary([1.0, 2.0, 3.0], 1, 2),
        '`separation` must leave `cohort_size` 2 of 3 clients selectable, got 1.',
    ),
    (
        lambda: analysis.minimum_separation_stationary([1.0, 2.0], -1),
        '`separation` must be an integer of at least 0, got -1.',
    ),
    (
        lambda: analysis.minimum_separation_stationary([1.0, 2.0], 0, True),
        '`cohort_size` must be an integer of at least 1, got True.',
    ),
    (
        lambda: analysis.minimum_separation_curve([1.0, 2.0], 3),
        '`cohort_size` must be at most 2, got 3.',
    ),
    (
        lambda: analysis.inclusion_probabilities([1.0, 2.0], 3),
        '`sample_size` must be at most 2, got 3.',
    ),
    (
        lambda: analysis.debiasing_weights([0.5, 0.4]),
        '`selection_law` must sum to 1, got 0.9.',
    ),
    (
        lambda: analysis.debiasing_weights([1.0, 0.0]),
        '`selection_law` must be positive, got 0.0 at client 1.',
    ),
]


@pytest.mark.parametrize('call, message', ERRORS)
def test_errors(call, message):
    with refuses(message):
        call()
