"""Counters of selections under a minimum separation, against all paths of a short run."""

import itertools

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import mixing_times, selection_counters
from tests.analysis.refusals import refuses


def paths(chain, weights, separation, num_rounds):
    """Yields sequences of selected clients with their probability, from the stationary law."""
    clients = range(len(weights))
    for state, mass in zip(chain.states, chain.stationary, strict=True):
        for sequence in itertools.product(clients, repeat=num_rounds):
            waits = list(state)
            chance = mass
            for chosen in sequence:
                free = sum(weights[i] for i in clients if waits[i] == 0)
                chance *= weights[chosen] / free if waits[chosen] == 0 else 0.0
                waits = [max(w - 1, 0) for w in waits]
                waits[chosen] = separation
            if chance:
                yield sequence, chance


@pytest.mark.parametrize(
    ('weights', 'separation'), [([1, 2, 3], 0), ([1, 2, 3], 1), ([1, 2, 3, 4], 2)]
)
def test_errors_equal_the_enumeration_of_paths(weights, separation):
    chain = analysis.minimum_separation_chain(weights, separation)
    values = np.array([1.0, -0.5, 2.0, 0.3])[: len(weights)]
    target = chain.marginal @ values
    for rounds in (1, 2, 4):
        exact = sum(
            chance * (np.mean(values[list(sequence)]) - target) ** 2
            for sequence, chance in paths(chain, weights, separation, rounds)
        )
        found = selection_counters.counter_mean_square_error(
            chain, values, num_rounds=rounds
        )
        np.testing.assert_allclose(found, exact, rtol=1e-11)


def test_error_without_separation_is_a_binomial_variance():
    chain = analysis.minimum_separation_chain([0.2, 0.8], 0)
    found = selection_counters.counter_mean_square_error(
        chain, [1.0, 0.0], num_rounds=50
    )
    np.testing.assert_allclose(found, 0.2 * 0.8 / 50, rtol=1e-12)


def test_cohorts_share_a_round():
    """Two of four: the mean over the cohort of an indicator is at most a half."""
    chain = analysis.minimum_separation_chain([1.0, 1.0, 1.0, 1.0], 1, 2)
    found = selection_counters.selection_covariances(chain, [1.0, 0, 0, 0], max_lag=2)
    np.testing.assert_allclose(found, [1 / 16, -1 / 16, 1 / 16], rtol=1e-12)


def test_theorem_5_holds_for_chains_of_minimum_separation():
    rng = np.random.default_rng(1)
    for weights in ([1, 1, 1], [1, 1, 50], [1, 2, 3, 4]):
        for separation in range(len(weights) - 1):
            chain = analysis.minimum_separation_chain(weights, separation)
            tried = [*np.eye(len(weights)), *rng.normal(size=(4, len(weights)))]
            for values in tried:
                exact = selection_counters.counter_mean_square_error(
                    chain, values, num_rounds=30
                )
                bound = selection_counters.theorem5_bound(chain, values, num_rounds=30)
                assert exact <= bound


def test_theorem_5_is_false_for_chains_in_general():
    """Two states that rarely change, f = +1 and -1: the same inequality, printed for any chain."""
    stay = 0.99
    rounds = 10**5
    matrix = np.array([[stay, 1 - stay], [1 - stay, stay]])
    law = np.array([0.5, 0.5])
    values = np.array([1.0, -1.0])
    kept = 2 * stay - 1
    lags = np.arange(1, rounds)
    exact = 1 + 2 * np.sum((1 - lags / rounds) * kept**lags)
    time = mixing_times.mixing_time(matrix, law)
    constant = mixing_times.series_constant(matrix, law)
    printed = law @ values**2 + constant * law.max() * 1.0 * 2 * time
    assert exact / printed > 1.0


def test_lemma_2_is_false_as_printed():
    """A client that nobody drew has the counter 0, so its debiasing weight is infinite."""
    prob = 0.2
    rounds = 40
    never = (1 - prob) ** rounds
    assert never > 0
    with np.errstate(divide='ignore'):
        weights = 1 / (np.arange(rounds + 1) / rounds * 2)
    mean_square = never * weights[0]
    assert mean_square == np.inf
    assert selection_counters.lemma2_order(1, rounds) == 1 / 40


def test_different_separations_are_refused():
    chain = analysis.minimum_separation_chain([1.0] * 4, [1, 2, 1, 1])
    with refuses('`chain` must have one separation for all clients, got several.'):
        selection_counters.selection_covariances(chain, np.ones(4), max_lag=1)
