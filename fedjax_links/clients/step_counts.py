"""Computes how many local steps a client takes: fixed, by its epochs, or drawn in each round."""

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, Problem
from fedjax_links.core import checks, errors, prng

StepsOf: TypeAlias = Callable[[Problem, Array, Key], tuple[int, Array | None]]
"""``(problem, client, key) -> (most, num_steps)``. ``most``, a Python int, is the largest number of
steps of any client. ``num_steps``, int32[], is this client's number, or None if all clients take
``most``."""

MOST_STEPS = 10**6  # More than anyone means.
_STEPS_STREAM = 2**32 - 2  # no local step has this number, and the loss has another


def steps_of(
    local_steps: int | None,
    local_epochs: int | None,
    batch_size: int | None,
    client_steps: ArrayLike | None,
    min_steps: int | None,
) -> StepsOf:
    """Checks the options of local work, and returns the function that counts a client's steps.

    Args:
      local_steps: the most steps of any client; None with ``local_epochs``.
      local_epochs: epochs of each client; None with ``local_steps``.
      batch_size: examples of a step; None for all of a client's examples.
      client_steps: int[N], steps of each client, from 1 to ``local_steps``; None for
        ``local_steps`` of each client.
      min_steps: the least number of steps; a client's number is then drawn uniformly in each round.
        None draws no number.

    Returns:
      The function, see `StepsOf`.

    Raises:
      ValueError: for options that exclude each other, are out of range or need too much memory.
    """
    if (local_steps is None) == (local_epochs is None):
        value = None if local_steps is None else f'{local_steps} beside {local_epochs}'
        raise errors.invalid('local_steps', 'be given, or else `local_epochs`', value)
    if local_steps is not None:
        checks.static_int('local_steps', local_steps, maximum=MOST_STEPS)
        _check_batches(local_steps, batch_size)
        client_num_steps = None
        if client_steps is not None:
            client_num_steps = _as_steps(client_steps, local_steps)
        _check_min_steps(min_steps, local_steps, client_steps)
        return functools.partial(_fixed_steps, local_steps, client_num_steps, min_steps)
    assert local_epochs is not None
    checks.static_int('local_epochs', local_epochs, maximum=MOST_STEPS)
    if client_steps is not None:
        requirement = 'be left out beside `local_epochs`, from which they follow'
        raise errors.invalid('client_steps', requirement, errors.text_of(client_steps))
    if min_steps is not None:
        requirement = 'be left out beside `local_epochs`, which are completed'
        raise errors.invalid('min_steps', requirement, errors.text_of(min_steps))
    return functools.partial(_steps_of_epochs, int(local_epochs), batch_size)


def _fixed_steps(
    local_steps: int,
    client_num_steps: Array | None,
    min_steps: int | None,
    problem: Problem,
    client: Array,
    key: Key,
) -> tuple[int, Array | None]:
    """Looks up a client's number of steps, or draws its number for the round; see `StepsOf`."""
    client_most: Array | None = None
    if client_num_steps is not None:
        count = problem.num_clients
        if len(client_num_steps) != count:
            requirement = f"have one entry for each of the problem's {count} clients"
            raise errors.invalid('client_steps', requirement, len(client_num_steps))
        client_most = client_num_steps[client]
    if min_steps is None:
        return local_steps, client_most
    steps_key = jax.random.fold_in(key, np.uint32(_STEPS_STREAM))
    most = local_steps if client_most is None else client_most
    num_choices = jnp.asarray(most) - min_steps + 1
    return local_steps, min_steps + prng.integers(steps_key, (), num_choices)


def _steps_of_epochs(
    epochs: int, batch_size: int | None, problem: Problem, client: Array, key: Key
) -> tuple[int, Array | None]:
    """Counts the steps of some epochs, ``ceil(E n_i / B)``; see `StepsOf`."""
    del key
    if batch_size is None:
        return epochs, None
    most_examples = problem.max_examples
    # Neither the steps nor the int32 sum below may overflow.
    most_draws = min(MOST_STEPS * batch_size, checks.LARGEST_INT - batch_size)
    most_epochs = most_draws // most_examples
    if not most_epochs:
        requirement = f'divide {most_examples} examples into 1 to {MOST_STEPS} steps'
        raise errors.invalid('batch_size', requirement, batch_size)
    checks.static_int('local_epochs', epochs, maximum=most_epochs)
    most_steps = math.ceil(epochs * most_examples / batch_size)
    _check_batches(most_steps, batch_size)
    if problem.min_examples == most_examples:
        return most_steps, None
    num_draws = epochs * problem.counts[client]
    return most_steps, (num_draws + (batch_size - 1)) // batch_size


def _check_min_steps(
    min_steps: int | None, local_steps: int, client_steps: ArrayLike | None
) -> None:
    """Raises unless no client has fewer steps than ``min_steps``."""
    if min_steps is None:
        return
    fewest = local_steps
    if client_steps is not None and checks.is_concrete(client_steps):
        fewest = int(np.min(np.asarray(client_steps)))
    checks.static_int('min_steps', min_steps, maximum=fewest)


def _check_batches(num_steps: int, batch_size: int | None) -> None:
    """Raises unless the row numbers of a client's batches fit into memory."""
    if batch_size is not None:
        checks.fits('batch_size', batch_size, 8 * num_steps * batch_size)


def _as_steps(client_steps: ArrayLike, local_steps: int) -> Array:
    """Checks the steps of each client, and returns them as int32[N]."""
    checks.per_client('client_steps', client_steps)
    steps = checks.array_module(client_steps).asarray(client_steps)
    if not jnp.issubdtype(steps.dtype, jnp.integer):
        raise errors.invalid('client_steps', 'hold integers', f'dtype {steps.dtype}')
    checks.within('client_steps', steps, 1, local_steps)
    return jnp.asarray(steps, jnp.int32)
