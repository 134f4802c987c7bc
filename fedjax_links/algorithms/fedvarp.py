"""FedVARP: remembered updates as control variates at the server.

References:
  Jhunjhunwala et al. 2022, FedVARP: tackling the variance due to partial client participation.
"""

from jax.typing import DTypeLike

from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import MemoryState
from fedjax_links.base import Algorithm, Array, Number, Problem, PyTree, RoundContext, Step
from fedjax_links.core import checks, tree
from fedjax_links.core.references import cite
from fedjax_links.local_training import ClientProgram, Contribution, Train


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

    Memory: 2 + N models: x, the rows and their running sum (its drift: `MemoryState`). With
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

    def round_step(state: MemoryState, ctx: RoundContext, problem: Problem) -> Step[MemoryState]:
        def client(train: Train, i: Array, y_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            return Contribution(tree.subtract(update.delta, y_i), update.loss), update.delta

        innovation, new_state, metrics = common.remember(local_train, ctx, problem, client, state)
        mean = tree.divide(innovation, metrics.num_active)
        v = tree.add_scaled(mean, 1 / problem.num_clients, state.memory_sum)
        moved = tree.add_scaled(state.server, server_lr, v)
        server = tree.select(metrics.num_active > 0, moved, state.server)
        return new_state._replace(server=server), metrics

    return common.with_memory(round_step, table_dtype)
