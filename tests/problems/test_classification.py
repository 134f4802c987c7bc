"""The digits, spread over clients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import problems
from fedjax_links.problems import datasets
from fedjax_links.problems.classification import MODELS, PARTITIONS


@pytest.mark.parametrize('model', MODELS)
def test_shapes_and_ranges(model):
    problem = problems.digits(num_clients=12, model=model)
    assert problem.num_clients == 12
    features, labels = problem.data
    assert features.shape[0] == labels.shape[0] == int(problem.counts.sum())
    assert problem.eval_data.features.shape[1:] == features.shape[1:]
    assert (features.min() >= 0, features.max() <= 1) == (True, True)
    assert set(np.unique(labels)) == set(range(10))
    params = problem.init_params(jax.random.key(0))
    metrics = problem.metrics(params, problem.eval_data)
    assert set(metrics) == {'loss', 'accuracy'}
    assert 0 <= metrics['accuracy'] <= 1
    assert 1 < metrics['loss'] < 5  # near log(10) before training


@pytest.mark.parametrize(
    'partition, options',
    [
        ('dirichlet', {}),
        ('dirichlet', {'alpha': 10.0}),
        ('iid', {}),
        ('label_shards', {'shards_per_client': 2}),
    ],
)
def test_every_partition_hands_out_every_training_image_at_most_once(partition, options):
    problem = problems.digits(num_clients=10, partition=partition, **options)
    images = datasets.digits(seed=0).train_features.reshape(-1, 64)
    held = np.asarray(problem.data.features).reshape(-1, 64)
    available = {row.tobytes(): 0 for row in np.float32(images)}
    for row in np.float32(images):
        available[row.tobytes()] += 1
    for row in held:
        available[row.tobytes()] -= 1
    assert min(available.values()) >= 0
    assert len(held) > 0.9 * len(images)


def test_skew_follows_alpha():
    def purity(**options):
        problem = problems.digits(num_clients=10, **options)
        owners, labels = problems.owners(problem), np.asarray(problem.data.labels)
        counts = [np.bincount(labels[owners == i], minlength=10) for i in range(10)]
        return np.mean([c.max() / c.sum() for c in counts])

    skewed, even = purity(alpha=0.05), purity(alpha=1000.0)
    assert skewed > 0.6 > 0.25 > even
    assert purity() == purity(alpha=0.1)


def test_the_same_seed_gives_the_same_problem_and_another_seed_another():
    first, again = problems.digits(num_clients=5, seed=3), problems.digits(num_clients=5, seed=3)
    np.testing.assert_array_equal(first.data.features, again.data.features)
    np.testing.assert_array_equal(first.counts, again.counts)
    other = problems.digits(num_clients=5, seed=4)
    assert not np.array_equal(first.data.labels[:50], other.data.labels[:50])


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match="`partition` has no 'dirichle'; did you mean 'dirichlet'"):
        problems.digits(partition='dirichle')
    with pytest.raises(ValueError, match="`model` has no 'softmaks'; did you mean 'softmax'"):
        problems.digits(model='softmaks')


def test_partitions_by_name_are_all_callable():
    assert all(callable(partition) for partition in PARTITIONS.values())
    assert 'dirichlet' in PARTITIONS


def test_a_network_can_be_given_with_its_options():
    problem = problems.digits(model={'name': 'mlp', 'hidden': (5, 3)}, num_clients=10, alpha=1.0)
    shapes = jax.tree.map(jnp.shape, problem.init_params(jax.random.key(0)))
    assert [shapes[f'Dense_{k}']['kernel'] for k in range(3)] == [(64, 5), (5, 3), (3, 10)]


@pytest.mark.parametrize(
    'model, message',
    [
        ({'name': 'cnnn'}, "`model.name` has no 'cnnn'; did you mean 'cnn'?"),
        ({'hidden': (3,)}, '`model.name` has no None; valid names: cnn, mlp, '),
        ({'name': 'mlp', 'hiden': 3}, "`model` has no 'hiden'; did you mean 'hidden'?"),
    ],
)
def test_a_mistake_in_the_network_costs_one_line(model, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        problems.digits(model=model, num_clients=10)
    assert str(caught.value).startswith(message)
