"""FedPBC's journal theory: rationals, and bounds against exact moments of 1,000 quadratics."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import xiang2024
from tests.analysis.theorems import exact_moments

COUNT = 1000
FIGURE_3 = [0.1] * 50 + [0.9] * 50


@pytest.fixture(scope='module')
def cases():
    """Problems with L >= 1, and the rates that the theorem covers."""
    rng = np.random.default_rng(7)
    result = exact_moments.Problems(rng, COUNT, 3, curvature=(1.0, 4.0))
    rho = result.mixing_rates()
    steps = rng.integers(1, 5, size=COUNT)
    shares = rng.uniform(0.1, 1, size=COUNT)
    rates = np.array(
        [
            share
            * xiang2024.step_size_cap(
                smoothness=result.smoothness[k],
                local_steps=int(steps[k]),
                mixing_rate=rho[k],
                slope=result.slope[k],
            )
            for k, share in enumerate(shares)
        ]
    )
    gradients = np.zeros(COUNT)
    consensus = np.zeros(COUNT)
    for count in set(steps):
        result_at_count = result.run(rates, count, 30)
        gradients = np.where(steps == count, result_at_count[0], gradients)
        consensus = np.where(steps == count, result_at_count[1], consensus)
    return result, rho, steps, rates, gradients, consensus


def test_cap_of_the_papers_figure_3():
    """The figure uses 1e-4; the theorem covers rates up to 2.3e-10."""
    rho = analysis.mixing_rate(FIGURE_3)
    cap = xiang2024.step_size_cap(smoothness=1.0, local_steps=100, mixing_rate=rho)
    assert f'{cap:.2g}' == '2.3e-10'


def test_cap_of_rare_links_and_five_steps():
    rho = analysis.mixing_rate(np.full(100, 0.02))
    known = {'smoothness': 1.0, 'local_steps': 5, 'mixing_rate': rho}
    assert f'{xiang2024.step_size_limit(0.1, **known):.2g}' == '1.9e-07'
    assert f'{xiang2024.step_size_cap(**known):.2g}' == '2.1e-07'


def test_limit_equals_exact_rationals():
    limit = xiang2024.step_size_limit(
        0.1, smoothness=3.0, local_steps=2, mixing_rate=0.25, slope=0.5
    )
    exact = Fraction(1, 2) / (108 * 9 * 8 * Fraction(5, 4) * (1 + 9))
    np.testing.assert_allclose(limit, float(exact), rtol=1e-13)


def test_bound_equals_exact_rationals():
    bound = xiang2024.theorem1_bound(
        0.001,
        num_rounds=50,
        local_steps=2,
        smoothness=3.0,
        mixing_rate=0.25,
        initial_gap=2.0,
        offset=1.0,
        noise=2.0,
    )
    exact = Fraction(12) / Fraction(1, 10) + 54 * Fraction(6, 1000) * (9 + 1 + 2) * 5
    np.testing.assert_allclose(bound, float(exact), rtol=1e-12)
    corollary = xiang2024.corollary1_bound(
        400,
        local_steps=1,
        smoothness=1.0,
        mixing_rate=0.25,
        initial_gap=2.0,
        offset=1.0,
    )
    np.testing.assert_allclose(corollary, 12 / 20 + 54 / 20 * 3, rtol=1e-12)


def test_descent_bound_holds_on_random_quadratics(cases):
    result, _, steps, rates, _, _ = cases
    rng = np.random.default_rng(8)
    models = rng.normal(size=(COUNT, 3)) * 2
    second = models[:, :, None] * models[:, None, :]
    bar = models.mean(axis=1)
    change = np.zeros(COUNT)
    for count in set(steps):
        moved, later = result.local_steps(models, second, rates, count)
        value = result.value(moved.mean(axis=1), later.mean(axis=(1, 2)))
        change = np.where(steps == count, value - result.value(bar, bar**2), change)
    for k in range(COUNT):
        bound = xiang2024.descent_bound(
            rates[k],
            smoothness=result.smoothness[k],
            local_steps=int(steps[k]),
            gradient_square=result.gradient_square(bar, bar**2)[k],
            consensus_error=models[k].var(),
            offset=result.offset[k],
            noise=result.noise[k],
        )
        assert change[k] <= bound + 1e-12, k


def test_consensus_bound_holds_on_random_quadratics(cases):
    result, rho, steps, rates, gradients, consensus = cases
    for k in range(COUNT):
        bound = xiang2024.consensus_bound(
            rates[k],
            local_steps=int(steps[k]),
            mixing_rate=rho[k],
            mean_gradient_square=gradients[k],
            slope=result.slope[k],
            offset=result.offset[k],
            noise=result.noise[k],
        )
        assert consensus[k] <= bound + 1e-15, k


def test_theorem_1_holds_on_random_quadratics(cases):
    result, rho, steps, rates, gradients, _ = cases
    for k in range(COUNT):
        bound = xiang2024.theorem1_bound(
            rates[k],
            num_rounds=30,
            local_steps=int(steps[k]),
            smoothness=result.smoothness[k],
            mixing_rate=rho[k],
            initial_gap=result.gap()[k],
            offset=result.offset[k],
            noise=result.noise[k],
        )
        assert gradients[k] <= bound * (1 + 1e-12), k


def test_bound_is_infinite_where_nothing_mixes():
    known = {'num_rounds': 9, 'local_steps': 1, 'smoothness': 1.0, 'initial_gap': 1.0}
    assert (
        xiang2024.theorem1_bound(0.1, mixing_rate=1.0, noise=1.0, **known) == math.inf
    )
    assert (
        xiang2024.step_size_cap(smoothness=1.0, local_steps=1, mixing_rate=1.0) == 0.0
    )
