"""The links of an experiment's lanes: drawn a period at a time, and played back to an algorithm."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import prng
from fedjax_links.base import Array, Key, Links, Participation, PyTree


class LinkProgram(NamedTuple):
    """What draws the links of one pattern.

    Attributes:
      start: ``key -> carry`` before the first round, jitted.
      draw: ``(carry, key, first round) -> (carry, links)``, the links of one period, jitted.
      silent: a sample with nobody active, leaves [1, ...].
    """

    start: Callable[[Key], PyTree]
    draw: Callable[[PyTree, Key, Any], tuple[PyTree, Links]]
    silent: Links


def program(pattern: Participation, length: int, *, side_by_side: bool) -> LinkProgram:
    """What draws the links of a pattern.

    Args:
      pattern: the pattern.
      length: rounds in a period.
      side_by_side: whether carries, keys and links have a leading axis of lanes.

    Returns:
      Its program.
    """
    first = functools.partial(_first, pattern)
    draw_links = functools.partial(_draw, pattern, length)
    draw_links.__name__ = 'draw_links'  # type: ignore[attr-defined]
    if side_by_side:
        first, draw_links = jax.vmap(first), jax.vmap(draw_links, in_axes=(0, 0, None))
    return LinkProgram(jax.jit(first), jax.jit(draw_links), _silent(pattern))


def recorded(links: Links, num_clients: int, first: Array | int = 0) -> Participation:
    """Links of a period, of any kind, played back.

    Args:
      links: leaves [E, ...].
      num_clients: N.
      first: the round of row 0.

    Returns:
      A pattern of E rounds.
    """

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, Links]:
        del key
        return carry, jax.tree.map(lambda a: a[round - first], links)

    return Participation(init=lambda key: (), sample=sample, num_clients=num_clients)


def _draw(
    pattern: Participation, length: int, carry: PyTree, key: Key, first: Array
) -> tuple[PyTree, Links]:
    """The links that `simulate` meets in ``length`` rounds from the first."""

    def advance(carry: PyTree, round: Array) -> tuple[PyTree, Links]:
        return pattern.sample(carry, prng.round_key(key, 'participation', round), round)

    return jax.lax.scan(advance, carry, first + jnp.arange(length, dtype=jnp.int32))


def _first(pattern: Participation, key: Key) -> PyTree:
    return pattern.init(prng.pattern_key(key))


def _silent(pattern: Participation) -> Links:
    key = jax.random.key(0)
    carry = jax.eval_shape(pattern.init, key)
    _, links = jax.eval_shape(pattern.sample, carry, key, jnp.int32(0))
    nobody: Links = jax.tree.map(lambda a: np.zeros((1, *a.shape), a.dtype), links)
    return nobody
