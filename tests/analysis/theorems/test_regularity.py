"""What patterns are worth to amplified FedAvg, against loops and enumeration."""

import itertools

import numpy as np
import pytest

from fedjax_links.analysis.theorems import regularity
from tests import refusals
from tests.analysis import enumeration
from tests.refusals import refuses


def random_weights(rng, num_rounds, num_clients):
    masks = rng.uniform(size=(num_rounds, num_clients)) < 0.4
    masks[np.arange(num_rounds), rng.integers(num_clients, size=num_rounds)] = True
    return regularity.participation_weights(masks)


def centred(rng, num_clients, dimension):
    vectors = rng.normal(size=(num_clients, dimension))
    return vectors - vectors.mean(axis=0)


def test_weights_average_over_the_active_clients():
    rng = np.random.default_rng(0)
    masks = rng.uniform(size=(50, 4)) < 0.3
    weights = regularity.participation_weights(masks)
    for mask, row in zip(masks, weights, strict=True):
        np.testing.assert_array_equal(row, mask / max(mask.sum(), 1))


def test_constants_equal_loops():
    rng = np.random.default_rng(1)
    weights = random_weights(rng, 23, 5)
    vectors = centred(rng, 5, 3)
    result = regularity.pattern_constants(weights, vectors, 4)
    blocks = []
    for start in range(0, 20, 4):
        total = sum(
            weights[t, n] * vectors[n]
            for t in range(start, start + 4)
            for n in range(5)
        )
        blocks.append(float(total @ total) / 16)
    deviations = []
    spreads = []
    for row in weights:
        mean = sum(row[n] * vectors[n] for n in range(5))
        deviations.append(mean @ mean)
        spreads.append(sum(row[n] * np.sum((vectors[n] - mean) ** 2) for n in range(5)))
    np.testing.assert_allclose(result.block_deviation, max(blocks), rtol=1e-12)
    np.testing.assert_allclose(result.mean_block_deviation, np.mean(blocks), rtol=1e-12)
    np.testing.assert_allclose(
        result.standard_error, np.std(blocks, ddof=1) / 5**0.5, rtol=1e-12
    )
    np.testing.assert_allclose(result.round_deviation, max(deviations), rtol=1e-12)
    np.testing.assert_allclose(result.round_divergence, max(spreads), rtol=1e-12)
    largest = max(sum(q * q for q in row) for row in weights)
    np.testing.assert_allclose(result.largest_weight_square, largest, rtol=1e-12)
    assert result.num_empty == 0


def test_empty_rounds_are_counted():
    weights = regularity.participation_weights([[1, 0], [0, 0], [0, 1], [1, 1]])
    assert regularity.pattern_constants(weights, [[1.0], [-1.0]], 2).num_empty == 1


def test_independent_deviation_equals_enumeration():
    rng = np.random.default_rng(2)
    probs = rng.uniform(size=3)
    vectors = centred(rng, 3, 2)
    sets = [(m, p) for m, p in enumeration.active_sets(probs) if m.any()]
    some = sum(p for _, p in sets)
    for period in (1, 2, 3):
        exact = 0.0
        for block in itertools.product(sets, repeat=period):
            chance = np.prod([p / some for _, p in block])
            mean = sum((m / m.sum()) @ vectors for m, _ in block) / period
            exact += chance * float(mean @ mean)
        np.testing.assert_allclose(
            regularity.independent_block_deviation(probs, vectors, period),
            exact,
            rtol=1e-12,
        )


def test_cohort_deviation_equals_enumeration():
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(4, 2))
    for size, period in itertools.product((1, 2, 3, 4), (1, 2, 3)):
        cohorts = list(itertools.combinations(range(4), size))
        means = [vectors[list(cohort)].mean(axis=0) for cohort in cohorts]
        exact = np.mean(
            [
                np.sum((np.sum(block, axis=0) / period) ** 2)
                for block in itertools.product(means, repeat=period)
            ]
        )
        np.testing.assert_allclose(
            regularity.uniform_cohort_block_deviation(vectors, size, period),
            exact,
            rtol=1e-12,
        )


def test_everybody_in_every_round_deviates_not_at_all():
    vectors = centred(np.random.default_rng(4), 6, 2)
    assert regularity.uniform_cohort_block_deviation(vectors, 6, 1) <= 1e-12
    ones = np.ones(6)
    assert regularity.independent_block_deviation(ones, vectors, 1) <= 1e-12
    assert regularity.regular_period(np.full((4, 6), 1 / 6)) == 1


@pytest.mark.parametrize('cohort', [1, 2, 4])
def test_regularised_cohorts_are_regular_after_one_lap(cohort):
    rng = np.random.default_rng(5)
    order = rng.permutation(8).reshape(-1, cohort)
    masks = np.zeros((40, 8), bool)
    for t in range(40):
        masks[t, order[t % len(order)]] = True
    weights = regularity.participation_weights(masks)
    assert regularity.regular_period(weights) == 8 // cohort


def test_turns_with_an_offset_are_regular_after_a_cycle():
    """Groups of two take turns of three rounds; the first turn is cut to two."""
    masks = np.array(
        [[(t + 1) // 3 % 2 == 0] * 2 + [(t + 1) // 3 % 2 == 1] * 2 for t in range(36)]
    )
    weights = regularity.participation_weights(masks)
    assert regularity.regular_period(weights) == 6
    assert regularity.block_distances(weights, 6).largest <= 1e-12
    assert regularity.block_distances(weights, 3).largest > 0.3


def test_independent_links_are_never_regular_but_come_closer():
    weights = random_weights(np.random.default_rng(6), 4000, 5)
    assert regularity.regular_period(weights, max_period=50) is None
    means = [regularity.block_distances(weights, p).mean for p in (1, 10, 100)]
    assert means[0] > means[1] > means[2]


def test_distances_bound_deviations():
    rng = np.random.default_rng(7)
    for _ in range(50):
        weights = random_weights(rng, 40, 5)
        vectors = centred(rng, 5, 3)
        largest = np.linalg.norm(vectors, axis=1).max()
        for period in (1, 5):
            distance = regularity.block_distances(weights, period).largest
            result = regularity.pattern_constants(weights, vectors, period)
            assert result.block_deviation <= (distance * largest) ** 2 * (1 + 1e-12)


@pytest.mark.slow
def test_bounds_of_the_constants_hold_on_random_differences():
    """1,000 patterns with differences of the largest norm G."""
    rng = np.random.default_rng(9)
    for _ in range(1000):
        weights = random_weights(rng, 12, 4)
        vectors = centred(rng, 4, 2)
        largest = np.linalg.norm(vectors, axis=1).max()
        for period in (1, 4):
            exact = regularity.pattern_constants(weights, vectors, period)
            bound = regularity.pattern_bounds(weights, largest, period)
            for field in ('block_deviation', 'round_deviation', 'round_divergence'):
                assert getattr(exact, field) <= getattr(bound, field) + 1e-12
            assert bound.largest_weight_square == exact.largest_weight_square
            assert bound.num_empty == 0


def test_equal_weights_need_no_bound_of_differences():
    turns = regularity.participation_weights([[1, 0], [0, 1]] * 4)
    bounds = regularity.pattern_bounds(turns, np.inf, 2)
    assert bounds.block_deviation == 0.0
    assert bounds.round_deviation == np.inf


def test_simulated_deviation_agrees_with_the_exact_mean():
    rng = np.random.default_rng(8)
    probs = np.array([0.9, 0.5, 0.3])
    vectors = centred(rng, 3, 2)
    masks = rng.uniform(size=(40_000, 3)) < probs
    masks = masks[masks.any(axis=1)]
    weights = regularity.participation_weights(masks)
    result = regularity.pattern_constants(weights, vectors, 10)
    exact = regularity.independent_block_deviation(probs, vectors, 10)
    assert abs(result.mean_block_deviation - exact) < 4.5 * result.standard_error


def test_arguments_are_checked():
    with refuses('`period` must be at most 4, got 5.'):
        regularity.block_distances(np.ones((4, 1)), 5)
    with refuses('`gradient_differences` must have shape [2] or [2, d], got (3, 1).'):
        regularity.pattern_constants(np.ones((4, 2)) / 2, np.ones((3, 1)), 2)
    with refuses('`weights` must sum to at most 1, got 2.0 in round 1.'):
        regularity.regular_period([[1, 0], [1, 1]])  # masks in place of weights
    for differences in ([[np.nan], [1.0]], [], np.ones((2, 1, 1))):
        with refusals.names('gradient_differences'):
            regularity.uniform_cohort_block_deviation(differences, 1, 1)
