"""Methods with links between clients against their listings, on three histories of links each."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import (
    algorithms,
    analysis,
    base,
    local_training,
    participation,
    problems,
    simulation,
)
from fedjax_links.clients import peers
from fedjax_links.links import graphs
from tests import refusals
from tests.reference import harness, limits, peer_links, peer_loops, quadratic_loops
from tests.tiers import cases

SEEDS = range(3)
TIGHT = {'rtol': 0, 'atol': 1e-12}


def histories(make=quadratic_loops.hard_setting, *, prob=0.5, uplinks=None):
    """Three settings that start at zero, and their links between clients in two forms.

    Returns:
      The settings; by setting the edges as matrices, bool[T, N, N]; by setting what `replay` takes.
    """
    settings = []
    dense = []
    between = []
    for seed in SEEDS:
        setting = make(seed)._replace(server_lr=1.0, start=np.zeros(3))
        num_rounds, num_clients = setting.mask.shape
        if uplinks is not None:
            mask = np.random.default_rng(seed).random(setting.mask.shape) < uplinks
            setting = setting._replace(mask=mask)
        neighbours, edges, matrices = peer_links.history(
            num_clients, num_rounds, seed, prob
        )
        settings.append(setting)
        dense.append(matrices)
        between.append({'neighbours': neighbours, 'edges': edges})
    return settings, dense, between


def test_gossip_follows_the_listing(x64):
    settings, dense, between = histories()
    paths, models = zip(*map(peer_loops.gossip, settings, dense), strict=True)
    states = harness.follow_many(settings, algorithms.gossip, paths, links=between)
    for state, expected in zip(states, models, strict=True):
        np.testing.assert_allclose(state.clients, expected, **TIGHT)


@pytest.mark.parametrize('period', [1, 3])
@pytest.mark.parametrize('name', ['s2s', 's2a'])
def test_semi_decentralised_follows_the_listing(x64, name, period):
    settings, dense, between = histories()
    make = getattr(algorithms, name)
    results = [
        peer_loops.semi_decentralised(*each, period, to_all=name == 's2a')
        for each in zip(settings, dense, strict=True)
    ]
    paths, models = zip(*results, strict=True)
    states = harness.follow_many(
        settings, make, paths, links=between, server_every=period
    )
    for state, expected in zip(states, models, strict=True):
        np.testing.assert_allclose(state.clients, expected, **TIGHT)


def test_colrel_follows_the_listing_with_weights(x64):
    settings, dense, between = histories(quadratic_loops.gentle_setting)
    weights = np.random.default_rng(0).random((7, 7))
    paths = [
        peer_loops.colrel(*each, weights) for each in zip(settings, dense, strict=True)
    ]
    harness.follow_many(
        settings, algorithms.colrel, paths, links=between, weights=weights
    )


@pytest.mark.parametrize('seed', cases(range(3), [0]))
def test_colrel_follows_the_listing_with_reported_probs(x64, seed):
    setting = quadratic_loops.gentle_setting(seed)._replace(server_lr=1.0)
    probs = np.linspace(0.2, 0.9, 7)
    graph = graphs.erdos_renyi(7, 0.6, seed)
    by_edge = np.linspace(0.2, 0.9, graph.num_edges)
    links = participation.peers(participation.bernoulli(probs), graph, prob=by_edge)
    sampled_links = simulation.realised_links(
        jax.random.key(0), links, num_rounds=len(setting.mask)
    )
    setting = setting._replace(
        mask=np.asarray(sampled_links.mask), prob=np.tile(probs, (80, 1))
    )
    dense = np.zeros((80, 7, 7), bool)
    edge_prob = np.zeros((7, 7))
    for i in range(7):
        for k, j in enumerate(graph.neighbours[i]):
            if j != i:
                dense[:, i, j] = sampled_links.edges[:, i, k]
                edge_prob[i, j] = by_edge[graph.edge_ids[i, k]]
    expected = peer_loops.colrel(setting, dense, edge_prob=edge_prob)
    between = {
        'neighbours': graph.neighbours,
        'edges': sampled_links.edges,
        'edge_prob': sampled_links.edge_prob,
    }
    harness.follow(setting, algorithms.colrel, expected, atol=1e-12, links=between)


@pytest.mark.parametrize('tolerance', [0, 1, 2])
def test_cogc_follows_the_listing(x64, tolerance):
    settings, dense, between = histories(prob=0.95, uplinks=0.9)
    paths = [
        peer_loops.cogc(*each, tolerance) for each in zip(settings, dense, strict=True)
    ]
    for path in paths:
        moved = (np.diff(path, axis=0) != 0).any(axis=1)
        assert moved.any()
        assert not moved.all()
    make = functools.partial(algorithms.cogc, tolerance=tolerance)
    harness.follow_many(settings, make, paths, links=between)


@functools.partial(jax.jit, static_argnums=0)
def client_mean_after_three_rounds(name, downlink, compute):
    """The mean of the client models, from 0, after two steps in each round."""
    pattern = participation.duplex(
        uplink=participation.bernoulli([0.9, 0.9, 0.5, 0.3]),
        downlink=participation.bernoulli(downlink),
        compute=participation.bernoulli(compute),
    )
    if name != 'fedpbc':
        pattern = participation.peers(pattern, graphs.ring(4), prob=0.8)
    client = local_training.local_sgd(0.1, local_steps=2)
    result = simulation.simulate(
        jax.random.key(0),
        algorithms.ALGORITHMS[name](client),
        pattern,
        problems.quadratic([[0.0], [1.0], [2.0], [3.0]]),
        num_rounds=3,
    )
    return jnp.mean(result.state.algorithm.clients)


@pytest.mark.parametrize('lost', [None, 'compute', 'downlink'])
@pytest.mark.parametrize('name', ['fedpbc', 'gossip', 's2s'])
def test_the_client_mean_needs_all_to_compute_and_receive(x64, name, lost):
    probs = {'compute': np.ones(4), 'downlink': np.ones(4)}
    if lost is not None:
        probs[lost] = np.array([0.9, 0.5, 0.3, 0.2])
    client_mean = client_mean_after_three_rounds(name, **probs)
    error = abs(client_mean - 1.5 * (1 - 0.9**6))
    # Gossip has no downlinks.
    is_exact = lost is None or (name, lost) == ('gossip', 'downlink')
    assert error < 1e-12 if is_exact else error > 0.005


# Special cases, to the bit.


def no_edges(setting):
    """Neighbours, none of whose edges is ever up."""
    num_rounds, num_clients = setting.mask.shape
    neighbours, edges, _ = peer_links.history(num_clients, num_rounds, 0)
    return {'neighbours': neighbours, 'edges': np.zeros_like(edges)}


@pytest.mark.parametrize('with_neighbours', [False, True])
@pytest.mark.parametrize('seed', cases(range(3), [0]))
def test_s2s_without_edges_is_fedpbc(x64, seed, with_neighbours):
    setting = quadratic_loops.hard_setting(seed)
    links = no_edges(setting) if with_neighbours else None
    path, ours = harness.run(setting, algorithms.s2s, links=links, server_every=1)
    options = {'links': links, 'server_lr': 1.0, 'compute': 'all'}
    expected, theirs = harness.run(setting, algorithms.fedpbc, **options)
    np.testing.assert_array_equal(path, expected)
    np.testing.assert_array_equal(
        ours.state.algorithm.clients, theirs.state.algorithm.clients
    )


def test_s2a_without_edges_is_fedavg_where_all_compute(x64):
    setting = quadratic_loops.hard_setting()
    mask = setting.mask.copy()
    mask[~mask.any(axis=1), 3] = True  # no round is empty
    setting = setting._replace(mask=mask)
    path, _ = harness.run(setting, algorithms.s2a)
    options = {'server_lr': 1.0, 'compute': 'all'}
    expected, _ = harness.run(setting, algorithms.fedavg, **options)
    np.testing.assert_array_equal(path, expected)


def test_colrel_without_edges_is_fedavg_with_known_probabilities(x64):
    setting = quadratic_loops.gentle_setting()
    path, _ = harness.run(setting, algorithms.colrel)
    expected, _ = harness.run(setting, algorithms.fedavg_known, server_lr=1.0)
    np.testing.assert_array_equal(path, expected)


# Laws and limits.


def test_an_isolated_client_and_an_empty_round_are_left_alone(x64):
    graph = graphs.from_edges(4, [(0, 1)])
    pattern = participation.peers(
        participation.replay(np.zeros((1, 4), bool)), graph, prob=1.0
    )

    @jax.jit
    def mix(key, models):
        _, links = pattern.sample(pattern.init(key), key, 0)
        return peers.mix(links, models)

    mixed = mix(jax.random.key(0), np.array([[0.0], [4.0], [np.nan], [7.0]]))
    np.testing.assert_array_equal(mixed, [[2.0], [2.0], [np.nan], [7.0]])
    assert not base.has_peers(
        participation.always(3).sample((), jax.random.key(0), 0)[1]
    )


RING = graphs.ring(limits.NUM_CLIENTS)
COMPLETE = graphs.complete(limits.NUM_CLIENTS)
SELDOM = functools.partial(algorithms.s2a, server_every=10)
PRINTED = {
    # name: maker, graph, model, distance of the late mean from the optimum, tolerance. Distances of
    # zero are met to rounding. The others are rounded and from one run with links of its own, for
    # which their tolerances leave room.
    'gossip': (algorithms.gossip, RING, 'server', 0.0, 1e-11),
    's2s': (algorithms.s2s, RING, 'client_mean', 0.0, 1e-11),
    's2s, complete': (algorithms.s2s, COMPLETE, 'client_mean', 0.0, 1e-11),
    's2s, server': (algorithms.s2s, RING, 'server', 0.0063, 0.001),
    'fedpbc, server': (algorithms.fedpbc, None, 'server', 0.030, 0.003),
    's2a': (algorithms.s2a, RING, 'client_mean', 0.38, 0.01),
    's2a, 10': (SELDOM, RING, 'client_mean', 0.13, 0.02),
    's2a, 10, complete': (SELDOM, COMPLETE, 'client_mean', 0.015, 0.003),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', PRINTED)
def test_the_printed_limits_come_out(x64, name):
    make, graph, model, distance, tolerance = PRINTED[name]
    result, _ = limits.distance_and_spread(
        make(limits.program()), limits.mixed_links(graph), model=model
    )
    assert abs(result - distance) < tolerance


@pytest.mark.slow
def test_relays_halve_the_spread(x64):
    """Distance and spread: .0025 and .027 with relays of least variance, .008 and .050 without."""
    edges = np.zeros((limits.NUM_CLIENTS,) * 2)
    np.put_along_axis(edges, RING.neighbours, 0.5, axis=1)
    weights = analysis.colrel_weights(limits.MIXED_PROBS, edges)
    variance = analysis.colrel_variance(limits.MIXED_PROBS, edges, weights)
    assert abs(variance - 20.5) < 0.05
    colrel = algorithms.colrel(limits.program(), weights=weights)
    known = algorithms.fedavg_known(limits.program())

    def six_runs(algorithm, links):
        return np.array(
            [
                limits.distance_and_spread(algorithm, links, seed=seed)
                for seed in range(6)
            ]
        )

    relayed = six_runs(colrel, limits.mixed_links(RING))
    alone = six_runs(known, limits.mixed_links())
    assert relayed[:, 0].mean() < 0.01
    assert alone[:, 0].mean() < 0.02
    for spreads, expected in ((relayed[:, 1], 0.027), (alone[:, 1], 0.050)):
        # Standard errors over six runs, and half a unit of the printed digits.
        error = spreads.std(ddof=1) / np.sqrt(6)
        assert abs(spreads.mean() - expected) < 4 * error + 0.0005


@pytest.mark.statistical
def test_colrel_without_weights_is_unbiased_on_directed_links():
    """From 0, coordinate j of a step is client j's coefficient over N: its mean is 1 / N."""
    links = participation.duplex(
        uplink=participation.bernoulli([0.5, 0.5]),
        downlink=participation.bernoulli([1.0, 0.2]),
    )
    pattern = participation.peers(links, graphs.from_edges(2, [(0, 1)]), prob=1.0)
    problem = problems.quadratic(np.eye(2))
    rounds = 20_000
    algorithm = algorithms.colrel(limits.program(1.0, 1))
    sampled_links = simulation.realised_links(
        jax.random.key(0), pattern, num_rounds=rounds
    )
    start = algorithm.init(jnp.zeros(2), problem)

    def step(t, links):
        ctx = simulation.round_context(jax.random.key(0), t, links)
        return algorithm.round_step(start, ctx, problem)[0].server

    steps = np.asarray(jax.jit(jax.vmap(step))(jnp.arange(rounds), sampled_links))
    error = steps.std(axis=0) / np.sqrt(rounds)
    assert (np.abs(steps.mean(axis=0) - 0.5) < 4 * error).all()


def test_what_does_not_fit_the_clients_is_refused():
    setting = quadratic_loops.gentle_setting()
    program = limits.program()
    with refusals.names('weights', '[7, 7]'):
        harness.run(setting, algorithms.colrel, weights=np.eye(3))
    with refusals.names('weights'):
        algorithms.colrel(program, weights=-np.eye(7))
    with refusals.names('tolerance', '6'):
        harness.run(setting, functools.partial(algorithms.cogc, tolerance=7))
    with refusals.names('server_every'):
        algorithms.s2s(program, server_every=0)
