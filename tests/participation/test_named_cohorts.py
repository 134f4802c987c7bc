"""Cohorts given by client ids in place of masks, and cohorts by rejection sampling: their laws.

Rejection is for many clients. The fixture applies it to few, where laws can be listed.
"""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import analysis, simulation
from fedjax_links.base import (
    ClientKinds,
    CohortLinkSample,
    LinkSample,
    as_masks,
    prob_of,
)
from fedjax_links.core import prng
from fedjax_links.participation import (
    always,
    both,
    by_group,
    cap,
    minimum_separation,
    outage,
    periodic_groups,
    regularized,
    rejection_sampling,
    replay,
    switch,
    unavailable,
    uniform_cohort,
)
from tests.participation.sampling import (
    assert_frequencies,
    assert_resumes,
    assert_second_cohort,
    assert_uniform_pairs,
    codes,
    law_of_sets,
    masks,
    roll,
    roll_together,
)
from tests.tiers import cases

SEEDS = 20_000
BOUND = rejection_sampling.FEWEST_CLIENTS


@pytest.fixture
def rejecting(monkeypatch):
    """Applies rejection sampling to cohorts of few clients, too, whatever it costs."""
    monkeypatch.setattr(rejection_sampling, 'FEWEST_CLIENTS', 1)
    monkeypatch.setattr(rejection_sampling, 'LARGEST_SHARE', 1.0)
    monkeypatch.setattr(rejection_sampling, 'rarely_collide', lambda *of: True)


def rejects(pattern):
    """Whether a round draws by rejection, the only one here with a ``while`` in its program."""
    carry = jax.eval_shape(pattern.init, jax.random.key(0))
    return 'while' in str(
        jax.make_jaxpr(pattern.sample)(carry, jax.random.key(0), jnp.int32(0))
    )


def test_every_cohort_of_known_size_is_named():
    few = 12
    many = BOUND
    for n in (few, many):
        steep = np.arange(1.0, n + 1) ** -1.5
        for pattern in (
            uniform_cohort(n, 3),
            uniform_cohort(n, n - 1),
            regularized(n, 4),
            periodic_groups(np.arange(n) % 2, active_rounds=2, cohort_size=3),
            minimum_separation(steep, separation=0),
            minimum_separation(steep, separation=3, cohort_size=3),
            minimum_separation(
                steep, separation=np.arange(n) % 3, cohort_size=2, design='sum'
            ),
            minimum_separation([1.0, 2.0], separation=1, groups=np.arange(n) % 2),
            replay(np.arange(n) == np.arange(5)[:, None]),
        ):
            assert simulation.sample_shapes(pattern).is_full
        for pattern in (
            regularized(n, 5),
            minimum_separation(
                [1.0, 2.0], separation=1, groups=np.minimum(np.arange(n), 1)
            ),
        ):
            links = simulation.sample_shapes(pattern)
            assert isinstance(links, CohortLinkSample)
            assert not links.is_full
    results = []

    def traced(weights, separation):
        pattern = minimum_separation(weights, separation=separation, cohort_size=3)
        results.append(simulation.sample_shapes(pattern).is_full)

    jax.eval_shape(traced, np.ones(few), np.int32(1))
    assert results == [False]  # traced arguments are not checked: fewer may be left


@pytest.mark.parametrize('prob', [None, np.full((4, 5), 0.4)])
def test_a_record_of_cohorts_names_them(prob):
    mask = np.array(
        [[0, 1, 0, 0, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 1, 0, 1, 0]], bool
    )
    named = replay(mask, prob)
    others = [mask ^ (np.arange(4) == 2)[:, None], np.zeros_like(mask)]
    links, *links_of_others = roll_together([named, *map(replay, others)], 9)
    np.testing.assert_array_equal(links.mask, np.tile(mask, (3, 1))[:9])
    np.testing.assert_array_equal(
        links.prob, np.full((9, 5), np.nan if prob is None else 0.4, 'f')
    )
    kind = CohortLinkSample if prob is None else LinkSample
    assert isinstance(simulation.sample_shapes(named), kind)
    for other, links in zip(others, links_of_others, strict=True):
        assert isinstance(simulation.sample_shapes(replay(other)), LinkSample)
        np.testing.assert_array_equal(links.mask[:4], other)


def test_small_cohorts_of_many_are_drawn_by_rejection():
    n = BOUND
    falling = np.arange(1.0, BOUND + 1) ** -0.5
    for pattern in (
        uniform_cohort(n, n // 2),
        periodic_groups(np.arange(n) * 4 // n, active_rounds=2, cohort_size=n // 8),
        minimum_separation(np.ones(n), separation=3, cohort_size=n // 8),
        minimum_separation(falling, separation=3, cohort_size=10, design='successive'),
        minimum_separation(falling, separation=3, cohort_size=10, design='sum'),
        minimum_separation(falling, separation=3),
        minimum_separation(np.ones(n), separation=0),
        minimum_separation(falling, separation=3, cohort_size=10),
        minimum_separation(falling, separation=np.arange(n) % 4, cohort_size=10),
        minimum_separation(np.ones(n), separation=3, groups=np.arange(2 * n) // 2),
        periodic_groups(np.arange(n) % 4, active_rounds=2, cohort_size=10),
    ):
        assert rejects(pattern)
    # Weights of which one client has more than a third.
    steep = np.arange(1.0, n + 1) ** -1.5
    for pattern in (
        uniform_cohort(n - 1, 10),
        uniform_cohort(n, n // 2 + 1),
        periodic_groups(np.arange(n) % 4, active_rounds=2, cohort_size=n // 8 + 1),
        minimum_separation(np.ones(n), separation=3, cohort_size=n // 8 + 1),
        # Of 200 independent draws some would mostly coincide.
        minimum_separation(falling, separation=0, cohort_size=200),
        minimum_separation(steep, separation=3, cohort_size=10, design='successive'),
        minimum_separation(falling, separation=np.where(np.arange(n) == 9, n // 2, 3)),
        minimum_separation(np.ones(n // 2), separation=3, groups=np.arange(n) // 2),
    ):
        assert not rejects(pattern)
    traced = []
    jax.eval_shape(
        lambda w: traced.append(rejects(minimum_separation(w, separation=3))), falling
    )
    assert traced == [False]


@pytest.mark.statistical
def test_uniform_cohorts_are_uniform_over_sets(rejecting):
    assert_uniform_pairs(masks(uniform_cohort(5, 2), 2, SEEDS))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    'size, design',
    [
        *itertools.product([2, 3, 5], ['successive', 'sum']),
        (2, 'product'),
        (3, 'product'),
    ],
)
def test_first_cohort_against_enumeration(rejecting, design, size):
    weights = np.array([0.1, 1.0, 2.0, 5.0, 0.5])
    pattern = minimum_separation(weights, separation=0, cohort_size=size, design=design)
    assert rejects(pattern)
    result = codes(masks(pattern, 1, SEEDS)[:, 0])
    sets, probs = law_of_sets(weights, size, design)
    assert_frequencies((result[:, None] == sets).sum(axis=0), probs, SEEDS)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.optimised  # here and below: runs longer than it compiles
@pytest.mark.parametrize('design', ['product', 'successive', 'sum'])
def test_marginals_of_the_enumerated_chain(rejecting, design):
    weights = np.array([4.0, 2.0, 1.0, 0.5, 0.5, 1.0])
    chain = analysis.minimum_separation_chain(weights, 1, 2, design)
    pattern = minimum_separation(weights, separation=1, cohort_size=2, design=design)
    assert rejects(pattern)
    mask = masks(pattern, 61, SEEDS)
    assert (mask.sum(axis=2) == 2).all()
    assert not (mask[:, 1:] & mask[:, :-1]).any()
    for t in (50, 60):
        assert_frequencies(mask[:, t].sum(axis=0), 2 * chain.marginal, SEEDS)


@pytest.mark.statistical
@pytest.mark.optimised
@pytest.mark.parametrize(
    'size, separation, burn_in', cases([(1, 2, 100), (3, 1, 40)], [])
)
def test_stationary_law_in_closed_form(rejecting, size, separation, burn_in):
    # One client by falling weights, and cohorts by equal ones: there all designs are one.
    weights = np.arange(1.0, 10) ** (-1.5 if size == 1 else 0)
    pattern = minimum_separation(weights, separation=separation, cohort_size=size)
    assert rejects(pattern)
    mask = masks(pattern, burn_in + 1, SEEDS)
    law = size * analysis.minimum_separation_stationary(weights, separation, size)
    assert_frequencies(mask[:, burn_in].sum(axis=0), law, SEEDS)


@pytest.mark.parametrize('design', ['product', 'successive', 'sum'])
def test_weight_zero_is_never(rejecting, design):
    weights = np.array([1.0, 0.0, 0.5, 0.0, 2.0, 1.0])
    pattern = minimum_separation(weights, separation=1, cohort_size=2, design=design)
    mask = masks(pattern, 50, 50)
    assert rejects(pattern)
    assert not mask[..., [1, 3]].any()
    assert (mask.sum(axis=2) == 2).all()


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize('design', ['product', 'successive', 'sum'])
def test_second_cohort_given_the_first(rejecting, design):
    # Weights with which most independent draws coincide, or fall on clients that rest.
    weights = np.array([1.0, 3.0, 0.3, 2.0, 6.0])
    pattern = minimum_separation(weights, separation=1, cohort_size=2, design=design)
    assert rejects(pattern)
    assert_second_cohort(masks(pattern, 2, 2 * SEEDS), weights, design)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.optimised
def test_groups_wait_for_their_own_separations(rejecting):
    weights = np.array([5.0, 4.0, 1.0, 1.0, 1.0, 1.0])
    separation = np.array([4, 2, 0, 0, 1, 1])
    chain = analysis.minimum_separation_chain(weights, separation)
    groups = np.array([5, 0, 1, 2, 2, 3, 4, 0, 1, 1])
    pattern = minimum_separation(weights, separation=separation, groups=groups)
    assert rejects(pattern)
    mask = masks(pattern, 61, SEEDS)
    for group in range(6):
        members = mask[..., groups == group]
        assert (members.all(axis=2) == members.any(axis=2)).all()
    assert_frequencies(mask[:, 60].sum(axis=0), chain.marginal[groups], SEEDS)


@pytest.mark.parametrize('num_clients, cohort_size', [(12, 4), (10, 4), (7, 7), (5, 1)])
def test_the_deck_deals_everybody_once(num_clients, cohort_size):
    pattern = regularized(num_clients, cohort_size)

    @jax.jit
    def run(key):
        links = simulation.realised_links(key, pattern, num_rounds=24)
        return links, links.size, as_masks(links)

    named, size, links = run(jax.random.key(0))
    period = -(-num_clients // cohort_size)
    turns = np.asarray(links.mask)[: 24 // period * period].reshape(
        -1, period, num_clients
    )
    np.testing.assert_array_equal(turns.sum(axis=1), 1)
    last = num_clients - (period - 1) * cohort_size
    sizes = np.where(np.arange(24) % period == period - 1, last, cohort_size)
    assert named.is_full == (last == cohort_size)
    np.testing.assert_array_equal(np.broadcast_to(size, 24), sizes)
    np.testing.assert_allclose(
        links.prob, np.tile(sizes[:, None] / num_clients, num_clients)
    )


GROUPS = np.repeat(np.arange(3), [4, 6, 5])


@pytest.mark.statistical
@pytest.mark.parametrize('mixed', [False, True])
def test_periodic_groups_are_available_in_turn_and_uniform(rejecting, mixed):
    groups = np.random.default_rng(0).permutation(GROUPS) if mixed else GROUPS
    pattern = periodic_groups(groups, active_rounds=2, cohort_size=2)
    assert rejects(pattern)
    links = roll(pattern, 24)
    offset = int(pattern.init(prng.pattern_key(jax.random.key(0))).offset)
    assert 0 <= offset < 2
    for t in range(24):
        is_available = groups == (t + offset) // 2 % 3
        assert links.mask[t].sum() == 2
        assert not (links.mask[t] & ~is_available).any()
        expected = np.where(is_available, 2 / is_available.sum(), 0)
        np.testing.assert_allclose(links.prob[t], expected, rtol=1e-6)
    mask = masks(pattern, 1, SEEDS)[:, 0]
    assert_frequencies(mask.sum(axis=0), np.where(groups == 0, 0.5, 0), SEEDS)


def test_marginals_do_not_change_with_the_bound():
    """At the bound itself: as often as from one client less, and with nobody out of reach."""
    pattern = uniform_cohort(BOUND, 64)
    mask = masks(pattern, 4, 200)
    assert (mask.sum(axis=2) == 64).all()
    counts = mask.reshape(-1, 8, BOUND // 8).sum(axis=(0, 2))
    assert_frequencies(counts, np.full(8, 1 / 8), 200 * 4 * 64)


@pytest.mark.parametrize(
    'num_kinds, kinds', [(1, None), (5, None), (3, [0, 2, 2, 2, 1])]
)
def test_a_sample_reads_as_masks_and_probabilities(num_kinds, kinds):
    chance = np.random.default_rng(0).random((3, num_kinds), np.float32)
    chance[1, 0] = np.nan
    links = CohortLinkSample(
        ids=np.array([[1, 3, 5], [0, 5, 5], [5, 5, 5]], np.int32),
        chance=chance,
        num_clients=5,
        kinds=None
        if kinds is None
        else ClientKinds(np.array(kinds, np.int32).tobytes()),
    )
    expected = np.array([[0, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0] * 5], bool)
    prob = np.broadcast_to(chance, (3, 5)) if kinds is None else chance[:, kinds]
    read = jax.jit(lambda links: (links.mask, links.prob))
    read_each = jax.jit(jax.vmap(prob_of, in_axes=(None, 0)))
    for sample, mask, probs in (
        (links, expected, prob),
        (jax.tree.map(lambda a: a[0], links), expected[0], prob[0]),
        (jax.tree.map(lambda a: np.stack([a, a]), links), [expected] * 2, [prob] * 2),
    ):
        result = read(sample)
        np.testing.assert_array_equal(result[0], mask)
        np.testing.assert_array_equal(result[1], probs)
    of_round = jax.tree.map(lambda a: a[1], links)
    np.testing.assert_array_equal(read_each(of_round, np.arange(5)), prob[1])
    np.testing.assert_array_equal(links.size, [2, 1, 0])
    assert dataclasses.replace(links, is_full=True).size == 3


@pytest.mark.slow
def test_in_pieces_and_side_by_side(rejecting):
    for pattern in (
        minimum_separation(np.ones(9), separation=2, cohort_size=2),
        regularized(9, 2),
        minimum_separation(np.arange(1.0, 10), separation=1, cohort_size=3),
        periodic_groups(GROUPS, active_rounds=2, cohort_size=2),
    ):
        assert_resumes(pattern)
        together = masks(pattern, 6, 3)
        for seed in range(3):
            np.testing.assert_array_equal(together[seed], roll(pattern, 6, seed).mask)


@pytest.mark.slow
def test_the_algebra_takes_named_cohorts(rejecting):
    cohort = uniform_cohort(6, 2)
    everyone = always(6)
    np.testing.assert_array_equal(roll(cap(cohort, 2), 9).mask.sum(axis=1), 2)
    np.testing.assert_array_equal(
        roll(cap(cohort, 1, rule='permutation'), 9).mask.sum(axis=1), 1
    )
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
