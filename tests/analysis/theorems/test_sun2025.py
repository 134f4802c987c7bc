"""FedAvg under a minimum separation: column sums in rationals, Theorem 4 on 1,000 quadratics."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import sun2025
from tests import refusals
from tests.analysis.theorems import exact_chains


def exact_column_sums(probs, separation):
    """The column sums of the transition matrix over ordered windows, in rationals."""
    clients = range(len(probs))
    sums = {}
    for window in itertools.permutations(clients, separation):  # newest first
        free = [i for i in clients if i not in window]
        total = sum(probs[i] for i in free)
        for chosen in free:
            after = (chosen, *window[:-1])
            sums[after] = sums.get(after, 0) + probs[chosen] / total
    return sums


@pytest.mark.parametrize('separation', [1, 2, 3])
def test_column_sums_equal_exact_rationals(separation):
    probs = [Fraction(numerator, 15) for numerator in (1, 2, 3, 4, 5)]
    chain = analysis.minimum_separation_chain([float(p) for p in probs], separation)
    result = sorted(sun2025.column_sums(chain))
    exact = sorted(float(v) for v in exact_column_sums(probs, separation).values())
    np.testing.assert_allclose(result, exact, rtol=1e-12)


def test_columns_of_equal_clients_sum_to_one():
    chain = analysis.minimum_separation_chain([1.0] * 5, 2)
    np.testing.assert_allclose(sun2025.column_sums(chain), 1.0, rtol=1e-12)


def test_columns_of_the_proof_approach_one():
    """One rare client among equal ones, as in Appendix D.1, where |b - 1| stays below a half."""
    largest = []
    for separation in range(1, 6):
        chain = analysis.minimum_separation_chain([0.05, *[0.19] * 5], separation)
        sums = sun2025.column_sums(chain)
        largest.append(np.abs(sums[chain.states[:, 0] != separation] - 1).max())
    assert max(largest) < 0.5
    assert largest[-1] <= 1e-12


def test_quantities_of_theorem_2_equal_all_cohorts():
    rng = np.random.default_rng(0)
    for size in (1, 2, 3):
        probs = rng.dirichlet(np.ones(6))
        result = sun2025.theorem2_quantities(3 * probs, size)
        order = np.sort(probs)
        least = order[:size].sum()
        centre = (1 - least) / (6 / size - 1)
        cohorts = itertools.combinations(order[size:], size)
        exact = max(abs(sum(cohort) - centre) for cohort in cohorts)
        np.testing.assert_allclose(result, (least, size / 6, exact), rtol=1e-12)
        assert result.least_cohort < result.equal_cohort


def test_least_cohort_of_equal_clients_is_not_below_one_over_m():
    result = sun2025.theorem2_quantities(np.ones(6), 2)
    np.testing.assert_allclose(result, (1 / 3, 1 / 3, 0), atol=1e-15)


def exact_selections(weights, separation, lag):
    """Laws of the client that is selected ``lag`` rounds after each state, in rationals."""
    clients = range(len(weights))
    moves = exact_chains.transitions(weights, separation)
    laws = {
        window: exact_chains.selection(
            weights, exact_chains.waits(window, len(weights))
        )
        for window in moves
    }
    for _ in range(lag):
        later_laws = {}
        for window, move in moves.items():
            law = [Fraction(0) for _ in clients]
            for after, p in move.items():
                for i in clients:
                    law[i] += p * laws[after][i]
            later_laws[window] = law
        laws = later_laws
    return laws.values()


def test_memory_of_the_selection_equals_exact_rationals():
    weights = [1, 2, 3, 4]
    chain = analysis.minimum_separation_chain(weights, 2)
    marginal = exact_chains.marginal(weights, 2)
    for lag in (0, 3, 9):
        deviations = []
        for law in exact_selections(weights, 2, lag):
            deviations += [abs(p - q) for p, q in zip(law, marginal, strict=True)]
        exact = float(2 * max(deviations) / min(marginal))
        result = sun2025.remembered_selection(chain, lag)
        np.testing.assert_allclose(result, exact, rtol=1e-12)
    lag = sun2025.least_lag(chain)
    assert 2 * sun2025.remembered_selection(chain, lag) ** 2 <= 1 / 6
    assert 2 * sun2025.remembered_selection(chain, lag - 1) ** 2 > 1 / 6
    cyclic = analysis.minimum_separation_chain([1.0, 2.0, 3.0], 2)
    assert sun2025.least_lag(cyclic, max_lag=100) is None


def exact_gradients(chain, curvature, targets, start, factor, num_rounds):
    """E||grad F(x_t)||^2 for t < T under the chain, float[T, B], of B quadratics.

    The selected client i moves x to ``a_i x + (1 - a_i) u_i``. By state the recursion keeps the
    first two moments of x, each times the probability of the state.

    Args:
      chain: the chain of selections, with S states.
      curvature: float[B], of all clients of a quadratic.
      targets: u, float[B, M].
      start: x_0, float[B].
      factor: a, float[B, M], what the local steps leave of the distance to u.
      num_rounds: T.
    """
    newest = np.argmax(chain.states, axis=1)  # selected in the last round
    remaining = factor[:, newest]  # [B, S]
    pull = (1 - remaining) * targets[:, newest]
    move = chain.transition.toarray()
    law = chain.stationary
    mean = start[:, None] * law
    second = start[:, None] ** 2 * law
    best = targets.mean(axis=1)
    gradients = []
    for _ in range(num_rounds):
        total = mean.sum(axis=1)
        square = second.sum(axis=1)
        gradients.append(curvature**2 * (square - 2 * best * total + best**2))
        old_mean = mean @ move
        old_second = second @ move
        mean = remaining * old_mean + pull * law
        second = remaining**2 * old_second + 2 * remaining * pull * old_mean
        second = second + pull**2 * law
    return np.array(gradients)


@pytest.mark.slow
@pytest.mark.parametrize('is_debiased', [False, True])
@pytest.mark.parametrize('separation', [1, 2])
def test_theorem_4_and_lemma_10_hold_on_random_quadratics(separation, is_debiased):
    """Five chains of 200 quadratics for each separation, FedAvg and known debiasing weights."""
    rng = np.random.default_rng(separation)
    for _ in range(5):
        weights = rng.uniform(0.5, 2, size=4)
        chain = analysis.minimum_separation_chain(weights, separation)
        lag = sun2025.least_lag(chain)
        nu = 1 / (4 * chain.marginal) if is_debiased else np.ones(4)
        largest = {'largest_weight': nu.max()}
        count = 200
        num_rounds = lag + 150
        steps = 3
        curvature = rng.uniform(0.3, 3, size=count)
        targets = rng.normal(size=(count, 4))
        start = rng.normal(size=count) * 2
        scale = np.zeros(count)
        rates = np.zeros(count)
        for k, smoothness in enumerate(curvature):
            scale[k] = sun2025.theorem4_scale_cap(
                smoothness=smoothness, lag=lag, **largest
            )
            rates[k] = sun2025.theorem4_rate(
                scale[k], smoothness=smoothness, local_steps=steps, **largest
            )
        factor = (1 - np.outer(rates * curvature, nu)) ** steps
        gradients = exact_gradients(
            chain, curvature, targets, start, factor, num_rounds
        )
        best = targets.mean(axis=1)
        reach = np.abs(np.column_stack([targets, start]) - best[:, None]).max(axis=1)
        # After very many rounds the bias is left, and a variance of the order of the rate.
        pull = (1 - factor) * chain.marginal
        limit = (pull * targets).sum(axis=1) / pull.sum(axis=1)
        limit_gradient = curvature**2 * (limit - best) ** 2
        for k in range(count):
            known = {
                'lag': lag,
                'smoothness': curvature[k],
                'initial_gap': 0.5 * curvature[k] * (start[k] - best[k]) ** 2,
                'dissimilarity': curvature[k] * np.abs(targets[k] - best[k]).max(),
                'remembered': sun2025.remembered_selection(chain, lag),
            }
            compute = sun2025.lemma10_terms
            if is_debiased:
                known |= largest
            else:
                compute = sun2025.theorem4_terms
                known['largest_gradient'] = curvature[k] * reach[k]
                known['marginal'] = chain.marginal
            bound = compute(scale[k], num_rounds=num_rounds, **known).total
            assert gradients[: num_rounds - lag, k].mean() <= bound
            limit_bound = compute(scale[k], num_rounds=10**12, **known).total
            assert limit_gradient[k] <= limit_bound


def test_lemma_10_without_weights_is_theorem_4_of_equal_clients():
    known = {
        'num_rounds': 500,
        'lag': 3,
        'smoothness': 2.0,
        'initial_gap': 3.0,
        'dissimilarity': 0.5,
        'remembered': 0.1,
    }
    theorem = sun2025.theorem4_terms(
        1e-3, largest_gradient=4.0, marginal=[0.25] * 4, **known
    )
    lemma = sun2025.lemma10_terms(1e-3, **known)
    np.testing.assert_allclose(lemma, theorem, rtol=1e-15)
    assert theorem.bias == 0


def test_debiasing_weights_divide_rates_exactly():
    known = {'smoothness': 4.0, 'lag': 3}
    cap = sun2025.theorem4_scale_cap(**known, largest_weight=2.0)
    np.testing.assert_allclose(cap, float(Fraction(1, 384 * 3 * 4 * 2)), rtol=1e-14)
    rate = sun2025.theorem4_rate(
        0.064, smoothness=4.0, local_steps=5, largest_weight=2.0
    )
    np.testing.assert_allclose(
        rate, float(Fraction(64, 1000 * 8 * 2 * 5 * 4)), rtol=1e-14
    )
    terms = sun2025.lemma10_terms(
        0.001,
        num_rounds=104,
        lag=4,
        smoothness=2.0,
        initial_gap=3.0,
        dissimilarity=0.5,
        remembered=0.125,
        largest_weight=1.5,
    )
    gamma = Fraction(1, 1000)
    square = Fraction(1, 4)
    weighted = 3
    by_rate = 3 + 6 * 16 + 1 + Fraction(3, 64)
    exact = (
        (32 * weighted * 3 / gamma + 16 * 4 * square) / 100,
        0,
        32 * weighted * square * (gamma * by_rate + gamma**2 / (16 * weighted)),
        8 * Fraction(1, 64) * square,
    )
    np.testing.assert_allclose(terms, [float(x) for x in exact], rtol=1e-12)


def test_rates_below_the_stated_one_break_the_printed_lemma():
    """Clients agree, the rate is nearly 0: the model stays, and the printed bound goes to 0."""
    chain = analysis.minimum_separation_chain([1.0, 1.0, 1.0], 1)
    lag = sun2025.least_lag(chain)
    scale = sun2025.theorem4_scale_cap(smoothness=1.0, lag=lag)
    rounds = 10**8
    rate = 1e-15
    assert rate <= sun2025.theorem4_rate(scale, smoothness=1.0, local_steps=1)
    stays = 1.0 * (1 - rate) ** (2 * rounds)  # at least this, in every round
    terms = sun2025.theorem4_terms(
        scale,
        num_rounds=rounds,
        lag=lag,
        smoothness=1.0,
        initial_gap=0.5,
        dissimilarity=0.0,
        largest_gradient=1.0,
        marginal=chain.marginal,
        remembered=sun2025.remembered_selection(chain, lag),
    )
    assert terms.total < 0.01 < 0.9 < stays


def test_terms_equal_exact_rationals():
    terms = sun2025.theorem4_terms(
        0.001,
        num_rounds=104,
        lag=4,
        smoothness=2.0,
        initial_gap=3.0,
        dissimilarity=0.5,
        largest_gradient=2.0,
        marginal=[0.25, 0.75],
        remembered=0.125,
    )
    gamma = Fraction(1, 1000)
    square = Fraction(1, 4)
    by_rate = 3 + 6 * 16 + 1 + Fraction(3, 64)
    exact = (
        (32 * 2 * 3 / gamma + 16 * 4 * square) / 100,
        (32 + 36 * square) * 1,
        32 * 2 * square * (gamma * by_rate + gamma**2 / 32),
        8 * Fraction(1, 64) * square,
    )
    np.testing.assert_allclose(terms, [float(x) for x in exact], rtol=1e-12)


def test_clients_that_are_never_selected_are_refused():
    with refusals.names('marginal'):
        sun2025.theorem4_terms(
            0.001,
            num_rounds=104,
            lag=4,
            smoothness=2.0,
            initial_gap=3.0,
            dissimilarity=0.5,
            largest_gradient=2.0,
            marginal=[0.0, 1.0],
            remembered=0.125,
        )
