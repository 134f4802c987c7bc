"""FedVARP: remembered updates as control variates at the server.

The symbols are those of `fedjax_links.algorithms`.

References:
  Jhunjhunwala et al. 2022, FedVARP: tackling the variance due to partial client participation.
"""

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
from fedjax_links.core import references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


@references.cite('jhunjhunwala2022fedvarp')
def fedvarp(
    local_train: ClientProgram,
    *,
    server_lr: Number = 1.0,
    table_dtype: common.TableDtype = None,
    max_age: common.MaxAge = None,
    server_optimizer: common.ServerOptimizer = None,
) -> Algorithm:
    """Runs FedVARP: remembered updates serve as control variates at the server.

    ``v = mean_{i in A}(Delta_i - y_i) + ybar``, ``x^{t+1} = x^t + eta_g v``. y_i is client i's last
    update, zero at first. ybar is the mean of all N remembered updates **before** this round's
    updates are stored. Then ``y_i <- Delta_i`` for i in A. The paper draws its clients uniformly
    and afresh in each round, which makes v unbiased for the mean update. Under unequal links, or
    links with memory, v is biased by the differences ``Delta_i - y_i``, which vanish as x settles.
    So with exact gradients x ends where the mean update is zero, if x converges. On quadratics of
    equal curvature this point is the optimum. x converges for small ``eta_g``, because the
    correction is a mean over A.

    The rows are the y_i. With ``max_age=a`` a row is used in the a rounds after it was stored, and
    then reset to zero. ybar is then the mean of the remaining rows, not of N. a = 0 is FedAvg up to
    rounding.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x^t. An empty round keeps x, as in the released code. A literal reading of v would
    move x by ybar. The paper has no empty rounds, because its number of active clients is fixed.

    Memory: 2 + N models: x, the rows and their running sum (`MemoryState` says how it drifts). With
    ``table_dtype=jnp.bfloat16`` the rows take half the space. Rows are rounded when stored, and
    ybar is the mean of the rounded rows. Delta_i enters v unrounded.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive; to be left out beside an optimizer, which has a rate of its own.
      table_dtype: dtype of the rows; the parameters' own by default.
      max_age: a, largest age of a row in rounds, at most 2^29; None keeps all.
      server_optimizer: an optax transformation whose gradient is minus the server's step.
        ``optax.sgd(1.0)`` gives the step, to the bit. None takes the step itself.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive, a dtype that is not floating-point, a negative
        age or an optimizer that is no optax transformation.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.fedvarp(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Jhunjhunwala et al. 2022, Algorithm 2; ``max_age`` is from Chang et al. 2025 (ACED), and the
      server optimizer on remembered updates from FedAdaVR (arXiv 2601.22204).
    """
    common.check_server_rates(server_lr, server_optimizer)

    def round_step(
        state: MemoryState, ctx: RoundContext, problem: Problem
    ) -> Step[MemoryState]:
        def client(train: Train, i: Array, y_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            innovation = tree.subtract(update.delta, y_i)
            return Contribution(innovation, update.loss), update.delta

        state = common.expire_rows(state, ctx, max_age)
        innovation, after, metrics = common.update_rows(
            local_train, ctx, problem, client, state
        )
        # Server: v is the mean innovation plus the mean of the rows as they were before.
        mean = tree.divide(innovation, metrics.num_active)
        if max_age is None:
            v = tree.add_scaled(mean, 1 / problem.num_clients, state.memory_sum)
        else:
            mean_row, _ = common.mean_row(state, ctx, max_age)
            v = tree.add_scaled(mean, 1, mean_row)
        new_state = common.apply_server_update(after, server_lr, v, server_optimizer)

        # An empty round keeps x.
        return tree.select(metrics.num_active > 0, new_state, after), metrics

    return common.with_memory(round_step, table_dtype, max_age, server_optimizer)
