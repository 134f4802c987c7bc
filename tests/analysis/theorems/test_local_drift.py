"""The drift factor kappa against exact rationals and its bound; its lemma on quadratics."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedjax_links.analysis.theorems import local_drift, xiang2023, xiang2024
from tests.refusals import refuses


def exact_factor(step, steps):
    """kappa: ``(1 + x)^s - 1 - s x`` over its lowest term, with x the rate times smoothness."""
    lowest_term = Fraction(steps * (steps - 1), 2) * step**2
    return ((1 + step) ** steps - 1 - steps * step) / lowest_term


@pytest.mark.parametrize('steps', [2, 3, 5, 30, 100])
@pytest.mark.parametrize('step', ['1e-9', '1e-4', '0.01', '0.3', '2'])
def test_factor_equals_exact_rationals(step, steps):
    exact = float(exact_factor(Fraction(step), steps))
    np.testing.assert_allclose(
        local_drift.local_drift_factor(float(step), 1.0, steps), exact, rtol=1e-12
    )
    np.testing.assert_allclose(
        local_drift.local_drift_factor(0.5 * float(step), 2.0, steps), exact, rtol=1e-12
    )


def test_factor_is_zero_for_one_step_and_one_for_two():
    assert local_drift.local_drift_factor(0.3, 2.0, 1) == 0.0
    assert local_drift.local_drift_factor(0.3, 2.0, 2) == 1.0
    assert local_drift.local_drift_factor(0.0, 2.0, 7) == 1.0


def test_factor_grows_with_the_rate_up_to_its_bound():
    for steps in (2, 5, 100):
        for budget in (0.01, 0.5, 3.0):
            rates = np.linspace(0, budget / (steps * 2.0), 9)
            factors = [local_drift.local_drift_factor(r, 2.0, steps) for r in rates]
            assert np.all(np.diff(factors) >= 0)
            assert 1 <= factors[-1] <= local_drift.local_drift_factor_bound(budget)


@pytest.mark.parametrize('budget', [0.1, 1.0, 5.0, 20.0])
def test_bound_equals_the_printed_form(budget):
    printed = (math.exp(budget) - 1 - budget) / (budget**2 / 2)
    np.testing.assert_allclose(
        local_drift.local_drift_factor_bound(budget), printed, rtol=1e-12
    )


def test_drift_constant_at_one_step_is_twice_the_smoothness():
    assert local_drift.drift_constant(0.1, 3.0, 1) == 6.0
    np.testing.assert_allclose(
        local_drift.drift_constant(0.1, 3.0, 2), 9 + 6 * (1 + 9 / 4), rtol=1e-14
    )


def test_local_steps_of_quadratics_stay_within_the_lemma():
    rng = np.random.default_rng(0)
    for _ in range(1000):
        curve = rng.uniform(0.1, 5)
        distance = rng.normal()
        steps = int(rng.integers(1, 20))
        rate = rng.uniform(0, 0.3)
        gradients = [curve * (1 - rate * curve) ** k * distance for k in range(steps)]
        left = abs(sum(g - gradients[0] for g in gradients))
        factor = local_drift.local_drift_factor(rate, curve, steps)
        right = factor * rate * math.comb(steps, 2) * curve * abs(gradients[0])
        assert left <= right * (1 + 1e-9) + 1e-15


def test_arguments_are_checked():
    with refuses('`smoothness` must be positive and finite, got 0.0.'):
        local_drift.local_drift_factor(0.1, 0.0, 3)
    with refuses('`local_steps` must be an integer of at least 1, got 0.'):
        local_drift.local_drift_factor(0.1, 1.0, 0)
    with refuses('`learning_rate` must be at least 0, got -1.0.'):
        local_drift.local_drift_factor(-1.0, 1.0, 2)


WORK = {'local_steps': 100, 'smoothness': 50.0}
BOUNDS = {
    'conference theorem': lambda: (
        xiang2023.theorem1_terms(
            100,
            num_clients=10_000,
            mixing_rate=0.9,
            initial_gap=1.0,
            offset=1.0,
            **WORK,
        ).total
    ),
    'journal theorem': lambda: xiang2024.theorem1_bound(
        1.0, num_rounds=100, mixing_rate=0.9, initial_gap=1.0, offset=1.0, **WORK
    ),
    'conference descent': lambda: xiang2023.descent_bound(
        1.0, num_clients=2, gradient_square=1.0, consensus_error=1.0, **WORK
    ),
    'journal descent': lambda: xiang2024.descent_bound(
        1.0, gradient_square=1.0, consensus_error=1.0, **WORK
    ),
}


@pytest.mark.parametrize('bound', BOUNDS)
def test_bounds_beyond_floats_are_infinite(bound):
    """The square of kappa L has 334 digits here."""
    assert exact_factor(Fraction(50), 100) ** 2 > Fraction(10) ** 308
    assert BOUNDS[bound]() == math.inf


def test_no_rate_beyond_floats_is_covered():
    for paper in (xiang2023.step_size_caps, xiang2024.step_size_limit):
        assert np.min(paper(1.0, mixing_rate=0.9, **WORK)) == 0.0


def test_links_that_are_never_lost_cost_nothing_beyond_floats():
    terms = xiang2023.theorem1_terms(
        100, num_clients=10_000, mixing_rate=0.0, initial_gap=1.0, noise=1.0, **WORK
    )
    assert terms.intermittent_participation == 0.0
    assert terms.total == math.inf
