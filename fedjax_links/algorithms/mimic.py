"""MimiC: corrects each update towards the last server step that its client took part in.

The symbols are those of `fedjax_links.algorithms`.

References:
  Sun, Mao and Zhang 2024, MimiC: combating client dropouts in federated learning by mimicking
  central updates.
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
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


class MimicState(NamedTuple):
    """Holds the state of MimiC.

    Attributes:
      server: the server model x.
      corrections: c_i, leaves [N, ...].
    """

    server: Params
    corrections: Params


@references.cite('sun2024mimic')
def mimic(local_train: ClientProgram, *, server_lr: Number = 1.0) -> Algorithm:
    """Runs MimiC: the server adds a correction to each update, so that absent clients count.

    ``v = mean_{i in A} (Delta_i + c_i)``, ``x += eta_g v``, then ``c_i = v - Delta_i`` for i in A.
    The correction c_i, zero at first, is the difference between the server's step in client i's
    last active round and the client's own update. At a fixed point v is zero and all
    ``c_i = -Delta_i``. On quadratics of equal curvature this fixed point is the optimum, for any
    links over which every client delivers now and then.

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x. An empty round keeps x.

    Memory: 1 + N models.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.mimic(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Sun, Mao and Zhang 2024, Algorithm 1.
    """
    checks.positive_number('server_lr', server_lr)

    def init(params: Params, problem: Problem) -> MimicState:
        return MimicState(params, common.zero_table(params, problem))

    def round_step(
        state: MimicState, ctx: RoundContext, problem: Problem
    ) -> Step[MimicState]:
        def client(train: Train, i: Array, c_i: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            corrected = tree.add_scaled(update.delta, 1, c_i)
            return Contribution(corrected, update.loss), tree.scale(-1, update.delta)

        total, table, metrics = common.train(
            local_train, ctx, problem, client, state.corrections
        )
        # Server: v is the mean corrected update.
        v = tree.cast_like(tree.divide(total, metrics.num_active), state.server)
        server = tree.add_scaled(state.server, server_lr, v)

        # Corrections of the active clients: the rows hold -Delta_i and become v - Delta_i.
        def correct(i: Array, row: PyTree) -> tuple[PyTree, PyTree]:
            return (), tree.add_scaled(row, 1, v)

        cohort = cohorts.participating(ctx.links)
        _, table = cohorts.map_reduce(correct, cohort, table)
        return MimicState(server, table), metrics

    return Algorithm(init, round_step, common.server_model)
