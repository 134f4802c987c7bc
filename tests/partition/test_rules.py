"""Partitions: exact invariants, the papers' rules as plain loops, and laws with z-tests.

Statistical tests use fixed seeds; had these been drawn afresh, each would raise a false alarm with
the probability that it states (z = 4.5, two-sided: 7e-6 per comparison).
"""

import numpy as np
import pytest

from fedjax_links import partition
from fedjax_links.core import numpy_random

Z = 4.5
# Neither balanced nor divisible.
LABELS = np.random.default_rng(1).integers(7, size=1003)

PARTITIONERS = {
    'iid': lambda n, seed: partition.iid(LABELS, num_clients=n, seed=seed),
    'dirichlet': lambda n, seed: partition.dirichlet(
        LABELS, num_clients=n, alpha=0.1, seed=seed
    ),
    'dirichlet_unequal': lambda n, seed: partition.dirichlet_unequal(
        LABELS, num_clients=n, alpha=0.3, seed=seed
    ),
    'dirichlet_per_class': lambda n, seed: partition.dirichlet_per_class(
        LABELS, num_clients=n, alpha=0.5, seed=seed
    ),
    'dirichlet_capped': lambda n, seed: partition.dirichlet_capped(
        LABELS, num_clients=n, alpha=0.5, seed=seed
    ),
    'pathological': lambda n, seed: partition.pathological(
        LABELS, num_clients=n, classes_per_client=7 if n == 1 else 4, seed=seed
    ),
    'hierarchical_dirichlet': lambda n, seed: partition.hierarchical_dirichlet(
        LABELS, num_clients=n, coarse=[0, 0, 1, 2, 1, 0, 1], beta=1.0, seed=seed
    ),
    'label_shards': lambda n, seed: partition.label_shards(
        LABELS, num_clients=n, shards_per_client=3, seed=seed
    ),
    'similarity': lambda n, seed: partition.similarity(
        LABELS, num_clients=n, seed=seed
    ),
}


@pytest.mark.parametrize('num_clients', [1, 5, 7, 20])
@pytest.mark.parametrize('name', PARTITIONERS)
def test_every_example_has_one_owner_and_every_client_an_example(name, num_clients):
    clients = PARTITIONERS[name](num_clients, 3)
    assert clients.shape == LABELS.shape
    assert clients.dtype == np.int32
    assert set(clients.tolist()) == set(range(num_clients))


@pytest.mark.parametrize('name', PARTITIONERS)
def test_seed_decides_everything(name):
    first = PARTITIONERS[name](20, 0)
    again = PARTITIONERS[name](20, 0)
    other = PARTITIONERS[name](20, 1)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_iid_volumes_are_equal():
    sizes = np.bincount(partition.iid(LABELS, num_clients=20, seed=0), minlength=20)
    np.testing.assert_array_equal(sizes, [51] * 3 + [50] * 17)


@pytest.mark.parametrize(
    'num_clients, similarity', [(250, 0.05), (21, 0.3), (10, 0.05), (3, 0.2)]
)
def test_similarity_equals_the_plain_loop(num_clients, similarity):
    labels = np.random.default_rng(3).permutation(np.repeat(np.arange(10), 300))
    rng = numpy_random.generator(8, 'PA')
    uniform = rng.random(3000)
    target = rng.integers(num_clients, size=3000)
    owned_class = {}
    if num_clients > 10:
        for n in range(num_clients):
            for c in range(10):
                low = int(np.round(c * num_clients / 10))
                high = int(np.round((c + 1) * num_clients / 10))
                if low <= n < high:
                    owned_class[n] = c
    sizes = [0] * num_clients
    expected = []
    for e in range(3000):
        if uniform[e] <= similarity:
            owner = int(target[e])
        elif num_clients > 10:
            mine = [n for n in range(num_clients) if owned_class[n] == labels[e]]
            owner = min(mine, key=lambda n: (sizes[n], n))
        else:
            owner = int(labels[e]) % num_clients
        sizes[owner] += 1
        expected.append(owner)
    clients = partition.similarity(
        labels, num_clients=num_clients, similarity=similarity, seed=8
    )
    np.testing.assert_array_equal(clients, expected)


@pytest.mark.statistical
def test_similarity_statement_of_wang_and_ji():
    # 250 clients of 24 examples on average: volumes 22..26. A client left that range once in
    # 50 000; were it once in 10 000, 6 in 5000 would be a false alarm of 1.5e-5. An example stays
    # with its class unless it is spread (5 %) to one of the 9/10 of the clients that own
    # another class: share 0.955.
    labels = np.random.default_rng(4).permutation(np.repeat(np.arange(10), 600))
    class_of_client = np.arange(250) // 25
    num_own_class = 0
    num_outside = 0
    for seed in range(20):
        clients = partition.similarity(labels, num_clients=250, seed=seed)
        sizes = np.bincount(clients, minlength=250)
        num_outside += np.sum((sizes < 22) | (sizes > 26))
        num_own_class += np.sum(class_of_client[clients] == labels)
    assert num_outside <= 5
    draws = 20 * labels.size
    assert abs(num_own_class / draws - 0.955) < Z * np.sqrt(0.955 * 0.045 / draws)


@pytest.mark.statistical
def test_similarity_one_is_uniform():
    clients = partition.similarity(
        np.zeros(20_000, int), num_clients=50, similarity=1.0, seed=0
    )
    chi2 = np.sum((np.bincount(clients, minlength=50) - 400) ** 2 / 400)
    # 49 degrees of freedom: false alarm below 1e-6.
    assert abs(chi2 - 49) < 6.5 * np.sqrt(2 * 49)


@pytest.mark.parametrize('num_clients', [4, 7, 30])
def test_similarity_zero_is_a_class_per_client(num_clients):
    clients = partition.similarity(
        LABELS, num_clients=num_clients, similarity=0.0, seed=1
    )
    held = partition.report(clients, LABELS).classes_held
    assert held.max() == (2 if num_clients == 4 else 1)
    for c in range(7):
        sizes = np.bincount(clients[c == LABELS])
        assert np.ptp(sizes[sizes > 0]) <= 1


def test_label_shards_on_an_instance_counted_by_hand():
    # Sorted: examples 1 3 | 6 2 | 5 0 | 4 7.
    labels = np.array([2, 0, 1, 0, 2, 1, 0, 2])
    clients = partition.label_shards(labels, num_clients=2, shards_per_client=2, seed=0)
    shards = clients[[[1, 3], [6, 2], [5, 0], [4, 7]]]
    np.testing.assert_array_equal(shards[:, 0], shards[:, 1])
    np.testing.assert_array_equal(np.sort(shards[:, 0]), [0, 0, 1, 1])


def test_label_shards_volumes_and_classes():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 60))
    clients = partition.label_shards(
        labels, num_clients=20, shards_per_client=2, seed=0
    )
    table = partition.report(clients, labels)
    np.testing.assert_array_equal(table.counts, np.full(20, 30))
    assert table.classes_held.max() == 2
    assert table.classes_held.min() >= 1
    uneven = partition.label_shards(LABELS, num_clients=20, shards_per_client=3, seed=0)
    assert np.ptp(np.bincount(uneven)) <= 3


@pytest.mark.statistical
def test_label_shards_are_dealt_uniformly():
    # Four shards, two clients: shard 0 joins shard 1 in a third of the deals.
    labels = np.arange(4)
    together = [
        len(set(partition.label_shards(labels, num_clients=2, seed=seed)[:2])) == 1
        for seed in range(900)
    ]
    assert abs(np.mean(together) - 1 / 3) < Z * np.sqrt(2 / 9 / 900)


def test_contiguous_groups():
    np.testing.assert_array_equal(
        partition.contiguous_groups(100, num_groups=20), np.arange(100) // 5
    )
    np.testing.assert_array_equal(
        partition.contiguous_groups(250, num_groups=5), np.arange(250) // 50
    )
    # Ends at rint(2.5) = 2, 5, rint(7.5) = 8, 10: halves go to the even number.
    np.testing.assert_array_equal(
        partition.contiguous_groups(10, num_groups=4), [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
    )
    for clients in range(1, 40):
        for groups in range(1, clients + 1):
            sizes = np.bincount(partition.contiguous_groups(clients, num_groups=groups))
            assert sizes.size == groups
            assert sizes.min() >= 1
            assert np.ptp(sizes) <= 2


def test_small_partitions_stay_as_they_are():
    labels = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])
    golden = {
        'iid': partition.iid(labels, num_clients=3, seed=0),
        'dirichlet': partition.dirichlet(labels, num_clients=3, alpha=0.5, seed=0),
        'dirichlet by number': partition.dirichlet(
            labels, num_clients=3, alpha=0.5, order='numbers', seed=0
        ),
        'dirichlet_unequal': partition.dirichlet_unequal(
            labels, num_clients=3, alpha=0.5, seed=0
        ),
        'dirichlet_per_class': partition.dirichlet_per_class(
            labels, num_clients=3, alpha=0.5, seed=0
        ),
        'hierarchical_dirichlet': partition.hierarchical_dirichlet(
            labels, num_clients=3, coarse=[0, 1, 0], order='numbers', seed=0
        ),
        'label_shards': partition.label_shards(labels, num_clients=3, seed=0),
        'similarity': partition.similarity(
            labels, num_clients=3, similarity=0.3, seed=0
        ),
    }
    assert {name: ''.join(map(str, clients)) for name, clients in golden.items()} == {
        'iid': '200112221010',
        'dirichlet': '001121020221',
        'dirichlet by number': '021021012021',
        'dirichlet_unequal': '001021121221',
        'dirichlet_per_class': '010021121222',
        'hierarchical_dirichlet': '012012212010',
        'label_shards': '100100122122',
        'similarity': '012212012212',
    }
