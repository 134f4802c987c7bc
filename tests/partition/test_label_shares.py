"""Partitions of equal volumes by Dirichlet draws, beside loops of the papers' listings."""

import numpy as np
import pytest

from fedjax_links import partition
from fedjax_links.partition import label_shares

Z = 4.5  # two-sided: a false alarm in 7e-6 of comparisons
# Neither balanced nor divisible.
LABELS = np.random.default_rng(1).integers(7, size=1003)


@pytest.mark.parametrize('num_clients', [1, 4, 20, 1003])
@pytest.mark.parametrize('alpha', [1e-300, 1e-3, 0.1, 1.0, 1e6])
def test_dirichlet_volumes_are_equal_at_any_alpha(num_clients, alpha):
    clients = partition.dirichlet(LABELS, num_clients=num_clients, alpha=alpha, seed=2)
    sizes = np.bincount(clients, minlength=num_clients)
    expected = np.full(num_clients, 1003 // num_clients)
    expected[: 1003 % num_clients] += 1
    np.testing.assert_array_equal(sizes, expected)


@pytest.mark.statistical
def test_dirichlet_first_client_has_the_law_of_its_draw():
    # The client that is served first: before any class runs out, counts are multinomial given
    # nu ~ Dir(alpha 1), so
    # E sum_c share_c^2 = 1/q + (1 - 1/q) (1 + alpha) / (1 + C alpha) with q examples each.
    labels = np.repeat(np.arange(4), 50)
    quota = 50
    alpha = 0.3
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
    labels = np.array([0] * 2 + [1] * 10)
    options = {'num_clients': 4, 'alpha': 1.0}
    both = [
        np.all(
            partition.dirichlet(labels, order='numbers', **options, seed=seed)[:2] == 0
        )
        for seed in range(2000)
    ]
    assert abs(np.mean(both) - 0.5) < Z * np.sqrt(0.25 / 2000)


@pytest.mark.statistical
def test_dirichlet_clients_of_an_empty_class_take_another():
    # Shares of one class each: where the first two clients both have class 0, the second finds it
    # empty. One of the two others is next, each as often: 10 examples of class 1, or 5 of class 2.
    labels = np.array([0] * 10 + [1] * 15 + [2] * 5)
    got = []
    for seed in range(1500):
        shares = partition.dirichlet_shares(3, 3, alpha=1e-300, seed=seed)
        if shares[0, 0] == 1 and shares[1, 0] == 1:
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
    labels = np.repeat(np.arange(10), 200)
    apart = {'random': [], 'numbers': []}
    more = {} if name == 'dirichlet' else {'coarse': np.arange(10), 'beta': 1.0}
    for seed in range(12):
        aim = partition.dirichlet_shares(50, 10, alpha=0.1, seed=seed)
        for order, result in apart.items():
            clients = partition.PARTITIONS[name](
                labels, num_clients=50, alpha=0.1, order=order, seed=seed, **more
            )
            distance = 0.5 * np.abs(partition.class_mix(clients, labels) - aim).sum(
                axis=1
            )
            result.append(distance[40:].mean() - distance[:25].mean())
    means = {order: np.mean(result) for order, result in apart.items()}
    errors = {
        order: np.std(result, ddof=1) / np.sqrt(12) for order, result in apart.items()
    }
    assert means['numbers'] > 0.2
    assert abs(means['random']) < Z * errors['random']


@pytest.mark.statistical
def test_dirichlet_sequential_draws_match_a_loop_in_law():
    # The batched draws against one label at a time, on a stock that always runs out: mean number
    # of examples of class 0 that the second client gets, two-sample z-test.
    labels = np.array([0] * 6 + [1] * 18)
    batched = []
    looped = []
    for seed in range(1500):
        clients = partition.dirichlet(
            labels, num_clients=3, alpha=1.0, order='numbers', seed=seed
        )
        batched.append(np.sum(labels[clients == 1] == 0))
        rng = np.random.default_rng(10_000 + seed)
        shares = rng.dirichlet([1.0, 1.0], 3)
        left = [6, 18]
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
    coarse = np.array([0, 1, 2, 0, 1, 2])
    quota = 50
    alpha = 0.3
    beta = 0.7
    labels = np.repeat(np.arange(6), 50)
    squares = []
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
        client_labels = labels[clients == 0]
        coarse_counts = np.bincount(coarse[client_labels])
        counts = np.bincount(client_labels)
        squares.append([np.sum(coarse_counts**2.0), np.sum(counts**2.0)])
    # Of q examples, sum_c n_c^2 - q ordered pairs agree.
    pairs = (np.array(squares) - quota) / (quota * (quota - 1))
    same_coarse = (1 + alpha) / (1 + 3 * alpha)
    expected = same_coarse * np.array([1, (1 + beta) / (1 + 2 * beta)])
    # At most 50 of a class: a client whose 50 draws are all of one empties it and no more.
    assert np.all(np.abs(pairs.mean(0) - expected) < Z * pairs.std(0) / np.sqrt(600))


def pachinko(rng, coarse, stock, num_clients, alpha, beta):
    """Labels by client, one at a time: a coarse class, then a class of it, until none is left."""
    left = list(stock)
    groups = sorted(set(coarse))
    counts = np.zeros((num_clients, len(stock)), int)
    for client in range(num_clients):
        root = dict(zip(groups, rng.dirichlet([alpha] * len(groups)), strict=True))
        leaves = {}
        for group in groups:
            classes = [c for c, g in enumerate(coarse) if g == group]
            leaves[group] = dict(
                zip(classes, rng.dirichlet([beta] * len(classes)), strict=True)
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
    coarse = [0, 0, 1, 1, 1]
    stock = [3, 9, 6, 2, 4]
    labels = np.repeat(np.arange(5), stock)
    ours = []
    theirs = []
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
    ours = np.array(ours, float)
    theirs = np.array(theirs, float)
    for power in (1, 2):
        a = ours**power
        b = theirs**power
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
    # In the superclasses' order.
    members = [group.split() for group in CIFAR100.split(',')]
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
