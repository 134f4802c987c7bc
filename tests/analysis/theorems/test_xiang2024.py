"""FedPBC's journal theory: rationals, and bounds against exact moments of 1,000 quadratics."""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import xiang2024
from tests.analysis.theorems import exact_moments

COUNT = 1000
FIGURE_3 = [0.1] * 50 + [0.9] * 50


class Runs(NamedTuple):
    """Runs of 30 rounds that the theorem covers, B = `COUNT` at a time.

    Attributes:
      problems: B problems with L >= 1.
      mixing_rates: float[B].
      steps: int[B], numbers of local steps.
      rates: float[B], at most the theorem's cap.
      gradients: float[B], the mean over rounds of the squared gradient norm.
      consensus: float[B], the mean over rounds of the consensus error.
    """

    problems: exact_moments.Problems
    mixing_rates: np.ndarray
    steps: np.ndarray
    rates: np.ndarray
    gradients: np.ndarray
    consensus: np.ndarray


@pytest.fixture(scope='module')
def covered_runs():
    """The runs, by exact moments."""
    rng = np.random.default_rng(7)
    problems = exact_moments.Problems(rng, COUNT, 3, curvature=(1.0, 4.0))
    rho = problems.mixing_rates()
    steps = rng.integers(1, 5, size=COUNT)
    rates = rng.uniform(0.1, 1, size=COUNT)
    for k in range(COUNT):
        rates[k] *= xiang2024.step_size_cap(
            smoothness=problems.smoothness[k],
            local_steps=int(steps[k]),
            mixing_rate=rho[k],
            slope=problems.slope[k],
        )
    gradients = np.zeros(COUNT)
    consensus = np.zeros(COUNT)
    for count in set(steps):
        squares, errors = problems.run(rates, count, 30)
        gradients = np.where(steps == count, squares, gradients)
        consensus = np.where(steps == count, errors, consensus)
    return Runs(problems, rho, steps, rates, gradients, consensus)


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


@pytest.mark.parametrize('wrong', ['learning_rate', 'gap'])
def test_a_wrong_name_is_reported_of_the_corollary(wrong):
    known = {'local_steps': 1, 'smoothness': 1.0, 'mixing_rate': 0.25}
    with pytest.raises(TypeError, match=f"corollary1_bound.*'{wrong}'"):
        xiang2024.corollary1_bound(9, initial_gap=1.0, **known, **{wrong: 0.1})


def test_descent_bound_holds_on_random_quadratics(covered_runs):
    problems = covered_runs.problems
    steps = covered_runs.steps
    rng = np.random.default_rng(8)
    models = rng.normal(size=(COUNT, 3)) * 2
    second = models[:, :, None] * models[:, None, :]
    bar = models.mean(axis=1)
    gradients = problems.gradient_square(bar, bar**2)
    change = np.zeros(COUNT)
    for count in set(steps):
        moved, later = problems.local_steps(models, second, covered_runs.rates, count)
        value = problems.value(moved.mean(axis=1), later.mean(axis=(1, 2)))
        change = np.where(steps == count, value - problems.value(bar, bar**2), change)
    for k in range(COUNT):
        bound = xiang2024.descent_bound(
            covered_runs.rates[k],
            smoothness=problems.smoothness[k],
            local_steps=int(steps[k]),
            gradient_square=gradients[k],
            consensus_error=models[k].var(),
            offset=problems.offset[k],
            noise=problems.noise[k],
        )
        assert change[k] <= bound + 1e-12, k


def test_consensus_bound_holds_on_random_quadratics(covered_runs):
    problems = covered_runs.problems
    for k in range(COUNT):
        bound = xiang2024.consensus_bound(
            covered_runs.rates[k],
            local_steps=int(covered_runs.steps[k]),
            mixing_rate=covered_runs.mixing_rates[k],
            mean_gradient_square=covered_runs.gradients[k],
            slope=problems.slope[k],
            offset=problems.offset[k],
            noise=problems.noise[k],
        )
        assert covered_runs.consensus[k] <= bound + 1e-15, k


def test_theorem_1_holds_on_random_quadratics(covered_runs):
    problems = covered_runs.problems
    gap = problems.gap()
    for k in range(COUNT):
        bound = xiang2024.theorem1_bound(
            covered_runs.rates[k],
            num_rounds=30,
            local_steps=int(covered_runs.steps[k]),
            smoothness=problems.smoothness[k],
            mixing_rate=covered_runs.mixing_rates[k],
            initial_gap=gap[k],
            offset=problems.offset[k],
            noise=problems.noise[k],
        )
        assert covered_runs.gradients[k] <= bound * (1 + 1e-12), k


def test_bound_is_infinite_where_nothing_mixes():
    known = {'num_rounds': 9, 'local_steps': 1, 'smoothness': 1.0, 'initial_gap': 1.0}
    assert (
        xiang2024.theorem1_bound(0.1, mixing_rate=1.0, noise=1.0, **known) == math.inf
    )
    assert (
        xiang2024.step_size_cap(smoothness=1.0, local_steps=1, mixing_rate=1.0) == 0.0
    )
