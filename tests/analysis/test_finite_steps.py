"""FedAvg's first-order terms: exact solutions, and simulated means in standard errors."""

import numpy as np
import pytest

from fedjax_links import analysis
from tests.refusals import refuses

PROBS = np.array([0.2, 0.9, 0.5, 0.3])
OWNERS = np.repeat(np.arange(4), 10)


def test_local_drift_on_quadratics_is_right_to_first_order(rng):
    """Least squares: the mean obeys a linear equation, whose solution is exact at any step."""
    features = rng.normal(size=(40, 2))
    targets = rng.normal(size=40)
    weights = analysis.fedavg_weights(PROBS)
    errors = []
    for rate in (0.02, 0.01):
        system = np.zeros((3, 3))
        right = np.zeros(3)
        for i, weight in enumerate(weights):
            design = np.c_[features[i == OWNERS], np.ones(10)]
            hessian = 2 * design.T @ design / 10
            best = np.linalg.solve(hessian, 2 * design.T @ targets[i == OWNERS] / 10)
            remaining = np.linalg.matrix_power(np.eye(3) - rate * hessian, 4)
            system += weight * (np.eye(3) - remaining)
            right += weight * (np.eye(3) - remaining) @ best
        exact = np.linalg.solve(system, right)
        result = analysis.fedavg_finite_steps(
            features,
            targets,
            OWNERS,
            PROBS,
            learning_rate=rate,
            local_steps=4,
            loss='least_squares',
        )
        limit = analysis.weighted_minimiser(
            features, targets, OWNERS, weights, loss='least_squares'
        ).model
        errors.append(np.abs(np.append(*result) - exact).max())
        assert errors[-1] < 0.1 * np.abs(np.append(*limit) - exact).max()
    # An error of second order is a quarter at half the rate, up to terms of third order.
    assert 3.5 < errors[0] / errors[1] < 4.5


@pytest.mark.statistical
def test_spread_of_the_cohorts_shifts_the_mean(rng):
    """One intercept under the logistic loss, single local steps: the third derivative alone.

    z-test at a false alarm of 1e-6, over 400 independent runs. A tenth of the shift is left for
    terms of second order. The shift's own z-score is above 12.
    """
    rate = 0.8
    runs = 400
    rounds = 3000
    labels = (np.arange(40) % 10 < np.repeat([1, 9, 5, 7], 10)).astype(int)
    shares = labels.reshape(4, 10).mean(axis=1)
    arguments = (np.zeros((40, 1)), labels, OWNERS)
    result = analysis.fedavg_finite_steps(
        *arguments, PROBS, learning_rate=rate, local_steps=1, loss='logistic'
    ).intercept[0]
    share = analysis.fedavg_weights(PROBS) @ shares
    limit = np.log(share / (1 - share))
    at = np.full(runs, limit)
    total = np.zeros(runs)
    for _ in range(rounds):
        active = rng.uniform(size=(runs, 4)) < PROBS
        size = active.sum(axis=1)
        slope = 1 / (1 + np.exp(-at)) - active @ shares / np.maximum(size, 1)
        at = np.where(size > 0, at - rate * slope, at)
        total += at
    means = total / rounds
    error = means.std(ddof=1) / np.sqrt(runs)
    assert abs(limit - means.mean()) > 12 * error
    assert abs(result - means.mean()) < 4.9 * error + 0.1 * abs(result - limit)


def test_steps_out_of_range_are_refused():
    arguments = (np.zeros((40, 1)), OWNERS % 2, OWNERS, PROBS)
    with refuses('`learning_rate` must be positive and finite, got 0.0.'):
        analysis.fedavg_finite_steps(*arguments, learning_rate=0.0, local_steps=1)
    with refuses('`local_steps` must be an integer of at least 1, got 0.'):
        analysis.fedavg_finite_steps(*arguments, learning_rate=0.1, local_steps=0)
