"""Combines participation patterns into new ones.

A combination's parts are the patterns it is made of. The first part draws from the combination's
key. So its links are as without the other parts, and an outage changes nothing outside its window.
Other draws use other streams of the key, so parts are independent. All parts advance in each round.
If a part has separate masks for uplink, downlink and compute, so has the result. In a part without
separate masks, clients then receive if they deliver, and always compute.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links import base
from fedjax_links.base import (
    Array,
    Key,
    MaskLinks,
    Number,
    Participation,
    PeerLinkSample,
)
from fedjax_links.core import checks, contracts, errors, prng
from fedjax_links.links import drawing
from fedjax_links.participation import combining, link_laws, schedules, subset_sampling


def both(first: Participation, second: Participation) -> Participation:
    """Intersects two patterns: a client is up if it is up in both.

    Args:
      first: a pattern over N clients.
      second: another pattern over the same clients.

    Returns:
      The pattern; ``prob`` is the product of both parts' ``prob``, exact as parts are independent.

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
    _check_pair(first, second)
    return combining.combine('both', [first, second], _meet)


def either(first: Participation, second: Participation) -> Participation:
    """Unites two patterns: a client is up if it is up in at least one.

    Args:
      first: a pattern over N clients.
      second: another pattern over the same clients.

    Returns:
      The pattern; ``prob`` is ``1 - (1 - p)(1 - p')``, exact as the parts are independent. It is
      NaN if both parts have separate masks for uplink and downlink. A client may then receive
      through one part and deliver through the other.

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
    _check_pair(first, second)
    return combining.combine('either', [first, second], _join)


def mixture(patterns: Sequence[Participation], probs: ArrayLike) -> Participation:
    """Mixes patterns: an independent draw picks the one in force in each round.

    Args:
      patterns: K patterns over the same N clients.
      probs: float[K], non-negative, of sum one.

    Returns:
      The pattern; ``prob`` is the mean under ``probs`` of the parts' ``prob``, exact if these are.

    Raises:
      ValueError: if numbers do not fit or ``probs`` is not a distribution.

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
    _check_parts(patterns)
    law = schedules.as_probs(probs, 'probs', axis='pattern')
    if law.shape != (len(patterns),):
        raise errors.invalid('probs', f'have {len(patterns)} entries', law.shape[0])
    if checks.is_concrete(probs):
        total = np.sum(np.asarray(probs, np.float64))
        if abs(total - 1) > 1e-5:
            raise errors.invalid('probs', 'sum to one', total)

    def pick(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        uniform = prng.uniform(key)
        # Where rounding leaves the sum of the probabilities below one, the last pattern of positive
        # probability takes the rest.
        last = jnp.max(jnp.where(law > 0, jnp.arange(len(patterns)), 0))
        index = jnp.minimum(jnp.sum(uniform >= jnp.cumsum(law)), last)
        probs_of_parts = jnp.stack([sample.prob for sample in samples])
        # The minimum changes nothing, but it forbids fused multiply-adds. So the bits are the
        # same however this is compiled.
        weighted = jnp.minimum(law[:, None] * probs_of_parts, 1)
        weighted = jnp.where(law[:, None] > 0, weighted, 0)
        return _choose(samples, index)._replace(prob=weighted.sum(axis=0))

    return combining.combine('mixture', patterns, pick)


def switch(patterns: Sequence[Participation], at_rounds: ArrayLike) -> Participation:
    """Switches from one pattern to the next at the rounds ``at_rounds``.

    Args:
      patterns: K patterns over the same N clients.
      at_rounds: int[K - 1], increasing; the round in which each pattern after the first takes
        over. One number for two patterns.

    Returns:
      The pattern; ``prob`` is the ``prob`` of the part in force.

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
    _check_parts(patterns)
    sizes = checks.shape('at_rounds', at_rounds)
    num_switches = 1 if sizes == () else sizes[0]
    if len(sizes) > 1 or num_switches != len(patterns) - 1:
        requirement = f'name {len(patterns) - 1} rounds for {len(patterns)} patterns'
        got = num_switches if len(sizes) < 2 else f'shape {list(sizes)}'
        raise errors.invalid('at_rounds', requirement, got)
    rounds = _as_rounds(at_rounds)

    def pick(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        return _choose(samples, jnp.sum(round >= rounds))

    return combining.combine('switch', patterns, pick)


def _as_rounds(at_rounds: ArrayLike) -> Array:
    """Checks rounds that increase and returns them as int32[K - 1]."""
    xp = checks.array_module(at_rounds)
    rounds = xp.atleast_1d(xp.asarray(at_rounds))
    if rounds.size and not jnp.issubdtype(rounds.dtype, jnp.integer):
        got = errors.text_of(at_rounds)
        raise errors.invalid('at_rounds', 'be whole numbers of rounds', got)
    if checks.is_concrete(at_rounds):
        checks.within('at_rounds', rounds, 0, checks.LARGEST_INT, axis='entry')
        if (np.diff(rounds) <= 0).any():
            raise errors.invalid('at_rounds', 'increase', rounds.tolist())
    return rounds.astype(np.int32)


def outage(
    pattern: Participation,
    *,
    start: Number,
    stop: Number,
    clients: ArrayLike | None = None,
) -> Participation:
    """Takes the links of clients, also those to peers, down from ``start`` until ``stop``.

    Args:
      pattern: the pattern outside of the outage.
      start: first round of the outage.
      stop: first round after it.
      clients: int[K], ids of the affected clients; all clients by default.

    Returns:
      The pattern; ``prob`` is zero during an outage. Clients can still compute.

    Raises:
      ValueError: if the window is empty, or ``clients`` holds other than ids of clients.

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
    contracts.check_pattern(pattern, 'pattern')
    checks.number('start', start)
    checks.number('stop', stop)
    if checks.is_concrete(start) and checks.is_concrete(stop) and not 0 <= start < stop:
        raise errors.invalid('start', f'lie in [0, `stop` = {stop})', start)
    everyone = np.arange(pattern.num_clients)
    ids = everyone if clients is None else checks.ids('clients', clients)
    checks.within('clients', ids.max(), 0, pattern.num_clients - 1)
    is_affected = np.isin(everyone, ids)

    def take_down(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        down = is_affected & (start <= round) & (round < stop)
        links = samples[0]
        prob = jnp.where(down, 0, links.prob)
        links = links._replace(mask=links.mask & ~down, prob=prob)
        if base.is_duplex(links):
            links = links._replace(downlink=links.downlink & ~down)
        if isinstance(links, PeerLinkSample):
            edge_down = down[:, None] | down[links.neighbours]
            edge_prob = links.edge_prob
            if edge_prob is not None:
                edge_prob = jnp.where(edge_down, 0, edge_prob)
            links = links._replace(edges=links.edges & ~edge_down, edge_prob=edge_prob)
        return links

    return combining.combine('outage', [pattern], take_down)


def by_group(groups: ArrayLike, patterns: Sequence[Participation]) -> Participation:
    """Gives each group of clients a separate pattern.

    Args:
      groups: int[N], group of each client; labels 0 to G - 1, each used.
      patterns: G patterns; pattern g is over the clients of group g, in increasing order of id.

    Returns:
      The pattern; a client's ``prob`` is the one in its group's pattern.

    Raises:
      ValueError: if a pattern has more or fewer clients than its group.

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
    _check_parts(patterns)
    labels = subset_sampling.group_labels(groups, len(patterns))
    sizes = np.bincount(labels).tolist()
    counts = [pattern.num_clients for pattern in patterns]
    if counts != sizes:
        requirement = f'have as many clients as their groups, {sizes}'
        raise errors.invalid('patterns', requirement, counts)
    rows_of_clients = np.argsort(np.argsort(labels, kind='stable'))

    def reorder(*parts: Array) -> Array:
        return jnp.concatenate(parts)[rows_of_clients]

    def merge(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
        return jax.tree.map(reorder, *combining.align(samples))

    grouped = combining.combine('by_group', patterns, merge, num_clients=len(labels))
    return grouped._replace(client_names=_names_of_groups(patterns, rows_of_clients))


def _names_of_groups(
    patterns: Sequence[Participation], rows_of_clients: NDArray[np.integer]
) -> tuple[str, ...] | None:
    """Returns the client names of `by_group`.

    Args:
      patterns: one per group.
      rows_of_clients: int[N], each client's position in the concatenated groups.

    Returns:
      The names; None if no part is a recording; empty if one is but not every part has names.
    """
    names_by_group = [part.client_names for part in patterns]
    if all(names is None for names in names_by_group):
        return None
    if not all(names_by_group):
        return ()
    names: list[str] = []
    for names_of_group in names_by_group:
        names.extend(names_of_group or ())
    return tuple(names[row] for row in rows_of_clients)


def _meet(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
    """Intersects the masks of two samples and multiplies their probabilities."""

    def intersect(x: Array, y: Array) -> Array:
        return x & y if x.dtype == bool else x * y

    return jax.tree.map(intersect, *combining.align(samples))


def _join(key: Key, round: Array, samples: combining.Samples) -> MaskLinks:
    """Unites the masks of two samples, and computes the probability of the union."""

    def union(x: Array, y: Array) -> Array:
        if x.dtype == bool:
            return x | y
        # As in `mixture`, the minimum forbids fused multiply-adds.
        return 1 - jnp.minimum((1 - x) * (1 - y), 1)

    # A client that cannot train in one part does not deliver through it.
    parts = [s._replace(mask=base.delivers(s)) for s in combining.align(samples)]
    joined: MaskLinks = jax.tree.map(union, *parts)
    if all(map(base.is_duplex, samples)):
        joined = joined._replace(prob=jnp.full_like(joined.prob, jnp.nan))
    return joined


def _check_pair(first: Participation, second: Participation) -> None:
    """Raises for two parts of unequal size, or a part that must be outermost."""
    _check_part('first', first)
    _check_part('second', second)
    if second.num_clients != first.num_clients:
        requirement = f'have the {first.num_clients} clients of `first`'
        raise errors.invalid('second', requirement, second.num_clients)


def _check_parts(patterns: Sequence[Participation]) -> None:
    """Raises if there are no patterns, or for a pattern that must be outermost."""
    if not isinstance(patterns, Sequence) or len(patterns) == 0:
        got = errors.text_of(patterns)
        raise errors.invalid('patterns', 'name at least one pattern', got)
    for index, pattern in enumerate(patterns):
        _check_part(f'patterns[{index}]', pattern)


def _check_part(argument: str, pattern: Participation) -> None:
    """Raises unless ``pattern`` is a pattern, and for one that must be outermost."""
    contracts.check_pattern(pattern, argument)
    shapes = drawing.sample_shapes(pattern)
    has_peers = base.has_peers(shapes)
    if has_peers or getattr(shapes, 'duration', None) is not None:
        outer = 'peers' if has_peers else 'quorum'
        requirement = f'go into `{outer}`, around all others'
        raise errors.invalid(argument, requirement, f'a pattern of `{outer}`')


def _choose(samples: combining.Samples, index: Array) -> MaskLinks:
    """Returns the sample at an index, int32[]."""
    aligned = combining.align(samples)
    return jax.tree.map(lambda *parts: jnp.stack(parts)[index], *aligned)


def both_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `both`, whose parts are independent of each other."""
    return _independent_parts(inputs, lambda probs: np.prod(probs, axis=0))


def either_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `either`, whose parts are independent of each other."""
    if all(part.is_duplex for part in inputs.parts.values()):
        # A client may receive through one part and deliver through the other.
        return link_laws.UNKNOWN._replace(is_duplex=True)
    return _independent_parts(inputs, lambda probs: 1 - np.prod(1 - probs, axis=0))


def _independent_parts(
    inputs: link_laws.LawInputs, join: Callable[[np.ndarray], np.ndarray]
) -> link_laws.LinkLaw:
    """Returns a law that is exact if each part is independent over clients and rounds."""
    parts = inputs.parts.values()
    law = link_laws.UNKNOWN
    if all(part.memoryless and part.probs is not None for part in parts):
        probs = np.array([part.probs for part in parts])
        law = link_laws.independent('independent over clients and rounds', join(probs))
    return law._replace(is_duplex=any(part.is_duplex for part in parts))
