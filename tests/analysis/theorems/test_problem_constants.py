"""Constants of problems against random points and against an independent loss."""

import numpy as np
import pytest

from fedjax_links.analysis.theorems import problem_constants
from tests.analysis.refusals import refuses


@pytest.mark.parametrize('are_equal', [True, False])
def test_quadratics_satisfy_their_constants_at_random_points(are_equal):
    rng = np.random.default_rng(0)
    for _ in range(200):
        targets = rng.normal(size=(5, 3))
        curves = np.full(5, 2.0) if are_equal else rng.uniform(0.5, 4, size=5)
        start = rng.normal(size=3)
        known = problem_constants.quadratic_constants(
            targets, curves, initial_point=start
        )
        point = rng.normal(size=3) * 10 ** rng.uniform(-2, 3)
        gradients = curves[:, None] * (point - targets)
        whole = gradients.mean(axis=0)
        left = np.mean(np.sum((gradients - whole) ** 2, axis=1))
        right = known.slope**2 * whole @ whole + known.offset**2
        assert left <= right * (1 + 1e-9)
        norms = np.linalg.norm(gradients - whole, axis=1)
        assert norms.max() <= known.dissimilarity * (1 + 1e-9)
        if are_equal:
            np.testing.assert_allclose(left, right, rtol=1e-6)
            np.testing.assert_allclose(
                known.gradient_differences, gradients - whole, atol=1e-9
            )
        assert known.smoothness == curves.max()

        def loss(x, targets=targets, curves=curves):
            return np.mean(0.5 * curves * np.sum((x - targets) ** 2, axis=1))

        best = (curves @ targets) / curves.sum()
        np.testing.assert_allclose(
            known.initial_gap, loss(start) - loss(best), rtol=1e-9
        )


def test_softmax_satisfies_its_constants_at_random_points():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(40, 3))
    labels = rng.integers(3, size=40)
    owners = np.arange(40) % 4
    l2 = 0.1
    known = problem_constants.softmax_constants(features, owners, num_classes=3, l2=l2)
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

    for _ in range(200):
        model, other = rng.normal(size=(2, 4, 3)) * 10 ** rng.uniform(-2, 2)
        found = gradients(model)
        norms = np.linalg.norm(found - found.mean(axis=0), axis=(1, 2))
        assert norms.max() <= known.dissimilarity
        assert np.mean(norms**2) <= known.offset**2
        change = np.linalg.norm(found - gradients(other), axis=(1, 2))
        assert change.max() <= known.smoothness * np.linalg.norm(model - other) * 1.0001
    assert known.slope == 0


def test_arguments_are_checked():
    with refuses('`curvatures` must have 2 entries, got 3.'):
        problem_constants.quadratic_constants([0.0, 1.0], [1.0, 1.0, 1.0])
    with refuses('`owners` must name every client, got 1.'):
        problem_constants.softmax_constants(np.ones((2, 1)), [0, 2], num_classes=2)
