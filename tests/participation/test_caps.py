"""Caps: their size, their law, and permutations that are used up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import base
from fedjax_links.participation import (
    always,
    bernoulli,
    cap,
    duplex,
    regularized,
    replay,
    subset_sampling,
)
from tests.participation.sampling import (
    assert_frequencies,
    masks,
    roll,
    roll_together,
)

SEEDS = 20_000
RULES = ['uniform', 'permutation']


def test_cap_keeps_at_most_s_of_the_active():
    inner = bernoulli(np.full(6, 0.5))
    capped = [cap(inner, 2, rule=rule) for rule in RULES]
    alone, *by_rule = roll_together([inner, *capped], 300)
    active = alone.mask
    sizes = np.minimum(active.sum(axis=1), 2)
    for rule, links in zip(RULES, by_rule, strict=True):
        assert not (links.mask & ~active).any(), rule
        np.testing.assert_array_equal(links.mask.sum(axis=1), sizes, rule)


@pytest.mark.statistical
def test_cap_has_its_law():
    recording = np.array([[True, True, False, True]])
    uniform = masks(cap(replay(recording), 2), 1, SEEDS)[:, 0]
    assert_frequencies(uniform.sum(axis=0), [2 / 3, 2 / 3, 0, 2 / 3], SEEDS)


def test_cap_counts_those_who_take_part():
    """Half of the clients upload without a broadcast: they do not count for the cap of five."""
    receives = np.arange(10) < 5
    inner = duplex(uplink=always(10), downlink=replay([receives]))
    by_rule = roll_together([cap(inner, 5, rule=rule) for rule in RULES], 40)
    for rule, links in zip(RULES, by_rule, strict=True):
        participants = base.participants(links)
        np.testing.assert_array_equal(participants, np.tile(receives, (40, 1)), rule)


def test_a_permutation_continues_within_a_round():
    patterns = [cap(always(5), 2, rule='permutation'), regularized(5, 2)]
    capped, dealt = roll_together(patterns, 6)
    np.testing.assert_array_equal(capped.mask.sum(axis=1), [2, 2, 2, 2, 2, 2])
    np.testing.assert_array_equal(dealt.mask.sum(axis=1), [2, 2, 1, 2, 2, 1])


def test_permutation_rule_with_all_active_is_regularized():
    mask = roll(cap(always(12), 4, rule='permutation'), 30).mask
    np.testing.assert_array_equal(mask.reshape(10, 3, 12).sum(axis=1), 1)


def consume_in_a_loop(orders, active, size, distinct):
    """Pops clients from a stack in order; an empty one is replaced, also within a round."""
    orders = iter(orders)
    stack = list(next(orders))
    results = []
    for available in active:
        taken = []
        while len(taken) < size:
            if not stack:
                stack = list(next(orders))
            client = stack.pop(0)
            if available[client] and not (distinct and client in taken):
                taken.append(client)
        results.append(sorted(taken))
    return results


@pytest.mark.parametrize('distinct', [True, False])
def test_permutation_is_consumed_as_in_a_plain_loop(distinct):
    rng = np.random.default_rng(4)
    size = 3
    num_clients = 10
    active = np.stack(
        [rng.permutation(num_clients) < rng.integers(3, 9) for _ in range(60)]
    )
    consume = jax.jit(
        subset_sampling.take_from_permutation, static_argnames=('size', 'distinct')
    )
    shuffle = jax.jit(subset_sampling.random_order, static_argnums=1)
    order = shuffle(jax.random.key(0), num_clients)
    orders = [np.argsort(order.position)]
    masks = []
    for t, available in enumerate(active):
        before = np.asarray(order.position)
        order, mask = consume(
            jax.random.key(t + 1),
            order,
            jnp.asarray(available),
            size,
            distinct=distinct,
        )
        if (np.asarray(order.position) != before).any():
            orders.append(np.argsort(order.position))
        masks.append(np.flatnonzero(mask).tolist())
    expected = consume_in_a_loop(orders, active, size, distinct)
    assert masks == [sorted(set(taken)) for taken in expected]
    short = [len(taken) for taken in masks]
    assert set(short) == ({3} if distinct else {2, 3})
