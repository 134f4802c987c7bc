"""Gossip: clients train their own models and average with their neighbours.

The symbols are those of `fedjax_links.algorithms`.

References:
  Koloskova et al. 2020, A unified theory of decentralized SGD with changing topology and local
  updates.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fedjax_links.algorithms import common
from fedjax_links.base import (
    Algorithm,
    Array,
    Params,
    Problem,
    PyTree,
    RoundContext,
    Step,
)
from fedjax_links.clients import cohorts, peers
from fedjax_links.core import references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


class GossipState(NamedTuple):
    """Holds the state of clients without a server.

    Attributes:
      clients: the client models x_i^t, leaves [N, ...].
    """

    clients: Params


@references.cite('koloskova2020unified')
def gossip(local_train: ClientProgram) -> Algorithm:
    """Runs gossip: clients take local steps and average their models with their neighbours.

    ``x_i <- sum_j M_ij L_j(x_j)``, also called decentralised SGD with local steps. M is the
    Metropolis matrix of the edges that are up (`mixing.metropolis_weights`). It is doubly
    stochastic for any edges. So the mean of the client models has no participation bias if all
    clients train. On equal-curvature quadratics the error of this mean falls as
    ``(1 - eta)^{s t}``. Clients that cannot compute bias the mean. Without links between clients
    (`participation.peers`) each client trains alone.

    Link semantics: uplinks are not read. Every client that can compute trains in every round, from
    its own model. All clients average with the neighbours whose edges are up.

    Memory: N models. There is no server: the candidate ``server`` is the mean of the client models.

    Args:
      local_train: the client program L_i.

    Returns:
      The algorithm; models: ``server``.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> from fedjax_links.links import graphs
      >>> problem = problems.quadratic([[0.0], [1.0], [2.0], [3.0]])  # the optimum is 1.5
      >>> uplinks = participation.bernoulli([0.9, 0.9, 0.9, 0.3])
      >>> links = participation.peers(uplinks, graphs.ring(4), prob=0.8)
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.gossip(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(algorithm.models(result.state.algorithm)['server'][0]), 2))
      1.5

    References:
      Koloskova et al. 2020, Algorithm 1.
    """

    def init(params: Params, problem: Problem) -> GossipState:
        return GossipState(common.table_of(params, problem))

    def round_step(
        state: GossipState, ctx: RoundContext, problem: Problem
    ) -> Step[GossipState]:
        cohort = cohorts.computing(ctx.links)

        def client(train: Train, i: Array, x_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(x_i)
            # Nothing is summed, as there is no server.
            return Contribution((), update.loss), update.params

        _, z, metrics = common.train(
            local_train, ctx, problem, client, state.clients, cohort
        )
        # Gossip: x_i = sum_j M_ij z_j.
        return GossipState(peers.mix(ctx.links, z)), metrics

    def models(state: GossipState) -> Mapping[str, Params]:
        return {'server': tree.client_mean(state.clients)}

    return Algorithm(init, round_step, models, lambda state: state.clients)
