"""Limits how many clients are active in a round."""

import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.base import Array, Key, MaskLinks, Participation, PyTree
from fedjax_links.core import checks, contracts
from fedjax_links.participation import combining, subset_sampling


def cap(pattern: Participation, size: int, *, rule: str = 'uniform') -> Participation:
    """Limits the active clients to at most ``size`` in a round.

    A client that is left out delivers nothing. The pattern does not know this: under
    `minimum_separation` such a client waits as if it had taken part.

    Args:
      pattern: decides who is active. If it has separate masks for uplink, downlink and compute,
        a client is active if all three allow it to take part.
      size: S, from 1 to N.
      rule: who stays active. ``'uniform'``: uniformly without replacement.
        ``'permutation'``: the next active clients on a random permutation of all clients.
        Inactive clients on the way are used up too, and a fresh permutation follows; no
        client is taken twice in a round. If all clients are active and S divides N, this is
        `regularized`. For other S a round continues with the fresh permutation, where
        `regularized` has a smaller cohort.

    Returns:
      The pattern; ``prob`` is NaN, because a client's chance depends on the other clients.

    Raises:
      ValueError: if a value is out of range.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.cap(participation.always(5), 2)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=3)
      >>> print(links.mask.sum(axis=1))
      [2 2 2]
    """
    contracts.check_pattern(pattern, 'pattern')
    checks.static_int('size', size, maximum=pattern.num_clients)
    checks.choice('rule', rule, ('uniform', 'permutation'))
    if rule == 'permutation':
        return cap_in_order(pattern, size, distinct=True)

    def select(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        active = base.participants(samples[0])
        ids = subset_sampling.uniform_subset(key, active, size)
        return _with_mask(samples[0], base.mask_of(ids, pattern.num_clients))

    return combining.combine('cap', [pattern], select)


def cap_in_order(pattern: Participation, size: int, *, distinct: bool) -> Participation:
    """Limits the active clients by a permutation, as `cap` does.

    `subset_sampling.take_from_permutation` explains ``distinct``.
    """
    cap_key = combining.stream('cap', pattern)

    def init(key: Key) -> PyTree:
        carry = pattern.init(key)
        order = subset_sampling.random_order(cap_key(key), pattern.num_clients)
        return carry, order

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, MaskLinks]:
        pattern_carry, order = carry
        pattern_carry, sampled = pattern.sample(pattern_carry, key, round)
        links = base.as_masks(sampled)
        active = base.participants(links)
        order, mask = subset_sampling.take_from_permutation(
            cap_key(key), order, active, size, distinct=distinct
        )
        return (pattern_carry, order), _with_mask(links, mask)

    combinators = (*pattern.combinators, 'cap')
    return pattern._replace(init=init, sample=sample, combinators=combinators)


def _with_mask(links: MaskLinks, mask: Array) -> MaskLinks:
    """Replaces the mask; the probability is then unknown."""
    return links._replace(mask=mask, prob=jnp.full_like(links.prob, jnp.nan))
