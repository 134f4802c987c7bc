"""Pattern algebra: new participation patterns from old ones.

The first part draws from the combination's own key, so that its links are those that it has by
itself: an outage changes its window alone. Everything else draws from streams that no pattern uses,
so parts are independent. Each part keeps its own carry, and all carries advance in every round,
whether or not the part is in force. Where parts tell uplink, downlink and compute apart, so does
the result; a plain part then counts as one whose downlink follows its mask and whose clients always
compute.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import base
from fedjax_links.base import (
    Array,
    Key,
    MaskLinks,
    Number,
    Participation,
    PeerLinkSample,
    PyTree,
)
from fedjax_links.core import checks, errors, prng
from fedjax_links.links import drawing
from fedjax_links.participation import combining, link_laws, schedules, subset_sampling


def both(first: Participation, second: Participation) -> Participation:
    """Intersects two patterns: a client is up where both have it up.

    Args:
      first: a pattern over N clients.
      second: another.

    Returns:
      The pattern; ``prob`` is the product of the parts', exact as they are independent.

    Raises:
      ValueError: if the numbers of clients differ.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> first = participation.always(2)
      >>> pattern = participation.both(first, participation.replay([[True, False]]))
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=2)
      >>> print(links.mask.astype(int))
      [[1 0]
       [1 0]]
    """
    _check_some([first, second])
    return combining.combine('both', [first, second], _meet)


def either(first: Participation, second: Participation) -> Participation:
    """Unites two patterns: a client is up where at least one has it up.

    Args:
      first: a pattern over N clients.
      second: another.

    Returns:
      The pattern; ``prob`` is ``1 - (1 - p)(1 - p')``, exact as the parts are independent, and NaN
      if both tell directions apart: a client may then hear through one and deliver through the
      other.

    Raises:
      ValueError: if the numbers of clients differ.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> first = participation.replay([[True, False]])
      >>> second = participation.replay([[False, False], [False, True]])
      >>> pattern = participation.either(first, second)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=2)
      >>> print(links.mask.astype(int))
      [[1 0]
       [1 1]]
    """
    _check_some([first, second])
    return combining.combine('either', [first, second], _join)


def mixture(patterns: Sequence[Participation], probs: ArrayLike) -> Participation:
    """Mixes patterns: an independent draw picks the one in force in each round.

    Args:
      patterns: K patterns over the same N clients.
      probs: float[K], non-negative, of sum one.

    Returns:
      The pattern; ``prob`` is the mean of the parts' under ``probs``, exact where theirs are.

    Raises:
      ValueError: if numbers do not fit or ``probs`` is no distribution.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> parts = [participation.always(2), participation.replay([[True, False]])]
      >>> pattern = participation.mixture(parts, [0.25, 0.75])
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=4)
      >>> print(links.mask.astype(int))
      [[1 0]
       [1 1]
       [1 1]
       [1 0]]
    """
    _check_some(patterns)
    law = schedules.as_probs(probs, 'probs')
    if np.shape(probs) != (len(patterns),):
        raise errors.invalid(
            'probs', f'have {len(patterns)} entries', np.shape(probs)[0]
        )
    if (
        checks.is_concrete(probs)
        and abs(np.sum(np.asarray(probs, np.float64)) - 1) > 1e-5
    ):
        raise errors.invalid('probs', 'sum to one', np.sum(np.asarray(probs)))

    def pick(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        uniform = prng.uniform(key)
        last = jnp.max(jnp.where(law > 0, jnp.arange(len(patterns)), 0))
        which = jnp.minimum(jnp.sum(uniform >= jnp.cumsum(law)), last)
        parts = jnp.stack([sample.prob for sample in samples])
        # The minimum changes nothing but forbids fused multiply-adds: same bits however compiled.
        weighted = jnp.where(law[:, None] > 0, jnp.minimum(law[:, None] * parts, 1), 0)
        return _choose(samples, which)._replace(prob=weighted.sum(axis=0))

    return combining.combine('mixture', patterns, pick)


def switch(patterns: Sequence[Participation], at_rounds: ArrayLike) -> Participation:
    """Switches from one pattern to the next at the rounds ``at_rounds``.

    Args:
      patterns: K patterns over the same N clients.
      at_rounds: int[K - 1], increasing; the round in which each of the others takes over. One
        number for two patterns.

    Returns:
      The pattern; ``prob`` is that of the part in force.

    Raises:
      ValueError: if numbers do not fit or rounds do not increase.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> parts = [participation.always(2), participation.replay([[True, False]])]
      >>> pattern = participation.switch(parts, 2)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=3)
      >>> print(links.mask.astype(int))
      [[1 1]
       [1 1]
       [1 0]]
    """
    _check_some(patterns)
    xp = checks.array_module(at_rounds)
    given = xp.atleast_1d(xp.asarray(at_rounds))
    if given.size and not jnp.issubdtype(given.dtype, jnp.integer):
        raise errors.invalid(
            'at_rounds', 'be whole numbers of rounds', errors.text_of(at_rounds)
        )
    rounds = given.astype(np.int32)
    if rounds.shape != (len(patterns) - 1,):
        requirement = f'name {len(patterns) - 1} rounds for {len(patterns)} patterns'
        raise errors.invalid('at_rounds', requirement, rounds.shape[0])
    if checks.is_concrete(at_rounds) and (np.diff(np.atleast_1d(at_rounds)) <= 0).any():
        raise errors.invalid('at_rounds', 'increase', np.asarray(at_rounds).tolist())

    def pick(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        return _choose(samples, jnp.sum(round >= rounds))

    return combining.combine('switch', patterns, pick)


def outage(
    pattern: Participation,
    *,
    start: Number,
    stop: Number,
    clients: ArrayLike | None = None,
) -> Participation:
    """Takes links of clients, to peers too, down from round ``start`` until before ``stop``.

    Args:
      pattern: the pattern otherwise.
      start: first round of the outage.
      stop: first round after it.
      clients: int[K], ids of the clients hit; everybody by default.

    Returns:
      The pattern; ``prob`` is zero where an outage is on. Who can compute still can.

    Raises:
      ValueError: if the window is empty, or ``clients`` are no ids or unknown.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.outage(participation.always(2), start=1, stop=3, clients=[0])
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=4)
      >>> print(links.mask.astype(int))
      [[1 1]
       [0 1]
       [0 1]
       [1 1]]
    """
    if checks.is_concrete(start) and checks.is_concrete(stop) and not 0 <= start < stop:
        raise errors.invalid('start', f'lie in [0, `stop` = {stop})', start)
    everyone = np.arange(pattern.num_clients)
    ids = everyone if clients is None else checks.ids('clients', clients)
    checks.within('clients', ids.max(), 0, pattern.num_clients - 1)
    hit = np.isin(everyone, ids)

    def silence(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        down = hit & (start <= round) & (round < stop)
        links = samples[0]
        links = links._replace(
            mask=links.mask & ~down, prob=jnp.where(down, 0, links.prob)
        )
        if base.tells_directions(links):
            links = links._replace(downlink=links.downlink & ~down)
        if isinstance(links, PeerLinkSample):
            cut = down[:, None] | down[links.neighbours]
            probs = (
                None if links.edge_prob is None else jnp.where(cut, 0, links.edge_prob)
            )
            links = links._replace(edges=links.edges & ~cut, edge_prob=probs)
        return links

    return combining.combine('outage', [pattern], silence)


def by_group(groups: ArrayLike, patterns: Sequence[Participation]) -> Participation:
    """Gives each group of clients a separate pattern.

    Args:
      groups: int[N], group of each client; labels 0 to G - 1, each used.
      patterns: G patterns, number g over the clients of group g in increasing order of their ids.

    Returns:
      The pattern; ``prob`` is the parts'.

    Raises:
      ValueError: if a pattern has not as many clients as its group.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> parts = [participation.always(2), participation.replay([[False], [True]])]
      >>> pattern = participation.by_group([0, 1, 0], parts)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=2)
      >>> print(links.mask.astype(int))
      [[1 0 1]
       [1 1 1]]
    """
    _check_some(patterns)
    labels = subset_sampling.group_labels(groups, len(patterns))
    sizes, counts = (
        np.bincount(labels).tolist(),
        [pattern.num_clients for pattern in patterns],
    )
    if counts != sizes:
        raise errors.invalid(
            'patterns', f'have as many clients as their groups, {sizes}', counts
        )
    rows_of_clients = np.argsort(np.argsort(labels, kind='stable'))

    def deal(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        parts = combining.align(samples)
        return jax.tree.map(
            lambda *rows: jnp.concatenate(rows)[rows_of_clients], *parts
        )

    return combining.combine('by_group', patterns, deal, num_clients=len(labels))


def cap(pattern: Participation, size: int, *, rule: str = 'uniform') -> Participation:
    """Limits the active clients to at most ``size`` in a round.

    Those left out deliver nothing, but the pattern does not learn of it: under
    `minimum_separation` they wait as if they had taken part.

    Args:
      pattern: decides who is active; where it tells directions apart, those who take part.
      size: S, from 1 to N.
      rule: who is kept. ``'uniform'``: uniformly without replacement. ``'permutation'``: the next
        ones on a random permutation of all clients, which is used up over the rounds, inactive
        clients on the way included, and then drawn afresh; nobody twice in a round. With everybody
        active and S a divisor of N this is `regularized`; for other S a round goes on with the
        fresh permutation, where `regularized` has a smaller cohort.

    Returns:
      The pattern; ``prob`` is NaN: the chance of being kept depends on the others.

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
    checks.static_int('size', size, maximum=pattern.num_clients)
    checks.choice('rule', rule, ('uniform', 'permutation'))
    if rule == 'permutation':
        return cap_in_order(pattern, size, distinct=True)

    def keep(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        ids = subset_sampling.uniform_subset(key, base.participants(samples[0]), size)
        return _kept(samples[0], base.mask_of(ids, pattern.num_clients))

    return combining.combine('cap', [pattern], keep)


def cap_in_order(pattern: Participation, size: int, *, distinct: bool) -> Participation:
    """`cap` along a permutation; `subset_sampling.consume` says what ``distinct`` means."""
    own_key = combining.stream('cap', pattern)

    def init(key: Key) -> PyTree:
        return pattern.init(key), subset_sampling.random_order(
            own_key(key), pattern.num_clients
        )

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, MaskLinks]:
        part, order = carry
        part, sampled = pattern.sample(part, key, round)
        links = base.as_masks(sampled)
        active = base.participants(links)
        order, kept = subset_sampling.consume(
            own_key(key), order, active, size, distinct=distinct
        )
        return (part, order), _kept(links, kept)

    combinators = (*pattern.combinators, 'cap')
    return pattern._replace(init=init, sample=sample, combinators=combinators)


def _kept(links: MaskLinks, kept: Array) -> MaskLinks:
    return links._replace(mask=kept, prob=jnp.full_like(links.prob, jnp.nan))


def _meet(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
    return jax.tree.map(
        lambda x, y: x & y if x.dtype == bool else x * y, *combining.align(samples)
    )


def _join(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
    def union(x: Array, y: Array) -> Array:
        if x.dtype == bool:
            return x | y
        # As in `mixture`.
        return 1 - jnp.minimum((1 - x) * (1 - y), 1)

    joined: MaskLinks = jax.tree.map(union, *combining.align(samples))
    if all(map(base.tells_directions, samples)):
        joined = joined._replace(prob=jnp.full_like(joined.prob, jnp.nan))
    return joined


def _check_some(patterns: Sequence[Participation]) -> None:
    if len(patterns) == 0:
        raise errors.invalid('patterns', 'name at least one pattern', list(patterns))
    for shapes in map(drawing.sample_shapes, patterns):
        outer = 'peers' if base.has_peers(shapes) else 'quorum'
        if outer == 'peers' or getattr(shapes, 'duration', None) is not None:
            said = f'what `{outer}` made'
            raise errors.invalid(
                'patterns', f'go into `{outer}`, around all others', said
            )


def _choose(samples: combining.Samples, which: Array) -> MaskLinks:
    return jax.tree.map(
        lambda *parts: jnp.stack(parts)[which], *combining.align(samples)
    )


def both_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact law of `both`, whose parts are independent of each other."""
    return _independent_parts(given, lambda probs: np.prod(probs, axis=0))


def either_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact law of `either`, likewise."""
    if all(part.is_duplex for part in given.parts.values()):
        # a client may hear through one and deliver through the other
        return link_laws.UNKNOWN._replace(is_duplex=True)
    return _independent_parts(given, lambda probs: 1 - np.prod(1 - probs, axis=0))


def _independent_parts(
    given: link_laws.LawInputs, join: Callable[[np.ndarray], np.ndarray]
) -> link_laws.LinkLaw:
    """A pattern of parts; exact if each is independent over clients and rounds."""
    parts, law = given.parts.values(), link_laws.UNKNOWN
    if all(part.memoryless and part.probs is not None for part in parts):
        probs = np.array([part.probs for part in parts])
        law = link_laws.independent('independent over clients and rounds', join(probs))
    return law._replace(is_duplex=any(part.is_duplex for part in parts))
