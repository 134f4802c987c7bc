"""FedAU: aggregation weights from the intervals between participations.

The symbols are those of `fedjax_links.algorithms`.

References:
  Wang and Ji 2024, A lightweight method for tackling unknown participation statistics.
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
    RoundContext,
    Step,
)
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram


class FedAUState(NamedTuple):
    """Holds the state of FedAU.

    Attributes:
      server: the server model x^t.
      waited: int32[N], rounds since the client's last interval was closed.
      num_intervals: int32[N], how many intervals the client has closed.
      interval_sum: int32[N], the sum of the lengths of closed intervals, in rounds.
    """

    server: Params
    waited: Array
    num_intervals: Array
    interval_sum: Array


@references.cite('wang2024lightweight')
def fedau(
    local_train: ClientProgram,
    *,
    cutoff: int = 50,
    server_lr: Number = 1.0,
    weights: str = common.EQUAL,
) -> Algorithm:
    """Runs FedAU: weights a client's update by its mean interval between participations.

    ``x^{t+1} = x^t + (eta_g / N) sum_{i in A} w_i Delta_i``, where w_i is the mean of client i's
    closed intervals, 1 before the first. An interval is closed when the client takes part, or when
    the interval is K = ``cutoff`` rounds long. A round computes its weights before it closes
    intervals. Under Bernoulli(p_i) links w_i tends to ``(1 - (1 - p_i)^K) / p_i``, so the limit
    weighs F_i by ``1 - (1 - p_i)^K``. The limit is close to the mean objective if K is well above
    all 1/p_i. With K = 1 all w_i are 1, as in `algorithms.fedavg_all`. Links with memory lead to
    other weights (`analysis.markov_interval_mean`), and add a bias of first order in the rate
    (`analysis.first_order_mean`).

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x^t. Clients count their intervals in every round. An empty round keeps x, and the
    counters advance.

    Memory: one model, and three integers per client.

    Args:
      local_train: the client program L_i.
      cutoff: K, longest interval in rounds, at least 1.
      server_lr: eta_g, positive.
      weights: what clients weigh by, ``'equal'`` or ``'examples'``. With ``'examples'`` Delta_i is
        multiplied by n_i over the mean number of examples. The objective is then
        ``sum_i n_i F_i / sum_i n_i``.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive, a cut-off below 1 or unknown ``weights``.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.01, local_steps=2)
      >>> algorithm = algorithms.fedau(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=1000)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.49

    References:
      Wang and Ji 2024, Algorithms 1 and 2; K = 50 in Xiang et al. 2024, appendix B.
    """
    checks.integer('cutoff', cutoff)
    checks.positive_number('server_lr', server_lr)
    common.check_weights(weights)

    def init(params: Params, problem: Problem) -> FedAUState:
        zeros = jnp.zeros(problem.num_clients, jnp.int32)
        return FedAUState(
            server=params, waited=zeros, num_intervals=zeros, interval_sum=zeros
        )

    def round_step(
        state: FedAUState, ctx: RoundContext, problem: Problem
    ) -> Step[FedAUState]:
        # Weights: the mean of the closed intervals, 1 before the first.
        num_intervals = jnp.maximum(state.num_intervals, 1)
        mean_interval = common.as_float(state.interval_sum) / num_intervals
        weight = jnp.where(state.num_intervals > 0, mean_interval, 1)

        # Server: add the weighted updates of the active clients, divided by N.
        relative_counts = common.relative_counts(problem, weights)
        if relative_counts is not None:
            weight = relative_counts * weight
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, weight
        )
        server = tree.add_scaled(state.server, server_lr / problem.num_clients, deltas)

        # Clients: close the interval on participation, or when it reaches the cut-off.
        interval = state.waited + 1
        is_closed = base.participants(ctx.links) | (interval >= cutoff)
        new_state = FedAUState(
            server=server,
            waited=jnp.where(is_closed, 0, interval),
            num_intervals=state.num_intervals + is_closed,
            interval_sum=state.interval_sum + jnp.where(is_closed, interval, 0),
        )
        return new_state, metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
