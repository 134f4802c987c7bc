"""Cohorts that are named instead of marked: the same laws, clients and probabilities."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.base import CohortLinkSample, LinkSample
from fedjax_links.participation import (
    always,
    both,
    by_group,
    cap,
    minimum_separation,
    outage,
    periodic_groups,
    regularized,
    rejection,
    switch,
    unavailable,
    uniform_cohort,
)
from tests.participation.sampling import advance, assert_frequencies, masks, roll
from tests.tiers import cases

SEEDS = 20_000
BOUND = rejection.FEWEST_CLIENTS


@pytest.fixture
def named(monkeypatch):
    """Cohorts of few clients, too, are named, whatever it costs."""
    monkeypatch.setattr(rejection, 'FEWEST_CLIENTS', 1)
    monkeypatch.setattr(rejection, 'LARGEST_SHARE', 1.0)


def names(pattern):
    carry = jax.eval_shape(pattern.init, jax.random.key(0))
    _, links = jax.eval_shape(pattern.sample, carry, jax.random.key(0), jnp.int32(0))
    return isinstance(links, CohortLinkSample)


def codes(mask):
    return mask @ (1 << np.arange(mask.shape[-1]))


def test_who_names_a_cohort():
    n, falling = BOUND, np.arange(1.0, BOUND + 1) ** -0.5
    for pattern in (
        uniform_cohort(n, n // 2),
        regularized(n, n),
        periodic_groups(np.arange(n) * 4 // n, active_rounds=2, cohort_size=n // 8),
        minimum_separation(np.ones(n), separation=3, cohort_size=n // 8),
        minimum_separation(falling, separation=3, cohort_size=10, design='successive'),
        minimum_separation(falling, separation=3, cohort_size=10, design='sum'),
        minimum_separation(falling, separation=3),
    ):
        assert names(pattern)
    steep = np.arange(1.0, n + 1) ** -1.5  # one client has more than a third of the weight
    for pattern in (
        uniform_cohort(n - 1, 10),
        uniform_cohort(n, n // 2 + 1),
        regularized(n - 1, 10),
        periodic_groups(np.arange(n) % 4, active_rounds=2, cohort_size=10),
        minimum_separation(np.ones(n), separation=3, cohort_size=n // 8 + 1),
        minimum_separation(np.ones(n), separation=0),
        minimum_separation(falling, separation=3, cohort_size=10),
        minimum_separation(steep, separation=3, cohort_size=10, design='successive'),
        minimum_separation(falling, separation=np.full(n, 3)),
        minimum_separation(np.ones(n // 2), separation=3, groups=np.arange(n) // 2),
    ):
        assert not names(pattern)
    traced = []
    jax.eval_shape(lambda w: traced.append(names(minimum_separation(w, separation=3))), falling)
    assert traced == [False]


@pytest.mark.parametrize('kind', range(5))
def test_alias_table_has_the_law_of_the_weights(kind):
    rng = np.random.default_rng(kind)
    for _ in range(200):
        size = int(rng.integers(1, 12))
        weights = (
            rng.random(size),
            np.append(rng.integers(0, 4, size - 1).astype(float), 1),
            np.exp(rng.normal(0, 5, size)),
            np.ones(size),
            np.append(np.where(rng.random(size - 1) < 0.5, 1e-300, 1), 1),
        )[kind]
        threshold, alias = rejection.alias_table(weights)
        own = np.where(alias == np.arange(size), 2**32, threshold.astype(np.int64))
        amounts = own.copy()
        np.add.at(amounts, alias, 2**32 - own)
        assert amounts.sum() == size * 2**32
        np.testing.assert_allclose(
            amounts / 2**32 / size, weights / weights.sum(), atol=size / 2**31
        )
        np.testing.assert_array_equal(amounts > 0, weights > 0)


@pytest.mark.statistical
def test_uniform_cohorts_are_uniform_over_sets(named):
    mask = masks(uniform_cohort(5, 2), 2, SEEDS)
    assert (mask.sum(axis=2) == 2).all()
    found = codes(mask)
    sets = [code for code in range(32) if code.bit_count() == 2]
    assert_frequencies(np.array([(found[:, 0] == c).sum() for c in sets]), np.full(10, 0.1), SEEDS)
    assert_frequencies(np.array((found[:, 0] == found[:, 1]).sum()), 0.1, SEEDS)


@pytest.mark.statistical
@pytest.mark.parametrize(
    'size, design',
    cases(itertools.product([2, 3, 5], ['successive', 'sum']), [(3, 'successive'), (3, 'sum')]),
)
def test_first_cohort_against_enumeration(named, design, size):
    weights = np.array([0.1, 1.0, 2.0, 5.0, 0.5])
    pattern = minimum_separation(weights, separation=0, cohort_size=size, design=design)
    assert names(pattern)
    found = codes(masks(pattern, 1, SEEDS)[:, 0])
    law = analysis.cohort_law(weights, size, design)
    sets = (1 << law.cohorts).sum(axis=1)
    assert_frequencies((found[:, None] == sets).sum(axis=0), law.probs, SEEDS)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize('design', ['successive', 'sum'])
def test_marginals_of_the_enumerated_chain(named, design):
    weights = np.array([4.0, 2.0, 1.0, 0.5, 0.5, 1.0])
    chain = analysis.minimum_separation_chain(weights, 1, 2, design)
    pattern = minimum_separation(weights, separation=1, cohort_size=2, design=design)
    assert names(pattern)
    mask = masks(pattern, 61, SEEDS)
    assert (mask.sum(axis=2) == 2).all()
    assert not (mask[:, 1:] & mask[:, :-1]).any()
    for t in (50, 60):
        assert_frequencies(mask[:, t].sum(axis=0), 2 * chain.marginal, SEEDS)


@pytest.mark.statistical
@pytest.mark.parametrize('size, separation, burn_in', cases([(1, 2, 100), (3, 1, 40)], []))
def test_stationary_law_in_closed_form(named, size, separation, burn_in):
    # One client by falling weights, and cohorts by equal ones: there all designs are one.
    weights = np.arange(1.0, 10) ** (-1.5 if size == 1 else 0)
    pattern = minimum_separation(weights, separation=separation, cohort_size=size)
    assert names(pattern)
    mask = masks(pattern, burn_in + 1, SEEDS)
    law = size * analysis.minimum_separation_stationary(weights, separation, size)
    assert_frequencies(mask[:, burn_in].sum(axis=0), law, SEEDS)


@pytest.mark.parametrize('design', ['successive', 'sum'])
def test_weight_zero_is_never(named, design):
    weights = np.array([1.0, 0.0, 0.5, 0.0, 2.0, 1.0])
    pattern = minimum_separation(weights, separation=1, cohort_size=2, design=design)
    mask = masks(pattern, 50, 50)
    assert names(pattern)
    assert not mask[..., [1, 3]].any()
    assert (mask.sum(axis=2) == 2).all()


@pytest.mark.parametrize(
    'num_clients, cohort_size', cases([(12, 4), (10, 4), (7, 7), (5, 1)], [(10, 4), (5, 1)])
)
def test_the_deck_deals_the_cohorts_of_the_permutation(monkeypatch, num_clients, cohort_size):
    marked = roll(regularized(num_clients, cohort_size), 30)
    monkeypatch.setattr(rejection, 'FEWEST_CLIENTS', 1)
    listed = roll(regularized(num_clients, cohort_size), 30)
    assert isinstance(marked, LinkSample)
    assert isinstance(listed, CohortLinkSample)
    np.testing.assert_array_equal(listed.mask, marked.mask)
    np.testing.assert_array_equal(listed.prob, marked.prob)
    np.testing.assert_array_equal(listed.size, marked.mask.sum(axis=1))


GROUPS = np.repeat(np.arange(3), [4, 6, 5])


@pytest.mark.statistical
def test_periodic_groups_are_available_in_turn_and_uniform(named):
    pattern = periodic_groups(GROUPS, active_rounds=2, cohort_size=2)
    links = roll(pattern, 24)
    assert isinstance(links, CohortLinkSample)
    offset = int(pattern.init(jax.random.key(0)).offset)
    for t in range(24):
        group = GROUPS[np.flatnonzero(links.mask[t])]
        assert len(group) == 2
        assert group[0] == group[1]
        expected = np.where(group[0] == GROUPS, 2 / (group[0] == GROUPS).sum(), 0)
        np.testing.assert_allclose(links.prob[t], expected, rtol=1e-6)
    assert 0 <= offset < 2
    mask = masks(pattern, 1, SEEDS)[:, 0]
    assert_frequencies(mask.sum(axis=0), np.where(GROUPS == 0, 0.5, 0), SEEDS)


def test_marginals_do_not_change_with_the_bound():
    """At the bound itself: as often as from one client less, and with nobody out of reach."""
    pattern = uniform_cohort(BOUND, 64)
    mask = masks(pattern, 4, 200)
    assert (mask.sum(axis=2) == 64).all()
    counts = mask.reshape(-1, 8, BOUND // 8).sum(axis=(0, 2))
    assert_frequencies(counts, np.full(8, 1 / 8), 200 * 4 * 64)


def test_a_sample_reads_as_masks_and_probabilities():
    links = CohortLinkSample(
        ids=jnp.array([[1, 3, 5], [0, 5, 5], [5, 5, 5]], jnp.int32),
        chance=jnp.array([0.5, 0.25, jnp.nan]),
        available=jnp.array([[1, 5], [0, 2], [0, 0]], jnp.int32),
        num_clients=5,
    )
    expected = np.array([[0, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0] * 5], bool)
    prob = [[0, 0.5, 0.5, 0.5, 0.5], [0.25, 0.25, 0, 0, 0], [0] * 5]
    read = jax.jit(lambda links: (links.mask, links.prob))
    for sample, mask, probs in (
        (links, expected, prob),
        (jax.tree.map(lambda a: a[0], links), expected[0], prob[0]),
        (jax.tree.map(lambda a: np.stack([a, a]), links), [expected] * 2, [prob] * 2),
    ):
        found = read(sample)
        np.testing.assert_array_equal(found[0], mask)
        np.testing.assert_array_equal(found[1], probs)
    np.testing.assert_array_equal(links.size, [2, 1, 0])
    assert dataclasses.replace(links, is_full=True).size == 3


@pytest.mark.slow
def test_in_pieces_and_side_by_side(named):
    for pattern in (
        minimum_separation(np.ones(9), separation=2, cohort_size=2),
        regularized(9, 2),
        periodic_groups(GROUPS, active_rounds=2, cohort_size=2),
    ):
        key = jax.random.key(1)
        carry = pattern.init(jax.random.key(0))
        _, whole = advance(pattern, carry, key, 0, 12)
        middle, first = advance(pattern, carry, key, 0, 5)
        _, second = advance(pattern, middle, key, 5, 7)
        np.testing.assert_array_equal(np.concatenate([first, second]), whole)
        together = masks(pattern, 6, 3)
        for seed in range(3):
            np.testing.assert_array_equal(together[seed], roll(pattern, 6, seed).mask)


def test_the_algebra_takes_named_cohorts(named):
    cohort, everyone = uniform_cohort(6, 2), always(6)
    np.testing.assert_array_equal(roll(cap(cohort, 2), 9).mask.sum(axis=1), 2)
    np.testing.assert_array_equal(roll(cap(cohort, 1, rule='permutation'), 9).mask.sum(axis=1), 1)
    joined = roll(both(cohort, everyone), 9)
    np.testing.assert_array_equal(joined.mask.sum(axis=1), 2)
    np.testing.assert_allclose(joined.prob, 1 / 3, rtol=1e-6)
    sizes = roll(switch([cohort, everyone], 4), 9).mask.sum(axis=1)
    np.testing.assert_array_equal(sizes, [2] * 4 + [6] * 5)
    down = roll(outage(cohort, start=2, stop=4), 6).mask.sum(axis=1)
    np.testing.assert_array_equal(down, [2, 2, 0, 0, 2, 2])
    halves = roll(by_group(np.arange(12) % 2, [cohort, everyone]), 5).mask.sum(axis=1)
    np.testing.assert_array_equal(halves, 8)
    links = roll(unavailable(cohort), 5)
    np.testing.assert_array_equal(links.mask, roll(cohort, 5).mask)
