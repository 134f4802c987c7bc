"""Gaussian classes and regressions against the laws that they are drawn from."""

import jax
import numpy as np
import pytest
from scipy.spatial import distance as distances

from fedjax_links import analysis, experiment, problems
from fedjax_links.partition import dirichlet_shares
from fedjax_links.preview import configured_links, theory
from fedjax_links.problems.gaussians import simplex
from fedjax_links.report import blank_view
from tests import refusals
from tests.problems.generators import draw_regression_clients
from tests.refusals import refuses

LIMIT = 4.5


def assert_labels_have_shares(problem, shares):
    """Asserts that clients draw their labels with shares [N, K], in standard deviations."""
    num_clients, num_classes = shares.shape
    labels = np.asarray(problem.data.labels).reshape(num_clients, -1)
    counts = np.stack([np.bincount(row, minlength=num_classes) for row in labels])
    num_examples = labels.shape[1]
    deviations = np.sqrt(num_examples * shares * (1 - shares))
    assert np.all(np.abs(counts - num_examples * shares) <= LIMIT * deviations + 1)


@pytest.mark.parametrize('num_points', [2, 3, 10])
def test_vertices_of_a_simplex_are_equally_far_apart(num_points):
    points = simplex(num_points, 2.5)
    assert points.shape == (num_points, num_points - 1)
    np.testing.assert_allclose(distances.pdist(points), 2.5)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-15)


@pytest.mark.statistical
def test_the_best_linear_classifier_has_the_stated_accuracy():
    problem = problems.gaussians(
        num_clients=2, test_examples=100_000, bayes_accuracy=0.75
    )
    means = simplex(10, analysis.equidistant_distance(0.75, 10))
    chosen = np.argmax(np.asarray(problem.eval_data.features) @ means.T, axis=1)
    hits = np.mean(chosen == np.asarray(problem.eval_data.labels))
    assert problem.attainable['accuracy'] == pytest.approx(0.75, abs=1e-12)
    assert abs(hits - 0.75) < LIMIT * np.sqrt(0.75 * 0.25 / 100_000)


@pytest.mark.statistical
def test_clients_follow_their_shares_and_features_their_classes():
    problem = problems.gaussians(
        num_clients=20,
        examples_per_client=2000,
        num_classes=4,
        bayes_accuracy=0.8,
        seed=3,
    )
    assert_labels_have_shares(problem, dirichlet_shares(20, 4, alpha=0.1, seed=3))
    means = simplex(4, analysis.equidistant_distance(0.8, 4))
    labels = np.asarray(problem.data.labels)
    noise = np.asarray(problem.data.features, float) - means[labels]
    assert np.all(np.abs(noise.mean(axis=0)) < LIMIT / np.sqrt(len(noise)))
    assert np.all(np.abs((noise**2).mean(axis=0) - 1) < LIMIT * np.sqrt(2 / len(noise)))
    assert np.all(np.bincount(problem.eval_data.labels) == 2500)


def test_data_and_partition_have_seeds_of_their_own():
    def built(**seeds):
        return problems.gaussians(num_clients=5, num_classes=3, **seeds)

    base = built(seed=1)
    data = built(seed=1, data_seed=2)
    parts = built(seed=1, partition_seed=2)
    for problem, partition_seed in ((base, 1), (data, 1), (parts, 2)):
        shares = dirichlet_shares(5, 3, alpha=0.1, seed=partition_seed)
        assert_labels_have_shares(problem, shares)
    assert not np.array_equal(base.data.features, data.data.features)
    assert not np.array_equal(base.data.labels, parts.data.labels)
    assert not np.array_equal(base.eval_data.features, data.eval_data.features)
    np.testing.assert_array_equal(base.eval_data.features, parts.eval_data.features)
    both = built(data_seed=2, partition_seed=2)
    np.testing.assert_array_equal(both.data.features, built(seed=2).data.features)


def test_a_partition_assigns_equal_numbers_of_each_class():
    def built(**options):
        return problems.gaussians(
            num_clients=20, examples_per_client=100, partition='similarity', **options
        )

    problem = built(similarity=0.05, seed=3)
    labels = np.asarray(problem.data.labels)
    owner = problems.owners(problem)
    assert np.all(np.bincount(labels) == 200)
    majority = labels == owner // 2  # 20 clients, two per class, in order
    spread = 0.05 * 0.9  # of those dealt out at random a tenth meet their class
    assert abs(majority.mean() - (1 - spread)) < LIMIT * np.sqrt(
        spread * (1 - spread) / 2000
    )
    expected = problems.gaussians(num_clients=20, examples_per_client=100, seed=3)
    assert problem.attainable == expected.attainable
    other = built(seed=3, partition_seed=4)
    np.testing.assert_array_equal(other.eval_data.features, problem.eval_data.features)
    assert not np.array_equal(other.data.labels, labels)
    unequal = problems.gaussians(
        num_clients=20, partition='dirichlet_unequal', alpha=0.5
    )
    assert np.ptp(np.asarray(unequal.counts)) > 50


@pytest.mark.statistical
def test_regression_on_fresh_draws_has_the_stated_error():
    settings = {'dimension': 3, 'heterogeneity': 0.8, 'shift': 1.5}
    problem = problems.gaussian_regression(
        num_clients=50, examples_per_client=2000, sigma=0.3, seed=4, **settings
    )
    vectors, shifts = draw_regression_clients(num_clients=50, seed=4, **settings)
    fit = analysis.best_linear_fit(vectors, shifts, sigma=0.3)
    x, y = (np.asarray(part, float) for part in problem.data)
    measure = jax.jit(problem.metrics)
    for model in (fit.vector, np.zeros(3)):
        squares = np.square(x @ model - y)
        result = measure(np.float32(model), problem.eval_data)
        error = np.sqrt(np.mean(squares.reshape(50, -1).var(axis=1)) / len(y))
        assert abs(squares.mean() - result['loss']) < LIMIT * error
    assert float(problem.attainable['loss']) == pytest.approx(fit.error, rel=1e-12)
    np.testing.assert_allclose(
        measure(np.float32(fit.vector), problem.eval_data)['loss'],
        fit.error,
        rtol=1e-6,
    )
    slope = jax.jit(jax.grad(problem.loss_fn))
    gradient = np.asarray(slope(np.float32(fit.vector), problem.data))
    assert np.all(np.abs(gradient) < 0.1)  # w* is of the population


def test_what_is_known_is_printed_before_a_run():
    config = {
        'title': 'known',
        'problem': {'name': 'gaussians', 'bayes_accuracy': 0.6, 'num_clients': 4},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'learning_rate': 0.1, 'local_steps': 1, 'batch_size': 4},
        'algorithms': {'fedavg': {}},
        'num_rounds': 2,
        'eval_every': 2,
    }
    known = "The population's best model, exactly: accuracy 0.6000."
    planned = experiment.build(config)
    assert blank_view.blank(planned).caption == known
    line = "best     accuracy 0.6000 (the population's best model, exact)"
    assert line in planned.describe().splitlines()
    links = configured_links.from_experiment(planned)
    assert line in theory.text(links, links.record(32)).splitlines()


@pytest.mark.parametrize(
    'options, message',
    [
        (
            {'bayes_accuracy': 0.1},
            '`bayes_accuracy` must lie above 1 / `num_classes` = 0.1 and below 1, got 0.1.',
        ),
        ({'alpha': 0}, '`alpha` must be positive, got 0.'),
        ({'modle': 'mlp'}, "`gaussians` has no 'modle'; did you mean 'model'?"),
        (
            {'partition': 'similarity', 'similarty': 0.1},
            "`gaussians` has no 'similarty'; did you mean 'similarity'?",
        ),
        (
            {'partition': 'similarity', 'alpha': 0.1},
            "`gaussians` has no 'alpha' with this partition; valid names: bayes_accuracy, "
            'data_seed, examples_per_client, label_noise, model, num_classes, num_clients, '
            'partition, partition_seed, seed, similarity, test_examples.',
        ),
        ({'data_seed': -1}, '`data_seed` must be at least 0, got -1.'),
        (
            {'partition_seed': 0.5},
            '`partition_seed` must be a Python integer, got 0.5.',
        ),
        ({'seed': 'a'}, "`seed` must be a Python integer, got 'a'."),
    ],
)
def test_arguments_out_of_range_are_refused(options, message):
    with refuses(message):
        problems.gaussians(**options)


def test_shifts_that_leave_no_digits_of_the_fit_are_refused():
    with refusals.names('shift', 'lie in [0, 100000]'):
        problems.gaussian_regression(num_clients=2, shift=1e10)
    with refusals.names('shifts', '10000000000.0 at coordinate 0 of client 1'):
        shifts = [[0.0, 0.0], [1e10, 0.0]]
        analysis.best_linear_fit(np.eye(2), shifts, sigma=1.0)
    # Two clients at opposite ends of a line share its slope, and average the other entry.
    fit = analysis.best_linear_fit(
        [[1.0, 2.0], [1.0, 4.0]], [[1e6, 0.0], [-1e6, 0.0]], sigma=0.5
    )
    np.testing.assert_allclose(fit.vector, [1.0, 3.0], rtol=1e-9)
    np.testing.assert_allclose(fit.error, 0.25 + 1.0, rtol=1e-9)
