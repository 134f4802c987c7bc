"""Laws of the patterns with sojourns, shocks, quorums, packets and peers, in standard errors."""

import fractions

import jax
import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis, mixing, participation, simulation
from fedjax_links.links import graphs
from fedjax_links.participation import durations
from tests import refusals
from tests.participation.sampling import roll, roll_together
from tests.tiers import cases

NUM_SEEDS = 20_000
Z_BOUND = 4.8  # of 700 comparisons one in a thousand would be beyond
PROBS = np.linspace(0.1, 0.9, 8)


def sample_links(pattern, num_rounds, num_seeds=NUM_SEEDS):
    """Links of many seeds, leaves [S, T, ...]."""
    keys = jax.random.split(jax.random.key(5), num_seeds)
    draw = jax.jit(
        jax.vmap(
            lambda key: simulation.realised_links(key, pattern, num_rounds=num_rounds)
        )
    )
    return jax.tree.map(np.asarray, draw(keys))


def assert_means(samples, expected) -> int:
    """Compares means over the first axis in standard errors; returns how many vary at all."""
    samples = np.asarray(samples, float)
    expected = np.asarray(expected, float)
    errors = samples.std(axis=0) / np.sqrt(len(samples))
    off = np.abs(samples.mean(axis=0) - expected)
    fixed = errors == 0
    assert (off[fixed] < 1e-6).all()
    assert (off[~fixed] / errors[~fixed]).max(initial=0) < Z_BOUND
    return int((~fixed).sum())


LAWS = {
    'lognormal, weibull': (durations.lognormal(3.0, 0.9), durations.weibull(4.0, 0.6)),
    'ageing': (durations.weibull(6.0, 3.0), durations.geometric(0.3)),
    'observed': (durations.observed([1, 2, 2, 9]), durations.observed([0.5, 3.2, 4.0])),
    'fixed': (np.ones(3), np.ones(5)),
}


@pytest.mark.statistical
@pytest.mark.parametrize('name', cases(LAWS, ['ageing']))
def test_semi_markov_links_have_their_stationary_correlation(name):
    """Every round, and every pair of rounds, is up as often as renewal theory says.

    Two clients have 78 pairs of 12 rounds each, the rounds themselves included.
    """
    up, down = LAWS[name]
    num_rounds = 12
    pattern = participation.semi_markov(up, down, num_clients=2)
    links = sample_links(pattern, num_rounds)
    mask = links.mask.astype(float)
    prob = float(np.squeeze(analysis.semi_markov_stationary(up, down)))
    memory = analysis.semi_markov_autocorrelation(
        np.ravel(up), np.ravel(down), num_rounds - 1
    )
    first, second = np.triu_indices(num_rounds)
    both = prob**2 + prob * (1 - prob) * memory[second - first]
    pairs = mask[:, first] * mask[:, second]
    assert assert_means(pairs, np.stack([both, both], axis=1)) > 50
    # Clients are independent.
    assert assert_means(mask[..., 0] * mask[..., 1], np.full(num_rounds, prob**2)) > 5
    np.testing.assert_allclose(links.prob[0, 0], prob, rtol=1e-6)


def test_sojourns_have_their_law():
    """Lengths of whole sojourns up of a long record, against the law, in standard errors."""
    up, down = LAWS['lognormal, weibull']
    pattern = participation.semi_markov(up, down, num_clients=200)
    lengths = []
    for column in roll(pattern, 3000, seed=1).mask.T:
        turns = np.flatnonzero(np.diff(column.astype(int)) != 0)
        runs = np.diff(turns)
        lengths.append(runs[column[turns[:-1] + 1]])
    lengths = np.concatenate(lengths)
    law = np.ravel(up)[:15]  # P(D > k)
    beyond = (lengths[:, None] > np.arange(15)).mean(axis=0)
    errors = np.sqrt(law * (1 - law) / len(lengths))
    # The end of the record cuts long sojourns: 1e-3 is left for that.
    assert (np.abs(beyond - law)[1:] < Z_BOUND * errors[1:] + 1e-3).all()


def test_both_geometric_is_the_markov_link():
    rise = 0.15
    fall = 0.3
    up = durations.geometric(fall)
    down = durations.geometric(rise)
    memory = analysis.semi_markov_autocorrelation(up[0], down[0], 20)
    expected = analysis.markov_autocorrelation(rise, fall, np.arange(21))
    np.testing.assert_allclose(memory, expected, rtol=0, atol=1e-8)
    prob = analysis.semi_markov_stationary(up[0], down[0])
    assert abs(prob - analysis.markov_stationary(rise, fall)) < 1e-8


@pytest.mark.statistical
def test_shared_shocks():
    """Marginals of 8 x 6; 28 pairs within a round and 28 over three, none between groups."""
    groups = [0, 0, 0, 0, 1, 1, 2, 2]
    rise = 0.2
    fall = 0.1
    num_rounds = 6
    share = rise / (rise + fall)
    pattern = participation.shared_shocks(
        participation.bernoulli(PROBS), groups, up_rate=rise, down_rate=fall
    )
    links = sample_links(pattern, num_rounds)
    mask = links.mask.astype(float)
    assert_means(mask, np.tile(PROBS * share, (num_rounds, 1)))
    np.testing.assert_allclose(links.prob[0, 0], PROBS * share, rtol=1e-6)
    first, second = np.triu_indices(8, 1)
    rates = PROBS * share
    together = np.equal.outer(groups, groups)[first, second]
    spread = np.sqrt(rates * (1 - rates))
    correlation = analysis.shock_correlation(PROBS, share)[first, second] * together
    expected = (
        rates[first] * rates[second] + correlation * spread[first] * spread[second]
    )
    assert_means(mask[:, 2, first] * mask[:, 2, second], expected)
    lagged = (1 - rise - fall) ** 3  # of the chain, between rounds 1 and 4
    both = PROBS[first] * PROBS[second]
    expected = both * (share**2 + together * share * (1 - share) * lagged)
    assert_means(mask[:, 1, first] * mask[:, 4, second], expected)


@pytest.mark.statistical
def test_packets():
    loss = np.linspace(0, 0.5, 8)
    pattern = participation.packets(
        participation.bernoulli(PROBS), loss=loss, num_packets=4
    )
    links = sample_links(pattern, 5)
    arrives = PROBS * (1 - loss) ** 4
    assert_means(links.mask, np.tile(arrives, (5, 1)))
    np.testing.assert_allclose(links.prob[0, 0], arrives, rtol=1e-6)


def test_the_start_of_long_sojourns_takes_little_memory():
    """Not a row of the law for each of 2,000 clients, which would be 8 GB."""
    up = durations.lognormal(200.0, 1.5)
    down = durations.geometric(0.01)
    pattern = participation.semi_markov(up, down, num_clients=2000)
    compiled = jax.jit(pattern.init).lower(jax.random.key(0)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 2**24
    ages = np.asarray(compiled(jax.random.key(0)).age)
    up_for = ages[np.asarray(compiled(jax.random.key(0)).up)]
    law = np.cumsum(up[0]) / up[0].sum()  # P(age <= k) of those who are up
    assert stats.kstest(law[up_for - 1], 'uniform').pvalue > 1e-3


@pytest.mark.parametrize(
    'loss, num_packets', [(1e-6, 10**5), (1e-7, 10**6), (2e-8, 5 * 10**6)]
)
def test_small_losses_of_many_packets_are_not_rounded_away(loss, num_packets):
    pattern = participation.packets(
        participation.always(2), loss=loss, num_packets=num_packets
    )
    links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=1)
    exact = float((1 - fractions.Fraction(str(loss))) ** 1000) ** (num_packets / 1000)
    np.testing.assert_allclose(links.prob[0], exact, rtol=1e-7)

    def traced_prob(loss):
        pattern = participation.packets(
            participation.always(2), loss=loss, num_packets=num_packets
        )
        _, links = pattern.sample(((),), jax.random.key(0), 0)
        return links.prob

    swept = jax.vmap(traced_prob)(np.float32([loss]))
    np.testing.assert_allclose(swept[0], exact, rtol=1e-6)


def test_a_client_that_loses_all_packets_never_delivers():
    pattern = participation.packets(
        participation.always(2), loss=[1.0, 0.0], num_packets=3
    )
    links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=4)
    np.testing.assert_array_equal(links.mask, [[False, True]] * 4)
    np.testing.assert_array_equal(links.prob, [[0.0, 1.0]] * 4)


def test_a_round_lasts_as_its_longest_part():
    """A quorum of all of fixed times ends with the slowest."""
    always = participation.always(3)
    quick = participation.quorum(np.arange(3.0) + 1, quorum=3)
    slow = participation.quorum(np.arange(3.0) + 4, quorum=3)
    with_seconds = (
        (participation.duplex(uplink=always, compute=slow), 6),
        (participation.duplex(uplink=quick, compute=slow), 6),
        (participation.duplex(uplink=slow, downlink=quick), 6),
        (participation.quorum(np.ones(3), quorum=2, pattern=slow), 6),
        (participation.quorum(np.full(3, 9.0), quorum=2, pattern=slow), 9),
        (participation.unavailable(participation.duplex(uplink=quick)), 3),
    )
    plain = participation.duplex(uplink=always)
    *timed, untimed = roll_together(
        [*(pattern for pattern, _ in with_seconds), plain], 2
    )
    for (_, seconds), links in zip(with_seconds, timed, strict=True):
        np.testing.assert_array_equal(links.duration, [seconds] * 2)
    assert untimed.duration is None


@pytest.mark.statistical
@pytest.mark.parametrize('count', [1, 3, 8])
def test_a_quorum_of_equals_lasts_as_order_statistics_do(count):
    """P(i arrives) = k / N, and P(a round is over by t) = P(Bin(N, F(t)) >= k)."""
    times = participation.Times(np.full(8, 2.0), sigma=0.7, fixed=0.5)
    links = sample_links(participation.quorum(times, quorum=count), 4)
    assert_means(links.mask, np.full((4, 8), count / 8))
    np.testing.assert_allclose(links.prob[0, 0], count / 8)
    assert (links.mask.sum(axis=-1) == count).all()
    at = np.linspace(0.8, 8.0, 12)
    by = stats.norm.cdf(np.log((at - 0.5) / 2.0) / 0.7)
    expected = stats.binom.sf(count - 1, 8, by)
    often = (expected > 0.001) & (expected < 0.999)  # whose errors are normal
    assert assert_means(links.duration[:, 0, None] <= at[often], expected[often]) > 2


@pytest.mark.statistical
def test_grace_and_deadline():
    """Who arrives within a grace after the first, or before a deadline; how long it lasts."""
    median = np.linspace(1.0, 3.0, 8)
    times = participation.Times(median, sigma=0.5)
    pattern = participation.quorum(times, quorum=8, deadline=2.0)
    links = sample_links(pattern, 3)
    assert_means(
        links.mask, np.tile(stats.norm.cdf(np.log(2.0 / median) / 0.5), (3, 1))
    )
    assert np.isnan(links.prob).all()
    assert (links.duration <= 2.0).all()
    fixed = participation.quorum([1.0, 1.2, 1.9, 4.0], quorum=1, grace=0.5)
    few = participation.quorum(
        np.ones(4),
        quorum=3,
        pattern=participation.replay([[True, False, False, False]]),
    )
    two, one = roll_together([fixed, few], 1)
    assert two.mask.tolist() == [[True, True, False, False]]
    assert float(two.duration[0]) == 1.5
    assert one.mask.tolist() == [[True, False, False, False]]


@pytest.mark.statistical
@pytest.mark.parametrize('kind', ['independent', 'markov'])
def test_peer_links(kind):
    """Edges, what they do on average and in the mean square, and uplinks that ignore them."""
    graph = graphs.ring(6, 4)
    by_edge = np.linspace(0.1, 0.9, graph.num_edges)
    prob = by_edge if kind == 'independent' else participation.markov(by_edge, 0.1)
    uplinks = participation.bernoulli(PROBS[:6])
    links = sample_links(
        participation.peers(uplinks, graph, prob=prob), 3, num_seeds=6000
    )
    expected = by_edge[graph.edge_ids]
    assert_means(links.edges, np.tile(expected, (3, 1, 1)))
    np.testing.assert_allclose(links.edge_prob[0, 0], expected, rtol=1e-6)
    assert_means(links.mask, np.tile(PROBS[:6], (3, 1)))
    joint = links.mask[:, 2, :, None] * links.edges[:, 2]
    assert_means(joint, PROBS[:6, None] * expected)
    dense = np.zeros((6000, 6, 6), bool)
    np.put_along_axis(
        dense, np.tile(graph.neighbours, (6000, 1, 1)), links.edges[:, 1], axis=2
    )
    assert (dense == dense.transpose(0, 2, 1)).all()
    matrices = analysis.metropolis_matrix(dense)
    weigh = jax.jit(jax.vmap(mixing.metropolis_weights))
    weights = weigh(links.neighbours[:, 1], links.edges[:, 1])
    placed = np.take_along_axis(matrices, links.neighbours[:, 1], axis=2)
    np.testing.assert_allclose(weights, placed, rtol=0, atol=1e-6)
    np.testing.assert_allclose(matrices.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert_means(
        matrices, analysis.expected_metropolis_matrix(graph.neighbours, expected)
    )
    moment = np.random.default_rng(0).normal(size=(6, 6))
    squares = np.einsum('sij,jk,skl->sil', matrices, moment, matrices)
    assert_means(squares, analysis.metropolis_map(graph.neighbours, expected)(moment))


@pytest.mark.parametrize(
    'field, make',
    {
        'quorum': lambda: participation.quorum(np.ones(4), quorum=5),
        'deadline': lambda: participation.quorum(np.ones(4), quorum=2, deadline=0.0),
        'times.sigma': lambda: participation.quorum(
            participation.Times(np.ones(4), sigma=-1.0), quorum=2
        ),
        'loss': lambda: participation.packets(
            participation.always(2), loss=[0.5, 1.5], num_packets=2
        ),
        'groups': lambda: participation.shared_shocks(
            participation.always(3), [0, 1], up_rate=0.5, down_rate=0.5
        ),
        'up_rate': lambda: participation.shared_shocks(
            participation.always(2), [0, 1], up_rate=0.0, down_rate=0.5
        ),
        'graph': lambda: participation.peers(
            participation.always(3), graphs.ring(4), prob=0.5
        ),
        'prob': lambda: participation.peers(
            participation.always(4), graphs.ring(4), prob=1.5
        ),
        'up': lambda: participation.semi_markov([0.5, 1.0], [1.0]),
        'num_clients': lambda: participation.semi_markov(
            np.ones((2, 3)), np.ones(3), num_clients=3
        ),
        'sigma': lambda: durations.lognormal([1.0, 2.0, 3.0], [1.0, 2.0]),
        'shape': lambda: durations.weibull(1.0, [[1.0, 2.0]]),
        'rate': lambda: durations.geometric([]),
        'median': lambda: durations.lognormal(0.0, 1.0),
        'edges': lambda: graphs.from_edges(3, [(0, 1), (1, 0)]),
        'degree': lambda: graphs.ring(6, 3),
        'p': lambda: graphs.erdos_renyi(5, 1.5),
        'radius': lambda: graphs.geometric(5, -1.0),
    }.items(),
)
def test_a_users_mistake_is_named(field, make):
    with refusals.names(field):
        make()


@pytest.mark.parametrize('num_clients', [0, -1, 2.5])
def test_semi_markov_links_need_a_number_of_clients(num_clients):
    with refusals.names('num_clients'):
        participation.semi_markov([1.0], [1.0], num_clients=num_clients)


def test_semi_markov_sizes_agree():
    with refusals.names('num_clients', '5', '3'):
        participation.semi_markov([1.0], [1.0], num_clients=5, kinds=[0, 0, 0])
    with refusals.names('down', 'one row or 2', 'got 3'):
        participation.semi_markov(np.ones((2, 2)), np.ones((3, 2)))
    with refusals.names('up', 'from 1'):
        participation.semi_markov(np.ones((2, 0)), [1.0])


def test_parts_with_peers_or_durations_go_inside():
    plain = participation.always(4)
    ring = participation.peers(plain, graphs.ring(4), prob=0.5)
    timed = participation.quorum(np.ones(4), quorum=2)
    for pattern in (ring, timed):
        with refusals.names('first', 'around all others'):
            participation.both(pattern, plain)
        with refusals.names('patterns[1]', 'around all others'):
            participation.mixture([plain, pattern], [0.5, 0.5])
    for part in ('uplink', 'downlink', 'compute'):
        with refusals.names(part, 'around all others'):
            participation.duplex(**{'uplink': plain, part: ring})
    cut = participation.outage(ring, start=0, stop=2, clients=[0])
    alone = participation.unavailable(participation.cap(ring, 2))
    of_cut, links = roll_together([cut, alone], 4)
    assert not of_cut.edges[:2, 0].any()
    assert not of_cut.edges[:2, 1, 0].any()
    np.testing.assert_array_equal(links.mask, links.downlink)
    assert links.edges.shape == (4, 4, 2)
