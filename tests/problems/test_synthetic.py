"""Synthetic(alpha, beta) and the robust regression against their definitions.

The z-tests allow 4.5 standard errors, a false-alarm rate below 7e-6 each by the normal law and
below 5e-4 for all of them; the seeds are fixed, so a test that passes keeps passing.
"""

import math

import jax
import numpy as np
import pytest
from scipy.optimize import approx_fprime

from fedjax_links import problems
from fedjax_links.problems.robust import robust_optimum
from tests.problems.generators import (
    draw_counts,
    draw_robust_regression,
    draw_synthetic,
)
from tests.refusals import refuses
from tests.tiers import cases

LIMIT = 4.5


def assert_normal(sample, mean, deviation):
    """Mean and variance of independent normal draws, each within `LIMIT` standard errors."""
    z = ((np.asarray(sample) - mean) / deviation).ravel()
    assert abs(z.sum()) <= LIMIT * np.sqrt(z.size)
    assert abs(np.sum(z**2) - z.size) <= LIMIT * np.sqrt(2 * z.size)


@pytest.fixture(scope='module')
def many():
    return draw_synthetic(0.5, 2.0, num_clients=400, max_examples=60, seed=1)


@pytest.mark.statistical
def test_models_and_centres_follow_their_law(many):
    assert_normal(many.model_means, 0, 0.5)
    assert_normal(many.centre_means, 0, 2.0)
    assert_normal(many.weights, many.model_means[:, None, None], 1)
    assert_normal(many.biases, many.model_means[:, None], 1)
    assert_normal(many.centres, many.centre_means[:, None], 1)


@pytest.mark.statistical
def test_features_follow_their_law_in_every_coordinate(many):
    owners = np.repeat(np.arange(400), many.counts)
    noise = many.features - many.centres[owners]
    for j in (1, 2, 7, 60):
        assert_normal(noise[:, j - 1], 0, np.sqrt(j**-1.2))
    products = noise[:, 0] * noise[:, 1] / np.sqrt(2**-1.2)  # uncorrelated coordinates
    assert abs(products.sum()) <= LIMIT * np.sqrt(len(products))


@pytest.mark.statistical
def test_counts_are_lognormal_plus_fifty():
    counts = np.array(draw_counts(np.random.default_rng([2, 0x5341]), 400))
    assert counts.min() >= 50
    for quantile in (10, 54, 200, 1000):  # int() rounds down
        above = np.mean(counts - 50 >= quantile)
        z = (np.log(quantile) - 4) / 2
        expected = 0.5 * (1 - math.erf(z / math.sqrt(2)))
        assert abs(above - expected) <= LIMIT * np.sqrt(expected * (1 - expected) / 400)


def test_labels_are_the_largest_logit(many):
    owners = np.repeat(np.arange(400), many.counts)
    for row in range(0, len(owners), 997):
        i = owners[row]
        logits = [
            sum(many.features[row, k] * many.weights[i, k, c] for k in range(60))
            + many.biases[i, c]
            for c in range(10)
        ]
        assert many.labels[row] == int(np.argmax(logits))


def test_equal_clients_at_zero_differ_in_their_draws_only():
    draw = draw_synthetic(0, 0, num_clients=3, max_examples=51)
    np.testing.assert_array_equal(draw.model_means, 0)
    np.testing.assert_array_equal(draw.centre_means, 0)
    assert (draw.weights[0] != draw.weights[1]).all()


@pytest.mark.parametrize('max_examples', [333, None])
def test_synthetic_splits_each_client_and_has_610_parameters(max_examples):
    """Counts, models and centres do not depend on the cap: the draws have them before it."""
    options = {'num_clients': 7, 'max_examples': max_examples, 'seed': 3}
    draw = draw_synthetic(0.5, 2.0, **options)
    problem = problems.synthetic(0.5, 2.0, **options)
    np.testing.assert_array_equal(
        problem.counts, [int(np.floor(0.9 * n)) for n in draw.counts]
    )
    features, labels = (np.asarray(leaf) for leaf in problem.data)
    offsets = np.asarray(problem.offsets)
    counts = np.asarray(problem.counts)
    start = 0
    test = []
    for offset, count, n in zip(offsets, counts, draw.counts, strict=True):
        rows = slice(start, start + count)
        np.testing.assert_array_equal(
            features[offset : offset + count], np.float32(draw.features[rows])
        )
        np.testing.assert_array_equal(
            labels[offset : offset + count], draw.labels[rows]
        )
        test.append(np.arange(start + count, start + n))
        start += n
    test = np.concatenate(test)
    np.testing.assert_array_equal(
        problem.eval_data.features, np.float32(draw.features[test])
    )
    np.testing.assert_array_equal(problem.eval_data.labels, draw.labels[test])
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 610


def test_synthetic_loss_gradient_and_metrics():
    problem = problems.synthetic(num_clients=3, max_examples=60)
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(60, 10))
    bias = rng.normal(size=10)
    params = {'Dense_0': {'bias': np.float32(bias), 'kernel': np.float32(kernel)}}
    start = jax.eval_shape(problem.init_params, jax.random.key(0))
    assert jax.tree.structure(params) == jax.tree.structure(start)

    def reference(batch):
        features = np.float64(batch.features)
        labels = np.asarray(batch.labels)
        logits = features @ kernel + bias
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        loss = -np.mean(np.log(chances[np.arange(len(labels)), labels]))
        surplus = (chances - np.eye(10)[labels]) / len(labels)
        return (
            loss,
            features.T @ surplus,
            surplus.sum(axis=0),
            np.mean(logits.argmax(1) == labels),
        )

    loss, kernel_gradient, bias_gradient, _ = reference(problem.data)
    value, gradient = jax.jit(jax.value_and_grad(problem.loss_fn))(params, problem.data)
    gradient = gradient['Dense_0']
    np.testing.assert_allclose(value, loss, rtol=1e-5)
    np.testing.assert_allclose(gradient['kernel'], kernel_gradient, atol=2e-5)
    np.testing.assert_allclose(gradient['bias'], bias_gradient, atol=2e-5)
    loss, _, _, accuracy = reference(problem.eval_data)
    metrics = jax.jit(problem.metrics)(params, problem.eval_data)
    np.testing.assert_allclose(metrics['loss'], loss, rtol=1e-5)
    np.testing.assert_allclose(metrics['accuracy'], accuracy, rtol=1e-6)


@pytest.mark.statistical
def test_robust_draws_follow_their_law():
    draw = draw_robust_regression(seed=7)
    assert draw.features.shape == (100, 100, 20)
    assert_normal(draw.features, 0, (2 / np.arange(1, 101))[:, None, None])
    assert_normal(draw.features[4], 0, 0.4)
    assert_normal(draw.references, draw.reference_means[:, None], 1)
    assert_normal(draw.reference_means, draw.common_mean, 1)
    noise = draw.labels - np.einsum('ijk,ik->ij', draw.features, draw.references)
    assert_normal(noise, 0, 0.5)
    common = [
        draw_robust_regression(
            num_clients=1, dimension=1, examples_per_client=1, seed=s
        )
        for s in range(300)
    ]
    assert_normal([one.common_mean for one in common], 0, 10)


SMALL = {'num_clients': 6, 'dimension': 4, 'examples_per_client': 30}


def test_robust_loss_and_gradient(x64):
    problem = problems.robust_regression(**SMALL, seed=1)
    draw = draw_robust_regression(**SMALL, seed=1)
    np.testing.assert_array_equal(problem.data.features, draw.features.reshape(-1, 4))
    np.testing.assert_allclose(problem.data.labels, draw.labels.ravel(), rtol=1e-12)
    x = np.array([0.3, -1.0, 2.0, 0.7])
    value_and_gradient = jax.jit(jax.value_and_grad(problem.loss_fn))
    losses = []
    for i in range(6):
        loss = 0.0
        gradient = np.zeros(4)
        for a, b in zip(draw.features[i], draw.labels[i], strict=True):
            residual = a @ x + b
            loss += np.log(1 + residual**2 / 2) / 30
            gradient += residual / (1 + residual**2 / 2) * a / 30
        batch = jax.tree.map(
            lambda leaf, i=i: np.asarray(leaf)[30 * i : 30 * (i + 1)], problem.data
        )
        result = value_and_gradient(x, batch)
        np.testing.assert_allclose(result[0], loss, rtol=1e-12)
        np.testing.assert_allclose(result[1], gradient, rtol=1e-11)
        losses.append(loss)
    np.testing.assert_array_equal(problem.offsets, 30 * np.arange(6))
    np.testing.assert_array_equal(problem.counts, 30)
    measure = jax.jit(problem.metrics)
    metrics = measure(x, problem.eval_data)
    np.testing.assert_allclose(metrics['loss'], np.mean(losses), rtol=1e-12)
    optimum = np.asarray(problem.eval_data.optimum)
    np.testing.assert_allclose(metrics['distance'], np.sqrt(np.sum((x - optimum) ** 2)))
    assert measure(optimum, problem.eval_data)['distance'] == 0


@pytest.mark.parametrize('seed', cases([0, 1], [0]))
def test_robust_optimum_is_a_minimum_that_descent_reaches(seed, x64):
    """Plain gradient descent from near the reference point of the largest client ends there."""
    problem = problems.robust_regression(seed=seed)
    draw = draw_robust_regression(seed=seed)
    features = np.asarray(problem.data.features)
    labels = np.asarray(problem.data.labels)
    x = -draw.references[:5].mean(axis=0)
    for _ in range(2000):
        residuals = features @ x + labels
        x = x - 2.0 * features.T @ (residuals / (1 + residuals**2 / 2)) / len(labels)
    measure = jax.jit(problem.metrics)
    end = measure(x, problem.eval_data)
    best = measure(problem.eval_data.optimum, problem.eval_data)
    assert 0 <= end['loss'] - best['loss'] < 1e-6
    assert end['distance'] < 1e-2
    gradient = jax.jit(jax.grad(problem.loss_fn))(
        problem.eval_data.optimum, problem.data
    )
    np.testing.assert_allclose(gradient, 0, atol=1e-10)


@pytest.mark.slow
def test_many_clients_that_barely_move_the_mean_have_an_optimum():
    draw = draw_robust_regression(num_clients=2_000)
    features = draw.features.reshape(-1, draw.features.shape[-1])
    labels = draw.labels.ravel()
    optimum = robust_optimum(features, labels, starts=-draw.references[:3])
    residuals = features @ optimum + labels
    gradient = features.T @ (residuals / (1 + residuals**2 / 2)) / len(labels)
    np.testing.assert_allclose(gradient, 0, atol=1e-11)


def test_the_optimum_is_nearer_to_minus_the_reference_points(x64):
    optimum = np.asarray(problems.robust_regression(**SMALL).eval_data.optimum)
    reference = draw_robust_regression(**SMALL).references[0]
    assert np.linalg.norm(optimum + reference) < np.linalg.norm(optimum - reference)


def test_of_two_minima_the_lower_is_taken():
    """Three points at 0 and two at 40 on a line: both clusters hold a minimum."""
    features = np.ones((5, 1))
    labels = -np.array([0.0, 0.1, -0.1, 40.0, 40.2])
    optimum = robust_optimum(features, labels, starts=np.array([[40.0], [1.0]]))
    grid = np.linspace(-5, 45, 50001)
    values = np.mean(np.log1p((grid[:, None] + labels) ** 2 / 2), axis=1)
    np.testing.assert_allclose(optimum, grid[values.argmin()], atol=1e-3)

    def loss(x):
        return np.mean(np.log1p((x[0] + labels) ** 2 / 2))

    np.testing.assert_allclose(approx_fprime(optimum, loss), 0, atol=1e-6)


def test_robust_parameters_start_at_zero():
    start = problems.robust_regression(**SMALL).init_params(jax.random.key(0))
    np.testing.assert_array_equal(start, np.zeros(4, np.float32))
    assert start.dtype == np.float32


@pytest.mark.parametrize(
    'call, message',
    [
        (
            lambda: problems.synthetic(-0.5),
            '`alpha` must lie in [0, 1e+30], got -0.5.',
        ),
        (
            lambda: problems.synthetic(beta=float('nan')),
            '`beta` must lie in [0, 1e+30], got nan.',
        ),
        (
            lambda: problems.synthetic(num_clients=0),
            '`num_clients` must be at least 1, got 0.',
        ),
        (
            lambda: problems.synthetic(max_examples=50),
            '`max_examples` must be at least 51, got 50.',
        ),
        (
            lambda: problems.synthetic(seed=2**32),
            '`seed` must be at most 4294967295, got 4294967296.',
        ),
        (
            lambda: problems.robust_regression(dimension=0),
            '`dimension` must be at least 1, got 0.',
        ),
        (
            lambda: problems.robust_regression(
                num_clients=2, examples_per_client=5, dimension=11
            ),
            '`dimension` must be at most 10, the number of examples, got 11.',
        ),
    ],
)
def test_arguments_out_of_range_are_refused(call, message):
    with refuses(message):
        call()
