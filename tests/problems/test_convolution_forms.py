"""Each form of the convolution, and its backward pass, against XLA's own and against loops."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.problems import convolution
from tests.tiers import cases

NHWC = ('NHWC', 'HWIO', 'NHWC')
FORMS = [convolution.by_rows, convolution.by_patches]
CASES = [
    ((1, 1), ((0, 0), (0, 0))),
    ((3, 3), ((1, 1), (1, 1))),  # odd, same
    ((4, 2), ((1, 2), (0, 1))),  # even, same
    ((2, 5), ((2, 0), (0, 3))),  # unequal
    ((3, 2), ((5, 6), (7, 0))),  # wider than the kernel
    ((2, 3), ((-1, 0), (2, -1))),  # cropping
    ((4, 3), ((-5, 9), (8, -6))),  # cropping more than the kernel's side
]
"""(kernel size, padding)"""

each_form = pytest.mark.parametrize('form', FORMS, ids=['rows', 'patches'])


def arrays(rng, kernel_shape=(3, 2, 3, 4), size=(6, 7), batch=2, dtype=np.float32):
    images = rng.standard_normal((batch, *size, kernel_shape[2])).astype(dtype)
    kernel = rng.standard_normal(kernel_shape) / np.sqrt(np.prod(kernel_shape[:3]))
    return images, kernel.astype(dtype)


def lax_convolution(images, kernel, padding):
    return jax.lax.conv_general_dilated(
        images, kernel, (1, 1), padding, dimension_numbers=NHWC
    )


@functools.partial(jax.jit, static_argnums=(0, 3))
def value_and_gradients(conv, images, kernel, padding):
    """The result, and its gradients weighted by a slope that differs in every entry."""
    outputs, backward = jax.vjp(lambda *both: conv(*both, padding), images, kernel)
    slope = np.cos(np.arange(outputs.size)).reshape(outputs.shape)
    return outputs, *backward(jnp.asarray(slope, outputs.dtype))


def assert_close(actual, expected, tolerance):
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def by_hand(images, kernel, padding):
    """Value, and gradients by the slope of `value_and_gradients`, entry by entry in float64."""
    images = np.asarray(images, float)
    kernel = np.asarray(kernel, float)
    (top, bottom), (left, right) = padding
    height, width = images.shape[1:3]
    rows, columns = kernel.shape[:2]
    shape = (height + top + bottom - rows + 1, width + left + right - columns + 1)
    outputs = np.zeros((len(images), *shape, kernel.shape[3]))
    slope = np.cos(np.arange(outputs.size)).reshape(outputs.shape)
    by_images = np.zeros_like(images)
    by_kernel = np.zeros_like(kernel)
    for i, j, u, v in itertools.product(*map(range, (*shape, rows, columns))):
        r = i + u - top
        s = j + v - left
        if 0 <= r < height and 0 <= s < width:
            outputs[:, i, j] += images[:, r, s] @ kernel[u, v]
            by_images[:, r, s] += slope[:, i, j] @ kernel[u, v].T
            by_kernel[u, v] += images[:, r, s].T @ slope[:, i, j]
    return outputs, by_images, by_kernel


@each_form
@pytest.mark.parametrize('kernel_size, padding', CASES)
def test_values_and_gradients_are_those_of_a_loop(rng, x64, form, kernel_size, padding):
    images, kernel = arrays(rng, (*kernel_size, 3, 4), dtype=np.float64)
    actual = value_and_gradients(form, images, kernel, padding)
    assert_close(actual, by_hand(images, kernel, padding), 1e-12)


@each_form
@pytest.mark.parametrize('axes', [(0, None), (None, 0), (0, 0), (1, 2)])
def test_clients_side_by_side(rng, form, axes):
    """Vmapped over weights, over images, and over both."""
    images, kernel = arrays(rng, batch=3)
    padding = ((1, 1), (0, 1))
    stacks = [
        a if axis is None else np.stack([a, 2 * a, -a], axis=axis)
        for a, axis in zip((images, kernel), axes, strict=True)
    ]
    together = jax.jit(
        jax.vmap(lambda *both: value_and_gradients(form, *both, padding), in_axes=axes)
    )(*stacks)
    for lane in range(3):
        one = [
            a if axis is None else np.take(a, lane, axis=axis)
            for a, axis in zip(stacks, axes, strict=True)
        ]
        expected = value_and_gradients(lax_convolution, *one, padding)
        assert_close([np.asarray(a)[lane] for a in together], expected, 2e-5)


@each_form
def test_weights_trained_in_a_scan(rng, form):
    images, kernel = arrays(rng, (3, 3, 2, 2), batch=4)
    padding = ((1, 1), (1, 1))

    def train(conv):
        def step(kernel, batch):
            value, slope = jax.value_and_grad(
                lambda kernel: jnp.mean(jnp.square(conv(batch[None], kernel, padding)))
            )(kernel)
            return kernel - 0.1 * slope, value

        return jax.jit(functools.partial(jax.lax.scan, step))(kernel, images)

    actual = train(form)
    assert_close(actual, train(lax_convolution), 1e-5)
    assert actual[1][-1] < actual[1][0]


@each_form
def test_second_derivatives(rng, x64, form):
    images, kernel = arrays(rng, (2, 2, 1, 2), size=(3, 3), batch=1, dtype=np.float64)
    padding = ((1, 0), (0, 1))

    def loss(conv, kernel):
        return jnp.sum(jnp.sin(conv(images, kernel, padding)))

    curvature = jax.jit(jax.hessian(functools.partial(loss, form)))(kernel)
    expected = jax.jit(jax.hessian(functools.partial(loss, lax_convolution)))(kernel)
    assert_close(curvature, expected, 1e-12)
    reverse = jax.jit(jax.jacrev(jax.grad(functools.partial(loss, form))))(kernel)
    assert_close(reverse, expected, 1e-12)


@each_form
def test_forward_mode_is_left_to_lax(rng, form):
    images, kernel = arrays(rng)
    padding = ((0, 0), (0, 0))

    def tangent(conv, kernel):
        run = functools.partial(conv, images, padding=padding)
        return jax.jvp(run, (kernel,), (kernel,))[1]

    with pytest.raises(TypeError, match='forward-mode'):
        jax.jit(functools.partial(tangent, form))(kernel)
    expected = jax.jit(functools.partial(form, images, padding=padding))(kernel)
    actual = jax.jit(functools.partial(tangent, lax_convolution))(kernel)
    assert_close(actual, expected, 1e-5)


@pytest.mark.parametrize(
    'kernel_width, channels, form',
    cases(
        [
            (5, 1, convolution.by_patches),
            (3, 3, convolution.by_patches),
            (5, 8, convolution.by_patches),
            (41, 1, convolution.by_rows),
            (3, 14, convolution.by_rows),
            (5, 32, convolution.by_rows),
        ],
        [(5, 8, convolution.by_patches), (3, 14, convolution.by_rows)],
    ),
)
def test_the_form_is_chosen_by_width_times_channels(
    rng, monkeypatch, kernel_width, channels, form
):
    for backend in ('gpu', 'cpu'):
        monkeypatch.setattr(jax, 'default_backend', lambda name=backend: name)
        assert convolution.fastest_form(kernel_width, channels) is form
    images, kernel = arrays(rng, (2, kernel_width, channels, 2), size=(2, 41), batch=1)
    padding = ((0, 0), (0, 0))

    def convolve(**options):
        run = functools.partial(
            convolution.conv_as_matmul,
            window_strides=(1, 1),
            padding='VALID',
            dimension_numbers=NHWC,
            **options,
        )
        return jax.jit(run)(images, kernel)

    chosen = convolve()
    expected = jax.jit(form, static_argnums=2)(images, kernel, padding)
    np.testing.assert_array_equal(chosen, expected)
    monkeypatch.setattr(jax, 'default_backend', lambda: 'tpu')
    assert convolution.fastest_form(kernel_width, channels) is None
    np.testing.assert_array_equal(convolve(form=form), chosen)


def test_no_output_integers_and_mixed_types_go_to_lax(rng):
    images, kernel = arrays(rng, (3, 3, 1, 1), size=(2, 2))
    convolve = functools.partial(convolution.conv_as_matmul, dimension_numbers=NHWC)
    assert convolve(images, kernel, (1, 1), 'VALID').shape == (2, 0, 0, 1)
    counts = jnp.arange(8).reshape(2, 2, 2, 1)
    ones = jnp.ones((2, 2, 1, 1), counts.dtype)
    np.testing.assert_array_equal(
        convolve(counts, ones, (1, 1), 'VALID').ravel(), [6, 22]
    )
    with pytest.raises(TypeError, match='dtype'):
        convolve(images, ones, (1, 1), 'VALID')


def maxima(images):
    """Pools by the maximum of each window."""
    batch, height, width, channels = images.shape
    even = images[:, : height // 2 * 2, : width // 2 * 2]
    windows = even.reshape(batch, height // 2, 2, width // 2, 2, channels)
    return windows.max(axis=(2, 4))


@pytest.mark.parametrize('size', [(4, 6), (5, 7)])
def test_the_gradient_of_pooling_is_that_of_maxima(rng, x64, size):
    """Ties included; vmapped and in a scan."""
    images = rng.integers(-2, 3, (3, 2, *size, 2)).astype(float)

    def gradient(pool, images):
        return jax.grad(lambda x: jnp.sum(jnp.sin(pool(x))))(images)

    expected = jax.jit(jax.vmap(functools.partial(gradient, maxima)))(images)
    for over_clients in (jax.vmap, lambda fn: functools.partial(jax.lax.map, fn)):
        actual = jax.jit(
            over_clients(functools.partial(gradient, convolution.max_pool))
        )(images)
        np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=0)


def test_second_derivatives_of_pooling_are_those_of_maxima(x64):
    window = np.array([[-2.0, 2.0], [1.0, 1.0]]).reshape(1, 2, 2, 1)

    def hessian(pool, images):
        return jax.hessian(lambda x: jnp.sum(jnp.sin(pool(x))))(images)

    second = jax.jit(functools.partial(hessian, convolution.max_pool))(window)
    expected = jax.jit(functools.partial(hessian, maxima))(window)
    np.testing.assert_allclose(second, expected, rtol=1e-14, atol=0)
