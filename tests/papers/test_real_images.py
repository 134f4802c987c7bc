"""Training on real images: against other programs, published numbers, and counts by hand.

The data are those of this machine; a test skips where they are missing, and says what to run.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import against_torch, images, interpreters
from fedjax_links import base, datasets, participation, partition, problems
from fedjax_links.papers import architectures
from fedjax_links.problems import models
from tests.datasets import real_images

pytestmark = pytest.mark.slow

NUM_CLIENTS = 100
FEDAVG = images.AlgorithmOptions('fedavg')
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


def softmax_regression(num_classes):
    return models.Softmax(num_classes)


def without_dropout(num_classes):
    """The network for CINIC-10 that keeps all units: two programs cannot drop the same ones."""
    return architectures.xiang_cinic10(num_classes).clone(dropout_rate=0.0)


NETWORKS = {
    'softmax': ('fashion_mnist', softmax_regression, 0.1),
    'wang_fashion_mnist': ('fashion_mnist', architectures.wang_fashion_mnist, 0.1),
    'wang_cifar10': ('cifar10', architectures.wang_cifar10, 0.05),
    'sun_mnist': ('mnist', architectures.sun_mnist, 0.05),
    'sun_cifar10': ('cifar10', architectures.sun_cifar10, 0.05),
    'xiang_cifar10': ('cifar10', architectures.xiang_cifar10, 0.05),
    'xiang_svhn': ('cifar10', architectures.xiang_svhn, 0.05),
    'xiang_cinic10': ('cifar10', without_dropout, 0.05),
}
"""Data, network and a local rate of the papers.

CIFAR-10 replaces SVHN and CINIC-10, whose images have the same shape.
"""


class Case(NamedTuple):
    """Two rounds of FedAvg on real images, which two programs compute.

    Attributes:
      problem: images, as bytes that the engine scales or as floats in [0, 1].
      links: uplinks.
      workload: its size.
      key: of the run.
    """

    problem: base.Problem
    links: base.Participation
    workload: images.Workload
    key: base.Key


def case_of(data, network, rate):
    """Builds 2,000 images at twenty clients, labels Dirichlet(0.1), three steps of batch 4."""
    num_clients = 20
    num_images = 2_000
    first = datasets.Dataset(
        data.train_features[:num_images], data.train_labels[:num_images]
    )
    problem = problems.images(
        dataset=first,
        num_clients=num_clients,
        model=network,
        partition='dirichlet',
        alpha=0.1,
    )
    workload = images.Workload(
        num_clients=num_clients,
        examples_per_client=num_images // num_clients,
        image_shape=first.train_features.shape[1:],
        proof_rate=rate,
        local_steps=3,
        batch_size=4,
        learning_rate=rate,
        num_rounds=2,
    )
    links = participation.bernoulli(np.linspace(0.1, 0.3, num_clients))
    return Case(problem, links, workload, jax.random.key(0))


def with_pixels_scaled(problem, dtype=np.float32):
    """The problem whose images are floats in [0, 1], for programs that do not scale them."""
    pixels = np.asarray(problem.data.features)
    if pixels.dtype == np.uint8:
        pixels = pixels.astype(dtype) / 255
    data = problem.data._replace(features=jnp.asarray(pixels))
    return dataclasses.replace(problem, data=data, eval_data=data)


def in_double_precision(problem, params):
    """The same problem and initial model, in float64."""
    wide = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float64)), params)
    scaled = with_pixels_scaled(problem, np.float64)
    return dataclasses.replace(scaled, init_params=lambda key: wide)


def run_both(case, torch_session):
    """Returns final models and losses of the engine and of PyTorch, and the initial model."""
    problem, links, workload, key = case
    params = images.initial_params(key, problem)
    plan = images.schedule(key, links, workload)
    assert plan.masks.sum(axis=1).min() > 1

    @jax.jit
    def engine(key, problem):
        return images.engine(key, problem, workload, FEDAVG, links)

    job = against_torch.written(
        torch_session, params, with_pixels_scaled(problem), plan, workload, FEDAVG
    )
    return engine(key, problem), against_torch.result(torch_session, job), params


def largest_gap(tree, expected):
    """Returns the largest difference of an entry of two models."""
    gaps = jax.tree.map(lambda a, b: np.max(np.abs(a - b)), dict(tree), expected)
    return max(jax.tree.leaves(gaps))


@pytest.mark.parametrize('name', NETWORKS)
def test_first_rounds_are_those_of_a_pytorch_loop(name, real, torch_session):
    """Losses in single precision, and losses and models in double, at a rate of the papers.

    In single precision, rounding turns units of a network on and off, after which models of two
    correct programs part: those of PyTorch in two layouts, too (`benchmarks.proofs`).
    """
    dataset, network, rate = NETWORKS[name]
    case = case_of(real(dataset), network, rate)
    (_, losses), (_, expected_losses), params = run_both(case, torch_session)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    with jax.enable_x64(True):
        problem = in_double_precision(case.problem, params)
        ours, expected, start = run_both(case._replace(problem=problem), torch_session)
        model, losses = ours
        expected_model, expected_losses = expected
        np.testing.assert_allclose(losses, expected_losses, rtol=1e-12)
        assert largest_gap(model, expected_model) < 1e-12
        assert largest_gap(start, expected_model) > 1e-3


@pytest.mark.parametrize('name', ['mnist', 'fashion_mnist'])
def test_pixels_have_their_published_moments(name, real):
    """The means and deviations that are common for normalisation, and images by class."""
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
