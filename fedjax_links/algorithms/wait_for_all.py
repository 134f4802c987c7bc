"""Waiting for everybody: one step of full participation per block of rounds.

References:
  Wang and Ji 2022, wait-minibatch and wait-full.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.base import Algorithm, Problem, RoundContext, RoundMetrics
from fedjax_links.clients import cohorts
from fedjax_links.core import tree
from fedjax_links.core.references import cite
from fedjax_links.local_training import ClientProgram, sum_updates


@cite('wang2022unified')
def wait_for_all(local_train: ClientProgram, *, period: int, start_round: int = 0) -> Algorithm:
    """At the end of every P-th round ``x <- x + mean_{all i} Delta_i``; otherwise x stands still.

    The server gathers the updates of one and the same model for as long as it takes everybody to
    deliver, which the experiment fixes to P rounds. The step is visible after rounds P, 2P, ...;
    it uses the batches and the local rate of the block's last round. With a batch size it is the
    paper's wait-minibatch, without one its wait-full.

    Link semantics: all N clients take part in a step, whatever the links of its round are, because
    waiting stands for the time in which each of them was connected once: **the mask is not read**
    once the warm-up is over. Choose P such that every client delivers within P rounds. Other rounds
    train nobody and keep x.

    Memory: one model; a step costs N clients, a waiting round nothing.

    Args:
      local_train: the client program L_i.
      period: P, rounds per step, at least 1; 500 in the paper.
      start_round: rounds of plain FedAvg under the actual links before the first block (warm-up).

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a period below 1 or a negative start.

    References:
      Wang and Ji 2022, section 6 and appendix D.1.
    """
    common.check_count('period', period)
    common.check_count('start_round', start_round, minimum=0)

    def round_step(
        state: common.ServerState, ctx: RoundContext, problem: Problem
    ) -> tuple[common.ServerState, RoundMetrics]:
        clock = ctx.round + 1 - start_round
        everyone = jnp.full(problem.num_clients, jnp.mod(clock, period) == 0)
        cohort = cohorts.make_cohort(
            jnp.where(clock > 0, everyone, base.participants(ctx.links)),
        )
        total = sum_updates(local_train, cohort, ctx, problem, state.server)
        num_active = cohorts.num_members(cohort)
        server = tree.add_scaled(state.server, 1, tree.divide(total.value, num_active))
        return common.ServerState(server=server), common.metrics(cohort, total)

    return common.of_server(round_step)


def all_at_times(mask: np.ndarray, options: Mapping[str, Any]) -> np.ndarray:
    """bool[T, N]: everyone in the last round of a block, whoever delivers before the first."""
    clock = np.arange(1, len(mask) + 1) - options.get('start_round', 0)
    step = clock % options['period'] == 0
    return np.where(clock[:, None] > 0, step[:, None], mask)
