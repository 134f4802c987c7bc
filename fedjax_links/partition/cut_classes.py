"""Partitions that cut each class into parts, one for each client that owns some of the class."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors
from fedjax_links.partition.label_shares import (
    SMALL_ALPHA,
    draw_log_shares,
    draw_shares,
    prepare_shares,
)
from fedjax_links.partition.rules import draw_until_all_own, prepare


def pathological(
    labels: ArrayLike, *, num_clients: int, classes_per_client: int = 2, seed: int
) -> NDArray[np.int32]:
    """Gives every client examples of exactly k classes, drawn at random.

    Client by client, the k classes with the fewest owners so far are taken, ties at random. So the
    numbers of owners of two classes differ by at most one. The examples of a class are shuffled and
    split among its owners into parts whose sizes differ by at most one. Volumes are as equal as
    classes are. `label_shards` has equal volumes, but clients may hold fewer classes or more.

    Args:
      labels: int[E], class of each example, numbered from 0; C of them have examples.
      num_clients: N.
      classes_per_client: k, at most C, with N k at least C. No class may have fewer examples than
        owners.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E]. Every client owns an example of each of its k classes.

    Raises:
      ValueError: if an argument is out of range, or a class has too few examples.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import partition
      >>> labels = np.arange(60) % 6
      >>> owners = partition.pathological(
      ...     labels, num_clients=4, classes_per_client=3, seed=0
      ... )
      >>> print(partition.report(owners, labels).classes_held, np.bincount(owners))
      [3 3 3 3] [15 15 15 15]
    """
    labels, rng = prepare(labels, num_clients, seed)
    classes, sizes = np.unique(labels, return_counts=True)
    fewest = math.ceil(classes.size / num_clients)
    checks.static_int(
        'classes_per_client', classes_per_client, minimum=fewest, maximum=classes.size
    )
    owners_by_class: list[list[int]] = [[] for _ in classes]
    for client in range(num_clients):
        num_owners = np.array([len(owners) for owners in owners_by_class])
        order = np.lexsort((rng.random(classes.size), num_owners))
        for index in order[:classes_per_client]:
            owners_by_class[index].append(client)
    clients = np.empty(labels.size, np.int32)
    for label, size, owners in zip(classes, sizes, owners_by_class, strict=True):
        if size < len(owners):
            requirement = f'give class {label} no more owners than its {size} examples'
            raise errors.invalid('num_clients', requirement, num_clients)
        examples = rng.permutation(np.flatnonzero(labels == label))
        shuffled_owners = rng.permutation(owners)
        clients[examples] = shuffled_owners[np.arange(size) % len(owners)]
    return clients


def dirichlet_unequal(
    labels: ArrayLike, *, num_clients: int, alpha: float = 0.1, seed: int
) -> NDArray[np.int32]:
    """Gives clients Dirichlet class shares and whatever volumes these imply.

    With nu_i ~ Dir(alpha 1), the n_c examples of class c, in the order of the data, are cut at
    ``rint(n_c * sum_{j<=i} nu_jc / sum_j nu_jc)``. The code that was released with FedAU, FedPBC
    and FedAWE does the same. FedPBC's paper speaks of equal volumes, which `dirichlet` has.

    Args:
      labels: int[E], class of each example, numbered from 0.
      num_clients: N.
      alpha: concentration, positive: small is one class per client, large is the uniform mix.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E].

    Raises:
      ValueError: if an argument is out of range, or none of 100 draws gives every client an
        example.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import partition
      >>> labels = np.arange(60) % 2
      >>> owners = partition.dirichlet_unequal(labels, num_clients=3, alpha=0.5, seed=0)
      >>> counts = np.bincount(owners)
      >>> print(counts.sum(), counts.size, counts.all())
      60 3 True

    References:
      Xiang et al., FedPBC, 2024 (journal version), released code.
    """
    labels, class_sizes, rng = prepare_shares(labels, num_clients, alpha, seed)

    def draw() -> NDArray[np.int32]:
        if alpha >= SMALL_ALPHA:
            shares = draw_shares(rng, num_clients, len(class_sizes), alpha)
        else:
            # A class with tiny shares for all clients goes to the clients with the largest of them.
            logs = draw_log_shares(rng, num_clients, len(class_sizes), alpha)
            shares = np.exp(logs - logs.max(axis=0))
        ends = np.cumsum(shares, axis=0)
        return _cut(labels, np.rint(class_sizes * ends / ends[-1]))

    return draw_until_all_own(num_clients, draw)


def dirichlet_per_class(
    labels: ArrayLike, *, num_clients: int, alpha: float = 0.5, seed: int
) -> NDArray[np.int32]:
    """Deals each class out to all clients in Dirichlet shares.

    For every class c one draw pi_c ~ Dir(alpha 1) over the CLIENTS; the n_c examples of the class,
    in the order of the data, are cut at ``floor(n_c * sum_{j<=i} pi_cj)``. Volumes are unequal.

    Args:
      labels: int[E], class of each example, numbered from 0.
      num_clients: N.
      alpha: concentration, positive: small is one client per class, large is equal shares.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E].

    Raises:
      ValueError: if an argument is out of range, or none of 100 draws gives every client an
        example.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import partition
      >>> labels = np.arange(60) % 2
      >>> owners = partition.dirichlet_per_class(labels, num_clients=3, alpha=0.5, seed=0)
      >>> counts = np.bincount(owners)
      >>> print(counts.sum(), counts.size, counts.all())
      60 3 True

    References:
      Sun et al., ICLR 2025, released notebook (alpha 0.5, 100 clients).
    """
    labels, class_sizes, rng = prepare_shares(labels, num_clients, alpha, seed)

    def draw() -> NDArray[np.int32]:
        shares = draw_shares(rng, len(class_sizes), num_clients, alpha)
        ends = np.cumsum(shares, axis=1).T
        return _cut(labels, np.floor(class_sizes * ends))

    return draw_until_all_own(num_clients, draw)


def dirichlet_capped(
    labels: ArrayLike, *, num_clients: int, alpha: float = 0.5, seed: int
) -> NDArray[np.int32]:
    """Deals each class out in Dirichlet shares to the clients below the mean volume.

    For every class c one draw pi_c ~ Dir(alpha 1) over the clients, as in `dirichlet_per_class`.
    Clients that own ``E / N`` examples or more by then get none of class c, and the other shares
    are renormalised. The n_c examples of the class, in a random order, are cut at ``floor(n_c *
    sum_{j<=i} pi_cj)``. So volumes differ less than without the cap. A client exceeds ``E / N`` by
    one class at most.

    Args:
      labels: int[E], class of each example, numbered from 0.
      num_clients: N.
      alpha: concentration, positive: small is one client per class, large is equal shares.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E].

    Raises:
      ValueError: if an argument is out of range, or none of 100 draws gives every client an
        example.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import partition
      >>> labels = np.arange(60) % 2
      >>> owners = partition.dirichlet_capped(labels, num_clients=3, alpha=0.5, seed=0)
      >>> counts = np.bincount(owners)
      >>> print(counts.sum(), counts.size, counts.all())
      60 3 True

    References:
      Yurochkin et al., Bayesian nonparametric federated learning of neural networks, 2019; Li et
      al., Federated learning on non-IID data silos, 2022, whose released code has the cap. That
      code also redraws until each client owns ten examples; here one example is enough.
    """
    labels, class_sizes, rng = prepare_shares(labels, num_clients, alpha, seed)

    def draw() -> NDArray[np.int32]:
        clients = np.empty(labels.size, np.int32)
        volumes = np.zeros(num_clients, np.int64)
        for c, size in enumerate(class_sizes):
            is_open = volumes * num_clients < labels.size
            logs = draw_log_shares(rng, 1, num_clients, alpha)[0]
            open_logs = np.where(is_open, logs, -np.inf)
            ends = np.cumsum(np.exp(open_logs - open_logs.max()))
            stops = np.floor(size * ends / ends[-1])
            # The last open client has the rest of the class.
            last = np.flatnonzero(is_open)[-1]
            stops[last:] = size
            examples = rng.permutation(np.flatnonzero(labels == c))
            owners = np.searchsorted(stops, np.arange(size), side='right')
            clients[examples] = owners
            volumes += np.bincount(owners, minlength=num_clients)
        return clients

    return draw_until_all_own(num_clients, draw)


def _cut(labels: NDArray[np.int64], stops: NDArray[np.float64]) -> NDArray[np.int32]:
    """Gives client i the examples of class c, in the order of the data, up to ``stops[i, c]``.

    Args:
      labels: int[E].
      stops: float64[N, C], non-decreasing in i.
    """
    clients = np.empty(labels.size, np.int32)
    for c, ends in enumerate(stops.T):
        examples = np.flatnonzero(labels == c)
        # The last client has the rest: shares may sum to an ulp less than their total.
        ranks = np.arange(examples.size)
        clients[examples] = np.searchsorted(ends[:-1], ranks, side='right')
    return clients
