"""Laws of a cohort by definition; the chain against windows, closed forms and simulated runs."""

import math

import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis
from fedjax_links.analysis import long_run_laws
from tests.analysis import enumeration
from tests.refusals import refuses

DESIGNS = ['product', 'successive', 'sum']


@pytest.mark.parametrize('design', DESIGNS)
@pytest.mark.parametrize('size', [1, 2, 3, 5])
def test_law_equals_its_definition(rng, design, size):
    weights = rng.uniform(0.05, 1.0, size=5)
    law = analysis.cohort_law(weights, size, design)
    expected = enumeration.one_round(weights, size, design)
    assert [tuple(cohort) for cohort in law.cohorts] == sorted(expected)
    np.testing.assert_allclose(
        law.probs, [expected[tuple(c)] for c in law.cohorts], rtol=1e-12
    )


def test_sum_design_is_proportional_to_the_sum_of_weights():
    law = analysis.cohort_law([1.0, 2.0, 5.0], 2, 'sum')
    np.testing.assert_allclose(law.probs, np.array([3.0, 6.0, 7.0]) / 16.0, rtol=1e-14)


def test_designs_agree_for_a_single_client_and_differ_for_two():
    weights = [1.0, 2.0, 5.0]
    singles = [analysis.cohort_law(weights, 1, design).probs for design in DESIGNS]
    for probs in singles:
        np.testing.assert_allclose(probs, np.array(weights) / 8.0, rtol=1e-14)
    pairs = [analysis.cohort_law(weights, 2, design).probs[0] for design in DESIGNS]
    assert len({round(value, 6) for value in pairs}) == 3


@pytest.mark.parametrize('design', DESIGNS)
def test_extreme_weights_stay_finite(design):
    law = analysis.cohort_law([1e-250, 1.0, 1e250, 3e-200], 2, design)
    assert np.all(np.isfinite(law.probs))
    np.testing.assert_allclose(law.probs.sum(), 1.0, rtol=1e-14)


def test_errors_of_a_design():
    with refuses(
        "`design` must be one of 'product', 'successive', 'sum', got 'gumbel'."
    ):
        analysis.cohort_law([1.0, 2.0], 1, 'gumbel')
    with refuses('`cohort_size` must allow 1 to 200000 cohorts of 2 clients, got 3.'):
        analysis.cohort_law([1.0, 2.0], 3)
    with refuses('`cohort_size` must allow 1 to 200000 cohorts of 100 clients, got 5.'):
        analysis.cohort_law(np.ones(100), 5)


def num_states(clients, separation, cohort):
    waiting = clients - separation * cohort
    return math.factorial(clients) // (
        math.factorial(cohort) ** separation * math.factorial(waiting)
    )


@pytest.mark.parametrize(
    'clients, separation, cohort',
    [(5, 0, 2), (5, 3, 1), (7, 1, 3), (6, 1, 2), (9, 4, 1)],  # the last has many states
)
def test_product_design_has_the_closed_form(rng, clients, separation, cohort):
    weights = rng.uniform(0.1, 1.0, size=clients)
    chain = analysis.minimum_separation_chain(weights, separation, cohort)
    assert len(chain.states) == num_states(clients, separation, cohort)
    np.testing.assert_allclose(
        chain.marginal,
        analysis.minimum_separation_stationary(weights, separation, cohort),
        rtol=1e-11,
    )


@pytest.mark.parametrize('design', DESIGNS)
@pytest.mark.parametrize(
    'clients, separation, cohort', [(5, 2, 1), (6, 1, 2), (7, 1, 3), (7, 2, 2)]
)
def test_every_design_equals_the_chain_over_windows(
    rng, design, clients, separation, cohort
):
    weights = rng.uniform(0.1, 1.0, size=clients)
    chain = analysis.minimum_separation_chain(weights, separation, cohort, design)
    expected = enumeration.separation_marginal(weights, separation, cohort, design)
    np.testing.assert_allclose(chain.marginal, expected, rtol=1e-9)


def test_designs_differ_beyond_one_client():
    weights = np.arange(1.0, 7.0)
    laws = [
        analysis.minimum_separation_chain(weights, 1, 2, d).marginal for d in DESIGNS
    ]
    assert min(np.abs(laws[0] - laws[1]).sum(), np.abs(laws[0] - laws[2]).sum()) > 1e-3


@pytest.mark.parametrize('design', DESIGNS)
def test_fields_are_consistent(rng, design):
    weights = rng.uniform(0.1, 1.0, size=6)
    chain = analysis.minimum_separation_chain(weights, [0, 1, 2, 1, 0, 2], 2, design)
    dense = chain.transition.toarray()
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(chain.stationary @ dense, chain.stationary, atol=1e-14)
    np.testing.assert_allclose(chain.selection.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(chain.marginal.sum(), 1.0, rtol=1e-13)
    assert np.all(chain.selection[chain.states > 0] == 0.0)
    # A selected client waits its own separation, the others one round less than before.
    waits = np.array([0, 1, 2, 1, 0, 2])
    for source, target in zip(*dense.nonzero(), strict=True):
        before, after = chain.states[[source, target]]
        selected = after != np.maximum(before - 1, 0)
        assert selected.sum() <= 2
        np.testing.assert_array_equal(after[selected], waits[selected])
        assert not before[selected].any()
    # The law of the next round is that of the transitions, where a selection shows in the state.
    selects = (chain.states == waits) & (waits > 0)  # by the state after the selection
    shown = dense @ selects
    np.testing.assert_allclose(
        2 * chain.selection[:, waits > 0], shown[:, waits > 0], atol=1e-14
    )


def test_one_separation_per_client_equals_the_common_one(rng):
    weights = rng.uniform(0.1, 1.0, size=5)
    common = analysis.minimum_separation_chain(weights, 2)
    listed = analysis.minimum_separation_chain(weights, np.full(5, 2))
    np.testing.assert_array_equal(common.stationary, listed.stationary)


@pytest.mark.parametrize('clients, cohort', [(4, 1), (6, 2)])
def test_cyclic_participation_is_uniform(clients, cohort):
    separation = clients // cohort - 1
    chain = analysis.minimum_separation_chain(
        np.arange(1.0, clients + 1), separation, cohort
    )
    np.testing.assert_allclose(chain.marginal, 1.0 / clients, rtol=1e-12)
    np.testing.assert_allclose(chain.stationary.sum(), 1.0, rtol=1e-12)


def test_cyclic_order_has_the_law_of_the_first_pass():
    """With R = N - 1 the first pass fixes the order; its law is that of successive draws."""
    weights = np.array([1.0, 2.0, 4.0])
    chain = analysis.minimum_separation_chain(weights, 2)
    after_first_pass = {}
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        prob = 1.0
        left = 7.0
        for client in order:
            prob *= weights[client] / left
            left -= weights[client]
        after_first_pass[order] = prob
    clockwise = sum(
        after_first_pass[order] for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    )
    results = {
        tuple(state): mass
        for state, mass in zip(chain.states, chain.stationary, strict=True)
    }
    assert sum(
        results[state] for state in ((0, 1, 2), (2, 0, 1), (1, 2, 0))
    ) == pytest.approx(clockwise, rel=1e-12)


MANY_STATES = {
    'a separation per client': (np.arange(1.0, 12.0), [1, 2, 3] * 3 + [1, 2], 2),
    'weights far apart': (10.0 ** -np.arange(9.0), [4] * 9, 1),
    'every order for ever': (np.arange(1.0, 8.0), [6] * 7, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    'weights, waits, cohort', MANY_STATES.values(), ids=MANY_STATES
)
def test_many_states_followed_have_the_law_of_the_linear_system(
    monkeypatch, weights, waits, cohort
):
    def law():
        chain = analysis.minimum_separation_chain(
            weights, waits, cohort, max_states=15_000
        )
        return chain.stationary

    followed = law()
    assert len(followed) > long_run_laws._MAX_STATES_SOLVED
    monkeypatch.setattr(long_run_laws, '_MAX_STEPS', 1)  # too few to stand still
    np.testing.assert_allclose(followed, law(), rtol=1e-9, atol=1e-15)


def test_weights_too_far_apart_for_float64_are_refused():
    message = '`weights` must have probabilities that float64 can tell apart'
    with pytest.raises(ValueError, match=message):
        analysis.minimum_separation_chain([1.0, 2.0, 3.0, 4.0, 5.0, 1e-16], 4)


def test_chain_without_memory_has_one_state():
    chain = analysis.minimum_separation_chain([1.0, 2.0, 3.0], 0)
    assert chain.states.shape == (1, 3)
    np.testing.assert_allclose(chain.marginal, [1 / 6, 1 / 3, 1 / 2], rtol=1e-14)


@pytest.mark.statistical
def test_simulated_run_agrees(rng):
    """Successive design, a separation per client: t-tests on batch means of 30,000 rounds.

    Five clients at a two-sided level of 1e-6 each: false alarms below 1e-5.
    """
    weights = np.array([1.0, 2.0, 3.0, 0.5, 1.5])
    waits = np.array([0, 1, 1, 0, 0])
    chain = analysis.minimum_separation_chain(weights, waits, 2, 'successive')
    masks = enumeration.simulate_separation(rng, weights, waits, 2, 30_000)[100:]
    estimate = analysis.effective_weights(masks=masks)
    scores = np.abs(estimate.weights - chain.marginal) / estimate.standard_errors
    assert np.all(scores < stats.t.isf(5e-7, estimate.degrees_of_freedom))


ERRORS = [
    (
        lambda: analysis.minimum_separation_chain(np.ones(20), 3),
        '`max_states` must cover every state, got 5000.',
    ),
    (
        lambda: analysis.minimum_separation_chain([1.0, 2.0, 3.0], 1, 2),
        '`separation` must leave `cohort_size` 2 of 3 clients selectable in every round, '
        'got [1, 1, 1].',
    ),
    (
        lambda: analysis.minimum_separation_chain([1.0, 2.0, 3.0], [1, 2], 1),
        '`separation` must be an integer of at least 0, or one per client, got [1, 2].',
    ),
    (
        lambda: analysis.minimum_separation_chain([1.0, 2.0], 0.5),
        '`separation` must be an integer of at least 0, or one per client, got 0.5.',
    ),
    (
        lambda: analysis.minimum_separation_chain([1.0, 2.0], 0, 1, 'prod'),
        "`design` must be one of 'product', 'successive', 'sum', got 'prod'.",
    ),
    (
        lambda: analysis.cohort_law(np.ones(12), 11, 'successive'),
        '`cohort_size` must be at most 10 for successive draws, got 11.',
    ),
]


@pytest.mark.parametrize('call, message', ERRORS)
def test_errors(call, message):
    with refuses(message):
        call()
