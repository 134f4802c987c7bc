"""Curves and limits of many clients in groups, against closed forms."""

import time

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis import link_chains
from fedjax_links.analysis.link_chains import layouts
from tests import refusals
from tests.refusals import refuses
from tests.tiers import cases


def test_a_hundred_clients_in_two_groups_are_exact_in_a_second():
    """Against closed forms of independent links, with different targets in a group."""
    probs = np.repeat([0.5, 0.3], 50)
    targets = np.random.default_rng(0).normal(size=100) + 10 * probs
    arguments = targets, 0.05, 2
    moments = analysis.fedavg_mean_and_covariance(probs, *arguments, num_rounds=10)
    chain = link_chains.independent(probs)
    start = time.process_time()
    curve = analysis.linear_curve('fedavg', chain, *arguments, num_rounds=10)
    # A second on a core to itself; the bound leaves room for slow machines.
    assert time.process_time() - start < 5.0
    np.testing.assert_allclose(curve.means['server'], moments.mean, atol=1e-12)
    result = curve.covariances['server'][:, 0]
    np.testing.assert_allclose(result, moments.variance, atol=1e-12)


@pytest.mark.parametrize(
    ('name', 'rate'),
    cases([('fedavg_known', 0.002), ('mifa', 0.05)], [('fedavg_known', 0.002)]),
)
def test_a_hundred_clients_with_memory_have_a_limit(name, rate):
    """MIFA ends at the optimum, and known probabilities as their first order says."""
    probs = np.repeat([0.5, 0.3], 50)
    targets = np.random.default_rng(0).normal(size=100) + 10 * probs
    arguments = link_chains.markov(probs, 0.05), targets, rate, 2
    limit = analysis.linear_limit(name, *arguments)
    assert limit.stability == 'mean and variance settle'
    bias = limit.means['server'] - limit.optimum
    if name == 'mifa':
        assert abs(bias[0]) < 1e-9
        assert limit.covariances['server'][0, 0] < 1e-9
    else:
        law = analysis.first_order_mean(name, *arguments)
        assert abs(bias[0] - law.bias[0]) < 0.05 * abs(law.bias[0])


def test_fedpbc_of_many_clients_has_its_closed_form():
    probs = np.repeat([0.5, 0.3], 8)
    targets = np.random.default_rng(0).normal(size=16)
    arguments = targets, 0.05, 2
    moments = analysis.fedpbc_mean_and_covariance(probs, *arguments, num_rounds=10)
    chain = link_chains.independent(probs)
    curve = analysis.linear_curve('fedpbc', chain, *arguments, num_rounds=10)
    np.testing.assert_allclose(curve.means['server'], moments.server_mean, atol=1e-12)
    np.testing.assert_allclose(
        curve.means['client_mean'], moments.client_mean, atol=1e-12
    )
    centred = curve.means['server'][:, 0] - targets.mean()
    squares = curve.covariances['server'][:, 0, 0] + centred**2
    np.testing.assert_allclose(squares, moments.server_mean_square, atol=1e-12)


def test_clients_that_depend_on_each_other_are_listed():
    """Their rates change with a random shared state, so they tell about its past."""
    kind = link_chains.ClientLinks(
        transition=np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.2, 0.8], [0.7, 0.3]]]),
        start=np.full((2, 2), 0.5),
        is_up=np.array([[False, True], [False, True]]),
        prob=np.full(2, np.nan),
    )
    shared = link_chains.from_modes([[0.9, 0.1], [0.2, 0.8]], [[1], [1]])
    chain = shared._replace(kinds=(kind,), kind_of_client=np.zeros(3, int))
    arguments = chain, [0.0, 1.0, 5.0], 0.1, 2
    with refuses(
        '`chain` must have clients that are independent given the shared state, or be '
        'used with `lump=False`, got clients that are not.'
    ):
        analysis.linear_limit('fedavg', *arguments, lump=True)
    limit = analysis.linear_limit('fedavg', *arguments, lump=False)
    curve = analysis.linear_curve('fedavg', *arguments, num_rounds=1000, lump=True)
    np.testing.assert_allclose(
        curve.means['server'][-1], limit.means['server'], atol=1e-9
    )


def test_an_error_for_too_many_moments_counts_their_squares(monkeypatch):
    monkeypatch.setattr(layouts, 'MAX_ENTRIES', 10)
    chain = link_chains.independent(np.full(6, 0.5))
    targets = np.arange(18.0).reshape(6, 3)
    # Three coordinates have six squares and products.
    words = 'need at most 10 numbers', 'and 6 squares and products of coordinates.'
    with refusals.names('chain', *words):
        analysis.linear_limit('fedavg', chain, targets, 0.1, 1)
