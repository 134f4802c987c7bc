"""Inside a mesh: whether a trace is, and what the compiler is not to know there.

A program is traced inside a mesh where it is the body of a `jax.shard_map` over an axis
``'clients'``, as `simulation.simulate` makes it.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax

AXIS = 'clients'
"""The axis over which the work of a round's clients is divided."""


def is_inside() -> bool:
    """Whether what is being traced runs on every device of a mesh."""
    return AXIS in jax.sharding.get_abstract_mesh().manual_axes


def shared(fn: Callable[..., Any], mesh: jax.sharding.Mesh) -> Callable[..., Any]:
    """A function that runs inside a mesh; its arguments and results are whole on each device.

    Args:
      fn: of pytrees.
      mesh: with the axis ``'clients'``.

    Returns:
      The function, of the same arguments.
    """
    spec: Callable[[], jax.sharding.PartitionSpec] = jax.sharding.PartitionSpec
    run: Callable[..., Any] = jax.shard_map(
        fn, mesh=mesh, in_specs=spec(), out_specs=spec(), check_vma=False
    )
    return functools.wraps(fn)(run)


def hidden(value: Any) -> Any:
    """A value that the compiler knows nothing of.

    It treats programs of one device and of several differently: it dissolves a loop that it knows
    to turn once, and may multiply by the inverse of what all entries are divided by.
    """
    barrier: Callable[[Any], Any] = jax.lax.optimization_barrier
    return barrier(value)
