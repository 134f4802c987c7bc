"""What the notebook of Sun et al. 2025 runs where it differs from the paper.

For chasing published numbers only. Notebook: debias_fedavg.ipynb of debias_fl at a3a809b.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.base import Algorithm, Array, Params, Problem
from fedjax_links.clients import cohorts
from fedjax_links.core import errors, tree
from fedjax_links.local_training import ClientProgram, Contribution, train_cohort


class HorizonState(NamedTuple):
    """State of Debiasing FedAvg with the weights of the notebook.

    Attributes:
      server: the server model.
      num_selected: int32[G], c_g, rounds in which group g took part.
    """

    server: Params
    num_selected: Array


def debiased_fedavg_horizon(
    local_train: ClientProgram, *, num_rounds: int, groups: Any = None
) -> Algorithm:
    """Debiasing FedAvg with local rate ``eta T / c_g``, T the planned length of the run.

    debias_fedavg.ipynb, cell 13 (lines 509-512): one counter per group, incremented first, the
    horizon T in place of the paper's ``(t + 1) B / N``. The two differ by the factor
    ``M T / (t + 1)`` with M groups: M times larger at the end, and with a 1/(t + 1) decay before.
    Rates of one form cannot be carried over to the other.

    Args:
      local_train: the client program, with alpha as its rate.
      num_rounds: T, at least 1.
      groups: int[N], the group of each client; every client on its own by default.

    Returns:
      The algorithm; models: ``server``.

    Raises:
      ValueError: for a horizon below 1, or groups that are not one id per client from 0.
    """
    common.check_count('num_rounds', num_rounds)
    if groups is not None:
        groups = np.asarray(groups)
        if groups.ndim != 1 or not np.issubdtype(groups.dtype, np.integer) or groups.min() < 0:
            raise errors.invalid('groups', 'hold one group id per client, from 0', groups.tolist())

    def group_of(problem: Problem) -> np.ndarray:
        if groups is not None and len(groups) != problem.num_clients:
            requirement = f"have one entry per client of the problem's {problem.num_clients}"
            raise errors.invalid('groups', requirement, len(groups))
        return np.arange(problem.num_clients) if groups is None else groups

    def init(params, problem):
        num_groups = int(group_of(problem).max()) + 1
        return HorizonState(server=params, num_selected=jnp.zeros(num_groups, jnp.int32))

    def round_step(state, ctx, problem):
        active, group = base.participants(ctx.links), jnp.asarray(group_of(problem))
        taking_part = jnp.zeros(state.num_selected.shape, bool).at[group].max(active)
        num_selected = state.num_selected + taking_part
        cohort = cohorts.make_cohort(active)

        def client(train, i, row):
            nu = num_rounds / common.as_float(num_selected[group[i]])
            update = train(state.server, lr_scale=nu)
            return Contribution(update.delta, update.loss), row

        total, _ = train_cohort(local_train, cohort, ctx, problem, client)
        num_active = cohorts.num_members(cohort)
        server = tree.add_scaled(state.server, 1, tree.divide(total.value, num_active))
        return HorizonState(server, num_selected), common.metrics(cohort, total)

    return Algorithm(init=init, round_step=round_step, models=common.server_model)
