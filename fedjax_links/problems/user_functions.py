"""Checks what functions of a user return, while a problem is built."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, Params, PyTree
from fedjax_links.core import checks, contracts, errors


def check_results(
    loss_fn: Callable[..., Array],
    metrics: object,
    params: Params,
    batch: PyTree,
    eval_data: PyTree,
) -> None:
    """Raises unless a user's functions take a batch, and return a number and numbers by name.

    Args:
      loss_fn: the loss.
      metrics: the metrics, unless they are names or None.
      params: shapes of the parameters.
      batch: what the loss reads; arrays or shapes.
      eval_data: what the metrics read.
    """
    checks.function('loss_fn', loss_fn, 'params', 'batch')
    if errors.is_users(loss_fn):
        _check_loss('loss_fn', jax.eval_shape(loss_fn, params, batch))
    if callable(metrics) and errors.is_users(metrics):
        checks.function('metrics', metrics, 'params', 'batch')
        measured = jax.eval_shape(metrics, params, eval_data)
        contracts.check_numbers_by_name('metrics', 'return numbers by name', measured)


def check_random_loss(
    random_loss_fn: Callable[..., Array] | None, params: Params, batch: PyTree
) -> None:
    """Raises unless the loss is None, or returns a number for parameters, a batch and a key.

    Args:
      random_loss_fn: the loss.
      params: shapes of the parameters.
      batch: what the loss reads; arrays or shapes.
    """
    if random_loss_fn is None:
        return
    checks.function('random_loss_fn', random_loss_fn, 'params', 'batch', 'key')
    if errors.is_users(random_loss_fn):
        key = jax.random.key(0)
        loss = jax.eval_shape(random_loss_fn, params, batch, key)
        _check_loss('random_loss_fn', loss)


def _check_loss(argument: str, loss: PyTree) -> None:
    """Raises unless a loss, by its shape, is one number that has a gradient."""
    requirement = 'return one number, the mean loss'
    if getattr(loss, 'shape', None) != ():
        raise errors.invalid(argument, requirement, contracts.kind_of(loss))
    if not jnp.issubdtype(loss.dtype, jnp.floating):
        requirement = 'return a real number with a decimal point, the mean loss'
        raise errors.invalid(argument, requirement, loss.dtype)
