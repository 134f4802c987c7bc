"""ColRel: clients relay their neighbours' updates to the server.

The symbols are those of `fedjax_links.algorithms`.

References:
  Yemini, Saha, Ozfatura, Gündüz and Goldsmith 2024, Robust federated learning with connectivity
  failures.
"""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ServerState
from fedjax_links.base import Algorithm, Array, Links, Problem, RoundContext, Step
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, errors, references, tree
from fedjax_links.local_training import ClientProgram


@references.cite('yemini2024robust')
def colrel(
    local_train: ClientProgram, *, weights: ArrayLike | None = None
) -> Algorithm:
    """Runs ColRel: active clients upload weighted sums of their own and neighbours' updates.

    ``x += (1/N) sum_{i in A} sum_j tau_ji alpha_ij Delta_j``. A holds the active clients, and j is
    client i itself or a neighbour. tau_ji is one if the edge from j to i is up, else zero. All
    clients train from x. With uplink probabilities p_i and edge probabilities q_ji, q_jj = 1, the
    step is unbiased if ``sum_i p_i q_ji alpha_ij = 1`` for all j and links are independent of
    earlier rounds. Without links between clients ColRel equals `fedavg_known` to the bit.

    Link semantics: all clients receive x, unless the links have a downlink. A client that did not
    receive x or cannot compute has no update, but relays. An empty round keeps x.
    ``num_computing`` counts all clients that train, though only updates that reach the server are
    simulated.

    Memory: one model.

    Args:
      local_train: the client program L_i.
      weights: alpha, float[N, N], row i for the sum that client i uploads.
        `analysis.colrel_weights` returns the weights of least variance. By default all relays give
        client j's update the weight ``1 / sum_i p_i q_ji``, by the probabilities that the round's
        links report. On links with a downlink no client relays by default, as in `fedavg_known`:
        such links do not report how probably a relay without x uploads.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for weights that are negative, not finite, or of another shape.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> from fedjax_links.links import graphs
      >>> problem = problems.quadratic([[0.0], [1.0], [2.0], [3.0]])  # the optimum is 1.5
      >>> uplinks = participation.bernoulli([0.9, 0.9, 0.9, 0.3])
      >>> links = participation.peers(uplinks, graphs.ring(4), prob=0.8)
      >>> client = local_training.local_sgd(0.01, local_steps=2)
      >>> algorithm = algorithms.colrel(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=1000)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      1.51

    References:
      Yemini et al. 2024, Algorithms 1 and 2; the default weights are this package's.
    """
    alpha = None
    if weights is not None:
        checks.within('weights', weights, 0, np.inf)
        checks.finite('weights', weights)
        alpha = jnp.asarray(weights, jnp.result_type(float))

    def coefficients(links: Links) -> Array:
        """Returns c_j, float[N], in the server's sum of ``c_j Delta_j``."""
        uploads = links.mask
        neighbours, edges = base.peers(links)
        # relayed[j, k]: the k-th neighbour of client j received j's update and uploads.
        relayed = uploads[neighbours] & edges
        ids = jnp.arange(len(uploads))

        if alpha is not None:
            direct = jnp.where(uploads, alpha[ids, ids], 0)
            through_relays = jnp.where(relayed, alpha[neighbours, ids[:, None]], 0)
            return direct + jnp.sum(through_relays, axis=1)

        # Default weights: copies of an update that arrive, over the number expected to arrive.
        expected = links.prob
        if base.is_duplex(links):
            return jnp.where(base.participants(links), 1 / expected, 0)
        if base.has_peers(links):
            edge_prob = jnp.nan if links.edge_prob is None else links.edge_prob
            # A client with fewer than K neighbours fills its row with itself.
            is_padding = neighbours == ids[:, None]
            relay_prob = jnp.where(is_padding, 0, edge_prob * expected[neighbours])
            expected += jnp.sum(relay_prob, axis=1)
        num_arrivals = uploads + jnp.sum(relayed, axis=1, dtype=jnp.int32)
        return jnp.where(num_arrivals > 0, (1 / expected) * num_arrivals, 0)

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        num_clients = problem.num_clients
        if alpha is not None and alpha.shape != (num_clients, num_clients):
            raise errors.invalid(
                'weights',
                f'have shape [{num_clients}, {num_clients}]',
                f'shape {alpha.shape}',
            )
        coefficient = coefficients(ctx.links)

        # All clients that received x train; only updates that reach the server are simulated.
        computing = base.computes(ctx.links) & base.reached(ctx.links)
        cohort = cohorts.make_cohort((coefficient != 0) & computing)
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, coefficient, cohort
        )

        # Server: add the sum of the relayed updates, divided by N.
        server = tree.add_scaled(state.server, 1.0 / num_clients, deltas)
        num_computing = jnp.sum(computing, dtype=jnp.int32)
        return ServerState(server), metrics._replace(num_computing=num_computing)

    return common.server_only_algorithm(round_step)
