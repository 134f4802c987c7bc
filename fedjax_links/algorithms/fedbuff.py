"""FedBuff: updates arrive late, and the server moves once a buffer of them is full.

The symbols are those of `fedjax_links.algorithms`.

References:
  Nguyen et al. 2022, Federated learning with buffered asynchronous aggregation.
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


class FedBuffState(NamedTuple):
    """Holds the state of FedBuff.

    Attributes:
      server: the server model x.
      clients: the model that each client received last, leaves [N, ...], in ``table_dtype``.
      versions: int32[N], ``version`` at the time when the client received its model.
      buffer: the weighted sum of the updates in the buffer.
      num_buffered: int32[], how many updates the buffer holds.
      version: int32[], how often x has moved.
    """

    server: Params
    clients: Params
    versions: Array
    buffer: Params
    num_buffered: Array
    version: Array


@references.cite('nguyen2022federated')
def fedbuff(
    local_train: ClientProgram,
    *,
    buffer_size: int,
    server_lr: Number = 1.0,
    table_dtype: common.TableDtype = None,
) -> Algorithm:
    """Runs FedBuff: the server buffers late updates and moves once it has K of them.

    Client i arrives when its uplink delivers. It trains from z_i, the model that it received at its
    last arrival (x^0 at first): ``Delta_i = L_i(z_i) - z_i``. On arrival
    ``(1 + tau_i)^{-1/2} Delta_i`` enters the buffer B, where tau_i is how often x has moved since
    client i received z_i. At the end of a round with at least K updates in B, x moves by the mean
    of B, ``x <- x + (eta_g / |B|) sum_B (1 + tau_i)^{-1/2} Delta_i``, and B is emptied. In every
    round the clients that arrived receive x, whether x moved or not. Several clients may arrive in
    one round, so B may hold more than K updates.

    Clients that arrive often count often. So the limit is biased towards these clients, as FedAvg's
    limit is.

    Link semantics: only clients whose uplink delivers count. Each trains from the model that it
    holds. Its update is computed on arrival, with the rate and batches of that round. A client that
    delivers but does not receive keeps its model and its version. An empty round keeps x.

    Memory: 2 + N models and one integer per client. With ``table_dtype=jnp.bfloat16`` the N models
    take half the space. A client then trains from its rounded model, and its update is the
    difference to the rounded model.

    Args:
      local_train: the client program L_i.
      buffer_size: K, at least 1; 10 in the paper.
      server_lr: eta_g, positive.
      table_dtype: dtype of the client models; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``. ``extra['num_server_steps']`` counts the server's moves.
      ``extra['staleness_sum']`` adds up tau_i over the clients that arrived.

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
      >>> algorithm = algorithms.fedbuff(client, buffer_size=2)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.3

    References:
      Nguyen et al. 2022, Algorithm 1; the weight is from its section 5.
    """
    checks.integer('buffer_size', buffer_size)
    checks.positive_number('server_lr', server_lr)
    # Clients cast their rows before they train, so 8 bits are enough.
    common.check_table_dtype(table_dtype, min_bits=8)

    def init(params: Params, problem: Problem) -> FedBuffState:
        clients = common.table_of(params, problem, table_dtype)
        return FedBuffState(
            server=params,
            clients=clients,
            versions=jnp.zeros(problem.num_clients, jnp.int32),
            buffer=tree.zero_sums(params),
            num_buffered=jnp.int32(0),
            version=jnp.int32(0),
        )

    def round_step(
        state: FedBuffState, ctx: RoundContext, problem: Problem
    ) -> Step[FedBuffState]:
        cohort = cohorts.delivering(ctx.links)

        def client(train: Train, i: Array, z_i: PyTree) -> tuple[Contribution, PyTree]:
            staleness = common.as_float(state.version - state.versions[i])
            update = train(tree.cast_like(z_i, state.server))
            weight = 1 / jnp.sqrt(1 + staleness)
            upload = tree.scale(weight, update.delta)
            return Contribution((upload, staleness), update.loss), z_i

        total, z, metrics = common.train(
            local_train, ctx, problem, client, state.clients, cohort
        )
        upload_sum, staleness_sum = total

        # Server: buffer the updates; once there are K, move by their mean and empty the buffer.
        buffer = tree.add_scaled(state.buffer, 1, upload_sum)
        num_buffered = state.num_buffered + metrics.num_active
        is_full = num_buffered >= buffer_size
        mean = tree.divide(buffer, num_buffered)
        new_server = tree.add_scaled(state.server, server_lr, mean)
        server = tree.select(is_full, new_server, state.server)
        version = state.version + is_full

        # Broadcast: the clients that arrived receive x and its version.
        receivers = base.delivers(ctx.links) & base.receives(ctx.links)
        clients = cohorts.assign(cohorts.receiving(ctx.links), z, server)
        extra = {
            'num_server_steps': is_full.astype(jnp.int32),
            'staleness_sum': staleness_sum,
        }
        new_state = FedBuffState(
            server=server,
            clients=clients,
            versions=jnp.where(receivers, version, state.versions),
            buffer=tree.select(is_full, tree.zeros_like(buffer), buffer),
            num_buffered=jnp.where(is_full, 0, num_buffered),
            version=version,
        )
        return new_state, metrics._replace(extra=extra)

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
