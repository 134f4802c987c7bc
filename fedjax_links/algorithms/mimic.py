"""MimiC: every client's update is corrected to what the server last did with it.

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
    """State of MimiC.

    Attributes:
      server: the server model x.
      corrections: c_i, leaves [N, ...].
    """

    server: Params
    corrections: Params


@references.cite('sun2024mimic')
def mimic(local_train: ClientProgram, *, server_lr: Number = 1.0) -> Algorithm:
    """MimiC: ``v = mean_{i in A} (Delta_i + c_i)``, ``x += eta_g v``, ``c_i = v - Delta_i`` on A.

    The server keeps c_i, zero at first: the difference between what it did in the last round in
    which it heard client i and what that client alone would have done. Where it settles v is zero
    and every ``c_i = -Delta_i``: on quadratics at the optimum, for any links that let everybody
    deliver now and then.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. An empty round keeps x.

    Memory: 1 + N models.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive.

    References:
      Sun, Mao and Zhang 2024, Algorithm 1.
    """
    checks.positive_number('server_lr', server_lr)

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
        v = tree.cast_like(tree.divide(total, metrics.num_active), state.server)

        def correct(i: Array, row: PyTree) -> tuple[PyTree, PyTree]:
            return (), tree.add_scaled(row, 1, v)

        _, table = cohorts.map_reduce(correct, cohorts.participating(ctx.links), table)
        return MimicState(tree.add_scaled(state.server, server_lr, v), table), metrics

    def init(params: Params, problem: Problem) -> MimicState:
        return MimicState(params, common.zero_table(params, problem))

    return Algorithm(init, round_step, common.server_model)
