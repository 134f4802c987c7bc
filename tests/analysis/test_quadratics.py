"""FedAvg and FedPBC on quadratics against exact propagation over all active sets."""

import numpy as np
import pytest
from scipy import stats

from fedjax_links import analysis
from fedjax_links.analysis import cohort_sizes
from tests.analysis import enumeration
from tests.refusals import refuses
from tests.tiers import cases

CASES = [
    [0.4],
    [0.5, 0.3],
    [1.0, 1.0, 1.0],
    [0.05, 0.9, 0.5, 1.0, 0.0],
    [0.2, 0.25, 0.1],
]


def problem(rng, probs, dimension=2):
    return rng.normal(size=(len(probs), dimension)), rng.normal(size=dimension)


def propagate(probs, targets, factor, start, num_rounds, step):
    """Moments E[z] and E[z z^T] of the stack z of clients and server, by a linear map per mask.

    Args:
      probs: of independent links, [N].
      targets: [N, d].
      factor: what the local steps leave of a distance, ``(1 - eta)^s``.
      start: the initial point of all, [d].
      num_rounds: T.
      step: ``(mask, factor) -> (A, B)``; a round maps z, [N + 1, d], to ``A z + B targets``.

    Returns:
      Means [T + 1, N + 1, d] and second moments [T + 1, N + 1, d, N + 1, d].
    """
    size = len(probs) + 1
    sets = list(enumeration.active_sets(probs))
    chances = np.array([prob for _, prob in sets])
    linear, drive = map(
        np.array, zip(*(step(mask, factor) for mask, _ in sets), strict=True)
    )
    push = drive @ targets
    of_pairs = np.einsum('m,mik,mjl->ikjl', chances, linear, linear)
    mean = np.tile(start, (size, 1))
    second = np.einsum('ia,jb->iajb', mean, mean)
    means = [mean]
    seconds = [second]
    for _ in range(num_rounds):
        moved = linear @ mean
        cross = np.einsum('m,mia,mjb->iajb', chances, moved, push)
        second = np.einsum('ikjl,kalb->iajb', of_pairs, second)
        second += cross + cross.transpose(2, 3, 0, 1)
        second += np.einsum('m,mia,mjb->iajb', chances, push, push)
        mean = np.tensordot(chances, moved + push, axes=1)
        means.append(mean)
        seconds.append(second)
    return np.array(means), np.array(seconds)


def fedpbc_step(mask, factor):
    """Clients 0..N-1 and the server at N: everybody trains, the active ones average."""
    size = len(mask)
    linear = np.zeros((size + 1, size + 1))
    drive = np.zeros((size + 1, size))
    linear[:size, :size] = factor * enumeration.mixing(mask)
    drive[:size] = (1.0 - factor) * enumeration.mixing(mask)
    if mask.any():
        linear[size, :size] = factor * mask / mask.sum()
        drive[size] = (1.0 - factor) * mask / mask.sum()
    else:
        linear[size, size] = 1.0
    return linear, drive


def fedavg_step(mask, factor):
    """The server at N; the clients' rows are unused."""
    size = len(mask)
    linear = np.zeros((size + 1, size + 1))
    drive = np.zeros((size + 1, size))
    linear[size, size] = factor if mask.any() else 1.0
    if mask.any():
        drive[size] = (1.0 - factor) * mask / mask.sum()
    return linear, drive


@pytest.mark.parametrize('probs', CASES)
@pytest.mark.parametrize(
    'rate, steps', cases([(0.1, 3), (1.0, 1), (1.6, 1)], [(0.1, 3), (1.6, 1)])
)
def test_fedpbc_fixed_point_is_where_the_recursion_goes(rng, probs, rate, steps):
    targets, start = problem(rng, probs)
    factor = (1.0 - rate) ** steps
    means, _ = propagate(probs, targets, factor, start, 400, fedpbc_step)
    limit = analysis.fedpbc_fixed_point(probs, targets, rate, steps)
    np.testing.assert_allclose(limit.clients, means[-1, :-1], atol=1e-10)
    np.testing.assert_allclose(limit.server, means[-1, -1], atol=1e-10)
    np.testing.assert_allclose(limit.client_mean, targets.mean(axis=0), atol=1e-13)


def test_fedpbc_fixed_point_solves_the_printed_equation(rng):
    probs = rng.uniform(size=40)
    targets = rng.normal(size=40)
    mixing = analysis.expected_mixing_matrix(probs)
    limit = analysis.fedpbc_fixed_point(probs, targets, 1e-4, 100)
    factor = (1.0 - 1e-4) ** 100
    moved = mixing @ (factor * limit.clients + (1.0 - factor) * targets)
    np.testing.assert_allclose(limit.clients, moved, atol=1e-13)
    assert limit.server.shape == ()


def test_fedpbc_removes_most_of_the_bias_of_fedavg():
    targets = np.array([0.0, 100.0])
    probs = (0.5, 0.3)
    server = analysis.fedpbc_fixed_point(probs, targets, 0.001, 1).server
    fedavg = analysis.fedavg_fixed_point(probs, targets)
    assert abs(server - 50.0) < 0.05 * abs(fedavg - 50.0)


@pytest.mark.parametrize('probs', CASES)
def test_fedavg_moments_equal_enumeration(rng, probs):
    targets, start = problem(rng, probs)
    means, seconds = propagate(probs, targets, 0.9**2, start, 300, fedavg_step)
    # Measured from the start.
    moments = analysis.fedavg_mean_and_covariance(
        probs, targets - start, 0.1, 2, num_rounds=300
    )
    server = means[:, -1]
    square = seconds[:, -1, :, -1]
    covariance = square - np.einsum('ta,tb->tab', server, server)
    np.testing.assert_allclose(moments.mean + start, server, atol=1e-12)
    np.testing.assert_allclose(
        moments.variance, np.diagonal(covariance, axis1=1, axis2=2), atol=1e-12
    )
    np.testing.assert_allclose(moments.limit_mean + start, server[-1], atol=1e-8)
    np.testing.assert_allclose(moments.limit_covariance, covariance[-1], atol=1e-8)


@pytest.mark.parametrize('probs', CASES)
def test_fedpbc_moments_equal_enumeration(rng, probs):
    targets, start = problem(rng, probs)
    means, seconds = propagate(probs, targets, 0.9**2, start, 200, fedpbc_step)
    # Measured from the start.
    moments = analysis.fedpbc_mean_and_covariance(
        probs, targets - start, 0.1, 2, num_rounds=200
    )
    centre = targets.mean(axis=0)
    gram = np.einsum('tiaja->tij', seconds)
    size = len(probs)
    server = means[:, size]
    square = gram[:, size, size] - 2.0 * server @ centre + centre @ centre
    np.testing.assert_allclose(moments.server_mean + start, server, atol=1e-12)
    np.testing.assert_allclose(moments.server_mean_square, square, atol=1e-12)
    np.testing.assert_allclose(moments.limit_server_mean + start, server[-1], atol=1e-9)
    np.testing.assert_allclose(moments.limit_server_mean_square, square[-1], atol=1e-9)


@pytest.mark.parametrize('learning_rate', [1e-3, 1e-4, 1e-5])
def test_fedpbc_limit_for_small_steps_and_rare_links(learning_rate):
    """Rounding errors once grew in the solve, and the limit was off or zero."""
    probs = np.array([1.2e-5, 3e-1, 1e-1, 2e-3, 7e-4, 6e-5])
    targets = np.array([[1.0], [-0.5], [2.0], [0.3], [-1.2], [-1.6]])
    factor = 1.0 - learning_rate
    limit = analysis.fedpbc_fixed_point(probs, targets, learning_rate, 1)
    trained = factor * limit.clients + (1.0 - factor) * targets

    def kron(mask):
        matrix = enumeration.mixing(mask)
        return np.kron(matrix, matrix)

    def pairs(mask):
        return np.outer(mask, mask) / max(mask.sum(), 1) ** 2

    mapped = enumeration.expected(probs, kron)
    right_side = mapped @ (trained @ trained.T).ravel()
    right_side -= (limit.clients @ limit.clients.T).ravel()
    covariance = np.linalg.solve(np.eye(36) - factor**2 * mapped, right_side)
    moment = factor**2 * covariance.reshape(6, 6) + trained @ trained.T
    expected = np.sum(enumeration.expected(probs, pairs) * moment)
    expected /= 1.0 - np.prod(1.0 - probs)
    moments = analysis.fedpbc_mean_and_covariance(
        probs, targets, learning_rate, 1, num_rounds=0
    )
    np.testing.assert_allclose(moments.limit_server_mean_square, expected, rtol=1e-6)


@pytest.mark.parametrize('probs', [*CASES, [1e-6, 1e-4, 1e-5, 0.9]])
def test_second_moment_maps_equal_enumeration(rng, probs):
    values = rng.normal(size=(len(probs), 3))
    moment = values @ values.T

    def pairs(mask):
        return np.outer(mask, mask) / max(mask.sum(), 1) ** 2

    def mixed(mask):
        matrix = enumeration.mixing(mask)
        return matrix @ moment @ matrix

    expected = enumeration.expected(probs, pairs)
    np.testing.assert_allclose(
        cohort_sizes.pair_means(np.array(probs), power=2),
        expected,
        rtol=1e-10,
        atol=1e-18,
    )
    np.testing.assert_allclose(
        cohort_sizes.mean_covariance(np.array(probs), values),
        values.T @ expected @ values,
        atol=1e-14,
    )
    np.testing.assert_allclose(
        cohort_sizes.gossip_map(np.array(probs))(moment),
        enumeration.expected(probs, mixed),
        atol=1e-14,
    )


def test_a_large_gossip_map_keeps_consensus_and_its_mean_matrix(rng):
    """``E[W 1 1^T W] = 1 1^T``, and for diagonal H the row sums are those of ``M h``."""
    probs = rng.uniform(size=600)
    mapped = cohort_sizes.gossip_map(probs)
    np.testing.assert_allclose(mapped(np.ones((600, 600))), 1.0, atol=1e-9)
    diagonal = rng.uniform(size=600)
    rows = mapped(np.diag(diagonal)).sum(axis=1)
    expected = analysis.expected_mixing_matrix(probs) @ diagonal
    np.testing.assert_allclose(rows, expected, atol=1e-10)


REFERENCE_FLOORS = [
    (0.1, 0.5, 0.016),
    (0.1, 0.9, 0.015),
    (0.5, 0.9, 0.0019),
    (0.9, 0.9, 0.00034),
]


@pytest.mark.parametrize('low, high, floor', REFERENCE_FLOORS)
def test_noise_floor_of_the_published_setting(rng, low, high, floor):
    """Distances to the optimum at the end of runs lie near the exact root mean square.

    The runs had other targets of the same law: hence the wide band.
    """
    num_clients = 100
    dimension = 100
    ramp = np.arange(1, num_clients + 1)[:, None] / 1000.0
    targets = ramp + 0.1 * rng.normal(size=(num_clients, dimension))
    probs = np.repeat([low, high], num_clients // 2)
    moments = analysis.fedpbc_mean_and_covariance(
        probs, targets, 1e-4, 100, num_rounds=3
    )
    root = np.sqrt(moments.limit_server_mean_square)
    assert 0.6 * floor < root < 1.7 * floor
    assert np.all(np.diff(moments.server_mean_square) < 0)


@pytest.mark.parametrize('num_clients', range(1, 6))
def test_links_that_are_always_up_have_no_noise_floor(num_clients):
    targets = 50.0 * np.arange(num_clients)
    moments = analysis.fedpbc_mean_and_covariance(
        np.ones(num_clients), targets, 1e-3, 5, num_rounds=0
    )
    assert 0 <= moments.limit_server_mean_square < 1e-12


@pytest.mark.statistical
def test_moments_match_simulated_runs(rng):
    """z-tests on 4,000 runs, at 5 sigma: false alarms have a probability below 1e-5."""
    probs = np.array([0.7, 0.2, 0.1, 0.4])
    targets = rng.normal(size=(4, 2))
    start = np.array([1.0, -2.0])
    runs = 4000
    rounds = 12
    factor = 0.8**2
    clients = np.tile(start, (runs, 4, 1))
    pbc = np.tile(start, (runs, 1))
    avg = np.tile(start, (runs, 1))
    for _ in range(rounds):
        masks = rng.uniform(size=(runs, 4)) < probs
        some = masks.any(axis=1)[:, None]
        shares = masks / np.maximum(masks.sum(axis=1, keepdims=True), 1)
        trained = factor * clients + (1.0 - factor) * targets
        pbc = np.where(some, np.einsum('ri,rid->rd', shares, trained), pbc)
        avg = np.where(some, factor * avg + (1.0 - factor) * shares @ targets, avg)
        clients = np.where(masks[..., None], pbc[:, None], trained)

    num_comparisons = 0

    def within(samples, exact):
        nonlocal num_comparisons
        num_comparisons += np.size(exact)
        error = samples.std(axis=0, ddof=1) / np.sqrt(runs)
        assert np.all(np.abs(samples.mean(axis=0) - exact) <= 5.0 * error)

    inputs = probs, targets - start, 0.2, 2  # measured from the start
    exact = analysis.fedpbc_mean_and_covariance(*inputs, num_rounds=rounds)
    plain = analysis.fedavg_mean_and_covariance(*inputs, num_rounds=rounds)
    centre = targets.mean(axis=0)
    within(pbc, exact.server_mean[-1] + start)
    within(np.sum((pbc - centre) ** 2, axis=1), exact.server_mean_square[-1])
    means = np.tile(start, (4, 1))
    mixing = analysis.expected_mixing_matrix(probs)
    for _ in range(rounds):
        means = mixing @ (factor * means + (1.0 - factor) * targets)
    within(clients[:, 2], means[2])
    within(avg, plain.mean[-1] + start)
    within((avg - plain.mean[-1] - start) ** 2, plain.variance[-1])
    assert num_comparisons == 9
    assert stats.norm.sf(5.0) * 2 * num_comparisons < 1e-5


ERRORS = [
    ({'learning_rate': 0.0}, '`learning_rate` must lie in (0, 2), got 0.0.'),
    ({'learning_rate': 2.5}, '`learning_rate` must lie in (0, 2), got 2.5.'),
    ({'local_steps': 0}, '`local_steps` must be an integer of at least 1, got 0.'),
    ({'local_steps': 1.5}, '`local_steps` must be an integer of at least 1, got 1.5.'),
    ({'targets': [[1.0]]}, '`targets` must have shape [2] or [2, d], got (1, 1).'),
    (
        {'probs': [0.0, 0.0]},
        '`probs` must hold a positive probability, got only zeros.',
    ),
]


@pytest.mark.parametrize('change, message', ERRORS)
def test_errors(change, message):
    settings = {
        'probs': [0.1, 0.2],
        'targets': [0.0, 1.0],
        'learning_rate': 0.1,
        'local_steps': 1,
    }
    settings |= change
    for call in (
        analysis.fedpbc_fixed_point,
        lambda **kw: analysis.fedavg_mean_and_covariance(**kw, num_rounds=1),
        lambda **kw: analysis.fedpbc_mean_and_covariance(**kw, num_rounds=1),
    ):
        with refuses(message):
            call(**settings)


def test_errors_of_the_recursions():
    settings = ([0.1, 0.2], [[0.0, 1.0], [1.0, 2.0]], 0.1, 1)
    with refuses('`num_rounds` must be an integer of at least 0, got -1.'):
        analysis.fedavg_mean_and_covariance(*settings, num_rounds=-1)
