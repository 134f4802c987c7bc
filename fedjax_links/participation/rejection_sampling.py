"""Draws a cohort among many clients without looking at all of them.

Clients are drawn one after the other, with replacement. A drawn client is rejected if it is not
eligible or is in the cohort already. Drawing ends when the cohort is full. This is exactly
successive sampling among the eligible clients: the next member is any other eligible client, in
proportion to its weight. A cohort of B clients costs O(B) if few draws are rejected.

Patterns draw in this way on two conditions (`is_worthwhile`). There are at least `FEWEST_CLIENTS`
clients. And at any time at most `LARGEST_SHARE` of the weight belongs to clients that would be
rejected. Otherwise patterns look at all clients (`subset_sampling`). They also do so for traced
values, since the conditions set shapes. Both ways have the same law, but their draws differ.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fedjax_links.base import Array, Key
from fedjax_links.core import prng

FEWEST_CLIENTS = 4096
LARGEST_SHARE = 0.5
"""At most every second draw is rejected on average."""
MOST_COLLISIONS = 3.0
"""Mean number of pairs of draws that hit one client: one set of draws in ``e^3`` has no pair."""
# Draws of a pass beyond twice the cohort size, so that small cohorts rarely take two passes.
_SPARE = 6

Proposal = Callable[[Key, int], Array]
"""``(key, K) -> int32[K]``, independent draws of clients, with replacement."""


def is_worthwhile(num_clients: int, share: float) -> bool:
    """Returns whether drawing by rejection costs less than looking at all clients.

    Args:
      num_clients: N.
      share: the largest share of the weight that can be ineligible or in the cohort, in
        [0, 1].
    """
    return num_clients >= FEWEST_CLIENTS and share <= LARGEST_SHARE


def rarely_collide(
    size: int, weights: NDArray[np.float64], eligible_weight: float
) -> bool:
    """Returns whether B draws by weight seldom hit the same client.

    On average, at most `MOST_COLLISIONS` pairs of draws may hit one client.

    Args:
      size: B.
      weights: float64[N].
      eligible_weight: the smallest total weight that eligible clients ever have.
    """
    # At most C(B, 2) sum_i (w_i / eligible weight)^2 pairs on average.
    num_pairs = size * (size - 1) / 2
    num_collisions = num_pairs * float(weights @ weights)
    return num_collisions <= MOST_COLLISIONS * eligible_weight**2


def draw_distinct(
    key: Key,
    propose: Proposal,
    size: int,
    num_clients: int,
    eligible: Callable[[Array], Array] | None = None,
) -> Array:
    """Returns the first ``size`` different eligible clients among independent draws.

    Args:
      key: the draw's key.
      propose: draws clients.
      size: B.
      num_clients: N.
      eligible: ``int32[K] -> bool[K]``, by default all clients. At least ``size`` eligible clients
        must have a positive weight, or drawing never ends.

    Returns:
      int32[B], in increasing order.
    """
    width = 2 * size + _SPARE

    def draw_more(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        members, _, pass_index = carry
        proposed = propose(jax.random.fold_in(key, pass_index), width)
        if eligible is not None:
            # N stands for an empty slot.
            proposed = jnp.where(eligible(proposed), proposed, num_clients)
        candidates = jnp.concatenate([members, proposed])
        # A client that is drawn more than once counts at its first draw.
        positions = jnp.arange(size + width, dtype=jnp.int32)
        client, position = jax.lax.sort((candidates, positions), num_keys=2)
        before = jnp.concatenate([jnp.full(1, -1, jnp.int32), client[:-1]])
        is_first = (client != before) & (client < num_clients)
        accepted = jnp.zeros(size + width, bool)
        accepted = accepted.at[position].set(is_first, unique_indices=True)
        members, num_members = _first(candidates, accepted, size, num_clients)
        return members, num_members, pass_index + 1

    empty = jnp.full(size, num_clients, jnp.int32)
    start = (empty, jnp.int32(0), jnp.int32(0))
    members, _, _ = jax.lax.while_loop(lambda carry: carry[1] < size, draw_more, start)
    return jnp.sort(members)


def redraw_until_distinct(
    key: Key,
    propose: Proposal,
    size: int,
    num_clients: int,
    eligible: Callable[[Array], Array],
) -> Array:
    """Draws B eligible clients independently, again and again until all of them differ.

    So ``P(S)`` is proportional to the product of its clients' weights. This is exactly
    conditional Poisson sampling (`subset_sampling.product_subset`).

    Args:
      key: the draw's key.
      propose: draws clients.
      size: B.
      num_clients: N.
      eligible: ``int32[K] -> bool[K]``, as in `draw_distinct`.

    Returns:
      int32[B], in increasing order.
    """
    width = 2 * size + _SPARE

    def draw_again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        _, _, pass_index = carry
        proposed = propose(jax.random.fold_in(key, pass_index), width)
        # Whether a draw is rejected does not depend on which eligible client an accepted one hits.
        # So a pass with too few accepted draws can be dropped without a bias.
        members, num_left = _first(proposed, eligible(proposed), size, num_clients)
        members = jnp.sort(members)
        all_differ = (num_left >= size) & (members[1:] != members[:-1]).all()
        return members, all_differ, pass_index + 1

    empty = jnp.full(size, num_clients, jnp.int32)
    start = (empty, jnp.array(False), jnp.int32(0))
    members, _, _ = jax.lax.while_loop(lambda carry: ~carry[1], draw_again, start)
    return members


def _first(
    candidates: Array, accepted: Array, size: int, num_clients: int
) -> tuple[Array, Array]:
    """Returns the first B accepted candidates.

    Args:
      candidates: int32[K].
      accepted: bool[K].
      size: B.
      num_clients: N, for slots that stay empty.

    Returns:
      int32[B], and how many candidates are accepted.
    """
    rank = jnp.cumsum(accepted, dtype=jnp.int32)
    slots = jnp.where(accepted, rank - 1, size)
    empty = jnp.full(size, num_clients, jnp.int32)
    return empty.at[slots].set(candidates, mode='drop'), rank[-1]


def uniform_proposal(num_clients: Array | int) -> Proposal:
    """Proposes all clients with equal probability."""
    return lambda key, count: prng.integers(key, (count,), num_clients)


def weighted_proposal(weights: NDArray[np.float64]) -> Proposal:
    """Proposes clients in proportion to their weights; a draw's cost does not grow with N.

    Args:
      weights: float64[N], non-negative, of sum above zero.

    Returns:
      The proposal; it holds eight bytes per client, unless the weights are equal.
    """
    num_clients = len(weights)
    if weights.min() == weights.max():
        return uniform_proposal(num_clients)
    thresholds, aliases = alias_table(weights)

    def propose(key: Key, count: int) -> Array:
        threshold = jnp.asarray(thresholds)
        alias = jnp.asarray(aliases)
        column_key, bits_key = jax.random.split(key)
        column = prng.integers(column_key, (count,), num_clients)
        stays = jax.random.bits(bits_key, (count,), 'uint32') < threshold[column]
        return jnp.where(stays, column, alias[column])

    return propose


def alias_table(
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """Builds Walker's alias table, in integers.

    The table has one column for each client. A draw picks a column uniformly, then one of the
    two clients that share it. So clients are drawn in proportion to the weights, rounded to
    2^-32 of the mean weight.

    A light client leaves a gap in its column, a heavy client has a surplus over its column.
    Laid end to end in the order of the clients, all gaps are as long as all surpluses. A gap is
    filled by the heavy client whose surplus covers the beginning of the gap. If the gap ends
    after the surplus, the heavy client gives the excess from its own column. The next heavy
    client then fills the column of this one.

    Args:
      weights: float64[N], non-negative, of sum above zero. A positive weight counts at least 2^-32
        of the mean.

    Returns:
      Two vectors. Thresholds uint32[N]: the part of column i that belongs to client i, in units
      of 2^-32. Aliases int32[N]: the client to which the rest of column i belongs.

    References:
      Walker, An efficient method for generating discrete random variables with general
      distributions, 1977.
    """
    unit = 1 << 32
    num_clients = len(weights)
    shares = weights / weights.mean() * unit
    amounts = np.where(weights > 0, np.maximum(np.rint(shares), 1), 0).astype(np.int64)
    # Rounding leaves the total a little off. Clients of at least the mean weight share the rest.
    missing = num_clients * unit - int(amounts.sum())
    heavy = np.flatnonzero(amounts >= unit)
    quotient, rest = divmod(missing, len(heavy))
    amounts[heavy] += quotient
    amounts[heavy[:rest]] += 1

    light = np.flatnonzero(amounts < unit)
    heavy = np.flatnonzero(amounts >= unit)
    gap_ends = np.cumsum(unit - amounts[light])
    gap_starts = gap_ends - (unit - amounts[light])
    surplus_ends = np.cumsum(amounts[heavy] - unit)
    threshold = amounts.copy()
    alias = np.arange(num_clients)
    if len(light):
        alias[light] = heavy[np.searchsorted(surplus_ends, gap_starts, 'right')]
        # The last gap that a surplus fills ends after the surplus itself.
        filled_to = gap_ends[np.searchsorted(gap_ends, surplus_ends)]
        excess = np.where(surplus_ends > 0, filled_to - surplus_ends, 0)
        threshold[heavy] = unit - excess
        alias[heavy[:-1]] = heavy[1:]
    # A full column belongs to its client, whatever the random bits are.
    is_full = threshold >= unit
    alias[is_full] = np.flatnonzero(is_full)
    threshold[is_full] = unit - 1
    return threshold.astype(np.uint32), alias.astype(np.int32)
