"""Reproduces what the notebook of Sun et al. 2025 runs where it differs from the paper.

For chasing published numbers only. Notebook: debias_fedavg.ipynb of debias_fl at a3a809b.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.debiased_fedavg import DebiasedState, debiased_fedavg
from fedjax_links.base import Algorithm
from fedjax_links.core import checks, errors, tree
from fedjax_links.local_training import ClientProgram, Contribution


def debiased_fedavg_horizon(
    local_train: ClientProgram, *, num_rounds: int, groups: Any = None
) -> Algorithm:
    """Builds Debiasing FedAvg with local rate ``eta T / c_g``, T the planned length of the run.

    debias_fedavg.ipynb, cell 13 (lines 509-512): one counter per group, incremented first, the
    horizon T in place of the paper's ``(t + 1) B / N``. The two differ by the factor
    ``M T / (t + 1)`` with M groups: M times larger at the end, and with a 1/(t + 1) decay before.
    Rates of one form cannot be carried over to the other.

    Args:
      local_train: the client program, whose rate is eta.
      num_rounds: T, at least 1.
      groups: int[N], the group of each client; every client on its own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a horizon below 1, or groups that are not one id per client from 0.
    """
    checks.integer('num_rounds', num_rounds)
    if groups is not None:
        ids = checks.ids('groups', groups)
        groups = np.unique(ids, return_inverse=True)[1]  # Without gaps.

    clean = debiased_fedavg(local_train)

    def init(params, problem):
        if groups is not None and len(groups) != problem.num_clients:
            requirement = (
                f"have one entry per client of the problem's {problem.num_clients}"
            )
            raise errors.invalid('groups', requirement, len(groups))
        return clean.init(params, problem)

    def round_step(state, ctx, problem):
        active = base.participants(ctx.links)
        group = np.arange(problem.num_clients) if groups is None else groups
        taking_part = jnp.zeros(problem.num_clients, bool).at[group].max(active)[group]
        # C_g of each client's own group.
        num_selected = state.num_selected + taking_part

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
