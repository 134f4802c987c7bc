"""Weighted FedAvg on linear models under links with memory: a closed form, and runs."""

import numpy as np
import pytest

from fedjax_links import analysis
from tests.refusals import refuses

UP = np.array([0.1, 0.2, 0.1, 0.3])
PROBS = np.array([0.3, 0.8, 0.5, 0.4])
DOWN = UP * (1 - PROBS) / PROBS
CLIENTS = np.repeat(np.arange(4), 10)


@pytest.mark.parametrize('name', ['fedavg_all', 'fedavg_known'])
def test_equal_curvature_has_the_law_of_quadratics(name, rng):
    """Least squares of an intercept, whose curvature is two, with one local step."""
    labels = rng.normal(size=40)
    targets = labels.reshape(4, 10).mean(axis=1)
    chain = analysis.link_chains.markov(PROBS, up_rate=UP)
    law = analysis.first_order_mean(name, chain, targets, 0.02, 1)
    model = analysis.weighted_finite_steps(
        np.zeros((40, 1)),
        labels,
        CLIENTS,
        up_rate=UP,
        down_rate=DOWN,
        multipliers=np.ones(4) if name == 'fedavg_all' else 1 / PROBS,
        learning_rate=0.01,
        local_steps=1,
        loss='least_squares',
    )
    np.testing.assert_allclose(model.intercept, law.mean, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.statistical
def test_memory_moves_logistic_models_as_simulated(rng):
    """Two coefficients, two local steps, unequal Hessians; 400 runs of 6,000 rounds.

    z-test at a false alarm of 1e-6 for both coefficients. A fifth of the shift is left for terms of
    second order. The shift's own z-score is above 12.
    """
    rate = 0.1
    features = rng.normal(size=(40, 1)) * np.repeat([0.3, 1.0, 2.0, 0.6], 10)[:, None]
    labels = (rng.random(40) < np.repeat([0.1, 0.8, 0.4, 0.7], 10)).astype(int)
    options = {'multipliers': 1 / PROBS, 'learning_rate': rate, 'local_steps': 2}
    arguments = (features, labels, CLIENTS)
    model = analysis.weighted_finite_steps(
        *arguments, up_rate=UP, down_rate=DOWN, loss='logistic', **options
    )
    forgetful = analysis.weighted_finite_steps(
        *arguments, up_rate=PROBS, down_rate=1 - PROBS, loss='logistic', **options
    )
    expected = np.append(*model)
    design = np.column_stack([features, np.ones(40)]).reshape(4, 10, 2)
    classes = labels.reshape(4, 10)
    at = np.tile(expected, (400, 1))
    total = np.zeros_like(at)
    up = rng.random((400, 4)) < PROBS
    for _ in range(6000):
        local = np.repeat(at[:, None], 4, axis=1)
        for _ in range(2):
            scores = np.einsum('rnk,nek->rne', local, design)
            residuals = 1 / (1 + np.exp(-scores)) - classes
            local = local - rate * np.einsum('rne,nek->rnk', residuals, design) / 10
        uniforms = rng.random(up.shape)
        up = np.where(up, uniforms >= DOWN, uniforms < UP)
        steps = (up / PROBS)[:, :, None] * (local - at[:, None])
        at = at + steps.sum(axis=1) / 4
        total += at
    means = total / 6000
    error = means.std(axis=0, ddof=1) / np.sqrt(400)
    shift = np.append(*model) - np.append(*forgetful)
    assert np.abs(shift / error).max() > 12
    second_order = 0.2 * np.abs(shift).max()
    off = np.abs(means.mean(axis=0) - expected)
    assert (off < 5.0 * error + second_order).all()


def test_values_out_of_range_are_refused():
    arguments = (np.zeros((40, 1)), CLIENTS % 2, CLIENTS)
    rates = {'up_rate': UP, 'down_rate': DOWN, 'multipliers': np.ones(4)}
    with refuses('`learning_rate` must be positive and finite, got 0.0.'):
        analysis.weighted_finite_steps(
            *arguments, **rates, learning_rate=0.0, local_steps=1
        )
    rates['multipliers'] = np.array([1.0, 1.0, 0.0, 1.0])
    with refuses('`multipliers` must be positive, got 0.0 at client 2.'):
        analysis.weighted_finite_steps(
            *arguments, **rates, learning_rate=0.1, local_steps=1
        )
