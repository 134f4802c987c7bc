"""Link chains against laws of paths that follow from the definitions of the patterns."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from fedjax_links import analysis
from fedjax_links.analysis import link_chains
from fedjax_links.analysis.link_chains import chains
from tests import refusals
from tests.analysis import enumeration


def path_law(chain, num_rounds):
    """Returns ``{masks of the first rounds: probability}``, from the listed modes of a chain."""
    modes = chain.modes()
    transition = modes.transition.toarray()
    law = {}
    for mode, prob in enumerate(modes.start):
        key = (tuple(modes.masks[mode]),)
        states = law.setdefault(key, np.zeros(len(modes.start)))
        states[mode] += prob
    for _ in range(num_rounds - 1):
        longer = {}
        for path, states in law.items():
            probs = states @ transition
            for mode in np.flatnonzero(probs):
                key = (*path, tuple(modes.masks[mode]))
                after = longer.setdefault(key, np.zeros(len(modes.start)))
                after[mode] += probs[mode]
        law = longer
    return {path: states.sum() for path, states in law.items() if states.sum() > 0}


def assert_same_law(result, expected):
    for path in result.keys() | expected.keys():
        assert abs(result.get(path, 0.0) - expected.get(path, 0.0)) < 1e-12, path


def law_of_histories(num_clients, num_rounds, factor):
    """Returns ``{masks of the first rounds: probability}`` as products of conditional ones.

    ``factor(past, mask)`` is the probability of a mask, a tuple of N flags, given those before it.
    """
    masks = list(itertools.product([False, True], repeat=num_clients))
    law = {}
    for path in itertools.product(masks, repeat=num_rounds):
        prob = 1.0
        for t in range(num_rounds):
            prob *= factor(path[:t], path[t])
        if prob > 0:
            law[path] = prob
    return law


def test_markov_chains_are_two_state_chains_by_client():
    probs = [0.5, 0.3]
    stars = [0.1, 0.9]

    def factor(past, mask):
        result = 1.0
        for client, is_up in enumerate(mask):
            p = probs[client]
            rise = min(stars[client], p / (1 - p))
            fall = min(1.0, stars[client] * (1 - p) / p)
            up = p
            if past:
                up = 1 - fall if past[-1][client] else rise
            result *= up if is_up else 1 - up
        return result

    chain = link_chains.markov(probs, stars)
    assert_same_law(path_law(chain, 3), law_of_histories(2, 3, factor))


def test_markov_moves_with_the_rates_of_the_round_it_enters():
    probs = np.array([[0.5], [0.2], [0.8]])

    def factor(past, mask):
        p = probs[len(past) % 3, 0]
        rise = 0.1
        fall = 0.1 * (1 - p) / p
        # The first round enters from the stationary state of round 0, whose probability is 0.5.
        before = float(past[-1][0]) if past else 0.5
        up = before * (1 - fall) + (1 - before) * rise
        return up if mask[0] else 1 - up

    chain = link_chains.markov(probs, 0.1)
    assert_same_law(path_law(chain, 4), law_of_histories(1, 4, factor))


def test_a_correlation_time_is_that_of_the_autocorrelation():
    modes = link_chains.markov([0.3], correlation_time=4.0).modes()
    up = modes.masks[:, 0].astype(float)
    both = modes.stationary * up @ modes.transition @ up
    correlation = (both - 0.3**2) / (0.3 * 0.7)
    assert abs(correlation - np.exp(-1 / 4)) < 1e-12


@pytest.mark.parametrize('design', ['product', 'successive', 'sum'])
def test_minimum_separation_draws_from_clients_that_do_not_rest(design):
    weights = np.array([4.0, 2.0, 1.0, 1.0])

    def factor(past, mask):
        resting = set(np.flatnonzero(past[-1])) if past else set()
        selectable = [i for i in range(4) if i not in resting]
        members = np.flatnonzero(mask)
        if len(members) != 2 or not set(members) <= set(selectable):
            return 0.0
        law = enumeration.one_round(weights[selectable], 2, design)
        return law[tuple(selectable.index(i) for i in members)]

    chain = link_chains.minimum_separation(
        weights, separation=1, cohort_size=2, design=design
    )
    assert_same_law(path_law(chain, 3), law_of_histories(4, 3, factor))


def test_minimum_separation_has_its_stationary_closed_form():
    weights = [8.0, 4.0, 2.0, 1.0, 1.0]
    for separation in range(4):
        modes = link_chains.minimum_separation(weights, separation=separation).modes()
        expected = analysis.minimum_separation_stationary(weights, separation)
        np.testing.assert_allclose(modes.stationary @ modes.masks, expected, atol=1e-12)


def test_groups_of_minimum_separation_take_part_together():
    chain = link_chains.minimum_separation([2.0, 1.0], separation=1, groups=[0, 1, 0])
    masks = set(path_law(chain, 1))
    assert masks == {((True, False, True),), ((False, True, False),)}


def test_periodic_groups_cut_the_first_turn():
    chain = link_chains.periodic_groups([0, 0, 1], active_rounds=2, cohort_size=1)
    modes = chain.modes()
    law = modes.start
    rates = []
    for _ in range(5):
        rates.append(law @ modes.masks)
        law = law @ modes.transition
    # The turn of the first group ends after one round or two.
    first = np.array([1.0, 0.5, 0.0, 0.5, 1.0])
    expected = np.stack([first / 2, first / 2, 1 - first], axis=1)
    np.testing.assert_allclose(rates, expected, atol=1e-12)


def test_shared_shocks_stop_groups_together():
    links = link_chains.independent([0.5, 0.4, 0.3])
    chain = link_chains.shared_shocks(
        links, [0, 0, 1], up_rate=0.2, down_rate=[0.3, 0.1]
    )
    modes = chain.modes()
    shares = np.array([0.4, 0.4, 2 / 3])
    np.testing.assert_allclose(
        modes.stationary @ modes.masks, shares * [0.5, 0.4, 0.3], atol=1e-12
    )
    np.testing.assert_allclose(modes.probs[0], shares * [0.5, 0.4, 0.3], atol=1e-12)
    ups = modes.masks.astype(float)
    both = modes.stationary @ (ups[:, 0] * ups[:, 1])
    assert abs(both - 0.4 * 0.5 * 0.4) < 1e-12
    later = (modes.stationary * ups[:, 0]) @ modes.transition @ ups[:, 1]
    expected = 0.5 * 0.4 * (0.4**2 + 0.4 * 0.6 * (1 - 0.2 - 0.3))
    assert abs(later - expected) < 1e-12


def test_semi_markov_has_the_autocorrelation_of_its_laws():
    up = [1.0, 0.7, 0.2]
    down = [1.0, 1.0, 0.5]
    modes = link_chains.semi_markov(up, down).modes()
    is_up = modes.masks[:, 0].astype(float)
    prob = analysis.semi_markov_stationary([up], [down])[0]
    assert abs(modes.stationary @ is_up - prob) < 1e-12
    expected = analysis.semi_markov_autocorrelation(up, down, 5)
    law = modes.stationary * is_up
    for lag in range(6):
        correlation = (law @ is_up - prob**2) / (prob * (1 - prob))
        assert abs(correlation - expected[lag]) < 1e-12
        law = law @ modes.transition


def test_b_min_sep_is_a_semi_markov_link_with_a_shifted_time():
    """A down time is two rounds of rest and a geometric number of further ones, maybe none.

    The geometric law is cut after 39 rounds, where 0.5^39 is left.
    """
    prob = 0.5
    separation = 3
    down = np.concatenate([np.ones(separation - 1), (1 - prob) ** np.arange(1, 40)])
    result = path_law(link_chains.b_min_sep([prob], separation), 5)
    expected = path_law(link_chains.semi_markov([1.0], down), 5)
    for path in result.keys() | expected.keys():
        assert abs(result.get(path, 0.0) - expected.get(path, 0.0)) < 1e-9


@pytest.mark.parametrize('reset', [False, True])
def test_cycles_have_one_block_per_cycle_at_each_offset(reset):
    chain = link_chains.cyclic([0.5, 0.25], cycle_length=4, reset=reset)

    def masks(offset, active):
        return [(t - offset) % 4 < active for t in range(4)]

    # Up two of four rounds at offset 0 or 1; one of four at 0, 1 or 2. Each cycle ends down.
    cycles = []
    for first, second in itertools.product(range(2), range(3)):
        cycles.append(tuple(zip(masks(first, 2), masks(second, 1), strict=True)))
    expected = {}
    if reset:
        for one, other in itertools.product(cycles, repeat=2):
            expected[one + other] = 1 / 36
    else:
        for cycle in cycles:
            expected[cycle + cycle] = 1 / 6
    assert_same_law(path_law(chain, 8), expected)


def test_a_matrix_with_one_stationary_law_starts_there():
    chain = link_chains.from_modes([[0.9, 0.1], [0.3, 0.7]], [[1, 0], [0, 1]])
    np.testing.assert_allclose(chain.start, [0.75, 0.25], atol=1e-12)


def test_a_sparse_matrix_stays_as_it_was():
    """It may store zeros, which the chain leaves out."""
    entries = np.array([0.5, 0.5, 0.0, 1.0]), np.array([0, 1, 0, 1])
    matrix = sparse.csr_array((*entries, np.array([0, 2, 4])), shape=(2, 2))
    chain = link_chains.from_modes(matrix, [[1], [0]], start=[1.0, 0.0])
    assert chain.transition.nnz == 3
    assert matrix.nnz == 4
    np.testing.assert_array_equal(matrix.indices, [0, 1, 0, 1])


SUPPORTS_OF_A_ROW = [row for row in itertools.product([0, 1], repeat=3) if any(row)]


def test_a_start_is_needed_where_stationary_laws_differ():
    """All 7^3 chains of three modes by their possible transitions, each of equal probability.

    The null space of ``law (P - I) = 0`` has a dimension for each class of modes.
    """
    num_unique = 0
    for rows in itertools.product(SUPPORTS_OF_A_ROW, repeat=3):
        transition = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
        vectors, values, _ = np.linalg.svd(transition - np.eye(3))
        num_laws = int(np.sum(values < 1e-9))
        if num_laws > 1:
            with refusals.names('start', f'{num_laws} classes of modes'):
                link_chains.from_modes(transition, np.eye(3))
        else:
            num_unique += 1
            law = vectors[:, -1] / vectors[:, -1].sum()
            chain = link_chains.from_modes(transition, np.eye(3))
            np.testing.assert_allclose(chain.start, law, atol=1e-12)
    assert 0 < num_unique < 343


def test_refusals():
    with refusals.names('probs'):
        link_chains.markov([1.5])
    with refusals.names('up_rate'):
        link_chains.markov([0.5], 0.1, correlation_time=3.0)
    with refusals.names('transition', 'got 0.9 in row 0'):
        link_chains.from_modes([[0.5, 0.4], [0, 1]], [[1], [0]])
    with refusals.names('transition', 'at least 0', '-0.5'):
        link_chains.from_modes([[1.5, -0.5], [0, 1]], [[1], [0]])
    with refusals.names('start'):
        link_chains.from_modes(np.eye(2), [[1], [0]])
    with refusals.names('groups'):
        link_chains.periodic_groups([0, 2], active_rounds=1, cohort_size=1)
    with refusals.names('cohort_size', '100,000'):
        link_chains.periodic_groups(
            np.repeat([0, 1], 50), active_rounds=10, cohort_size=10
        )
    with refusals.names('active_rounds', '3,000,000,000', '1000000000 rounds'):
        link_chains.periodic_groups([0, 0, 1], active_rounds=10**9, cohort_size=1)
    with refusals.names('down', 'one row, or 2 like `up`', 'got 3 rows'):
        link_chains.semi_markov(np.ones((2, 1)), np.ones((3, 1)))
    with refusals.names('up', '[G, L]', 'got (1, 1, 2)'):
        link_chains.semi_markov(np.ones((1, 1, 2)), [1.0])
    with refusals.names('down', '[G, L]', 'got (1, 1, 2)'):
        link_chains.semi_markov([1.0], np.ones((1, 1, 2)))
    with refusals.names('cycle_length', 'memory'):
        link_chains.cyclic([0.5], cycle_length=200_000)
    with refusals.names('groups', '12', '16'):
        links = link_chains.independent(np.full(16, 0.5))
        link_chains.shared_shocks(links, np.arange(16), up_rate=0.1, down_rate=0.3)
    with refusals.names('chain', '1,771,561 modes', '6 clients'):  # 11^6
        link_chains.b_min_sep(np.linspace(0.1, 0.9, 6), 10).modes()


def test_too_many_transitions_of_few_modes_are_refused(monkeypatch):
    monkeypatch.setattr(chains, 'MAX_TRANSITIONS', 4**6)
    link_chains.markov(np.linspace(0.1, 0.9, 6)).modes()
    with refusals.names('chain', '4,096 transitions', '128 modes', '7 clients'):
        link_chains.markov(np.linspace(0.1, 0.9, 7)).modes()
