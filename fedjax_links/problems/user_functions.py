"""Checks what functions of a user return, while a problem is built."""

from collections.abc import Callable
from typing import Any

import jax

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
        loss: Any = jax.eval_shape(loss_fn, params, batch)
        if getattr(loss, 'shape', None) != ():
            got = contracts.kind_of(loss)
            raise errors.invalid('loss_fn', 'return one number, the mean loss', got)
    if callable(metrics) and errors.is_users(metrics):
        checks.function('metrics', metrics, 'params', 'batch')
        measured = jax.eval_shape(metrics, params, eval_data)
        contracts.check_numbers_by_name('metrics', 'return numbers by name', measured)


def check_random_loss(random_loss_fn: object) -> None:
    """Raises unless it is None or a function of parameters, a batch and a key."""
    if random_loss_fn is not None:
        checks.function('random_loss_fn', random_loss_fn, 'params', 'batch', 'key')
