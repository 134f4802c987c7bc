"""The scan over rounds."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, PyTree
from fedjax_links.core import tree


def scan(
    step: Callable[..., Any], state: Any, inputs: Any, length: int, round: Array
) -> tuple[Any, Any]:
    """`jax.lax.scan` over rounds, with the same bits for any length.

    The compiler dissolves a loop that it knows to turn once into its surroundings, and then rounds
    differently than in a longer loop. So its bound is hidden: no round counter is below zero.
    """
    if length > 1:
        return jax.lax.scan(step, state, inputs, length=length)
    only = jax.tree.map(lambda a: a[0], inputs)
    _, output = jax.eval_shape(step, state, only)

    def turn(_: Array, carry: Any) -> Any:
        return step(carry[0], only)

    start = state, tree.zeros_like(output)
    state, output = jax.lax.fori_loop(0, 1 + jnp.minimum(round, 0), turn, start)
    return state, jax.tree.map(lambda a: a[None], output)


def flat(outputs: PyTree) -> PyTree:
    """Leaves [T, ...] of leaves [blocks, length, ...]."""
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), outputs)
