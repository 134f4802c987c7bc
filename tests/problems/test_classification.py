"""The digits, spread over clients."""

import collections
import functools

import jax
import numpy as np
import pytest
from flax import linen as nn

from fedjax_links import datasets, problems
from fedjax_links.papers import architectures
from fedjax_links.problems import models
from fedjax_links.problems.classification import MODELS
from tests import refusals
from tests.tiers import cases

NETWORKS = {
    name: getattr(architectures, name)
    for name in vars(architectures)
    if name.startswith(('xiang', 'wang', 'sun'))
}
OF_VECTORS = [name for name in MODELS if name not in ('gru', 'transformer')]
QUICK = ['softmax', 'sun_cifar10']


@pytest.mark.parametrize('model', cases([*OF_VECTORS, *NETWORKS], QUICK))
def test_shapes_and_ranges(model):
    problem = problems.digits(num_clients=12, model=NETWORKS.get(model, model))
    assert problem.num_clients == 12
    features, labels = problem.data
    assert features.shape[0] == labels.shape[0] == int(problem.counts.sum())
    assert problem.eval_data.features.shape[1:] == features.shape[1:]
    assert features.min() >= 0
    assert features.max() <= 1
    assert set(np.unique(labels)) == set(range(10))
    params = jax.jit(problem.init_params)(jax.random.key(0))
    metrics = jax.jit(problem.metrics)(params, problem.eval_data)
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
def test_partitions_assign_each_training_image_at_most_once(partition, options):
    problem = problems.digits(num_clients=10, partition=partition, **options)
    images = datasets.digits(seed=0).train_features.reshape(-1, 64)
    assigned = np.float32(problem.data.features).reshape(-1, 64)
    available = collections.Counter(row.tobytes() for row in np.float32(images))
    used = collections.Counter(row.tobytes() for row in assigned)
    assert used <= available
    assert len(assigned) > 0.9 * len(images)


def test_skew_follows_alpha():
    def purity(**options):
        problem = problems.digits(num_clients=10, **options)
        owners = problems.owners(problem)
        labels = np.asarray(problem.data.labels)
        counts = [np.bincount(labels[owners == i], minlength=10) for i in range(10)]
        return np.mean([c.max() / c.sum() for c in counts])

    skewed = purity(alpha=0.05)
    even = purity(alpha=1000.0)
    assert skewed > 0.6 > 0.25 > even
    assert purity() == purity(alpha=0.1)
    per_class = functools.partial(purity, partition='dirichlet_per_class')
    assert per_class() == per_class(alpha=0.5) != per_class(alpha=0.1)


def test_equal_seeds_give_equal_problems_and_others_differ():
    first = problems.digits(num_clients=5, seed=3)
    again = problems.digits(num_clients=5, seed=3)
    np.testing.assert_array_equal(first.data.features, again.data.features)
    np.testing.assert_array_equal(first.counts, again.counts)
    other = problems.digits(num_clients=5, seed=4)
    assert not np.array_equal(first.data.labels[:50], other.data.labels[:50])


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(
        ValueError, match="`partition` has no 'dirichle'; did you mean 'dirichlet'"
    ):
        problems.digits(partition='dirichle')
    with pytest.raises(
        ValueError, match="`model` has no 'softmaks'; did you mean 'softmax'"
    ):
        problems.digits(model='softmaks')


def test_a_network_can_be_given_with_its_options():
    problem = problems.digits(
        model={'name': 'mlp', 'hidden': (5, 3)}, num_clients=10, alpha=1.0
    )
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    kernels = [params[f'Dense_{k}']['kernel'].shape for k in range(3)]
    assert kernels == [(64, 5), (5, 3), (3, 10)]


@pytest.mark.parametrize(
    'model, message',
    [
        ({'name': 'cnnn'}, "`model.name` has no 'cnnn'; did you mean 'cnn'?"),
        ({'hidden': (3,)}, '`model.name` must be given; valid names: cnn, gru, mlp, '),
        ({'name': 'mlp', 'hiden': 3}, "`model` has no 'hiden'; did you mean 'hidden'?"),
    ],
)
def test_a_mistake_in_the_network_costs_one_line(model, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        problems.digits(model=model, num_clients=10)
    assert str(caught.value).startswith(message)


def network(num_classes, *, hidden=4):
    """A network of the user's own."""
    return models.MLP(num_classes, hidden=(hidden,))


@pytest.mark.parametrize(
    'model, hidden',
    [
        (network, 4),
        (functools.partial(network, hidden=6), 6),
        (functools.partial(models.MLP, hidden=(7,)), 7),
        (models.MLP(10, hidden=(8,)), 8),
    ],
)
def test_a_network_can_be_a_function_of_the_number_of_classes(model, hidden):
    problem = problems.digits(model=model, num_clients=10, alpha=1.0)
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    assert params['Dense_0']['kernel'].shape == (64, hidden)
    assert params['Dense_1']['kernel'].shape == (hidden, 10)


def turns(labels, *, num_clients, stride=1):
    """Examples in turn; has no use for a seed."""
    return np.arange(len(labels)) // stride % num_clients


def shuffled(labels, num_clients, seed):
    """Takes its arguments by position or by name."""
    return np.random.default_rng(seed).integers(0, num_clients, len(labels))


@pytest.mark.parametrize(
    'partition, options, counts',
    [
        (turns, {}, lambda labels: np.bincount(np.arange(len(labels)) % 5)),
        (
            turns,
            {'stride': 7},
            lambda labels: np.bincount(np.arange(len(labels)) // 7 % 5),
        ),
        (
            functools.partial(turns, stride=3),
            {},
            lambda labels: np.bincount(np.arange(len(labels)) // 3 % 5),
        ),
        (shuffled, {}, lambda labels: np.bincount(shuffled(labels, 5, 11))),
        (
            functools.partial(shuffled, seed=2),
            {},
            lambda labels: np.bincount(shuffled(labels, 5, 2)),
        ),
    ],
)
def test_a_partition_can_be_a_function(partition, options, counts):
    problem = problems.digits(num_clients=5, partition=partition, seed=11, **options)
    labels = datasets.digits(seed=11).train_labels
    np.testing.assert_array_equal(problem.counts, counts(labels))


class Turns:
    """`turns` as an object."""

    def __call__(self, labels, *, num_clients, stride=1):
        """The owners."""
        return turns(labels, num_clients=num_clients, stride=stride)


@pytest.mark.parametrize('partition', [Turns(), functools.partial(Turns(), stride=2)])
def test_a_partition_can_be_an_object(partition):
    stride = 2 if isinstance(partition, functools.partial) else 3
    options = {} if isinstance(partition, functools.partial) else {'stride': 3}
    ours = problems.digits(num_clients=5, partition=partition, **options)
    theirs = problems.digits(num_clients=5, partition=turns, stride=stride)
    np.testing.assert_array_equal(ours.data.labels, theirs.data.labels)


def no_network(num_classes):
    """Makes something else."""
    return {'classes': num_classes}


def demanding(labels, *, num_clients, skew):
    """Has an option without a default."""
    return turns(labels, num_clients=num_clients) * (skew > 0)


@pytest.mark.parametrize(
    'options, message',
    [
        (
            {'model': 3},
            '`model` must be a name, a section, a flax module or a function that makes',
        ),
        ({'model': no_network}, '`model` must make a flax module, got a dict.'),
        (
            {'model': functools.partial(network, hiden=3)},
            "`model` has no 'hiden'; did you mean 'hidden'?",
        ),
        (
            {'model': lambda: nn.Dense(10)},
            '`model` must take arguments by position (1), got a function of 0.',
        ),
        (
            {'partition': ['iid']},
            "`partition` must be a name or a function, got ['iid'].",
        ),
        (
            {'partition': turns, 'strde': 2},
            "`images` has no 'strde'; did you mean 'stride'?",
        ),
        (
            {'partition': functools.partial(turns, strde=2)},
            "`partition` has no 'strde'; did you mean 'stride'?",
        ),
        (
            {'partition': Turns(), 'strde': 2},
            "`images` has no 'strde'; did you mean 'stride'?",
        ),
        ({'data_seed': -1}, '`data_seed` must be at least 0, got -1.'),
        (
            {'partition_seed': 'a'},
            "`partition_seed` must be a Python integer, got 'a'",
        ),
        ({'partition': demanding}, '`partition.skew` must be given, got None.'),
        (
            {'partition': demanding, 'skew': 0},
            '`partition` must number the owners from 0 to 9, got 0 as the highest.',
        ),
        (
            {'partition': lambda labels, num_clients: np.arange(num_clients)},
            '`partition` must give each of the 1438 examples an owner, got shape (10,).',
        ),
    ],
)
def test_functions_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        problems.digits(num_clients=10, **options)
    assert str(caught.value).startswith(message)


def test_functions_are_checked_before_data_are_read():
    settings = {
        'dataset': 'cifar10',
        'num_clients': 10,
        'data': {'data_dir': '/nowhere'},
    }
    with pytest.raises(ValueError, match="`images` has no 'strde'"):
        problems.images(**settings, model=network, partition=turns, strde=2)
    with pytest.raises(ValueError, match=r'`partition\.skew` must be given'):
        problems.images(**settings, model=network, partition=demanding)


def test_digits_take_no_other_data_set():
    with refusals.names('dataset', "the problem 'images' takes one", 'cifar10'):
        problems.digits(dataset='cifar10')
    with refusals.names('tokens', "'text'", 'False'):
        problems.text(dataset='shakespeare', tokens=False)
