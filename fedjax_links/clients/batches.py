"""Draws the examples of each local step, and computes the loss on them."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, Key, Params, Problem, PyTree
from fedjax_links.core import prng

BatchLoss = Callable[[Params, PyTree], Array]
Watch = Callable[[Array, int, PyTree, BatchLoss], tuple[PyTree, BatchLoss]]
"""``(client, local_steps, inputs, batch_loss) -> (inputs, batch_loss)``."""

_LOSS_STREAM = 2**32 - 1  # no local step has this number
_WATCH: contextvars.ContextVar[Watch | None] = contextvars.ContextVar(
    'watch', default=None
)


@contextlib.contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Replaces inputs and losses of local steps in programs that are traced in this context.

    It serves debugging.

    Args:
      watch: called with a client's id, its number of local steps, and the inputs and loss of
        `client_data`. `client_data` then returns what ``watch`` returns.
    """
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def client_data(
    problem: Problem,
    client: Array,
    key: Key,
    local_steps: int,
    batch_size: int | None,
    *,
    resample: str = 'step',
) -> tuple[PyTree, BatchLoss]:
    """Returns the inputs of the scan over local steps, and the loss of one step.

    Args:
      problem: the problem that has the data.
      client: int32[], the client's id.
      key: the client's key of this round.
      local_steps: s, the length of the scan.
      batch_size: rows drawn per step; None takes the client's full data in every step.
      resample: ``'step'`` draws rows, and the random numbers of the loss, for each local step.
        ``'round'`` draws both once: all local steps use the draws of the first step.

    Returns:
      First the inputs, leaves [s, ...]: row indices of the minibatches, and step numbers if the
      loss is random. Second the function ``(params, inputs of a step) -> []``, the mean loss on the
      batch of that step.
    """
    data, offset, count = problem.examples_of(client)
    is_shared = resample == 'round'
    steps: PyTree = None
    if problem.random_loss_fn is not None:
        steps = jnp.zeros(local_steps, int) if is_shared else jnp.arange(local_steps)

    def key_of(step: Array | None) -> Key | None:
        if step is None:
            return None
        loss_key = jax.random.fold_in(key, np.uint32(_LOSS_STREAM))
        return jax.random.fold_in(loss_key, step)

    def loss(params: Params, batch: PyTree, loss_key: Any) -> Array:
        if problem.random_loss_fn is None:
            return problem.loss_fn(params, batch)
        return problem.random_loss_fn(params, batch, loss_key)

    inputs: PyTree
    batch_loss: Callable[..., Array]
    if batch_size is None:
        inputs = steps
        slots = jnp.arange(problem.max_examples)
        examples = _take(data, offset + jnp.minimum(slots, count - 1))

        def full_loss(params: Params, step: Array | None) -> Array:
            step_key = key_of(step)
            if problem.min_examples == problem.max_examples:
                return loss(params, examples, step_key)
            # The mean of a padded batch would count rows twice, so take losses row by row.
            single = jax.tree.map(lambda a: a[:, None], examples)
            keys = None
            if step_key is not None:
                keys = jax.random.split(step_key, problem.max_examples)
            losses = jax.vmap(loss, in_axes=(None, 0, 0))(params, single, keys)
            total = jnp.sum(jnp.where(slots < count, losses, 0))
            return total / count.astype(losses.dtype)

        batch_loss = full_loss
    else:
        keys = prng.step_keys(key, 1 if is_shared else local_steps)
        rows = jax.vmap(lambda k: prng.integers(k, (batch_size,), count))(keys)
        if is_shared:
            rows = jnp.broadcast_to(rows, (local_steps, batch_size))
        inputs = (rows, steps)

        def minibatch_loss(params: Params, inputs: tuple[Array, Array | None]) -> Array:
            rows, step = inputs
            return loss(params, _take(data, offset + rows), key_of(step))

        batch_loss = minibatch_loss
    watch = _WATCH.get()
    if watch is None:
        return inputs, batch_loss
    return watch(client, local_steps, inputs, batch_loss)


def _take(data: PyTree, indices: Array) -> PyTree:
    """Takes rows [B, ...] of data; indices beyond the last row take the last."""
    return jax.tree.map(lambda a: jnp.take(a, indices, axis=0, mode='clip'), data)
