"""AREA: clients send what their local model changed by since they last sent it.

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
    """State of AREA.

    Attributes:
      server: the server model x^t.
      clients: y_i, the local model that each client sent last, leaves [N, ...].
      excess: by how much rounding has left the server model too large, in float32 at least.
    """

    server: Params
    clients: Params
    excess: Params


@references.cite('iakovidou2025asynchronous')
def area(local_train: ClientProgram) -> Algorithm:
    """AREA: ``x += (1/N) sum_{i in A} (L_i(x) - y_i)``, then ``y_i = L_i(x)`` on A.

    y_i is the local model that client i sent last, x^0 at first, so the server model is the mean
    of the latest local models of all N clients. On quadratics it ends at the optimum, for any
    links that let everybody deliver now and then, without a probability. Nothing pulls x back to
    that mean once rounding has parted them, so x is a compensated sum.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. An empty round keeps x. An update lost on the way must not replace the client's
    own y_i.

    Memory: 2 + N models: x, what rounding took from it, and N that are the clients' own; the server
    keeps nothing of theirs.

    Args:
      local_train: the client program L_i.

    Returns:
      The algorithm; models: ``server``.

    References:
      Iakovidou and Kim 2025, Algorithm 1.
    """

    def init(params: Params, problem: Problem) -> AreaState:
        start = common.every_client_at(params, problem)
        return AreaState(start.server, start.clients, excess=tree.zero_sums(params))

    def round_step(
        state: AreaState, ctx: RoundContext, problem: Problem
    ) -> Step[AreaState]:
        def client(train: Train, i: Array, y_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            return Contribution(
                tree.subtract(update.params, y_i), update.loss
            ), update.params

        changes, table, metrics = common.train(
            local_train, ctx, problem, client, state.clients
        )
        share = 1.0 / problem.num_clients
        server, excess = tree.add_compensated(
            state.server, state.excess, share, changes
        )
        return AreaState(server, table, excess), metrics

    return Algorithm(init, round_step, common.server_model)
