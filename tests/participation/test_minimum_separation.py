"""Minimum separation: the wait is never cut short, and every design has its own exact law."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.participation import minimum_separation, subset_sampling
from tests.analysis.enumeration import elementary_of_many
from tests.participation.sampling import (
    advance,
    assert_frequencies,
    assert_second_cohort,
    codes,
    law_of_sets,
    masks,
    refuses,
    roll,
)
from tests.tiers import cases

DESIGNS = ['product', 'successive', 'sum']
SEEDS = 20_000


def gaps(mask):
    """Yields the rounds between participations of each client of each run of masks [S, T, N]."""
    for run in np.moveaxis(mask, 2, 1).reshape(-1, mask.shape[1]):
        yield np.diff(np.flatnonzero(run))


@pytest.mark.slow
@pytest.mark.parametrize('design', DESIGNS)
def test_separation_is_never_broken_in_100_000_rounds(design):
    pattern = minimum_separation(
        0.7 ** np.arange(20), separation=4, cohort_size=3, design=design
    )
    mask = masks(pattern, 2000, 50)
    assert (mask.sum(axis=2) == 3).all()
    shortest = min(result.min(initial=99) for result in gaps(mask))
    assert shortest == 5  # back at t0 + R + 1, never before


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize('design', DESIGNS)
@pytest.mark.parametrize('size', [1, 2, 3, 5])
def test_first_cohort_against_enumeration(design, size):
    weights = np.array([0.1, 1.0, 2.0, 5.0, 0.5])
    pattern = minimum_separation(weights, separation=0, cohort_size=size, design=design)
    result = codes(masks(pattern, 1, SEEDS)[:, 0])
    sets, probs = law_of_sets(weights, size, design)
    assert_frequencies((result[:, None] == sets).sum(axis=0), probs, SEEDS)


@pytest.mark.statistical
@pytest.mark.parametrize('design', DESIGNS)
def test_second_cohort_given_the_first(design):
    weights = np.array([1.0, 3.0, 0.3, 2.0, 6.0])
    pattern = minimum_separation(weights, separation=1, cohort_size=2, design=design)
    assert_second_cohort(masks(pattern, 2, 2 * SEEDS), weights, design)


@pytest.mark.statistical
@pytest.mark.optimised  # here and below: runs longer than it compiles
@pytest.mark.parametrize(
    'num_clients, size, separation, burn_in',
    cases([(9, 3, 1, 40), (12, 3, 2, 300), (8, 1, 5, 400)], [(9, 3, 1, 40)]),
)
def test_product_design_has_the_closed_form(num_clients, size, separation, burn_in):
    # The longer the separation the slower a run forgets its start: hence the burn-in.
    weights = np.arange(1.0, num_clients + 1) ** -1.5
    pattern = minimum_separation(weights, separation=separation, cohort_size=size)
    mask = masks(pattern, burn_in + 21, SEEDS)
    law = size * analysis.minimum_separation_stationary(weights, separation, size)
    for t in (burn_in, burn_in + 20):
        assert_frequencies(mask[:, t].sum(axis=0), law, SEEDS)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize('design', ['successive', 'sum'])
def test_other_designs_against_the_enumerated_chain(design):
    weights = np.array([4.0, 2.0, 1.0, 0.5, 0.5, 1.0])
    chain = analysis.minimum_separation_chain(weights, 1, 2, design)
    mask = masks(
        minimum_separation(weights, separation=1, cohort_size=2, design=design),
        61,
        SEEDS,
    )
    for t in (50, 60):
        assert_frequencies(mask[:, t].sum(axis=0), 2 * chain.marginal, SEEDS)


@pytest.mark.statistical
def test_separation_per_client_against_the_enumerated_chain():
    weights = np.array([5.0, 4.0, 1.0, 1.0, 1.0, 1.0])
    separation = np.array([4, 2, 0, 0, 1, 1])
    chain = analysis.minimum_separation_chain(weights, separation)
    mask = masks(minimum_separation(weights, separation=separation), 61, SEEDS)
    assert_frequencies(mask[:, 60].sum(axis=0), chain.marginal, SEEDS)
    separation_of_gaps = np.tile(separation, 6)  # six runs of six clients
    for waited, least in zip(gaps(mask[:6]), separation_of_gaps, strict=True):
        assert waited.min(initial=9) > least


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.optimised
@pytest.mark.parametrize('separation', cases([0, 5, 8], [8]))
def test_groups_of_the_paper(separation):
    # 20 groups of 5 clients, p_g ~ g^-1.5; whole groups participate.
    weights = np.arange(1.0, 21) ** -1.5
    groups = np.repeat(np.arange(20), 5)
    pattern = minimum_separation(weights, separation=separation, groups=groups)
    assert pattern.num_clients == 100
    mask = masks(pattern, 201, 10_000)[:, [0, 200]]
    assert (mask.sum(axis=2) == 5).all()
    by_group = mask.reshape(10_000, 2, 20, 5)
    assert (by_group.all(axis=3) == by_group.any(axis=3)).all()
    law = analysis.minimum_separation_stationary(weights, separation)
    assert_frequencies(by_group[:, 1, :, 0].sum(axis=0), law, 10_000)
    prob = roll(pattern, 1).prob[0]
    if separation:
        assert np.isnan(prob).all()
    else:
        np.testing.assert_allclose(prob, np.repeat(law, 5), rtol=1e-5)


def test_largest_separation_is_cyclic():
    mask = roll(minimum_separation([5.0, 1, 1, 1], separation=3), 40).mask
    np.testing.assert_array_equal(mask[4:], mask[:-4])
    np.testing.assert_array_equal(mask[:4].sum(axis=0), 1)


@pytest.mark.parametrize('design', DESIGNS)
def test_weight_zero_is_never(design):
    weights = np.array([1.0, 0.0, 1e-6, 0.0, 2.0])
    pattern = minimum_separation(weights, separation=0, cohort_size=2, design=design)
    mask = masks(pattern, 50, 50)
    assert not mask[..., [1, 3]].any()
    assert (mask.sum(axis=2) == 2).all()


@pytest.mark.parametrize('design', DESIGNS)
def test_too_few_eligible_all_participate(design):
    # What is traced is not checked ahead: the cohort shrinks and recovers.
    @jax.jit
    def run(separation):
        pattern = minimum_separation(
            [3.0, 1.0, 1.0, 1.0, 0.0],
            separation=separation,
            cohort_size=3,
            design=design,
        )
        return advance(pattern, pattern.init(None), jax.random.key(0), 0, 8)[1]

    np.testing.assert_array_equal(
        run(jnp.int32(1)).sum(axis=1), [3, 1, 3, 1, 3, 1, 3, 1]
    )


@pytest.mark.slow
@pytest.mark.parametrize('design', DESIGNS)
def test_weights_of_any_scale(design):
    weights = np.array([1e300, 1e290, 1e-300, 1e-290, 1.0])
    mask = roll(
        minimum_separation(weights, separation=0, cohort_size=3, design=design), 50
    ).mask
    assert (mask.sum(axis=1) == 3).all()
    if design != 'sum':
        assert mask[:, :2].all()
    scaled = np.array([1.0, 2.0, 3.0, 4.0])
    runs = [
        roll(
            minimum_separation(c * scaled, separation=0, cohort_size=2, design=design),
            50,
        ).mask
        for c in (2.0**-100, 1.0, 2.0**100)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[2], runs[1])


@pytest.mark.slow
@pytest.mark.statistical
def test_conditional_poisson_is_sound_for_many_clients():
    # 3000 clients with weights over ten orders of magnitude: inclusion probabilities by decile.
    weights = np.exp(np.random.default_rng(1).uniform(-23, 0, 3000))
    mask = masks(minimum_separation(weights, separation=0, cohort_size=40), 1, 400)[
        :, 0
    ]
    assert (mask.sum(axis=1) == 40).all()
    exact = analysis.inclusion_probabilities(weights, 40)
    order = np.argsort(weights)
    for part in np.array_split(order, 10):
        expected = exact[part].sum() * 400
        count = mask[:, part].sum()
        # Negatively correlated indicators: the variance is at most that of independent ones.
        variance = (exact[part] * (1 - exact[part])).sum() * 400
        assert abs(count - expected) < 5.5 * np.sqrt(variance) + 1


def test_ratio_recursion_against_exact_fractions(x64):
    weights = [Fraction(k * k + 1, 7) for k in range(12)]
    top = max(weights)
    scaled = jnp.asarray([float(w / top) for w in weights])
    # With uniforms u the walk takes client i iff u_i < w_i e_{r-1} / e_r over the clients from i.
    uniforms = np.asarray(jax.random.uniform(jax.random.key(8), (12,), 'float32'))
    subset = jax.jit(subset_sampling.product_subset, static_argnums=3)
    ids = subset(jax.random.key(8), jnp.ones(12, bool), scaled, 4)
    mask = np.isin(np.arange(12), ids)

    left = 4
    for i in range(12):
        chance = Fraction(0)
        if left:
            chance = weights[i] * elementary_of_many(weights[i + 1 :], left - 1)
            chance /= elementary_of_many(weights[i:], left)
        taken = uniforms[i] < float(chance)
        assert mask[i] == taken
        left -= int(taken)
    assert left == 0


def test_traced_weights_and_separation():
    weights = np.float32([[1, 2, 3, 4, 5], [1, 1, 1, 1, 1]])
    separation = np.int32([2, 4])

    def run(weights, separation):
        pattern = minimum_separation(weights, separation=separation)
        return advance(pattern, pattern.init(None), jax.random.key(0), 0, 30)[1]

    swept = jax.jit(jax.vmap(run))(weights, separation)
    concrete = [(weights[g], int(separation[g])) for g in range(2)]
    alone = jax.jit(lambda: jnp.stack([run(*values) for values in concrete]))()
    np.testing.assert_array_equal(swept, alone)


def test_errors():
    ones = np.ones(10)
    refuses(
        lambda: minimum_separation(ones, separation=3, cohort_size=3),
        '`separation` must leave `cohort_size` = 3 of 10 selectable in every round, '
        'and so be at most 2, got 3.',
    )
    refuses(
        lambda: minimum_separation(ones[:3], separation=[2, 2, 2], cohort_size=2),
        '`separation` must leave `cohort_size` = 2 of 3 selectable in every round, got up to 2.',
    )
    refuses(
        lambda: minimum_separation([1.0, 0.0, 1.0], separation=2),
        '`separation` must leave `cohort_size` = 1 of 2 selectable in every round, '
        'and so be at most 1, got 2.',
    )
    refuses(
        lambda: minimum_separation(ones, separation=-1),
        '`separation` must be integers of at least 0, got -1.',
    )
    # In int32 the round after this wait would be negative: the client would never wait.
    refuses(
        lambda: minimum_separation(ones[:3], separation=[2**31 - 1, 0, 0]),
        '`separation` must lie in [0, 1.07374e+09], got 2147483647 at client 0.',
    )
    refuses(
        lambda: minimum_separation(ones, separation='5'),
        "`separation` must be a number, got '5'.",
    )
    refuses(
        lambda: minimum_separation(ones, separation=1.5),
        '`separation` must be integers of at least 0, got 1.5.',
    )
    refuses(
        lambda: minimum_separation(ones, separation=[1, 2]),
        '`separation` must be one number or a list of 10, got shape (2,).',
    )
    refuses(
        lambda: minimum_separation(ones, separation=0, cohort_size=11),
        '`cohort_size` must be at most 10, got 11.',
    )
    refuses(
        lambda: minimum_separation(ones, separation=0, design='produkt'),
        "`design` has no 'produkt'; did you mean 'product'?",
    )
    refuses(
        lambda: minimum_separation([1.0, -2.0], separation=0),
        '`weights` must be non-negative, got -2.0 at client 1.',
    )
    refuses(
        lambda: minimum_separation([1.0, np.inf], separation=0),
        '`weights` must be finite, got inf at client 1.',
    )
    refuses(
        lambda: minimum_separation([], separation=0),
        '`weights` must be a vector with one entry per client, got shape (0,).',
    )
    refuses(
        lambda: minimum_separation([0.0, 0.0], separation=0),
        '`weights` must have a positive entry, got zeros only.',
    )
    refuses(
        lambda: minimum_separation([1.0, 1.0], separation=0, groups=[0, 1, 2]),
        '`groups` must lie in [0, 1], got 2 at client 2.',
    )


def test_feasibility_of_mixed_separations_is_exact():
    # Two clients that wait long leave the third: feasible, though (max R + 1) B > N.
    minimum_separation(np.ones(3), separation=[9, 9, 0])
    analysis.minimum_separation_chain(np.ones(3), np.array([9, 9, 0]))
    for waits in ([9, 9, 1], [1, 1, 2], [3, 1, 0], [2, 0, 0]):
        for size in (1, 2):
            are_feasible = []
            for build in (minimum_separation, analysis.minimum_separation_chain):
                try:
                    build(np.ones(3), separation=np.array(waits), cohort_size=size)
                    are_feasible.append(True)
                except ValueError:
                    are_feasible.append(False)
            assert are_feasible[0] == are_feasible[1], (waits, size)
