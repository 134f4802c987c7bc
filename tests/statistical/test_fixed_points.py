"""FedAvg's bias and noise on quadratics, simulated over many seeds, against the exact theory.

Every z-score below is compared with 4.5: a standard normal exceeds it with probability 6.8e-6. The
file compares 37 of them, so that a correct engine would fail with probability 2.5e-4 in a fresh
draw of the seeds; the seeds are fixed.
"""

import functools

import jax
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    analysis,
    local_training,
    participation,
    problems,
    simulation,
)
from tests.reference.statistics import BOUND, z_scores
from tests.tiers import cases

pytestmark = pytest.mark.statistical

NUM_SEEDS = 4000
PAIR = (np.array([0.5, 0.3]), np.array([[0.0], [100.0]]))
FIVE = (
    np.array([0.05, 0.2, 0.5, 0.9, 1.0]),
    np.array([[4.0, 0.0], [-3.0, 1.0], [0.0, 7.0], [2.0, -5.0], [-1.0, -2.0]]),
)
RARE = (np.array([0.02, 0.1, 0.06]), np.array([[0.0, 10.0], [5.0, -5.0], [-8.0, 1.0]]))
SETTINGS = {
    # name: ((probs, targets), eta, s, T); after T rounds the start is forgotten.
    'pair, one small step': (PAIR, 0.1, 1, 200),
    'pair, five steps': (PAIR, 0.1, 5, 60),
    'pair, one large step': (PAIR, 0.9, 1, 30),
    'five clients': (FIVE, 0.05, 3, 120),
    'five clients, large steps': (FIVE, 0.6, 2, 30),
    'mostly empty rounds': (RARE, 0.3, 2, 400),
}


@functools.cache
def paths(name, factory='fedavg', num_rounds=None):
    """float64[seeds, T, d]: the server models of every seed after each of these rounds.

    By default the last one alone.
    """
    (probs, targets), rate, steps, rounds = SETTINGS[name]
    program = local_training.local_sgd(rate, local_steps=steps)
    algorithm = getattr(algorithms, factory)(program)
    links = participation.bernoulli(probs)

    def path(key, problem):
        return simulation.simulate(
            key,
            algorithm,
            links,
            problem,
            num_rounds=num_rounds or rounds,
            eval_every=None if num_rounds is None else 1,
            eval_fn=lambda params, key, problem: params,
        ).evals['server']

    keys = jax.vmap(jax.random.key)(np.arange(NUM_SEEDS, dtype=np.uint32))
    lanes = jax.jit(jax.vmap(path, in_axes=(0, None)))(
        keys, problems.quadratic(targets)
    )
    return np.asarray(lanes, np.float64)


def finals(name, factory='fedavg'):
    """float64[seeds, d]: the server model after the last round of every seed."""
    return paths(name, factory)[:, -1]


def variance_scores(sample, expected):
    """z-scores of the sample variance, whose standard error the fourth moment gives."""
    centred = sample - sample.mean(axis=0)
    variance = sample.var(axis=0, ddof=1)
    error = np.sqrt(((centred**4).mean(axis=0) - variance**2) / len(sample))
    return (variance - expected) / error


@pytest.mark.parametrize(
    'name',
    cases(
        SETTINGS,
        ['pair, five steps', 'five clients, large steps', 'mostly empty rounds'],
    ),
)
def test_the_mean_over_seeds_is_the_exact_fixed_point(name):
    (probs, targets), *_ = SETTINGS[name]
    expected = analysis.fedavg_fixed_point(probs, targets)
    assert np.abs(z_scores(finals(name), expected)).max() < BOUND


def test_the_two_client_example_of_the_paper():
    """``p = (.5, .3), u = (0, 100)``: 150 p2 / (1 + p2) = 34.615384615, not 50."""
    expected = 150 * 0.3 / 1.3
    np.testing.assert_allclose(expected, 34.615384615, atol=1e-9)
    for name in ('pair, one small step', 'pair, five steps', 'pair, one large step'):
        assert np.abs(z_scores(finals(name), expected)).max() < BOUND


@pytest.mark.parametrize('name', SETTINGS)
def test_the_true_optimum_is_rejected(name):
    """The test has power: the mean of the targets lies far outside the same bounds."""
    (_, targets), *_ = SETTINGS[name]
    assert np.abs(z_scores(finals(name), targets.mean(axis=0))).max() > 3 * BOUND


@pytest.mark.parametrize('name', SETTINGS)
def test_mean_and_variance_in_the_limit(name):
    (probs, targets), rate, steps, rounds = SETTINGS[name]
    moments = analysis.fedavg_mean_and_covariance(
        probs, targets, rate, steps, num_rounds=rounds
    )
    forgotten = np.abs(moments.mean[-1] - moments.limit_mean) / np.sqrt(
        moments.variance[-1]
    )
    assert forgotten.max() < 0.05 / np.sqrt(NUM_SEEDS)
    assert np.abs(variance_scores(finals(name), moments.variance[-1])).max() < BOUND
    limit = np.diagonal(moments.limit_covariance)
    np.testing.assert_allclose(moments.variance[-1], limit, rtol=1e-3)


@pytest.mark.parametrize(
    'name',
    cases(['pair, one small step', 'mostly empty rounds'], ['mostly empty rounds']),
)
@pytest.mark.parametrize('num_rounds', [3, 10])
def test_mean_and_variance_on_the_way(name, num_rounds):
    """Early rounds still remember the start, and empty ones slow the approach at random."""
    (probs, targets), rate, steps, _ = SETTINGS[name]
    moments = analysis.fedavg_mean_and_covariance(
        probs, targets, rate, steps, num_rounds=num_rounds
    )
    sample = paths(name, num_rounds=10)[:, num_rounds - 1]
    assert np.abs(z_scores(sample, moments.mean[-1])).max() < BOUND
    assert np.abs(variance_scores(sample, moments.variance[-1])).max() < BOUND
    assert np.abs(z_scores(sample, moments.limit_mean)).max() > 3 * BOUND


def test_the_covariance_between_coordinates():
    name = 'five clients'
    (probs, targets), rate, steps, rounds = SETTINGS[name]
    moments = analysis.fedavg_mean_and_covariance(
        probs, targets, rate, steps, num_rounds=rounds
    )
    centred = finals(name) - moments.limit_mean
    products = centred[:, :1] * centred[:, 1:]
    assert np.abs(z_scores(products, moments.limit_covariance[0, 1])).max() < BOUND
    assert np.abs(z_scores(products, 0.0)).max() > BOUND


def test_dividing_by_all_clients_weights_by_probability():
    """With divisor N the limit is ``sum_i p_i u_i / sum_i p_i``: another bias than FedAvg's."""
    probs, targets = FIVE
    expected = probs @ targets / probs.sum()
    sample = finals('five clients', 'fedavg_all')
    assert np.abs(z_scores(sample, expected)).max() < BOUND
    fedavg_limit = analysis.fedavg_fixed_point(probs, targets)
    assert np.abs(z_scores(sample, fedavg_limit)).max() > 3 * BOUND


def test_dividing_by_the_known_probability_removes_the_bias():
    _, targets = PAIR
    sample = finals('pair, one small step', 'fedavg_known')
    assert np.abs(z_scores(sample, targets.mean(axis=0))).max() < BOUND
