"""S2S and S2A: gossip between clients, and a server that hears some of them now and then.

References:
  Rodio, Neglia, Chen and Larsson 2025, A unified convergence analysis for semi-decentralized
  learning.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ClientsState
from fedjax_links.base import Algorithm, Array, Problem, PyTree, RoundContext, Step
from fedjax_links.clients import cohorts, peers
from fedjax_links.core import references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


@references.cite('rodio2025unified')
def s2s(local_train: ClientProgram, *, server_every: int = 1) -> Algorithm:
    """S2S (sampled to sampled): gossip, and those that the server hears get their mean.

    ``z_i = L_i(x_i)``, ``y_i = sum_j M_ij z_j`` with the round's Metropolis matrix
    (`mixing.metropolis_weights`); in every ``server_every``-th round ``x^{t+1} = mean_{i in A}
    y_i``, which becomes the model of i in A; all others have y_i. The mean of the client models
    carries no bias, on any graph. Without links between clients and with ``server_every=1`` it is
    `fedpbc`, to the bit.

    Link semantics: everyone able to trains in every round, from its own model; those whose uplink
    delivers in a round of the server are averaged and receive the average at its end. An empty
    round, and one between those of the server, keeps x; clients still train and gossip.

    Memory: 1 + N models.

    Args:
      local_train: the client program L_i.
      server_every: rounds from one in which uplinks count to the next.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.

    Raises:
      ValueError: for a period below 1.

    References:
      Rodio, Neglia, Chen and Larsson 2025, Algorithm 1.
    """
    step = _round_step(local_train, server_every, to_all=False)
    return common.of_client_models(
        lambda *given: step(*given)
    )  # named after its factory


@references.cite('rodio2025unified')
def s2a(local_train: ClientProgram, *, server_every: int = 1) -> Algorithm:
    """S2A (sampled to all): as `s2s`, but the mean of those heard becomes everybody's model.

    ``x_i^{t+1} = x^{t+1} = mean_{i in A} y_i`` for all i where A is not empty. Every client must
    hear the server, and the clients heard more often draw all models to themselves: FedAvg's bias,
    the less of it the better connected the graph and the rarer the server. Without links between
    clients, with ``server_every=1`` and as long as no round is empty, it is `fedavg` with all
    computing, to the bit.

    Link semantics: as of `s2s`, but that everybody receives, whom the links tell no other of
    (their downlink, where they tell directions apart). An empty round keeps x; clients go on from
    y_i.

    Memory: 1 + N models.

    Args:
      local_train: the client program L_i.
      server_every: rounds from one in which uplinks count to the next.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.

    Raises:
      ValueError: for a period below 1.

    References:
      Rodio, Neglia, Chen and Larsson 2025, Algorithm 1.
    """
    step = _round_step(local_train, server_every, to_all=True)
    return common.of_client_models(
        lambda *given: step(*given)
    )  # named after its factory


def in_server_rounds(mask: np.ndarray, options: Mapping[str, Any]) -> np.ndarray:
    """Who sends and receives, bool[T, N], of those whose uplinks deliver, for `Traffic`."""
    rounds = np.arange(1, len(mask) + 1)
    return np.asarray(mask & (rounds % options.get('server_every', 1) == 0)[:, None])


def _round_step(
    local_train: ClientProgram, server_every: int, *, to_all: bool
) -> common.RoundStep:
    common.check_count('server_every', server_every)

    def round_step(
        state: ClientsState, ctx: RoundContext, problem: Problem
    ) -> Step[ClientsState]:
        links, x = ctx.links, state.server
        active = base.delivers(links) & ((ctx.round + 1) % server_every == 0)
        cohort = cohorts.computing(links)

        def said(model: PyTree) -> PyTree:  # what the server adds up
            return tree.subtract(model, x) if to_all else model

        def client(train: Train, i: Array, x_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(x_i)
            z_i = update.params if to_all else tree.add_scaled(x_i, 1.0, update.delta)
            heard = Contribution(said(z_i), update.loss)
            return tree.select(active[i], heard, tree.zeros_like(heard)), z_i

        sums, z, metrics = common.train(
            local_train, ctx, problem, client, state.clients, cohort
        )
        y, num_active = peers.mix(links, z), jnp.sum(active, dtype=jnp.int32)
        if base.has_peers(links):
            sums = peers.sum_rows(said, cohorts.make_cohort(active), y)
        mean = tree.divide(sums, num_active)
        told = tree.add_scaled(x, 1.0, mean) if to_all else tree.cast_like(mean, x)
        server = tree.select(num_active > 0, told, x)
        heard = (
            base.reached(links) & (num_active > 0)
            if to_all
            else active & base.receives(links)
        )
        clients = tree.fill_rows(heard, tree.cast_like(server, y), y)
        return ClientsState(server, clients), metrics._replace(num_active=num_active)

    return round_step
