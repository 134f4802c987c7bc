"""FedPBC: the server broadcasts at the end of the round, to the clients that uploaded.

The symbols are those of `fedjax_links.algorithms`.

References:
  Xiang et al. 2023, Algorithm 2; Xiang et al. 2024, Algorithm 1.
"""

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
    """Runs FedPBC: clients train their own models, and the active ones average among each other.

    With ``z_i = x_i^t + eta_g (L_i(x_i^t) - x_i^t)``: ``x^{t+1} = mean_{i in A} z_i``;
    ``x_i^{t+1} = x^{t+1}`` for i in A and ``z_i`` otherwise. A round multiplies the models z_i by a
    doubly stochastic matrix (`fedjax_links.mixing`), so the mean of the client models carries no
    participation bias. On equal-curvature quadratics with ``eta_g = 1`` the error of this mean
    falls as ``(1 - eta)^{s t}`` for any uplinks. Clients that cannot compute bias the mean, and so
    do lost downlinks.

    Link semantics: with ``compute='all'`` every client trains in every round, from its own model.
    The server averages the models of clients whose uplink delivers. These clients receive the
    average at the end of the round, unless their downlink is lost. With ``compute='active'``
    inactive clients pause and keep x_i, and FedAvg's bias returns. Nothing is received at the start
    of a round. An empty round keeps x, and clients still train.

    The listing draws one sample per client and round, for all local steps. A client program with
    ``resample='round'`` does so. The default program draws a minibatch for each local step, as the
    authors' released code does.

    Memory: 1 + N models. With ``table_dtype=jnp.bfloat16`` the N client models take half the space.
    A client then trains from its rounded model and uploads an unrounded model. The model that the
    client keeps is rounded again. So while its uplink is down, progress below a 256th of an entry
    is lost.

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

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.fedpbc(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Xiang et al. 2023, Algorithm 2; clients pause in their Fig. 2b.
    """
    checks.positive_number('server_lr', server_lr)
    checks.choice('compute', compute, ('all', 'active'))
    common.check_table_dtype(table_dtype, min_bits=8)  # Rows are cast before use.

    def round_step(
        state: ClientsState, ctx: RoundContext, problem: Problem
    ) -> Step[ClientsState]:
        active = base.delivers(ctx.links)
        if compute == 'all':
            cohort = cohorts.computing(ctx.links)
        else:
            cohort = cohorts.delivering(ctx.links)

        def client(train: Train, i: Array, x_i: PyTree) -> tuple[Contribution, PyTree]:
            # Algorithm 2, lines 4-12: train from x_i, active or not.
            start = tree.cast_like(x_i, state.server)
            update = train(start)
            z_i = tree.add_scaled(start, server_lr, update.delta)
            contribution = Contribution(z_i, update.loss)
            nothing = tree.zeros_like(contribution)
            return tree.select(active[i], contribution, nothing), z_i

        total, z, metrics = common.train(
            local_train, ctx, problem, client, state.clients, cohort
        )

        # Lines 13-17: the server averages the active models; an empty round keeps x.
        num_active = jnp.sum(active, dtype=jnp.int32)
        mean = tree.cast_like(tree.divide(total, num_active), state.server)
        server = tree.select(num_active > 0, mean, state.server)

        # Lines 18-21: the active clients receive the average.
        receivers = active & base.receives(ctx.links)
        clients = tree.fill_rows(receivers, tree.cast_like(server, z), z)
        return ClientsState(server, clients), metrics._replace(num_active=num_active)

    return common.client_model_algorithm(round_step, table_dtype)
