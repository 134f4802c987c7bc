"""FedNova: updates normalised by the number of local steps behind them.

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
    """FedNova for SGD clients: ``x <- x + eta_g tau_eff mean_{i in A} Delta_i / tau_i``.

    tau_i is the number of local steps of client i, as its program's ``client_steps`` or
    ``local_epochs`` say, and ``tau_eff = mean_{i in A} tau_i``. Clients that do more steps no
    longer weigh more. With equal tau_i it is FedAvg. With ``weights='examples'`` both means weigh
    client i by its n_i examples, as in the paper. The normalisation by tau_i is the one for plain
    SGD: momentum or a proximal term have other coefficients in the paper.

    Link semantics: only clients whose uplink delivers compute, upload and receive; all of them
    start from x. An empty round keeps x.

    What the literature leaves open: the paper samples clients by their weight and takes both means
    over the sample. Under unequal links both are taken over A here, so that FedNova removes the
    inconsistency of unequal tau_i and keeps FedAvg's of unequal p_i.

    Memory: one model.

    Args:
      local_train: the client program, with the clients' numbers of steps.
      server_lr: eta_g, positive.
      weights: what clients weigh by, ``'equal'`` or ``'examples'``.

    Returns:
      The algorithm; models: ``server``. ``extra['num_local_steps']`` counts the local steps of A.

    Raises:
      ValueError: for a rate that is not positive or unknown ``weights``.

    References:
      Wang et al. 2020, equations (7) and (9), and section 5 for sampled clients.
    """
    checks.positive_number('server_lr', server_lr)
    common.check_weights(weights)

    def round_step(
        state: ServerState, ctx: RoundContext, problem: Problem
    ) -> Step[ServerState]:
        volumes = common.relative_volumes(problem, weights)

        def client(train: Train, i: Array, row: PyTree) -> tuple[Contribution, PyTree]:
            update = train(state.server)
            steps = common.as_float(update.num_steps)  # whose sum may exceed all int32
            normalised = tree.scale(1 / steps, update.delta)
            weighted: PyTree = ()
            if volumes is not None:
                normalised = tree.scale(volumes[i], normalised)
                weighted = volumes[i], volumes[i] * steps
            return Contribution((normalised, steps, weighted), update.loss), row

        total, _, metrics = common.train(local_train, ctx, problem, client)
        direction, num_steps, weighted = total
        volume, volume_steps = weighted or (metrics.num_active, num_steps)
        tau_eff = tree.divide(volume_steps, volume)
        step = tree.scale(tau_eff, tree.divide(direction, volume))  # eq. (9)
        server = tree.add_scaled(state.server, server_lr, step)
        return ServerState(server), metrics._replace(
            extra={'num_local_steps': num_steps}
        )

    return common.of_server(round_step)
