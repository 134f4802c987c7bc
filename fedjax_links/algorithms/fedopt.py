"""FedOpt: any optimizer at the server.

References:
  Reddi et al. 2021, Adaptive federated optimization.
"""

from typing import NamedTuple

import optax

from fedjax_links.algorithms import common
from fedjax_links.base import Algorithm, Params, Problem, PyTree, RoundContext, Step
from fedjax_links.core import references, tree
from fedjax_links.local_training import ClientProgram


class FedOptState(NamedTuple):
    """State of FedOpt.

    Attributes:
      server: the server model x.
      optimizer: the server optimizer's state.
    """

    server: Params
    optimizer: PyTree


@references.cite('reddi2021adaptive')
def fedopt(
    local_train: ClientProgram, *, server_optimizer: optax.GradientTransformation
) -> Algorithm:
    """FedOpt: the server optimizer sees ``-mean_{i in A} Delta_i`` as its gradient.

    ``optax.sgd(eta_g)`` gives FedAvg, ``optax.sgd(eta_g, momentum=0.9)`` FedAvgM, ``optax.adam``
    FedAdam, ``optax.yogi`` FedYogi, ``optax.adagrad`` FedAdagrad.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x.

    What the literature leaves open: an empty round. Here it keeps x and does not step the
    optimizer: there is no pseudo-gradient, which is not the same as a zero one. Momentum and second
    moments wait, and schedules inside the optimizer count the rounds in which somebody was heard.
    The mean is over A, so unequal links bias it as they bias FedAvg.

    Memory: one model and the optimizer's state.

    Args:
      local_train: the client program L_i.
      server_optimizer: an optax gradient transformation.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for anything that is not an optax transformation.

    References:
      Reddi et al. 2021, Algorithms 1 and 2.
    """
    common.check_optimizer(server_optimizer)

    def round_step(state: FedOptState, ctx: RoundContext, problem: Problem) -> Step[FedOptState]:
        deltas, metrics = common.sum_deltas(local_train, ctx, problem, state.server)
        mean_delta = tree.divide(deltas, metrics.num_active)
        stepped = common.move(state, 1, mean_delta, server_optimizer)
        return tree.select(metrics.num_active > 0, stepped, state), metrics

    def init(params: Params, problem: Problem) -> FedOptState:
        return FedOptState(params, server_optimizer.init(params))

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
