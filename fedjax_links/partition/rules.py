"""Partitions by rule: no skew, sorted shards, a block of clients per class; and client groups.

`divide` says which clients train, on which of their examples, and what is held out.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors, numpy_random
from fedjax_links.datasets import columns

MAX_TRIES = 100
_HOLDOUTS = 1  # the random stream that decides what is held out


def contiguous_groups(num_clients: int, *, num_groups: int) -> NDArray[np.int32]:
    """Puts clients into runs of consecutive ids of nearly equal length.

    Group g is ``rint(g N / G) <= client < rint((g + 1) N / G)``, halves to even. The participation
    patterns by groups take groups in this form, such as 250 clients in 5 groups or 100 clients in
    20.

    Args:
      num_clients: N.
      num_groups: G, at most N.

    Returns:
      Group of each client, int32[N], non-decreasing; no group is empty.

    Raises:
      ValueError: if an argument is out of range.
    """
    checks.static_int('num_clients', num_clients)
    checks.static_int('num_groups', num_groups, maximum=num_clients)
    stops = np.rint(np.arange(1, num_groups + 1) * num_clients / num_groups)
    return np.searchsorted(stops, np.arange(num_clients), side='right').astype(np.int32)


def natural(owners: ArrayLike, *, num_clients: int) -> NDArray[np.int32]:
    """Leaves every example with the owner that it has in the data.

    Args:
      owners: int[E], numbered from 0.
      num_clients: N, above the largest owner.

    Returns:
      The owners, int32[E].

    Raises:
      ValueError: for a negative owner, or one that is N or above.

    Example:
      >>> from fedjax_links import partition
      >>> print(partition.natural([0, 2, 1, 0], num_clients=3))
      [0 2 1 0]
    """
    known = checks.ids('owners', owners)
    checks.static_int('num_clients', num_clients, minimum=int(known.max()) + 1)
    return known.astype(np.int32)


def iid(labels: ArrayLike, *, num_clients: int, seed: int) -> NDArray[np.int32]:
    """Deals shuffled examples out in equal volumes.

    Args:
      labels: int[E], class of each example; only their number matters.
      num_clients: N, at most E.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E]. Sizes differ by at most one.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import partition
      >>> owners = partition.iid(np.arange(10) % 2, num_clients=2, seed=0)
      >>> print(np.bincount(owners))
      [5 5]
    """
    labels, rng = prepare(labels, num_clients, seed)
    return rng.permutation(np.arange(labels.size) % num_clients).astype(np.int32)


def label_shards(
    labels: ArrayLike, *, num_clients: int, shards_per_client: int = 2, seed: int
) -> NDArray[np.int32]:
    """Sorts by label, cuts into shards of equal length, gives each client some at random.

    Ties keep the order of the data. A client holds few classes: at most ``shards_per_client`` when
    no shard straddles two classes. The N S shards differ in length by at most one.

    Args:
      labels: int[E], class of each example, numbered from 0.
      num_clients: N.
      shards_per_client: S, with N S at most E.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E]. No client is empty, sizes differ by at most S.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import partition
      >>> labels = np.arange(40) % 4
      >>> owners = partition.label_shards(
      ...     labels, num_clients=4, shards_per_client=1, seed=0
      ... )
      >>> print(partition.class_mix(owners, labels).max(axis=1))
      [1. 1. 1. 1.]

    References:
      McMahan et al., Communication-efficient learning of deep networks from decentralized data,
      2017, section 3.
    """
    labels, rng = prepare(labels, num_clients, seed)
    checks.static_int(
        'shards_per_client', shards_per_client, maximum=labels.size // num_clients
    )
    num_shards = num_clients * shards_per_client
    owner = rng.permutation(num_shards) // shards_per_client
    shard = np.arange(labels.size) * num_shards // labels.size
    clients = np.empty(labels.size, np.int32)
    clients[np.argsort(labels, kind='stable')] = owner[shard]
    return clients


def similarity(
    labels: ArrayLike, *, num_clients: int, similarity: float = 0.05, seed: int
) -> NDArray[np.int32]:
    """Gives every client a majority class and a share ``similarity`` of everything.

    Examples are dealt in the order of the data, each with a uniform draw. If the draw is at most
    ``similarity``, the example goes to a random client. Otherwise it goes to the client of its
    class that owns the fewest examples so far, the lowest id on ties. With more clients than
    classes, the clients of group c of `contiguous_groups` own class c; otherwise client ``c mod N``
    owns it. Volumes come out nearly equal on balanced data.

    Args:
      labels: int[E], class of each example, numbered from 0.
      num_clients: N.
      similarity: share of the examples that are spread at random, in [0, 1].
      seed: integer in ``[0, 2**32)``. One uniform per example is drawn first, then one client.

    Returns:
      Owner of each example, int32[E].

    Raises:
      ValueError: if an argument is out of range, or none of 100 draws gives every client an
        example.

    Example:
      >>> from fedjax_links import partition
      >>> print(partition.similarity([0, 1, 0, 1], num_clients=2, similarity=0.0, seed=0))
      [0 1 0 1]

    References:
      Wang and Ji, A unified analysis of federated learning with arbitrary client participation,
      NeurIPS 2022, appendix and released code (250 clients, similarity 5 %).
    """
    labels, rng = prepare(labels, num_clients, seed)
    checks.number_within('similarity', similarity, 0, 1)
    num_classes = int(labels.max()) + 1
    group = contiguous_groups(num_clients, num_groups=min(num_classes, num_clients))
    owners = [np.flatnonzero(group == c % num_clients) for c in range(num_classes)]

    def draw() -> NDArray[np.int32]:
        spread = rng.random(labels.size) <= similarity
        target = rng.integers(num_clients, size=labels.size)
        clients = np.where(spread, target, -1).astype(np.int32)
        sizes = np.zeros(num_clients, np.int64)
        for example, label in enumerate(labels):
            if clients[example] < 0:
                clients[example] = owners[label][np.argmin(sizes[owners[label]])]
            sizes[clients[example]] += 1
        return clients

    return draw_until_all_own(num_clients, draw)


def prepare(
    labels: ArrayLike, num_clients: int, seed: int
) -> tuple[NDArray[np.int64], np.random.Generator]:
    """Checks labels and the number of clients; returns the labels and the seed's generator."""
    classes = columns.class_ids('labels', labels)
    checks.static_int('num_clients', num_clients, maximum=classes.size)
    return classes, generator(seed)


def generator(seed: int, *parts: int) -> np.random.Generator:
    """Returns the random generator of a seed's partitions, or of a part of them."""
    return numpy_random.generator(seed, 'PA', *parts)


def draw_until_all_own(
    num_clients: int, draw: Callable[[], NDArray[np.int32]]
) -> NDArray[np.int32]:
    """Draws partitions until every client owns an example, at most `MAX_TRIES` times.

    The result has the distribution of the partition given that all clients own something. A first
    draw in which they do is returned as it is.

    Args:
      num_clients: N, at most E.
      draw: returns a fresh partition int32[E].

    Returns:
      The first partition in which every client owns an example, int32[E].

    Raises:
      ValueError: if no draw gives every client an example.
    """
    for _ in range(MAX_TRIES):
        clients = draw()
        if np.bincount(clients, minlength=num_clients).all():
            return clients
    requirement = f'leave every client an example in one of {MAX_TRIES} draws'
    raise errors.invalid('num_clients', requirement, num_clients)


class Division(NamedTuple):
    """Holds the rows in the data of examples to train on and of examples held out.

    Attributes:
      rows: int64[E], trained on.
      clients: int32[E], the clients that own these rows, from 0 to N - 1.
      held_rows: int64[H], held out.
      held_clients: int32[H], the owners of the rows held out; N and above are clients that do not
        train.
      numbers: int32[M], for each owner in the data, the number of its client, or -1 if it is left
        out.
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
      num_clients: how many owners are chosen, including held-out clients; None for all.
      min_examples: owners with fewer are left out.
      max_examples: the most examples of an owner that are used, at least 1; None for all.
      holdout_clients: how many clients do not train: a number from 1, or a share below 1 that is
        rounded. All their examples are held out.
      holdout_examples: fraction in [0, 1] of the examples of each client that trains, rounded,
        which is held out. One example at least is left to train on. A warning counts clients
        without a test example.
      seed: integer in ``[0, 2**32)``.

    Returns:
      The division. Clients that train are numbered first, in the order of the owners.

    Raises:
      ValueError: if a number is out of range, too few owners have enough examples, no client is
        left to train, or a positive share holds out nothing.
    """
    owners = checks.ids('owners', owners)
    checks.static_int('min_examples', min_examples)
    if max_examples is not None:
        checks.static_int('max_examples', max_examples)
    checks.number_within('holdout_examples', holdout_examples, 0, 1)
    counts = np.bincount(owners)
    rng = generator(seed, _HOLDOUTS)
    chosen = np.flatnonzero(counts >= min_examples)
    if not chosen.size:
        requirement = f'be at most {counts.max()}, the most that a client has'
        raise errors.invalid('min_examples', requirement, min_examples)
    if num_clients is not None:
        checks.static_int('num_clients', num_clients)
        if num_clients > chosen.size:
            requirement = (
                f'be at most {chosen.size}, '
                f'the owners of {min_examples} examples or more'
            )
            raise errors.invalid('num_clients', requirement, num_clients)
        chosen = np.sort(rng.permutation(chosen)[:num_clients])
    num_held_out = _num_held_out(holdout_clients, chosen.size)
    held_out = np.sort(rng.permutation(chosen)[:num_held_out])
    training = np.setdiff1d(chosen, held_out)
    in_order = np.concatenate([training, held_out])
    numbers = np.full(counts.size, -1, np.int32)
    numbers[in_order] = np.arange(in_order.size)
    clients = numbers[owners]
    # Rank the examples of each owner at random: the first ones train, the next are held out.
    order = np.lexsort((rng.random(owners.size), owners))
    first_of_owner = np.repeat(np.cumsum(counts) - counts, counts)
    ranks = np.empty_like(owners)
    ranks[order] = np.arange(owners.size) - first_of_owner
    sizes = counts if max_examples is None else np.minimum(counts, max_examples)
    num_test = np.minimum(np.rint(holdout_examples * sizes), sizes - 1).astype(np.int64)
    if holdout_examples and not num_test[training].any():
        largest = sizes[training].max()
        requirement = f'hold out an example: clients have at most {largest}'
        raise errors.invalid('holdout_examples', requirement, holdout_examples)
    num_untested = np.count_nonzero(num_test[training] == 0)
    if holdout_examples and num_untested:
        warnings.warn(
            f'{num_untested} of {training.size} clients hold out no example at '
            f'`holdout_examples` {holdout_examples:g}, and are not tested',
            stacklevel=2,
        )
    num_test[held_out] = sizes[held_out]
    is_used = (clients >= 0) & (ranks < sizes[owners])
    is_held = ranks >= (sizes - num_test)[owners]
    rows = np.flatnonzero(is_used & ~is_held)
    held_rows = np.flatnonzero(is_used & is_held)
    return Division(rows, clients[rows], held_rows, clients[held_rows], numbers)


def _num_held_out(holdout_clients: float, num_clients: int) -> int:
    """Returns how many clients are held out: a number, or a fraction below 1 of them."""
    checks.number_within('holdout_clients', holdout_clients, 0, num_clients)
    is_fraction = holdout_clients < 1
    if not is_fraction and holdout_clients != int(holdout_clients):
        raise errors.invalid(
            'holdout_clients', 'be a number or a share below 1', holdout_clients
        )
    if is_fraction:
        num_held_out = round(holdout_clients * num_clients)
    else:
        num_held_out = int(holdout_clients)
    if num_held_out >= num_clients:
        requirement = f'leave at least one of {num_clients} clients to train'
        raise errors.invalid('holdout_clients', requirement, holdout_clients)
    if holdout_clients and not num_held_out:
        requirement = f'hold out at least one of {num_clients} clients'
        raise errors.invalid('holdout_clients', requirement, holdout_clients)
    return num_held_out
