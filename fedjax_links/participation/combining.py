"""What all combinators of patterns share: one pattern of several parts, and its streams.

The first part draws from the combination's own key, so that its links are those that it has by
itself. Everything else draws from streams that no pattern uses.
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


def longest(samples: Samples) -> Array | None:
    """float[], seconds of a round that ends with the last of its parts; None if none tells."""
    durations = [sample.duration for sample in samples if sample.duration is not None]
    return functools.reduce(jnp.maximum, durations) if durations else None


def combine(
    kind: str,
    patterns: Sequence[Participation],
    merge: Callable[[Key, Array, Samples], MaskLinks],
    num_clients: int | None = None,
) -> Participation:
    """The pattern whose sample is ``merge(own key, round, samples of the parts)``.

    Args:
      kind: name of the combinator; its streams are its own.
      patterns: the parts; the first draws from the key that it would have by itself.
      merge: returns the links; the samples have masks.
      num_clients: N, if that is not the number of clients of each part.

    Returns:
      The pattern; its carry is those of the parts, or that of the only one.

    Raises:
      ValueError: if the parts' numbers of clients differ, and N is not given.
    """
    counts = [pattern.num_clients for pattern in patterns]
    if num_clients is None and len(set(counts)) > 1:
        raise errors.invalid('patterns', 'have the same number of clients', counts)
    first, *others = patterns
    own_key = stream(kind, first)

    def init(key: Key) -> PyTree:
        carry = first.init(key)
        if not others:
            return carry
        rest = own_key(key)
        return carry, *(
            part.init(jax.random.fold_in(rest, i)) for i, part in enumerate(others, 1)
        )

    def sample(carry: PyTree, key: Key, round: Array) -> tuple[PyTree, MaskLinks]:
        carries = carry if others else (carry,)
        rest = own_key(key)
        steps = [first.sample(carries[0], key, round)]
        for i, part in enumerate(others, 1):
            steps.append(part.sample(carries[i], jax.random.fold_in(rest, i), round))
        after, drawn = zip(*steps, strict=True)
        links = merge(
            jax.random.fold_in(rest, 0), round, list(map(base.as_masks, drawn))
        )
        return after if others else after[0], links

    cycles = [pattern.cycle for pattern in patterns if pattern.cycle is not None]
    cycle = math.lcm(*cycles) if cycles else None  # of those that repeat
    combinators = (*first.combinators, kind)
    names = recorded_names(patterns) if num_clients is None else None
    return Participation(
        init, sample, num_clients or counts[0], cycle, combinators, names
    )


def recorded_names(patterns: Sequence[Participation]) -> tuple[str, ...] | None:
    """Names of the clients of recordings among patterns; None if none is a recording.

    Raises:
      ValueError: if two recordings name other clients, or in another order.
    """
    found = [part.client_names for part in patterns if part.client_names is not None]
    named = [names for names in found if names]
    for names in named[1:]:
        client_names.check_order('patterns', names, named[0])
    every = named or found
    return every[0] if every else None


def stream(kind: str, pattern: Participation) -> Callable[[Key], Key]:
    """``key -> key`` of what a combinator draws besides the pattern, which draws from ``key``.

    Patterns fold small numbers into their keys. Combinators around combinators of the same kind
    share a key, so they are counted.
    """
    number = zlib.crc32(f'{kind} {pattern.combinators.count(kind)}'.encode())
    return lambda key: jax.random.fold_in(key, np.uint32(number))


def align(samples: Samples) -> Samples:
    """The samples, all of one kind: in plain ones, beside others, all can compute."""
    if not any(map(base.tells_directions, samples)):
        return samples
    return [
        base.directed(links, links.mask, base.receives(links), base.computes(links))
        for links in samples
    ]
