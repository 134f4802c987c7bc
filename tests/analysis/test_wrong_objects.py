"""Exact laws refuse other kinds of objects, and lengths beyond memory, by the argument's name."""

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import (
    gradient_runs,
    local_drift,
    mixing_times,
    regularity,
    selection_counters,
)
from tests import refusals

CHAIN = analysis.link_chains.independent([0.5, 0.3])
MODEL = analysis.LinearModel(np.zeros((1, 2)), np.zeros(2))
OBJECTS = {
    'vectors': lambda v: analysis.best_linear_fit(v, np.eye(2), sigma=1.0),
    'shifts': lambda v: analysis.best_linear_fit(np.eye(2), v, sigma=1.0),
    'sigma': lambda v: analysis.best_linear_fit(np.eye(2), np.eye(2), sigma=v),
    'problem of a theorem': lambda v: analysis.check_theorem('sun2025', v, None),
    'clients': lambda v: gradient_runs.fedpbc_gradient_squares(v, [[1, 0], [0, 1]]),
    'boundaries': lambda v: analysis.skewed_loss(v, [0.5, 0.5]),
    'model': lambda v: analysis.linear_loss(v, np.zeros((2, 1)), [0, 1]),
    'labels': lambda v: analysis.linear_loss(MODEL, np.zeros((2, 1)), v),
    'transition': lambda v: analysis.link_chains.from_modes(v, [[1, 0], [0, 1]]),
    'transition of times': lambda v: mixing_times.mixing_time(v, [0.5, 0.5]),
    'edge_probs': lambda v: analysis.colrel_variance([0.5, 0.3], v, np.eye(2)),
    'weights': lambda v: analysis.colrel_variance([0.5, 0.3], np.eye(2), v),
    'weights of blocks': lambda v: regularity.regular_period(v),
    'confusion': lambda v: analysis.confusion_boundaries(v),
    'proportions': lambda v: analysis.gaussian_minimiser(np.eye(2), v, [0.5, 0.5]),
    'multipliers': lambda v: finite_steps(multipliers=v),
    'learning_rate': lambda v: finite_steps(learning_rate=v),
    'learning_rate of clients': lambda v: gradient_runs.quadratic_clients(
        [0.0, 4.0], v, 2
    ),
    'targets': lambda v: gradient_runs.quadratic_clients(v, 0.5, 2),
    'epsilon': lambda v: mixing_times.mixing_time(np.eye(2), [0.5, 0.5], v),
    'tolerance': lambda v: regularity.regular_period([[0.5, 0.5]], tolerance=v),
}


def finite_steps(**changes):
    """Computes the mean of a linear model under links that remember."""
    given = {'multipliers': [1.0, 1.0], 'learning_rate': 0.1, **changes}
    return analysis.weighted_finite_steps(
        np.zeros((2, 1)),
        [0.0, 1.0],
        [0, 1],
        up_rate=[0.1, 0.1],
        down_rate=[0.1, 0.1],
        local_steps=2,
        loss='least_squares',
        **given,
    )


@pytest.mark.parametrize('argument', OBJECTS)
@pytest.mark.parametrize('value', ['a', '', [[0.5], [0.5, 0.1]], ['a', 'b'], len, {}])
def test_another_kind_of_object_costs_one_line(argument, value):
    with refusals.names(argument.partition(' ')[0]):
        OBJECTS[argument](value)


LENGTHS = {
    'max_gap': lambda v: analysis.gap_distribution(0.1, 0.2, v),
    'num_lags': lambda v: analysis.semi_markov_autocorrelation([1.0], [1.0], v),
    'max_lag': lambda v: analysis.expected_autocorrelation([0.1], [0.2], v),
    'num_rounds': lambda v: analysis.linear_curve(
        'fedavg', CHAIN, [0.0, 1.0], 0.1, 2, num_rounds=v
    ),
    'num_rounds of moments': lambda v: analysis.fedpbc_mean_and_covariance(
        [0.5, 0.3], [0.0, 1.0], 0.1, 2, num_rounds=v
    ),
    'num_rounds of times': lambda v: mixing_times.total_variation_curve(
        np.full((2, 2), 0.5), [0.5, 0.5], num_rounds=v
    ),
    'num_rounds of counters': lambda v: selection_counters.counter_mean_square_error(
        analysis.minimum_separation_chain([1.0, 1.0, 1.0], 1), [1.0, 0, 0], num_rounds=v
    ),
    'local_steps': lambda v: analysis.linear_limit('fedavg', CHAIN, [0.0, 1.0], 0.1, v),
    'local_steps of drift': lambda v: local_drift.local_drift_factor(0.1, 1.0, v),
    'cycle_length': lambda v: analysis.link_chains.cyclic([0.5], cycle_length=v),
    'separation': lambda v: analysis.link_chains.b_min_sep([0.5], v),
}


@pytest.mark.parametrize('argument', LENGTHS)
@pytest.mark.parametrize('value', [2**45, 2**62])
def test_a_length_beyond_memory_is_refused_at_once(argument, value):
    with refusals.names(argument.partition(' ')[0], 'memory'):
        LENGTHS[argument](value)


@pytest.mark.parametrize('budget', [1e4, 2.0**40, 1e300, float('inf')])
def test_a_drift_bound_beyond_floats_is_infinite(budget):
    assert local_drift.local_drift_factor_bound(budget) == np.inf
