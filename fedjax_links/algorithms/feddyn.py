"""FedDyn: a linear term aligns the minimiser of each client's objective with the optimum.

The symbols are those of `fedjax_links.algorithms`.

References:
  Acar et al. 2021, Federated learning based on dynamic regularization.
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
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


@references.cite('acar2021federated')
def feddyn(
    local_train: ClientProgram, *, alpha: Number, table_dtype: common.TableDtype = None
) -> Algorithm:
    """Runs FedDyn: clients add a linear and a proximal term to their objective.

    Clients descend ``F_i(w) - <g_i, w> + (alpha / 2) |w - x|^2`` from x. Then
    ``g_i <- g_i - alpha Delta_i`` for i in A, ``h <- h - (alpha / N) sum_A Delta_i``, and
    ``x <- mean_{i in A} w_i - h / alpha``, where w_i is client i's model after its local steps. All
    g_i and h start at zero, so h is the mean of all g_i. The mean of the models is over A, but the
    sum in h is divided by N.

    Where FedDyn converges, it ends at the optimum, under any links that let every client deliver
    now and then. It needs no probabilities. At the end ``h = 0`` and ``g_i = grad F_i(x)``, so the
    local steps of no client move. With full gradients this is exact to rounding.

    The paper minimises each client's objective exactly. Then g_i is the gradient at w_i. With a few
    local steps g_i follows that gradient more slowly.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. An empty round has no mean model, and keeps x and h. The paper has no empty
    rounds, as all its cohorts have one size. If an update is lost on the way, its client must keep
    its old g_i.

    Memory: 2 + N models: x, the rows g_i and their running sum N h (`MemoryState` says how it
    drifts). With ``table_dtype=jnp.bfloat16`` the rows take half the space, and h is the mean of
    the rounded rows.

    Args:
      local_train: the client program, without a penalty of its own.
      alpha: strength of the dynamic regularisation, positive; 0.01 to 0.1 in the paper.
      table_dtype: dtype of the rows; the parameters' own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a strength that is not positive or a dtype that is not floating-point.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.feddyn(client, alpha=0.5)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Acar et al. 2021, Algorithm 1.
    """
    checks.positive_number('alpha', alpha)

    def round_step(
        state: MemoryState, ctx: RoundContext, problem: Problem
    ) -> Step[MemoryState]:
        def client(train: Train, i: Array, g_i: PyTree) -> tuple[Contribution, PyTree]:
            g = tree.cast_like(g_i, state.server)
            update = train(state.server, correction=tree.scale(-1, g), proximal=alpha)
            new_g = tree.add_scaled(g, -alpha, update.delta)
            return Contribution(update.delta, update.loss), new_g

        # Clients in A: train, and store the new g_i in place of the old one.
        deltas, new_state, metrics = common.update_rows(
            local_train, ctx, problem, client, state
        )
        # Server: the mean model minus h / alpha, where the sum of the g_i is N h.
        mean_delta = tree.divide(deltas, metrics.num_active)
        mean_model = tree.add_scaled(state.server, 1, mean_delta)
        scale = -1 / (alpha * problem.num_clients)
        new_server = tree.add_scaled(mean_model, scale, new_state.memory_sum)
        server = tree.select(metrics.num_active > 0, new_server, state.server)
        return new_state._replace(server=server), metrics

    return common.with_memory(round_step, table_dtype)
