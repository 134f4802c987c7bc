"""MIFA: the server remembers every client's last update and averages all of them.

The symbols are those of `fedjax_links.algorithms`.

References:
  Gu et al. 2021, Fast federated learning in the presence of arbitrary device unavailability.
"""

import jax.numpy as jnp

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


@references.cite('gu2021fast', 'yan2020distributed', 'chang2025mitigating')
def mifa(
    local_train: ClientProgram,
    *,
    server_lr: Number = 1.0,
    memory: str = 'delta',
    table_dtype: common.TableDtype = None,
    max_age: common.MaxAge = None,
    server_optimizer: common.ServerOptimizer = None,
) -> Algorithm:
    """Runs MIFA: the server averages the last update of every client, new or remembered.

    ``G_i <- Delta_i`` for i in A, then ``x^{t+1} = x^t + (eta_g / N) sum_{all i} G_i``. Rows start
    at zero. With ``memory='gradient'`` a row is Delta_i divided by the local rate of its round, and
    the server applies all rows with the current rate: ``x + eta_g eta_t mean(G)``. The two settings
    of ``memory`` agree only while eta_t is constant. A remembered Delta_i has the rate of the round
    in which it was computed. In a round whose rate is zero, the rows stay as they are, and none
    counts as uploaded.

    With ``max_age=a`` the mean is over the rows uploaded in this round and the a rounds before it
    (``t - last_i <= a``). Without such rows x stays. a = 0 is FedAvg, up to rounding. FedAvg's bias
    shrinks as a grows, while rows become more stale.

    FedLaAvg (Yan et al. 2020), the forerunner of MIFA, is ``memory='gradient'``: it remembers the
    last sum of a client's gradients.

    On quadratics of equal curvature the mean of x ends at the optimum, also under links with
    memory. With two or three clients and long outages the variance of x can grow without bound, as
    old updates drive x on. `analysis.linear_limit` and the command ``theory`` say when.

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x^t. All rows move the server in every round, so **an empty round moves x as well**.

    Memory: 2 + N models: x, the rows and their running sum (`MemoryState` says how it drifts). With
    ``table_dtype=jnp.bfloat16`` the rows take half the space. Rows are rounded when stored, and the
    sum is over the rounded rows.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive; to be left out beside an optimizer, which has a rate of its own.
      memory: what a row holds, ``'delta'`` or ``'gradient'``.
      table_dtype: dtype of the rows; the parameters' own by default.
      max_age: a, largest age of a row in rounds, at most 2^29; None keeps all.
      server_optimizer: an optax transformation whose gradient is minus the server's step.
        ``optax.sgd(1.0)`` gives the step, to the bit. None takes the step itself.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive, an unknown ``memory``, a dtype that is not
        floating-point, a negative age or an optimizer that is no optax transformation.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.mifa(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Gu et al. 2021, Algorithm 1, without its first round of full participation: 'gradient' is the
      authors' form, and 'delta' the form that Xiang et al. 2024 compare with. ``max_age`` is from
      Chang et al. 2025 (ACED), here in rounds. The server optimizer on remembered updates is from
      FedAdaVR (arXiv 2601.22204).
    """
    common.check_server_rates(server_lr, server_optimizer)
    checks.choice('memory', memory, ('delta', 'gradient'))

    def round_step(
        state: MemoryState, ctx: RoundContext, problem: Problem
    ) -> Step[MemoryState]:
        rate = local_train.learning_rate(ctx.round) if memory == 'gradient' else 1

        def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            if memory == 'delta':
                return Contribution((), update.loss), update.delta
            # Steps with a rate of zero do not show the gradient: the row stays.
            gradient = tree.scale(1 / rate, update.delta)
            new_row = tree.select(jnp.greater(rate, 0), gradient, row)
            return Contribution((), update.loss), new_row

        state = common.expire_rows(state, ctx, max_age)
        _, after, metrics = common.update_rows(local_train, ctx, problem, client, state)
        if memory == 'gradient':
            # Rows that stay are no younger than before.
            last_uploads = tree.select(
                jnp.greater(rate, 0), after.last_uploads, state.last_uploads
            )
            after = after._replace(last_uploads=last_uploads)

        # Server: add the mean of all rows.
        if max_age is None:
            scale = server_lr * rate / problem.num_clients
            new_state = common.apply_server_update(
                after, scale, after.memory_sum, server_optimizer
            )
            return new_state, metrics

        # Server, with a largest age: add the mean of the recent rows, if there are any.
        mean, num_rows = common.mean_row(after, ctx, max_age)
        new_state = common.apply_server_update(
            after, server_lr * rate, mean, server_optimizer
        )
        return tree.select(num_rows > 0, new_state, after), metrics

    return common.with_memory(round_step, table_dtype, max_age, server_optimizer)
