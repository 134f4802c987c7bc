"""Debiasing FedAvg: clients scale their local rate by how rarely they are selected.

The symbols are those of `fedjax_links.algorithms`.

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
    """Holds the state of Debiasing FedAvg.

    Attributes:
      server: the server model x_t.
      num_selected: int32[N], t_i, rounds in which the client took part.
    """

    server: Params
    num_selected: Array


@references.cite('sun2025debiasing')
def debiased_fedavg(local_train: ClientProgram) -> Algorithm:
    """Runs Debiasing FedAvg: clients scale their local rate by nu_i, the server averages.

    ``t_i <- t_i + 1``, ``lambda_i = t_i / ((t + 1) B)``, ``nu_i = 1 / (lambda_i N)``. t_i counts
    the rounds in which client i was selected (active), the current one included. nu_i tends to 1 /
    (N pi_i), where pi_i is the client's long-run fraction of all selections. So the algorithm
    minimises the mean objective up to terms of order eta. These terms remain because several local
    steps are not linear in the local rate, and because successive selections depend on each other.

    The paper has a fixed cohort size B; here B is the number of active clients of the round. A
    client that first appears late is scaled by ``(t + 1) B / N``: a rate that is stable for FedAvg
    may diverge here.

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x_t, sent with the round's index t. That index is the run's round counter, so start
    the algorithm in round 0. An empty round, which the paper excludes, keeps x.

    Memory: one model, and one integer per client.

    Args:
      local_train: the client program; its learning rate is eta.

    Returns:
      The algorithm; models: ``server``. There is no server rate.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.01, local_steps=2)
      >>> algorithm = algorithms.debiased_fedavg(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=1000)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.49

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
        # Line 5: t_i <- t_i + 1 for the active clients.
        num_selected = cohorts.count_participants(ctx.links, state.num_selected)

        def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
            # Line 7: local steps with the rate eta nu_i.
            num_selections = (ctx.round + 1) * common.as_float(num_active)
            lambda_i = common.as_float(num_selected[i]) / num_selections
            nu_i = 1 / (lambda_i * problem.num_clients)
            update = train(state.server, lr_scale=nu_i)
            return Contribution(update.delta, update.loss), row

        deltas, _, metrics = common.train(
            local_train, ctx, problem, client, cohort=cohort
        )
        # Line 10: add the mean update of the active clients.
        mean = tree.divide(deltas, num_active)
        server = tree.add_scaled(state.server, 1, mean)
        return DebiasedState(server, num_selected), metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
