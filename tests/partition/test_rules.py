"""Partitions: exact invariants, the papers' rules as plain loops, and laws with z-tests.

Statistical tests use fixed seeds; had these been drawn afresh, each would raise a false alarm with
the probability that it states (z = 4.5, two-sided: 7e-6 per comparison).
"""

import numpy as np
import pytest

from fedjax_links import partition
from fedjax_links.core import numpy_random
from fedjax_links.partition import label_shares

Z = 4.5
LABELS = np.random.default_rng(1).integers(
    7, size=1003
)  # neither balanced nor divisible

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
    first, again, other = (PARTITIONERS[name](20, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize('num_clients', [1, 4, 20, 1003])
@pytest.mark.parametrize('alpha', [1e-300, 1e-3, 0.1, 1.0, 1e6])
def test_dirichlet_volumes_are_equal_at_any_alpha(num_clients, alpha):
    clients = partition.dirichlet(LABELS, num_clients=num_clients, alpha=alpha, seed=2)
    sizes = np.bincount(clients, minlength=num_clients)
    expected = np.full(num_clients, 1003 // num_clients)
    expected[: 1003 % num_clients] += 1
    np.testing.assert_array_equal(sizes, expected)


def test_iid_volumes_are_equal():
    sizes = np.bincount(partition.iid(LABELS, num_clients=20, seed=0), minlength=20)
    np.testing.assert_array_equal(sizes, [51] * 3 + [50] * 17)


@pytest.mark.statistical
def test_dirichlet_first_client_has_the_law_of_its_draw():
    # The client that is served first: before any class runs out, counts are multinomial given
    # nu ~ Dir(alpha 1), so
    # E sum_c share_c^2 = 1/q + (1 - 1/q) (1 + alpha) / (1 + C alpha) with q examples each.
    labels, quota, alpha = np.repeat(np.arange(4), 50), 50, 0.3
    draws = []
    for seed in range(600):
        clients = partition.dirichlet(
            labels, num_clients=4, alpha=alpha, order='numbers', seed=seed
        )
        draws.append(np.sum((np.bincount(labels[clients == 0]) / quota) ** 2))
    expected = 1 / quota + (1 - 1 / quota) * (1 + alpha) / (1 + 4 * alpha)
    assert abs(np.mean(draws) - expected) < Z * np.std(draws) / np.sqrt(600)


@pytest.mark.statistical
def test_dirichlet_draws_the_examples_of_a_class_at_random():
    # Who owns the first example of class 0 does not depend on its place in the data: with its
    # class-mates it is exchangeable, so first and last are equally often client 0's.
    labels = np.repeat(np.arange(4), 50)
    owners = np.array(
        [
            partition.dirichlet(labels, num_clients=4, alpha=1.0, seed=s)[[0, 49]]
            for s in range(600)
        ]
    )
    difference = (owners[:, 0] == 0).astype(float) - (owners[:, 1] == 0)
    assert abs(difference.mean()) < Z * difference.std() / np.sqrt(600)
    assert 0 < (owners[:, 0] == 0).mean() < 1


def test_dirichlet_exhausted_classes_are_replaced():
    # One class per client at tiny alpha: with more clients than a class can serve, the stock must
    # run out, and the leftovers still reach everybody.
    labels = np.array([0] * 90 + [1] * 10)
    clients = partition.dirichlet(labels, num_clients=10, alpha=1e-300, seed=0)
    mix = partition.class_mix(clients, labels)
    np.testing.assert_array_equal(np.bincount(clients), [10] * 10)
    np.testing.assert_array_equal(np.sort(mix[:, 1]), [0] * 9 + [1])


@pytest.mark.statistical
def test_dirichlet_draw_that_empties_a_class_counts():
    # The first of four clients draws three labels with P(class 0) = nu, a law symmetric about 1/2,
    # and there are two examples of class 0. It gets both if two draws of three say so: half the
    # time.
    labels, options = np.array([0] * 2 + [1] * 10), {'num_clients': 4, 'alpha': 1.0}
    both = [
        np.all(
            partition.dirichlet(labels, order='numbers', **options, seed=seed)[:2] == 0
        )
        for seed in range(2000)
    ]
    assert abs(np.mean(both) - 0.5) < Z * np.sqrt(0.25 / 2000)


@pytest.mark.statistical
def test_dirichlet_client_whose_class_is_gone_wants_another():
    # Pure wishes: where the first two clients both want class 0, the second finds it empty. It
    # wants one of the two others next, each as often, and takes 10 of class 1, or 5 of class 2.
    labels, got = np.array([0] * 10 + [1] * 15 + [2] * 5), []
    for seed in range(1500):
        wishes = partition.dirichlet_shares(3, 3, alpha=1e-300, seed=seed)
        if wishes[0, 0] == 1 and wishes[1, 0] == 1:
            clients = partition.dirichlet(
                labels, num_clients=3, alpha=1e-300, order='numbers', seed=seed
            )
            assert np.all(clients[:10] == 0)
            got.append(np.sum(clients[10:25] == 1))
    assert len(got) > 100
    assert set(got) == {5, 10}
    assert abs(np.mean(got) - 7.5) < Z * 2.5 / np.sqrt(len(got))


@pytest.mark.parametrize('alpha', [1e-300, 1e-6, 1e-5])
def test_skew_goes_on_growing_where_shares_are_tiny(alpha):
    # A client leaves a class only when that is empty, so every pair of client and class but one
    # fills a client or empties a class: at most N + C - 1 pairs.
    labels = np.repeat(np.arange(10), 60)
    for seed in range(5):
        for order in ('random', 'numbers'):
            clients = partition.dirichlet(
                labels, num_clients=40, alpha=alpha, order=order, seed=seed
            )
            pairs = len(np.unique(np.stack([clients, labels]), axis=1).T)
            assert pairs <= 40 + 10 - 1
        coarse = np.arange(10) // 5
        clients = partition.hierarchical_dirichlet(
            labels, num_clients=40, coarse=coarse, alpha=alpha, beta=1e-6, seed=seed
        )
        assert len(np.unique(np.stack([clients, labels]), axis=1).T) <= 40 + 10 - 1


@pytest.mark.parametrize('name', ['dirichlet', 'hierarchical_dirichlet'])
def test_a_client_s_number_says_nothing_of_its_data(name):
    # Distance from the drawn shares of the last fifth of the clients, less that of the first half:
    # large where clients are served by number, and of either sign where at random.
    labels, apart = np.repeat(np.arange(10), 200), {'random': [], 'numbers': []}
    more = {} if name == 'dirichlet' else {'coarse': np.arange(10), 'beta': 1.0}
    for seed in range(12):
        aim = partition.dirichlet_shares(50, 10, alpha=0.1, seed=seed)
        for order, found in apart.items():
            clients = partition.PARTITIONS[name](
                labels, num_clients=50, alpha=0.1, order=order, seed=seed, **more
            )
            distance = 0.5 * np.abs(partition.class_mix(clients, labels) - aim).sum(
                axis=1
            )
            found.append(distance[40:].mean() - distance[:25].mean())
    means = {order: np.mean(found) for order, found in apart.items()}
    errors = {
        order: np.std(found, ddof=1) / np.sqrt(12) for order, found in apart.items()
    }
    assert means['numbers'] > 0.2
    assert abs(means['random']) < Z * errors['random']


@pytest.mark.statistical
def test_dirichlet_sequential_draws_match_a_loop_in_law():
    # The batched draws against one label at a time, on a stock that always runs out: mean number
    # of examples of class 0 that the second client gets, two-sample z-test.
    labels = np.array([0] * 6 + [1] * 18)
    batched, looped = [], []
    for seed in range(1500):
        clients = partition.dirichlet(
            labels, num_clients=3, alpha=1.0, order='numbers', seed=seed
        )
        batched.append(np.sum(labels[clients == 1] == 0))
        rng = np.random.default_rng(10_000 + seed)
        shares, left = rng.dirichlet([1.0, 1.0], 3), [6, 18]
        for client in range(2):
            got = 0
            for _ in range(8):
                weight = [shares[client][c] if left[c] else 0.0 for c in range(2)]
                c = int(rng.random() >= weight[0] / sum(weight))
                left[c] -= 1
                got += c == 0
        looped.append(got)
    error = np.sqrt((np.var(batched) + np.var(looped)) / 1500)
    assert abs(np.mean(batched) - np.mean(looped)) < Z * error


@pytest.mark.statistical
def test_hierarchical_dirichlet_has_the_law_of_its_draws():
    # Until a class runs out, two of a client's draws agree in the coarse class with probability
    # (1 + alpha) / (1 + G alpha), and then in the class with (1 + beta) / (1 + F beta).
    coarse, quota, alpha, beta = np.array([0, 1, 2, 0, 1, 2]), 50, 0.3, 0.7
    labels, agreed = np.repeat(np.arange(6), 50), []
    for seed in range(600):
        clients = partition.hierarchical_dirichlet(
            labels,
            num_clients=6,
            coarse=coarse,
            alpha=alpha,
            beta=beta,
            order='numbers',
            seed=seed,
        )
        own = labels[clients == 0]
        agreed.append([np.sum(np.bincount(of) ** 2.0) for of in (coarse[own], own)])
    pairs = (np.array(agreed) - quota) / (quota * (quota - 1))
    same_coarse = (1 + alpha) / (1 + 3 * alpha)
    expected = same_coarse * np.array([1, (1 + beta) / (1 + 2 * beta)])
    # At most 50 of a class: a client whose 50 draws are all of one empties it and no more.
    assert np.all(np.abs(pairs.mean(0) - expected) < Z * pairs.std(0) / np.sqrt(600))


def pachinko(rng, coarse, stock, num_clients, alpha, beta):
    """Labels by client, one at a time: a coarse class, then a class of it, until none is left."""
    left, groups = list(stock), sorted(set(coarse))
    counts = np.zeros((num_clients, len(stock)), int)
    for client in range(num_clients):
        root = dict(zip(groups, rng.dirichlet([alpha] * len(groups)), strict=True))
        leaves = {}
        for group in groups:
            own = [c for c, g in enumerate(coarse) if g == group]
            leaves[group] = dict(
                zip(own, rng.dirichlet([beta] * len(own)), strict=True)
            )
        for _ in range(sum(stock) // num_clients):
            open_groups = [g for g in root if any(left[c] for c in leaves[g])]
            weights = np.array([root[g] for g in open_groups])
            group = open_groups[rng.choice(len(open_groups), p=weights / weights.sum())]
            classes = [c for c in leaves[group] if left[c]]
            weights = np.array([leaves[group][c] for c in classes])
            c = classes[rng.choice(len(classes), p=weights / weights.sum())]
            left[c] -= 1
            counts[client, c] += 1
    return counts


@pytest.mark.statistical
def test_hierarchical_dirichlet_matches_a_loop_in_law():
    # On a stock that always runs out: mean counts of every client and class, two-sample z-tests.
    coarse, stock = [0, 0, 1, 1, 1], [3, 9, 6, 2, 4]
    labels = np.repeat(np.arange(5), stock)
    ours, theirs = [], []
    for seed in range(1000):
        clients = partition.hierarchical_dirichlet(
            labels,
            num_clients=3,
            coarse=coarse,
            alpha=1.0,
            beta=2.0,
            order='numbers',
            seed=seed,
        )
        ours.append([np.bincount(labels[clients == i], minlength=5) for i in range(3)])
        theirs.append(
            pachinko(np.random.default_rng(10_000 + seed), coarse, stock, 3, 1.0, 2.0)
        )
    ours, theirs = np.array(ours, float), np.array(theirs, float)
    for power in (1, 2):
        a, b = ours**power, theirs**power
        error = np.sqrt((a.var(0) + b.var(0)) / 1000)
        assert np.all(np.abs(a.mean(0) - b.mean(0)) < Z * error)


CIFAR100 = """
beaver dolphin otter seal whale, aquarium_fish flatfish ray shark trout,
orchid poppy rose sunflower tulip, bottle bowl can cup plate,
apple mushroom orange pear sweet_pepper, clock keyboard lamp telephone television,
bed chair couch table wardrobe, bee beetle butterfly caterpillar cockroach,
bear leopard lion tiger wolf, bridge castle house road skyscraper,
cloud forest mountain plain sea, camel cattle chimpanzee elephant kangaroo,
fox porcupine possum raccoon skunk, crab lobster snail spider worm, baby boy girl man woman,
crocodile dinosaur lizard snake turtle, hamster mouse rabbit shrew squirrel,
maple_tree oak_tree palm_tree pine_tree willow_tree,
bicycle bus motorcycle pickup_truck train, lawn_mower rocket streetcar tank tractor
"""


def test_the_coarse_classes_of_cifar100_are_its_superclasses():
    members = [
        group.split() for group in CIFAR100.split(',')
    ]  # in the superclasses' order
    names = sorted(name for group in members for name in group)
    expected = [
        next(g for g, group in enumerate(members) if name in group) for name in names
    ]
    assert (len(names), list(label_shares.CIFAR100_COARSE)) == (100, expected)
    labels = np.repeat(np.arange(100), 20)
    clients = partition.hierarchical_dirichlet(labels, num_clients=20, seed=0)
    mixes = [
        np.bincount(np.array(expected)[labels[clients == i]]).max() / 100
        for i in range(10)
    ]
    assert np.mean(mixes) > 0.4  # few superclasses per client, at alpha 0.1


@pytest.mark.statistical
def test_dirichlet_shares_second_moment():
    for alpha, classes in [(0.1, 10), (1.0, 3), (30.0, 5)]:
        shares = partition.dirichlet_shares(4000, classes, alpha=alpha, seed=5)
        squares = (shares**2).sum(axis=1)
        expected = (1 + alpha) / (1 + classes * alpha)
        assert abs(squares.mean() - expected) < Z * squares.std() / np.sqrt(4000)


@pytest.mark.statistical
def test_clients_hold_what_the_shares_say():
    labels = np.repeat(np.arange(5), 4000)
    aim = partition.dirichlet_shares(4, 5, alpha=2.0, seed=9)
    clients = partition.dirichlet(
        labels, num_clients=4, alpha=2.0, order='numbers', seed=9
    )
    # The first client's 5000 draws may only meet the end of a class it wants 80 % of.
    assert aim[0].max() < 0.75
    held = partition.class_mix(clients, labels)[0]
    assert np.all(np.abs(held - aim[0]) < Z * np.sqrt(aim[0] * (1 - aim[0]) / 5000))


def test_large_alpha_gives_the_pooled_mix():
    # alpha = 1e6: every share is 1/C up to 1e-3. Equal volumes: the first half of the clients
    # draws 500 labels each, a cell deviates by Z standard errors with probability 7e-6 (x 40).
    labels = np.repeat(np.arange(10), 400)
    mix = partition.class_mix(
        partition.dirichlet(labels, num_clients=8, alpha=1e6, seed=0), labels
    )
    assert np.abs(mix[:4] - 0.1).max() < Z * np.sqrt(0.1 * 0.9 / 500) + 1e-3
    for draw in (partition.dirichlet_unequal, partition.dirichlet_per_class):
        mix = partition.class_mix(
            draw(labels, num_clients=8, alpha=1e6, seed=0), labels
        )
        assert np.abs(mix - 0.1).max() < 5e-3  # cuts are rounded, 1 in 400


def test_small_alpha_concentrates():
    labels = np.repeat(np.arange(10), 400)
    aim = partition.dirichlet_shares(8, 10, alpha=1e-3, seed=4).max(axis=1)
    clients = partition.dirichlet(
        labels, num_clients=8, alpha=1e-3, order='numbers', seed=4
    )
    held = partition.class_mix(clients, labels).max(axis=1)
    # A class of 400 cannot fill a client of 500, so 0.8 is the most that anybody can hold.
    assert aim[0] > 0.99
    assert held[0] == 0.8
    assert held.max() == 0.8


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
    rng, expected = numpy_random.generator(6, 'PA'), np.empty(0)
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
    assert [own.size for own in owners] == [1] * 10
    wanted = np.flatnonzero(shares.max(axis=0) > 0.9)
    assert [int(owners[c][0]) for c in wanted] == shares.argmax(axis=0)[wanted].tolist()


@pytest.mark.parametrize(
    'num_clients, similarity', [(250, 0.05), (21, 0.3), (10, 0.05), (3, 0.2)]
)
def test_similarity_equals_the_plain_loop(num_clients, similarity):
    labels = np.random.default_rng(3).permutation(np.repeat(np.arange(10), 300))
    rng = numpy_random.generator(8, 'PA')
    uniform, target = rng.random(3000), rng.integers(num_clients, size=3000)
    owned_class = {}
    if num_clients > 10:
        for n in range(num_clients):
            for c in range(10):
                low, high = (int(np.round(k * num_clients / 10)) for k in (c, c + 1))
                if low <= n < high:
                    owned_class[n] = c
    sizes, expected = [0] * num_clients, []
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
    own = np.arange(250) // 25
    kept = outside = 0
    for seed in range(20):
        clients = partition.similarity(labels, num_clients=250, seed=seed)
        sizes = np.bincount(clients, minlength=250)
        outside += np.sum((sizes < 22) | (sizes > 26))
        kept += np.sum(own[clients] == labels)
    assert outside <= 5
    draws = 20 * labels.size
    assert abs(kept / draws - 0.955) < Z * np.sqrt(0.955 * 0.045 / draws)


@pytest.mark.statistical
def test_similarity_one_is_uniform():
    clients = partition.similarity(
        np.zeros(20_000, int), num_clients=50, similarity=1.0, seed=0
    )
    chi2 = np.sum((np.bincount(clients, minlength=50) - 400) ** 2 / 400)
    assert abs(chi2 - 49) < 6.5 * np.sqrt(
        2 * 49
    )  # 49 degrees of freedom: false alarm below 1e-6


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
    labels = np.array(
        [2, 0, 1, 0, 2, 1, 0, 2]
    )  # sorted: examples 1 3 | 6 2 | 5 0 | 4 7
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
    labels = np.arange(
        4
    )  # four shards, two clients: shard 0 joins shard 1 in a third of the deals
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


@pytest.mark.parametrize(
    'rule, cut, alpha',
    [
        (partition.dirichlet_unequal, cut_unequal, 0.3),
        (partition.dirichlet_per_class, cut_per_class, 2.0),
    ],
)
def test_partitions_are_redrawn_only_where_a_client_owns_nothing(rule, cut, alpha):
    labels, everybody = LABELS[:60], set(range(20))
    kept = []
    for seed in range(40):
        first = cut(labels, numpy_random.generator(seed, 'PA'), 20, alpha)
        clients = rule(labels, num_clients=20, alpha=alpha, seed=seed)
        assert set(clients.tolist()) == everybody
        kept.append(set(first.tolist()) == everybody)
        assert np.array_equal(first, clients) == kept[-1]
    assert 0 < sum(kept) < 40


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
