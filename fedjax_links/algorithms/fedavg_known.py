"""FedAvg that knows the probabilities of the links and divides them out.

References:
  Xiang et al. 2024, section 7.2; Perazzone et al. 2022.
"""

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ServerState
from fedjax_links.base import Algorithm, Array, Number, Problem, RoundContext, Step
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram


@references.cite('xiang2024empowering', 'perazzone2022communication')
def fedavg_known(
    local_train: ClientProgram, *, server_lr: Number = 1.0, weights: str = common.EQUAL
) -> Algorithm:
    """Inverse-probability weights: ``x^{t+1} = x^t + (eta_g / N) sum_{i in A} Delta_i / p_i^t``.

    ``E[1{i in A}] = p_i^t``, so a round moves by the mean of all N updates in expectation, for any
    links whose probability is known before the draw; the price is a variance of order 1/p_i. The
    weight scales the update and not the local rate. No weight is clipped.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x^t. p_i^t is ``links.prob``. Where a pattern does not know it (NaN), an active
    client makes the server model NaN, and the federation's ``finite`` turns false in that round:
    inside a compiled program an error cannot be raised. An empty round keeps x.

    Memory: one model.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.
      weights: what clients weigh by, ``'equal'``, or ``'examples'``: Delta_i times n_i over the
        mean number of examples, for the objective ``sum_i n_i F_i / sum_i n_i``.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive or unknown ``weights``.

    References:
      Xiang et al. 2024, section 7.2 (baselines).
    """
    checks.positive_number('server_lr', server_lr)
    common.check_weights(weights)

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        def inverse_prob(i: Array) -> Array:
            return 1 / base.prob_of(ctx.links, i)

        factors = common.times_volumes(inverse_prob, problem, weights)
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, factors
        )
        server = tree.add_scaled(state.server, server_lr / problem.num_clients, deltas)
        return ServerState(server=server), metrics

    return common.of_server(round_step)
