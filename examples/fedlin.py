"""FedLin (Mitra et al. 2021) over unreliable links: an algorithm of one's own, in one file.

A client takes its local steps along ``grad F_i(y) - g_i + g``, where ``g_i = grad F_i(x)`` is its
full gradient at the server's model x and g the mean of these. So it needs two exchanges a round:
gradients up and their mean down, then models up. Here the server keeps the last gradient of every
client, so that g counts those too who are not there. An empty round changes nothing.
"""

from typing import NamedTuple

from fedjax_links import base, cohorts, local_training, tree


class FedLinState(NamedTuple):
    """The server model x, the mean g of the clients' last gradients, and these, [N, ...]."""

    server: base.Params
    mean: base.Params
    gradients: base.Params


def fedlin(local_train, *, server_lr=1.0):
    """y_i <- y_i - eta (grad F_i(y_i) - g_i + g) from x; x <- x + server_lr mean_A (y_i - x)."""
    probe = local_training.local_sgd(1.0, local_steps=1)  # on a client's full data

    def init(params, problem):
        zeros = tree.zeros_like(params)
        return FedLinState(params, zeros, tree.broadcast(zeros, problem.num_clients))

    def round_step(state, ctx, problem):
        cohort = cohorts.participating(ctx.links)

        def gradient(train, i, old):
            options = {'problem': problem, 'keep_gradient': True}
            new = probe.run(
                state.server, i, ctx.round, ctx.client_key, **options
            ).gradient
            return local_training.Contribution(tree.subtract(new, old), 0.0), new

        def model(train, i, g_i):
            update = train(state.server, correction=tree.subtract(mean, g_i))
            return local_training.Contribution(update.delta, update.loss), g_i

        over = (local_train, cohort, ctx, problem)
        changes, gradients = local_training.train_cohort(
            *over, gradient, state.gradients
        )
        mean = tree.add_scaled(state.mean, 1 / problem.num_clients, changes.value)
        total, _ = local_training.train_cohort(*over, model, gradients)
        active = cohorts.num_members(cohort)
        server = tree.add_scaled(
            state.server, server_lr, tree.divide(total.value, active)
        )
        metrics = base.RoundMetrics(active, active, total.loss, {})
        return FedLinState(server, mean, gradients), metrics

    return base.Algorithm(
        init, round_step, models=lambda state: {'server': state.server}
    )
