"""Constants of problems against random points and against an independent loss."""

from fractions import Fraction

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis.theorems import problem_constants
from tests.refusals import refuses


def rational(values):
    """The same numbers as an array of rationals, in which NumPy computes exactly."""
    return np.vectorize(Fraction, otypes=[object])(values)


@pytest.mark.parametrize('are_equal', [True, False])
def test_quadratics_satisfy_their_constants_at_random_points(are_equal):
    rng = np.random.default_rng(0)
    for _ in range(200 if are_equal else 1000):  # the bounds are equalities, or not
        targets = rng.normal(size=(5, 3))
        curves = np.full(5, 2.0) if are_equal else rng.uniform(0.5, 4, size=5)
        known = problem_constants.quadratic_constants(targets, curves)
        point = rng.normal(size=3) * 10 ** rng.uniform(-2, 3)
        distances = rational(point) - rational(targets)
        gradients = rational(curves)[:, None] * distances
        full = gradients.mean(axis=0)
        squares = np.sum((gradients - full) ** 2, axis=1)
        left = float(squares.mean())
        right = known.slope**2 * float(full @ full) + known.offset**2
        assert left <= right * (1 + 1e-12)
        assert float(squares.max()) <= known.dissimilarity**2 * (1 + 1e-12)
        if are_equal:
            np.testing.assert_allclose(left, right, rtol=1e-12)
            differences = (gradients - full).astype(float)
            np.testing.assert_allclose(
                known.gradient_differences, differences, rtol=0, atol=1e-12
            )
        assert known.smoothness == curves.max()


def test_the_initial_gap_of_quadratics_is_exact(rng):
    for _ in range(100):
        targets = rng.normal(size=(5, 3))
        curves = rng.uniform(0.5, 4, size=5)
        start = rng.normal(size=3)
        known = problem_constants.quadratic_constants(
            targets, curves, initial_point=start
        )
        exact_targets = rational(targets)
        exact_curves = rational(curves)

        def loss(x, targets=exact_targets, curves=exact_curves):
            return np.mean(curves * np.sum((x - targets) ** 2, axis=1)) / 2

        best = (exact_curves @ exact_targets) / exact_curves.sum()
        gap = float(loss(rational(start)) - loss(best))
        np.testing.assert_allclose(known.initial_gap, gap, rtol=1e-12)


@pytest.mark.parametrize('curvature', [0.1, 0.3, 0.7])
@pytest.mark.parametrize('num_clients', [3, 7, 10])
def test_equal_curvatures_have_no_slope(curvature, num_clients):
    targets = np.arange(num_clients, dtype=float)
    curvatures = [curvature] * num_clients
    known = problem_constants.quadratic_constants(targets, curvatures)
    assert known.slope == 0


def test_softmax_satisfies_its_constants_at_random_points():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(40, 3))
    labels = rng.integers(3, size=40)
    owners = np.arange(40) % 4
    l2 = 0.1
    known = problem_constants.linear_model_constants(features, labels, owners, l2=l2)
    rows = np.concatenate([features, np.ones((40, 1))], axis=1)

    def gradients(model):
        scores = rows @ model
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        slopes = chances - np.eye(3)[labels]
        penalty = l2 * np.concatenate([model[:-1], np.zeros((1, 3))])
        return np.array(
            [rows[owners == i].T @ slopes[owners == i] / 10 + penalty for i in range(4)]
        )

    for _ in range(1000):
        model, other = rng.normal(size=(2, 4, 3)) * 10 ** rng.uniform(-2, 2)
        result = gradients(model)
        norms = np.linalg.norm(result - result.mean(axis=0), axis=(1, 2))
        assert norms.max() <= known.dissimilarity
        assert np.mean(norms**2) <= known.offset**2
        change = np.linalg.norm(result - gradients(other), axis=(1, 2))
        distance = np.linalg.norm(model - other)
        assert change.max() <= known.smoothness * distance * (1 + 1e-9)
    assert known.slope == 0


def random_examples(rng, outputs):
    owners = np.append(np.arange(4), rng.integers(4, size=16))
    labels = rng.normal(size=(20, outputs))
    return rng.normal(size=(20, 2)) * rng.exponential(), labels, owners


def client_gradients(features, labels, owners, l2, table):
    """Of ``mean over outputs (B'x + b - y)^2 + l2 / 2 |B|^2``, a client at a time."""
    results = []
    for client in range(4):
        penalty = l2 * np.concatenate([table[:-1], np.zeros((1, table.shape[1]), int)])
        mine = owners == client
        ones = np.ones((mine.sum(), 1), int)
        rows = np.concatenate([features[mine], ones], axis=1)
        off = rows @ table - labels[mine]
        results.append(2 * rows.T @ off / table.shape[1] / len(rows) + penalty)
    return np.array(results)


@pytest.mark.slow
@pytest.mark.parametrize('outputs, l2', [(1, 0.3), (2, 0.0)])
def test_least_squares_satisfy_their_constants_at_random_points(outputs, l2):
    rng = np.random.default_rng(2)
    for _ in range(1000):
        features, labels, owners = random_examples(rng, outputs)
        known = problem_constants.linear_model_constants(
            features, labels, owners, loss='least_squares', l2=l2
        )
        point, other = rng.normal(size=(2, 3, outputs)) * 10 ** rng.uniform(-2, 3)
        result = client_gradients(features, labels, owners, l2, point)
        full = result.mean(axis=0)
        left = np.mean(np.sum((result - full) ** 2, axis=(1, 2)))
        right = known.slope**2 * np.sum(full**2) + known.offset**2
        assert left <= right * (1 + 1e-9)
        change = result - client_gradients(features, labels, owners, l2, other)
        steepest = np.linalg.norm(change, axis=(1, 2)).max()
        assert steepest <= known.smoothness * np.linalg.norm(point - other) * (1 + 1e-9)
        assert known.dissimilarity == np.inf
        assert known.gradient_differences is None


def test_least_squares_gap_and_smoothness_are_exact():
    rng = np.random.default_rng(3)
    features, labels, owners = random_examples(rng, 1)
    known = problem_constants.linear_model_constants(
        features, labels, owners, loss='least_squares', l2=0.2
    )
    rows = np.column_stack([features, np.ones(20)])
    weights = 1 / (4 * np.bincount(owners)[owners])
    penalty = np.diag([0.2, 0.2, 0.0])
    gram = 2 * rows.T @ (weights[:, None] * rows) + penalty
    best = np.linalg.solve(gram, 2 * rows.T @ (weights * labels[:, 0]))

    def loss(w):
        return weights @ (rows @ w - labels[:, 0]) ** 2 + 0.5 * w @ penalty @ w

    gap = loss(np.zeros(3)) - loss(best)
    np.testing.assert_allclose(known.initial_gap, gap, rtol=1e-12)
    largest = max(
        np.linalg.eigvalsh(
            2 * rows[owners == i].T @ rows[owners == i] / np.sum(owners == i) + penalty
        )[-1]
        for i in range(4)
    )
    np.testing.assert_allclose(known.smoothness, largest, rtol=1e-12)


def test_clients_with_the_same_inputs_have_exact_differences():
    """Labels alone differ, so Hessians are equal, and all points have the same differences."""
    rng = np.random.default_rng(4)
    features = np.tile(rng.normal(size=(5, 2)), (4, 1))
    labels = rng.normal(size=(20, 1))
    owners = np.repeat(np.arange(4), 5)
    known = problem_constants.linear_model_constants(
        features, labels, owners, loss='least_squares'
    )
    assert known.are_exact
    assert known.slope == 0
    for _ in range(3):
        point = rational(rng.normal(size=(3, 1)) * 10)
        result = client_gradients(
            rational(features), rational(labels), owners, 0, point
        )
        differences = (result - result.mean(axis=0)).reshape(4, -1).astype(float)
        np.testing.assert_allclose(
            known.gradient_differences, differences, rtol=0, atol=1e-12
        )
    norms = np.linalg.norm(known.gradient_differences, axis=1)
    np.testing.assert_allclose(known.dissimilarity, norms.max(), rtol=1e-12)
    np.testing.assert_allclose(known.offset, np.sqrt(np.mean(norms**2)), rtol=1e-12)


def test_least_squares_of_an_intercept_alone_are_quadratics():
    """One example of input 0 per client: ``F_i = (b - y_i)^2``, of curvature 2 in b."""
    labels = np.array([0.0, 4.0])
    known = problem_constants.linear_model_constants(
        np.zeros((2, 1)), labels, [0, 1], loss='least_squares'
    )
    same = problem_constants.quadratic_constants(labels, [2.0, 2.0])
    for field in ('smoothness', 'slope', 'offset', 'dissimilarity', 'initial_gap'):
        exact = getattr(same, field)
        np.testing.assert_allclose(getattr(known, field), exact, atol=1e-12)


@pytest.mark.parametrize('loss', ['softmax', 'logistic'])
def test_minibatches_vary_no_more_than_their_bound(loss):
    """The variance of a minibatch drawn with replacement, over all examples, at random points."""
    rng = np.random.default_rng(5)
    features = rng.normal(size=(20, 2))
    owners = np.repeat(np.arange(4), 5)
    columns = 3 if loss == 'softmax' else 1
    labels = rng.integers(max(columns, 2), size=20)
    classes = {'num_classes': 3} if loss == 'softmax' else {}
    batch_size = 4
    known = problem_constants.linear_model_constants(
        features, labels, owners, loss=loss, batch_size=batch_size, l2=0.1, **classes
    )
    rows = np.column_stack([features, np.ones(20)])
    for _ in range(1000):
        scores = rows @ rng.normal(size=(3, columns)) * 10 ** rng.uniform(-2, 2)
        if loss == 'softmax':
            chances = np.exp(scores - scores.max(axis=1, keepdims=True))
            slopes = chances / chances.sum(axis=1, keepdims=True) - np.eye(3)[labels]
        else:
            slopes = 0.5 * (1 + np.tanh(scores / 2)) - labels[:, None]
        each = rows[:, :, None] * slopes[:, None, :]
        for client in range(4):
            client_rows = each[owners == client]
            squares = np.sum((client_rows - client_rows.mean(axis=0)) ** 2, axis=(1, 2))
            assert squares.mean() / batch_size <= known.noise**2
    full = problem_constants.linear_model_constants(
        features, labels, owners, loss=loss, **classes
    )
    assert full.noise == 0


def test_minibatches_of_least_squares_vary_without_bound():
    known = problem_constants.linear_model_constants(
        np.eye(2), [1.0, 2.0], [0, 1], loss='least_squares', batch_size=1
    )
    assert known.noise == np.inf


def test_arguments_are_checked():
    with refuses('`curvatures` must have 2 entries, got 3.'):
        problem_constants.quadratic_constants([0.0, 1.0], [1.0, 1.0, 1.0])
    with refuses('`owners` must name every client from 0 to 2, got none of client 1.'):
        problem_constants.linear_model_constants(np.ones((2, 1)), [0, 1], [0, 2])
    model = analysis.LinearModel(np.ones((3, 2)), np.zeros(2))
    with refuses(
        '`start` must have coefficients [1, 2] and an intercept for each output, '
        'got [3, 2] and [2].'
    ):
        problem_constants.linear_model_constants(
            np.ones((2, 1)), [0, 1], [0, 1], start=model
        )
