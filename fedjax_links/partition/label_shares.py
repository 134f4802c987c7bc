"""Partitions with label skew by Dirichlet draws, as the papers' experiments use them."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors
from fedjax_links.partition.rules import generator, prepare

_Weigh = Callable[[int, NDArray[np.bool_]], NDArray[np.float64]]
"""``(client, bool[C] whether a class has unused examples) -> weights [C]``, 0 if used up."""

# The part of the seed's stream that decides the order in which clients are served.
_ORDER_STREAM = 2
# For smaller alpha, the logarithms of shares are drawn: many shares would be 0 as floats.
SMALL_ALPHA = 0.02

# fmt: off
CIFAR100_COARSE = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)
# fmt: on
"""The superclass of each class of CIFAR-100. Classes and superclasses are numbered by name."""


def dirichlet_shares(
    num_clients: int, num_classes: int, *, alpha: float, seed: int
) -> NDArray[np.float64]:
    """Draws the class shares nu_i ~ Dir(alpha 1) that partitions aim at.

    `dirichlet`, and the first try of `dirichlet_unequal`, aim at exactly these shares, given equal
    ``num_clients``, ``alpha`` and ``seed`` and ``num_classes = max(labels) + 1``. Data are finite,
    so the shares that clients get differ; `class_mix` measures them.

    Args:
      num_clients: N, at least 1.
      num_classes: C, at least 1.
      alpha: concentration, positive: small is one class per client, large is the uniform mix.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Shares float64[N, C], rows sum to one.

    Raises:
      ValueError: if an argument is out of range.
    """
    checks.static_int('num_clients', num_clients)
    checks.static_int('num_classes', num_classes)
    checks.positive_number('alpha', alpha)
    return draw_shares(generator(seed), num_clients, num_classes, alpha)


def dirichlet(
    labels: ArrayLike,
    *,
    num_clients: int,
    alpha: float = 0.1,
    order: str = 'random',
    seed: int,
) -> NDArray[np.int32]:
    """Gives clients equal volumes and Dirichlet class shares.

    Client by client, ``E // N`` labels (one more for the first ``E % N`` clients) are drawn from
    the client's shares nu_i ~ Dir(alpha 1). For each label the client gets a random unused example
    of that class. An exhausted class leaves the shares of all clients, which are renormalised. So
    clients that are served late take what is left. The smaller alpha is, the less the classes of
    the last clients follow their shares. An example has 100 clients, MNIST's class counts and alpha
    0.1. There the total variation between a client's classes and its shares is 0.02 for the first
    50 clients and 0.47 for the last 20 (served by number, ten seeds).

    Args:
      labels: int[E], class of each example, numbered from 0.
      num_clients: N, at most E.
      alpha: concentration, positive: small is one class per client, large is the uniform mix.
      order: the order in which clients are served. With ``'random'`` a client's number says nothing
        about its data. ``'numbers'`` serves clients by number, as before version 0.2.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E]. Sizes differ by at most one.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import partition
      >>> labels = np.arange(60) % 2
      >>> owners = partition.dirichlet(labels, num_clients=3, alpha=0.5, seed=0)
      >>> print(np.bincount(owners), np.bincount(owners, weights=labels))
      [20 20 20] [ 0. 11. 19.]

    References:
      Hsu, Qi and Brown, Measuring the effects of non-identical data distribution for federated
      visual classification, 2019.
    """
    labels, class_sizes, rng = prepare_shares(labels, num_clients, alpha, seed)
    served = _serving_order(order, num_clients, seed)
    weigh = _weigher(rng, num_clients, len(class_sizes), alpha)
    return _deal(rng, labels, served, weigh)


def hierarchical_dirichlet(
    labels: ArrayLike,
    *,
    num_clients: int,
    coarse: Sequence[int] | None = None,
    alpha: float = 0.1,
    beta: float = 10.0,
    order: str = 'random',
    seed: int,
) -> NDArray[np.int32]:
    """Gives clients equal volumes and Dirichlet shares of two levels of classes.

    Client by client, ``E // N`` labels (one more for the first ``E % N`` clients) are drawn. First
    a coarse class is drawn from the client's theta_i ~ Dir(alpha 1). Then a class of this coarse
    class is drawn, from the client's Dir(beta 1) over these classes. For each label the client gets
    a random unused example.

    An exhausted class leaves the shares of its coarse class, which are renormalised. A coarse class
    without classes leaves theta_i in the same way. Clients that are served late take what is left,
    as in `dirichlet`.

    Args:
      labels: int[E], class of each example, numbered from 0.
      num_clients: N, at most E.
      coarse: int[C], the coarse class of each class, numbered from 0; by default the twenty
        superclasses of CIFAR-100.
      alpha: concentration over coarse classes, positive.
      beta: concentration within a coarse class, positive.
      order: as in `dirichlet`.
      seed: integer in ``[0, 2**32)``.

    Returns:
      Owner of each example, int32[E]. Sizes differ by at most one.

    Raises:
      ValueError: if an argument is out of range, or a class has no coarse class.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import partition
      >>> owners = partition.hierarchical_dirichlet(
      ...     np.arange(60) % 4, num_clients=3, coarse=[0, 0, 1, 1], seed=0
      ... )
      >>> print(np.bincount(owners))
      [20 20 20]

    References:
      Reddi et al., Adaptive federated optimization, ICLR 2021, appendix C.1: the Pachinko
      allocation of CIFAR-100.
    """
    labels, class_sizes, rng = prepare_shares(labels, num_clients, alpha, seed)
    num_classes = len(class_sizes)
    checks.positive_number('beta', beta)
    groups = checks.ids('coarse', CIFAR100_COARSE if coarse is None else coarse)
    if len(groups) < num_classes:
        raise errors.invalid(
            'coarse', f'have an entry for each class ({num_classes})', len(groups)
        )
    groups = groups[:num_classes]
    served = _serving_order(order, num_clients, seed)
    weigh_coarse = _weigher(rng, num_clients, int(groups.max()) + 1, alpha)
    members = [groups == group for group in np.unique(groups)]
    weigh_within = [
        _weigher(rng, num_clients, int(is_member.sum()), beta) for is_member in members
    ]

    def weigh(client: int, left: NDArray[np.bool_]) -> NDArray[np.float64]:
        coarse_left = np.bincount(groups, left) > 0
        fine = np.empty(groups.size)
        for is_member, weigh_members in zip(members, weigh_within, strict=True):
            fine[is_member] = weigh_members(client, left[is_member])
        group_total = np.bincount(groups, fine)[groups]
        within = np.divide(fine, group_total, out=fine, where=group_total > 0)
        return weigh_coarse(client, coarse_left)[groups] * within

    return _deal(rng, labels, served, weigh)


def prepare_shares(
    labels: ArrayLike, num_clients: int, alpha: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], np.random.Generator]:
    """Checks arguments; returns labels, the size of each class, and the seed's generator."""
    classes, rng = prepare(labels, num_clients, seed)
    checks.positive_number('alpha', alpha)
    return classes, np.bincount(classes), rng


def _serving_order(order: str, num_clients: int, seed: int) -> NDArray[np.int64]:
    """Returns clients in the order in which they are served, from a random stream of its own."""
    checks.choice('order', order, ('random', 'numbers'))
    if order == 'numbers':
        return np.arange(num_clients)
    return generator(seed, _ORDER_STREAM).permutation(num_clients)


def draw_shares(
    rng: np.random.Generator, rows: int, columns: int, alpha: float
) -> NDArray[np.float64]:
    """Draws rows of Dir(alpha 1)."""
    if alpha >= SMALL_ALPHA:
        return rng.dirichlet(np.full(columns, float(alpha)), rows)
    return np.exp(draw_log_shares(rng, rows, columns, alpha))


def draw_log_shares(
    rng: np.random.Generator, rows: int, columns: int, alpha: float
) -> NDArray[np.float64]:
    """Draws logarithms of rows of Dir(alpha 1).

    A Gamma(alpha) variable is a Gamma(alpha + 1) variable times U^(1 / alpha), U uniform. The
    logarithm of this product does not underflow.
    """
    logs = np.log(rng.standard_gamma(alpha + 1, (rows, columns)))
    logs -= rng.standard_exponential((rows, columns)) / alpha
    logs -= logs.max(axis=1, keepdims=True)
    return logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))


def _weigher(rng: np.random.Generator, rows: int, columns: int, alpha: float) -> _Weigh:
    """Draws rows of Dir(alpha 1) that weigh the remaining classes; not all weights are 0."""
    if alpha >= SMALL_ALPHA:
        smallest = np.finfo(float).smallest_subnormal
        shares = np.maximum(draw_shares(rng, rows, columns, alpha), smallest)

        def weigh_by_share(row: int, left: NDArray[np.bool_]) -> NDArray[np.float64]:
            return np.where(left, shares[row], 0.0)

        return weigh_by_share
    logs = draw_log_shares(rng, rows, columns, alpha)

    def weigh(row: int, left: NDArray[np.bool_]) -> NDArray[np.float64]:
        weights = np.zeros(columns)
        if left.any():
            weights[left] = np.exp(logs[row, left] - logs[row, left].max())
        return weights

    return weigh


def _deal(
    rng: np.random.Generator,
    labels: NDArray[np.int64],
    served: NDArray[np.int64],
    weigh: _Weigh,
) -> NDArray[np.int32]:
    """Deals equal volumes, client by client, of classes drawn while they have unused examples.

    The result has the distribution of one draw at a time. Draws are made in batches: the draws up
    to the first that empties a class are kept, and the rest are drawn again without that class.
    """
    unused = [
        rng.permutation(np.flatnonzero(labels == c)) for c in range(labels.max() + 1)
    ]
    left = np.array([examples.size for examples in unused])
    clients = np.empty(labels.size, np.int32)
    volume, num_larger = divmod(labels.size, served.size)
    for client in served:
        num_missing = volume + 1 if client < num_larger else volume
        while num_missing:
            weights = weigh(client, left > 0)
            draws = rng.choice(left.size, size=num_missing, p=weights / weights.sum())
            counts = np.bincount(draws, minlength=left.size)
            emptied = np.flatnonzero((counts >= left) & (counts > 0))
            # The draw that empties each of these classes.
            last_draws = [np.flatnonzero(draws == c)[left[c] - 1] for c in emptied]
            valid_draws = draws[: min(last_draws, default=num_missing) + 1]
            counts = np.bincount(valid_draws, minlength=left.size)
            for c in np.flatnonzero(counts):
                # The first left[c] examples are unused; the client gets the last of these.
                dealt = unused[c][left[c] - counts[c] : left[c]]
                clients[dealt] = client
            left -= counts
            num_missing -= counts.sum()
    return clients
