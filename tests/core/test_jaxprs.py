"""Traced functions: an equal structure computes the same function of other constants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links.core import jaxprs

X = jax.ShapeDtypeStruct((3,), jnp.float32)


def scaled(factor, shift=1.0):
    """Closes over an array within a jitted function within a branch."""

    def function(x):
        product = jax.jit(lambda: factor * x)
        y = jax.lax.cond(x[0] > 0, product, lambda: x)
        return {'y': y + shift}

    return function


def test_functions_that_differ_in_arrays_share_a_structure():
    one = jaxprs.trace(scaled(np.float32([1, 2, 3])), X)
    other = jaxprs.trace(scaled(jnp.float32([4, 5, 6])), X)
    assert one.structure == other.structure
    assert hash(one.structure) == hash(other.structure)
    x = jnp.float32([1, 1, 2])
    result = jax.jit(lambda constants, x: one.bind(constants)(x))(other.constants, x)
    np.testing.assert_array_equal(result['y'], np.float32([5, 6, 13]))
    assert result['y'].shape == one.shapes['y'].shape


@pytest.mark.parametrize(
    'changed',
    [
        scaled(np.float32([1, 2, 3]), shift=-1.0),
        scaled(np.float32([1, 2, 3]), shift=np.float32([1])),
        scaled(np.float32([1])),
        scaled(np.int32([1, 2, 3])),
        lambda x: {'y': x + 1.0},
        lambda x: {'z': scaled(np.float32([1, 2, 3]))(x)['y']},
        lambda x: {'y': jnp.flip(scaled(np.float32([1, 2, 3]))(x)['y'])},
    ],
)
def test_functions_that_differ_otherwise_share_no_structure(changed):
    plain = jaxprs.trace(scaled(np.float32([1, 2, 3])), X)
    assert jaxprs.trace(changed, X).structure != plain.structure


def test_zeros_of_different_sign_are_different_numbers():
    one = jaxprs.trace(lambda x: jnp.copysign(x, 0.0), X)
    other = jaxprs.trace(lambda x: jnp.copysign(x, -0.0), X)
    assert one.structure != other.structure


def test_inputs_of_other_shapes_make_another_structure():
    one = jaxprs.trace(jnp.sin, jax.ShapeDtypeStruct((1,), jnp.float32))
    other = jaxprs.trace(jnp.sin, jax.ShapeDtypeStruct((2,), jnp.float32))
    assert one.structure != other.structure
