"""Drawing a cohort among eligible clients: the random subsets that patterns are built from.

Every function returns ids int32[B] of exactly ``size`` = B of the eligible clients in increasing
order, or of all of them where fewer are eligible: an empty slot then holds N. Where draws take the
best of N priorities they cost O(N): priorities are float32, for which XLA selects the top entries
without a full sort.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key
from fedjax_links.core import checks, errors, prng

_FIRST, _REST = 0, 1
SMALLEST_WEIGHT = (
    1e-30  # relative to the largest; smaller positive weights count as this
)


def uniform_subset(key: Key, eligible: Array, size: int) -> Array:
    """``size`` of the eligible clients, uniformly without replacement.

    Args:
      key: the draw's key.
      eligible: bool[N].
      size: cohort size, from 1 to N.

    Returns:
      int32[B].
    """
    bits = jax.random.bits(key, eligible.shape, 'uint32')
    # Floats are ordered as their bits: 30 random bits, all of them normal numbers.
    priorities = jax.lax.bitcast_convert_type(
        (bits >> 2) + np.uint32(1 << 23), jnp.float32
    )
    return _best(priorities, eligible, size)


def successive_subset(key: Key, eligible: Array, weights: Array, size: int) -> Array:
    """Successive sampling (Plackett-Luce): one after the other, by weight among the rest.

    Drawn at once as the largest of ``log w_i + Gumbel_i``.

    Args:
      key: the draw's key.
      eligible: bool[N]; every eligible client has a positive weight.
      weights: float[N], relative to the largest (`relative_weights`).
      size: cohort size B, from 1 to N.

    Returns:
      int32[B].

    References:
      Efraimidis & Spirakis, Weighted random sampling with a reservoir, 2006.
    """
    gumbels = jax.random.gumbel(key, weights.shape, 'float32', mode='high')
    logs = jnp.log(jnp.where(eligible, weights, 1))
    return _best((logs + gumbels).astype(jnp.float32), eligible, size)


def product_subset(key: Key, eligible: Array, weights: Array, size: int) -> Array:
    r"""Conditional Poisson sampling: ``P(S) = prod_{i in S} w_i / e_B(w)``.

    Clients are visited in order; with r places left, client i is taken with probability
    ``w_i e_{r-1}(w_{>i}) / e_r(w_{>=i}) = w_i / (w_i + R_r)``, where the ratios
    ``R_k = e_k(w_{>i}) / e_{k-1}(w_{>i})`` of elementary symmetric polynomials obey, from the last
    client to the first, ``R_k <- (R_k + w_i) / (1 + w_i / R_{k-1})``. Ratios neither over- nor
    underflow, nothing is subtracted, and a relative error never grows: ``R_k <= R_{k-1}`` makes
    the recursion's relative derivatives sum to at most one.

    Args:
      key: the draw's key.
      eligible: bool[N]; every eligible client has a positive weight.
      weights: float[N], relative to the largest (`relative_weights`).
      size: cohort size B, from 1 to N.

    Returns:
      int32[B]. Costs O(N B) time and memory in 2 N sequential steps.

    References:
      Chen, Dempster & Liu, Weighted finite population sampling to maximize entropy, 1994.
    """
    weights = jnp.where(eligible, weights, 0)

    def extend(ratios: Array, weight: Array) -> tuple[Array, Array]:
        previous = ratios[:-1]
        share = jnp.where(
            previous > 0, previous / jnp.where(previous > 0, previous + weight, 1), 0
        )
        return (ratios + weight) * jnp.concatenate(
            [jnp.ones(1, share.dtype), share]
        ), ratios

    def take(left: Array, client: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        weight, ratios, uniform = client
        taken = (left > 0) & (
            uniform * (weight + ratios[jnp.maximum(left - 1, 0)]) < weight
        )
        return left - taken, taken

    _, ratios = jax.lax.scan(
        extend, jnp.zeros(size, weights.dtype), weights, reverse=True
    )
    uniforms = prng.uniform(key, weights.shape)
    places = jnp.minimum(eligible.sum(dtype=jnp.int32), size)
    _, taken = jax.lax.scan(take, places, (weights, ratios, uniforms))
    return jnp.nonzero(taken, size=size, fill_value=len(taken))[0].astype(jnp.int32)


def sum_subset(key: Key, eligible: Array, weights: Array, size: int) -> Array:
    """Midzuno sampling, ``P(S)`` proportional to ``sum_{i in S} w_i``.

    One client by weight, the others uniformly among the rest.

    Args:
      key: the draw's key.
      eligible: bool[N]; every eligible client has a positive weight.
      weights: float[N], relative to the largest (`relative_weights`).
      size: cohort size B, from 1 to N.

    Returns:
      int32[B].

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
    """Weights of any scale, made safe for the designs; float64 in NumPy unless they are traced.

    Args:
      weights: float[N], non-negative; validated where concrete.

    Returns:
      float[N] in [0, 1], the weights divided by the largest one, and bool[N], which are positive.

    Raises:
      ValueError: if ``weights`` is no vector, or has a negative, infinite or NaN entry or no
        positive one.
    """
    if np.ndim(weights) != 1 or 0 in np.shape(weights):
        raise errors.invalid('weights', 'be a vector', f'shape {np.shape(weights)}')
    values: Any = weights
    if checks.is_concrete(weights):
        values = np.asarray(weights, np.float64)
        bad = ~(np.isfinite(values) & (values >= 0))
        if bad.any():
            where = f'{values[bad][0]} at {np.argmax(bad)}'
            raise errors.invalid('weights', 'be non-negative', where)
        if not values.any():
            raise errors.invalid('weights', 'have a positive entry', 'zeros only')
    xp = checks.array_module(values)
    scaled = values / values.max()
    return xp.where(values > 0, xp.maximum(scaled, SMALLEST_WEIGHT), 0), values > 0


def group_labels(groups: ArrayLike, num_groups: int | None = None) -> NDArray[np.int32]:
    """Validated labels int32[N], the group of each client.

    Args:
      groups: int[N], labels from 0 to G - 1, each of them used.
      num_groups: G where the caller knows it, else one more than the largest label.

    Raises:
      ValueError: if ``groups`` is no vector of such labels, is traced, or leaves a group empty.
    """
    if not checks.is_concrete(groups):
        raise errors.invalid('groups', 'be concrete: group sizes set shapes', groups)
    labels = checks.ids('groups', groups)
    count = int(labels.max()) + 1 if num_groups is None else num_groups
    checks.within('groups', labels, 0, count - 1)
    unused = np.setdiff1d(np.arange(count), labels)
    if unused.size:
        raise errors.invalid(
            'groups', f'use each label up to {count - 1}', f'none in {unused[0]}'
        )
    return labels.astype(np.int32)


class ClientOrder(NamedTuple):
    """A permutation of the clients that is used up from its front.

    Attributes:
      position: int32[N], place of each client in the permutation.
      start: int32[], places used up.
    """

    position: Array
    start: Array


def random_order(key: Key, num_clients: int) -> ClientOrder:
    """A fresh permutation, uniformly random: the ranking of 64 random bits per client."""
    return ClientOrder(
        position=_ranking(_bits(key, num_clients)), start=jnp.zeros((), jnp.int32)
    )


def _bits(key: Key, num_clients: int) -> Array:
    return jax.random.bits(key, (2, num_clients), 'uint32')


def _ranking(bits: Array) -> Array:
    ids = jnp.arange(bits.shape[1], dtype=jnp.int32)
    return jax.lax.sort((bits[0], bits[1], ids), num_keys=2)[2]


def consume(
    key: Key, order: ClientOrder, eligible: Array, size: int, *, distinct: bool = True
) -> tuple[ClientOrder, Array]:
    """Walks along the permutation, taking eligible clients and throwing the others away.

    When it runs out, a fresh one is drawn and walked from its front, within the round.

    Args:
      key: draws the fresh permutation.
      order: what is left of the permutation.
      eligible: bool[N].
      size: places to fill, from 1 to N.
      distinct: whether the fresh permutation skips those already taken in this round. If not, a
        second pick fills a place, and the mask has one client less.

    Returns:
      What is left afterwards, and bool[N].
    """
    ahead = eligible & (order.position >= order.start)
    first, last = _front(order.position, ahead, size)
    missing = size - first.sum(dtype=jnp.int32)

    bits = _bits(
        key, len(eligible)
    )  # here, as side by side both branches would use the key
    fresh = jax.lax.cond(missing > 0, lambda: _ranking(bits), lambda: order.position)
    second, fresh_last = _front(
        fresh, eligible & ~first if distinct else eligible, missing
    )
    left = ClientOrder(position=fresh, start=jnp.where(missing > 0, fresh_last, last))
    return left, first | second


def _front(position: Array, eligible: Array, count: Array | int) -> tuple[Array, Array]:
    """The first ``count`` eligible clients, and the place after the last of them."""
    in_order = jnp.zeros_like(eligible).at[position].set(eligible, unique_indices=True)
    is_early = jnp.cumsum(in_order, dtype=jnp.int32) <= count
    taken = eligible & is_early[position]
    return taken, jnp.max(jnp.where(taken, position + 1, 0))


def _best(scores: Array, eligible: Array, size: int) -> Array:
    _, ids = jax.lax.top_k(jnp.where(eligible, scores, -jnp.inf), size)
    return jnp.sort(jnp.where(eligible[ids], ids, len(eligible)).astype(jnp.int32))
