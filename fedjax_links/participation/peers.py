"""Adds links between clients to any pattern of uplinks."""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import base
from fedjax_links.base import Array, Key, Participation, PeerLinkSample
from fedjax_links.core import checks, contracts, errors, references
from fedjax_links.links import drawing
from fedjax_links.links.graphs import Graph
from fedjax_links.participation import combining, link_laws
from fedjax_links.participation.bernoulli import bernoulli


@references.cite('rodio2025unified')
def peers(
    pattern: Participation, graph: Graph, *, prob: ArrayLike | Participation
) -> Participation:
    r"""Adds links between clients: the edges of a graph that are up in a round.

    An edge is up for both of its ends or for none. Edges are independent of the uplinks.

    Args:
      pattern: the uplinks. They are drawn in the same way as without edges.
      graph: which clients can have an edge, see `fedjax_links.links.graphs`.
      prob: P(an edge is up), one number or float[E]; edges are then independent over edges and
        rounds. Or a pattern whose E clients stand for the edges, such as `markov` for edges with
        memory.

    Returns:
      The pattern. Its samples are `PeerLinkSample`: ``prob`` is the probability of the uplinks,
      ``edge_prob`` the probability of the edges.

    Raises:
      ValueError: if numbers of clients or edges differ, or a value is out of range.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> from fedjax_links.links import graphs
      >>> pattern = participation.peers(participation.always(4), graphs.ring(4), prob=0.5)
      >>> links = simulation.realised_links(jax.random.key(3), pattern, num_rounds=1)
      >>> print(links.neighbours[0].T, links.edges[0].astype(int).T, sep='\n')
      [[1 0 1 0]
       [3 2 3 2]]
      [[1 1 1 0]
       [0 1 0 0]]

    References:
      Rodio, Neglia, Chen and Larsson 2025, section II.
    """
    contracts.check_pattern(pattern, 'pattern')
    if not isinstance(graph, Graph):
        requirement = 'be a graph, as `graphs.ring(num_clients)` makes one'
        raise errors.invalid('graph', requirement, contracts.kind_of(graph))
    if graph.num_clients != pattern.num_clients:
        requirement = f'have the {pattern.num_clients} clients of `pattern`'
        raise errors.invalid('graph', requirement, graph.num_clients)
    if base.has_peers(drawing.sample_shapes(pattern)):
        got = errors.text_of(pattern)
        raise errors.invalid('pattern', 'have no peers of its own', got)
    if isinstance(prob, Participation):
        edges = prob
        has_one_prob = False
    else:
        edges = _independent_edges(prob, graph.num_edges)
        has_one_prob = checks.shape('prob', prob) == ()
    if edges.num_clients != max(graph.num_edges, 1):
        requirement = f"be over the graph's {graph.num_edges} edges"
        raise errors.invalid('prob', requirement, edges.num_clients)
    is_missing = graph.edge_ids == graph.num_edges
    edge_ids = np.where(is_missing, 0, graph.edge_ids)

    def sample(key: Key, round: Array, samples: combining.Samples) -> PeerLinkSample:
        uplinks, edge_links = samples
        is_up = base.participants(edge_links)[edge_ids] & ~is_missing
        if has_one_prob:
            edge_prob = edge_links.prob[0]
        else:
            edge_prob = jnp.where(is_missing, 0, edge_links.prob[edge_ids])
        return PeerLinkSample(
            **uplinks._asdict(),
            neighbours=jnp.asarray(graph.neighbours),
            edges=is_up,
            edge_prob=edge_prob,
        )

    parts = [pattern, edges]
    linked = combining.combine('peers', parts, sample, num_clients=pattern.num_clients)
    # Take cycle and client names from the uplinks alone: the clients of `edges` are edges.
    return linked._replace(cycle=pattern.cycle, client_names=pattern.client_names)


def _independent_edges(prob: ArrayLike, num_edges: int) -> Participation:
    """Returns a pattern whose clients are the edges, at least one of them."""
    checks.within('prob', prob, 0, 1, axis='edge')
    xp = checks.array_module(prob)
    sizes = checks.shape('prob', prob)
    if sizes not in ((), (num_edges,)):
        requirement = f"be one number or one for each of the graph's {num_edges} edges"
        raise errors.invalid('prob', requirement, f'shape {sizes}')
    if num_edges == 0:
        return bernoulli(np.zeros(1))
    return bernoulli(xp.broadcast_to(xp.asarray(prob), (num_edges,)))


def peers_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the law of the uplinks, with the probabilities of independent edges."""
    law = inputs.parts['pattern']
    graph = inputs.options['graph']
    if 'prob' in inputs.parts:
        return law
    by_edge = np.broadcast_to(inputs.options['prob'], graph.num_edges)
    by_client = np.append(by_edge, 0.0)[graph.edge_ids]
    return law._replace(edges=(graph.neighbours, by_client))
