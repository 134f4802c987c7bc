"""AREA: clients send what their local model changed by since they last sent it.

References:
  Iakovidou and Kim 2025, Asynchronous federated stochastic optimization for heterogeneous
  objectives under arbitrary delays.
"""

from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ClientsState
from fedjax_links.base import Algorithm, Array, Problem, PyTree, RoundContext, Step
from fedjax_links.core import references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


@references.cite('iakovidou2025asynchronous')
def area(local_train: ClientProgram) -> Algorithm:
    """AREA: ``x += (1/N) sum_{i in A} (L_i(x) - y_i)``, then ``y_i = L_i(x)`` on A.

    y_i is the local model that client i sent last, x^0 at first, so the server model is the mean
    of the latest local models of all N clients. On quadratics it ends at the optimum, for any
    links that let everybody deliver now and then, without a probability.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. An empty round keeps x. An update lost on the way must not replace the client's
    own y_i.

    Memory: 1 + N models; the N are the clients' own, and the server keeps nothing of theirs.

    Args:
      local_train: the client program L_i.

    Returns:
      The algorithm; models: ``server``.

    References:
      Iakovidou and Kim 2025, Algorithm 1.
    """

    def round_step(state: ClientsState, ctx: RoundContext, problem: Problem) -> Step[ClientsState]:
        def client(train: Train, i: Array, y_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            return Contribution(tree.subtract(update.params, y_i), update.loss), update.params

        changes, table, metrics = common.train(local_train, ctx, problem, client, state.clients)
        server = tree.add_scaled(state.server, 1.0 / problem.num_clients, changes)
        return ClientsState(server, table), metrics

    return Algorithm(common.every_client_at, round_step, common.server_model)
