"""SCAFFOLD: control variates correct the drift of the local steps.

References:
  Karimireddy et al. 2020, SCAFFOLD: stochastic controlled averaging for federated learning.
"""

from typing import NamedTuple

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
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


class ScaffoldState(NamedTuple):
    """State of SCAFFOLD.

    Attributes:
      server: the server model x.
      control: c, the mean of the clients' control variates, in float32 at least.
      client_controls: c_i, leaves [N, ...], in the table's dtype.
    """

    server: Params
    control: Params
    client_controls: Params


@references.cite('karimireddy2020scaffold')
def scaffold(
    local_train: ClientProgram,
    *,
    server_lr: Number = 1.0,
    table_dtype: common.TableDtype = None,
) -> Algorithm:
    """SCAFFOLD, option II: local steps along ``g_i(y) - c_i + c``.

    ``c_i^+ = c_i - c + (x - y_i) / (s eta)``, ``x <- x + (eta_g / |A|) sum_A (y_i - x)``,
    ``c <- c + (1 / N) sum_A (c_i^+ - c_i)``; all start at zero. The division by s eta makes c_i^+
    a mean of gradients for SGD steps; with another local optimizer it is not one.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. An empty round keeps x and c.

    What the literature leaves open: the analysis samples clients uniformly and hears all of them.
    With unequal links the mean over A stays biased while control variates are unsettled, as
    FedAvg's; the fixed point is the optimum. An update lost on the way must not advance the
    client's own c_i, or c would cease to be the mean of the c_i; so a client replaces c_i only in a
    round in which it delivers, as if it waited for an acknowledgement.

    Memory: 2 + N models; half of the N with ``table_dtype=jnp.bfloat16``. c then follows the
    rounded c_i, up to a rounding drift as of every running sum.

    Args:
      local_train: the client program, plain SGD, with eta as its rate and s steps.
      server_lr: eta_g, positive.
      table_dtype: dtype of the c_i; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive or a dtype that is not floating-point.

    References:
      Karimireddy et al. 2020, Algorithm 1 and equations (3) to (5).
    """
    checks.positive_number('server_lr', server_lr)
    common.check_table_dtype(table_dtype)

    def init(params: Params, problem: Problem) -> ScaffoldState:
        table = common.zero_table(params, problem, table_dtype)
        return ScaffoldState(
            params, control=tree.zero_sums(params), client_controls=table
        )

    def round_step(
        state: ScaffoldState, ctx: RoundContext, problem: Problem
    ) -> Step[ScaffoldState]:
        eta = local_train.learning_rate(ctx.round)

        def client(train: Train, i: Array, c_i: PyTree) -> tuple[Contribution, PyTree]:
            correction = tree.subtract(state.control, c_i)
            update = train(state.server, correction=correction)  # eq. (3)
            new_c_i = common.mean_gradient(
                update, correction, eta
            )  # eq. (4), option II
            new_c_i = tree.round_to(tree.cast_like(new_c_i, update.delta), c_i)
            return Contribution(
                (update.delta, tree.change(new_c_i, c_i)), update.loss
            ), new_c_i

        total, table, metrics = common.train(
            local_train, ctx, problem, client, state.client_controls
        )
        deltas, control_changes = total
        mean = tree.divide(deltas, metrics.num_active)
        server = tree.add_scaled(state.server, server_lr, mean)  # eq. (5)
        control = tree.add_scaled(
            state.control, 1 / problem.num_clients, control_changes
        )
        return ScaffoldState(server, control, table), metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
