"""The papers' networks: size, initialisation, and the parts that flax has no equal for."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import local_training, problems
from fedjax_links.core import tree
from fedjax_links.papers import architectures
from fedjax_links.problems import models
from tests.problems.drawn_params import draw_params
from tests.tiers import cases

CIFAR = (32, 32, 3)
FASHION = (28, 28, 1)
SIZES = {
    'xiang_svhn': (CIFAR, 273_706),
    'xiang_cifar10': (CIFAR, 551_786),
    'xiang_cinic10': (CIFAR, 1_193_130),
    'wang_fashion_mnist': (FASHION, 228_586),
    'wang_cifar10': (CIFAR, 2_218_314),
    'sun_mnist': (FASHION, 1_853_778),
    'sun_cifar10': (CIFAR, 188_810),
}


def init(module, shape, seed=0):
    images = jnp.zeros((1, *shape))
    return jax.jit(module.init)(jax.random.key(seed), images)['params']


@pytest.mark.parametrize('name', SIZES)
def test_parameter_counts_are_the_papers(name):
    shape, size = SIZES[name]
    module = getattr(architectures, name)(10)
    variables = jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, *shape)))
    assert set(variables) == {'params'}
    assert tree.size(variables['params']) == size
    logits = jax.eval_shape(module.apply, variables, jnp.zeros((4, *shape)))
    assert logits.shape == (4, 10)


def assert_uniform(weights, fan_in):
    """Asserts range and variance of the uniform distribution on +-1/sqrt(fan_in)."""
    weights = np.ravel(weights)
    bound = 1 / math.sqrt(fan_in)
    assert np.abs(weights).max() <= bound
    if weights.size > 500:
        assert np.abs(weights).max() > 0.95 * bound
        # The variance of a uniform square is 4/45; five standard errors.
        error = 5 * bound**2 * math.sqrt(4 / 45 / weights.size)
        assert abs(np.mean(weights**2) - bound**2 / 3) < error
    assert np.ptp(weights) > 0


def assert_normal(weights, variance):
    """Asserts mean, variance and tails of a normal distribution, at five standard errors."""
    weights = np.ravel(weights)
    assert abs(np.mean(weights**2) / variance - 1) < 5 * math.sqrt(2 / weights.size)
    assert abs(np.mean(weights)) < 5 * math.sqrt(variance / weights.size)
    # Not cut off, as lecun_normal is.
    assert np.abs(weights).max() > 2.5 * math.sqrt(variance)


@pytest.mark.parametrize(
    'name', cases(['xiang_cinic10', 'wang_fashion_mnist'], ['wang_fashion_mnist'])
)
def test_all_layers_are_kaiming_normal_but_the_last(name):
    params = init(getattr(architectures, name)(10), SIZES[name][0])
    last = max(layer for layer in params if layer.startswith('Dense'))
    for layer, values in params.items():
        kernel = values['kernel']
        fan_in = math.prod(kernel.shape[:-1])
        if layer == last:
            assert kernel.shape[-1] == 10
            assert_uniform(kernel, fan_in)
            assert_uniform(values['bias'], fan_in)
        else:
            assert_normal(kernel, 2 / fan_in)
            np.testing.assert_array_equal(values['bias'], 0)


@pytest.mark.parametrize('name', cases(['sun_mnist', 'sun_cifar10'], ['sun_cifar10']))
def test_sun_s_networks_start_uniformly(name):
    params = init(getattr(architectures, name)(10), SIZES[name][0])
    for layer, values in params.items():
        if layer.startswith('BatchNorm'):
            np.testing.assert_array_equal(values['scale'], 1)
            np.testing.assert_array_equal(values['bias'], 0)
        else:
            fan_in = math.prod(values['kernel'].shape[:-1])
            assert_uniform(values['kernel'], fan_in)
            assert_uniform(values['bias'], fan_in)


@pytest.mark.slow
def test_layers_and_seeds_have_draws_of_their_own():
    first = init(models.CNN(10, channels=(4, 4)), (8, 8, 4), 0)
    second = init(models.CNN(10, channels=(4, 4)), (8, 8, 4), 1)
    assert not np.array_equal(first['Conv_0']['kernel'], first['Conv_1']['kernel'])
    assert not np.array_equal(first['Conv_0']['kernel'], second['Conv_0']['kernel'])
    assert not np.array_equal(first['Dense_1']['bias'], second['Dense_1']['bias'])


def numpy_cnn(params, images):
    """The two convolutions and two layers of `CNN`, in float64 loops over positions."""
    params = jax.tree.map(lambda a: np.asarray(a, float), params)
    hidden = np.asarray(images, float)
    for layer in ('Conv_0', 'Conv_1'):
        kernel = params[layer]['kernel']
        side = len(kernel) // 2
        padded = np.pad(hidden, ((0, 0), (side, side), (side, side), (0, 0)))
        batch, height, width, _ = hidden.shape
        outputs = np.empty((batch, height, width, kernel.shape[-1]))
        for i in range(height):
            for j in range(width):
                window = padded[:, i : i + len(kernel), j : j + len(kernel)]
                outputs[:, i, j] = np.tensordot(window, kernel, axes=3)
        hidden = np.maximum(outputs + params[layer]['bias'], 0)
        # Pooling: the largest of each 2 x 2 window.
        rows = np.maximum(hidden[:, 0::2], hidden[:, 1::2])
        hidden = np.maximum(rows[:, :, 0::2], rows[:, :, 1::2])
    hidden = hidden.reshape(len(hidden), -1)
    for layer in ('Dense_0', 'Dense_1'):
        hidden = hidden @ params[layer]['kernel'] + params[layer]['bias']
        if layer == 'Dense_0':
            hidden = np.maximum(hidden, 0)
    return hidden


@pytest.mark.parametrize(
    'kernel_size, convolution',
    [(3, models.CNN.convolution), (5, jax.lax.conv_general_dilated)],
)
def test_the_network_is_the_loop(rng, kernel_size, convolution):
    module = models.CNN(
        3,
        channels=(2, 4),
        kernel_size=kernel_size,
        hidden=(6,),
        convolution=convolution,
    )
    images = rng.standard_normal((2, 8, 8, 2), np.float32)
    params = draw_params(module.init, images)
    logits = jax.jit(module.apply)(params, images)
    expected = numpy_cnn(params['params'], images)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_batches_are_normalised_by_their_own_statistics(rng):
    features = rng.standard_normal((6, 3)).astype(np.float32) * 4 + 2
    scale = np.array([1.0, 2.0, 0.5], np.float32)
    bias = np.array([0.0, 1.0, -1.0], np.float32)
    params = {'scale': scale, 'bias': bias}
    outputs = jax.jit(architectures.BatchNorm().apply)({'params': params}, features)
    exact = features.astype(float)
    exact = (exact - exact.mean(axis=0)) / np.sqrt(exact.var(axis=0) + 1e-5)
    expected = exact * scale + bias
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)


def classification(counts, module, shape=(6,)):
    rng = np.random.default_rng(1)
    owners = np.repeat(np.arange(len(counts)), counts)
    features = rng.standard_normal((len(owners), *shape), np.float32)
    labels = rng.integers(0, 3, len(owners)).astype(np.int32)
    return problems.from_flax(features, labels, owners, module=module)


def trainer(problem, **options):
    """``seed -> update``, one program for all seeds."""
    program = local_training.local_sgd(0.1, local_steps=3, **options)
    start = draw_params(problem.init_params)
    run = jax.jit(
        lambda key, problem: program.run(
            start, jnp.int32(1), jnp.int32(0), key, problem
        )
    )
    return lambda seed: run(jax.random.key(seed), problem)


def train(problem, **options):
    return trainer(problem, **options)(2)


def test_batch_statistics_need_batches():
    module = architectures.BatchNormMLP(3, hidden=(5,))
    uneven = classification((4, 7), module)
    message = (
        r'^`features` must hold several examples .*`batch_size` to 2 or more\), got 1\.'
    )
    for options in ({}, {'batch_size': 1}):
        with pytest.raises(ValueError, match=message):
            train(uneven, **options)
    assert np.isfinite(train(uneven, batch_size=4).loss)
    assert np.isfinite(train(classification((5, 5), module)).loss)


def cnn_with_dropout(rate=0.5):
    return models.CNN(3, channels=(2,), hidden=(16,), dropout_rate=rate)


IMAGES = (4, 4, 1)


def test_dropout_is_for_training_alone():
    problem = classification((4, 4), cnn_with_dropout(), IMAGES)
    params = draw_params(problem.init_params)
    full = classification((4, 4), cnn_with_dropout(0.0), IMAGES)
    expected = jax.jit(full.loss_fn)(params, problem.data)
    np.testing.assert_array_equal(
        jax.jit(problem.loss_fn)(params, problem.data), expected
    )
    values = jax.jit(problem.metrics)(params, problem.data)
    np.testing.assert_allclose(values['loss'], expected, rtol=1e-6)
    random_loss = jax.jit(problem.random_loss_fn)
    losses = [
        float(random_loss(params, problem.data, jax.random.key(i))) for i in (0, 0, 1)
    ]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]
    assert abs(losses[0] - float(expected)) > 1e-4


def test_modules_without_the_flag_have_no_random_loss():
    assert classification((4, 4), models.Softmax(3), IMAGES).random_loss_fn is None


@pytest.mark.parametrize(
    'batch_size, counts',
    cases(itertools.product([None, 3], [(4, 4), (4, 6)]), [(3, (4, 6))]),
)
def test_units_are_dropped_by_seed_and_step(counts, batch_size):
    problem = classification(counts, cnn_with_dropout(), IMAGES)
    first, again, other = map(trainer(problem, batch_size=batch_size), (2, 2, 3))
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert float(first.loss) != float(other.loss)
    without = classification(counts, cnn_with_dropout(0.0), IMAGES)
    none = train(without, batch_size=batch_size)
    assert float(first.loss) != float(none.loss)


@pytest.mark.slow
def test_dropout_draws_do_not_move_the_batches():
    """A rate too small to drop anything trains as no dropout does."""
    tiny, none = (
        train(classification((4, 6), cnn_with_dropout(rate), IMAGES), batch_size=3)
        for rate in (1e-7, 0.0)
    )
    for a, b in zip(jax.tree.leaves(tiny), jax.tree.leaves(none), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


MODULES = {
    'softmax': (models.Softmax, {}, (6,)),
    'mlp': (models.MLP, {'hidden': (8, 8)}, (6,)),
    'cnn': (models.CNN, {'channels': (4, 4), 'hidden': (8,)}, (8, 8, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', MODULES)
def test_in_bfloat16_parameters_gradients_and_logits_are_float32(name):
    """Logits lie within the roundings of five layers: inputs, weights and sums, 2^-8 each."""
    make, options, shape = MODULES[name]
    features = jax.random.normal(jax.random.key(1), (16, *shape))
    full = make(10, **options)
    half = make(10, **options, dtype='bfloat16')
    params = jax.jit(half.init)(jax.random.key(0), features)
    for ours, theirs in zip(
        jax.tree.leaves(params),
        jax.tree.leaves(jax.jit(full.init)(jax.random.key(0), features)),
        strict=True,
    ):
        assert ours.dtype == jnp.float32
        np.testing.assert_array_equal(ours, theirs)
    ours = jax.jit(half.apply)(params, features)
    theirs = np.asarray(jax.jit(full.apply)(params, features))
    assert ours.dtype == jnp.float32
    assert 0 < np.abs(ours - theirs).max() <= 5 * 3 * 2**-8 * np.abs(theirs).max()
    slopes = jax.eval_shape(
        jax.grad(lambda params: jnp.sum(half.apply(params, features))), params
    )
    assert {slope.dtype for slope in jax.tree.leaves(slopes)} == {jnp.dtype('float32')}
    text = str(jax.make_jaxpr(half.apply)(params, features))
    assert 'bf16' in text
    assert 'bf16' not in str(jax.make_jaxpr(full.apply)(params, features))


@pytest.mark.parametrize('name', MODULES)
def test_a_dtype_that_is_none_is_refused(name):
    make, options, shape = MODULES[name]
    module = make(10, **options, dtype='bfloat61')
    with pytest.raises(
        ValueError, match="`dtype` has no 'bfloat61'; did you mean 'bfloat16'"
    ):
        jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, *shape)))


def test_softmax_may_begin_at_zero():
    inputs = np.ones((2, 4))
    for zero in (False, True):
        module = models.Softmax(3, zero=zero)
        params = jax.jit(module.init)(jax.random.key(0), inputs)
        weights = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
        assert (weights == 0).all() == zero
        assert jax.eval_shape(module.apply, params, inputs).shape == (2, 3)
