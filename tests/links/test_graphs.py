"""Graphs of clients: the memory that they announce is what they take."""

import tracemalloc

import pytest

from fedjax_links.links import graphs
from tests import refusals


@pytest.mark.parametrize(
    'make', [lambda: graphs.complete(600), lambda: graphs.geometric(2000, 0.2)]
)
def test_a_graph_takes_the_memory_that_is_checked(make, monkeypatch):
    announced = []

    def record(argument, value, num_bytes):
        announced.append(num_bytes)

    monkeypatch.setattr(graphs.checks, 'fits', record)
    make()  # Imports take memory too.
    tracemalloc.start()
    make()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.98 * peak < max(announced) < 1.6 * peak


def test_a_ring_has_three_clients_or_more():
    assert graphs.ring(3).neighbours.tolist() == [[1, 2], [0, 2], [0, 1]]
    with refusals.names('num_clients', 'at least 3', '2'):
        graphs.ring(2)
