"""Mixing times against powers taken one by one, and the lemmas about them."""

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import mixing_times
from tests.refusals import refuses

TAU_MIX = {'equal': [1, 1, 3, 7, 15], 'power': [1, 2, 8, 20, 65]}
WEIGHTS = {'equal': np.ones(6), 'power': np.arange(1, 7) ** -1.5}


def chains():
    """Yields transition matrices and stationary laws of small random chains and of cohorts."""
    rng = np.random.default_rng(0)
    for size in (2, 3, 5):
        for _ in range(5):
            matrix = rng.dirichlet(np.ones(size), size=size)
            matrix = 0.7 * np.eye(size) + 0.3 * matrix
            vectors = np.linalg.matrix_power(matrix, 4000)
            yield matrix, vectors[0] / vectors[0].sum()
    for weights in ([1, 1, 1], [1, 2, 3], [1, 2, 3, 4]):
        for separation in range(len(weights) - 1):
            chain = analysis.minimum_separation_chain(weights, separation)
            yield chain.transition.toarray(), chain.stationary


CHAINS = list(chains())


def direct_time(matrix, law, epsilon):
    """The first power of the matrix whose rows all lie within epsilon of the law."""
    power = matrix.copy()
    time = 1
    while 0.5 * np.abs(power - law).sum(axis=1).max() > epsilon:
        power = power @ matrix
        time = time + 1
    return time


@pytest.mark.parametrize('epsilon', [0.25, 0.1, 0.01])
def test_time_equals_powers_taken_one_by_one(epsilon):
    for matrix, law in CHAINS:
        result = mixing_times.mixing_time(matrix, law, epsilon)
        assert result == direct_time(matrix, law, epsilon)


@pytest.mark.parametrize('kind', TAU_MIX)
def test_tau_mix_of_six_clients_grows_with_the_separation(kind):
    """The paper conjectures that it falls."""
    times = []
    for separation in range(5):
        chain = analysis.minimum_separation_chain(WEIGHTS[kind], separation)
        times.append(mixing_times.mixing_time(chain.transition, chain.stationary))
    assert times == TAU_MIX[kind]


@pytest.mark.parametrize('limit', [1, 8, 9, 10, 15, 16])
def test_a_time_within_the_limit_is_found(limit):
    chain = analysis.minimum_separation_chain(np.ones(5), 3)  # It mixes in 9 rounds.
    time = mixing_times.mixing_time(
        chain.transition, chain.stationary, max_rounds=limit
    )
    assert time == (9 if limit >= 9 else None)


def test_cyclic_participation_never_mixes():
    chain = analysis.minimum_separation_chain([1.0, 1.0, 1.0], 2)
    assert mixing_times.mixing_time(chain.transition, chain.stationary) is None


def test_curve_of_two_states_has_its_closed_form():
    up = 0.3
    down = 0.1
    matrix = [[1 - up, up], [down, 1 - down]]
    law = np.array([down, up]) / (up + down)
    curve = mixing_times.total_variation_curve(matrix, law, num_rounds=12)
    np.testing.assert_allclose(curve, 0.75 * 0.6 ** np.arange(13), rtol=1e-12)
    decay = mixing_times.geometric_decay(matrix, law, num_rounds=12)
    np.testing.assert_allclose(decay, (0.75, 0.6), rtol=1e-12)


def test_lemma_5_holds():
    for matrix, law in CHAINS:
        curve = mixing_times.total_variation_curve(matrix, law, num_rounds=400)
        assert np.all(np.diff(curve) <= 1e-12)
        time = mixing_times.mixing_time(matrix, law)
        for k in range(2, 7):
            assert mixing_times.mixing_time(matrix, law, 2.0**-k) <= (k - 1) * time
        constant = mixing_times.series_constant(matrix, law)
        np.testing.assert_allclose(constant, curve[1] + 2, rtol=1e-12)
        assert curve.sum() <= constant * time


def test_geometric_decay_bounds_the_curve():
    for matrix, law in CHAINS:
        curve = mixing_times.total_variation_curve(matrix, law, num_rounds=40)
        factor, rate = mixing_times.geometric_decay(matrix, law, num_rounds=40)
        assert rate < 1
        assert np.all(curve <= factor * rate ** np.arange(41) * (1 + 1e-9) + 1e-8)


def test_chains_are_checked():
    with refuses('`epsilon` must lie in (0, 1), got 0.'):
        mixing_times.mixing_time(np.eye(1), [1.0], 0)
    with refuses('`transition` must have entries of at least 0, got -0.5.'):
        mixing_times.mixing_time([[1.5, -0.5], [0.5, 0.5]], [0.5, 0.5])
    with refuses('`transition` must be a square matrix, got shape (1, 2).'):
        mixing_times.mixing_time([[0.5, 0.5]], [1.0])
