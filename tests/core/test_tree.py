"""Pytree arithmetic against NumPy, leaf by leaf."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.core import tree


def sample(seed, *, clients=None, dtype=np.float32):
    """A pytree of three leaves, one a scalar; with a leading axis of clients, if any."""
    rng = np.random.default_rng(seed)
    lead = () if clients is None else (clients,)
    shapes = {'scalar': (), 'vector': (3,), 'matrix': (2, 4)}
    return {
        name: rng.normal(size=lead + shape).astype(dtype)
        for name, shape in shapes.items()
    }


def assert_leaves(actual, expected, **kwargs):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, **{'rtol': 1e-6, **kwargs})


def test_arithmetic():
    x = sample(0)
    y = sample(1)

    @jax.jit
    def results(x, y):
        return (
            tree.add_scaled(x, 0.5, y),
            tree.subtract(x, y),
            tree.scale(-2.0, x),
            tree.global_norm(x),
        )

    added, difference, scaled, norm = results(x, y)
    assert_leaves(added, {k: x[k] + 0.5 * y[k] for k in x})
    assert_leaves(difference, {k: x[k] - y[k] for k in x})
    assert_leaves(scaled, {k: -2.0 * x[k] for k in x})
    flat = np.concatenate([a.ravel() for a in x.values()])
    np.testing.assert_allclose(norm, np.linalg.norm(flat), rtol=1e-6)
    assert tree.size(x) == flat.size == 12
    assert tree.num_bytes(x) == flat.nbytes
    shapes = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, x))
    assert tree.num_bytes(shapes) == flat.nbytes


@pytest.mark.parametrize('dtype', [jnp.bfloat16, jnp.float16, jnp.float32])
def test_results_keep_the_dtype_of_the_first_tree(dtype):
    x = sample(0, dtype=dtype)
    y = sample(1)
    rows = sample(2, clients=5, dtype=dtype)

    def results(x, y, rows, count):
        return [
            tree.add_scaled(x, jnp.float32(0.1), y),
            tree.subtract(x, y),
            tree.scale(jnp.float32(0.1), x),
            tree.zeros_like(x),
            tree.select(jnp.array(False), x, y),
            tree.divide(x, count),
            tree.client_mean(rows),
            tree.broadcast(x, 2),
        ]

    for result in jax.eval_shape(results, x, y, rows, np.int32(3)):
        assert {leaf.dtype for leaf in jax.tree.leaves(result)} == {jnp.dtype(dtype)}


def test_division_by_a_count_of_zero_is_zero():
    x = sample(0)
    divide = jax.jit(tree.divide)
    assert_leaves(divide(x, np.int32(4)), {k: x[k] / 4 for k in x})
    assert_leaves(divide(x, np.int32(0)), {k: 0 * x[k] for k in x})
    slope = jax.jit(jax.grad(lambda x: tree.divide({'a': x}, jnp.int32(0))['a']))
    assert slope(1.0) == 0


def test_rows_are_selected_and_never_multiplied():
    mask = np.array([True, False, True, False])
    x = sample(0, clients=4)
    y = sample(1, clients=4)
    for leaf in x.values():
        leaf[~mask] = np.nan
    for leaf in y.values():
        leaf[mask] = np.inf
    expected = {k: y[k].copy() for k in y}
    for k in x:
        expected[k][mask] = x[k][mask]
    assert all(np.isfinite(leaf).all() for leaf in expected.values())
    assert_leaves(jax.jit(tree.select_rows)(mask, x, y), expected, rtol=0)
    spoiled = jax.tree.map(lambda a: np.full_like(a, np.nan), x)
    select = jax.jit(tree.select)
    assert_leaves(select(False, spoiled, y), y, rtol=0)
    assert_leaves(select(True, x, spoiled), x, rtol=0)


def test_filling_rows_leaves_the_others_alone():
    mask = np.array([False, True, True])
    table = sample(0, clients=3)
    value = sample(1)
    filled = jax.jit(tree.fill_rows)(mask, value, table)
    for name, leaf in filled.items():
        rows = [value[name] if mask[i] else table[name][i] for i in range(3)]
        np.testing.assert_array_equal(leaf, rows)


def test_broadcast_and_client_mean_undo_each_other():
    x = sample(0)
    copies = jax.jit(tree.broadcast, static_argnums=1)(x, 4)
    assert {leaf.shape[0] for leaf in jax.tree.leaves(copies)} == {4}
    client_mean = jax.jit(tree.client_mean)
    assert_leaves(client_mean(copies), x)
    rows = sample(1, clients=6)
    expected = {k: rows[k].mean(axis=0) for k in rows}
    assert_leaves(client_mean(rows), expected, atol=1e-6)


def test_means_of_many_narrow_rows_are_those_of_float32():
    rows = {
        'ones': np.ones(1000, jnp.bfloat16),
        'large': np.full(1000, 100, np.float16),
    }
    means = jax.jit(tree.client_mean)(rows)
    assert_leaves(means, {'ones': 1.0, 'large': 100.0}, rtol=0)


def test_a_vector_is_shaped_like_the_rows_it_weights():
    weights = jnp.arange(3.0)
    assert tree.expand_dims_like(weights, jnp.zeros(3)).shape == (3,)
    assert tree.expand_dims_like(weights, jnp.zeros((3, 5, 2))).shape == (3, 1, 1)


all_finite = jax.jit(tree.all_finite)


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('name', ['scalar', 'vector', 'matrix'])
def test_a_single_bad_entry_is_noticed(name, bad):
    x = sample(0)
    assert all_finite(x)
    x[name] = np.array(x[name])
    x[name].flat[-1] = bad
    assert not all_finite(x)


def test_an_empty_tree_is_finite():
    assert tree.all_finite(())


def test_rounding_to_a_coarser_dtype_survives_compilation():
    x = {'a': jnp.linspace(0.1, 7.3, 50), 'n': jnp.arange(3)}
    coarse = {'a': jnp.zeros(50, jnp.bfloat16), 'n': jnp.zeros(3, jnp.int8)}
    rounded = jax.jit(lambda x: tree.round_to(x, coarse))(x)
    assert rounded['a'].dtype == jnp.float32
    np.testing.assert_array_equal(
        rounded['a'], x['a'].astype(jnp.bfloat16).astype(jnp.float32)
    )
    assert np.abs(rounded['a'] - x['a']).max() > 1e-3
    np.testing.assert_array_equal(rounded['n'], x['n'])
    np.testing.assert_array_equal(tree.round_to(x, x)['a'], x['a'])


@pytest.mark.parametrize('coarse', ['float16', 'bfloat16'])
@pytest.mark.parametrize('dtype', ['float32', 'float16', 'bfloat16'])
def test_rounding_equals_a_cast_there_and_back(dtype, coarse):
    # From float16's smallest subnormal number to beyond its largest one.
    digits = np.linspace(1.0, 2.0, 1025)
    numbers = np.ldexp(digits, np.arange(-30, 20)[:, None]).ravel()
    x = np.concatenate([numbers, -numbers, [0.0, np.nan, np.inf, -np.inf]])
    with np.errstate(over='ignore'):
        x = x.astype(jnp.dtype(dtype))
        expected = x.astype(jnp.dtype(coarse)).astype(x.dtype)
    like = jnp.zeros(x.shape, coarse)
    rounded = np.asarray(jax.jit(tree.round_to)(x, like))
    assert rounded.dtype == x.dtype
    np.testing.assert_array_equal(rounded.astype(float), expected.astype(float))
