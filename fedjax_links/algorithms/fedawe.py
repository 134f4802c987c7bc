"""FedAWE: clients train from their last model and repeat the updates that they missed.

The symbols are those of `fedjax_links.algorithms`.

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
    """Holds the state of FedAWE.

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
    """Runs FedAWE: the server averages stale client models and adds their scaled updates.

    ``x^{t+1} = mean_A x_i + eta_g mean_A tau_i Delta_i``. The active clients A receive this model.
    Client i trains from its last model x_i: ``Delta_i = L_i(x_i) - x_i``. Its update counts for the
    tau_i rounds since client i was last active: its innovation is ``tau_i Delta_i`` (adaptive
    innovation echoing). The base is the mean of the participants' stale models and not x^t
    (implicit gossip). After the round tau_i is 1 for i in A, and one larger than before for all
    others.

    The mean of all client models moves by ``(eta_g / N) sum_A tau_i Delta_i``. Under independent
    links with constant probabilities tau_i averages 1/p_i over the active rounds. So on
    equal-curvature quadratics the mean of the client models settles around the optimum without
    bias. The authors evaluate this mean: here it is ``client_mean``.

    Link semantics: only clients whose uplink delivers compute and upload, each from its last model.
    They receive x^{t+1} at the end of the round. A client that delivers but does not receive keeps
    x_i. Its tau_i is reset, as its upload has been used. An empty round keeps x and tau grows.

    Memory: 1 + N models and one integer per client.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.
      innovation_clip: largest L2 norm of the mean innovation, before eta_g. A longer innovation is
        rescaled to this norm. None does not clip. The authors' code clips at 0.5.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.

    Raises:
      ValueError: for a rate or a clip that is not positive.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.01, local_steps=2)
      >>> algorithm = algorithms.fedawe(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=1000)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.49

    References:
      Xiang et al. 2024 (FedAWE), Algorithm 1.
    """
    checks.positive_number('server_lr', server_lr)
    if innovation_clip is not None:
        checks.positive_number('innovation_clip', innovation_clip)

    def init(params: Params, problem: Problem) -> FedAWEState:
        staleness = jnp.ones(problem.num_clients, jnp.int32)
        clients = common.table_of(params, problem)
        return FedAWEState(server=params, clients=clients, staleness=staleness)

    def round_step(
        state: FedAWEState, ctx: RoundContext, problem: Problem
    ) -> Step[FedAWEState]:
        cohort = cohorts.delivering(ctx.links)

        def client(train: Train, i: Array, x_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(x_i)
            innovation = tree.scale(state.staleness[i], update.delta)
            return Contribution((x_i, innovation), update.loss), x_i

        total, client_models, metrics = common.train(
            local_train, ctx, problem, client, state.clients, cohort
        )
        # Server: the mean of the stale models plus the mean innovation; empty rounds keep x.
        mean_model, innovation = tree.divide(total, metrics.num_active)
        if innovation_clip is not None:
            norm = jnp.maximum(tree.global_norm(innovation), innovation_clip)
            innovation = tree.scale(innovation_clip / norm, innovation)
        new_server = tree.add_scaled(mean_model, server_lr, innovation)
        new_server = tree.cast_like(new_server, state.server)
        server = tree.select(metrics.num_active > 0, new_server, state.server)

        # Broadcast: active clients whose downlink works receive x; all active ones reset tau_i.
        receivers = cohorts.receiving(ctx.links)
        clients = cohorts.assign(receivers, client_models, server)
        staleness = jnp.where(base.delivers(ctx.links), 1, state.staleness + 1)
        return FedAWEState(server, clients, staleness), metrics

    return Algorithm(
        init=init, round_step=round_step, models=common.server_and_client_mean
    )
