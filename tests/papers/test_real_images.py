"""Training on real images: against other programs, published numbers, and counts by hand.

The data are those of this machine; a test skips where they are missing, and says what to run.
"""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from benchmarks import against_torch, images, interpreters
from fedjax_links import participation, partition, problems
from fedjax_links.papers import architectures
from fedjax_links.problems import models
from tests.datasets import real_images

pytestmark = pytest.mark.slow

NUM_CLIENTS = 100
FEDAVG = images.Rule('fedavg')
MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MOMENTS = {
    'mnist': (0.1307, 0.3081, MNIST_COUNTS),
    'fashion_mnist': (0.2860, 0.3530, [6_000] * 10),
}


@pytest.fixture
def real(tmp_path_factory):
    """The function that loads a data set by name, or skips the test."""
    return functools.partial(
        real_images.load_or_skip, tmp_path_factory=tmp_path_factory
    )


@pytest.fixture(scope='module')
def torch_session():
    if interpreters.missing('torch'):
        pytest.skip('PyTorch is not installed')
    with interpreters.Session('torch') as session:
        yield session


def federation(data, network):
    """Clients of equal size whose labels are Dirichlet(0.1), as in Xiang et al. 2024."""
    return problems.images(
        dataset=data,
        num_clients=NUM_CLIENTS,
        model=network,
        partition='dirichlet',
        alpha=0.1,
    )


def workload_of(data, rate, num_rounds):
    """The size of the rounds of `federation`: five steps of batch 16."""
    return images.Workload(
        num_clients=NUM_CLIENTS,
        num_examples=len(data.train_labels) // NUM_CLIENTS,
        image_shape=data.train_features.shape[1:],
        learning_rate=rate,
        num_rounds=num_rounds,
    )


def uplinks(mean):
    """Unequal uplinks, of a given mean."""
    return participation.bernoulli(np.linspace(0.5 * mean, 1.5 * mean, NUM_CLIENTS))


def with_pixels_scaled(problem):
    """The problem whose images are floats in [0, 1], for programs that do not scale them."""
    pixels = np.asarray(problem.data.features)
    scaled = problem.data._replace(features=pixels.astype(np.float32) / 255)
    return dataclasses.replace(problem, data=scaled)


def largest_gap(tree, expected):
    """Largest difference of an entry of two models."""
    gaps = jax.tree.map(lambda a, b: np.max(np.abs(a - b)), dict(tree), expected)
    return max(jax.tree.leaves(gaps))


def softmax_regression(num_classes):
    return models.Softmax(num_classes)


@pytest.mark.parametrize(
    'name, network, rate',
    [
        ('fashion_mnist', softmax_regression, 0.1),
        ('mnist', architectures.sun_mnist, 0.05),
    ],
)
def test_first_rounds_are_those_of_a_pytorch_loop(
    name, network, rate, real, torch_session
):
    """Losses at a rate of the papers, and at a hundredth of it models as well.

    At the rate itself rounding turns units of a network on and off, after which models of two
    correct programs part: those of PyTorch in two layouts, too (`benchmarks.proofs`).
    """
    data = real(name)
    problem = federation(data, network)
    workload = workload_of(data, rate, num_rounds=2)
    links = uplinks(0.03)
    key = jax.random.key(0)
    params = images.initial_params(key, problem)
    plan = images.schedule(key, links, workload)
    assert plan.masks.sum(axis=1).min() > 1

    @jax.jit
    def engine(key, problem, rate):
        changed = workload._replace(learning_rate=rate)
        return images.engine(key, problem, changed, FEDAVG, links)

    def torch_loop(rate):
        changed = workload._replace(learning_rate=rate)
        job = against_torch.written(
            torch_session, params, with_pixels_scaled(problem), plan, changed, FEDAVG
        )
        return against_torch.result(torch_session, job)

    _, losses = engine(key, problem, rate)
    _, expected_losses = torch_loop(rate)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    small = rate / 100
    model, losses = engine(key, problem, small)
    expected_model, expected_losses = torch_loop(small)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    assert largest_gap(model, expected_model) < 1e-5
    assert largest_gap(params, expected_model) > 1e-4


@pytest.mark.parametrize('name', ['mnist', 'fashion_mnist'])
def test_pixels_have_their_published_moments(name, real):
    """Means and deviations as everybody normalises by them, and images by class."""
    mean, deviation, counts = MOMENTS[name]
    data = real(name)
    pixels = data.train_features
    axes = (0, 1, 2)
    np.testing.assert_allclose(pixels.mean(axes) / 255, mean, atol=2e-4)
    np.testing.assert_allclose(pixels.std(axes) / 255, deviation, atol=2e-4)
    assert np.bincount(data.train_labels).tolist() == counts


@pytest.mark.parametrize('alpha', [0.1, 1.0])
def test_class_counts_of_dirichlet_clients(alpha, real):
    """Each image once, equal sizes, and shares as unequal as the law says."""
    labels = real('fashion_mnist').train_labels
    owners = partition.dirichlet(labels, num_clients=NUM_CLIENTS, alpha=alpha, seed=0)
    counts = np.zeros((NUM_CLIENTS, 10), int)
    np.add.at(counts, (owners, labels), 1)
    assert counts.sum(axis=0).tolist() == [6_000] * 10
    assert counts.sum(axis=1).tolist() == [600] * NUM_CLIENTS
    report = partition.report(owners, labels)
    np.testing.assert_allclose(report.class_mix, counts / 600)
    # E sum_c p_c^2 = (alpha + 1) / (10 alpha + 1); classes that run out move the last clients.
    squares = np.sum((counts / 600) ** 2, axis=1)
    error = squares.std(ddof=1) / np.sqrt(NUM_CLIENTS)
    expected = (alpha + 1) / (10 * alpha + 1)
    assert abs(squares.mean() - expected) < 4 * error


def test_class_counts_of_shards(real):
    labels = real('fashion_mnist').train_labels
    owners = partition.label_shards(
        labels, num_clients=NUM_CLIENTS, shards_per_client=2, seed=0
    )
    counts = np.zeros((NUM_CLIENTS, 10), int)
    np.add.at(counts, (owners, labels), 1)
    # 6,000 images of a class are 20 shards of 300, so that no shard has two classes.
    assert counts.sum(axis=0).tolist() == [6_000] * 10
    assert set(counts.ravel()) <= {0, 300, 600}
    assert counts.sum(axis=1).tolist() == [600] * NUM_CLIENTS
