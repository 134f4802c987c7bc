"""Who holds what: the page of text and the picture."""

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from fedjax_links import partition, plot, problems
from fedjax_links.plot.clients import by_largest_class
from fedjax_links.preview import partitions
from fedjax_links.problems.classification import partition_of

OWNERS = np.repeat([0, 1, 2, 3], [4, 2, 6, 4])
LABELS = np.array([2, 2, 2, 0, 1, 1, 0, 0, 1, 1, 2, 2, 0, 0, 0, 0])
REPORT = partition.report(OWNERS, LABELS)


def test_effective_numbers_are_between_one_and_all():
    assert partitions.effective_number(np.full(8, 1 / 8)) == pytest.approx(8)
    assert partitions.effective_number(np.eye(5)[2]) == 1
    lines = partitions.text('title', REPORT).splitlines()
    assert lines[0] == 'title'
    assert lines[1:-1] == str(REPORT).splitlines()
    clients = 16**2 / (4**2 + 2**2 + 6**2 + 4**2)
    classes = np.mean([1 / (0.75**2 + 0.25**2), 1, 3, 1])
    assert lines[-1] == (
        f'effective numbers: {clients:.1f} clients by volume, {classes:.2f} classes per client '
        '(mean)'
    )
    assert max(map(len, lines)) <= 80


def test_clients_are_in_the_order_of_their_largest_class():
    np.testing.assert_array_equal(by_largest_class(REPORT.class_mix), [3, 2, 1, 0])
    # Order is by the largest class, however small its lead: 201 of 401 examples.
    nearly = partition.report(np.repeat([0, 1], 401), np.tile([0] * 200 + [1] * 201, 2))
    np.testing.assert_array_equal(by_largest_class(nearly.class_mix), [0, 1])
    tied = np.concatenate(
        [np.repeat([1, 0], [201, 200]), np.repeat([1], 9), np.repeat([0], 9)]
    )
    three = partition.report(np.repeat([0, 1, 2], [401, 9, 9]), tied)
    np.testing.assert_array_equal(by_largest_class(three.class_mix), [2, 0, 1])


def test_the_map_shows_shares_in_that_order():
    axes = plot.partition(REPORT, order=[3, 2, 1, 0], ax=Figure().add_subplot())
    expected = [[1, 1 / 3, 0, 0.25], [0, 1 / 3, 1, 0], [0, 1 / 3, 0, 0.75]]
    np.testing.assert_allclose(axes.images[0].get_array(), expected)


@pytest.mark.usefixtures('unrendered')
@pytest.mark.parametrize(
    'clients, labels',
    [
        (OWNERS, LABELS),
        (np.zeros(3, int), np.zeros(3, int)),
        pytest.param(np.arange(300) % 250, np.arange(300) % 62, marks=pytest.mark.slow),
    ],
)
def test_the_picture_is_drawn_for_few_and_many(tmp_path, clients, labels):
    partitions.picture(tmp_path / 'x.png', 'title', partition.report(clients, labels))
    assert (tmp_path / 'x.png').read_bytes().startswith(b'\x89PNG')
    assert not pyplot.get_fignums()


def test_a_problem_without_classes_has_volumes(tmp_path):
    spread = problems.from_arrays(
        np.ones((10, 2), np.float32),
        np.ones((10, 1), np.float32),
        np.repeat(np.arange(3), [5, 1, 4]),
        loss_fn='squared_error',
        predict=lambda params, features: features @ params,
        init_params=lambda key: jnp.zeros((2, 1)),
    )
    report = partition_of(spread)
    np.testing.assert_array_equal(report.counts, [5, 1, 4])
    lines = partitions.text('title', report).splitlines()
    assert lines[1] == '3 clients (0 without examples), 10 examples'
    assert lines[3].split() == ['examples', '1', '1', '4', '5', '5', '3.3']
    assert lines[4:] == [
        f'effective numbers: {100 / (25 + 1 + 16):.1f} clients by volume'
    ]
    partitions.picture(tmp_path / 'x.png', 'title', report)


def test_a_problem_with_classes_has_them():
    spread = problems.digits(num_clients=4)
    report = partition_of(spread)
    np.testing.assert_array_equal(report.counts, spread.counts)
    assert report.global_mix.size == 10
