"""Graphs of clients: the memory that they check for is what they take."""

import tracemalloc

import numpy as np
import pytest

from fedjax_links.config import registries
from fedjax_links.links import graphs
from tests import refusals


@pytest.mark.parametrize(
    'make',
    [
        lambda: graphs.complete(600),
        lambda: graphs.geometric(2000, 0.2),
        lambda: graphs.erdos_renyi(1000, 0.5),
        lambda: graphs.erdos_renyi(3000, 0.03),
        lambda: graphs.ring(10_000, 20),
        lambda: graphs.torus(300, 300),
    ],
)
def test_a_graph_takes_the_memory_that_is_checked(make, monkeypatch):
    checked = []

    def record(argument, value, num_bytes):
        checked.append(num_bytes)

    monkeypatch.setattr(graphs.checks, 'fits', record)
    make()  # Imports take memory too.
    tracemalloc.start()
    make()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.98 * peak < max(checked) < 1.6 * peak


@pytest.mark.parametrize(
    'argument, make',
    [
        ('num_clients', lambda: graphs.complete(10**6)),
        ('radius', lambda: graphs.geometric(10**6, 0.5)),
        ('p', lambda: graphs.erdos_renyi(10**6, 0.5)),
        ('num_clients', lambda: graphs.ring(10**6, 10**6 - 2)),
        ('rows', lambda: graphs.torus(10**6, 10**6)),
    ],
)
def test_a_graph_too_large_is_refused_before_it_is_built(argument, make):
    with refusals.names(argument, 'fit into memory'):
        make()


def test_an_edge_to_no_client_is_shown():
    with refusals.names('edges', 'from 0 to 2', '[1, 5]'):
        graphs.from_edges(3, [(0, 1), (1, 5)])


def test_edges_of_names_are_no_pairs_of_clients():
    with refusals.names('edges', 'int[E, 2]', 'got <U1[1, 2]'):
        graphs.from_edges(3, [('a', 'b')])


@pytest.mark.parametrize(
    'draw',
    [
        lambda seed: graphs.erdos_renyi(5, 0.5, seed).edge_ids,
        lambda seed: graphs.geometric(5, 0.5, seed).edge_ids,
        lambda seed: registries.lognormal(5, median=1.0, sigma=1.0, seed=seed),
    ],
)
def test_seeds_are_those_of_a_run(draw):
    np.testing.assert_array_equal(draw(2**32 - 1), draw(2**32 - 1))
    with refusals.names('seed', 'at most 4294967295'):
        draw(2**32)


def test_a_ring_has_three_clients_or_more():
    assert graphs.ring(3).neighbours.tolist() == [[1, 2], [0, 2], [0, 1]]
    with refusals.names('num_clients', 'at least 3', '2'):
        graphs.ring(2)
