"""Partitions by rule: no skew, sorted shards, a block of clients per class; and client groups."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors
from fedjax_links.problems import draws

STREAM = 'PA'
MAX_TRIES = 100


def contiguous_groups(num_clients: int, *, num_groups: int) -> NDArray[np.int32]:
    """Puts clients into runs of consecutive ids of nearly equal length.

    Group g is ``rint(g N / G) <= client < rint((g + 1) N / G)``, halves to even. It is the form
    that the group-wise participation patterns take: 250 clients in 5 groups, 100 in 20.

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
      num_clients: how many there are.

    Returns:
      The owners, int32[E].

    Raises:
      ValueError: if a number is no owner's.
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
    """
    labels, rng = begin(labels, num_clients, seed)
    return rng.permutation(np.arange(labels.size) % num_clients).astype(np.int32)


def label_shards(
    labels: ArrayLike, *, num_clients: int, shards_per_client: int = 2, seed: int
) -> NDArray[np.int32]:
    """Sorts by label, cuts into shards of equal length, gives each client some at random.

    Ties keep the order of the data. A client holds few classes: at most ``shards_per_client`` when
    no shard straddles two classes. Shards, of which there are N S, differ in length by at most one.

    Args:
      labels: int[E], class of each example, numbered from 0.
      num_clients: N.
      shards_per_client: S, with N S at most E.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E]. No client is empty, sizes differ by at most S.

    Raises:
      ValueError: if an argument is out of range.

    References:
      McMahan et al., Communication-efficient learning of deep networks from decentralized data,
      2017, section 3.
    """
    labels, rng = begin(labels, num_clients, seed)
    checks.static_int('shards_per_client', shards_per_client, maximum=labels.size // num_clients)
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

    In the order of the data, an example goes to a uniformly random client if its uniform draw is at
    most ``similarity``; otherwise to the client of its class that owns the fewest examples so far,
    the lowest id on ties. With more clients than classes, group c of `contiguous_groups` owns class
    c; otherwise client ``c mod N`` does. Volumes come out nearly equal on balanced data.

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

    References:
      Wang and Ji, A unified analysis of federated learning with arbitrary client participation,
      NeurIPS 2022, appendix and released code (250 clients, similarity 5 %).
    """
    labels, rng = begin(labels, num_clients, seed)
    checks.within('similarity', similarity, 0, 1)
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

    return until_all_own(num_clients, draw)


def begin(
    labels: ArrayLike, num_clients: int, seed: int
) -> tuple[NDArray[np.int64], np.random.Generator]:
    """The labels, for at most as many clients, and the partitions' stream of a seed; checked."""
    classes = checks.ids('labels', labels)
    checks.static_int('num_clients', num_clients, maximum=classes.size)
    return classes, draws.generator(seed, STREAM)


def until_all_own(num_clients: int, draw: Callable[[], NDArray[np.int32]]) -> NDArray[np.int32]:
    """Draws partitions until every client owns an example, at most `MAX_TRIES` times.

    A first draw that satisfies is returned as it is; otherwise the result follows the law of the
    partition given that all clients own something.

    Args:
      num_clients: N, at most E.
      draw: returns a fresh partition int32[E].

    Returns:
      The first satisfying partition, int32[E].

    Raises:
      ValueError: if no draw satisfies.
    """
    for _ in range(MAX_TRIES):
        clients = draw()
        if np.bincount(clients, minlength=num_clients).all():
            return clients
    requirement = f'leave every client an example in one of {MAX_TRIES} draws'
    raise errors.invalid('num_clients', requirement, num_clients)
