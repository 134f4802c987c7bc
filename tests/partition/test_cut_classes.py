"""Partitions that cut each class at Dirichlet shares, beside plain loops."""

import numpy as np
import pytest

from fedjax_links import partition
from fedjax_links.core import numpy_random

LABELS = np.random.default_rng(1).integers(
    7, size=1003
)  # neither balanced nor divisible


def cut_unequal(labels, rng, num_clients, alpha):
    """One draw of `dirichlet_unequal`: shares by client."""
    shares = rng.dirichlet(np.full(7, alpha), num_clients)
    clients = np.full(labels.size, -1)
    for c in range(7):
        members = [e for e in range(labels.size) if labels[e] == c]
        start = 0
        for i in range(num_clients):
            stop = round(len(members) * sum(shares[: i + 1, c]) / sum(shares[:, c]))
            for e in members[start:stop]:
                clients[e] = i
            start = stop
    return clients


def cut_per_class(labels, rng, num_clients, alpha):
    """One draw of `dirichlet_per_class`: shares by class."""
    shares = rng.dirichlet(np.full(num_clients, alpha), 7)
    clients = np.full(labels.size, -1)
    for c in range(7):
        members = [e for e in range(labels.size) if labels[e] == c]
        stops = [
            int(len(members) * sum(shares[c, : i + 1])) for i in range(num_clients - 1)
        ]
        stops.append(len(members))
        for i, (start, stop) in enumerate(zip([0, *stops[:-1]], stops, strict=True)):
            for e in members[start:stop]:
                clients[e] = i
    return clients


@pytest.mark.parametrize('num_clients', [1, 3, 25])
@pytest.mark.parametrize('alpha', [0.1, 1.0])
@pytest.mark.parametrize(
    'rule, cut',
    [
        (partition.dirichlet_unequal, cut_unequal),
        (partition.dirichlet_per_class, cut_per_class),
    ],
)
def test_classes_are_cut_until_each_client_owns_an_example(
    rule, cut, num_clients, alpha
):
    rng = numpy_random.generator(6, 'PA')
    expected = np.empty(0)
    while set(expected.tolist()) != set(range(num_clients)):
        expected = cut(LABELS, rng, num_clients, alpha)
    clients = rule(LABELS, num_clients=num_clients, alpha=alpha, seed=6)
    np.testing.assert_array_equal(clients, expected)


@pytest.mark.parametrize('alpha', [1e-300, 1e-5])
def test_dirichlet_unequal_gives_a_class_to_who_wants_it_most(alpha):
    # Though hardly anybody does: of 3 clients with one class each, 7 of 10 classes are unwanted.
    labels = np.repeat(np.arange(10), 40)
    shares = partition.dirichlet_shares(3, 10, alpha=alpha, seed=1)
    clients = partition.dirichlet_unequal(labels, num_clients=3, alpha=alpha, seed=1)
    owners = [np.unique(clients[labels == c]) for c in range(10)]
    assert [examples.size for examples in owners] == [1] * 10
    expected = np.flatnonzero(shares.max(axis=0) > 0.9)
    assert [int(owners[c][0]) for c in expected] == shares.argmax(axis=0)[
        expected
    ].tolist()


@pytest.mark.parametrize(
    'rule, cut, alpha',
    [
        (partition.dirichlet_unequal, cut_unequal, 0.3),
        (partition.dirichlet_per_class, cut_per_class, 2.0),
    ],
)
def test_partitions_are_redrawn_only_where_a_client_owns_nothing(rule, cut, alpha):
    labels = LABELS[:60]
    everybody = set(range(20))
    remaining = []
    for seed in range(40):
        first = cut(labels, numpy_random.generator(seed, 'PA'), 20, alpha)
        clients = rule(labels, num_clients=20, alpha=alpha, seed=seed)
        assert set(clients.tolist()) == everybody
        remaining.append(set(first.tolist()) == everybody)
        assert np.array_equal(first, clients) == remaining[-1]
    assert 0 < sum(remaining) < 40
