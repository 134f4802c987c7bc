"""The quadrature against draws, and against the normal law where there are two classes."""

import numpy as np
import pytest

from fedjax_links import analysis
from studies.gaussian_accuracy import gaussian_accuracy


def test_gaussian_accuracy_is_that_of_many_draws(rng):
    means = 1.5 * rng.normal(size=(10, 10))
    model = analysis.gaussian_minimiser(
        means, rng.dirichlet(np.full(10, 0.3), size=8), np.ones(8)
    )
    result = gaussian_accuracy(model, means)
    labels = rng.integers(10, size=200_000)
    features = means[labels] + rng.normal(size=(len(labels), 10))
    hits = model.scores(features).argmax(axis=1) == labels
    error = np.hypot(result.error, np.sqrt(hits.var() / len(hits)))
    assert abs(hits.mean() - result.accuracy) < 5 * error  # false alarm: 6e-7
    assert result.error < 3e-4


def test_gaussian_accuracy_of_two_classes_is_exact():
    model = analysis.gaussian_minimiser([[-1.0], [1.0]], [[0.5, 0.5]], [1.0])
    result = gaussian_accuracy(model, [[-1.0], [1.0]])
    assert result.accuracy == pytest.approx(0.8413447460685429, rel=1e-14)
    assert result.error == 0
