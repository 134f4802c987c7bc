"""Recorded links between clients, in the form of the engine and as matrices."""

import numpy as np

from fedjax_links.links import graphs

RING_DEGREE = 4


def history(num_clients: int, num_rounds: int, seed: int, prob: float = 0.5):
    """A ring's neighbours [N, K], its edges [T, N, K], and the same as matrices [T, N, N]."""
    graph = graphs.ring(num_clients, RING_DEGREE)
    up = np.random.default_rng(seed).random((num_rounds, graph.num_edges)) < prob
    edges = up[:, graph.edge_ids]
    dense = np.zeros((num_rounds, num_clients, num_clients), bool)
    for k in range(graph.neighbours.shape[1]):
        dense[:, np.arange(num_clients), graph.neighbours[:, k]] |= edges[:, :, k]
    assert (dense == dense.transpose(0, 2, 1)).all()
    return graph.neighbours, edges, dense
