"""FedAvg that knows the probabilities of the links and divides them out.

The symbols are those of `fedjax_links.algorithms`.

References:
  Xiang et al. 2024, section 7.2; Perazzone et al. 2022.
"""

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ServerState
from fedjax_links.base import Algorithm, Array, Number, Problem, RoundContext, Step
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram


@references.cite('xiang2024empowering', 'perazzone2022communication', 'rodio2023packet')
def fedavg_known(
    local_train: ClientProgram, *, server_lr: Number = 1.0, weights: str = common.EQUAL
) -> Algorithm:
    """Runs FedAvg with inverse-probability weights: each update is divided by its p_i.

    ``x^{t+1} = x^t + (eta_g / N) sum_{i in A} Delta_i / p_i^t``. As ``E[1{i in A}] = p_i^t``, a
    round moves x by the mean of all N updates in expectation, if A does not depend on earlier
    rounds. Under links with memory A is correlated with x^t. This leaves a bias of first order in
    the rate. The bias falls with 1/N and grows with the correlation time
    (`analysis.first_order_mean`). The variance of a step is of order 1/p_i. The weight 1/p_i scales
    the update and not the local rate. No weight is clipped. UPGA-PL (Rodio et al. 2023) is this
    algorithm where packets get lost in both directions, so that p_i^t is the probability that both
    arrive.

    Link semantics: only clients whose uplink delivers compute, upload and receive. All of them
    start from x^t. p_i^t is ``links.prob``. If a pattern does not know p_i^t (NaN), an active
    client makes the server model NaN, as a compiled program cannot raise an error. In that round
    `base.FederationState.finite` turns false. An empty round keeps x.

    Memory: one model.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.
      weights: what clients weigh by, ``'equal'`` or ``'examples'``. With ``'examples'`` Delta_i is
        multiplied by n_i over the mean number of examples. The objective is then
        ``sum_i n_i F_i / sum_i n_i``.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a rate that is not positive or unknown ``weights``.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.01, local_steps=2)
      >>> algorithm = algorithms.fedavg_known(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=1000)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.48

    References:
      Xiang et al. 2024, section 7.2 (baselines).
    """
    checks.positive_number('server_lr', server_lr)
    common.check_weights(weights)

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        relative_counts = common.relative_counts(problem, weights)

        def weight(i: Array) -> Array:
            inverse_prob = 1 / base.prob_of(ctx.links, i)
            if relative_counts is None:
                return inverse_prob
            return relative_counts[i] * inverse_prob

        # Server: add the updates weighted by 1 / p_i, divided by N.
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, weight
        )
        server = tree.add_scaled(state.server, server_lr / problem.num_clients, deltas)
        return ServerState(server=server), metrics

    return common.server_only_algorithm(round_step)
