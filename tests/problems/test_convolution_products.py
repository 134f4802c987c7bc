"""`dense_product`, for fully connected layers, against `jax.lax.dot_general`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from fedjax_links.papers import architectures
from fedjax_links.problems import models
from fedjax_links.problems.convolution import dense_product
from tests.tiers import cases


def plain_axes(features):
    """Dimension numbers of ``features @ weights``."""
    return (((features.ndim - 1,), (0,)), ((), ()))


def arrays(rng, leading, inputs, outputs):
    features = rng.standard_normal((*leading, inputs), np.float32)
    weights = rng.standard_normal((inputs, outputs), np.float32) / np.sqrt(inputs)
    return features, np.float32(weights)


def value_and_grads(product, features, weights, **options):
    """Gradients of the sum of sines by both arguments, and the product."""

    def loss(features, weights):
        outputs = product(features, weights, plain_axes(features), **options)
        return jnp.sum(jnp.sin(outputs)), outputs

    return jax.grad(loss, argnums=(0, 1), has_aux=True)(features, weights)


def assert_close(actual, expected, terms):
    """Sums of ``terms`` products of size one agree to float32 rounding.

    Roundings of 2^-24 each add up like the square root of their number; the bound is eight of that.
    """
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=8 * np.sqrt(terms) * 2.0**-24)


SHAPES = [
    ((4,), 3, 5),
    ((1,), 1, 1),
    ((16,), 300, 40),
    ((2, 3), 7, 4),
    ((2, 3, 4), 5, 6),
]


@pytest.mark.parametrize(
    'leading, inputs, outputs, jit',
    [*((*shape, True) for shape in SHAPES), (*SHAPES[3], False)],
)
def test_values_and_gradients_are_those_of_lax(rng, leading, inputs, outputs, jit):
    features, weights = arrays(rng, leading, inputs, outputs)

    def run(product):
        fn = functools.partial(value_and_grads, product)
        return (jax.jit(fn) if jit else fn)(features, weights)

    actual = run(dense_product)
    expected = run(jax.lax.dot_general)
    np.testing.assert_array_equal(actual[1], expected[1])
    assert_close(actual, expected, inputs + np.prod(leading))


@pytest.mark.parametrize('axes', [(0, 0), (None, 0), (0, None)])
def test_clients_side_by_side(rng, axes):
    """Vmapped over weights, over features, and over both."""
    clients = 4
    features = rng.standard_normal((clients, 6, 20), np.float32)
    weights = rng.standard_normal((clients, 20, 9), np.float32) / 5
    features, weights = (
        a if axis == 0 else a[0]
        for a, axis in zip((features, weights), axes, strict=True)
    )

    def run(product):
        vmapped = jax.vmap(functools.partial(value_and_grads, product), axes)
        return jax.jit(vmapped)(features, weights)

    # Sums of 20 inputs forward, and of 6 rows backward.
    assert_close(run(dense_product), run(jax.lax.dot_general), 20 + 6)


def test_the_gradient_is_that_of_a_float64_product(rng):
    features, weights = arrays(rng, (16,), 300, 40)
    run = jax.jit(functools.partial(value_and_grads, dense_product))
    (by_features, by_weights), outputs = run(features, weights)
    x = np.asarray(features, float)
    w = np.asarray(weights, float)
    slope = np.cos(x @ w)
    assert_close(outputs, np.float32(x @ w), 300)
    # The slope rounds as well.
    assert_close(by_features, np.float32(slope @ w.T), 300 + 40)
    assert_close(by_weights, np.float32(x.T @ slope), 300 + 16)


def test_the_gradient_by_the_weights_is_not_transposed(rng):
    """The custom rule exists for that alone."""
    features, weights = arrays(rng, (4,), 6, 5)

    def transposes(product):
        fn = functools.partial(value_and_grads, product)
        return str(jax.make_jaxpr(fn)(features, weights)).count('transpose[')

    assert transposes(dense_product) == 0
    assert transposes(jax.lax.dot_general) == 1


@pytest.mark.slow
def test_second_derivatives_in_reverse_mode(rng):
    features, weights = arrays(rng, (3,), 4, 2)

    def hessian(product):
        def loss(weights):
            return jnp.sum(jnp.sin(product(features, weights, plain_axes(features))))

        return jax.jit(jax.jacrev(jax.grad(loss)))(weights)

    assert_close(hessian(dense_product), hessian(jax.lax.dot_general), 12)


def test_gradients_keep_the_type_and_the_precision(rng):
    features, weights = (a.astype(jnp.bfloat16) for a in arrays(rng, (4,), 6, 5))

    def run(product, **options):
        fn = functools.partial(value_and_grads, product, **options)
        return jax.jit(fn)(features, weights)

    actual = run(dense_product, precision='highest')
    expected = run(jax.lax.dot_general, precision='highest')
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype == jnp.bfloat16
        # Four roundings to bfloat16, of 2^-8 each, are allowed.
        np.testing.assert_allclose(np.float32(a), np.float32(b), rtol=2**-6, atol=2**-6)
    fn = functools.partial(value_and_grads, dense_product, precision='high')
    jaxpr = str(jax.make_jaxpr(fn)(features, weights))
    assert jaxpr.count('precision=') == 3  # forward, and a gradient by each argument
    assert jaxpr.count('(Precision.HIGH, Precision.HIGH)') == 3


@pytest.mark.parametrize(
    'shapes, axes, options',
    [
        (((3, 4), (5, 4)), (((1,), (1,)), ((), ())), {}),
        (((4, 3), (4, 5)), (((0,), (0,)), ((), ())), {}),
        (((4,), (4, 5)), (((0,), (0,)), ((), ())), {}),
        (((3, 4), (4,)), (((1,), (0,)), ((), ())), {}),
        (((3, 4, 2), (4, 2, 5)), (((1, 2), (0, 1)), ((), ())), {}),
        (((3, 2, 4), (3, 4, 5)), (((2,), (1,)), ((0,), (0,))), {}),
        (
            ((3, 4), (4, 5)),
            (((1,), (0,)), ((), ())),
            {'preferred_element_type': jnp.float32},
        ),
    ],
)
def test_anything_else_goes_to_lax_unchanged(rng, shapes, axes, options):
    lhs, rhs = (rng.standard_normal(shape, np.float32) for shape in shapes)
    actual = str(
        jax.make_jaxpr(lambda a, b: dense_product(a, b, axes, **options))(lhs, rhs)
    )
    expected = str(
        jax.make_jaxpr(lambda a, b: jax.lax.dot_general(a, b, axes, **options))(
            lhs, rhs
        )
    )
    assert actual == expected


def test_a_flax_layer_takes_it(rng):
    features, _ = arrays(rng, (2, 3), 7, 1)
    plain = nn.Dense(4)
    fast = plain.clone(dot_general=dense_product)
    variables = jax.jit(plain.init)(jax.random.key(0), features)
    assert_close(jax.jit(fast.init)(jax.random.key(0), features), variables, 1)
    outputs = jax.jit(fast.apply)(variables, features)
    assert_close(outputs, jax.jit(plain.apply)(variables, features), 7)


MODULES = {
    'mlp': (models.MLP(3, hidden=(6, 5)), (7,)),
    'cnn': (models.CNN(3, channels=(2, 4), hidden=(6, 5)), (8, 8, 2)),
    'batch_norm_mlp': (architectures.BatchNormMLP(3, hidden=(6, 5)), (7,)),
}


@pytest.mark.parametrize('name', cases(MODULES, ['mlp']))
def test_networks_start_and_train_as_with_dot_general(rng, name):
    """Each client with its own weights: vmapped, a scan over steps inside."""
    module, shape = MODULES[name]
    clients = 3
    steps = 4
    inputs = rng.standard_normal((clients, steps, 5, *shape), np.float32)
    keys = jax.random.split(jax.random.key(1), clients)

    def train(module):
        def loss(params, batch):
            return jnp.mean(jnp.square(module.apply({'params': params}, batch) - 1))

        def step(params, batch):
            value, grads = jax.value_and_grad(loss)(params, batch)
            return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), value

        init = jax.vmap(lambda key: module.init(key, inputs[0, 0])['params'])
        start = jax.jit(init)(keys)
        run = jax.vmap(functools.partial(jax.lax.scan, step))
        return start, jax.jit(run)(start, inputs)

    start, end = train(module.clone(product=dense_product))
    expected_start, expected_end = train(module.clone(product=jax.lax.dot_general))
    assert module.product is dense_product
    jax.tree.map(np.testing.assert_array_equal, start, expected_start)
    # Products that one sum of a step has, about: 8 x 8 pixels by 4 channels.
    assert_close(end, expected_end, 8 * 8 * 4 * steps)
    losses = np.asarray(end[1])
    assert np.all(losses[:, -1] != losses[:, 0])
