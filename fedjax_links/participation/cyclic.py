"""Cyclic links: a block of rounds up, a block down, each client at its own offset."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Array, Key, LinkSample, Participation
from fedjax_links.core import checks, references
from fedjax_links.participation import link_laws, schedules


class CyclicState(NamedTuple):
    """Carry of `cyclic`.

    Attributes:
      offset: int32[N], rounds before the up block of the cycle.
    """

    offset: Array


@references.cite('xiang2024empowering')
def cyclic(
    probs: ArrayLike, *, cycle_length: int = 100, reset: bool = False
) -> Participation:
    """Cyclic links: each client is up for ``active`` rounds, then down for ``inactive``.

    ``active = max(1, rint(L p))`` with halves rounded to even, and ``inactive = max(1, L -
    active)``, for L = ``cycle_length``. Everybody starts down; client i first comes up after an
    offset drawn uniformly from {0, ..., inactive - 1} rounds, so that no run starts inside an up
    block. Even p = 0 is up for one round per cycle.

    Args:
      probs: float[N] in [0, 1].
      cycle_length: L, from 2 to 2^24 rounds. Where active = L the cycle has L + 1 rounds.
      reset: draw the offset afresh every L rounds; every such block then holds exactly one up
        block of ``active`` rounds.

    Returns:
      The pattern; it reports the active share of the cycle as ``prob``: the frequency over a cycle,
      not the probability in a given round, which the start in a down block makes uneven.

    Raises:
      ValueError: for a value out of range.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.cyclic([0.25, 0.75], cycle_length=8)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=16)
      >>> print(links.mask.astype(int).T)
      [[0 0 1 1 0 0 0 0 0 0 1 1 0 0 0 0]
       [0 1 1 1 1 1 1 0 0 1 1 1 1 1 1 0]]

    References:
      Xiang et al. 2024, appendix B (with and without periodic reset), cycle of 100 rounds.
    """
    probs = schedules.as_probs(probs, 'probs')
    checks.static_int('cycle_length', cycle_length, minimum=2, maximum=2**24)
    active, inactive = _lengths(probs, cycle_length, checks.array_module(probs))
    period = active + inactive
    share = active.astype(probs.dtype) / period.astype(probs.dtype)
    if reset:  # the quotient as compilers round it, who know the divisor
        period, share = cycle_length, active * (1 / probs.dtype.type(cycle_length))
    share = share.astype(probs.dtype)

    def draw(key: Key) -> CyclicState:
        return CyclicState(
            offset=jax.random.randint(key, probs.shape, 0, inactive, 'int32')
        )

    def sample(
        carry: CyclicState, key: Key, round: Array
    ) -> tuple[CyclicState, LinkSample]:
        if reset:
            renew = jnp.mod(round, cycle_length) == 0
            carry = CyclicState(offset=jnp.where(renew, draw(key).offset, carry.offset))
        mask = jnp.mod(round - carry.offset, period) < active
        return carry, LinkSample(mask=mask, prob=jnp.asarray(share))

    cycle = cycle_length
    if checks.is_concrete(period):
        cycle = math.lcm(*np.unique(period).tolist())
    return Participation(draw, sample, probs.size, cycle)


def _lengths(probs: Any, cycle_length: int, xp: Any = np) -> tuple[Any, Any]:
    """Rounds int32[N] that clients are up, and down."""
    active = xp.maximum(1, xp.rint(cycle_length * probs)).astype(np.int32)
    return active, xp.maximum(1, cycle_length - active)


def cyclic_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact law of `cyclic`."""
    length, reset = (
        given.options.get('cycle_length', 100),
        given.options.get('reset', False),
    )
    active, inactive = _lengths(given.probs, length)
    period = length + 0 * active if reset else active + inactive
    alike = int(period[0]) if (period == period[0]).all() else None
    drawn = 'redrawn every cycle' if reset else 'drawn once'
    description = f'cycles of {length} rounds, offsets {drawn}'
    return link_laws.LinkLaw(description, rates=active / period, period=alike)
