"""Partitions by rule: no skew, sorted shards, a block of clients per class; and client groups."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks
from fedjax_links.problems.partition import draws


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
    num_examples = checks.ids('labels', labels).size
    checks.static_int('num_clients', num_clients, maximum=num_examples)
    dealt = np.arange(num_examples) % num_clients
    return draws.generator(seed).permutation(dealt).astype(np.int32)


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
    labels = checks.ids('labels', labels)
    checks.static_int('num_clients', num_clients, maximum=labels.size)
    checks.static_int('shards_per_client', shards_per_client, maximum=labels.size // num_clients)
    num_shards = num_clients * shards_per_client
    owner = draws.generator(seed).permutation(num_shards) // shards_per_client
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
    labels = checks.ids('labels', labels)
    checks.static_int('num_clients', num_clients)
    checks.within('similarity', similarity, 0, 1)
    rng = draws.generator(seed)
    num_classes = int(labels.max()) + 1
    if num_clients > num_classes:
        group = contiguous_groups(num_clients, num_groups=num_classes)
        owners = [np.flatnonzero(group == c) for c in range(num_classes)]
    else:
        owners = [np.array([c % num_clients]) for c in range(num_classes)]

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

    return draws.until_all_own(num_clients, labels.size, draw)
