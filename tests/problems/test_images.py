"""Named data sets over clients: normalised inside the program, and augmented in training alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from fedjax_links import (
    algorithms,
    datasets,
    local_training,
    participation,
    sweeps,
)
from fedjax_links.core import prng
from fedjax_links.problems import augmentation, models
from fedjax_links.simulation import simulate
from tests.problems.small_images import CLASSES, CLIENTS, SIZE, build, dataset, pixels
from tests.reference.local_loops import sampled_rows

RATE = 0.5
NUM_ROUNDS = 3
LOCAL_STEPS = 2
BATCH = 5
LOSS_STREAM = 2**32 - 1  # `batches._LOSS_STREAM`


def train(problem, *, seed=5, batch_size=BATCH, num_rounds=NUM_ROUNDS):
    local_train = local_training.local_sgd(
        RATE, local_steps=LOCAL_STEPS, batch_size=batch_size
    )
    run = jax.jit(
        lambda key, problem: simulate(
            key,
            algorithms.fedavg(local_train),
            participation.always(CLIENTS),
            problem,
            num_rounds=num_rounds,
        )
    )
    return run(jax.random.key(seed), problem).state.algorithm.server


def apart(first, second):
    """Largest difference between two pytrees."""
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return np.max([np.abs(np.asarray(a) - np.asarray(b)).max() for a, b in pairs])


def windows(images, corners, padding=4):
    """The windows at the corners, with slices alone."""
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    return np.stack(
        [
            image[row : row + SIZE, column : column + SIZE]
            for image, (row, column) in zip(padded, np.asarray(corners), strict=True)
        ]
    )


def together(key, images):
    """A user's augmentation: mirrors all images or none."""
    return jnp.where(jax.random.bernoulli(key), images[:, :, ::-1], images)


BY_HAND = {
    'crop': lambda key, images: windows(
        images, jax.random.randint(key, (len(images), 2), 0, 9)
    ),
    'mirror': lambda key, images: np.stack(
        [
            image[:, ::-1] if swap else image
            for image, swap in zip(
                images,
                jax.random.bernoulli(key, shape=(len(images), 1, 1, 1)).ravel(),
                strict=True,
            )
        ]
    ),
    together: lambda key, images: (
        images[:, :, ::-1] if jax.random.bernoulli(key) else images
    ),
}


@jax.jit
@jax.grad
def gradient(params, images, labels):
    logits = images.reshape(len(images), -1) @ params['kernel'] + params['bias'][None]
    log_probs = logits - jax.scipy.special.logsumexp(logits, axis=1, keepdims=True)
    return -jnp.mean(log_probs[jnp.arange(len(labels)), labels])


def by_hand(problem, names, *, seed=5, normalise=None):
    """FedAvg with every client, step by step; keys as documented."""
    root = jax.random.key(seed)
    server = dict(problem.init_params(prng.model_key(root))['Dense_0'])
    images, labels = (np.asarray(a) for a in problem.data)
    images = images / np.float32(255)
    if normalise is not None:
        mean, deviation = (
            np.float32(a[0]) for a in augmentation.CHANNEL_STATISTICS[normalise]
        )
        images = (images - mean) / deviation
    for t in range(NUM_ROUNDS):
        ends = []
        for client in range(CLIENTS):
            key = prng.client_key(prng.round_key(root, 'client', t), client)
            model = server
            for step in range(LOCAL_STEPS):
                draw = jax.random.fold_in(key, step)
                rows = sampled_rows(draw, BATCH, problem.counts[client])
                rows = rows + int(problem.offsets[client])
                loss_key = jax.random.fold_in(
                    jax.random.fold_in(key, np.uint32(LOSS_STREAM)), step
                )
                batch = images[rows]
                for index, name in enumerate(names):
                    batch = BY_HAND[name](jax.random.fold_in(loss_key, index), batch)
                grads = gradient(model, batch, labels[rows])
                model = {name: model[name] - RATE * grads[name] for name in model}
            ends.append(model)
        server = {name: np.mean([end[name] for end in ends], axis=0) for name in server}
    return server


@pytest.mark.parametrize(
    'names',
    [('crop', 'mirror'), pytest.param((together, 'crop'), marks=pytest.mark.slow)],
)
def test_training_is_the_loop_by_hand(names):
    problem = build(augment=names, normalise='fashion_mnist')
    expected = by_hand(problem, names, normalise='fashion_mnist')
    trained = train(problem)['Dense_0']
    assert apart(trained, expected) < 2e-4
    others = {('mirror', 'crop'), ('crop', together), ()}
    for other in others:
        assert (
            apart(by_hand(problem, other, normalise='fashion_mnist'), expected) > 2e-2
        )


def test_evaluation_sees_images_as_they_are():
    plain = build()
    augmented = build(augment=('crop', 'mirror'))
    params = jax.tree.map(lambda a: a + 0.1, plain.init_params(jax.random.key(1)))
    assert plain.random_loss_fn is None
    np.testing.assert_array_equal(
        augmented.loss_fn(params, augmented.data), plain.loss_fn(params, plain.data)
    )
    for part in ('data', 'eval_data'):
        measured = augmented.metrics(params, getattr(augmented, part))
        expected = plain.metrics(params, getattr(plain, part))
        assert measured == expected
    losses = {
        float(augmented.random_loss_fn(params, augmented.data, jax.random.key(i)))
        for i in range(8)
    }
    assert len(losses) == 8


@pytest.mark.slow
def test_normalising_in_the_program_is_normalising_beforehand():
    raw = dataset()
    augment = ('crop',)
    train_part = augmentation.normalise(
        raw.train_features / np.float32(255), 'fashion_mnist'
    )
    test_part = augmentation.normalise(
        raw.test_features / np.float32(255), 'fashion_mnist'
    )
    ahead = dataclasses.replace(raw, train_features=train_part, test_features=test_part)
    inside = build(raw, normalise='fashion_mnist', augment=augment)
    before = build(ahead, augment=augment)
    params = train(before)
    assert apart(train(inside), params) < 1e-4
    assert apart(train(build(raw, augment=augment)), params) > 1e-2
    measured = [p.metrics(params, p.eval_data) for p in (inside, before)]
    np.testing.assert_allclose(measured[0]['loss'], measured[1]['loss'], rtol=1e-5)
    assert measured[0]['accuracy'] == measured[1]['accuracy']
    np.testing.assert_array_equal(inside.eval_data.features, raw.test_features)


def count_distinct(make_problem, key):
    """Counts the different images that augmentation makes of a batch of equal ones."""
    seen = []

    class Probe(nn.Module):
        @nn.compact
        def __call__(self, features):
            jax.debug.callback(lambda batch: seen.append(np.asarray(batch)), features)
            return nn.Dense(CLASSES)(features.reshape(len(features), -1))

    problem = make_problem(Probe())
    problem.random_loss_fn(problem.init_params(jax.random.key(0)), problem.data, key)
    jax.effects_barrier()
    return len({image.tobytes() for image in seen[-1]})


@pytest.mark.parametrize('name, least', [('crop', 16), ('mirror', 2)])
def test_images_of_a_minibatch_have_draws_of_their_own(name, least):
    same = np.repeat(pixels(3, 1), 30, axis=0)
    test = {'test_features': same, 'test_labels': np.zeros(30, int)}
    data = datasets.Dataset(same, np.arange(30) % CLASSES, **test)

    def make_problem(module):
        return build(data, model=module, augment=(name,))

    counts = [count_distinct(make_problem, jax.random.key(i)) for i in range(3)]
    assert min(counts) >= least  # of 81 windows, 30 draws show about 25


@pytest.mark.slow
def test_full_data_of_unequal_clients_are_augmented_one_by_one():
    """As documented: there is no batch to draw for."""
    labels = np.arange(23) % CLASSES
    test = {'test_features': pixels(1), 'test_labels': np.zeros(24, int)}
    data = datasets.Dataset(pixels(0, 23), labels, **test)
    at_once = train(build(data, augment=(together,)), batch_size=None, num_rounds=1)
    alone = train(build(data, augment=('mirror',)), batch_size=None, num_rounds=1)
    plain = train(build(data, augment=()), batch_size=None, num_rounds=1)
    assert apart(at_once, alone) < 1e-6
    assert apart(alone, plain) > 1e-2


@pytest.mark.slow
def test_dropout_and_augmentation_each_have_half_of_the_key():
    module = models.CNN(CLASSES, channels=(2,), hidden=(8,), dropout_rate=0.5)
    both = build(model=module, augment=('mirror',))
    dropout = build(model=module)
    params = both.init_params(jax.random.key(0))
    batch = both.data
    images = batch.features / np.float32(255)

    def loss(features, rngs):
        outputs = module.apply({'params': params}, features, train=True, rngs=rngs)
        log_probs = jax.nn.log_softmax(outputs)
        return -np.mean(
            np.asarray(log_probs)[np.arange(len(batch.labels)), batch.labels]
        )

    first, second = jax.random.split(jax.random.key(9))
    features = BY_HAND['mirror'](jax.random.fold_in(first, 0), np.asarray(images))
    expected = loss(jnp.asarray(features), {'dropout': second})
    measured = both.random_loss_fn(params, batch, jax.random.key(9))
    np.testing.assert_allclose(measured, expected, rtol=1e-5)
    alone = loss(images, {'dropout': jax.random.key(9)})
    np.testing.assert_allclose(
        dropout.random_loss_fn(params, batch, jax.random.key(9)), alone, rtol=1e-5
    )
    assert abs(alone - expected) > 1e-4


@pytest.mark.slow
def test_lanes_side_by_side_are_runs_of_their_own():
    problem = build(augment=('crop', 'mirror'), normalise='fashion_mnist')

    def make_algorithm(learning_rate):
        program = local_training.local_sgd(
            learning_rate, local_steps=LOCAL_STEPS, batch_size=BATCH
        )
        return algorithms.fedavg(program)

    result = sweeps.sweep(
        make_algorithm,
        lambda: participation.always(CLIENTS),
        problem,
        seeds=(5, 6),
        grid={'algorithm': {'learning_rate': np.float32([0.1, RATE])}},
        num_rounds=NUM_ROUNDS,
        batching='vmap',
    )
    lane = jax.tree.map(lambda a: a[1, 1], result.state.algorithm.server)
    assert apart(lane, train(problem, seed=6)) < 1e-4
    other = jax.tree.map(lambda a: a[1, 0], result.state.algorithm.server)
    assert apart(lane, other) > 1e-2


def test_pixels_take_a_quarter_of_the_memory():
    data = dataset()
    floats = dataclasses.replace(
        data,
        train_features=data.train_features / np.float32(255),
        test_features=data.test_features / np.float32(255),
    )
    options = {'normalise': 'fashion_mnist', 'augment': ('crop',)}
    small = build(data, **options)
    large = build(floats, **options)
    for part in ('data', 'eval_data'):
        stored = np.asarray(getattr(small, part).features)
        scaled = np.asarray(getattr(large, part).features)
        assert stored.dtype == np.uint8
        assert 4 * stored.nbytes == scaled.nbytes
        np.testing.assert_array_equal(stored / np.float32(255), scaled)
    params = train(large)
    assert apart(train(small), params) < 1e-4
    measured = [p.metrics(params, p.eval_data) for p in (small, large)]
    np.testing.assert_allclose(measured[0]['loss'], measured[1]['loss'], rtol=1e-5)
