"""CA2FL: a buffer of late updates, calibrated by the last update of every client.

The symbols are those of `fedjax_links.algorithms`.

References:
  Wang et al. 2024, Tackling the data heterogeneity in asynchronous federated learning with cached
  update calibration.
"""

from typing import NamedTuple

import jax.numpy as jnp

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
from fedjax_links.core import checks, meshes, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


class Ca2flState(NamedTuple):
    """Holds the state of CA2FL.

    Attributes:
      server: the server model x.
      clients: z_i, the model that each client received last, leaves [N, ...], in ``table_dtype``.
      memory: h_i, the last update of each client, leaves [N, ...], in ``table_dtype``.
      memory_sum: the sum of all h_i when x moved last.
      buffer: the sum of the calibrated updates ``Delta_i - h_i`` in the buffer.
      num_buffered: int32[], how many updates the buffer holds.
    """

    server: Params
    clients: Params
    memory: Params
    memory_sum: Params
    buffer: Params
    num_buffered: Array


@references.cite('wang2024tackling')
def ca2fl(
    local_train: ClientProgram,
    *,
    buffer_size: int,
    server_lr: Number = 1.0,
    table_dtype: common.TableDtype = None,
) -> Algorithm:
    """Runs CA2FL: FedBuff's late updates, each relative to the client's last one.

    Client i arrives when its uplink delivers. It trains from z_i, the model that it received at its
    last arrival (x^0 at first): ``Delta_i = L_i(z_i) - z_i``. On arrival ``Delta_i - h_i`` enters
    the buffer B and ``h_i <- Delta_i``, where h_i is zero at first. At the end of a round with at
    least K updates in the buffer, ``v = hbar + mean(B)`` and ``x <- x + eta_g v``, and the buffer
    is emptied. hbar is the mean of all N h_i at the time when x last moved. In every round the
    clients that arrived receive x, whether x moved or not. Several clients may arrive in one round,
    so a buffer may hold more than K updates.

    CA2FL is FedVARP with FedBuff's arrivals. With K = 1 it equals `algorithms.fedvarp` if each
    client that arrives holds the current x, for example if all clients arrive in each round. At a
    resting point hbar is the mean update, so on quadratics of equal curvature the resting point is
    the optimum.

    What is open: some code divides hbar by the number of clients seen so far. Here the divisor is
    N, as in the paper. The two divisors agree once all clients have arrived. If a client arrives
    twice before x moves, its second update is relative to its first.

    Link semantics: only clients whose uplink delivers count. Each trains from the model that it
    holds. Its update is computed on arrival, with the rate and batches of that round. A client that
    delivers but does not receive keeps its model. An empty round keeps x.

    Memory: 3 + 2N models. With ``table_dtype=jnp.bfloat16`` the 2N models take half the space. A
    client then trains from the rounded model, and its update is rounded before the server uses it.

    Args:
      local_train: the client program L_i.
      buffer_size: K, at least 1; 10 in the paper.
      server_lr: eta_g, positive.
      table_dtype: dtype of the client models and rows; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``. ``extra['num_server_steps']`` counts the server's moves.

    Raises:
      ValueError: for a size below 1, a rate that is not positive or a dtype that is not
        floating-point.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.ca2fl(client, buffer_size=2)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Wang et al. 2024, Algorithm 2.
    """
    checks.integer('buffer_size', buffer_size)
    checks.positive_number('server_lr', server_lr)
    common.check_table_dtype(table_dtype)

    def init(params: Params, problem: Problem) -> Ca2flState:
        return Ca2flState(
            server=params,
            clients=common.table_of(params, problem, table_dtype),
            memory=common.zero_table(params, problem, table_dtype),
            memory_sum=tree.zero_sums(params),
            buffer=tree.zero_sums(params),
            num_buffered=jnp.int32(0),
        )

    def round_step(
        state: Ca2flState, ctx: RoundContext, problem: Problem
    ) -> Step[Ca2flState]:
        def client(
            train: Train, i: Array, rows: tuple[PyTree, PyTree]
        ) -> tuple[Contribution, PyTree]:
            z_i, h_i = rows
            update = train(tree.cast_like(z_i, state.server))
            new_h_i = tree.round_to(update.delta, h_i)
            calibrated = tree.row_delta(new_h_i, h_i)
            return Contribution(calibrated, update.loss), (z_i, new_h_i)

        upload_sum, tables, metrics = common.train(
            local_train,
            ctx,
            problem,
            client,
            meshes.paired(state.clients, state.memory),
            cohorts.delivering(ctx.links),
        )
        z, memory = meshes.unpaired(tables)

        # Server: buffer the calibrated updates; once there are K, move by v.
        buffer = tree.add_scaled(state.buffer, 1, upload_sum)
        num_buffered = state.num_buffered + metrics.num_active
        is_full = num_buffered >= buffer_size
        mean = tree.divide(buffer, num_buffered)
        v = tree.add_scaled(mean, 1 / problem.num_clients, state.memory_sum)
        new_server = tree.add_scaled(state.server, server_lr, v)
        server = tree.select(is_full, new_server, state.server)

        # Server: if x moves, add the buffer to the sum of all h_i.
        new_sum = tree.add_scaled(state.memory_sum, 1, buffer)

        # Broadcast: the clients that arrived receive x.
        clients = cohorts.assign(cohorts.receiving(ctx.links), z, server)
        new_state = Ca2flState(
            server=server,
            clients=clients,
            memory=memory,
            memory_sum=tree.select(is_full, new_sum, state.memory_sum),
            buffer=tree.select(is_full, tree.zeros_like(buffer), buffer),
            num_buffered=jnp.where(is_full, 0, num_buffered),
        )
        extra = {'num_server_steps': is_full.astype(jnp.int32)}
        return new_state, metrics._replace(extra=extra)

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
