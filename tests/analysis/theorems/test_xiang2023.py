"""FedPBC's conference theory: rationals, and bounds against exact moments of 1,000 quadratics."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import local_drift, xiang2023, xiang2024
from tests.analysis.theorems import exact_moments

COUNT = 1000


def problems(seed, **options):
    rng = np.random.default_rng(seed)
    result = exact_moments.Problems(rng, COUNT, 3, **options)
    return rng, result, rng.integers(1, 7, size=COUNT)


def test_caps_equal_exact_rationals_at_one_step():
    """One step has kappa = 0 and C = 2 L; rho is a square, so its root is rational."""
    caps = xiang2023.step_size_caps(
        0.1, smoothness=2.0, local_steps=1, mixing_rate=0.25, slope=0.5
    )
    weight = Fraction(5, 4)
    reach = 4 * Fraction(1, 4) / Fraction(1, 4)
    first = 24 * weight * 4 * (1 + 18 * reach) + 144 * weight * reach
    np.testing.assert_allclose(caps[0], float(1 / first), rtol=1e-13)
    assert caps[1] == 0.5
    assert caps[2] == math.inf
    assert caps[3] == 4.0
    np.testing.assert_allclose(caps[4], 0.5 / (6 * 2**0.5 * 0.25 * 2), rtol=1e-13)


def test_caps_of_perfect_mixing_have_no_gossip_limit():
    caps = xiang2023.step_size_caps(0.1, smoothness=1.0, local_steps=4, mixing_rate=0.0)
    assert caps[3] == caps[4] == math.inf


def test_largest_rate_satisfies_its_own_condition():
    known = {'smoothness': 1.5, 'local_steps': 7, 'mixing_rate': 0.3, 'slope': 0.2}
    cap = xiang2023.step_size_cap(**known)
    assert 0 < cap <= xiang2023.step_size_caps(cap, **known).min()
    above = cap * (1 + 1e-9)
    assert above > xiang2023.step_size_caps(above, **known).min()
    stuck = xiang2023.step_size_cap(smoothness=1.0, local_steps=2, mixing_rate=1.0)
    assert stuck == 0.0


def test_caps_do_not_imply_the_limit_of_lemma_5():
    """With sqrt(rho) = 1/100 the cap is 1/(2 s), and the limit lies below it."""
    cap = xiang2023.step_size_cap(smoothness=0.25, local_steps=100, mixing_rate=1e-4)
    limit_over_root_of_two = Fraction(99, 100) / (12 * Fraction(1, 100) * 2500)
    assert cap == 0.5 / 100
    assert float(limit_over_root_of_two) * math.sqrt(2.0) < cap


def test_theorem_does_not_cover_figure_2_of_the_paper():
    rho = analysis.mixing_rate([0.1] * 50 + [0.9] * 50)
    assert round(rho, 4) == 0.9018
    caps = xiang2023.step_size_caps(
        3e-4, smoothness=1.0, local_steps=30, mixing_rate=rho
    )
    assert 7.2e-6 < caps[1:].min() < 7.4e-6 < 3e-4
    assert caps.min() < 2e-9


def test_descent_bound_holds_on_random_quadratics():
    rng, result, steps = problems(4, curvature=(0.2, 4.0))
    rate = 0.5 / steps * rng.uniform(0.01, 1, size=COUNT)
    models = rng.normal(size=(COUNT, 3)) * 2
    second = models[:, :, None] * models[:, None, :]
    bar = models.mean(axis=1)
    after_bar = np.zeros(COUNT)
    after_square = np.zeros(COUNT)
    for k in set(steps):
        moved, later = result.local_steps(models, second, rate, k)
        after_bar = np.where(steps == k, moved.mean(axis=1), after_bar)
        after_square = np.where(steps == k, later.mean(axis=(1, 2)), after_square)
    change = result.value(after_bar, after_square) - result.value(bar, bar**2)
    gradients = result.gradient_square(bar, bar**2)
    for k in range(COUNT):
        bound = xiang2023.descent_bound(
            rate[k],
            smoothness=result.smoothness[k],
            local_steps=int(steps[k]),
            num_clients=3,
            gradient_square=gradients[k],
            consensus_error=models[k].var(),
            slope=result.slope[k],
            offset=result.offset[k],
            noise=result.noise[k],
        )
        assert change[k] <= bound + 1e-12, k


def test_consensus_bound_holds_on_random_quadratics():
    _, result, _ = problems(5, curvature=(0.2, 4.0))
    rho = result.mixing_rates()
    for steps in (1, 2, 5):
        rate = np.zeros(COUNT)
        for k in range(COUNT):
            caps = xiang2023.step_size_caps(
                0.0,
                smoothness=result.smoothness[k],
                local_steps=steps,
                mixing_rate=rho[k],
            )
            gossip = (1 - rho[k] ** 0.5) / (
                6 * (2 * rho[k]) ** 0.5 * result.smoothness[k] * steps**2
            )
            # A third leaves room for kappa, which is below 3 there.
            rate[k] = min(caps[1], caps[2] / 3, gossip)
            kappa = local_drift.local_drift_factor(rate[k], result.smoothness[k], steps)
            assert kappa <= 3
        gradients, consensus = result.run(rate, steps, 30)
        for k in range(COUNT):
            bound = xiang2023.consensus_bound(
                rate[k],
                local_steps=steps,
                mixing_rate=rho[k],
                mean_gradient_square=gradients[k],
                slope=result.slope[k],
                offset=result.offset[k],
                noise=result.noise[k],
            )
            assert consensus[k] <= bound + 1e-12, (steps, k)


def test_theorem_1_holds_on_random_quadratics_of_one_curvature():
    """There xbar follows one linear recursion, so T of any size has a closed form."""
    _, result, steps = problems(6, curvature=(0.2, 4.0), equal=True)
    rho = result.mixing_rates()
    gap = result.gap()
    for k in range(COUNT):
        known = {
            'smoothness': result.smoothness[k],
            'local_steps': int(steps[k]),
            'mixing_rate': rho[k],
        }
        cap = xiang2023.step_size_cap(**known)
        rounds = math.ceil(3 * (1 + 1e-9) / (steps[k] * cap**2))
        rate = xiang2023.theorem1_learning_rate(
            rounds, num_clients=3, local_steps=int(steps[k])
        )
        assert rate <= cap
        curvature = result.mean_curve[k]
        pull = -math.expm1(steps[k] * math.log1p(-rate * curvature))
        remaining = 1 - pull
        decay = -math.expm1(2 * rounds * math.log1p(-pull)) / (
            rounds * pull * (1 + remaining)
        )
        noise = (pull / curvature * result.noise[k]) ** 2 / 3
        floor = noise / (pull * (1 + remaining))
        distance = (result.start[k] - result.minimiser[k]) ** 2
        exact = curvature**2 * (decay * distance + floor * (1 - decay))
        terms = xiang2023.theorem1_terms(
            rounds,
            num_clients=3,
            initial_gap=gap[k],
            offset=result.offset[k],
            noise=result.noise[k],
            **known,
        )
        assert exact <= terms.total * (1 + 1e-9), k


def test_theorem_1_terms_equal_exact_rationals():
    """T = 400, m = 4, s = 1: the rate is 0.1 and every root is rational."""
    terms = xiang2023.theorem1_terms(
        400,
        num_clients=4,
        local_steps=1,
        smoothness=2.0,
        mixing_rate=0.25,
        initial_gap=3.0,
        offset=0.5,
        noise=2.0,
    )
    constant = 4
    reach = Fraction(4) / Fraction(1, 4)
    moved = Fraction(1, 10)
    exact = (
        Fraction(8 * 3, 40),
        16 * 2 * Fraction(1, 40) * 4,
        (24 * moved * (constant + 24 * reach) + moved**2 * 1728 * constant * reach) / 4,
        moved**2 * 144 * Fraction(1, 4) * reach * (1 + 3 * constant) * 4,
    )
    np.testing.assert_allclose(terms, [float(x) for x in exact], rtol=1e-12)
    np.testing.assert_allclose(terms.total, float(sum(exact)), rtol=1e-12)


def test_terms_without_noise_stay_finite_where_nothing_mixes():
    terms = xiang2023.theorem1_terms(
        100,
        num_clients=1,
        local_steps=1,
        smoothness=1.0,
        mixing_rate=1.0,
        initial_gap=1.0,
    )
    assert terms.total == 0.8


@pytest.mark.parametrize(
    'bound',
    [
        lambda steps, rounds: xiang2023.step_size_caps(
            1e-6, smoothness=1.0, local_steps=steps, mixing_rate=0.9
        ),
        lambda steps, rounds: xiang2024.step_size_limit(
            1e-6, smoothness=1.0, local_steps=steps, mixing_rate=0.9
        ),
        lambda steps, rounds: xiang2023.consensus_bound(
            1e-6, local_steps=steps, mixing_rate=0.9, mean_gradient_square=1.0
        ),
        lambda steps, rounds: xiang2023.theorem1_terms(
            rounds,
            num_clients=steps,
            local_steps=steps,
            smoothness=1.0,
            mixing_rate=0.5,
            initial_gap=1.0,
            offset=1.0,
        ),
    ],
)
def test_counts_whose_products_overflow_give_the_same_bound(bound):
    narrow = bound(np.int32(50_000), np.int32(10**6))
    np.testing.assert_array_equal(narrow, bound(50_000, 10**6))
