"""FOCUS: the server follows the sum of the clients' last gradients.

The symbols are those of `fedjax_links.algorithms`.

References:
  Ying, Li and Yang 2025, Exact and linear convergence for federated learning under arbitrary client
  participation is attainable.
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


@references.cite('ying2025exact')
def focus(
    local_train: ClientProgram,
    *,
    server_lr: Number | None = None,
    table_dtype: common.TableDtype = None,
    server_optimizer: common.ServerOptimizer = None,
) -> Algorithm:
    """Runs FOCUS: clients descend along the change of their gradient, the server along the sum.

    A client keeps the last gradient g_i that it computed, zero at first. In each local step, with
    gradient d, an active client sets ``y_i <- y_i + d - g_i`` (y_i = 0 before the first) and then
    ``g_i <- d``. Between steps it moves by ``-eta y_i``. The sum telescopes: y_i is the gradient d
    minus the g_i with which the round began. So local steps are SGD steps with a constant
    correction.

    The server adds ``Y <- Y + sum_A y_i``, never resets Y, and moves by ``x <- x - eta Y``. Y is
    the **sum** of all N last gradients, so a step is N times as long as with their mean. Take a
    local rate, or ``server_lr``, of order 1 / N.

    Where FOCUS converges, it ends at the optimum, under any links that let every client deliver now
    and then. It needs no probabilities. At the end ``Y = 0`` and ``g_i = grad F_i(x)``, so the
    local steps of no client move. With full gradients this is exact to rounding. With few clients
    and long outages the variance of x can grow without bound, although its mean settles
    (`analysis.linear_limit`).

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. Everybody's gradient moves the server in every round, so that **an empty round
    moves x as well**. If an update is lost on the way, its client must keep its old g_i.

    Memory: 2 + N models: x, the rows g_i and their sum Y (`MemoryState` says how it drifts). With
    ``table_dtype=jnp.bfloat16`` the rows take half the space, and Y is the sum of the rounded rows.

    Args:
      local_train: the client program, plain SGD, with eta as its rate.
      server_lr: the rate that multiplies Y, positive; by default the local rate of the round.
        To be left out beside an optimizer.
      table_dtype: dtype of the rows; the parameters' own by default.
      server_optimizer: an optax transformation whose gradient is minus the server's step.
        ``optax.sgd(1.0)`` gives the step, to the bit. None takes the step itself.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive, a dtype that is not floating-point or an
        optimizer that is no optax transformation.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.focus(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Ying, Li and Yang 2025, Algorithm 1.
    """
    common.check_server_rates(server_lr, server_optimizer, default=None)

    def round_step(
        state: MemoryState, ctx: RoundContext, problem: Problem
    ) -> Step[MemoryState]:
        def client(train: Train, i: Array, g_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(
                state.server, correction=tree.scale(-1, g_i), keep_gradient=True
            )
            return Contribution((), update.loss), update.gradient

        _, after, metrics = common.update_rows(local_train, ctx, problem, client, state)
        # Server: descend along Y, the sum of all last gradients.
        rate = local_train.learning_rate(ctx.round) if server_lr is None else server_lr
        new_state = common.apply_server_update(
            after, -rate, after.memory_sum, server_optimizer
        )
        return new_state, metrics

    return common.with_memory(
        round_step, table_dtype, server_optimizer=server_optimizer
    )
