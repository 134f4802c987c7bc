"""Defines FedLin (Mitra et al. 2021) over unreliable links: your own algorithm, in one file.

A client takes its local steps along ``grad F_i(y) - g_i + g``. Here ``g_i = grad F_i(x)`` is its
full gradient at the server model x, and g is the mean of these over all clients. So a round has two
exchanges: gradients up and their mean down, then models up. The server keeps the last gradient of
every client, so that g also counts inactive clients. An empty round changes nothing.
"""

from typing import NamedTuple

from fedjax_links import base, cohorts, local_training, tree


class FedLinState(NamedTuple):
    """Holds the state of FedLin.

    Attributes:
      server: the server model x.
      mean: g, the mean of the clients' last gradients.
      gradients: g_i, each client's last gradient, leaves [N, ...].
    """

    server: base.Params
    mean: base.Params
    gradients: base.Params


def fedlin(local_train, *, server_lr=1.0):
    """Runs FedLin: clients correct their gradients by the difference to the mean gradient.

    From x, ``y_i <- y_i - eta (grad F_i(y_i) - g_i + g)``. Then
    ``x <- x + server_lr mean_{i in A} (y_i - x)``.
    """
    # Without a batch size, its one step has the gradient of all examples of a client.
    one_step = local_training.local_sgd(1.0, local_steps=1)

    def init(params, problem):
        zeros = tree.zeros_like(params)
        return FedLinState(params, zeros, tree.broadcast(zeros, problem.num_clients))

    def round_step(state, ctx, problem):
        cohort = cohorts.participating(ctx.links)

        def gradient(train, i, old_gradient):
            new_gradient = train(state.server, keep_gradient=True).gradient
            change = tree.subtract(new_gradient, old_gradient)
            return local_training.Contribution(change, 0.0), new_gradient

        def model(train, i, g_i):
            update = train(state.server, correction=tree.subtract(mean, g_i))
            return local_training.Contribution(update.delta, update.loss), g_i

        # First exchange: g moves by the changes of the active clients' gradients.
        changes, gradients = local_training.train_cohort(
            one_step, cohort, ctx, problem, gradient, state.gradients
        )
        mean = tree.add_scaled(state.mean, 1 / problem.num_clients, changes.value)

        # Second exchange: clients train along corrected gradients, the server averages.
        total, _ = local_training.train_cohort(
            local_train, cohort, ctx, problem, model, gradients
        )
        num_active = cohorts.num_members(cohort)
        mean_update = tree.divide(total.value, num_active)
        server = tree.add_scaled(state.server, server_lr, mean_update)
        metrics = base.RoundMetrics(
            num_active, num_computing=num_active, loss_sum=total.loss, extra={}
        )
        return FedLinState(server, mean, gradients), metrics

    return base.Algorithm(
        init, round_step, models=lambda state: {'server': state.server}
    )
