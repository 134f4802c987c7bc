"""Generalised FedAvg: the progress of every P rounds is amplified; or made by everybody at once.

References:
  Wang and Ji 2022, A unified analysis of federated learning with arbitrary client participation.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ServerState
from fedjax_links.base import Algorithm, Number, Params, Problem, RoundContext, Step
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram


class AmplifiedState(NamedTuple):
    """State of amplified FedAvg.

    Attributes:
      server: the server model x_t.
      reference: x_ref, the model after the last amplification.
    """

    server: Params
    reference: Params


@references.cite('wang2022unified')
def amplified_fedavg(
    local_train: ClientProgram,
    *,
    period: int,
    amplification: Number,
    start_round: int = 0,
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
    checks.positive_number('amplification', amplification)

    def init(params: Params, problem: Problem) -> AmplifiedState:
        return AmplifiedState(server=params, reference=params)

    def round_step(
        state: AmplifiedState, ctx: RoundContext, problem: Problem
    ) -> Step[AmplifiedState]:
        deltas, metrics = common.sum_deltas(local_train, ctx, problem, state.server)
        server = tree.add_scaled(
            state.server, 1, tree.divide(deltas, metrics.num_active)
        )
        clock = ctx.round + 1 - start_round
        block_ends = (clock > 0) & (jnp.mod(clock, period) == 0)
        server = common.amplify(server, state.reference, amplification, block_ends)
        reference = tree.select(block_ends | (clock <= 0), server, state.reference)
        return AmplifiedState(server, reference), metrics

    return Algorithm(init, round_step, common.server_model)


@references.cite('wang2022unified')
def wait_for_all(
    local_train: ClientProgram, *, period: int, start_round: int = 0
) -> Algorithm:
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
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        clock = ctx.round + 1 - start_round
        everyone = jnp.full(problem.num_clients, jnp.mod(clock, period) == 0)
        cohort = cohorts.make_cohort(
            jnp.where(clock > 0, everyone, base.participants(ctx.links))
        )
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, None, cohort
        )
        server = tree.add_scaled(
            state.server, 1, tree.divide(deltas, metrics.num_active)
        )
        return ServerState(server=server), metrics

    return common.of_server(round_step)


def all_at_times(mask: np.ndarray, options: Mapping[str, Any]) -> np.ndarray:
    """bool[T, N]: everyone in the last round of a block, whoever delivers before the first."""
    clock = np.arange(1, len(mask) + 1) - options.get('start_round', 0)
    step = clock % options['period'] == 0
    return np.where(clock[:, None] > 0, step[:, None], mask)
