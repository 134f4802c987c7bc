"""Moments of links between clients against all edges listed, and what relays and codes cost."""

import functools
import itertools

import numpy as np
import pytest
from scipy import optimize

from fedjax_links import analysis
from fedjax_links.analysis import peer_links
from fedjax_links.links import graphs
from tests import refusals
from tests.analysis import enumeration
from tests.reference import limits, peer_loops
from tests.refusals import refuses
from tests.tiers import cases

GRAPHS = {
    'ring': graphs.ring(6),
    'ring of four': graphs.ring(5, 4),
    'complete': graphs.complete(4),
    'cube': graphs.from_edges(
        8, [(i, i ^ bit) for i in range(8) for bit in (1, 2, 4) if i & bit]
    ),
    'tree': graphs.from_edges(7, [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]),
    'no edges': graphs.from_edges(3, []),
}


def case(name):
    """Neighbours [N, K], edge probabilities [N, K], and all pairs (Metropolis matrix, probability).

    There is a pair for each state of the edges.
    """
    graph = GRAPHS[name]
    by_edge = np.random.default_rng(3).uniform(0.1, 0.9, graph.num_edges)
    probs = np.append(by_edge, 0.0)[graph.edge_ids]
    pairs = np.zeros((graph.num_edges, 2), int)
    for i, j in np.argwhere(graph.edge_ids < graph.num_edges):
        pairs[graph.edge_ids[i, j]] = i, graph.neighbours[i, j]
    states = []
    for bits in itertools.product([False, True], repeat=graph.num_edges):
        up = np.zeros((graph.num_clients,) * 2, bool)
        for (i, j), bit in zip(pairs, bits, strict=True):
            up[i, j] = up[j, i] = bit
        states.append(
            (peer_loops.metropolis(up), np.prod(np.where(bits, by_edge, 1 - by_edge)))
        )
    return graph.neighbours, probs, states


@pytest.mark.parametrize('name', GRAPHS)
def test_first_and_second_moments_against_all_edges(name):
    neighbours, probs, states = case(name)
    mean = sum(chance * matrix for matrix, chance in states)
    result = analysis.expected_metropolis_matrix(neighbours, probs)
    np.testing.assert_allclose(result, mean, rtol=0, atol=1e-12)
    apply = analysis.metropolis_map(neighbours, probs)
    size = len(neighbours)
    for seed in range(3):
        moment = np.random.default_rng(seed).normal(size=(size, size))
        expected = sum(chance * matrix @ moment @ matrix for matrix, chance in states)
        np.testing.assert_allclose(apply(moment), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('name', GRAPHS)
def test_rounds_of_s2s_against_all_links(name):
    neighbours, edge_probs, states = case(name)
    size = len(neighbours)
    probs = np.linspace(0.15, 0.8, size)
    moment = np.random.default_rng(1).normal(size=(size, size))
    moment = moment @ moment.T
    between = sum(chance * matrix @ moment @ matrix for matrix, chance in states)

    def received(mask):
        return enumeration.mixing(mask) @ between @ enumeration.mixing(mask)

    result = analysis.semi_decentralised_map(probs, neighbours, edge_probs)(moment)
    np.testing.assert_allclose(
        result, enumeration.expected(probs, received), rtol=0, atol=1e-12
    )
    mixing = enumeration.expected(probs, enumeration.mixing)
    twice = sum(chance * matrix @ mixing @ matrix for matrix, chance in states)
    values = np.linalg.eigvalsh(twice)
    rate = analysis.semi_decentralised_rate(probs, neighbours, edge_probs)
    assert abs(rate - values[-2]) < 1e-12


def test_without_edges_it_is_implicit_gossip():
    probs = np.linspace(0.1, 0.9, 6)
    rate = analysis.semi_decentralised_rate(probs, graphs.ring(6).neighbours, 0.0)
    assert abs(rate - analysis.mixing_rate(probs)) < 1e-12


@pytest.mark.parametrize('seed', range(3))
def test_the_metropolis_matrix_is_doubly_stochastic(seed):
    up = np.triu(np.random.default_rng(seed).random((5, 7, 7)) < 0.4, 1)
    up |= up.transpose(0, 2, 1)
    matrix = analysis.metropolis_matrix(up)
    np.testing.assert_allclose(
        matrix, [peer_loops.metropolis(each) for each in up], atol=1e-15
    )
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-15)
    assert (matrix >= 0).all()


# Relays.


def ring_probs(size, prob):
    """Q as a matrix, of a ring."""
    result = np.zeros((size, size))
    clients = np.arange(size)
    result[clients, (clients + 1) % size] = result[(clients + 1) % size, clients] = prob
    return result


def test_the_printed_variances_come_out():
    """S of 20.5 with relays over a ring, 56.6 without, for p from .05 to .9."""
    probs = limits.MIXED_PROBS
    edges = ring_probs(20, 0.5)
    alone = analysis.colrel_variance(probs, edges, np.diag(1 / probs))
    assert abs(alone - ((1 - probs) / probs).sum()) < 1e-10
    assert abs(alone - 56.6) < 0.1
    weights = analysis.colrel_weights(probs, edges)
    assert abs(analysis.colrel_variance(probs, edges, weights) - 20.5) < 0.1


@pytest.mark.parametrize('seed', cases(range(4), [1, 3]))
def test_weights_are_unbiased_and_no_others_have_less_variance(seed):
    rng = np.random.default_rng(seed)
    size = 5
    probs = rng.uniform(0.2, 0.9, size)
    edges = np.triu(rng.uniform(0, 1, (size, size)), 1)
    edges[rng.random((size, size)) < 0.4] = 0  # pairs without an edge
    edges = edges + edges.T
    weights = analysis.colrel_weights(probs, edges)
    relay_prob = edges + np.eye(size)

    def coefficients(alpha):
        """Mean coefficients of the clients in the server's sum: ``sum_i p_i q_ji alpha_ij``."""
        return (probs[:, None] * relay_prob.T * alpha).sum(axis=0)

    np.testing.assert_allclose(coefficients(weights), 1, atol=1e-10)
    assert (weights >= 0).all()

    def variance(alpha):
        return analysis.colrel_variance(probs, edges, alpha.reshape(size, size))

    unbiased = {
        'type': 'eq',
        'fun': lambda alpha: coefficients(alpha.reshape(size, size)) - 1,
    }
    other = optimize.minimize(
        variance,
        np.diag(1 / probs).ravel(),
        bounds=[(0, None)] * size**2,
        constraints=[unbiased],
        method='SLSQP',
        options={'maxiter': 500, 'ftol': 1e-12},
    )
    assert variance(weights.ravel()) <= other.fun + 1e-7


def test_the_variance_is_that_of_what_the_server_adds_up():
    """Sum of the coefficients' variances and covariances, over all links of three clients."""
    probs = np.array([0.3, 0.6, 0.8])
    edges = np.zeros((3, 3))
    edges[0, 1] = edges[1, 0] = 0.4
    edges[1, 2] = edges[2, 1] = 0.7
    weights = np.random.default_rng(0).random((3, 3))
    first = 0.0
    second = 0.0
    for mask, chance in enumeration.active_sets(probs):
        for one, two in itertools.product([False, True], repeat=2):
            up = np.eye(3, dtype=bool)
            up[0, 1] = up[1, 0] = one
            up[1, 2] = up[2, 1] = two
            weight = chance * (0.4 if one else 0.6) * (0.7 if two else 0.3)
            total = (weights * up)[mask].sum()
            first = first + weight * total
            second = second + weight * total**2
    assert (
        abs(analysis.colrel_variance(probs, edges, weights) - (second - first**2))
        < 1e-12
    )


# Codes.


@pytest.mark.parametrize('tolerance', [0, 1, 2])
def test_the_chance_of_a_step_against_all_links(tolerance):
    """All states of the five uplinks, and of the edges from i to i + 1, ..., i + r."""
    size = 5
    p = 0.8
    q = 0.9
    num_edges = size * tolerance
    states = np.array(list(itertools.product([False, True], repeat=size + num_edges)))
    up_probs = np.repeat([p, q], [size, num_edges])
    law = np.where(states, up_probs, 1 - up_probs)
    uplinks = states[:, :size]
    edges = states[:, size:].reshape(len(states), size, tolerance)
    num_sums = (uplinks & edges.all(axis=2)).sum(axis=1)
    total = law.prod(axis=1)[num_sums >= size - tolerance].sum()
    assert abs(analysis.cogc_probability(size, p, q, tolerance) - total) < 1e-12


def test_refusals():
    with refuses('`edges` must have shape [..., N, N], got shape [2].'):
        analysis.metropolis_matrix([True, False])
    with refuses(
        '`edges` must be symmetric, got an edge at client 2 that is none at client 1.'
    ):
        analysis.metropolis_matrix([[[0, 0, 0]] * 3, [[0, 1, 0], [1, 0, 0], [0, 1, 0]]])
    with refuses(
        '`edges` must have an empty diagonal, got an edge of client 0 with itself.'
    ):
        analysis.metropolis_matrix([[True]])
    with refusals.names('probs'):
        analysis.colrel_weights([0.0, 0.5], [[1, 0], [0, 1]])
    with refusals.names('edge_probs'):
        analysis.colrel_weights([0.5, 0.5], [[1, 0.3], [0.2, 1]])
    with refusals.names('edge_probs', 'symmetric', '0.3', '0.2'):
        analysis.colrel_variance([0.5, 0.5], [[1, 0.3], [0.2, 1]], np.eye(2))
    with refusals.names('tolerance'):
        analysis.cogc_probability(5, 0.5, 0.5, -1)
    with refusals.names('tolerance'):
        analysis.cogc_probability(5, 0.5, 0.5, 5)


@pytest.mark.parametrize(
    'law', [analysis.semi_decentralised_rate, peer_links.semi_decentralised_map]
)
def test_there_is_an_uplink_for_each_client_of_the_graph(law):
    ring = [[1, 3], [0, 2], [1, 3], [0, 2]]
    law([0.2] * 4, ring, 0.5)
    with refuses(
        '`probs` must have one entry for each of the 4 clients of the graph, got shape [3].'
    ):
        law([0.2] * 3, ring, 0.5)


GRAPH_FUNCTIONS = [
    ('probs', analysis.expected_metropolis_matrix),
    ('probs', analysis.metropolis_map),
    ('edge_probs', functools.partial(analysis.semi_decentralised_rate, [0.2, 0.2])),
    ('edge_probs', functools.partial(peer_links.semi_decentralised_map, [0.2, 0.2])),
]


@pytest.mark.parametrize('argument, function', GRAPH_FUNCTIONS)
def test_an_error_names_the_argument_of_the_edges(argument, function):
    with refuses(f'`{argument}` must lie in [0, 1], got 1.5.'):
        function([[1], [0]], 1.5)
    requirement = 'have one number for each edge, the same at both ends'
    got = '0.2 and 0.5 for clients 0 and 1'
    with refuses(f'`{argument}` must {requirement}, got {got}.'):
        function([[1], [0]], [[0.2], [0.5]])
    with refuses(f'`{argument}` must {requirement}, got {got}.'):
        function([[1, 1], [0, 0]], [[0.2, 0.5], [0.2, 0.5]])


@pytest.mark.parametrize('argument, function', GRAPH_FUNCTIONS)
def test_an_edge_with_one_end_and_an_empty_graph_are_refused(argument, function):
    requirement = 'name each edge at both of its ends'
    with refuses(f'`neighbours` must {requirement}, got 1 at client 0 alone.'):
        function([[1], [1]], 0.0)
    with refuses('`neighbours` must have a row for each client, got int64[0, 1].'):
        function(np.zeros((0, 1), int), 0.5)


def test_an_edge_that_a_client_names_twice_counts_once():
    once = analysis.expected_metropolis_matrix([[1], [0]], 0.3)
    twice = analysis.expected_metropolis_matrix([[1, 1], [0, 0]], 0.3)
    np.testing.assert_array_equal(twice, once)
