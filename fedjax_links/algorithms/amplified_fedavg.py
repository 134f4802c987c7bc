"""Generalised FedAvg: the progress of every P rounds is amplified.

References:
  Wang and Ji 2022, A unified analysis of federated learning with arbitrary client participation.
"""

from typing import NamedTuple

import jax.numpy as jnp

from fedjax_links.algorithms import common
from fedjax_links.base import Algorithm, Number, Params, Problem, RoundContext, RoundMetrics
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, tree
from fedjax_links.core.references import cite
from fedjax_links.local_training import ClientProgram, sum_updates


class AmplifiedState(NamedTuple):
    """State of amplified FedAvg.

    Attributes:
      server: the server model x_t.
      reference: x_ref, the model after the last amplification.
    """

    server: Params
    reference: Params


@cite('wang2022unified')
def amplified_fedavg(
    local_train: ClientProgram, *, period: int, amplification: Number, start_round: int = 0
) -> Algorithm:
    """FedAvg whose displacement over ``period`` rounds is multiplied by ``amplification``.

    Every round: ``x <- x + mean_{i in A} Delta_i``. At the end of every P-th round:
    ``x <- x_ref + eta (x - x_ref)``, then ``x_ref <- x``. P = 1 is FedAvg with server rate eta.
    Evaluation sees the amplified model.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x_t. An empty round keeps x, and the clock of P rounds runs on, so that the last
    round of a block amplifies even if it is empty.

    Memory: two models.

    Args:
      local_train: the client program L_i.
      period: P, rounds per block, at least 1; 500 in the paper.
      amplification: eta, positive; at least 1 in the paper.
      start_round: rounds of plain FedAvg before the first block (warm-up): x_ref and the clock
        start there.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a period below 1, a negative start or an amplification that is not positive.

    References:
      Wang and Ji 2022, Algorithm 1; the warm-up is that of their appendix C.
    """
    common.check_count('period', period)
    common.check_count('start_round', start_round, minimum=0)
    checks.positive('amplification', amplification)

    def round_step(
        state: AmplifiedState, ctx: RoundContext, problem: Problem
    ) -> tuple[AmplifiedState, RoundMetrics]:
        cohort = cohorts.participating(ctx.links)
        total = sum_updates(local_train, cohort, ctx, problem, state.server)
        num_active = cohorts.num_members(cohort)
        server = tree.add_scaled(state.server, 1, tree.divide(total.value, num_active))
        progress = tree.subtract(server, state.reference)
        amplified = tree.add_scaled(state.reference, amplification, progress)
        clock = ctx.round + 1 - start_round
        block_ends = (clock > 0) & (jnp.mod(clock, period) == 0)
        server = tree.select(block_ends, amplified, server)
        reference = tree.select(block_ends | (clock <= 0), server, state.reference)
        return AmplifiedState(server, reference), common.metrics(cohort, total)

    def init(params: Params, problem: Problem) -> AmplifiedState:
        return AmplifiedState(server=params, reference=params)

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
