"""Amplified SCAFFOLD: updates control variates and amplifies progress once per window.

The symbols are those of `fedjax_links.algorithms`.

References:
  Crawshaw and Liu 2024, Federated learning under periodic client participation and heterogeneous
  data: a new communication-efficient algorithm and analysis.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

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


class AmplifiedScaffoldState(NamedTuple):
    """Holds the state of amplified SCAFFOLD.

    Attributes:
      server: the server model x.
      reference: x_0, the model after the last amplification.
      control: c, constant within a window of P rounds.
      clients: a pair of tables, leaves [N, ...], in ``table_dtype``. The first has c_i. The second
        has the client's mean gradient in the last window in which the client delivered. After that
        window the mean becomes c_i.
      mean_sum: the sum of the mean gradients, kept up to date by differences as in
        `common.MemoryState`.
      num_uploads: int32[N], rounds of this window in which the client delivered.
    """

    server: Params
    reference: Params
    control: Params
    clients: PyTree
    mean_sum: Params
    num_uploads: Array


@references.cite('crawshaw2024federated')
def amplified_scaffold(
    local_train: ClientProgram,
    *,
    period: int,
    amplification: Number,
    table_dtype: common.TableDtype = None,
) -> Algorithm:
    """Runs SCAFFOLD whose controls change, and whose progress is amplified, every P rounds.

    Every round: local steps along ``g - c_i + c``, then ``x <- x + mean_{i in A} Delta_i``. At the
    end of every P-th round: ``x <- x_0 + gamma (x - x_0)``, then ``x_0 <- x``. Each client that
    delivered in this window sets c_i to the mean of its gradients g in the window. Then c is the
    mean of all N c_i. All controls start at zero. Within a window they stay constant.

    Where amplified SCAFFOLD converges, it ends at the optimum, under any links that let every
    client deliver now and then. It needs no probabilities. At the end ``c_i = grad F_i``, so the
    local steps of no client move. With full gradients this is exact to rounding. Amplification
    scales steps; the authors divide the local rate by gamma.

    A client's mean counts all rounds in which the client delivered equally, however many clients
    delivered with it. An update has the weight ``1 / |A|`` in the mean over A. If a client's mean
    had these weights, c_i would differ where the sizes of A vary.

    A client's new c_i is made when the client next delivers, so that the end of a window costs no
    pass over the clients' tables. For SGD steps ``c_i - c - Delta_i / (s eta)`` is the mean
    gradient of a round; with another local optimizer it is not a gradient. In a round with a rate
    of zero, the client's mean so far takes its place.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. An empty round keeps x. The clock of P rounds runs on, so the last round of a
    window amplifies even if it is empty.

    Memory: 4 + 2 N models and one integer per client. With ``table_dtype=jnp.bfloat16`` the 2 N
    models take half the space. A client's mean is then rounded whenever the client delivers, and c
    is the mean of the rounded means.

    Args:
      local_train: the client program, plain SGD, with eta as its rate and s steps.
      period: P, rounds per window, at least 1.
      amplification: gamma, positive; at least 1 in the paper.
      table_dtype: dtype of the clients' tables; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a period below 1, an amplification that is not positive or a dtype that is not
        floating-point.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.amplified_scaffold(client, period=10, amplification=1.5)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Crawshaw and Liu 2024, Algorithm 1.
    """
    checks.integer('period', period)
    checks.positive_number('amplification', amplification)
    common.check_table_dtype(table_dtype)

    def init(params: Params, problem: Problem) -> AmplifiedScaffoldState:
        tables = common.zero_table((params, params), problem, table_dtype)
        zeros = tree.zero_sums(params)
        return AmplifiedScaffoldState(
            server=params,
            reference=params,
            control=zeros,
            clients=tables,
            mean_sum=zeros,
            num_uploads=jnp.zeros(problem.num_clients, jnp.int32),
        )

    def round_step(
        state: AmplifiedScaffoldState, ctx: RoundContext, problem: Problem
    ) -> Step[AmplifiedScaffoldState]:
        eta = local_train.learning_rate(ctx.round)

        def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
            c_i, mean = row
            num_uploads = state.num_uploads[i]

            # The first upload of a window: the mean of the last window becomes the control.
            c_i = tree.select(num_uploads == 0, mean, c_i)
            correction = tree.subtract(state.control, c_i)
            update = train(state.server, correction=correction)
            gradient = common.mean_gradient(update, correction, eta, mean)

            # Running mean of the window's gradients. It multiplies by the weight, because a
            # division may round differently on a mesh of devices.
            weight = 1 / common.as_float(1 + num_uploads)
            new_mean = jax.tree.map(
                lambda old, g: (1 - weight) * old + weight * g, mean, gradient
            )
            new_mean = tree.round_to(tree.cast_like(new_mean, update.delta), mean)
            contribution = (update.delta, tree.row_delta(new_mean, mean))
            return Contribution(contribution, update.loss), (c_i, new_mean)

        total, clients, metrics = common.train(
            local_train, ctx, problem, client, state.clients
        )
        deltas, mean_changes = total

        # Server: add the mean update of the active clients.
        mean_delta = tree.divide(deltas, metrics.num_active)
        server = tree.add_scaled(state.server, 1, mean_delta)
        mean_sum = tree.add_scaled(state.mean_sum, 1, mean_changes)
        num_uploads = cohorts.count_participants(ctx.links, state.num_uploads)

        # End of a window: amplify the progress, and let c be the mean of the new c_i.
        is_window_end = jnp.mod(ctx.round + 1, period) == 0
        server = common.amplify(server, state.reference, amplification, is_window_end)
        new_control = tree.scale(1 / problem.num_clients, mean_sum)
        new_state = AmplifiedScaffoldState(
            server=server,
            reference=tree.select(is_window_end, server, state.reference),
            control=tree.select(is_window_end, new_control, state.control),
            clients=clients,
            mean_sum=mean_sum,
            num_uploads=jnp.where(is_window_end, 0, num_uploads),
        )
        return new_state, metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
