"""Checks that parameters have gradients, and steps optimizers; errors name the user's argument."""

import jax
import jax.numpy as jnp
import optax

from fedjax_links.base import Params, PyTree
from fedjax_links.core import errors

_REQUIREMENT = 'give real parameters of 16 bits or more'


def check_parameters(params: Params) -> None:
    """Raises unless all parameters are real floating-point numbers.

    Integers have no gradient. JAX's gradient of a complex number is the conjugate of the direction
    that SGD descends along. JAX does not add floats of 8 bits to other floats.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        dtype = jnp.result_type(leaf)
        is_float = jnp.issubdtype(dtype, jnp.floating)
        if not is_float or dtype.itemsize < 2:
            name = jax.tree_util.keystr(path, simple=True, separator='.')
            where = f' at {name!r}' if name else ''
            raise errors.invalid('init_params', _REQUIREMENT, f'{dtype}{where}')


def optimizer_update(
    argument: str,
    optimizer: optax.GradientTransformation,
    gradient: PyTree,
    state: PyTree,
    params: Params,
) -> tuple[PyTree, PyTree]:
    """Returns updates and the next state of an optimizer.

    Args:
      argument: the name of the user's argument that holds the optimizer.
      optimizer: the optimizer.
      gradient: like the parameters.
      state: the optimizer's state.
      params: the parameters.

    Raises:
      ValueError: if the optimizer needs more than gradient, state and parameters, such as the loss.
    """
    try:
        return optimizer.update(gradient, state, params)
    except TypeError as error:
        if 'required keyword-only argument' not in str(error):
            raise
        needed = str(error).partition(': ')[2]
        requirement = 'need gradients and parameters alone'
        got = f'one that also needs {needed}'
        raise errors.invalid(argument, requirement, got) from error
