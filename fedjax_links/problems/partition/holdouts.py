"""Which clients train, on which of their examples, and what is held out."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors
from fedjax_links.problems import draws
from fedjax_links.problems.partition.rules import STREAM

_HOLDOUTS = 1  # the part of the partitions' stream that says what is held out


class Division(NamedTuple):
    """Examples to train on and examples held out, by their rows in the data.

    Attributes:
      rows: int64[E], trained on.
      clients: int32[E], the clients that own them, from 0 to N - 1.
      held_rows: int64[H], held out.
      held_clients: int32[H], their owners; N and above are clients that are held out.
      numbers: int32[M], what became of each owner in the data: the number of a client, or -1.
    """

    rows: NDArray[np.int64]
    clients: NDArray[np.int32]
    held_rows: NDArray[np.int64]
    held_clients: NDArray[np.int32]
    numbers: NDArray[np.int32]


def divide(
    owners: ArrayLike,
    *,
    num_clients: int | None = None,
    min_examples: int = 1,
    max_examples: int | None = None,
    holdout_clients: float = 0,
    holdout_examples: float = 0.0,
    seed: int,
) -> Division:
    """Chooses clients and examples at random, and keeps the order of the data.

    Args:
      owners: int[E], owner of each example, numbered from 0.
      num_clients: how many of the owners there are to be, those held out among them; None for all.
      min_examples: owners with fewer are left out.
      max_examples: how many examples of an owner are used, at least 1; None for all.
      holdout_clients: how many clients do not train: a number from 1, or a share below 1, rounded.
        All their examples are held out.
      holdout_examples: share in [0, 1) of the examples of everyone else that is held out, rounded;
        one is always left to train on.
      seed: integer in ``[0, 2**32)``.

    Returns:
      The division. Those who train are numbered first, in the order of the owners.

    Raises:
      ValueError: if a number is out of range, too few owners have examples enough, or none is left
        to train.
    """
    owners = checks.ids('owners', owners)
    checks.static_int('min_examples', min_examples)
    if max_examples is not None:
        checks.static_int('max_examples', max_examples)
    checks.within('holdout_examples', holdout_examples, 0, 1)
    counts, rng = np.bincount(owners), draws.generator(seed, STREAM, _HOLDOUTS)
    kept = np.flatnonzero(counts >= min_examples)
    if not kept.size:
        requirement = f'be at most {counts.max()}, the most that a client has'
        raise errors.invalid('min_examples', requirement, min_examples)
    if num_clients is not None:
        checks.static_int('num_clients', num_clients)
        if num_clients > kept.size:
            requirement = f'be at most {kept.size}, the owners of {min_examples} examples or more'
            raise errors.invalid('num_clients', requirement, num_clients)
        kept = np.sort(rng.permutation(kept)[:num_clients])
    held = np.sort(rng.permutation(kept)[: _num_held(holdout_clients, kept.size)])
    numbers = np.full(counts.size, -1, np.int32)
    in_order = np.concatenate([np.setdiff1d(kept, held), held])
    numbers[in_order] = np.arange(in_order.size)
    clients = numbers[owners]
    # Everyone's examples in random order: the first are trained on, then come those held out.
    order = np.lexsort((rng.random(owners.size), owners))
    places = np.empty_like(owners)
    places[order] = np.arange(owners.size) - np.repeat(np.cumsum(counts) - counts, counts)
    sizes = counts if max_examples is None else np.minimum(counts, max_examples)
    num_out = np.minimum(np.rint(holdout_examples * sizes), sizes - 1).astype(np.int64)
    num_out[held] = sizes[held]
    used = (clients >= 0) & (places < sizes[owners])
    is_out = places >= (sizes - num_out)[owners]
    rows, held_rows = np.flatnonzero(used & ~is_out), np.flatnonzero(used & is_out)
    return Division(rows, clients[rows], held_rows, clients[held_rows], numbers)


def _num_held(holdout_clients: float, count: int) -> int:
    """How many of the clients do not train."""
    checks.within('holdout_clients', holdout_clients, 0, count)
    if holdout_clients >= 1 and holdout_clients != int(holdout_clients):
        raise errors.invalid('holdout_clients', 'be a number or a share below 1', holdout_clients)
    is_share = holdout_clients < 1
    held = round(holdout_clients * count) if is_share else int(holdout_clients)
    if held >= count:
        requirement = f'leave one of {count} clients to train'
        raise errors.invalid('holdout_clients', requirement, holdout_clients)
    return held
