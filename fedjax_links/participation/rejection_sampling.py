"""Drawing a cohort among many clients without looking at all of them.

Clients are drawn one after the other, with replacement, and those that are not eligible or are in
the cohort already are passed over until it is full. That is successive sampling among the eligible,
exactly: given those taken, the next one taken is any other eligible client in proportion to its
weight. A draw costs O(B) as long as few draws are passed over.

So patterns draw their cohorts under one rule: there are at least `FEWEST_CLIENTS` clients, and the
share of the weight that can be out of reach at any time is at most `LARGEST_SHARE`. Otherwise they
look at all clients (`subset_sampling`). The law is the same, the draws are not. The rule reads
values that set shapes: what is traced is drawn by looking at all.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, CohortLinkSample, Key, Kinds
from fedjax_links.core import prng

FEWEST_CLIENTS = 4096
LARGEST_SHARE = 0.5
MOST_MEETINGS = 3.0
_SPARE = (
    6  # draws of a turn beyond twice the cohort, so that small cohorts seldom take two
)

Proposal = Callable[[Key, int], Array]
"""``(key, K) -> int32[K]``, independent draws of clients, with replacement."""


def pays(num_clients: int, share: float) -> bool:
    """The rule above.

    Args:
      num_clients: N.
      share: the largest share of the weight that can be ineligible or taken, in [0, 1].
    """
    return num_clients >= FEWEST_CLIENTS and share <= LARGEST_SHARE


def seldom_meet(size: int, weights: NDArray[np.float64], left: float) -> bool:
    """Whether `all_at_once` pays: of about e^3 whole sets of draws, one at least is all different.

    Args:
      size: B.
      weights: float64[N].
      left: the least weight that is ever eligible.
    """
    return size * (size - 1) / 2 * float(weights @ weights) <= MOST_MEETINGS * left**2


def distinct(
    key: Key,
    propose: Proposal,
    size: int,
    num_clients: int,
    eligible: Callable[[Array], Array] | None = None,
) -> Array:
    """The first ``size`` different eligible clients among independent draws.

    Args:
      key: the draw's key.
      propose: draws clients.
      size: B.
      num_clients: N.
      eligible: ``int32[K] -> bool[K]``, by default everybody. Eligible clients of positive weight
        must be at least ``size``, or no number of draws is enough.

    Returns:
      int32[B], in increasing order.
    """
    width = 2 * size + _SPARE

    def turn(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        taken, _, number = carry
        drawn = propose(jax.random.fold_in(key, number), width)
        if eligible is not None:
            drawn = jnp.where(eligible(drawn), drawn, num_clients)
        everyone = jnp.concatenate([taken, drawn])  # N stands for nobody
        order = jnp.arange(size + width, dtype=jnp.int32)
        client, place = jax.lax.sort((everyone, order), num_keys=2)
        before = jnp.concatenate([jnp.full(1, -1, jnp.int32), client[:-1]])
        is_first = (client != before) & (client < num_clients)
        kept = (
            jnp.zeros(size + width, bool).at[place].set(is_first, unique_indices=True)
        )
        rank = jnp.cumsum(kept, dtype=jnp.int32)
        slots = jnp.where(kept, rank - 1, size)  # what does not fit falls off
        taken = (
            jnp.full(size, num_clients, jnp.int32).at[slots].set(everyone, mode='drop')
        )
        return taken, rank[-1], number + 1

    nobody = jnp.full(size, num_clients, jnp.int32), jnp.int32(0), jnp.int32(0)
    taken, _, _ = jax.lax.while_loop(lambda carry: carry[1] < size, turn, nobody)
    return jnp.sort(taken)


def all_at_once(
    key: Key,
    propose: Proposal,
    size: int,
    num_clients: int,
    eligible: Callable[[Array], Array],
) -> Array:
    """Independent draws among the eligible, as a whole again and again until all of them differ.

    So ``P(S)`` is proportional to the product of its clients' weights: conditional Poisson sampling
    (`subset_sampling.product_subset`), exactly.

    Args:
      key: the draw's key.
      propose: draws clients.
      size: B.
      num_clients: N.
      eligible: ``int32[K] -> bool[K]``, as in `distinct`.

    Returns:
      int32[B], in increasing order.
    """
    width = 2 * size + _SPARE

    def turn(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        drawn = propose(jax.random.fold_in(key, carry[2]), width)
        # Those passed over say nothing of who is drawn, nor does it whether enough are left.
        rank = jnp.cumsum(eligible(drawn), dtype=jnp.int32)
        is_new = jnp.diff(rank, prepend=0) > 0
        slots = jnp.where(is_new, rank - 1, size)
        taken = jnp.full(size, num_clients, jnp.int32).at[slots].set(drawn, mode='drop')
        taken = jnp.sort(taken)
        differ = (rank[-1] >= size) & (taken[1:] != taken[:-1]).all()
        return taken, differ, carry[2] + 1

    nobody = jnp.full(size, num_clients, jnp.int32), jnp.array(False), jnp.int32(0)
    return jax.lax.while_loop(lambda carry: ~carry[1], turn, nobody)[0]


def sample(
    ids: Array,
    num_clients: int,
    chance: ArrayLike,
    kinds: Kinds | None = None,
    *,
    is_full: bool = True,
) -> CohortLinkSample:
    """A link sample of a cohort.

    Args:
      ids: int32[B], in increasing order; an empty slot holds N.
      num_clients: N.
      chance: float[K], probability of a client of each kind, NaN where unknown; or one number.
      kinds: the kind of each client, as in `CohortLinkSample`.
      is_full: whether no slot is ever empty.
    """
    chance = jnp.atleast_1d(jnp.asarray(chance, jnp.result_type(float)))
    return CohortLinkSample(ids, chance, num_clients, is_full, kinds)


def uniform(num_clients: Array | int) -> Proposal:
    """Every client equally likely."""
    return lambda key, count: prng.integers(key, (count,), num_clients)


def by_weight(weights: NDArray[np.float64]) -> Proposal:
    """Clients in proportion to their weights, at the same cost for any number of them.

    Args:
      weights: float64[N], non-negative, of sum above zero.

    Returns:
      The proposal; it holds eight bytes per client, unless the weights are equal.
    """
    num_clients = len(weights)
    if weights.min() == weights.max():
        return uniform(num_clients)
    table = alias_table(weights)

    def propose(key: Key, count: int) -> Array:
        threshold, alias = map(jnp.asarray, table)
        own, other = jax.random.split(key)
        column = prng.integers(own, (count,), num_clients)
        stays = jax.random.bits(other, (count,), 'uint32') < threshold[column]
        return jnp.where(stays, column, alias[column])

    return propose


def alias_table(
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """Walker's alias table, in integers: its law is that of the weights rounded to 2^-32 of a mean.

    Columns have equal probability, and each is shared by two clients.

    Light clients leave a gap in their column, heavy ones have a surplus over theirs. Gaps and
    surpluses are laid along two lines of equal length, in the order of the clients: the gap of a
    light client is filled by the heavy one whose surplus lies beside its beginning, and what a
    surplus gives too much, it takes from its own column, which the next heavy client then fills.

    Args:
      weights: float64[N], non-negative, of sum above zero. A positive one counts at least 2^-32 of
        the mean.

    Returns:
      Thresholds uint32[N], the share of column i, in units of 2^-32, that is client i's own, and
      aliases int32[N], whose the rest of column i is.

    References:
      Walker, An efficient method for generating discrete random variables with general
      distributions, 1977.
    """
    unit = 1 << 32
    num_clients = len(weights)
    shares = weights / weights.mean() * unit
    amounts = np.where(weights > 0, np.maximum(np.rint(shares), 1), 0).astype(np.int64)
    # Rounding leaves the total a little off: the heaviest take that among them.
    missing = num_clients * unit - int(amounts.sum())
    heavy = np.flatnonzero(amounts >= unit)
    each, rest = divmod(missing, len(heavy))
    amounts[heavy] += each
    amounts[heavy[:rest]] += 1

    light, heavy = np.flatnonzero(amounts < unit), np.flatnonzero(amounts >= unit)
    gaps = np.cumsum(unit - amounts[light])
    surpluses = np.cumsum(amounts[heavy] - unit)
    threshold, alias = amounts.copy(), np.arange(num_clients)
    if len(light):
        alias[light] = heavy[
            np.searchsorted(surpluses, gaps - (unit - amounts[light]), 'right')
        ]
        ends = gaps[np.searchsorted(gaps, surpluses)]
        threshold[heavy] = unit - np.where(surpluses > 0, ends - surpluses, 0)
        alias[heavy[:-1]] = heavy[1:]
    whole = threshold >= unit  # such a column is its client's own, whatever is drawn
    alias[whole] = np.flatnonzero(whole)
    threshold[whole] = unit - 1
    return threshold.astype(np.uint32), alias.astype(np.int32)
