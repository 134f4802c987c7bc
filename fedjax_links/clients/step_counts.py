"""Says how many local steps a client takes: fixed, by its epochs, or drawn in each round."""

import functools
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, Problem
from fedjax_links.core import checks, errors, prng

StepsOf: TypeAlias = Callable[[Problem, Array, Key], tuple[int, Array | None]]

MOST_STEPS = 10**6
_STEPS_STREAM = 2**32 - 2  # no local step has this number, and the loss has another


def steps_of(
    local_steps: int | None,
    local_epochs: int | None,
    batch_size: int | None,
    client_steps: ArrayLike | None,
    min_steps: int | None,
) -> StepsOf:
    """Checks what says how many steps clients take.

    Returns:
      ``(problem, client, key) -> (most, own)``: the most steps of any client, a Python int, and
      the client's own, int32[]; None where everyone takes the most.
    """
    if (local_steps is None) == (local_epochs is None):
        value = None if local_steps is None else f'{local_steps} beside {local_epochs}'
        raise errors.invalid('local_steps', 'be given, or else `local_epochs`', value)
    if local_steps is not None:
        checks.static_int('local_steps', local_steps, maximum=MOST_STEPS)
        _check_batches(local_steps, batch_size)
        client_num_steps = (
            None if client_steps is None else _as_steps(client_steps, local_steps)
        )
        _check_min_steps(min_steps, local_steps, client_steps)
        return functools.partial(_fixed_steps, local_steps, client_num_steps, min_steps)
    checks.static_int('local_epochs', local_epochs, maximum=MOST_STEPS)
    if client_steps is not None:
        requirement = 'be left out beside `local_epochs`, from which they follow'
        raise errors.invalid('client_steps', requirement, errors.text_of(client_steps))
    if min_steps is not None:
        requirement = 'be left out beside `local_epochs`, which are completed'
        raise errors.invalid('min_steps', requirement, errors.text_of(min_steps))
    return functools.partial(_steps_of_epochs, int(local_epochs or 0), batch_size)


def _fixed_steps(
    local_steps: int,
    client_num_steps: Array | None,
    min_steps: int | None,
    problem: Problem,
    client: Array,
    key: Key,
) -> tuple[int, Array | None]:
    """Looks up a client's steps as `steps_of` does, or draws those of the round."""
    most: Array | None = None
    if client_num_steps is not None:
        count = problem.num_clients
        if len(client_num_steps) != count:
            requirement = f"have one entry for each of the problem's {count} clients"
            raise errors.invalid('client_steps', requirement, len(client_num_steps))
        most = client_num_steps[client]
    if min_steps is None:
        return local_steps, most
    steps_key = jax.random.fold_in(key, np.uint32(_STEPS_STREAM))
    num_choices = jnp.asarray(local_steps if most is None else most) - min_steps + 1
    return local_steps, min_steps + prng.integers(steps_key, (), num_choices)


def _steps_of_epochs(
    epochs: int, batch_size: int | None, problem: Problem, client: Array, key: Key
) -> tuple[int, Array | None]:
    """Counts the steps of some epochs as `steps_of` does: ``ceil(E n_i / B)``."""
    del key
    if batch_size is None:
        return epochs, None
    largest = problem.max_examples
    most = -(-epochs * largest // batch_size)
    most_epochs = (
        min(MOST_STEPS * batch_size, checks.LARGEST_INT - batch_size) // largest
    )
    checks.static_int('local_epochs', epochs, maximum=most_epochs)
    _check_batches(most, batch_size)
    if problem.min_examples == largest:
        return most, None
    return most, (epochs * problem.counts[client] + (batch_size - 1)) // batch_size


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
    checks.per_client('client_steps', client_steps)
    steps = checks.array_module(client_steps).asarray(client_steps)
    if not jnp.issubdtype(steps.dtype, jnp.integer):
        raise errors.invalid('client_steps', 'hold integers', f'dtype {steps.dtype}')
    checks.within('client_steps', steps, 1, local_steps)
    return jnp.asarray(steps, jnp.int32)
