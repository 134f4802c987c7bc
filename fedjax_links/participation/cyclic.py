"""Makes links cyclic: a block of rounds up, a block down, each client with an offset."""

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
    """Holds the carry of `cyclic`.

    Attributes:
      offset: int32[N], rounds before the up block of the cycle.
    """

    offset: Array


@references.cite('xiang2024empowering')
def cyclic(
    probs: ArrayLike, *, cycle_length: int = 100, reset: bool = False
) -> Participation:
    """Makes each client active for a block of rounds, then inactive, in cycles.

    A cycle has ``active = max(1, rint(L p))`` rounds up, with halves rounded to even, and
    ``inactive = max(1, L - active)`` rounds down, for L = ``cycle_length``. Client i first comes
    up after an offset drawn uniformly from {0, ..., inactive - 1} rounds. So a run may start at
    the beginning of an up block, but never inside one. Even with p = 0 a client is up for one
    round per cycle.

    Args:
      probs: float[N] in [0, 1].
      cycle_length: L, from 2 to 2^24 rounds. Where active = L the cycle has L + 1 rounds.
      reset: whether to draw the offset afresh in every cycle. Then every cycle holds exactly one
        up block of ``active`` rounds.

    Returns:
      The pattern; it reports the active share of the cycle as ``prob``. This is the frequency over
      a cycle. The probability in a given round differs, as no run starts inside an up block.

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
    checks.flags(reset=reset)
    active, inactive = block_lengths(probs, cycle_length)
    period: Any = cycle_length
    if reset:
        # A compiler that knows the divisor multiplies by this rounded inverse.
        active_share = active * (1 / probs.dtype.type(cycle_length))
    else:
        period = active + inactive
        active_share = active.astype(probs.dtype) / period.astype(probs.dtype)
    active_share = active_share.astype(probs.dtype)

    def draw(key: Key) -> CyclicState:
        offset = jax.random.randint(key, probs.shape, 0, inactive, 'int32')
        return CyclicState(offset=offset)

    def sample(
        carry: CyclicState, key: Key, round: Array
    ) -> tuple[CyclicState, LinkSample]:
        if reset:
            is_reset = jnp.mod(round, cycle_length) == 0
            offset = jnp.where(is_reset, draw(key).offset, carry.offset)
            carry = CyclicState(offset=offset)
        mask = jnp.mod(round - carry.offset, period) < active
        return carry, LinkSample(mask=mask, prob=jnp.asarray(active_share))

    cycle = cycle_length
    if checks.is_concrete(period):
        cycle = math.lcm(*np.unique(period).tolist())
    return Participation(draw, sample, probs.size, cycle)


def block_lengths(probs: Any, cycle_length: int) -> tuple[Any, Any]:
    """Returns the rounds of a cycle that clients are active and inactive, int32[N] each.

    Args:
      probs: float[N] as `schedules.as_floats` returns them. In another precision halves would
        round differently.
      cycle_length: L.
    """
    xp = checks.array_module(probs)
    active = xp.maximum(1, xp.rint(cycle_length * probs)).astype(np.int32)
    inactive = xp.maximum(1, cycle_length - active)
    return active, inactive


def cyclic_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `cyclic`."""
    length = inputs.options.get('cycle_length', 100)
    reset = inputs.options.get('reset', False)
    probs = schedules.as_floats(inputs.probs)
    active, inactive = block_lengths(probs, length)
    period = np.full_like(active, length) if reset else active + inactive
    is_common = (period == period[0]).all()
    offsets = 'redrawn every cycle' if reset else 'drawn once'
    return link_laws.LinkLaw(
        f'cycles of {length} rounds, offsets {offsets}',
        rates=active / period,
        period=int(period[0]) if is_common else None,
    )
