"""AREA: clients upload the change of their local model since their last upload.

The symbols are those of `fedjax_links.algorithms`.

References:
  Iakovidou and Kim 2025, Asynchronous federated stochastic optimization for heterogeneous
  objectives under arbitrary delays.
"""

from typing import NamedTuple

from fedjax_links.algorithms import common
from fedjax_links.base import (
    Algorithm,
    Array,
    Params,
    Problem,
    PyTree,
    RoundContext,
    Step,
)
from fedjax_links.core import references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


class AreaState(NamedTuple):
    """Holds the state of AREA.

    Attributes:
      server: the server model x^t.
      clients: y_i, the local model that each client sent last, leaves [N, ...].
      excess: the rounding error of ``server``, how much it is too large, in float32 at least.
    """

    server: Params
    clients: Params
    excess: Params


@references.cite('iakovidou2025asynchronous')
def area(local_train: ClientProgram) -> Algorithm:
    """Runs AREA: clients upload the difference to the local model that they uploaded last.

    ``x += (1/N) sum_{i in A} (L_i(x) - y_i)``, then ``y_i = L_i(x)`` for i in A. y_i is the last
    local model that client i uploaded, x^0 at first. So the server model is the mean of the latest
    local models of all N clients. On quadratics of equal curvature it converges to the optimum
    without knowing probabilities, for any links over which every client delivers now and then.
    Rounding errors of x would stay for good, so x is a compensated sum.

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x. An empty round keeps x. A client whose upload is lost keeps its y_i.

    Memory: 2 + N models: x, its rounding error, and y_i of each client. The server keeps nothing
    for the clients.

    Args:
      local_train: the client program L_i.

    Returns:
      The algorithm; models: ``server``.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.area(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Iakovidou and Kim 2025, Algorithm 1.
    """

    def init(params: Params, problem: Problem) -> AreaState:
        return AreaState(
            server=params,
            clients=common.table_of(params, problem),
            excess=tree.zero_sums(params),
        )

    def round_step(
        state: AreaState, ctx: RoundContext, problem: Problem
    ) -> Step[AreaState]:
        def client(train: Train, i: Array, y_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            change = tree.subtract(update.params, y_i)
            return Contribution(change, update.loss), update.params

        changes, table, metrics = common.train(
            local_train, ctx, problem, client, state.clients
        )
        # Server: add the changes, divided by N, in compensated summation.
        server, excess = tree.add_compensated(
            state.server, state.excess, 1.0 / problem.num_clients, changes
        )
        return AreaState(server, table, excess), metrics

    return Algorithm(init, round_step, common.server_model)
