"""Amplified FedAvg's theory: rationals, and bounds against exact moments of 1,000 quadratics."""

from fractions import Fraction

import numpy as np
import pytest

from fedjax_links.analysis.theorems import wang2022
from tests import refusals

COUNT = 1000
ROUNDS = 24
CLIENTS = 4


class Cases:
    """Random scalar quadratics ``h / 2 (x - u_i)^2``, one curvature for the clients of a case.

    Rates are as large as the theorem covers, or smaller. With weights q_i^t and
    ``d_i = h (x* - u_i)``, the constants in the letters of the paper are

      beta: max_t (sum_i q_i^t d_i)^2, the round deviation,
      nu: max_t sum_i q_i^t (d_i - sum_j q_j^t d_j)^2, the round divergence,
      rho: max_t sum_i (q_i^t)^2, the largest weight square,
      delta: the largest square of a mean of sum_i q_i^t d_i over a block of P rounds.
    """

    def __init__(self, seed):
        """Draws ``COUNT`` cases of ``ROUNDS`` rounds; all attributes have the cases first."""
        rng = np.random.default_rng(seed)
        self.curve = rng.uniform(0.2, 5, size=COUNT)
        self.targets = rng.normal(size=(COUNT, CLIENTS))
        self.start = rng.normal(size=COUNT) * 3
        self.noise = rng.choice([0.0, 1.0, 3.0], size=COUNT)
        self.steps = rng.integers(1, 5, size=COUNT)
        self.period = rng.choice([1, 2, 3, 4, 6, 12], size=COUNT)
        masks = rng.uniform(size=(COUNT, ROUNDS, CLIENTS)) < 0.4
        sure = rng.integers(CLIENTS, size=(COUNT, ROUNDS, 1))
        np.put_along_axis(masks, sure, True, axis=2)
        self.weights = masks / masks.sum(axis=2, keepdims=True)
        work = self.curve * self.steps * self.period
        # Theorem 3.1 covers gamma <= 1 / (12 L I P) and gamma eta <= 1 / (L I P).
        self.gamma = rng.uniform(0.05, 1, size=COUNT) / (12 * work)
        self.eta = rng.uniform(0.2, 1, size=COUNT) / (work * self.gamma)
        self.best = self.targets.mean(axis=1)
        self.differences = self.curve[:, None] * (self.best[:, None] - self.targets)
        by_round = np.einsum('btn,bn->bt', self.weights, self.differences)
        spread = np.einsum('btn,bn->bt', self.weights, self.differences**2)
        self.beta = (by_round**2).max(axis=1)
        self.nu = (spread - by_round**2).max(axis=1)
        self.rho = (self.weights**2).sum(axis=2).max(axis=1)
        self.delta = np.array(
            [
                (by_round[k].reshape(-1, p).mean(axis=1) ** 2).max()
                for k, p in enumerate(self.period)
            ]
        )

    def step_factors(self, k):
        """What I local steps leave of a distance, and the noise variance of one client."""
        contraction = 1 - self.gamma[k] * self.curve[k]
        powers = contraction ** (2 * np.arange(self.steps[k]))
        variance = (self.gamma[k] * self.noise[k]) ** 2 * powers.sum()
        return contraction ** self.steps[k], variance


def run(case, k):
    """Exact E||grad f||^2 at the starts of blocks, by the recursion of mean and variance."""
    remaining, fresh = case.step_factors(k)
    mean = case.start[k]
    variance = 0.0
    eta = case.eta[k]
    squares = []
    for t0 in range(0, ROUNDS, case.period[k]):
        squares.append(case.curve[k] ** 2 * ((mean - case.best[k]) ** 2 + variance))
        inner = mean
        noise = 0.0
        for t in range(t0, t0 + case.period[k]):
            weights = case.weights[k, t]
            inner = remaining * inner + (1 - remaining) * weights @ case.targets[k]
            noise = remaining**2 * noise + fresh * np.sum(weights**2)
        mean = mean + eta * (inner - mean)
        carried = 1 - eta + eta * remaining ** case.period[k]
        variance = carried**2 * variance + eta**2 * noise
    return np.mean(squares)


@pytest.fixture(scope='module')
def cases():
    return Cases(9)


def test_theorem_31_holds_on_random_quadratics(cases):
    for k in range(COUNT):
        gap = 0.5 * cases.curve[k] * (cases.start[k] - cases.best[k]) ** 2
        terms = wang2022.theorem31_terms(
            cases.gamma[k],
            cases.eta[k],
            num_rounds=ROUNDS,
            local_steps=int(cases.steps[k]),
            period=int(cases.period[k]),
            smoothness=cases.curve[k],
            initial_gap=gap,
            block_deviation=cases.delta[k],
            round_deviation=cases.beta[k],
            round_divergence=cases.nu[k],
            largest_weight_square=cases.rho[k],
            noise=cases.noise[k],
        )
        assert run(cases, k) <= terms.total, k


def test_lemmas_hold_on_random_quadratics(cases):
    """Lemma C.1 and C.2 after every local step of the first block."""
    for k in range(COUNT):
        remaining, _ = cases.step_factors(k)
        contraction = 1 - cases.gamma[k] * cases.curve[k]
        model = cases.start[k]
        model_variance = 0.0
        gradient = (cases.curve[k] * (cases.start[k] - cases.best[k])) ** 2
        for t in range(cases.period[k]):
            weights = cases.weights[k, t]
            square = np.sum(weights**2)
            for i in range(1, cases.steps[k] + 1):
                factor = contraction**i
                powers = contraction ** (2 * np.arange(i))
                noise_variance = (cases.gamma[k] * cases.noise[k]) ** 2 * powers.sum()
                local = factor * model + (1 - factor) * cases.targets[k]
                mean = weights @ local
                drift = weights @ (local - mean) ** 2 + noise_variance * (1 - square)
                moved = (mean - cases.start[k]) ** 2
                moved += factor**2 * model_variance + noise_variance * square
                known = {
                    'local_steps': int(cases.steps[k]),
                    'round_divergence': cases.nu[k],
                    'weight_square': square,
                    'noise': cases.noise[k],
                }
                bound = wang2022.client_drift_bound(cases.gamma[k], **known)
                assert drift <= bound + 1e-15, (k, t, i)
                bound = wang2022.block_drift_bound(
                    cases.gamma[k],
                    period=int(cases.period[k]),
                    gradient_square=gradient,
                    round_deviation=cases.beta[k],
                    largest_weight_square=cases.rho[k],
                    **known,
                )
                assert moved <= bound + 1e-15, (k, t, i)
            model = mean
            model_variance = remaining**2 * model_variance + noise_variance * square


def test_terms_equal_exact_rationals():
    terms = wang2022.theorem31_terms(
        0.001,
        3.0,
        num_rounds=100,
        local_steps=2,
        period=5,
        smoothness=4.0,
        initial_gap=1.5,
        block_deviation=0.25,
        round_deviation=2.0,
        round_divergence=3.0,
        largest_weight_square=0.5,
        noise=2.0,
    )
    moved = Fraction(4, 1000) ** 2
    noise = 21 * moved * 2 + 18 * moved * 10 / 2 + Fraction(2 * 3 * 4, 1000) / 2
    exact = (
        Fraction(12) / Fraction(6, 10),
        126 * moved * 4 * 3,
        144 * moved * 100 * 2,
        Fraction(6, 4),
        noise * 4,
    )
    np.testing.assert_allclose(terms, [float(x) for x in exact], rtol=1e-12)
    np.testing.assert_allclose(terms.total, float(sum(exact)), rtol=1e-12)


def test_rates_equal_exact_rationals():
    known = {'smoothness': 4.0, 'local_steps': 2, 'period': 5}
    np.testing.assert_allclose(wang2022.rate_product_cap(**known), 1 / 40, rtol=1e-15)
    np.testing.assert_allclose(wang2022.local_rate_cap(**known), 1 / 480, rtol=1e-15)
    run_of = {'num_rounds': 8, 'initial_gap': 9.0, 'largest_weight_square': 0.25}
    product = wang2022.corollary33_product(smoothness=4.0, local_steps=2, **run_of)
    np.testing.assert_allclose(product, 3 / (0.5 * 8), rtol=1e-15)
    for noise in (1.0, 100.0):
        result = wang2022.corollary32_product(noise=noise, **known, **run_of)
        np.testing.assert_allclose(result, min(0.75 / noise, 1 / 40), rtol=1e-15)
    assert wang2022.corollary32_product(noise=0.0, **known, **run_of) == 1 / 40
    for argument in ('initial_gap', 'num_rounds'):
        with refusals.names(argument):
            wang2022.corollary32_product(noise=0.0, **known, **{**run_of, argument: 0})
    run_of['largest_weight_square'] = 1.5
    with refusals.names('largest_weight_square'):
        wang2022.corollary33_product(smoothness=4.0, local_steps=2, **run_of)
