"""Inside a mesh: whether a trace is, and what the compiler is not to know there.

A program is traced inside a mesh where it is the body of a `jax.shard_map` over an axis
``'clients'``, as `simulation.simulate` makes it.
"""

from collections.abc import Callable
from typing import Any

import jax

AXIS = 'clients'
"""The axis over which the work of a round's clients is divided."""


def is_inside() -> bool:
    """Whether what is being traced runs on every device of a mesh."""
    return AXIS in jax.sharding.get_abstract_mesh().manual_axes


def hidden(value: Any) -> Any:
    """A value that the compiler knows nothing of.

    It treats programs of one device and of several differently: it dissolves a loop that it knows
    to turn once, and may multiply by the inverse of what all entries are divided by.
    """
    barrier: Callable[[Any], Any] = jax.lax.optimization_barrier
    return barrier(value)
