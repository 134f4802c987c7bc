"""Who trains on what, and what is held out."""

import numpy as np
import pytest

from fedjax_links import datasets, partition, problems
from tests import refusals

OWNERS = np.random.default_rng(1).permutation(
    np.repeat(np.arange(8), [3, 20, 7, 1, 12, 9, 30, 5])
)


def natural_data(**options):
    """Returns examples whose features are their owner and their own number."""
    features = np.stack([OWNERS, np.arange(OWNERS.size)], axis=1).astype(np.float32)
    return datasets.Dataset(features, OWNERS % 2, OWNERS, **options)


def build(data, **options):
    settings = {'model': 'softmax', 'partition': 'natural', 'seed': 4}
    return problems.images(dataset=data, **settings | options)


def test_by_default_nothing_changes():
    result = partition.divide(OWNERS, seed=0)
    np.testing.assert_array_equal(result.rows, np.arange(OWNERS.size))
    np.testing.assert_array_equal(result.clients, OWNERS)
    np.testing.assert_array_equal(result.numbers, np.arange(8))
    assert not result.held_rows.size


@pytest.mark.parametrize('seed', range(5))
def test_every_number_is_kept_and_no_example_is_on_both_sides(seed):
    options = {'min_examples': 4, 'max_examples': 10, 'holdout_clients': 2}
    result = partition.divide(
        OWNERS, **options, holdout_examples=0.25, num_clients=5, seed=seed
    )
    assert not set(result.rows) & set(result.held_rows)
    assert (np.diff(result.rows) > 0).all()
    owner_of = dict(zip(result.numbers, range(8), strict=True))
    del owner_of[-1]
    assert sorted(owner_of) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(
        OWNERS[result.rows], [owner_of[i] for i in result.clients]
    )
    np.testing.assert_array_equal(
        OWNERS[result.held_rows], [owner_of[i] for i in result.held_clients]
    )
    assert owner_of[0] < owner_of[1] < owner_of[2]
    assert owner_of[3] < owner_of[4]
    for client, owner in owner_of.items():
        used = min(int(np.sum(owner == OWNERS)), 10)
        assert used >= 4
        out = used if client >= 3 else round(0.25 * used)
        assert np.sum(result.held_clients == client) == out
        assert np.sum(result.clients == client) == used - out


def test_clients_and_examples_are_held_out_equally_often():
    """Counts over seeds against their binomial laws, in standard errors."""
    clients = np.zeros(8)
    examples = np.zeros(OWNERS.size)
    seeds = 2000
    for seed in range(seeds):
        result = partition.divide(OWNERS, holdout_clients=0.25, seed=seed)
        clients[np.unique(OWNERS[result.held_rows])] += 1
        result = partition.divide(
            OWNERS, holdout_examples=0.5, min_examples=12, seed=seed
        )
        examples[result.held_rows] += 1
    assert abs(clients / seeds - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / seeds)
    # Three owners have 12 examples or more; half of these even numbers is held out.
    used = np.isin(OWNERS, [1, 4, 6])
    assert abs(examples[used] / seeds - 0.5).max() < 4.5 * np.sqrt(0.25 / seeds)
    assert not examples[~used].any()


def test_clients_that_are_not_tested_are_counted():
    # A tenth of 1, 3 and 5 examples rounds to none, as 0.5 does.
    with pytest.warns(
        UserWarning, match=r'3 of 8 clients hold out no example at .* 0\.1'
    ):
        partition.divide(OWNERS, holdout_examples=0.1, seed=0)


@pytest.mark.parametrize(
    'options, message',
    [
        (
            {'num_clients': 9},
            '`num_clients` must be at most 8, the owners of 1 examples or more',
        ),
        (
            {'holdout_clients': 8},
            '`holdout_clients` must leave at least one of 8 clients to train, got 8',
        ),
        (
            {'holdout_clients': 0.99},
            'must leave at least one of 8 clients to train, got 0.99',
        ),
        (
            {'holdout_clients': 1.5},
            '`holdout_clients` must be a number or a share below 1, got 1',
        ),
        (
            {'holdout_examples': 1.5},
            r'`holdout_examples` must lie in \[0, 1\], got 1.5',
        ),
        ({'max_examples': 0}, '`max_examples` must be at least 1, got 0'),
        (
            {'min_examples': 31},
            '`min_examples` must be at most 30, the most that a client has, got 31',
        ),
    ],
)
def test_mistakes_cost_one_line(options, message):
    with refusals.one_line(message):
        partition.divide(OWNERS, **options, seed=0)


@pytest.mark.parametrize('natural', ['natural', partition.natural])
def test_a_natural_problem_has_the_data_s_owners(natural):
    problem = build(natural_data(), partition=natural)
    np.testing.assert_array_equal(problem.counts, np.bincount(OWNERS))
    owners = np.repeat(np.arange(8), problem.counts)
    np.testing.assert_array_equal(problem.data.features[:, 0], owners)
    assert problem.held_out is False
    assert problem.eval_owned is None


def test_held_out_clients_are_evaluated_after_those_who_train():
    problem = build(
        natural_data(), holdout_clients=3, holdout_examples=0.25, min_examples=3
    )
    assert problem.num_clients == 4
    tested = np.asarray(problem.eval_data.features)
    owned = problem.eval_owned
    trained = np.asarray(problem.data.features)
    numbers = np.concatenate([tested[:, 1], trained[:, 1]])
    np.testing.assert_array_equal(np.sort(numbers), np.flatnonzero(OWNERS != 3))
    for client, (first, count) in enumerate(zip(*owned, strict=True)):
        owners = set(tested[first : first + count, 0])
        assert len(owners) == 1
        assert (owners <= set(trained[:, 0])) == (client < 4)


def test_test_examples_find_their_owners():
    """Of owners 2 and 5 alone, of one that never trains, and of one that is left out."""
    test = np.array([[5, 100], [2, 101], [9, 102], [5, 103], [3, 104]], np.float32)
    data = natural_data(
        test_features=test, test_labels=np.zeros(5, int), test_clients=[5, 2, 9, 5, 3]
    )
    problem = build(data, min_examples=2)
    owned = problem.eval_owned
    assert problem.num_clients == 7
    np.testing.assert_array_equal(owned.counts, [0, 0, 1, 0, 2, 0, 0, 1])
    np.testing.assert_array_equal(
        problem.eval_data.features[:, 1], [101, 100, 103, 102]
    )


def test_owners_without_training_examples_keep_their_tests():
    data = datasets.Dataset(
        np.zeros((4, 1)),
        [0, 1, 0, 1],
        [0, 2, 0, 4],
        test_features=np.arange(4.0)[:, None],
        test_labels=[0, 1, 0, 1],
        test_clients=[1, 2, 3, 0],
        client_names=list('abcde'),
    )
    problem = build(data)
    np.testing.assert_array_equal(problem.eval_owned.counts, [1, 1, 0, 1, 1])
    np.testing.assert_array_equal(problem.eval_data.features[:, 0], [3, 1, 0, 2])


@pytest.mark.parametrize(
    'options, message',
    [
        (
            {'partition': 'iid'},
            "`num_clients` must be given, or `partition` 'natural' for the owners that the data ",
        ),
        (
            {'dataset': 'digits'},
            "`partition` must be another for data without owners, got 'natur",
        ),
    ],
)
def test_what_has_no_owners_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        problems.images(
            **{'dataset': natural_data(), 'model': 'softmax', 'partition': 'natural'}
            | options
        )
