"""The links of an experiment's lanes, drawn a period at a time."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_links import simulation
from fedjax_links.base import Array, Key, Links, Participation, PyTree
from fedjax_links.core import prng


class LinkProgram(NamedTuple):
    """What draws the links of one pattern.

    Attributes:
      start: ``key -> carry`` before the first round, jitted.
      draw: ``(carry, key, first round) -> (carry, links)``, the links of one period, jitted.
      sample: shapes and dtypes of a round's links.
    """

    start: Callable[[Key], PyTree]
    draw: Callable[[PyTree, Key, Any], tuple[PyTree, Links]]
    sample: Links


def program(pattern: Participation, length: int, *, side_by_side: bool) -> LinkProgram:
    """What draws the links of a pattern.

    Args:
      pattern: the pattern.
      length: rounds in a period.
      side_by_side: whether carries, keys and links have a leading axis of lanes.

    Returns:
      Its program.
    """

    def start(key: Key) -> PyTree:
        return pattern.init(prng.pattern_key(key))

    def draw_links(carry: PyTree, key: Key, first: Array) -> tuple[PyTree, Links]:
        rounds = first + jnp.arange(length, dtype=jnp.int32)
        return simulation.draw(carry, key, pattern, rounds)

    sample = simulation.sample_shapes(pattern)
    if side_by_side:
        start, draw_links = jax.vmap(start), jax.vmap(draw_links, in_axes=(0, 0, None))
    return LinkProgram(jax.jit(start), jax.jit(draw_links), sample)
