"""Pattern algebra: laws of the parts, exact windows, and carries that never stand still."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import base, simulation
from fedjax_links.base import DuplexLinkSample
from fedjax_links.core import errors
from fedjax_links.links import graphs
from fedjax_links.participation import (
    Times,
    always,
    bernoulli,
    both,
    by_group,
    cap,
    cyclic,
    duplex,
    either,
    markov,
    minimum_separation,
    mixture,
    outage,
    packets,
    peers,
    quorum,
    regularized,
    replay,
    shared_shocks,
    switch,
    unavailable,
    uniform_cohort,
)
from tests.participation.sampling import (
    advance,
    assert_frequencies,
    assert_resumes,
    masks,
    masks_together,
    roll,
    roll_together,
)
from tests.tiers import cases

P = np.array([0.1, 0.5, 0.9])
Q = np.array([0.7, 0.2, 1.0])
SEEDS = 20_000
UP = replay([[True] * 3], [[1.0] * 3])
DOWN = replay([[False] * 3], [[0.0] * 3])


def test_both_and_either_are_and_and_or_of_the_parts():
    first = markov(P, 0.3)
    second = cyclic(Q, cycle_length=10)
    patterns = [
        first,
        both(UP, second),
        both(first, second),
        either(DOWN, second),
        either(first, second),
    ]
    alone, within_both, conjunction, within_either, disjunction = (
        links.mask for links in roll_together(patterns, 25)
    )
    np.testing.assert_array_equal(conjunction, alone & within_both)
    np.testing.assert_array_equal(disjunction, alone | within_either)


LATE = {'start': 9, 'stop': 12}
RING = graphs.ring(3)
SHOCKS = {'groups': [0, 0, 1], 'up_rate': 0.3, 'down_rate': 0.2}
TIMES = Times(np.ones(3), 0.5)
AROUND = {
    'outage': lambda inner: outage(inner, start=3, stop=5),
    'outage of one client': lambda inner: outage(inner, start=0, stop=20, clients=[1]),
    'packets': lambda inner: packets(inner, loss=0.2, num_packets=2),
    'shared_shocks': lambda inner: shared_shocks(inner, **SHOCKS),
    'cap': lambda inner: cap(inner, 2),
    'cap in order': lambda inner: cap(inner, 2, rule='permutation'),
    'peers': lambda inner: peers(inner, RING, prob=0.5),
    'peers with memory': lambda inner: peers(inner, RING, prob=markov(P)),
    'quorum': lambda inner: quorum(TIMES, quorum=2, pattern=inner),
    'unavailable': unavailable,
    'duplex': lambda inner: duplex(
        uplink=inner, downlink=bernoulli(P), compute=bernoulli(Q)
    ),
    'both': lambda inner: both(inner, bernoulli(P)),
    'either': lambda inner: either(inner, bernoulli(P)),
    'mixture': lambda inner: mixture([inner, DOWN], [0.7, 0.3]),
    'switch': lambda inner: switch([inner, DOWN], 9),
}
INNER = {
    'markov': markov(P, 0.3),
    'cyclic': cyclic(Q, cycle_length=10),
    'cohort': uniform_cohort(3, 2),
    'capped': cap(bernoulli(Q), 2),
    'late outage': outage(markov(Q, 0.3), **LATE),
}


@functools.cache
def mask_alone(inner):
    return roll(INNER[inner], 12).mask


@pytest.mark.parametrize(
    'around, inner',
    cases(
        [
            *((around, 'markov') for around in AROUND),
            *(('packets', inner) for inner in INNER if inner != 'markov'),
        ],
        default=[(around, 'markov') for around in AROUND],
    ),
)
def test_a_combinator_keeps_the_links_of_its_inner_pattern(around, inner):
    """Who is up is known from the pattern alone, and from the combinator around links all up."""
    alone = mask_alone(inner)
    combine = AROUND[around]
    mask, allowed = (
        links.mask
        for links in roll_together([combine(INNER[inner]), combine(always(3))], 12)
    )
    if around == 'either':
        assert (mask | ~alone).all()
        return
    assert (alone | ~mask).all()  # nobody is up who would not be
    if around.startswith(('cap', 'quorum')):
        np.testing.assert_array_equal(
            mask.sum(axis=1), np.minimum(alone.sum(axis=1), 2)
        )
        return
    np.testing.assert_array_equal(mask, alone & allowed)


@pytest.mark.parametrize('name', AROUND)
@pytest.mark.parametrize('other', [3, 'always', [always(3)], np.ones((2, 3), bool)])
def test_what_is_no_pattern_is_named(name, other):
    with pytest.raises(errors.InvalidError, match='be a pattern, as `participation'):
        AROUND[name](other)


def test_directions_are_those_of_the_parts():
    inner = duplex(uplink=markov(P, 0.3), downlink=bernoulli(Q), compute=bernoulli(P))
    links, within = roll_together([inner, outage(inner, **LATE)], 12)
    for before, after in zip(
        jax.tree.leaves(links), jax.tree.leaves(within), strict=True
    ):
        np.testing.assert_array_equal(before[:9], after[:9])


def test_either_needs_a_part_that_trains_and_delivers():
    """A recorded uplink may be up although its client cannot train."""
    uplink = np.array([[1, 1, 0, 1]], bool)
    downlink = np.array([[1, 1, 1, 0]], bool)
    compute = np.array([[0, 1, 1, 1]], bool)
    recorded = replay(uplink, downlink=downlink, compute=compute)
    plain = np.array([[0, 0, 1, 0]], bool)
    pattern = either(replay(plain), recorded)
    links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=1)
    expected = plain | (uplink & downlink & compute)
    np.testing.assert_array_equal(base.participants(links), expected)
    np.testing.assert_array_equal(base.delivers(links), plain | (uplink & compute))


def test_edges_do_not_hang_on_what_is_around_them():
    plain = peers(bernoulli(Q), RING, prob=0.5)
    capped = peers(cap(bernoulli(Q), 2), RING, prob=0.5)
    links, *others = roll_together([plain, capped, outage(plain, **LATE)], 9)
    for other in others:
        np.testing.assert_array_equal(other.edges, links.edges)


@pytest.mark.statistical
@pytest.mark.parametrize(
    'kind', ['packets', 'both', 'shared_shocks', 'mixture', 'mixed']
)
def test_combinators_within_combinators_are_independent(kind):
    """Each halves the chance of being up, three times: an eighth."""
    shocks = {'groups': [0, 1, 2], 'up_rate': 0.5, 'down_rate': 0.5}
    halve = {
        'packets': lambda inner: packets(inner, loss=0.5, num_packets=1),
        'both': lambda inner: both(inner, bernoulli([0.5] * 3)),
        'shared_shocks': lambda inner: shared_shocks(inner, **shocks),
        'mixture': lambda inner: mixture([inner, DOWN], [0.5, 0.5]),
    }
    makers = [halve[kind]] * 3 if kind in halve else list(halve.values())[:3]
    pattern = always(3)
    for halved in makers:
        pattern = halved(pattern)
    assert_frequencies(
        masks(pattern, 1, SEEDS)[:, 0].sum(axis=0), np.full(3, 1 / 8), SEEDS
    )


@pytest.mark.statistical
def test_parts_are_independent():
    patterns = [
        both(bernoulli(P), bernoulli(Q)),
        either(bernoulli(P), bernoulli(Q)),
        # Equal patterns side by side would coincide if they shared a key.
        both(bernoulli(P), bernoulli(P)),
    ]
    laws = [P * Q, 1 - (1 - P) * (1 - Q), P**2]
    probs = [links.prob[0] for links in roll_together(patterns, 1)]
    np.testing.assert_allclose(probs, laws, rtol=1e-6)
    for mask, law in zip(masks_together(patterns, 1, SEEDS), laws, strict=True):
        assert_frequencies(mask[:, 0].sum(axis=0), law, SEEDS)


def test_unknown_probabilities_stay_unknown():
    unknown = minimum_separation(np.ones(3), separation=1)
    patterns = [
        both(bernoulli(P), unknown),
        cap(bernoulli(P), 2),
        either(unknown, UP),
        mixture([unknown, bernoulli(P)], [0.0, 1.0]),
    ]
    *others, mixed = roll_together(patterns, 2)
    for links in others:
        assert np.isnan(links.prob).all()
    np.testing.assert_allclose(mixed.prob[1], P, rtol=1e-6)


@pytest.mark.statistical
def test_mixture_draws_one_pattern_per_round():
    pattern = mixture([UP, DOWN, bernoulli(P)], [0.25, 0.25, 0.5])
    mask = masks(pattern, 2, SEEDS)
    law = 0.25 + 0.5 * P
    np.testing.assert_allclose(roll(pattern, 1).prob[0], law, rtol=1e-6)
    assert_frequencies(mask[:, 0].sum(axis=0), law, SEEDS)
    assert_frequencies(
        np.array(mask[:, 0].all(axis=1).sum()), 0.25 + 0.5 * P.prod(), SEEDS
    )
    twice = (mask[:, 0] & mask[:, 1]).sum(axis=0)
    assert_frequencies(twice, law**2, SEEDS)


def test_switch_at_exact_rounds_with_carries_advanced():
    cycles = cyclic(P, cycle_length=7)
    chain = markov(P, 0.2)
    patterns = [
        switch([DOWN, UP, cycles], [3, 5]),
        switch([UP, DOWN, cycles], [0, 1]),
        switch([UP, chain], 6),
        switch([DOWN, chain], 0),
    ]
    of_cycles, earlier, of_chain, earlier_chain = (
        links.mask for links in roll_together(patterns, 30)
    )
    assert not of_cycles[:3].any()
    assert of_cycles[3:5].all()
    np.testing.assert_array_equal(of_cycles[5:], earlier[5:])
    np.testing.assert_array_equal(of_chain[6:], earlier_chain[6:])


def test_switch_and_outage_take_traced_rounds():
    def run(at):
        pattern = outage(switch([DOWN, UP], at), start=at + 2, stop=at + 3)
        return advance(
            pattern, pattern.init(jax.random.key(0)), jax.random.key(1), 0, 8
        )[1]

    swept = jax.jit(jax.vmap(run))(jnp.arange(3))
    for at in range(3):
        expected = np.isin(np.arange(8), [at + 2, *range(at)], invert=True)
        np.testing.assert_array_equal(swept[at], np.tile(expected[:, None], 3))


def test_outage_window():
    links = roll(outage(UP, start=2, stop=5, clients=[0, 2]), 8)
    down = np.zeros((8, 3), bool)
    down[2:5, [0, 2]] = True
    np.testing.assert_array_equal(links.mask, ~down)
    np.testing.assert_array_equal(links.prob, ~down)
    assert not roll(outage(always(3), start=0, stop=4), 4).mask.any()


def test_outage_leaves_computing_alone():
    links = roll(outage(duplex(uplink=UP), start=0, stop=1, clients=[1]), 2)
    np.testing.assert_array_equal(links.mask[0], [True, False, True])
    np.testing.assert_array_equal(links.downlink[0], [True, False, True])
    assert links.compute.all()
    assert links.mask[1].all()


def test_by_group_deals_to_the_groups_in_order():
    groups = np.array([1, 0, 1, 2, 0])
    parts = [bernoulli([0.3, 0.6]), markov([0.5, 0.1], 0.4), always(1)]
    other_parts = [always(2), parts[1], always(1)]
    patterns = [by_group(groups, parts), parts[0], by_group(groups, other_parts)]
    links, first, others = roll_together(patterns, 20)
    np.testing.assert_array_equal(links.mask[:, groups == 0], first.mask)
    np.testing.assert_array_equal(
        links.mask[:, groups == 1], others.mask[:, groups == 1]
    )
    assert links.mask[:, groups == 2].all()
    np.testing.assert_allclose(links.prob[0], [0.5, 0.3, 0.1, 1.0, 0.6], rtol=1e-6)


@pytest.mark.slow
def test_combinations_nest_and_mix_kinds():
    plain = bernoulli(P)
    split = duplex(uplink=markov(P), compute=bernoulli(Q))
    for pattern in (
        both(plain, split),
        mixture([split, plain], [0.5, 0.5]),
        switch([plain, split], 2),
        cap(split, 1, rule='permutation'),
        by_group([0, 0, 0, 1, 1, 1], [split, plain]),
        either(cap(both(plain, plain), 2), outage(split, start=1, stop=2)),
    ):
        links = roll(pattern, 5)
        assert isinstance(links, DuplexLinkSample)
        assert all(
            leaf.shape == (5, pattern.num_clients) for leaf in jax.tree.leaves(links)
        )


def test_in_pieces():
    assert_resumes(
        both(cap(markov(P), 2, rule='permutation'), switch([regularized(3, 1), UP], 7))
    )


def test_traced_mixture_probabilities():
    def prob(weight):
        pattern = mixture([UP, DOWN], jnp.stack([weight, 1 - weight]))
        return pattern.sample(pattern.init(jax.random.key(0)), jax.random.key(1), 0)[
            1
        ].prob

    swept = jax.jit(jax.vmap(prob))(jnp.array([0.0, 0.25, 1.0]))
    np.testing.assert_allclose(swept[:, 0], [0.0, 0.25, 1.0])
