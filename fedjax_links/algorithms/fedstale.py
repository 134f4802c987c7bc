"""FedStale: inverse-probability weights, with remembered updates that reduce the variance.

The symbols are those of `fedjax_links.algorithms`.

References:
  Rodio and Neglia 2024, FedStale: leveraging stale client updates in federated learning.
"""

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import MemoryState
from fedjax_links.base import (
    Algorithm,
    Array,
    Number,
    Problem,
    PyTree,
    RoundContext,
    Step,
)
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


@references.cite('rodio2024fedstale')
def fedstale(
    local_train: ClientProgram,
    *,
    stale_weight: Number,
    server_lr: Number = 1.0,
    table_dtype: common.TableDtype = None,
    server_optimizer: common.ServerOptimizer = None,
) -> Algorithm:
    """Runs FedStale: inverse-probability weights on the difference to remembered updates.

    ``v = (1 / N) sum_A (Delta_i - beta h_i) / p_i + beta hbar``, ``x <- x + eta_g v``.
    h_i is client i's last update, zero at first. hbar is the mean of all N remembered updates
    **before** this round's updates are stored. Then ``h_i <- Delta_i`` for i in A. As
    ``E[1{i in A}] = p_i``, v is unbiased for the mean update at any beta, if links are independent
    of earlier rounds. beta = 0 is `algorithms.fedavg_known`, beta = 1 an unbiased FedVARP.

    Under such links, on quadratics of equal curvature, the mean of x ends at the optimum at any
    beta. With full gradients x scatters around its mean by the order of ``1 - beta``, because only
    ``Delta_i - beta h_i`` is weighted at random. At beta = 1, x ends at the optimum to rounding.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. p_i is ``links.prob`` of the round. Where a pattern does not know p_i (NaN), an
    active client makes the server model NaN. No weight is clipped. **An empty round moves x** by
    ``eta_g beta hbar``.

    Memory: 2 + N models: x, the rows and their running sum (`MemoryState` says how it drifts). With
    ``table_dtype=jnp.bfloat16`` the rows take half the space. Rows are rounded when stored, and
    hbar is the mean of the rounded rows. Delta_i enters v unrounded.

    Args:
      local_train: the client program L_i.
      stale_weight: beta, in [0, 1].
      server_lr: eta_g, positive; to be left out beside an optimizer, which has a rate of its own.
      table_dtype: dtype of the rows; the parameters' own by default.
      server_optimizer: an optax transformation whose gradient is minus the server's step.
        ``optax.sgd(1.0)`` gives the step, to the bit. None takes the step itself.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a weight outside [0, 1], a rate that is not positive, a dtype that is not
        floating-point, or an optimizer that is no optax transformation.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.01, local_steps=2)
      >>> algorithm = algorithms.fedstale(client, stale_weight=0.9)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=1000)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Rodio and Neglia 2024, Algorithm 1.
    """
    checks.number_within('stale_weight', stale_weight, 0, 1)
    common.check_server_rates(server_lr, server_optimizer)

    def round_step(
        state: MemoryState, ctx: RoundContext, problem: Problem
    ) -> Step[MemoryState]:
        def client(train: Train, i: Array, h_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            innovation = tree.add_scaled(update.delta, -stale_weight, h_i)
            weighted = tree.scale(1 / base.prob_of(ctx.links, i), innovation)
            return Contribution(weighted, update.loss), update.delta

        innovation_sum, after, metrics = common.update_rows(
            local_train, ctx, problem, client, state
        )
        # Server: N v is the sum of the innovations, plus beta times the sum of the old rows.
        scaled_v = tree.add_scaled(innovation_sum, stale_weight, state.memory_sum)
        scale = server_lr / problem.num_clients
        new_state = common.apply_server_update(after, scale, scaled_v, server_optimizer)
        return new_state, metrics

    return common.with_memory(
        round_step, table_dtype, server_optimizer=server_optimizer
    )
