"""FedAvg's implicit objective and implicit gossip against sums over all active sets."""

import itertools
import time

import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis
from tests.analysis import enumeration
from tests.refusals import refuses

CASES = [
    [0.4],
    [0.4, 0.0],
    [0.5, 0.3],
    [1.0, 1.0, 1.0],
    [0.05, 0.9, 0.5, 0.5, 1.0, 0.0, 0.31],
    [1e-6, 1e-4, 1e-5],
    [1e-12, 1.0, 1.0 - 1e-12, 0.5],
]


@pytest.mark.parametrize('probs', CASES)
def test_weights_equal_enumeration(probs):
    weights = analysis.fedavg_weights(probs)
    np.testing.assert_allclose(weights, enumeration.fedavg_weights(probs), rtol=1e-11)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-13)


def test_weights_equal_the_alternating_sum_over_subsets(rng):
    """The form of the paper: sum over j of (-1)^(j+1) / j times products over subsets."""
    probs = rng.uniform(size=6)
    expected = []
    for i in range(6):
        others = np.delete(probs, i)
        series = sum(
            (-1) ** (j + 1) / j * enumeration.elementary(others, j - 1)
            for j in range(1, 7)
        )
        expected.append(probs[i] * series / (1.0 - np.prod(1.0 - probs)))
    np.testing.assert_allclose(analysis.fedavg_weights(probs), expected, rtol=1e-12)


def test_weights_of_rare_links_are_proportional_to_the_probs(rng):
    probs = 1e-14 * rng.uniform(1.0, 2.0, size=50)
    np.testing.assert_allclose(
        analysis.fedavg_weights(probs), probs / probs.sum(), rtol=1e-11
    )


@pytest.mark.parametrize('prob', [0.001, 0.5, 1.0])
def test_equal_probs_give_uniform_weights(prob):
    np.testing.assert_allclose(
        analysis.fedavg_weights(np.full(301, prob)), 1 / 301, rtol=1e-13
    )


def test_weights_of_ten_thousand_clients(rng):
    probs = rng.uniform(size=10_000)
    probs[:3] = 0.0, 1.0, 1e-300
    started = time.perf_counter()
    weights = analysis.fedavg_weights(probs)
    assert time.perf_counter() - started < 20.0
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    assert weights[0] == 0.0
    # Client by client: E[1/(1+S)] from the law of the other clients' count.
    for client in (1, 7):
        pmf = analysis.poisson_binomial_pmf(np.delete(probs, client))
        mean = np.sum(pmf / np.arange(1.0, pmf.size + 1.0))
        np.testing.assert_allclose(weights[client], probs[client] * mean, rtol=1e-11)


def test_known_fixed_point_of_two_clients():
    assert analysis.fedavg_fixed_point((0.5, 0.3), (0.0, 100.0)) == pytest.approx(
        34.615384615, abs=1e-8
    )


@pytest.mark.parametrize('second', [0.01, 0.1, 0.5, 0.77, 1.0])
def test_fixed_point_curve_of_two_clients(second):
    value = analysis.fedavg_fixed_point((0.5, second), (0.0, 100.0))
    np.testing.assert_allclose(value, 150.0 * second / (1.0 + second), rtol=1e-13)


def test_fixed_point_of_vectors(rng):
    probs = rng.uniform(size=5)
    targets = rng.normal(size=(5, 3))
    value = analysis.fedavg_fixed_point(probs, targets)
    np.testing.assert_allclose(
        value, enumeration.fedavg_weights(probs) @ targets, rtol=1e-12
    )


def test_mixing_matrix_equals_its_definition():
    for mask in itertools.product([False, True], repeat=4):
        matrix = analysis.mixing_matrix(mask)
        np.testing.assert_allclose(matrix, enumeration.mixing(mask), rtol=1e-15)
        np.testing.assert_allclose(matrix @ matrix, matrix, atol=1e-15)


def test_mixing_matrix_maps_over_leading_axes(rng):
    masks = rng.uniform(size=(3, 2, 5)) < 0.5
    stacked = analysis.mixing_matrix(masks)
    assert stacked.shape == (3, 2, 5, 5)
    for index in np.ndindex(3, 2):
        np.testing.assert_array_equal(
            stacked[index], analysis.mixing_matrix(masks[index])
        )


@pytest.mark.parametrize('probs', [*CASES, [0.0, 0.0]])
def test_expected_mixing_matrix_equals_enumeration(probs):
    matrix = analysis.expected_mixing_matrix(probs)
    expected = enumeration.expected(probs, enumeration.mixing)
    np.testing.assert_allclose(matrix, expected, rtol=1e-11, atol=1e-16)
    np.testing.assert_array_equal(matrix, matrix.T)


def test_expected_mixing_matrix_is_doubly_stochastic_at_scale(rng):
    matrix = analysis.expected_mixing_matrix(rng.uniform(size=1000) ** 3)
    np.testing.assert_allclose(matrix.sum(axis=0), 1.0, rtol=1e-12)
    assert matrix.min() > 0.0


@pytest.mark.parametrize('probs', [case for case in CASES if len(case) > 1])
def test_the_mixing_rate_is_the_second_eigenvalue(probs):
    expected = np.sort(
        np.linalg.eigvalsh(enumeration.expected(probs, enumeration.mixing))
    )[-2]
    rate = analysis.mixing_rate(probs)
    np.testing.assert_allclose(rate, max(expected, 0.0), atol=1e-14)
    least = min(probs)
    size = len(probs)
    bound = 1.0 - least**4 * (1.0 - (1.0 - least) ** size) ** 2 / 8.0
    np.testing.assert_allclose(analysis.mixing_rate_bound(probs), bound, rtol=1e-14)
    assert rate <= bound


@pytest.mark.parametrize('num_clients', [50, 250])
def test_mixing_rate_of_equal_clients_is_their_one_eigenvalue(num_clients):
    """All but one are equal, which no search for a single one may stumble over."""
    matrix = analysis.expected_mixing_matrix(np.full(num_clients, 0.2))
    rate = analysis.mixing_rate(np.full(num_clients, 0.2))
    assert rate == pytest.approx(matrix[0, 0] - matrix[0, 1], rel=1e-12)


def test_mixing_rate_bounds_the_contraction_of_any_vector(rng):
    probs = rng.uniform(0.1, 0.9, size=6)
    vector = rng.normal(size=6)
    vector -= vector.mean()
    after = enumeration.expected(
        probs, lambda mask: np.sum((enumeration.mixing(mask) @ vector) ** 2)
    )
    assert after <= analysis.mixing_rate(probs) * np.sum(vector**2) + 1e-14


def test_mixing_rate_limits():
    assert analysis.mixing_rate([0.3]) == 0.0
    assert analysis.mixing_rate([1.0, 1.0, 1.0]) == pytest.approx(0.0, abs=1e-15)
    assert analysis.mixing_rate([0.0, 0.7, 0.7]) == 1.0
    assert analysis.mixing_rate([0.0, 0.1, 0.9, 1.0]) == 1.0


ERRORS = [
    (
        lambda: analysis.fedavg_weights([0.1, 0.2, 1.5]),
        'lie in [0, 1], got 1.5 at client 2.',
    ),
    (
        lambda: analysis.fedavg_weights([0.1, -0.2]),
        'lie in [0, 1], got -0.2 at client 1.',
    ),
    (lambda: analysis.fedavg_weights([0.1, np.nan]), 'be finite, got nan at client 1.'),
    (
        lambda: analysis.fedavg_weights([0.0, 0.0]),
        'hold a positive probability, got only zeros.',
    ),
    (lambda: analysis.fedavg_weights([]), 'be a non-empty vector, got shape (0,).'),
    (lambda: analysis.mixing_rate([[0.5]]), 'be a non-empty vector, got shape (1, 1).'),
    (lambda: analysis.mixing_rate_bound([2.0]), 'lie in [0, 1], got 2.0 at client 0.'),
    (
        lambda: analysis.poisson_binomial_pmf([1.1]),
        'lie in [0, 1], got 1.1 at client 0.',
    ),
]


@pytest.mark.parametrize('call, rest', ERRORS)
def test_errors_name_the_probs(call, rest):
    with refuses(f'`probs` must {rest}'):
        call()


def test_errors_name_the_targets_and_the_mask():
    with refuses('`targets` must have shape [2] or [2, d], got (3,).'):
        analysis.fedavg_fixed_point([0.1, 0.2], [1.0, 2.0, 3.0])
    with refuses('`targets` must be finite, got inf.'):
        analysis.fedavg_fixed_point([0.1, 0.2], [1.0, np.inf])
    with refuses('`mask` must be boolean, got 2.'):
        analysis.mixing_matrix([0, 2])


def test_independent_links_are_exact(rng):
    probs = rng.uniform(size=6)
    result = analysis.effective_weights(probs)
    np.testing.assert_allclose(
        result.weights, enumeration.fedavg_weights(probs), rtol=1e-12
    )
    assert result.exact
    assert not result.standard_errors.any()


def test_equal_cohorts_return_the_selection_law():
    law = analysis.minimum_separation_stationary([1.0, 2.0, 3.0, 4.0], 1, 2)
    result = analysis.effective_weights(selection_law=law)
    np.testing.assert_array_equal(result.weights, law)
    assert result.exact


def test_estimate_is_the_mean_share_over_non_empty_rounds():
    masks = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)
    result = analysis.effective_weights(masks=masks, num_batches=2)
    shares = [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(result.weights, np.mean(shares, axis=0), rtol=1e-14)
    assert not result.exact
    assert result.degrees_of_freedom == 1


def test_standard_errors_are_those_of_a_ratio_of_batch_sums():
    masks = np.array([[1, 0], [0, 0], [1, 1], [0, 1], [1, 1], [1, 0]], dtype=bool)
    result = analysis.effective_weights(masks=masks, num_batches=3)
    sums = np.array([[1.0, 0.0], [0.5, 1.5], [1.5, 0.5]])
    counts = np.array([1.0, 2.0, 2.0])
    residuals = sums - counts[:, None] * sums.sum(axis=0) / 5.0
    expected = np.sqrt(3.0 / 2.0 * np.sum(residuals**2, axis=0)) / 5.0
    np.testing.assert_allclose(result.standard_errors, expected, rtol=1e-13)


def test_deterministic_cycles_have_no_error():
    masks = np.tile(np.eye(4, dtype=bool), (50, 1))
    result = analysis.effective_weights(masks=masks, num_batches=10)
    np.testing.assert_allclose(result.weights, 0.25, rtol=1e-14)
    np.testing.assert_allclose(result.standard_errors, 0.0, atol=1e-15)


@pytest.mark.slow
@pytest.mark.statistical
def test_standard_errors_cover_links_with_memory(rng):
    """Markov links with the exact answer of equal stationary probabilities: uniform weights.

    Over 40 runs of four clients, t-scores beyond the two-sided 5 % point are binomial with a mean
    of 8 of 160; the clients of a run are dependent, so the limit of 28 leaves room: false alarms
    below 1e-6 by simulation. One-round errors (no batches) would put most scores beyond.
    """
    num_beyond = 0
    num_beyond_naive = 0
    for _ in range(40):
        masks = enumeration.simulate_markov(
            rng, np.full(4, 0.05), np.full(4, 0.05), 6400
        )
        result = analysis.effective_weights(masks=masks)
        scores = np.abs(result.weights - 0.25) / result.standard_errors
        num_beyond += np.sum(scores > stats.t.isf(0.025, result.degrees_of_freedom))
        rounds = analysis.effective_weights(masks=masks, num_batches=6400)
        naive = np.abs(result.weights - 0.25) / rounds.standard_errors
        num_beyond_naive += np.sum(naive > 1.96)
    assert num_beyond <= 28
    assert num_beyond_naive > 60


@pytest.mark.statistical
def test_estimate_of_independent_links_agrees_with_the_formula(rng):
    """Six t-tests at a two-sided 1e-6: false alarms below 1e-5."""
    probs = np.array([0.02, 0.1, 0.3, 0.5, 0.9, 0.05])
    result = analysis.effective_weights(masks=rng.uniform(size=(40_000, 6)) < probs)
    scores = (
        np.abs(result.weights - analysis.fedavg_weights(probs)) / result.standard_errors
    )
    assert np.all(scores < stats.t.isf(5e-7, result.degrees_of_freedom))


def test_errors_of_effective_weights():
    with refuses(
        '`probs` must be given, or else `selection_law` or `masks`, one of the three, '
        'got 0 of them.'
    ):
        analysis.effective_weights()
    with refuses(
        '`probs` must be given, or else `selection_law` or `masks`, one of the three, '
        'got 2 of them.'
    ):
        analysis.effective_weights([0.5], masks=[[True]])
    with refuses('`num_batches` must be at most 3, got 32.'):
        analysis.effective_weights(masks=np.ones((3, 2)))
    with refuses('`masks` must hold an active client, got 40 empty rounds.'):
        analysis.effective_weights(masks=np.zeros((40, 2)))
    with refuses('`masks` must be non-empty [T, N], got shape (4,).'):
        analysis.effective_weights(masks=np.ones(4))
    with refuses('`selection_law` must sum to 1, got 1.5.'):
        analysis.effective_weights(selection_law=[0.5, 1.0])
