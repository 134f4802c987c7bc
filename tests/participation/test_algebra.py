"""Pattern algebra: laws of the parts, exact windows, and carries that never stand still."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.base import DuplexLinkSample, Participation
from fedjax_links.core import prng
from fedjax_links.participation import (
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
    regularized,
    replay,
    selection,
    switch,
    uniform_cohort,
)
from tests.participation.sampling import advance, assert_frequencies, masks, refuses, roll

P, Q = np.array([0.1, 0.5, 0.9]), np.array([0.7, 0.2, 1.0])
SEEDS = 20_000
UP, DOWN = replay([[True] * 3], [[1.0] * 3]), replay([[False] * 3], [[0.0] * 3])


def part(pattern, index, num_rounds, seed=0):
    """Masks of a part run alone, with the keys that its place in a combination gives it."""
    key, found = jax.random.key(seed), []
    carry = pattern.init(jax.random.fold_in(prng.pattern_key(key), index))
    sample = jax.jit(pattern.sample)
    for t in range(num_rounds):
        own = jax.random.fold_in(prng.round_key(key, 'participation', t), index)
        carry, links = sample(carry, own, jnp.int32(t))
        found.append(np.asarray(links.mask))
    return np.stack(found)


def test_both_and_either_are_and_and_or_of_the_parts():
    parts = [markov(P, 0.3), cyclic(Q, cycle_length=10)]
    alone = [part(pattern, index, 25) for index, pattern in enumerate(parts)]
    np.testing.assert_array_equal(roll(both(*parts), 25).mask, alone[0] & alone[1])
    np.testing.assert_array_equal(roll(either(*parts), 25).mask, alone[0] | alone[1])


@pytest.mark.statistical
@pytest.mark.parametrize('combine, law', [(both, P * Q), (either, 1 - (1 - P) * (1 - Q))])
def test_parts_are_independent(combine, law):
    # Equal patterns side by side would coincide if they shared a key.
    mask = masks(combine(bernoulli(P), bernoulli(Q)), 1, SEEDS)[:, 0]
    assert_frequencies(mask.sum(axis=0), law, SEEDS)
    same = masks(both(bernoulli(P), bernoulli(P)), 1, SEEDS)[:, 0]
    assert_frequencies(same.sum(axis=0), P**2, SEEDS)
    np.testing.assert_allclose(roll(combine(bernoulli(P), bernoulli(Q)), 1).prob[0], law, rtol=1e-6)


def test_unknown_probabilities_stay_unknown():
    unknown = minimum_separation(np.ones(3), separation=1)
    for pattern in (both(bernoulli(P), unknown), cap(bernoulli(P), 2), either(unknown, UP)):
        assert np.isnan(roll(pattern, 2).prob).all()
    mixed = mixture([unknown, bernoulli(P)], [0.0, 1.0])
    np.testing.assert_allclose(roll(mixed, 2).prob[1], P, rtol=1e-6)


@pytest.mark.statistical
def test_mixture_draws_one_pattern_per_round():
    pattern = mixture([UP, DOWN, bernoulli(P)], [0.25, 0.25, 0.5])
    mask = masks(pattern, 2, SEEDS)
    law = 0.25 + 0.5 * P
    np.testing.assert_allclose(roll(pattern, 1).prob[0], law, rtol=1e-6)
    assert_frequencies(mask[:, 0].sum(axis=0), law, SEEDS)
    assert_frequencies(np.array(mask[:, 0].all(axis=1).sum()), 0.25 + 0.5 * P.prod(), SEEDS)
    twice = (mask[:, 0] & mask[:, 1]).sum(axis=0)
    assert_frequencies(twice, law**2, SEEDS)


def test_switch_at_exact_rounds_with_carries_advanced():
    pattern = switch([DOWN, UP, cyclic(P, cycle_length=7)], [3, 5])
    mask = roll(pattern, 30).mask
    assert not mask[:3].any()
    assert mask[3:5].all()
    np.testing.assert_array_equal(mask[5:], part(cyclic(P, cycle_length=7), 2, 30)[5:])
    chain = markov(P, 0.2)
    mask = roll(switch([UP, chain], 6), 20).mask
    np.testing.assert_array_equal(mask[6:], part(chain, 1, 20)[6:])


def test_switch_and_outage_take_traced_rounds():
    def run(at):
        pattern = outage(switch([DOWN, UP], at), start=at + 2, stop=at + 3)
        return advance(pattern, pattern.init(jax.random.key(0)), jax.random.key(1), 0, 8)[1]

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
    links = roll(by_group(groups, parts), 20)
    for index, pattern in enumerate(parts):
        alone = part(pattern, index, 20)
        np.testing.assert_array_equal(links.mask[:, groups == index], alone)
    np.testing.assert_allclose(links.prob[0], [0.5, 0.3, 0.1, 1.0, 0.6], rtol=1e-6)


@pytest.mark.parametrize('rule', ['uniform', 'permutation'])
def test_cap_keeps_at_most_s_of_the_active(rule):
    inner = bernoulli(np.full(6, 0.5))
    capped = roll(cap(inner, 2, rule=rule), 300).mask
    active = part(inner, 0, 300)
    assert not (capped & ~active).any()
    np.testing.assert_array_equal(capped.sum(axis=1), np.minimum(active.sum(axis=1), 2))


@pytest.mark.statistical
def test_cap_has_its_law():
    recording = np.array([[True, True, False, True]])
    uniform = masks(cap(replay(recording), 2), 1, SEEDS)[:, 0]
    assert_frequencies(uniform.sum(axis=0), [2 / 3, 2 / 3, 0, 2 / 3], SEEDS)


def test_permutation_rule_with_all_active_is_regularized():
    mask = roll(cap(always(12), 4, rule='permutation'), 30).mask
    np.testing.assert_array_equal(mask.reshape(10, 3, 12).sum(axis=1), 1)


def consume_in_a_loop(orders, active, size, distinct):
    """A stack of clients popped in order; a new one when it is empty, also within a round."""
    orders = iter(orders)
    stack, found = list(next(orders)), []
    for available in active:
        taken = []
        while len(taken) < size:
            if not stack:
                stack = list(next(orders))
            client = stack.pop(0)
            if available[client] and not (distinct and client in taken):
                taken.append(client)
        found.append(sorted(taken))
    return found


@pytest.mark.parametrize('distinct', [True, False])
def test_permutation_is_consumed_as_in_a_plain_loop(distinct):
    rng = np.random.default_rng(4)
    size, num_clients = 3, 10
    active = np.stack([rng.permutation(num_clients) < rng.integers(3, 9) for _ in range(60)])
    consume = jax.jit(selection.consume, static_argnames=('size', 'distinct'))
    order = selection.random_order(jax.random.key(0), num_clients)
    orders, masks = [np.argsort(order.position)], []
    for t, available in enumerate(active):
        before = np.asarray(order.position)
        order, mask = consume(
            jax.random.key(t + 1), order, jnp.asarray(available), size, distinct=distinct
        )
        if (np.asarray(order.position) != before).any():
            orders.append(np.argsort(order.position))
        masks.append(np.flatnonzero(mask).tolist())
    expected = consume_in_a_loop(orders, active, size, distinct)
    assert masks == [sorted(set(taken)) for taken in expected]
    short = [len(taken) for taken in masks]
    assert set(short) == ({3} if distinct else {2, 3})


def test_combinations_nest_and_mix_kinds():
    plain, split = bernoulli(P), duplex(uplink=markov(P), compute=bernoulli(Q))
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
        assert all(leaf.shape == (5, pattern.num_clients) for leaf in jax.tree.leaves(links))


def test_in_pieces():
    pattern = both(cap(markov(P), 2, rule='permutation'), switch([regularized(3, 1), UP], 7))
    key = jax.random.key(2)
    carry = pattern.init(key)
    _, whole = advance(pattern, carry, key, 0, 12)
    middle, first = advance(pattern, carry, key, 0, 5)
    _, second = advance(pattern, middle, key, 5, 7)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)


def test_traced_mixture_probabilities():
    def prob(weight):
        pattern = mixture([UP, DOWN], jnp.stack([weight, 1 - weight]))
        return pattern.sample(pattern.init(jax.random.key(0)), jax.random.key(1), 0)[1].prob

    swept = jax.jit(jax.vmap(prob))(jnp.array([0.0, 0.25, 1.0]))
    np.testing.assert_allclose(swept[:, 0], [0.0, 0.25, 1.0])


def test_errors():
    two: Participation = always(2)
    refuses(lambda: both(UP, two), '`patterns` must have the same number of clients, got [3, 2].')
    for empty in (lambda: mixture([], []), lambda: switch([], []), lambda: by_group([0], [])):
        refuses(empty, '`patterns` must name at least one pattern, got [].')
    refuses(lambda: mixture([UP, DOWN], [1.0]), '`probs` must have 2 entries, got 1.')
    refuses(lambda: mixture([UP, DOWN], [0.5, 0.6]), '`probs` must sum to one, got 1.1.')
    refuses(
        lambda: switch([UP, DOWN], [1, 2]), '`at_rounds` must name 1 rounds for 2 patterns, got 2.'
    )
    refuses(lambda: switch([UP, UP, UP], [4, 4]), '`at_rounds` must increase, got [4, 4].')
    refuses(lambda: outage(UP, start=5, stop=5), '`start` must lie in [0, `stop` = 5), got 5.')
    refuses(
        lambda: outage(UP, start=0, stop=5, clients=[1, 7]),
        '`clients` must lie in [0, 2], got 7.',
    )
    for other, dtype in ((0.5, 'float64'), (True, 'bool')):  # no mask, and nothing to be cut off
        refuses(
            lambda other=other: outage(UP, start=0, stop=5, clients=[other]),
            f'`clients` must have an integer dtype, got {dtype}.',
        )
    refuses(
        lambda: by_group([0, 0, 1], [two, two]),
        '`patterns` must have as many clients as their groups, [2, 1], got [2, 2].',
    )
    refuses(lambda: cap(UP, 9), '`size` must be at most 3, got 9.')
    refuses(lambda: cap(UP, 1, rule='unifrom'), "`rule` has no 'unifrom'; did you mean 'uniform'?")
    refuses(lambda: uniform_cohort(3.0, 1), '`num_clients` must be a Python integer, got 3.0.')
