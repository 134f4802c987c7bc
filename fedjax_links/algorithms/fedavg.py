"""Federated averaging over unreliable uplinks, and its divisor-N variant.

References:
  McMahan et al. 2017; Xiang et al. 2023, Algorithm 1.
"""

import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ClientsState, ServerState
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


@references.cite('mcmahan2017communication', 'xiang2023towards')
def fedavg(
    local_train: ClientProgram,
    *,
    server_lr: Number = 1.0,
    compute: str = 'active',
    weights: str = common.EQUAL,
) -> Algorithm:
    """Runs FedAvg: the server adds the mean update of the active clients.

    ``x^{t+1} = x^t + eta_g * mean_{i in A} Delta_i`` over the active clients A, with
    ``Delta_i = L_i(x^t) - x^t`` of the client program L_i. An active client is one whose uplink
    delivers. Clients count equally, however many examples they own, as in Xiang et al. The
    objective is the mean of the clients' losses F_i. With ``weights='examples'`` client i weighs by
    its n_i examples, as in McMahan et al. The mean is then
    ``sum_{i in A} n_i Delta_i / sum_{i in A} n_i``, and the objective
    ``sum_i n_i F_i / sum_i n_i``, the mean over all examples.

    Under links of unequal quality FedAvg minimises ``sum_i w_i F_i`` with
    ``w_i = E[1{i in A} / |A|  given A not empty]`` instead of the mean of the F_i. On quadratics of
    equal curvature the expected server model tends to exactly the minimiser of that sum, at every
    learning rate. This holds if rounds are independent, or if no round is empty. Empty rounds of
    links with memory add a bias of first order in the learning rate.

    Link semantics: with ``compute='active'`` a client computes, uploads and receives only in rounds
    in which its uplink delivers. All active clients start from x^t. With ``compute='all'`` inactive
    clients train too, each from its last local model, without uploading. The server's trajectory is
    the same; only the client models differ. An empty round keeps x.

    Memory: one model, or 1 + N models with ``compute='all'``.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive; 1 in the papers.
      compute: who trains, ``'active'`` or ``'all'``.
      weights: what clients weigh by, ``'equal'`` or ``'examples'``; the two agree to the bit where
        all clients own equally many examples.

    Returns:
      The algorithm; models: ``server``, and ``client_mean`` with ``compute='all'``.

    Raises:
      ValueError: for a rate that is not positive, or an unknown ``compute`` or ``weights``.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5, E x tends to 0.18
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.fedavg(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.3

    References:
      Xiang et al. 2023, Algorithm 1 and Proposition 1; McMahan et al. 2017, Algorithm 1, for
      weights by examples.
    """
    checks.positive_number('server_lr', server_lr)
    checks.choice('compute', compute, ('active', 'all'))
    common.check_weights(weights)
    if compute == 'all':
        return _fedavg_with_idle_training(local_train, server_lr, weights)

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        # Lines 8-16: active clients train from x^t. Lines 18-22: the server averages.
        mean, metrics = common.mean_delta(
            local_train, ctx, problem, state.server, weights
        )
        return ServerState(tree.add_scaled(state.server, server_lr, mean)), metrics

    return common.server_only_algorithm(round_step)


@references.cite('xiang2024empowering')
def fedavg_all(
    local_train: ClientProgram, *, server_lr: Number = 1.0, weights: str = common.EQUAL
) -> Algorithm:
    """Runs FedAvg with absent clients counted as zero: the sum of the updates is divided by N.

    ``x^{t+1} = x^t + (eta_g / N) sum_{i in A} Delta_i``, in the symbols of `fedavg`. In expectation
    client i counts proportionally to the probability p_i of its uplink. So the fixed point on
    quadratics of equal curvature is the p-weighted mean of the targets. It is biased although the
    divisor N is fixed. Links with memory move the fixed point by a term of first order in the
    learning rate (`analysis.first_order_mean`).

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x^t. An empty round keeps x.

    Memory: one model.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.
      weights: what clients weigh by, ``'equal'`` or ``'examples'``. With ``'examples'`` Delta_i is
        multiplied by n_i over the mean number of examples.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive or unknown ``weights``.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5, E x tends to 0.25
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.fedavg_all(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.34

    References:
      Xiang et al. 2024, section 7.2 (baselines).
    """
    checks.positive_number('server_lr', server_lr)
    common.check_weights(weights)

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        # Active clients train from x^t. The server divides their sum by N, not by |A|.
        relative_counts = common.relative_counts(problem, weights)
        delta_sum, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, relative_counts
        )
        mean = tree.divide(delta_sum, jnp.asarray(problem.num_clients))
        return ServerState(tree.add_scaled(state.server, server_lr, mean)), metrics

    return common.server_only_algorithm(round_step)


def _fedavg_with_idle_training(
    local_train: ClientProgram, server_lr: Number, weights: str
) -> Algorithm:
    """Builds FedAvg whose inactive clients train too, without uploading."""

    def round_step(
        state: ClientsState, ctx: RoundContext, problem: Problem
    ) -> Step[ClientsState]:
        active = base.participants(ctx.links)
        cohort = cohorts.computing(ctx.links)
        relative_counts = common.relative_counts(problem, weights)

        def client(train: Train, i: Array, x_i: PyTree) -> tuple[Contribution, PyTree]:
            # Algorithm 1, lines 7-11: active clients start from x, the others from x_i.
            update = train(tree.select(active[i], state.server, x_i))
            upload = tree.select(active[i], update, tree.zeros_like(update))
            delta = upload.delta
            if relative_counts is not None:
                delta = tree.scale(relative_counts[i], delta)
            return Contribution(delta, upload.loss), update.params

        delta_sum, new_clients, metrics = common.train(
            local_train, ctx, problem, client, state.clients, cohort
        )
        # Server: add the mean update of the active clients.
        num_active = jnp.sum(active, dtype=jnp.int32)
        weight_sum = num_active
        if relative_counts is not None:
            weight_sum = jnp.sum(jnp.where(active, relative_counts, 0))
        mean = tree.divide(delta_sum, weight_sum)
        server = tree.add_scaled(state.server, server_lr, mean)
        return ClientsState(server, new_clients), metrics._replace(
            num_active=num_active
        )

    return common.client_model_algorithm(round_step)
