"""`conv_as_matmul` and `max_pool` against the convolution and pooling of XLA and flax."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from fedjax_links.problems import models
from fedjax_links.problems.convolution import conv_as_matmul, max_pool
from tests.tiers import cases

NHWC = ('NHWC', 'HWIO', 'NHWC')
plain_pool = functools.partial(nn.max_pool, window_shape=(2, 2), strides=(2, 2))


def arrays(rng, kernel_size, channels, size, batch=2):
    shape = (*kernel_size, *channels)
    images = rng.standard_normal((batch, *size, channels[0]), np.float32)
    kernel = rng.standard_normal(shape, np.float32) / np.sqrt(np.prod(shape[:3]))
    return jnp.asarray(images), jnp.asarray(kernel, jnp.float32)


def value_and_grads(conv, images, kernel, **options):
    def loss(images, kernel):
        outputs = conv(images, kernel, **options)
        return jnp.mean(jnp.sin(outputs)), outputs

    return jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))(images, kernel)


def assert_close(actual, expected):
    """Results of size one agree to some ten roundings of float32 where sums have other orders."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)


PADDINGS = ['SAME', 'VALID', [(1, 1), (1, 1)], [(2, 0), (0, 3)]]
CROP = [(-1, 0), (2, -1)]
SHAPES = [((1, 4), (7, 6)), ((3, 2), (8, 8)), ((4, 3), (5, 9))]


@pytest.mark.parametrize(
    'padding, kernel_size, channels_and_size',
    cases(
        [
            *((padding, (3, 3), SHAPES[1]) for padding in (*PADDINGS, CROP)),
            *((padding, (5, 5), SHAPES[2]) for padding in PADDINGS),
            *((padding, (2, 3), SHAPES[0]) for padding in PADDINGS),
        ],
        [
            *((padding, (3, 3), SHAPES[1]) for padding in (*PADDINGS, CROP)),
            ('SAME', (5, 5), SHAPES[2]),
            ('SAME', (2, 3), SHAPES[0]),
        ],
    ),
)
def test_values_and_gradients_are_those_of_lax(
    rng, padding, kernel_size, channels_and_size
):
    channels, size = channels_and_size
    images, kernel = arrays(rng, kernel_size, channels, size)
    options = {'window_strides': (1, 1), 'padding': padding, 'dimension_numbers': NHWC}
    assert 'conv_general' not in str(
        jax.make_jaxpr(functools.partial(conv_as_matmul, **options))(images, kernel)
    )
    actual = value_and_grads(conv_as_matmul, images, kernel, **options)
    assert_close(
        actual, value_and_grads(jax.lax.conv_general_dilated, images, kernel, **options)
    )


def test_off_cpu_and_gpu_a_network_uses_xlas_convolutions(monkeypatch):
    module = models.CNN(3, channels=(2, 4), hidden=(6,))
    features = jnp.zeros((2, 8, 8, 1))
    params = jax.eval_shape(module.init, jax.random.key(0), features)
    clone = module.clone(
        convolution=jax.lax.conv_general_dilated, product=jax.lax.dot_general
    )

    def program_text(module):
        gradient = jax.grad(lambda params: jnp.sum(module.apply(params, features)))
        return str(jax.make_jaxpr(gradient)(params))

    assert program_text(module) != program_text(clone)
    own_convolutions = module.clone(product=jax.lax.dot_general)
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    assert program_text(module) == program_text(own_convolutions)
    assert program_text(module) != program_text(clone)
    monkeypatch.setattr(jax, 'default_backend', lambda: 'tpu')
    assert program_text(module) == program_text(clone)


def assert_one_program(images, kernel, options):
    """Asserts that `conv_as_matmul` makes the program of XLA's convolution."""
    actual, expected = (
        str(jax.make_jaxpr(functools.partial(conv, **options))(images, kernel))
        for conv in (conv_as_matmul, jax.lax.conv_general_dilated)
    )
    assert actual == expected


@pytest.mark.parametrize(
    'options',
    [
        {'window_strides': (2, 2)},
        {'window_strides': (1, 2)},
        {'rhs_dilation': (2, 1)},
        {'lhs_dilation': (1, 2)},
        {'feature_group_count': 2},
        {'batch_group_count': 2},
        {'dimension_numbers': ('NCHW', 'OIHW', 'NCHW')},
        {'dimension_numbers': None},
    ],
    ids=lambda options: '-'.join(options),
)
def test_anything_else_goes_to_lax_unchanged(options):
    options = {
        'window_strides': (1, 1),
        'padding': [(1, 1), (2, 2)],
        'dimension_numbers': NHWC,
        **options,
    }
    images = jnp.zeros((2, 8, 8, 4))
    kernel = jnp.zeros((3, 3, 4 // options.get('feature_group_count', 1), 4))
    if options['dimension_numbers'] != NHWC:
        images = images.transpose(0, 3, 1, 2)
        kernel = kernel.transpose(3, 2, 0, 1)
    assert_one_program(images, kernel, options)


def test_one_spatial_axis_goes_to_lax():
    options = {
        'window_strides': (1,),
        'padding': 'SAME',
        'dimension_numbers': ('NHC', 'HIO', 'NHC'),
    }
    assert_one_program(jnp.zeros((2, 9, 3)), jnp.zeros((3, 3, 4)), options)


def test_kernels_larger_than_the_images_are_refused_as_by_lax(rng):
    images, _ = arrays(rng, (3, 3), (3, 2), (8, 8))
    with pytest.raises((TypeError, ValueError), match='feature'):
        conv_as_matmul(
            images, jnp.ones((3, 3, 2, 2)), (1, 1), 'SAME', dimension_numbers=NHWC
        )


def test_precision_and_result_type_are_passed_on(rng):
    images, kernel = arrays(rng, (3, 3), (3, 2), (6, 6))
    low = [np.asarray(a).astype(jnp.bfloat16) for a in (images, kernel)]

    def run(conv, **options):
        options = {'padding': 'SAME', 'dimension_numbers': NHWC, **options}
        return functools.partial(conv, window_strides=(1, 1), **options)

    exact = {'preferred_element_type': jnp.float32}
    outputs = jax.jit(run(conv_as_matmul, precision='highest', **exact))(*low)
    assert outputs.dtype == jnp.float32
    expected = jax.jit(run(jax.lax.conv_general_dilated, **exact))(*low)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    assert jax.eval_shape(run(conv_as_matmul), *low).dtype == jnp.bfloat16


@pytest.mark.parametrize(
    'padding, strides',
    [
        ('SAME', 1),
        ('VALID', 1),
        (2, 1),
        ([(1, 2), (0, 1)], 1),
        ('CIRCULAR', 1),
        ('SAME', 2),  # any stride but 1 goes to lax
    ],
)
def test_a_flax_layer_takes_it(rng, padding, strides):
    images, kernel = arrays(rng, (5, 5), (3, 4), (9, 8))
    plain = nn.Conv(4, (5, 5), strides=strides, padding=padding)
    fast = plain.clone(conv_general_dilated=conv_as_matmul)
    bias = np.arange(4, dtype=np.float32)
    variables = {'params': {'kernel': kernel, 'bias': bias}}
    assert_close(
        jax.jit(fast.apply)(variables, images), jax.jit(plain.apply)(variables, images)
    )


def test_a_flax_layer_starts_with_it_as_without(rng):
    images, _ = arrays(rng, (5, 5), (3, 4), (9, 8))
    plain = nn.Conv(4, (5, 5))
    fast = plain.clone(conv_general_dilated=conv_as_matmul)
    expected = jax.jit(plain.init)(jax.random.key(0), images)
    assert_close(jax.jit(fast.init)(jax.random.key(0), images), expected)


def network(conv, pool):
    def loss(params, images):
        hidden = images
        for name in ('first', 'second'):
            hidden = conv(hidden, params[name], (1, 1), 'SAME', dimension_numbers=NHWC)
            hidden = pool(jax.nn.relu(hidden))
        return jnp.mean(jnp.square(hidden))

    def train(params, images):
        def step(params, batch):
            value, grads = jax.value_and_grad(loss)(params, batch)
            return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), value

        return jax.lax.scan(step, params, images)

    return jax.jit(jax.vmap(train))


def test_training_of_many_clients_in_a_scan(rng):
    """Vmapped over weights and data, a scan over steps inside."""
    clients = 3
    steps = 4
    images = rng.standard_normal((clients, steps, 2, 9, 10, 2), np.float32)
    params = {
        'first': rng.standard_normal((clients, 5, 5, 2, 3), np.float32) / 7,
        'second': rng.standard_normal((clients, 3, 3, 3, 4), np.float32) / 5,
    }
    actual = network(conv_as_matmul, max_pool)(params, images)
    expected = network(jax.lax.conv_general_dilated, plain_pool)(params, images)
    assert_close(actual, expected)
    losses = np.asarray(actual[1])
    assert np.all(losses[:, -1] < losses[:, 0])


@pytest.mark.parametrize('size', [(4, 6), (5, 7), (2, 2), (3, 2)])
def test_pooling_is_that_of_flax(rng, size):
    images, _ = arrays(rng, (1, 1), (3, 1), size)

    def value_and_gradient(pool):
        def loss(images):
            outputs = pool(images)
            return jnp.sum(jnp.sin(outputs)), outputs

        return jax.jit(jax.grad(loss, has_aux=True))(images)

    actual = value_and_gradient(max_pool)
    expected = value_and_gradient(plain_pool)
    np.testing.assert_array_equal(actual[1], expected[1])
    np.testing.assert_array_equal(actual[0], expected[0])


def test_ties_share_the_gradient():
    gradient = jax.jit(jax.grad(lambda images: jnp.sum(max_pool(images))))
    grad = gradient(np.ones((1, 2, 2, 1), np.float32))
    np.testing.assert_array_equal(grad, np.full((1, 2, 2, 1), 0.25))


def test_images_smaller_than_a_window_are_refused():
    text = (
        r'^`images` must be at least 2 x 2, \[height, width, channels\], got 1 x 4\.$'
    )
    with pytest.raises(ValueError, match=text):
        max_pool(jnp.ones((1, 1, 4, 1)))
