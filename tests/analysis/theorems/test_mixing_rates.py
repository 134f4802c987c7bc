"""Mixing and staleness of changing links and cohorts of fixed size against enumeration."""

import itertools

import numpy as np
import pytest

from fedjax_links.analysis.theorems import mixing_rates
from tests.analysis import enumeration
from tests.refusals import refuses


def cohort_masks(num_clients, size):
    for members in itertools.combinations(range(num_clients), size):
        mask = np.zeros(num_clients, bool)
        mask[list(members)] = True
        yield mask


def second_eigenvalue(matrices):
    return np.linalg.eigvalsh(np.mean([m @ m for m in matrices], axis=0))[-2]


@pytest.mark.parametrize('num_clients', [2, 3, 6])
def test_cohort_rate_equals_enumeration(num_clients):
    for size in range(1, num_clients + 1):
        masks = cohort_masks(num_clients, size)
        exact = second_eigenvalue([enumeration.mixing(mask) for mask in masks])
        rate = mixing_rates.uniform_cohort_mixing_rate(num_clients, size)
        np.testing.assert_allclose(rate, exact, atol=1e-12)


def test_printed_bound_is_false_for_cohorts_of_one_only():
    for num_clients in range(2, 40):
        for size in range(1, num_clients + 1):
            exact = mixing_rates.uniform_cohort_mixing_rate(num_clients, size)
            printed = mixing_rates.uniform_cohort_mixing_rate_bound(num_clients, size)
            assert (exact <= printed) == (size > 1), (num_clients, size)
    assert mixing_rates.uniform_cohort_mixing_rate(6, 1) == 1.0
    printed = mixing_rates.uniform_cohort_mixing_rate_bound(6, 1)
    assert round(printed, 4) == 0.9965
    assert mixing_rates.uniform_cohort_mixing_rate(1, 1) == 0.0


def test_worst_rate_over_rounds_equals_enumeration():
    rng = np.random.default_rng(1)
    rounds = rng.uniform(size=(5, 4))
    exact = max(
        np.linalg.eigvalsh(
            enumeration.expected(
                row, lambda m: np.linalg.matrix_power(enumeration.mixing(m), 2)
            )
        )[-2]
        for row in rounds
    )
    np.testing.assert_allclose(
        mixing_rates.worst_mixing_rate(np.tile(rounds, (3, 1))), exact, atol=1e-12
    )


def test_full_participation_mixes_at_once():
    assert mixing_rates.worst_mixing_rate(np.ones((3, 5))) <= 1e-12


def test_rate_says_nothing_about_links_that_remember():
    """Links that never change contract once, however many rounds pass."""
    probs = np.array([0.5, 0.5])
    rho = mixing_rates.worst_mixing_rate(probs[None])
    start = np.array([1.0, -1.0])
    after = enumeration.expected(
        probs,
        lambda m: np.sum(
            (np.linalg.matrix_power(enumeration.mixing(m), 5) @ start) ** 2
        ),
    )
    assert after > rho**5 * np.sum(start**2)


def test_staleness_equals_enumeration_of_histories():
    rng = np.random.default_rng(2)
    probs = rng.uniform(0.1, 1, size=(6, 1))
    ages = mixing_rates.expected_staleness(probs)
    for t in range(7):
        exact = 0.0
        for history in itertools.product([0, 1], repeat=t):
            chance = np.prod(
                [p if a else 1 - p for a, p in zip(history, probs[:t, 0], strict=True)]
            )
            last = max([-1, *(k for k, a in enumerate(history) if a)])
            exact += chance * (t - last)
        np.testing.assert_allclose(ages[t, 0], exact, rtol=1e-12)


def test_staleness_is_at_most_the_bound_of_proposition_2():
    rng = np.random.default_rng(3)
    least = rng.uniform(0.05, 1, size=1000)
    probs = rng.uniform(least, 1, size=(50, 7, 1000))
    ages = mixing_rates.expected_staleness(probs.reshape(50, -1))
    oldest = ages.reshape(51, 7, 1000).max(axis=(0, 1))
    bounds = [mixing_rates.expected_staleness_bound(each) for each in least]
    assert np.all(oldest <= np.array(bounds) * (1 + 1e-12))


def test_staleness_of_constant_links_tends_to_one_over_p():
    ages = mixing_rates.expected_staleness(np.full((400, 1), 0.2))
    np.testing.assert_allclose(ages[-1], 5.0, rtol=1e-12)


def test_arguments_are_checked():
    with refuses('`probs` must be a non-empty [T, N], got shape (2,).'):
        mixing_rates.worst_mixing_rate([0.5, 0.5])
    with refuses('`cohort_size` must be at most 3, got 4.'):
        mixing_rates.uniform_cohort_mixing_rate(3, 4)
