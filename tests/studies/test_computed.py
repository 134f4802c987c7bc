"""What the papers say of links and constants, against simulation, enumeration and matrices."""

import itertools

import numpy as np
import pytest

from fedjax_links import analysis
from studies import computed
from studies.computed import mixing_time, staleness
from tests import ROOT

PAGE = ROOT / 'docs' / 'papers.md'


def test_the_page_has_the_computed_rows():
    lines = PAGE.read_text().splitlines()
    assert [line for line in lines if f'| {computed.RUN} |' in line] == [
        *computed.rows()
    ]


def test_expected_staleness_is_that_of_simulated_links(rng):
    probs = np.array([0.5, 0.1, 0.1, 0.9])
    active = rng.uniform(size=(50_000, 40)) < np.tile(probs, 10)
    ages = np.ones(len(active))
    means = []
    for up in active.T:
        ages = np.where(up, 1, ages + 1)
        means.append((ages.mean(), ages.std() / len(ages) ** 0.5))
    mean, error = max(means[-4:])
    assert abs(staleness(probs) - mean) < 4.5 * error
    assert staleness(np.array([0.02])) == pytest.approx(50)


def test_rho_of_a_cohort_is_that_of_the_mean_over_all_cohorts():
    for size in range(1, 7):
        cohorts = [*itertools.combinations(range(6), size)]
        masks = np.zeros((len(cohorts), 6), bool)
        for row, cohort in zip(masks, cohorts, strict=True):
            row[list(cohort)] = True
        mean = np.mean([analysis.mixing_matrix(mask) for mask in masks], axis=0)
        exact, bound = computed.cohort_gossip(6, size)
        assert exact == pytest.approx(np.linalg.eigvalsh(mean)[-2], abs=1e-12)
        assert (exact <= bound) == (size > 1)


def test_the_fraction_up_is_that_of_the_two_state_chain():
    for prob in (0.01, 0.5, 0.97):
        fraction = computed.markov_fraction(np.array([prob]))
        assert fraction == pytest.approx(prob, abs=1e-12)
    probs = computed.sine(0.9)
    steps = []
    for p in probs:
        # The rates q* = 0.05 and q = q* (1 - p) / p, unless q would exceed one: below 1 / 21.
        if p > 1 / 21:
            up = 0.05
            down = 0.05 * (1 - p) / p
        else:
            up = p / (1 - p)
            down = 1.0
        steps.append(np.array([[1 - up, up], [down, 1 - down]]))
    law = np.array([0.5, 0.5])
    for step in steps * 200:
        law = law @ step
    fractions = []
    for step in steps:
        law = law @ step
        fractions.append(law[1])
    expected = np.mean(fractions)
    assert computed.markov_fraction(probs) == pytest.approx(expected, abs=1e-12)


def test_the_mixing_time_is_that_of_ordered_windows():
    """The chain of Sun et al., Definition 2, over ordered windows, by matrix powers."""
    weights = np.arange(1.0, 6.0) ** -1.5
    for separation in (1, 2):
        windows = [*itertools.permutations(range(5), separation)]
        transition = np.zeros((len(windows), len(windows)))
        for row, window in enumerate(windows):
            left = [i for i in range(5) if i not in window]
            for client in left:
                column = windows.index((client, *window[:-1]))
                transition[row, column] = weights[client] / weights[left].sum()
        law = np.linalg.matrix_power(transition, 4096)[0]
        expected = next(
            num_rounds
            for num_rounds in itertools.count(1)
            if np.abs(np.linalg.matrix_power(transition, num_rounds) - law).sum(1).max()
            <= 0.5
        )
        assert mixing_time(weights, separation) == expected
    assert mixing_time(weights, 0) == 1
