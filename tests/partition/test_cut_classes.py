"""Partitions that cut each class among clients: plain loops, invariants, and laws with z-tests."""

import numpy as np
import pytest

from fedjax_links import partition
from fedjax_links.core import numpy_random

Z = 4.5  # two-sided: a false alarm in 7e-6 of comparisons
# Neither balanced nor divisible.
LABELS = np.random.default_rng(1).integers(7, size=1003)


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
def test_dirichlet_unequal_gives_a_class_to_its_largest_share(alpha):
    """Also where all shares of a class are tiny: three clients have nearly one class each."""
    labels = np.repeat(np.arange(10), 40)
    shares = partition.dirichlet_shares(3, 10, alpha=alpha, seed=1)
    clients = partition.dirichlet_unequal(labels, num_clients=3, alpha=alpha, seed=1)
    owners = [np.unique(clients[labels == c]) for c in range(10)]
    assert [examples.size for examples in owners] == [1] * 10
    for c in np.flatnonzero(shares.max(axis=0) > 0.9):
        assert owners[c][0] == shares[:, c].argmax()


@pytest.mark.parametrize(
    'rule, cut, alpha',
    [
        (partition.dirichlet_unequal, cut_unequal, 0.3),
        (partition.dirichlet_per_class, cut_per_class, 2.0),
    ],
)
def test_partitions_are_redrawn_only_where_a_client_owns_nothing(rule, cut, alpha):
    labels = LABELS[:60]
    all_clients = set(range(20))
    num_complete = 0
    for seed in range(40):
        first = cut(labels, numpy_random.generator(seed, 'PA'), 20, alpha)
        clients = rule(labels, num_clients=20, alpha=alpha, seed=seed)
        assert set(clients.tolist()) == all_clients
        is_complete = set(first.tolist()) == all_clients
        assert np.array_equal(first, clients) == is_complete
        num_complete += is_complete
    assert 0 < num_complete < 40


@pytest.mark.parametrize('num_clients, k', [(1, 7), (2, 4), (10, 1), (10, 3), (33, 6)])
def test_pathological_clients_hold_exactly_k_classes(num_clients, k):
    owners = partition.pathological(
        LABELS, num_clients=num_clients, classes_per_client=k, seed=2
    )
    table = np.zeros((num_clients, 7), int)
    np.add.at(table, (owners, LABELS), 1)
    assert ((table > 0).sum(axis=1) == k).all()
    holders = (table > 0).sum(axis=0)
    assert holders.max() - holders.min() <= 1
    for parts in table.T:
        held = parts[parts > 0]
        assert held.max() - held.min() <= 1
    np.testing.assert_array_equal(table.sum(axis=0), np.bincount(LABELS))


def test_pathological_classes_of_a_client_are_uniform():
    """400 partitions of 5 clients, 2 of 5 classes each: each of ten pairs one time in ten."""
    labels = np.arange(50) % 5
    pairs = np.zeros((5, 10))
    names = [(a, b) for a in range(5) for b in range(a + 1, 5)]
    for seed in range(400):
        owners = partition.pathological(labels, num_clients=5, seed=seed)
        for client in range(5):
            held = tuple(np.unique(labels[owners == client]).tolist())
            pairs[client, names.index(held)] += 1
    deviation = np.sqrt(400 * 0.1 * 0.9)
    assert np.abs(pairs - 40).max() < Z * deviation


def test_pathological_skips_classes_without_examples():
    owners = partition.pathological([0, 5, 5, 0], num_clients=2, seed=0)
    assert np.bincount(owners).tolist() == [2, 2]


@pytest.mark.parametrize('num_clients', [2, 10, 30])
@pytest.mark.parametrize('alpha', [1e-5, 0.1, 1.0])
def test_a_client_at_the_mean_volume_gets_no_further_class(num_clients, alpha):
    """So no client exceeds the mean volume by more than a class."""
    labels = np.random.default_rng(3).integers(100, size=3000)
    owners = partition.dirichlet_capped(
        labels, num_clients=num_clients, alpha=alpha, seed=1
    )
    volumes = np.zeros(num_clients)
    for c in range(100):
        parts = np.bincount(owners[labels == c], minlength=num_clients)
        assert not parts[volumes >= 3000 / num_clients].any()
        volumes += parts
    assert volumes.sum() == 3000


def test_below_the_cap_shares_have_the_law_of_dirichlet():
    """The first class is dealt before anyone can be at the cap, in shares of Dir(0.5 1)."""
    labels = np.repeat([0, 1], [1000, 9000])
    shares = []
    for seed in range(2000):
        owners = partition.dirichlet_capped(labels, num_clients=5, alpha=0.5, seed=seed)
        shares.append(np.bincount(owners[labels == 0], minlength=5) / 1000)
    squares = np.square(shares)
    expected = (
        0.5 * 1.5 / (2.5 * 3.5)
    )  # E p_i^2 = a (a + 1) / (5 a (5 a + 1)) with a = 0.5
    errors = squares.std(axis=0) / np.sqrt(2000)
    # Cutting at whole examples shifts a square by 1 / 1000 at most.
    assert (np.abs(squares.mean(axis=0) - expected) < Z * errors + 2e-3).all()
