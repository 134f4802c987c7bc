"""The factored mixing step against the dense matrix, and the matrix against its definition."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import analysis, mixing
from tests import refusals

N = 5
MASKS = [np.array(bits) for bits in itertools.product([False, True], repeat=N)]


@pytest.fixture(scope='module')
def matrices():
    """W of every mask of five clients."""
    return np.asarray(jax.jit(jax.vmap(mixing.mixing_matrix))(np.array(MASKS)))


def mix_by_each_mask(rows):
    """What every mask makes of the rows, leaves [masks, N, ...]."""
    return jax.jit(jax.vmap(mixing.mix, in_axes=(0, None)))(np.array(MASKS), rows)


def test_the_matrix_follows_its_definition(matrices):
    for mask, matrix in zip(MASKS, matrices, strict=True):
        expected = np.eye(N)
        members = np.flatnonzero(mask)
        for i, j in itertools.product(members, members):
            expected[i, j] = 1 / len(members)
        np.testing.assert_allclose(matrix, expected, rtol=1e-6)


def test_the_exact_theory_has_the_same_matrix(matrices):
    np.testing.assert_allclose(
        matrices, analysis.mixing_matrix(np.array(MASKS)), rtol=1e-6
    )


def test_each_matrix_is_a_doubly_stochastic_projection(matrices):
    assert (matrices >= 0).all()
    np.testing.assert_array_equal(matrices, np.swapaxes(matrices, 1, 2))
    np.testing.assert_allclose(matrices.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(matrices.sum(axis=2), 1, rtol=1e-6)
    np.testing.assert_allclose(matrices @ matrices, matrices, atol=1e-6)


def test_rounds_with_less_than_two_clients_change_nothing(matrices):
    for mask, matrix in zip(MASKS, matrices, strict=True):
        assert np.array_equal(matrix, np.eye(N)) == (mask.sum() < 2)


def test_mixing_applies_the_matrix_to_the_rows(rng, matrices):
    rows = {'matrix': rng.normal(size=(N, 2, 3)), 'scalar': rng.normal(size=N)}
    rows = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), rows)
    mixed = mix_by_each_mask(rows)
    for name, leaf in rows.items():
        expected = np.einsum('kij,j...->ki...', matrices, leaf)
        np.testing.assert_allclose(mixed[name], expected, rtol=1e-5, atol=1e-6)


def test_mixing_keeps_the_mean_and_the_dtype(rng):
    rows = jnp.asarray(rng.normal(size=(N, 4)), jnp.float32)
    mixed = mix_by_each_mask(rows)
    assert mixed.dtype == rows.dtype
    expected = np.tile(rows.mean(axis=0), (len(MASKS), 1))
    np.testing.assert_allclose(mixed.mean(axis=1), expected, atol=1e-6)
    narrow = jax.eval_shape(mixing.mix, MASKS[-1], rows.astype(jnp.bfloat16))
    assert narrow.dtype == jnp.bfloat16


def test_many_narrow_rows_are_mixed_as_those_of_float32():
    rows = jnp.ones((1000, 2), jnp.bfloat16)
    np.testing.assert_array_equal(mixing.mix(jnp.ones(1000, bool), rows), rows)


@pytest.mark.parametrize(
    'field, word, mask, rows',
    [
        ('mask', 'zeros and ones', [0, 2, 1], np.ones(3)),
        ('client_tree', 'arrays [2, ...]', [True, False], np.ones(3)),
        ('client_tree', 'arrays [2, ...]', [True, False], 1.0),
        ('client_tree', 'floating-point', [True, True], np.array([1, 2])),
    ],
)
def test_a_mask_and_rows_that_do_not_fit_are_refused(field, word, mask, rows):
    with refusals.names(field, word):
        mixing.mix(np.array(mask), {'w': rows})


def test_a_neighbour_that_is_no_client_is_refused():
    edges = np.ones((2, 1), bool)
    with refusals.names('neighbours', '5 at neighbour 0'):
        mixing.metropolis_weights(np.array([[1], [5]]), edges)


def test_absent_clients_are_never_read():
    mask = np.array([True, False, True, False, False])
    rows = np.where(mask[:, None], [[1.0], [0], [3.0], [0], [0]], np.nan).astype(
        np.float32
    )
    mixed = np.asarray(mixing.mix(jnp.asarray(mask), jnp.asarray(rows)))
    np.testing.assert_array_equal(mixed[mask], 2.0)
    assert np.isnan(mixed[~mask]).all()
    assert mixing.active_mean(jnp.zeros(N, bool), jnp.asarray(rows)) == 0


def test_the_expected_matrix_is_the_mean_over_all_masks(matrices):
    probs = np.array([0.2, 0.9, 0.5, 0.7, 0.4])
    weights = np.prod(np.where(MASKS, probs, 1 - probs), axis=1)
    mean = np.einsum('k,kij->ij', weights, matrices)
    np.testing.assert_allclose(mean, analysis.expected_mixing_matrix(probs), atol=1e-6)
