"""Debiasing FedAvg: clients scale their local rate by how rarely they are selected.

References:
  Sun et al. 2025, Debiasing federated learning with correlated client participation.
"""

from typing import NamedTuple

import jax.numpy as jnp

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
from fedjax_links.clients import cohorts
from fedjax_links.core import references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


class DebiasedState(NamedTuple):
    """State of Debiasing FedAvg.

    Attributes:
      server: the server model x_t.
      num_selected: int32[N], t_i, rounds in which the client took part.
    """

    server: Params
    num_selected: Array


@references.cite('sun2025debiasing')
def debiased_fedavg(local_train: ClientProgram) -> Algorithm:
    """Debiasing FedAvg: local steps with rate ``eta nu_i``, then the mean of the local models.

    ``t_i <- t_i + 1``, ``lambda_i = t_i / ((t + 1) B)``, ``nu_i = 1 / (lambda_i N)``: count, then
    use. nu_i tends to 1 / (N pi_i), the inverse of the client's long-run share of the selections,
    so the mean objective is reached up to terms of order eta (the scaling is of the *local* rate,
    hence not linear in more than one step, and successive selections depend on each other).

    The paper has a fixed cohort size B; here B is the number of active clients of the round. A
    client that first appears late is scaled by ``(t + 1) B / N``: a rate that is stable for FedAvg
    may diverge here.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x_t, sent with the round's index t. The round counter of the run is that clock, so
    start the algorithm in round 0. An empty round, which the paper excludes, keeps x.

    Memory: one model and one integer per client.

    Args:
      local_train: the client program, with alpha as its rate.

    Returns:
      The algorithm; models: ``server``. There is no server rate.

    References:
      Sun et al. 2025, Algorithm 1.
    """

    def init(params: Params, problem: Problem) -> DebiasedState:
        return DebiasedState(
            server=params, num_selected=jnp.zeros(problem.num_clients, jnp.int32)
        )

    def round_step(
        state: DebiasedState, ctx: RoundContext, problem: Problem
    ) -> Step[DebiasedState]:
        cohort = cohorts.participating(ctx.links)
        num_active = cohorts.num_members(cohort)
        num_selected = cohorts.count(
            ctx.links, state.num_selected
        )  # line 5: count, then use

        def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
            times = common.as_float(num_selected[i])
            share = times / ((ctx.round + 1) * common.as_float(num_active))  # lambda_i
            update = train(
                state.server, lr_scale=1 / (share * problem.num_clients)
            )  # nu_i, line 7
            return Contribution(update.delta, update.loss), row

        deltas, _, metrics = common.train(
            local_train, ctx, problem, client, cohort=cohort
        )
        server = tree.add_scaled(
            state.server, 1, tree.divide(deltas, num_active)
        )  # line 10
        return DebiasedState(server, num_selected), metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
