"""Combines several patterns into one, and derives keys for what combinators draw.

A combinator is a function that makes one pattern from others, its parts. The first part draws from
the combination's key, so its links are the same as without the other parts. The other parts and the
combinator draw from streams of the key that no pattern uses.
"""

import functools
import math
import zlib
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.base import Array, Key, MaskLinks, Participation, PyTree
from fedjax_links.core import client_names, errors

Samples = Sequence[MaskLinks]


def combine(
    kind: str,
    patterns: Sequence[Participation],
    merge: Callable[[Key, Array, Samples], MaskLinks],
    num_clients: int | None = None,
) -> Participation:
    """Combines patterns into one that samples ``merge(key, round, samples of the parts)``.

    Args:
      kind: name of the combinator, from which its random streams are derived.
      patterns: the parts; the first part draws from the same key as without the other parts.
      merge: returns the combined links. Every sample that it receives stores its mask.
      num_clients: N, if the parts are over different clients. The result then has no client
        names; the caller sets them.

    Returns:
      The pattern. Its carry is the tuple of the parts' carries; with one part, that part's carry.

    Raises:
      ValueError: if the parts' numbers of clients differ, and N is not given.
    """
    counts = [pattern.num_clients for pattern in patterns]
    if num_clients is None and len(set(counts)) > 1:
        raise errors.invalid('patterns', 'have the same number of clients', counts)
    first = patterns[0]
    is_single = len(patterns) == 1
    combinator_key = stream(kind, first)

    def keys_of_parts(key: Key) -> list[Key]:
        rest_key = combinator_key(key)
        others = range(1, len(patterns))
        return [key, *(jax.random.fold_in(rest_key, i) for i in others)]

    def init(key: Key) -> PyTree:
        keys = keys_of_parts(key)
        carries = [part.init(k) for part, k in zip(patterns, keys, strict=True)]
        return carries[0] if is_single else tuple(carries)

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, MaskLinks]:
        carries = (carry,) if is_single else carry
        new_carries = []
        samples = []
        for part, old, part_key in zip(
            patterns, carries, keys_of_parts(key), strict=True
        ):
            new_carry, links = part.sample(old, part_key, round)
            new_carries.append(new_carry)
            samples.append(base.as_masks(links))
        merged = merge(jax.random.fold_in(combinator_key(key), 0), round, samples)
        return new_carries[0] if is_single else tuple(new_carries), merged

    # The cycle is the least common multiple of the cycles of the parts that repeat.
    cycles = [pattern.cycle for pattern in patterns if pattern.cycle is not None]
    return Participation(
        init,
        sample,
        num_clients or counts[0],
        cycle=math.lcm(*cycles) if cycles else None,
        combinators=(*first.combinators, kind),
        client_names=recorded_names(patterns) if num_clients is None else None,
    )


def recorded_names(patterns: Sequence[Participation]) -> tuple[str, ...] | None:
    """Returns the client names of the recordings among patterns.

    Returns:
      The names; empty if no recording names its clients, None if no pattern is a recording.

    Raises:
      ValueError: if two recordings name different clients, or the same clients in another order.
    """
    recordings = [part for part in patterns if part.client_names is not None]
    if not recordings:
        return None
    named = [part.client_names for part in recordings if part.client_names]
    if not named:
        return recordings[0].client_names
    for names in named[1:]:
        client_names.check_order('patterns', names, named[0])
    return named[0]


def longest(*durations: Array | None) -> Array | None:
    """Returns the longest duration, float[] in seconds; None if all durations are None."""
    known = [duration for duration in durations if duration is not None]
    return functools.reduce(jnp.maximum, known) if known else None


def stream(kind: str, pattern: Participation) -> Callable[[Key], Key]:
    """Returns the function ``key -> key`` that derives the key of a combinator's own draws.

    The pattern inside draws from ``key`` itself. Patterns fold small numbers into their keys,
    so this function folds in a hash. Nested combinators of one kind receive the same key.
    Therefore the hash counts the combinators of this kind inside.
    """
    number = zlib.crc32(f'{kind} {pattern.combinators.count(kind)}'.encode())
    return lambda key: jax.random.fold_in(key, np.uint32(number))


def align(samples: Samples) -> Samples:
    """Gives all samples uplink, downlink and compute masks if one sample has separate masks.

    In a plain sample, clients that deliver also receive, and all can compute.
    """
    if not any(map(base.is_duplex, samples)):
        return samples
    return [
        base.with_direction_masks(
            links, links.mask, base.receives(links), base.computes(links)
        )
        for links in samples
    ]
