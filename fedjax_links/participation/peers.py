"""Links between clients, around any pattern of uplinks."""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import base
from fedjax_links.base import Array, Key, Participation, PeerLinkSample
from fedjax_links.core import checks, errors, references
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
      pattern: the uplinks; whatever it draws, this keeps.
      graph: who could hear whom, see `fedjax_links.links.graphs`.
      prob: P(an edge is up), independently over edges and rounds, one number or float[E]; or a
        pattern of E "clients", the edges: `markov` for edges with memory, say.

    Returns:
      The pattern, of `PeerLinkSample`; ``prob`` is that of the uplinks, ``edge_prob`` the edges'.

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
    if graph.num_clients != pattern.num_clients:
        requirement = f'have the {pattern.num_clients} clients of `pattern`'
        raise errors.invalid('graph', requirement, graph.num_clients)
    if base.has_peers(drawing.sample_shapes(pattern)):
        raise errors.invalid(
            'pattern', 'have no peers of its own', errors.text_of(pattern)
        )
    edges = prob if isinstance(prob, Participation) else _coins(prob, graph.num_edges)
    alike = not isinstance(prob, Participation) and np.ndim(prob) == 0
    if edges.num_clients != max(graph.num_edges, 1):
        requirement = f"have the graph's {graph.num_edges} edges for clients"
        raise errors.invalid('prob', requirement, edges.num_clients)
    missing = graph.edge_ids == graph.num_edges
    places = np.where(missing, 0, graph.edge_ids)

    def sample(key: Key, round: Array, samples: combining.Samples) -> PeerLinkSample:
        links, between = samples
        return PeerLinkSample(
            **links._asdict(),
            neighbours=jnp.asarray(graph.neighbours),
            edges=base.participants(between)[places] & ~missing,
            edge_prob=between.prob[0]
            if alike
            else jnp.where(missing, 0, between.prob[places]),
        )

    parts = [pattern, edges]
    linked = combining.combine('peers', parts, sample, num_clients=pattern.num_clients)
    return linked._replace(cycle=pattern.cycle)


def _coins(prob: ArrayLike, num_edges: int) -> Participation:
    checks.within('prob', prob, 0, 1)
    xp = checks.array_module(prob)
    if np.shape(prob) not in ((), (num_edges,)):
        requirement = f"be a number or have the graph's {num_edges} edges for entries"
        raise errors.invalid('prob', requirement, f'shape {np.shape(prob)}')
    return bernoulli(xp.broadcast_to(prob, (num_edges,)) if num_edges else np.zeros(1))


def peers_law(given: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Exact law of who takes part, which is that of the uplinks, and of edges that are coins."""
    law, graph, prob = (
        given.parts['pattern'],
        given.options['graph'],
        given.options['prob'],
    )
    if 'prob' in given.parts:
        return law
    each = np.append(np.broadcast_to(prob, graph.num_edges), 0.0)[graph.edge_ids]
    return law._replace(edges=(graph.neighbours, each))
