"""Several processes that run the same program in step: the first leads, and tells what it knows.

Every process makes the same calls in the same order, or all of them wait for ever.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from fedjax_links import checks, errors


def join(
    coordinator: str | None, num_processes: int | None, process_id: int | None
) -> Callable[[], None] | None:
    """What joins this process to others, which takes place before JAX is first used.

    Args:
      coordinator: where process 0 is heard, ``HOST:PORT``; None for a process alone.
      num_processes: K, all of them.
      process_id: which of them this is, from 0; process 0 leads.

    Returns:
      A function that waits for all of them; None for a process alone.

    Raises:
      ValueError: if one is given without the others, or is out of range.
    """
    given = {
        'coordinator': coordinator,
        'num_processes': num_processes,
        'process_id': process_id,
    }
    if all(value is None for value in given.values()):
        return None
    for name, value in given.items():
        if value is None:
            requirement = 'be given with ' + ' and '.join(n for n in given if n != name)
            raise errors.invalid(name, requirement, value)
    assert coordinator is not None
    assert num_processes is not None
    host, _, port = coordinator.rpartition(':')
    if not host or not port.isdecimal():
        raise errors.invalid('coordinator', 'read HOST:PORT', coordinator)
    checks.static_int('num_processes', num_processes)
    checks.static_int('process_id', process_id, minimum=0, maximum=num_processes - 1)
    update: Callable[[str, str], None] = jax.config.update
    update('jax_cpu_collectives_implementation', 'gloo')
    begin: Callable[..., None] = jax.distributed.initialize
    return functools.partial(begin, coordinator, num_processes, process_id)


def are_several() -> bool:
    """Whether this process has joined others."""
    return jax.process_count() > 1


def is_leader() -> bool:
    """Whether this process is the one that keeps what is kept; alone, it is."""
    return jax.process_index() == 0


def told(answer: Callable[[], bytes]) -> bytes:
    """What the leader answers.

    Args:
      answer: is asked of the leader alone.

    Returns:
      Its answer, in every process.

    Raises:
      ValueError: in every process, if the leader cannot answer.
    """
    content, error = b'', None
    if is_leader():
        try:
            content = b'+' + answer()
        except Exception as raised:  # the others must not wait for an answer
            content, error = b'-' + str(raised).encode(), raised
    size = int(_from_leader(np.array([len(content)], np.int64).view(np.int32)).view(np.int64)[0])
    room = np.zeros(1 << size.bit_length(), np.uint8)  # few shapes, so few programs
    room[: len(content)] = np.frombuffer(content, np.uint8)
    content = _from_leader(room)[:size].tobytes()
    if error is not None:
        raise error
    if content[:1] == b'-':
        raise ValueError(content[1:].decode())
    return content[1:]


def any_of(flag: bool) -> bool:
    """Whether the flag is set in any process."""
    gather: Callable[[np.ndarray], Any] = multihost_utils.process_allgather
    return bool(np.any(gather(np.array(flag))))


def whole(array: jax.Array) -> np.ndarray:
    """An array that lies on devices of several processes, in every one of them."""
    if array.is_fully_addressable:
        return np.asarray(array)
    gather: Callable[..., Any] = multihost_utils.process_allgather
    return np.asarray(gather(array, tiled=True))


def _from_leader(value: np.ndarray) -> np.ndarray:
    broadcast: Callable[[np.ndarray], Any] = multihost_utils.broadcast_one_to_all
    return np.asarray(broadcast(value))
