"""Generalised FedAvg: amplifies the progress of every P rounds, or waits for all clients.

The symbols are those of `fedjax_links.algorithms`.

References:
  Wang and Ji 2022, A unified analysis of federated learning with arbitrary client participation.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ServerState
from fedjax_links.base import Algorithm, Number, Params, Problem, RoundContext, Step
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, references, tree
from fedjax_links.core.records import Section
from fedjax_links.local_training import ClientProgram


class AmplifiedState(NamedTuple):
    """Holds the state of amplified FedAvg.

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
    """Runs FedAvg and multiplies its displacement over ``period`` rounds by ``amplification``.

    Every round: ``x <- x + mean_{i in A} Delta_i``. At the end of every P-th round:
    ``x <- x_ref + eta (x - x_ref)``, then ``x_ref <- x``. P = 1 is FedAvg with server rate eta.
    Evaluation sees the amplified model.

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x_t. An empty round keeps x, but counts as one of the P rounds. So the last round of
    a block of P rounds amplifies even if it is empty.

    Memory: two models.

    Args:
      local_train: the client program L_i.
      period: P, rounds per block, at least 1; 500 in the paper.
      amplification: eta, positive; at least 1 in the paper.
      start_round: number of rounds of plain FedAvg (warm-up). The first block starts after them,
        from their last model.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a period below 1, a negative start or an amplification that is not positive.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.amplified_fedavg(client, period=10, amplification=1.5)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.37

    References:
      Wang and Ji 2022, Algorithm 1. Its runs begin at a larger local rate, for a number of rounds
      that the paper does not give (appendix D.1).
    """
    checks.integer('period', period)
    checks.integer('start_round', start_round, minimum=0)
    checks.positive_number('amplification', amplification)

    def init(params: Params, problem: Problem) -> AmplifiedState:
        return AmplifiedState(server=params, reference=params)

    def round_step(
        state: AmplifiedState, ctx: RoundContext, problem: Problem
    ) -> Step[AmplifiedState]:
        # Server: add the mean update of the active clients.
        deltas, metrics = common.sum_deltas(local_train, ctx, problem, state.server)
        mean = tree.divide(deltas, metrics.num_active)
        server = tree.add_scaled(state.server, 1, mean)

        # End of a block: amplify the progress since the last one.
        num_block_rounds = ctx.round + 1 - start_round
        is_warmup = num_block_rounds <= 0
        is_block_end = ~is_warmup & (jnp.mod(num_block_rounds, period) == 0)
        server = common.amplify(server, state.reference, amplification, is_block_end)
        reference = tree.select(is_block_end | is_warmup, server, state.reference)
        return AmplifiedState(server, reference), metrics

    return Algorithm(init, round_step, common.server_model)


@references.cite('wang2022unified')
def wait_for_all(
    local_train: ClientProgram, *, period: int, start_round: int = 0
) -> Algorithm:
    """Waits P rounds for all clients, then adds the mean of all N updates.

    At the end of every P-th round ``x <- x + (1/N) sum_{all i} Delta_i``; otherwise x stays. The
    server collects updates of one model until every client has delivered, which takes P rounds by
    assumption. The step uses the batches and the local rate of the block's last round. With a batch
    size this is the paper's wait-minibatch, on full data its wait-full.

    Link semantics: all N clients take part in a step, whatever the links of its round. The wait
    stands for the time in which each client was connected once, so **the mask is not read** after
    the warm-up. Choose P such that every client delivers within P rounds. In other rounds no
    client trains and x stays.

    Memory: one model. A step costs N clients, a waiting round nothing.

    Args:
      local_train: the client program L_i.
      period: P, rounds per step, at least 1; 500 in the paper.
      start_round: rounds of plain FedAvg under the actual links before the first block (warm-up).

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a period below 1 or a negative start.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.1, local_steps=2)
      >>> algorithm = algorithms.wait_for_all(client, period=5)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Wang and Ji 2022, section 6 and appendix D.1.
    """
    checks.integer('period', period)
    checks.integer('start_round', start_round, minimum=0)

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        # All clients train in the last round of a block, none before; the warm-up follows links.
        num_block_rounds = ctx.round + 1 - start_round
        is_block_end = jnp.mod(num_block_rounds, period) == 0
        is_warmup = num_block_rounds <= 0
        participants = base.participants(ctx.links)
        training = jnp.where(is_warmup, participants, is_block_end)
        cohort = cohorts.make_cohort(training)
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, cohort=cohort
        )

        # Server: add the mean update.
        mean = tree.divide(deltas, metrics.num_active)
        server = tree.add_scaled(state.server, 1, mean)
        return ServerState(server=server), metrics

    return common.server_only_algorithm(round_step)


def wait_for_all_senders(mask: np.ndarray, options: Section) -> np.ndarray:
    """Returns which clients upload, bool[T, N]: all in the last round of a block, else none.

    In the warm-up the clients whose uplink delivers upload.
    """
    num_block_rounds = np.arange(1, len(mask) + 1) - options.get('start_round', 0)
    is_block_end = num_block_rounds % options['period'] == 0
    is_after_warmup = num_block_rounds > 0
    return np.where(is_after_warmup[:, None], is_block_end[:, None], mask)
