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
    sun2025,
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
    """Computes the mean of a linear model under links with memory."""
    arguments = {'multipliers': [1.0, 1.0], 'learning_rate': 0.1, **changes}
    return analysis.weighted_finite_steps(
        np.zeros((2, 1)),
        [0.0, 1.0],
        [0, 1],
        up_rate=[0.1, 0.1],
        down_rate=[0.1, 0.1],
        local_steps=2,
        loss='least_squares',
        **arguments,
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
    'num_rounds of wide states': lambda v: analysis.linear_curve(
        'mifa', CHAIN, np.zeros((2, 9)), 0.1, 2, num_rounds=min(v, 10**8)
    ),
    'num_rounds of moments': lambda v: analysis.fedpbc_mean_and_covariance(
        [0.5, 0.3], [0.0, 1.0], 0.1, 2, num_rounds=v
    ),
    'num_rounds of wide models': lambda v: analysis.fedavg_mean_and_covariance(
        [0.5, 0.3], np.zeros((2, 10)), 0.1, 2, num_rounds=v // 10
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


COUNTERS = analysis.minimum_separation_chain([1.0, 1.0, 1.0], 1)
START = np.eye(len(COUNTERS.states))[0]
ROUNDS = {
    'max_lag': lambda v: selection_counters.selection_covariances(
        COUNTERS, [1.0, 0, 0], max_lag=v
    ),
    'num_rounds of a bias': lambda v: selection_counters.counter_bias(
        COUNTERS, [1.0, 0, 0], START, num_rounds=v
    ),
    'num_rounds of squares': lambda v: (
        selection_counters.counter_mean_square_error_from(
            COUNTERS, [1.0, 0, 0], START, num_rounds=v
        )
    ),
    'lag': lambda v: sun2025.remembered_selection(COUNTERS, v),
    'max_lag of a search': lambda v: sun2025.least_lag(
        analysis.minimum_separation_chain([1.0, 1.0], 1), max_lag=v
    ),
    'num_steps': lambda v: flow(num_steps=v),
    'time': lambda v: flow(time=1e10 * v),
}


def flow(**changes):
    """Predicts a linear model during training."""
    arguments = {'time': 1.0, 'l2': 1.0, **changes}
    features = np.array([[0.0], [1.0]])
    return analysis.weighted_gradient_flow(
        features, [0, 1], [0, 1], [0.5, 0.5], loss='softmax', **arguments
    )


@pytest.mark.parametrize('argument', ROUNDS)
@pytest.mark.parametrize('value', [10**9, 2**40, 10**300])
def test_rounds_that_hardly_end_are_refused_at_once(argument, value):
    with refusals.names(argument.partition(' ')[0]):
        ROUNDS[argument](value)


def test_a_chain_is_printed_for_an_error_alone(monkeypatch):
    """The text of its arrays takes longer than the theory of a small chain."""

    def fail(chain):
        pytest.fail('a chain was printed')

    monkeypatch.setattr(type(CHAIN), '__repr__', fail)
    analysis.linear_limit('fedavg', CHAIN, [0.0, 1.0], 0.1, 1)


def test_a_chain_that_has_settled_takes_no_further_rounds():
    settled = sun2025.remembered_selection(COUNTERS, 2_000)
    assert settled == sun2025.remembered_selection(COUNTERS, 10**8)


def test_classes_beyond_memory_are_refused_at_once():
    rows = np.array([[0.0], [1.0]])
    many = {'num_classes': 2**40}
    calls = {
        'num_classes': lambda: analysis.weighted_minimiser(
            rows, [0, 1], [0, 1], [0.5, 0.5], l2=1.0, **many
        ),
        'num_classes of a flow': lambda: flow(**many),
        'num_classes of a Hessian': lambda: analysis.weighted_minimiser(
            rows, [0, 1], [0, 1], [0.5, 0.5], l2=1.0, num_classes=10**6
        ),
        'labels': lambda: analysis.weighted_minimiser(
            rows, [0, 2**40], [0, 1], [0.5, 0.5], l2=1.0
        ),
    }
    for argument, call in calls.items():
        with refusals.names(argument.partition(' ')[0], 'memory'):
            call()


@pytest.mark.parametrize(
    'start',
    [
        analysis.LinearModel(np.zeros((2, 2)), np.zeros(2)),
        analysis.LinearModel(np.zeros((1, 3)), np.zeros(3)),
        analysis.LinearModel(np.full((1, 2), np.nan), np.zeros(2)),
        analysis.LinearModel('a', None),
        (np.zeros((1, 2)), np.zeros(2)),
    ],
)
def test_a_model_has_the_shape_of_the_data(start):
    with refusals.names('start'):
        flow(start=start)
    with refusals.names('model'):
        analysis.linear_loss(start, np.zeros((2, 4)), [0, 1])


def test_a_model_may_be_lists():
    lists = analysis.LinearModel([[0.0, 0.0]], [0.0, 0.0])
    np.testing.assert_array_equal(flow(start=lists).intercept, flow().intercept)


OTHER_AXES = {
    'shares at class': lambda v: analysis.equidistant_skewed_accuracy(1.0, v),
    'shares of boundaries at class': lambda v: analysis.skewed_loss(
        analysis.gaussian_boundaries([[0.0], [3.0]]), v
    ),
    'initial_point at coordinate': lambda v: gradient_runs.quadratic_clients(
        np.zeros((3, 2)), 0.5, 2, initial_point=v
    ),
    'start at mode': lambda v: analysis.link_chains.from_modes(
        np.full((2, 2), 0.5), np.eye(2), start=v
    ),
    'stationary at state': lambda v: mixing_times.mixing_time(np.eye(2), v),
    'start at state': lambda v: selection_counters.counter_bias(
        COUNTERS, [1.0, 0, 0], v, num_rounds=2
    ),
}


@pytest.mark.parametrize('case', OTHER_AXES)
def test_an_entry_that_is_of_no_client_is_named_after_its_axis(case):
    argument, axis = case.split()[0], case.split()[-1]
    with refusals.names(argument, f'got nan at {axis} 1.'):
        OTHER_AXES[case]([0.5, np.nan])


LAW = [1.0, 0.5]


@pytest.mark.parametrize('laws', [[LAW, LAW], [[LAW, LAW]], np.ones((2, 1, 2))])
def test_memory_is_of_one_law(laws):
    for argument, law in (('up', (laws, LAW)), ('down', (LAW, laws))):
        with refusals.names(argument, 'one law'):
            analysis.semi_markov_autocorrelation(*law, 3)


def test_laws_of_several_links_have_one_shape():
    with refusals.names('down', 'shape [2]', 'shape [3]'):
        analysis.semi_markov_stationary([LAW] * 2, [LAW] * 3)
    probs = analysis.semi_markov_stationary([[LAW] * 2], LAW)
    np.testing.assert_array_equal(probs, [[0.5, 0.5]])


def test_many_lags_of_short_laws_take_no_time():
    tail = analysis.semi_markov_autocorrelation(LAW, LAW, 10**5)
    head = analysis.semi_markov_autocorrelation(LAW, LAW, 50)
    np.testing.assert_allclose(tail[:51], head, atol=1e-15)


@pytest.mark.parametrize('budget', [1e4, 2.0**40, 1e300, float('inf')])
def test_a_drift_bound_beyond_floats_is_infinite(budget):
    assert local_drift.local_drift_factor_bound(budget) == np.inf
