"""First-order laws against exact limits, whose differences are of second order."""

from fractions import Fraction

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis import link_chains
from tests import refusals
from tests.tiers import cases

RATES = 0.002, 0.004, 0.008, 0.016


def problem(seed, size=3):
    """Random Markov links, and targets that depend on their probabilities."""
    rng = np.random.default_rng(seed)
    probs = rng.uniform(0.2, 0.7, size)
    up_rates = rng.uniform(0.1, 0.3, size)
    return link_chains.markov(probs, up_rates), rng.normal(size=size) + 3 * probs


def exact(algorithm, chain, targets, rate, cutoff):
    """The exact limit; FedAU's with its limiting weights, as known probabilities of 1 / weight."""
    if algorithm != 'fedau':
        return analysis.linear_limit(algorithm, chain, targets, rate, 1)
    kinds = []
    for kind in chain.kinds:
        rates = kind.transition[0, 0, 1], kind.transition[0, 1, 0]
        weight = analysis.markov_interval_mean(*rates, cutoff)
        kinds.append(kind._replace(prob=np.atleast_1d(1 / weight)))
    known = chain._replace(kinds=tuple(kinds))
    return analysis.linear_limit('fedavg_known', known, targets, rate, 1)


@pytest.mark.parametrize('seed', cases(range(10), [0, 1]))
@pytest.mark.parametrize(
    'algorithm', ['fedau', 'fedavg', 'fedavg_all', 'fedavg_known', 'fedpbc']
)
def test_what_is_left_out_is_of_second_order(algorithm, seed):
    chain, targets = problem(seed)
    cutoff = 4 if algorithm == 'fedau' else None
    errors = []
    biases = []
    for rate in RATES:
        law = analysis.first_order_mean(
            algorithm, chain, targets, rate, 1, cutoff=cutoff
        )
        limit = exact(algorithm, chain, targets, rate, cutoff)
        errors.append(abs(law.mean[0] - limit.means['server'][0]))
        biases.append(abs(law.bias[0]))
    # An error of second order quadruples at twice the rate, up to terms of third order.
    ratios = np.array(errors[1:]) / errors[:-1]
    assert ((ratios > 3.5) & (ratios < 4.5)).all(), ratios
    # The first order itself is there, and larger.
    assert biases[0] > 2 * errors[0]


def test_known_probabilities_have_the_formula_as_printed():
    """Two clients with an up rate of .05: exact and first-order bias, targets 0 and 1."""
    chain = link_chains.markov([0.5, 0.3], 0.05)
    p = np.array([0.5, 0.3])
    memory = 1 - 0.05 / p
    targets = np.array([0.0, 100.0])
    epsilon = 1 - (1 - 0.004) ** 5
    expected = -epsilon / 4 * ((1 - p) / p * memory / (1 - memory)) @ (targets - 50)
    law = analysis.first_order_mean('fedavg_known', chain, targets, 0.004, 5)
    assert abs(law.bias[0] - expected) < 1e-12
    np.testing.assert_allclose(law.limit, 50.0)


@pytest.mark.slow
def test_laws_hold_for_many_clients():
    """Two groups of ten, with an exact limit that counts them."""
    probs = np.repeat([0.1, 0.05], 10)
    chain = link_chains.markov(probs, 0.05)
    targets = np.repeat([0.0, 1.0], 10)
    for algorithm in ('fedavg', 'fedavg_known'):
        law = analysis.first_order_mean(algorithm, chain, targets, 0.002, 1)
        limit = analysis.linear_limit(algorithm, chain, targets, 0.002, 1)
        bias = limit.means['server'][0] - law.limit[0]
        assert abs(bias - law.bias[0]) < 0.05 * abs(law.bias[0])


def test_independent_links_have_no_first_order():
    chain = link_chains.independent([0.5, 0.3, 0.2])
    for algorithm in ('fedavg', 'fedavg_all', 'fedavg_known', 'fedau'):
        law = analysis.first_order_mean(algorithm, chain, [0.0, 1.0, 5.0], 0.1, 1)
        np.testing.assert_allclose(law.bias, 0.0, atol=1e-15)


@pytest.mark.parametrize('cutoff', [1, 2, 5, None])
def test_intervals_of_a_link_have_their_mean(cutoff):
    rng = np.random.default_rng(0)
    up_rate = 0.1
    down_rate = 0.3
    is_up = True
    waited = 0
    intervals = []
    for uniform in rng.uniform(size=200_000):
        is_up = uniform >= down_rate if is_up else uniform < up_rate
        if is_up:
            intervals.append(waited + 1)
            waited = 0
        else:
            waited += 1
            if waited == cutoff:
                intervals.append(waited)
                waited = 0
    batches = np.array_split(np.array(intervals, float), 50)
    means = np.array([batch.mean() for batch in batches])
    expected = analysis.markov_interval_mean(up_rate, down_rate, cutoff)
    error = means.std() / np.sqrt(len(means))
    assert abs(np.mean(intervals) - expected) < 4.5 * error + 1e-12


def test_intervals_without_memory_are_truncated_geometric():
    probs = np.array([0.1, 0.6])
    result = analysis.markov_interval_mean(probs, 1 - probs, 7)
    expected = analysis.truncated_interval_mean(probs, 7)
    np.testing.assert_allclose(result, expected, rtol=1e-13)


@pytest.mark.parametrize('up_rate', [1e-14, 1e-9, 0.3, 1.0])
@pytest.mark.parametrize('cutoff', [1, 2, 50])
def test_intervals_of_rare_links_keep_their_digits(up_rate, cutoff):
    rise = Fraction(up_rate)
    fall = Fraction(1, 4)
    stays = 1 - rise
    after_upload = 1 + fall * (1 - stays ** (cutoff - 1)) / rise
    after_cut = (1 - stays**cutoff) / rise
    ratio = fall * stays ** (cutoff - 1) / (1 - stays**cutoff)
    exact = (after_upload + ratio * after_cut) / (1 + ratio)
    result = analysis.markov_interval_mean(up_rate, 0.25, cutoff)
    np.testing.assert_allclose(result, float(exact), rtol=1e-13)


def test_refusals():
    chain, targets = problem(0)
    with refusals.names('algorithm', 'fedavg'):
        analysis.first_order_mean('mifa', chain, targets, 0.1, 1)
    with refusals.names('chain', 'two states'):
        cycles = link_chains.cyclic([0.5, 0.5], cycle_length=4)
        analysis.first_order_mean('fedavg', cycles, [0.0, 1.0], 0.1, 1)
    # Links that change rarely, and in each round.
    for up_rate, got in ((1e-4, 'got 0.9998'), (1.0, 'got -1')):
        with refusals.names('chain', 'autocorrelation', got):
            rare = link_chains.markov([0.5, 0.5], up_rate)
            analysis.first_order_mean('fedavg', rare, [0.0, 1.0], 0.1, 1)
    with refusals.names('learning_rate'):
        analysis.first_order_mean('fedavg', chain, targets, 2.5, 1)
    for name in ('fedavg', 'fedavg_all', 'fedavg_known', 'fedpbc'):
        with refusals.names('cutoff', name, 'got 4'):
            analysis.first_order_mean(name, chain, targets, 0.1, 1, cutoff=4)


def test_many_clients_are_no_number_of_thousands_of_digits():
    many = 20_000
    chain = link_chains.markov(np.full(many, 0.5), 0.25)
    mean = analysis.first_order_mean('fedavg', chain, np.ones((many, 1)), 0.1, 1)
    np.testing.assert_allclose(mean.mean, 1.0)
    # Ten rounds of a cycle and five modes of each client: 10 x 5^20000, about 10^13980.
    cycles = link_chains.cyclic(np.full(many, 0.5), cycle_length=10)
    with refusals.names('chain', 'got about 10^13980 modes of 20000 clients'):
        analysis.first_order_mean('fedavg', cycles, np.ones((many, 1)), 0.1, 1)
    with refusals.names('chain', 'got about 10^13980 modes of 20000 clients'):
        cycles.modes()
    with refusals.names('cohort_size', 'got about 10^6019 with 2 rounds and cohorts'):
        link_chains.periodic_groups(
            np.zeros(many, int), active_rounds=2, cohort_size=many // 2
        )
