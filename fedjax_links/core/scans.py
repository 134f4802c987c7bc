"""Runs scans over rounds, with the same bits for any length."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, PyTree
from fedjax_links.core import tree


def scan(
    step: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    state: PyTree,
    inputs: PyTree,
    length: int,
    round: Array,
) -> tuple[PyTree, PyTree]:
    """Runs `jax.lax.scan` over rounds, with the same bits for any length.

    The compiler unrolls a loop that it knows to run once, and then rounds differently than in a
    longer loop. So the loop's bound is hidden behind the round counter, which is never below zero.
    """
    if length > 1:
        return jax.lax.scan(step, state, inputs, length=length)
    only_input = jax.tree.map(lambda a: a[0], inputs)
    _, output = jax.eval_shape(step, state, only_input)

    def body(_: Array, carry: PyTree) -> PyTree:
        state, _ = carry
        return step(state, only_input)

    start = state, tree.zeros_like(output)
    state, output = jax.lax.fori_loop(0, 1 + jnp.minimum(round, 0), body, start)
    return state, jax.tree.map(lambda a: a[None], output)


def flat(outputs: PyTree) -> PyTree:
    """Joins blocks of rounds: leaves [blocks, length, ...] become leaves [T, ...]."""
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), outputs)
