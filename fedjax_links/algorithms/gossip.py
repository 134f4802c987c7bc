"""Gossip: clients train their own models and average with the neighbours that they hear.

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
    """State of clients without a server.

    Attributes:
      clients: the client models x_i^t, leaves [N, ...].
    """

    clients: Params


@references.cite('koloskova2020unified')
def gossip(local_train: ClientProgram) -> Algorithm:
    """Gossip (decentralised SGD with local steps): ``x_i <- sum_j M_ij L_j(x_j)``.

    M is the Metropolis matrix of the edges that are up (`mixing.metropolis_weights`), doubly
    stochastic whatever these are: on equal-curvature quadratics the mean of the client models
    follows ``(1 - eta)^{s t}``. Without links between clients (`participation.peers`) everybody
    trains alone.

    Link semantics: no uplink is looked at. Everyone able to trains in every round, from its own
    model, and hears the neighbours whose edges are up; who cannot train hears them all the same.

    Memory: 0 + N models. There is no server: the candidate ``server`` is the mean of the clients'.

    Args:
      local_train: the client program L_i.

    Returns:
      The algorithm; models: ``server``.

    References:
      Koloskova et al. 2020, Algorithm 1.
    """

    def round_step(
        state: GossipState, ctx: RoundContext, problem: Problem
    ) -> Step[GossipState]:
        cohort = cohorts.computing(ctx.links)

        def client(train: Train, i: Array, x_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(x_i)
            return Contribution((), update.loss), update.params

        _, z, metrics = common.train(
            local_train, ctx, problem, client, state.clients, cohort
        )
        return GossipState(peers.mix(ctx.links, z)), metrics

    def init(params: Params, problem: Problem) -> GossipState:
        return GossipState(common.table_of(params, problem))

    def models(state: GossipState) -> Mapping[str, Params]:
        return {'server': tree.client_mean(state.clients)}

    return Algorithm(init, round_step, models, lambda state: state.clients)
