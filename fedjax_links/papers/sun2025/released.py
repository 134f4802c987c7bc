"""Reproduces what the notebook of Sun et al. 2025 runs where it differs from the paper.

Use it only to reproduce published numbers. Notebook: debias_fedavg.ipynb of debias_fl at a3a809b.
"""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.debiased_fedavg import DebiasedState, debiased_fedavg
from fedjax_links.base import Algorithm
from fedjax_links.core import checks, errors, tree
from fedjax_links.local_training import ClientProgram, Contribution


def debiased_fedavg_horizon(
    local_train: ClientProgram, *, num_rounds: int, groups: ArrayLike | None = None
) -> Algorithm:
    """Builds Debiasing FedAvg with local rate ``eta T / c_g``, T the planned length of the run.

    debias_fedavg.ipynb, cell 13 (lines 509-512). There is one counter c_g per group, incremented
    before it is used. The paper has ``(t + 1) B / N`` in place of T, with B of N clients active. If
    one of M groups of equal size is active in each round, ``B / N = 1 / M``. The local rate here is
    then ``M T / (t + 1)`` times the paper's rate. This factor falls during the run, and is M in the
    last round. So a learning rate tuned for the notebook's form does not suit the paper's.

    Args:
      local_train: the client program, whose rate is eta.
      num_rounds: T, at least 1.
      groups: int[N], the group of each client; every client on its own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a horizon below 1, or groups that are not one id of at least 0 per client.
    """
    checks.integer('num_rounds', num_rounds)
    group_of_client = None
    if groups is not None:
        ids = checks.ids('groups', groups)
        group_of_client = np.unique(ids, return_inverse=True)[1]  # Ids without gaps.

    clean = debiased_fedavg(local_train)

    def init(params, problem):
        if group_of_client is not None and len(group_of_client) != problem.num_clients:
            requirement = (
                f"have one entry per client of the problem's {problem.num_clients}"
            )
            raise errors.invalid('groups', requirement, len(group_of_client))
        return clean.init(params, problem)

    def round_step(state, ctx, problem):
        active = base.participants(ctx.links)
        group = group_of_client
        if group is None:
            group = np.arange(problem.num_clients)
        # A group takes part if any of its clients is active. There are at most N groups.
        group_takes_part = jnp.zeros(problem.num_clients, bool).at[group].max(active)
        # c_g of each client's own group.
        num_selected = state.num_selected + group_takes_part[group]

        def client(train, i, row):
            nu = num_rounds / common.as_float(num_selected[i])
            update = train(state.server, lr_scale=nu)
            return Contribution(update.delta, update.loss), row

        deltas, _, metrics = common.train(local_train, ctx, problem, client)
        server = tree.add_scaled(
            state.server, 1, tree.divide(deltas, metrics.num_active)
        )
        return DebiasedState(server, num_selected), metrics

    return clean._replace(init=init, round_step=round_step)
