"""FedNova: updates normalised by the number of local steps behind them.

The symbols are those of `fedjax_links.algorithms`.

References:
  Wang et al. 2020, Tackling the objective inconsistency problem in heterogeneous federated
  optimization.
"""

from fedjax_links.algorithms import common
from fedjax_links.algorithms.common import ServerState
from fedjax_links.base import (
    Algorithm,
    Array,
    Number,
    Problem,
    PyTree,
    RoundContext,
    Step,
)
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


@references.cite('wang2020tackling')
def fednova(
    local_train: ClientProgram, *, server_lr: Number = 1.0, weights: str = common.EQUAL
) -> Algorithm:
    """Runs FedNova: divides updates by their number of local steps before averaging.

    ``x <- x + eta_g tau_eff mean_{i in A} Delta_i / tau_i``, for clients that run SGD.
    tau_i is the number of local steps of client i, as its program's ``client_steps``,
    ``min_steps`` or ``local_epochs`` say, and ``tau_eff = mean_{i in A} tau_i``. Clients that do
    more steps no longer weigh more. With equal tau_i FedNova is FedAvg. With ``weights='examples'``
    both means weigh client i by its n_i examples, as in the paper. Dividing by tau_i fits plain
    SGD. For momentum or a proximal term the paper has other coefficients.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. An empty round keeps x.

    What the literature leaves open: the paper samples clients by their weight and takes both means
    over the sample. Here both means are over A, also under unequal links. So FedNova removes the
    inconsistency of unequal tau_i, and keeps FedAvg's inconsistency of unequal p_i. An error of
    first order in the local rate remains: below FedNova ends at 0.45, where FedAvg ends at 0.80.

    Memory: one model.

    Args:
      local_train: the client program, with the clients' numbers of steps.
      server_lr: eta_g, positive.
      weights: what clients weigh by, ``'equal'`` or ``'examples'``.

    Returns:
      The algorithm; models: ``server``. ``extra['num_local_steps']`` counts the local steps of A.

    Raises:
      ValueError: for a rate that is not positive or unknown ``weights``.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.always(2)
      >>> client = local_training.local_sgd(0.1, local_steps=5, client_steps=[1, 5])
      >>> algorithm = algorithms.fednova(client)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=200)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.45

    References:
      Wang et al. 2020, equations (7) and (9), and section 5 for sampled clients.
    """
    checks.positive_number('server_lr', server_lr)
    common.check_weights(weights)

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        relative_counts = common.relative_counts(problem, weights)

        def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            # In floating point, because the sum of all steps may exceed int32.
            steps = common.as_float(update.num_steps)
            normalised = tree.scale(1 / steps, update.delta)
            weight_and_steps: PyTree = ()
            if relative_counts is not None:
                weight = relative_counts[i]
                normalised = tree.scale(weight, normalised)
                weight_and_steps = weight, weight * steps
            summands = normalised, steps, weight_and_steps
            return Contribution(summands, update.loss), row

        sums, _, metrics = common.train(local_train, ctx, problem, client)
        normalised_sum, num_steps, weight_and_steps = sums
        if relative_counts is None:
            weight_sum = metrics.num_active
            weighted_steps = num_steps
        else:
            weight_sum, weighted_steps = weight_and_steps

        # Server, eq. (9): the mean normalised update, scaled by tau_eff.
        tau_eff = tree.divide(weighted_steps, weight_sum)
        step = tree.scale(tau_eff, tree.divide(normalised_sum, weight_sum))
        server = tree.add_scaled(state.server, server_lr, step)
        extra = {'num_local_steps': num_steps}
        return ServerState(server), metrics._replace(extra=extra)

    return common.server_only_algorithm(round_step)
