"""Counters of selections under a minimum separation, against all paths of a short run."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis
from fedjax_links.analysis.theorems import mixing_times, selection_counters, sun2025
from tests import refusals
from tests.analysis.theorems import exact_chains
from tests.refusals import refuses

VALUES = Fraction(1), Fraction(-1, 2), Fraction(2), Fraction(3, 10)


def paths(law, weights, separation, num_rounds):
    """Yields sequences of selected clients with their probability, from a law of waits."""
    clients = range(len(weights))
    for state, mass in law.items():
        for sequence in itertools.product(clients, repeat=num_rounds):
            waits = list(state)
            chance = mass
            for chosen in sequence:
                chance *= exact_chains.selection(weights, waits)[chosen]
                if not chance:
                    break
                waits = [max(w - 1, 0) for w in waits]
                waits[chosen] = separation
            if chance:
                yield sequence, chance


def mean_value(law, values):
    """Expected value of a client."""
    return sum(p * value for p, value in zip(law, values, strict=True))


@pytest.mark.parametrize(
    ('weights', 'separation'), [([1, 2, 3], 0), ([1, 2, 3], 1), ([1, 2, 3, 4], 2)]
)
def test_errors_equal_the_enumeration_of_paths(weights, separation):
    chain = analysis.minimum_separation_chain(weights, separation)
    values = VALUES[: len(weights)]
    target = mean_value(exact_chains.marginal(weights, separation), values)
    law = exact_chains.stationary_law(weights, separation)
    for rounds in (1, 2, 4):
        exact = sum(
            chance * (sum(values[i] for i in sequence) / rounds - target) ** 2
            for sequence, chance in paths(law, weights, separation, rounds)
        )
        result = selection_counters.counter_mean_square_error(
            chain, [float(v) for v in values], num_rounds=rounds
        )
        np.testing.assert_allclose(result, float(exact), rtol=1e-12)


def test_error_without_separation_is_a_binomial_variance():
    chain = analysis.minimum_separation_chain([0.2, 0.8], 0)
    result = selection_counters.counter_mean_square_error(
        chain, [1.0, 0.0], num_rounds=50
    )
    np.testing.assert_allclose(result, 0.2 * 0.8 / 50, rtol=1e-12)


def test_cohorts_share_a_round():
    """Two of four: the mean over the cohort of an indicator is at most a half."""
    chain = analysis.minimum_separation_chain([1.0, 1.0, 1.0, 1.0], 1, 2)
    result = selection_counters.selection_covariances(chain, [1.0, 0, 0, 0], max_lag=2)
    np.testing.assert_allclose(result, [1 / 16, -1 / 16, 1 / 16], rtol=1e-12)


def scaled_covariance(chain, num_rounds):
    """T times the covariance matrix of the fractions of T rounds, from powers of P."""
    law = chain.marginal
    size = chain.marginal.size
    if not chain.states.any():
        return np.diag(law) - np.outer(law, law)
    chosen = (chain.states == chain.states.max()).astype(float)
    total = np.zeros((size, size))
    later = chosen
    for lag in range(num_rounds):
        joint = (chain.stationary[:, None] * chosen).T @ later - np.outer(law, law)
        total += (1 - lag / num_rounds) * (joint if lag == 0 else joint + joint.T)
        later = chain.transition @ later
    return total


def random_chains(seed, count):
    """Chains of 3 to 5 clients with even, uneven and very uneven weights, every separation."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        clients = 3 + k % 3
        separation = int(rng.integers(clients - 1))
        weights = rng.dirichlet(np.full(clients, rng.choice([0.3, 1.0, 10.0]))) + 1e-3
        yield analysis.minimum_separation_chain(weights, separation)


@pytest.mark.parametrize(
    ('seed', 'count'), [(1, 60), pytest.param(2, 1000, marks=pytest.mark.slow)]
)
def test_theorem_5_holds_for_all_values_on_random_chains(seed, count):
    """For values in [-1, 1] the form ``f' A f`` is at most N times the largest eigenvalue of A."""
    for chain in random_chains(seed, count):
        law = chain.marginal
        time = mixing_times.mixing_time(chain.transition, chain.stationary)
        constant = mixing_times.series_constant(chain.transition, chain.stationary)
        for rounds in (1, 7, 60):
            form = scaled_covariance(chain, rounds)
            excess = np.linalg.eigvalsh(form - np.diag(law) + np.outer(law, law))[-1]
            assert excess * law.size <= constant * law.max() * law.size * time


def test_the_bounds_of_theorem_5_are_those_of_the_forms():
    """Second and third statement against their printed formulas, and exact errors below them."""
    rng = np.random.default_rng(3)
    for chain in random_chains(4, 12):
        law = chain.marginal
        size = chain.marginal.size
        values = rng.normal(size=size)
        time = mixing_times.mixing_time(chain.transition, chain.stationary)
        constant = mixing_times.series_constant(chain.transition, chain.stationary)
        exact = values @ scaled_covariance(chain, 9) @ values / 9
        result = selection_counters.counter_mean_square_error(
            chain, values, num_rounds=9
        )
        np.testing.assert_allclose(result, exact, rtol=1e-12, atol=1e-15)
        bound = selection_counters.theorem5_bound(chain, values, num_rounds=9)
        largest = np.abs(values).max() ** 2
        printed = values @ (np.diag(law) - np.outer(law, law)) @ values
        printed += constant * law.max() * largest * size * time
        np.testing.assert_allclose(bound, printed / 9, rtol=1e-12)
        assert exact <= bound
        if not chain.states.any():
            continue
        bound = selection_counters.theorem5_any_start_bound(chain, values, num_rounds=9)
        off = np.abs(values - law @ values).max() ** 2
        printed = exact + 3 * constant * size**2 * off * time / 9
        np.testing.assert_allclose(bound, printed, rtol=1e-12)
        for start in np.eye(len(chain.states)):
            error = selection_counters.counter_mean_square_error_from(
                chain, values, start, num_rounds=9
            )
            assert error <= bound


@pytest.mark.parametrize(('weights', 'separation'), [([1, 2, 3], 1), ([1, 2, 3, 4], 2)])
def test_runs_from_a_state_equal_the_enumeration_of_paths(weights, separation):
    """The newest cohort of the state at round 0 is S_0; later rounds follow the waits."""
    chain = analysis.minimum_separation_chain(weights, separation)
    exact_values = VALUES[: len(weights)]
    values = [float(value) for value in exact_values]
    target = mean_value(exact_chains.marginal(weights, separation), exact_values)
    rng = np.random.default_rng(5)
    masses = [Fraction(int(m)) for m in rng.integers(1, 100, size=len(chain.states))]
    law = [mass / sum(masses) for mass in masses]
    start = [float(mass) for mass in law]
    for rounds in (1, 3):
        mean = Fraction(0)
        square = Fraction(0)
        for row, mass in zip(chain.states, law, strict=True):
            state = tuple(int(wait) for wait in row)
            first = exact_values[state.index(max(state))]
            for sequence, chance in paths(
                {state: mass}, weights, separation, rounds - 1
            ):
                total = first + sum(exact_values[i] for i in sequence)
                error = total / rounds - target
                mean += chance * error
                square += chance * error**2
        result = selection_counters.counter_bias(
            chain, values, start, num_rounds=rounds
        )
        np.testing.assert_allclose(result, float(mean), rtol=1e-12)
        result = selection_counters.counter_mean_square_error_from(
            chain, values, start, num_rounds=rounds
        )
        np.testing.assert_allclose(result, float(square), rtol=1e-12)
    stationary = selection_counters.counter_mean_square_error_from(
        chain, values, chain.stationary, num_rounds=20
    )
    exact = selection_counters.counter_mean_square_error(chain, values, num_rounds=20)
    np.testing.assert_allclose(stationary, exact, rtol=1e-12)


def test_theorem_5_is_false_for_chains_in_general():
    """Two states that rarely change, f = +1 and -1: the same inequality, printed for any chain.

    T times the error is ``1 + 2 sum_k (1 - k / T) r^k`` with the autocorrelation r^k at lag k.
    """
    stay = 0.99
    rounds = 10**5
    matrix = np.array([[stay, 1 - stay], [1 - stay, stay]])
    law = np.array([0.5, 0.5])
    values = np.array([1.0, -1.0])
    correlation = 2 * stay - 1
    lags = np.arange(1, rounds)
    exact = 1 + 2 * np.sum((1 - lags / rounds) * correlation**lags)
    time = mixing_times.mixing_time(matrix, law)
    constant = mixing_times.series_constant(matrix, law)
    printed = law @ values**2 + constant * law.max() * 1.0 * 2 * time
    assert exact / printed > 1.0


def test_lemma_2_is_false_as_printed():
    """A client that was never selected has the counter 0 and an infinite debiasing weight.

    So the mean square of the weight ``1 / (N counter / T)`` of one of two clients is infinite. The
    lemma says that it is of the order 1 / T.
    """
    rounds = 40
    counters = np.arange(rounds + 1)
    law = stats.binom.pmf(counters, rounds, 0.2)
    with np.errstate(divide='ignore'):
        weights = 1 / (2 * counters / rounds)
    assert law @ weights**2 == np.inf
    assert selection_counters.lemma2_order(1, rounds) == 1 / 40


@pytest.mark.parametrize(
    'rounds', [np.int16(200), pytest.param(np.int32(50_000), marks=pytest.mark.slow)]
)
def test_rounds_whose_square_overflows_give_the_same_error(rounds):
    chain = analysis.minimum_separation_chain([1.0] * 3, 1)
    first = [1.0, 0.0, 0.0]
    error = selection_counters.counter_mean_square_error_from
    result = error(chain, first, first, num_rounds=rounds)
    assert result == error(chain, first, first, num_rounds=int(rounds))


def test_different_separations_are_refused():
    chain = analysis.minimum_separation_chain([1.0] * 4, [1, 2, 1, 1])
    with refuses('`chain` must have one separation for all clients, got several.'):
        selection_counters.selection_covariances(chain, np.ones(4), max_lag=1)


PAIRS = analysis.minimum_separation_chain([1.0, 2.0, 3.0, 4.0, 5.0], 1, 2)
INDEPENDENT_PAIRS = analysis.minimum_separation_chain([1.0, 2.0, 3.0], 0, 2)


@pytest.mark.parametrize(
    'call',
    [
        lambda: sun2025.column_sums(PAIRS),
        lambda: sun2025.remembered_selection(PAIRS, 3),
        lambda: sun2025.least_lag(PAIRS),
        lambda: selection_counters.theorem5_bound(PAIRS, np.ones(5), num_rounds=9),
        lambda: selection_counters.theorem5_any_start_bound(
            PAIRS, np.ones(5), num_rounds=9
        ),
        lambda: selection_counters.selection_covariances(
            INDEPENDENT_PAIRS, [1.0, 0.0, 0.0], max_lag=1
        ),
    ],
)
def test_what_holds_for_cohorts_of_one_refuses_larger_ones(call):
    with refusals.names('chain', 'cohorts of one', 'cohorts of 2'):
        call()
