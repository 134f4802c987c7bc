"""Draws random subsets of eligible clients, from which patterns are built.

The clients in a round's subset are its cohort. Some functions give each client a random priority
and take the clients of the highest priorities. This costs O(N): priorities are float32, for which
XLA selects the top entries without a full sort.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key
from fedjax_links.core import checks, errors, prng

# Numbers of the random streams of `sum_subset`.
_FIRST = 0
_REST = 1
SMALLEST_WEIGHT = 1e-30
"""Relative to the largest weight; a smaller positive weight counts as this."""


def uniform_subset(key: Key, eligible: Array, size: int) -> Array:
    """Draws some of the eligible clients, uniformly without replacement.

    Args:
      key: random key.
      eligible: bool[N].
      size: B, from 0 to N.

    Returns:
      int32[B], ids in increasing order. If fewer clients are eligible, all of them, and N in each
      empty slot.
    """
    bits = jax.random.bits(key, eligible.shape, 'uint32')
    # Positive floats are ordered as their bits. The priorities have 30 random bits, and none is
    # subnormal.
    float_bits = (bits >> 2) + np.uint32(1 << 23)
    priorities = jax.lax.bitcast_convert_type(float_bits, jnp.float32)
    return _best(priorities, eligible, size)


def successive_subset(key: Key, eligible: Array, weights: Array, size: int) -> Array:
    """Draws clients one after the other, by weight among the rest (Plackett-Luce).

    The B clients with the largest ``log w_i + Gumbel_i`` have this law, so no loop is needed.

    Args:
      key: random key.
      eligible: bool[N].
      weights: float[N], relative to the largest (`relative_weights`), positive where eligible.
      size: B, from 1 to N.

    Returns:
      int32[B], ids in increasing order. If fewer clients are eligible, all of them, and N in each
      empty slot.

    References:
      Efraimidis & Spirakis, Weighted random sampling with a reservoir, 2006.
    """
    gumbels = jax.random.gumbel(key, weights.shape, 'float32', mode='high')
    logs = jnp.log(jnp.where(eligible, weights, 1))
    return _best((logs + gumbels).astype(jnp.float32), eligible, size)


def product_subset(key: Key, eligible: Array, weights: Array, size: int) -> Array:
    r"""Draws a subset by conditional Poisson sampling, ``P(S) = prod_{i in S} w_i / e_B(w)``.

    Clients are visited in order. With r slots left, client i is taken with probability
    ``w_i e_{r-1}(w_{>i}) / e_r(w_{>=i}) = w_i / (w_i + R_r)``. The ratios
    ``R_k = e_k(w_{>i}) / e_{k-1}(w_{>i})`` of elementary symmetric polynomials obey, from the
    last client to the first, ``R_k <- (R_k + w_i) / (1 + w_i / R_{k-1})``. Ratios neither
    over- nor underflow, and nothing is subtracted. A relative error never grows, since
    ``R_k <= R_{k-1}`` makes the recursion's relative derivatives sum to at most one.

    The draw costs O(N B) time and memory, in 2 N sequential steps.

    Args:
      key: random key.
      eligible: bool[N].
      weights: float[N], relative to the largest (`relative_weights`), positive where eligible.
      size: B, from 1 to N.

    Returns:
      int32[B], ids in increasing order. If fewer clients are eligible, all of them, and N in each
      empty slot.

    References:
      Chen, Dempster & Liu, Weighted finite population sampling to maximize entropy, 1994.
    """
    weights = jnp.where(eligible, weights, 0)

    def extend(ratios: Array, weight: Array) -> tuple[Array, Array]:
        # R_k <- (R_k + w) R_{k-1} / (R_{k-1} + w), and R_1 <- R_1 + w.
        previous = ratios[:-1]
        divisor = jnp.where(previous > 0, previous + weight, 1)
        factor = jnp.where(previous > 0, previous / divisor, 0)
        factor = jnp.concatenate([jnp.ones(1, factor.dtype), factor])
        return (ratios + weight) * factor, ratios

    def take(left: Array, client: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        weight, ratios, uniform = client
        ratio = ratios[jnp.maximum(left - 1, 0)]
        taken = (left > 0) & (uniform * (weight + ratio) < weight)
        return left - taken, taken

    no_ratios = jnp.zeros(size, weights.dtype)
    _, ratios = jax.lax.scan(extend, no_ratios, weights, reverse=True)
    uniforms = prng.uniform(key, weights.shape)
    num_slots = jnp.minimum(eligible.sum(dtype=jnp.int32), size)
    _, taken = jax.lax.scan(take, num_slots, (weights, ratios, uniforms))
    return jnp.nonzero(taken, size=size, fill_value=len(taken))[0].astype(jnp.int32)


def sum_subset(key: Key, eligible: Array, weights: Array, size: int) -> Array:
    """Draws one client by weight and the others uniformly among the rest (Midzuno).

    ``P(S)`` is proportional to ``sum_{i in S} w_i``.

    Args:
      key: random key.
      eligible: bool[N].
      weights: float[N], relative to the largest (`relative_weights`), positive where eligible.
      size: B, from 1 to N.

    Returns:
      int32[B], ids in increasing order. If fewer clients are eligible, all of them, and N in each
      empty slot.

    References:
      Midzuno, On the sampling system with probability proportionate to sum of sizes, 1952.
    """
    first = successive_subset(jax.random.fold_in(key, _FIRST), eligible, weights, 1)
    others = eligible.at[first].set(False, mode='drop')
    rest = uniform_subset(jax.random.fold_in(key, _REST), others, size - 1)
    return jnp.sort(jnp.concatenate([first, rest]))


DESIGNS = {
    'product': product_subset,
    'successive': successive_subset,
    'sum': sum_subset,
}


def relative_weights(weights: ArrayLike) -> tuple[Any, Any]:
    """Divides weights by the largest one.

    Args:
      weights: float[N], non-negative, of any scale; checked where concrete.

    Returns:
      float[N] in [0, 1], the relative weights, in float64 unless traced; and bool[N], which
      weights are positive.

    Raises:
      ValueError: if ``weights`` is not a vector, has a negative, infinite or NaN entry, or has no
        positive entry.
    """
    checks.per_client('weights', weights)
    checks.finite('weights', weights)
    xp = checks.array_module(weights)
    values: Any = xp.asarray(weights)
    if checks.is_concrete(weights):
        values = values.astype(np.float64)
        is_valid = values >= 0
        if not is_valid.all():
            client = int(np.argmin(is_valid))
            got = f'{values[client]} at client {client}'
            raise errors.invalid('weights', 'be non-negative', got)
        if not values.any():
            raise errors.invalid('weights', 'have a positive entry', 'zeros only')
    is_positive = values > 0
    scaled = xp.maximum(values / values.max(), SMALLEST_WEIGHT)
    return xp.where(is_positive, scaled, 0), is_positive


def group_labels(groups: ArrayLike, num_groups: int | None = None) -> NDArray[np.int32]:
    """Checks the groups of clients and returns them as int32[N].

    Args:
      groups: int[N], labels from 0 to G - 1, each of them used.
      num_groups: G; by default one more than the largest label.

    Raises:
      ValueError: if ``groups`` is not a vector of labels from 0 to G - 1, is traced, or leaves a
        group empty.
    """
    if not checks.is_concrete(groups):
        raise errors.invalid('groups', 'be concrete: group sizes set shapes', groups)
    labels = checks.ids('groups', groups)
    count = int(labels.max()) + 1 if num_groups is None else num_groups
    checks.within('groups', labels, 0, count - 1)
    unused = np.setdiff1d(np.arange(count), labels)
    if unused.size:
        requirement = f'use each label up to {count - 1}'
        got = f'no client with label {unused[0]}'
        raise errors.invalid('groups', requirement, got)
    return labels.astype(np.int32)


class ClientOrder(NamedTuple):
    """Holds a permutation of the clients that is used up from its front.

    Attributes:
      position: int32[N], position of each client in the permutation.
      start: int32[], number of positions used up.
    """

    position: Array
    start: Array


def random_order(key: Key, num_clients: int) -> ClientOrder:
    """Draws a uniformly random permutation, by ranking 64 random bits per client."""
    position = _uniform_permutation(_bits(key, num_clients))
    return ClientOrder(position=position, start=jnp.zeros((), jnp.int32))


def _bits(key: Key, num_clients: int) -> Array:
    return jax.random.bits(key, (2, num_clients), 'uint32')


def _uniform_permutation(bits: Array) -> Array:
    """Sorts client ids by their random bits: int32[N].

    The result may stand for ids by position or for positions by id, as the inverse of a uniform
    permutation is uniform too.
    """
    ids = jnp.arange(bits.shape[1], dtype=jnp.int32)
    return jax.lax.sort((bits[0], bits[1], ids), num_keys=2)[2]


def take_from_permutation(
    key: Key, order: ClientOrder, eligible: Array, size: int, *, distinct: bool
) -> tuple[ClientOrder, Array]:
    """Takes the next eligible clients of a permutation, and uses up others on the way too.

    When the permutation runs out, a fresh one is drawn and used from its front, in the same round.

    Args:
      key: draws the fresh permutation.
      order: what is left of the permutation.
      eligible: bool[N].
      size: number of clients to take, from 1 to N.
      distinct: whether the fresh permutation skips clients already taken in this round. If
        not, a client that is taken twice counts twice, and the mask has one client less.

    Returns:
      What is left of the permutation afterwards, and the clients taken, bool[N].
    """
    ahead = eligible & (order.position >= order.start)
    first, last = _front(order.position, ahead, size)
    missing = size - first.sum(dtype=jnp.int32)

    # The bits are drawn outside the condition, since a batched condition runs both branches.
    bits = _bits(key, len(eligible))
    fresh = jax.lax.cond(
        missing > 0, lambda: _uniform_permutation(bits), lambda: order.position
    )
    still_eligible = eligible & ~first if distinct else eligible
    second, fresh_last = _front(fresh, still_eligible, missing)
    left = ClientOrder(position=fresh, start=jnp.where(missing > 0, fresh_last, last))
    return left, first | second


def _front(position: Array, eligible: Array, count: Array | int) -> tuple[Array, Array]:
    """Returns the first ``count`` eligible clients, and the position after the last of them."""
    in_order = jnp.zeros_like(eligible).at[position].set(eligible, unique_indices=True)
    is_early = jnp.cumsum(in_order, dtype=jnp.int32) <= count
    taken = eligible & is_early[position]
    return taken, jnp.max(jnp.where(taken, position + 1, 0))


def _best(scores: Array, eligible: Array, size: int) -> Array:
    """Returns the ids of the ``size`` eligible clients with the largest scores."""
    _, ids = jax.lax.top_k(jnp.where(eligible, scores, -jnp.inf), size)
    ids = jnp.where(eligible[ids], ids, len(eligible))
    return jnp.sort(ids.astype(jnp.int32))
