"""FedAWE: clients resume their own models and echo the updates that they missed.

References:
  Xiang et al. 2024, Efficient federated learning against heterogeneous and non-stationary client
  unavailability.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.base import (
    Algorithm,
    Array,
    Number,
    Params,
    Problem,
    PyTree,
    RoundContext,
    Step,
)
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


class FedAWEState(NamedTuple):
    """State of FedAWE.

    Attributes:
      server: the server model x^t.
      clients: the client models x_i^t, leaves [N, ...].
      staleness: int32[N], tau_i, rounds since the client was last active; 1 at first.
    """

    server: Params
    clients: Params
    staleness: Array


@references.cite('xiang2024efficient')
def fedawe(
    local_train: ClientProgram,
    *,
    server_lr: Number = 1.0,
    innovation_clip: Number | None = None,
) -> Algorithm:
    """FedAWE: ``x^{t+1} = mean_A x_i + eta_g mean_A tau_i Delta_i``, received by A.

    An active client trains from its own model, ``Delta_i = L_i(x_i) - x_i``, and its update counts
    for the tau_i rounds since it was last active (adaptive innovation echoing). The base is the
    mean of the participants' stale models and not x^t (implicit gossip). Then tau_i = 1 on A and
    tau_i + 1 elsewhere.

    The mean of all client models moves by ``(eta_g / N) sum_A tau_i Delta_i``. Under independent
    links with constant probabilities tau_i averages 1/p_i over the active rounds, so on
    equal-curvature quadratics it settles around the optimum without bias; it is the model the
    authors evaluate.

    Link semantics: only clients whose uplink delivers compute and upload, each from its own model;
    they receive x^{t+1} at the end of the round. A client that delivers but hears nothing back
    keeps x_i, and its echo starts anew, as what it sent has been used. An empty round keeps x and
    tau grows.

    Memory: 1 + N models and one integer per client.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.
      innovation_clip: largest L2 norm of the mean innovation, before eta_g; longer ones are
        rescaled to it. None does not clip. The authors' code clips at 0.5.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.

    Raises:
      ValueError: for a rate or a clip that is not positive.

    References:
      Xiang et al. 2024 (FedAWE), Algorithm 1.
    """
    checks.positive_number('server_lr', server_lr)
    if innovation_clip is not None:
        checks.positive_number('innovation_clip', innovation_clip)

    def init(params: Params, problem: Problem) -> FedAWEState:
        staleness = jnp.ones(problem.num_clients, jnp.int32)
        return FedAWEState(*common.every_client_at(params, problem), staleness)

    def round_step(
        state: FedAWEState, ctx: RoundContext, problem: Problem
    ) -> Step[FedAWEState]:
        cohort = cohorts.delivering(ctx.links)

        def client(train: Train, i: Array, x_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(x_i)
            echoed = tree.scale(state.staleness[i], update.delta)
            return Contribution((x_i, echoed), update.loss), x_i

        total, own, metrics = common.train(
            local_train, ctx, problem, client, state.clients, cohort
        )
        mean_model, innovation = tree.divide(total, metrics.num_active)
        if innovation_clip is not None:
            norm = jnp.maximum(tree.global_norm(innovation), innovation_clip)
            innovation = tree.scale(innovation_clip / norm, innovation)
        moved = tree.cast_like(
            tree.add_scaled(mean_model, server_lr, innovation), state.server
        )
        server = tree.select(metrics.num_active > 0, moved, state.server)
        clients = cohorts.assign(cohorts.answered(ctx.links), own, server)
        staleness = jnp.where(base.delivers(ctx.links), 1, state.staleness + 1)
        return FedAWEState(server, clients, staleness), metrics

    return Algorithm(
        init=init, round_step=round_step, models=common.server_and_client_mean
    )
