"""Federated postponed broadcast: the server speaks at the end of the round, to those it heard.

References:
  Xiang et al. 2023, Algorithm 2; Xiang et al. 2024, Algorithm 1.
"""

import functools

import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ClientsState
from fedjax_links.base import (
    Algorithm,
    Array,
    Number,
    Problem,
    PyTree,
    RoundContext,
    Step,
)
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


@references.cite('xiang2023towards', 'xiang2024empowering')
def fedpbc(
    local_train: ClientProgram,
    *,
    server_lr: Number = 1.0,
    compute: str = 'all',
    table_dtype: common.TableDtype = None,
) -> Algorithm:
    """FedPBC: every client trains its own model; the active ones then average among each other.

    With ``z_i = x_i^t + eta_g (L_i(x_i^t) - x_i^t)``: ``x^{t+1} = mean_{i in A} z_i``;
    ``x_i^{t+1} = x^{t+1}`` for i in A and ``z_i`` otherwise. The client models become Z W with a
    doubly stochastic W (`fedjax_links.mixing`), so their mean carries no participation bias: on
    equal-curvature quadratics it follows ``(1 - eta)^{s t}`` for any links whatever.

    Link semantics: with ``compute='all'`` every client trains in every round, from its own model;
    those whose uplink delivers are averaged and receive the average at the end of the round. With
    ``compute='active'`` the others pause and keep x_i, and FedAvg's bias returns. Nothing is
    received at the start of a round. An empty round keeps x, and clients still train.

    Memory: 1 + N models; half of the N with ``table_dtype=jnp.bfloat16``. A client then trains from
    its rounded model and uploads unrounded, but what it keeps between rounds is rounded again, so
    progress below a 256th of an entry is lost while its uplink is down.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive, applied by every client to its own displacement; 1 in the papers.
      compute: who trains, ``'all'`` or ``'active'``.
      table_dtype: dtype of the client models; the parameters' own by default.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.

    Raises:
      ValueError: for a rate that is not positive, an unknown ``compute``, or a dtype that is not
        floating-point.

    References:
      Xiang et al. 2023, Algorithm 2; the pause is their Fig. 2b.
    """
    checks.positive_number('server_lr', server_lr)
    checks.choice('compute', compute, ('all', 'active'))
    common.check_table_dtype(table_dtype)

    def round_step(
        state: ClientsState, ctx: RoundContext, problem: Problem
    ) -> Step[ClientsState]:
        active = base.delivers(ctx.links)
        who = cohorts.computing if compute == 'all' else cohorts.delivering
        cohort = who(ctx.links)

        def client(train: Train, i: Array, x_i: PyTree) -> tuple[Contribution, PyTree]:
            start = tree.cast_like(x_i, state.server)
            update = train(start)  # Alg. 2, lines 4-12: own model, active or not
            z_i = tree.add_scaled(start, server_lr, update.delta)
            heard = Contribution(z_i, update.loss)
            return tree.select(active[i], heard, tree.zeros_like(heard)), z_i

        total, z, metrics = common.train(
            local_train, ctx, problem, client, state.clients, cohort
        )
        num_active = jnp.sum(active, dtype=jnp.int32)
        mean = tree.cast_like(tree.divide(total, num_active), state.server)
        server = tree.select(num_active > 0, mean, state.server)  # lines 13-17
        told = active & base.receives(ctx.links)
        clients = tree.fill_rows(told, tree.cast_like(server, z), z)  # lines 18-21
        return ClientsState(server, clients), metrics._replace(num_active=num_active)

    init = functools.partial(common.every_client_at, dtype=table_dtype)
    return common.of_client_models(round_step, init)
