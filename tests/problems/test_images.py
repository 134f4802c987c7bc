"""Named data sets over clients: normalised inside the program, and augmented in training alone."""

import dataclasses
import functools

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
from tests.problems.drawn_params import draw_params
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


@functools.cache
def trained(augment):
    """A problem that augments its images so, and the server model after training on it."""
    problem = build(augment=augment, normalise='fashion_mnist')
    return problem, train(problem)


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
    server = dict(jax.jit(problem.init_params)(prng.model_key(root))['Dense_0'])
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
    problem, model = trained(names)
    expected = by_hand(problem, names, normalise='fashion_mnist')
    assert apart(model['Dense_0'], expected) < 2e-4
    for others in (('mirror', 'crop'), ('crop', together), ()):
        other = by_hand(problem, others, normalise='fashion_mnist')
        assert apart(other, expected) > 2e-2


def test_evaluation_sees_images_as_they_are():
    plain = build()
    augmented = build(augment=('crop', 'mirror'))
    params = draw_params(plain.init_params)
    assert plain.random_loss_fn is None
    np.testing.assert_array_equal(
        jax.jit(augmented.loss_fn)(params, augmented.data),
        jax.jit(plain.loss_fn)(params, plain.data),
    )
    measure = jax.jit(augmented.metrics)
    measure_plain = jax.jit(plain.metrics)
    for part in ('data', 'eval_data'):
        measured = measure(params, getattr(augmented, part))
        assert measured == measure_plain(params, getattr(plain, part))
    random_loss = jax.jit(augmented.random_loss_fn)
    losses = {
        float(random_loss(params, augmented.data, jax.random.key(i))) for i in range(8)
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
    measured = [jax.jit(p.metrics)(params, p.eval_data) for p in (inside, before)]
    np.testing.assert_allclose(measured[0]['loss'], measured[1]['loss'], rtol=1e-5)
    assert measured[0]['accuracy'] == measured[1]['accuracy']
    np.testing.assert_array_equal(inside.eval_data.features, raw.test_features)


@pytest.mark.parametrize('name, least', [('crop', 16), ('mirror', 2)])
def test_images_of_a_minibatch_have_draws_of_their_own(name, least):
    same = np.repeat(pixels(3, 1), 30, axis=0)
    test = {'test_features': same, 'test_labels': np.zeros(30, int)}
    data = datasets.Dataset(same, np.arange(30) % CLASSES, **test)
    seen = []

    class Probe(nn.Module):
        @nn.compact
        def __call__(self, features):
            jax.debug.callback(lambda batch: seen.append(np.asarray(batch)), features)
            return nn.Dense(CLASSES)(features.reshape(len(features), -1))

    problem = build(data, model=Probe(), augment=(name,))
    params = draw_params(problem.init_params)
    random_loss = jax.jit(problem.random_loss_fn)
    for i in range(3):
        random_loss(params, problem.data, jax.random.key(i))
        jax.effects_barrier()
        different = {image.tobytes() for image in seen[-1]}
        assert len(different) >= least  # of 81 windows, 30 draws show about 25


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
    params = draw_params(both.init_params)
    batch = both.data
    images = np.asarray(batch.features) / np.float32(255)

    @jax.jit
    def log_probs_of(features, key):
        rngs = {'dropout': key}
        outputs = module.apply({'params': params}, features, train=True, rngs=rngs)
        return jax.nn.log_softmax(outputs)

    def loss(features, key):
        log_probs = np.asarray(log_probs_of(features, key))
        return -np.mean(log_probs[np.arange(len(batch.labels)), batch.labels])

    first, second = jax.random.split(jax.random.key(9))
    features = BY_HAND['mirror'](jax.random.fold_in(first, 0), images)
    expected = loss(features, second)
    measured = jax.jit(both.random_loss_fn)(params, batch, jax.random.key(9))
    np.testing.assert_allclose(measured, expected, rtol=1e-5)
    alone = loss(images, jax.random.key(9))
    measured = jax.jit(dropout.random_loss_fn)(params, batch, jax.random.key(9))
    np.testing.assert_allclose(measured, alone, rtol=1e-5)
    assert abs(alone - expected) > 1e-4


@pytest.mark.slow
def test_lanes_side_by_side_are_runs_of_their_own():
    problem, _ = trained(('crop', 'mirror'))

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
    small, small_end = trained(('crop', 'mirror'))
    large = build(floats, augment=('crop', 'mirror'), normalise='fashion_mnist')
    for part in ('data', 'eval_data'):
        stored = np.asarray(getattr(small, part).features)
        scaled = np.asarray(getattr(large, part).features)
        assert stored.dtype == np.uint8
        assert 4 * stored.nbytes == scaled.nbytes
        np.testing.assert_array_equal(stored / np.float32(255), scaled)
    params = train(large)
    assert apart(small_end, params) < 1e-4
    measured = [jax.jit(p.metrics)(params, p.eval_data) for p in (small, large)]
    np.testing.assert_allclose(measured[0]['loss'], measured[1]['loss'], rtol=1e-5)
