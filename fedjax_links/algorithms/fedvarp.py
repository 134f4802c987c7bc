"""FedVARP: remembered updates as control variates at the server.

References:
  Jhunjhunwala et al. 2022, FedVARP: tackling the variance due to partial client participation.
"""

from jax.typing import DTypeLike

from fedjax_links import checks, cohorts, tree
from fedjax_links.algorithms import common
from fedjax_links.base import Algorithm, Array, Number, Problem, PyTree, RoundContext, RoundMetrics
from fedjax_links.local_training import ClientProgram, Contribution, Train, train_cohort
from fedjax_links.references import cite


@cite('jhunjhunwala2022fedvarp')
def fedvarp(
    local_train: ClientProgram, *, server_lr: Number = 1.0, table_dtype: DTypeLike | None = None
) -> Algorithm:
    """FedVARP: ``v = mean_{i in A}(Delta_i - y_i) + ybar``, ``x^{t+1} = x^t + eta_g v``.

    y_i is client i's last update, zero at first, and ybar the mean of all N of them **before** this
    round's are stored; then ``y_i <- Delta_i`` for i in A. The paper draws its clients uniformly,
    and v is then unbiased for the mean update. Under unequal links it is not, but its bias is that
    of the differences, which vanish as x settles: with exact gradients it still ends at the optimum
    if it converges. The convergence itself is for small ``eta_g``: the correction is a mean over A.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x^t. An empty round keeps x, as the released code does; a literal reading of v would
    move x by ybar, which the paper, with its fixed number of clients, never meets.

    Memory: 2 + N models: x, the rows and their running sum (its drift: `common.MemoryState`). With
    ``table_dtype=jnp.bfloat16`` the rows take half the space; they are rounded when stored, ybar is
    the mean of the rounded rows, and Delta_i itself enters v unrounded.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.
      table_dtype: dtype of the rows; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive or a dtype that is not floating-point.

    References:
      Jhunjhunwala et al. 2022, Algorithm 2.
    """
    checks.positive('server_lr', server_lr)
    common.check_table_dtype(table_dtype)

    def round_step(
        state: common.MemoryState, ctx: RoundContext, problem: Problem
    ) -> tuple[common.MemoryState, RoundMetrics]:
        cohort = cohorts.participating(ctx.links)

        def client(train: Train, i: Array, y_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            new_row = tree.round_to(update.delta, y_i)
            sums = (tree.subtract(update.delta, y_i), tree.change(new_row, y_i))
            return Contribution(sums, update.loss), new_row

        total, table = train_cohort(local_train, cohort, ctx, problem, client, state.memory)
        innovation, row_changes = total.value
        num_active = cohorts.num_members(cohort)
        v = tree.add_scaled(
            tree.divide(innovation, num_active), 1 / problem.num_clients, state.memory_sum
        )
        moved = tree.add_scaled(state.server, server_lr, v)
        new_state = common.MemoryState(
            server=tree.select(num_active > 0, moved, state.server),
            memory=table,
            memory_sum=tree.add_scaled(state.memory_sum, 1, row_changes),
        )
        return new_state, RoundMetrics(num_active, num_active, total.loss, {})

    return Algorithm(
        init=lambda params, problem: common.empty_memory(params, problem, table_dtype),
        round_step=round_step,
        models=common.server_model,
    )
