"""FedStaleAsync: FedStale for updates that arrive late, with weights by their age.

The symbols are those of `fedjax_links.algorithms`.

References:
  AsyncFlower 2026, the authors' code; the paper is not yet public.
"""

from typing import NamedTuple

import jax
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
from fedjax_links.core import checks, meshes, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


class FedStaleAsyncState(NamedTuple):
    """Holds the state of FedStaleAsync.

    Attributes:
      server: the server model x.
      clients: z_i, the model that each client received last, leaves [N, ...], in the table's dtype.
      memory: h_i, the last update of each client, leaves [N, ...], in the table's dtype.
      client_rounds: int32[N], the round at whose start the server model was z_i.
      memory_rounds: int32[N], the round at whose start the server model was the start point of h_i.
      waited: int32[N], rounds since the client arrived last, or since the start.
      weight_sum: float[N], the sum of the weights of h_i over the rounds of ``waited``.
      num_intervals: int32[N], arrivals so far; None where probabilities are known.
      interval_sum: int32[N], the sum of the intervals between arrivals, each cut at ``cutoff``
        rounds; None where probabilities are known.
    """

    server: Params
    clients: Params
    memory: Params
    client_rounds: Array
    memory_rounds: Array
    waited: Array
    weight_sum: Array
    num_intervals: Array | None = None
    interval_sum: Array | None = None


@references.cite('asyncflower2026fedstaleasync')
def fedstale_async(
    local_train: ClientProgram,
    *,
    stale_weight: Number,
    stale_decay: Number = 0.0,
    stale_patience: Number = 0,
    late_decay: Number = 0.0,
    late_patience: Number = 0,
    cutoff: int | None = None,
    server_lr: Number = 1.0,
    table_dtype: common.TableDtype = None,
) -> Algorithm:
    """Runs FedStaleAsync: weighs late updates by inverse probability, remembered updates by age.

    Client i arrives when its uplink delivers. It trains from z_i, the model that it received at its
    last arrival (x^0 at first): ``Delta_i = L_i(z_i) - z_i``. In every round
    ``x <- x + (eta_g / N) [sum_A (alpha_i Delta_i - betabar_i h_i) / p_i + sum_i beta_i h_i]``. h_i
    is client i's last update **before** this round, zero at first. Then ``h_i <- Delta_i`` for i in
    A, and A receives x.

    Weights are constant up to an age in rounds, and then fall (hinges).
    ``beta_i = stale_weight / (1 + stale_decay d)``, where d is by how much the age of h_i exceeds
    ``stale_patience``, at least 0. The age of h_i counts the rounds since the server model was the
    start point of h_i. betabar_i is the mean of beta_i over the rounds since client i's last
    arrival, this round included. alpha_i falls from 1 in the same way, with the age of z_i, by
    ``late_decay`` and ``late_patience``. By default no weight decays.

    On quadratics of equal curvature, under independent links and without decay, the mean of x ends
    at the optimum. What h_i adds between two arrivals then has mean zero. Decay adds a bias. If
    only remembered updates decay, the bias is small, as betabar_i depends on how long the client
    was away. If late updates decay, the bias is larger, as late updates then count less than
    others.

    Weights that do not decay give `algorithms.fedstale` if each client that arrives also arrived in
    the round before, for example if all clients arrive in each round.

    What is open: the authors' code divides by the number of clients seen so far, and skips empty
    rounds. Here the divisor is N, as in FedStale, and **an empty round moves x** by the remembered
    updates. Without this x would be biased.

    Link semantics: only clients whose uplink delivers count. Each trains from the model that it
    holds. Its update is computed on arrival, with the rate and batches of that round. A client that
    delivers but does not receive keeps its model. p_i is ``links.prob`` of the round. Where a
    pattern does not know p_i (NaN), an active client makes the server model NaN. With a ``cutoff``
    of K rounds p_i is estimated instead: one over the mean of the client's intervals between
    arrivals. The interval that ends now is included, and each counts at most K rounds. No weight is
    clipped.

    Memory: 1 + 2N models and four numbers per client; six with a cut-off. A round reads all rows.
    With ``table_dtype=jnp.bfloat16`` models and rows take half the space. A client then trains from
    the rounded model, and rows are rounded when stored.

    Args:
      local_train: the client program L_i.
      stale_weight: weight of a remembered update that is not old, in [0, 1].
      stale_decay: how fast this weight falls with each round beyond ``stale_patience``, at least 0.
      stale_patience: age in rounds up to which this weight does not fall, at least 0.
      late_decay: how fast the weight of a late update falls from 1 with each round beyond
        ``late_patience``, at least 0.
      late_patience: age in rounds up to which a late update's weight does not fall, at least 0.
      cutoff: K, longest interval in rounds, at least 1, to estimate p_i; None for known p_i.
      server_lr: eta_g, positive.
      table_dtype: dtype of the client models and rows; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a weight outside [0, 1], a negative decay or patience, a cut-off below 1, a
        rate that is not positive or a dtype that is not floating-point.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.01, local_steps=2)
      >>> algorithm = algorithms.fedstale_async(client, stale_weight=0.9)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=1000)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      The code of AsyncFlower, 2026: hinge weights and the estimate from intervals are its options.
    """
    checks.number_within('stale_weight', stale_weight, 0, 1)
    checks.at_least_zero('stale_decay', stale_decay)
    checks.at_least_zero('stale_patience', stale_patience)
    checks.at_least_zero('late_decay', late_decay)
    checks.at_least_zero('late_patience', late_patience)
    if cutoff is not None:
        checks.integer('cutoff', cutoff)
    checks.positive_number('server_lr', server_lr)
    common.check_table_dtype(table_dtype)

    def init(params: Params, problem: Problem) -> FedStaleAsyncState:
        zeros = jnp.zeros(problem.num_clients, jnp.int32)
        return FedStaleAsyncState(
            server=params,
            clients=common.table_of(params, problem, table_dtype),
            memory=common.zero_table(params, problem, table_dtype),
            client_rounds=zeros,
            memory_rounds=zeros,
            waited=zeros,
            weight_sum=common.as_float(zeros),
            num_intervals=None if cutoff is None else zeros,
            interval_sum=None if cutoff is None else zeros,
        )

    def round_step(
        state: FedStaleAsyncState, ctx: RoundContext, problem: Problem
    ) -> Step[FedStaleAsyncState]:
        arrives = base.delivers(ctx.links)
        receives = arrives & base.receives(ctx.links)

        # Weights: alpha_i by the age of z_i, beta_i by that of h_i, and the mean of beta_i.
        late_weight = _hinge(ctx.round - state.client_rounds, late_decay, late_patience)
        memory_age = ctx.round - state.memory_rounds
        memory_weight = stale_weight * _hinge(memory_age, stale_decay, stale_patience)
        waited = state.waited + 1
        weight_sum = state.weight_sum + memory_weight
        mean_weight = weight_sum / waited
        intervals = _count_intervals(state, arrives, waited, cutoff)

        def client(
            train: Train, i: Array, rows: tuple[PyTree, PyTree]
        ) -> tuple[Contribution, PyTree]:
            z_i, h_i = rows
            update = train(tree.cast_like(z_i, state.server))
            late = tree.scale(late_weight[i], update.delta)
            innovation = tree.add_scaled(late, -mean_weight[i], h_i)
            prob = _prob(ctx, intervals, i)
            weighted = tree.scale(1 / prob, innovation)
            return Contribution(weighted, update.loss), (z_i, update.delta)

        def weighted_row(i: Array, h_i: PyTree) -> tuple[PyTree, PyTree]:
            wide = jax.tree.map(lambda a: a.astype(tree.sum_dtype(a.dtype)), h_i)
            return tree.scale(memory_weight[i], wide), h_i

        everyone = cohorts.all_clients(problem.num_clients)
        remembered, _ = cohorts.map_reduce(weighted_row, everyone, state.memory)
        innovation_sum, tables, metrics = common.train(
            local_train,
            ctx,
            problem,
            client,
            meshes.paired(state.clients, state.memory),
            cohorts.delivering(ctx.links),
        )
        z, memory = meshes.unpaired(tables)

        # Server: add the innovations and the remembered updates, divided by N.
        scaled_v = tree.add_scaled(innovation_sum, 1, remembered)
        server = tree.add_scaled(
            state.server, server_lr / problem.num_clients, scaled_v
        )

        # Broadcast: the clients that arrived receive x, which is that of the next round.
        clients = cohorts.assign(cohorts.receiving(ctx.links), z, server)
        new_state = state._replace(
            server=server,
            clients=clients,
            memory=memory,
            client_rounds=jnp.where(receives, ctx.round + 1, state.client_rounds),
            memory_rounds=jnp.where(arrives, state.client_rounds, state.memory_rounds),
            waited=jnp.where(arrives, 0, waited),
            weight_sum=jnp.where(arrives, 0, weight_sum),
            **intervals,
        )
        return new_state, metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)


def _hinge(age: Array, decay: Number, patience: Number) -> Array:
    """Returns ``1 / (1 + decay d)`` of the rounds d beyond the patience, float[N]."""
    excess = jnp.maximum(common.as_float(age) - patience, 0)
    return 1 / (1 + decay * excess)


def _count_intervals(
    state: FedStaleAsyncState, arrives: Array, waited: Array, cutoff: int | None
) -> dict[str, Array]:
    """Counts the intervals that end now, as fields of the state; none if p_i is known."""
    if cutoff is None:
        return {}
    interval = jnp.where(arrives, jnp.minimum(waited, cutoff), 0)
    return {
        'num_intervals': jnp.asarray(state.num_intervals) + arrives,
        'interval_sum': jnp.asarray(state.interval_sum) + interval,
    }


def _prob(ctx: RoundContext, intervals: dict[str, Array], i: Array) -> Array:
    """Returns p_i: the probability of the links, or one over the client's mean interval."""
    if not intervals:
        return base.prob_of(ctx.links, i)
    return common.as_float(intervals['num_intervals'][i]) / intervals['interval_sum'][i]
