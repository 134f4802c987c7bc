"""SCAFFOLD: control variates correct the drift of the local steps.

The symbols are those of `fedjax_links.algorithms`.

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
    """Holds the state of SCAFFOLD.

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
    """Runs SCAFFOLD, option II: control variates correct the drift of local steps.

    Client i takes local steps along ``g_i(y) - c_i + c`` and ends at y_i. Then
    ``c_i^+ = c_i - c + (x - y_i) / (s eta)``, ``x <- x + (eta_g / |A|) sum_A (y_i - x)``,
    ``c <- c + (1 / N) sum_A (c_i^+ - c_i)``; all controls start at zero. The division by s eta
    makes c_i^+ a mean of gradients for SGD steps; with another local optimizer c_i^+ is no mean of
    gradients. In a round whose rate is zero, c_i stays.

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x. An empty round keeps x and c.

    What the literature leaves open: the analysis samples clients uniformly and loses no update.
    With unequal links the mean over A is biased until the control variates settle, as FedAvg's is.
    The fixed point is the optimum. A client whose update is lost must keep its c_i, or c would no
    longer be the mean of the c_i. So a client replaces c_i only in a round in which it delivers, as
    if it waited for an acknowledgement.

    Memory: 2 + N models. With ``table_dtype=jnp.bfloat16`` the N models c_i take half the space. c
    then follows the rounded c_i, up to the drift of a running sum (`common.MemoryState`).

    Args:
      local_train: the client program, plain SGD, with eta as its rate and s steps.
      server_lr: eta_g, positive.
      table_dtype: dtype of the c_i; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive or a dtype that is not floating-point.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.scaffold(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Karimireddy et al. 2020, Algorithm 1 and equations (3) to (5).
    """
    checks.positive_number('server_lr', server_lr)
    common.check_table_dtype(table_dtype)

    def init(params: Params, problem: Problem) -> ScaffoldState:
        table = common.zero_table(params, problem, table_dtype)
        return ScaffoldState(
            server=params, control=tree.zero_sums(params), client_controls=table
        )

    def round_step(
        state: ScaffoldState, ctx: RoundContext, problem: Problem
    ) -> Step[ScaffoldState]:
        eta = local_train.learning_rate(ctx.round)

        def client(train: Train, i: Array, c_i: PyTree) -> tuple[Contribution, PyTree]:
            # Eq. (3): local steps along g - c_i + c.
            correction = tree.subtract(state.control, c_i)
            update = train(state.server, correction=correction)

            # Eq. (4), option II: the new c_i is the mean gradient.
            new_c_i = common.mean_gradient(update, correction, eta, c_i)
            new_c_i = tree.round_to(tree.cast_like(new_c_i, update.delta), c_i)
            upload = (update.delta, tree.row_delta(new_c_i, c_i))
            return Contribution(upload, update.loss), new_c_i

        total, table, metrics = common.train(
            local_train, ctx, problem, client, state.client_controls
        )
        deltas, control_changes = total

        # Server, eq. (5): add the mean update, and the changes of the c_i divided by N.
        mean = tree.divide(deltas, metrics.num_active)
        server = tree.add_scaled(state.server, server_lr, mean)
        control = tree.add_scaled(
            state.control, 1 / problem.num_clients, control_changes
        )
        return ScaffoldState(server, control, table), metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
