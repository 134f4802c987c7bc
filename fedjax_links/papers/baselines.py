"""What the authors of algorithms that the four papers compare with run, where it differs.

None of these is an algorithm to use: each reproduces one departure of a public repository from the
rule that the clean factory of the same family implements, for chasing published numbers.

Repositories: github.com/mriberodiaz/f3ast at 27b4e33, github.com/hmgxr128/MIFA_code at c1099d9 and
github.com/mingxiang12/FedAWE at e0b8538.
"""

from typing import Any

import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.f3ast import F3astState, check_beta, lowest
from fedjax_links.algorithms.fedawe import fedawe
from fedjax_links.algorithms.mifa import mifa_waiting
from fedjax_links.base import Algorithm, Array, Problem
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, errors, tree
from fedjax_links.local_training import ClientProgram, sum_updates


def f3ast_authors(
    local_train: ClientProgram,
    *,
    client_weights: Any = None,
    budget: int = 10,
    beta: float = 0.01,
    server_lr: float = 1.0,
) -> Algorithm:
    """F3AST as its authors run it: weighted clients, always ``budget`` of them, an extra 1/K.

    Scores ``p_i^2 / r_i^2`` of unavailable clients are zero and the K best are taken whatever their
    score, so with fewer than K available clients the lowest of the other ids train as well, empty
    rounds included; ``x <- x + (eta_g / K) sum_S (p_i / r_i) Delta_i``, with r starting at p
    (f3ast utils/training_utils.py:353-373 and 418-466,
    optimization/shared/importance_aggregation_factory.py:74-81).

    Args:
      local_train: the client program L_i.
      client_weights: float[N], p_i, positive; each client's share of the examples by default
        (of the batches, in the repository).
      budget: K, clients per round, at least 1.
      beta: rate of forgetting, in (0, 1].
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server``. Clients that cannot deliver influence it.
    """
    checks.static_int('budget', budget)
    check_beta(beta)
    checks.positive('server_lr', server_lr)
    if client_weights is not None:
        checks.positive('client_weights', client_weights)

    def shares(problem: Problem) -> Array:
        weights = problem.counts if client_weights is None else jnp.asarray(client_weights)
        if weights.shape != problem.counts.shape:
            requirement = f"have one entry per client of the problem's {problem.num_clients}"
            raise errors.invalid('client_weights', requirement, list(weights.shape))
        return (weights / jnp.sum(weights)).astype(jnp.result_type(float))

    def init(params, problem):
        return F3astState(server=params, rate=shares(problem))

    def round_step(state, ctx, problem):
        p = shares(problem)
        score = jnp.where(base.participants(ctx.links), jnp.square(p / state.rate), 0)
        chosen = lowest(-score, budget)
        rate = ((1 - beta) * state.rate + beta * chosen).astype(state.rate.dtype)
        cohort = cohorts.make_cohort(chosen)
        total = sum_updates(local_train, cohort, ctx, problem, state.server, p / rate)
        server = tree.add_scaled(state.server, server_lr / budget, total.value)
        return F3astState(server=server, rate=rate), common.metrics(cohort, total)

    return Algorithm(init=init, round_step=round_step, models=common.server_model)


def mifa_filled_at_once(
    local_train: ClientProgram, *, server_lr: float = 1.0, memory: str = 'gradient'
) -> Algorithm:
    """Waiting MIFA whose rows are all filled in the last waiting round, by everybody.

    Nobody trains before; in the round of the last client's first contact all N clients compute from
    x^0, available or not (MIFA_code src/trainers/fdu.py:33-63). `mifa_waiting` has each client
    fill its row when it is heard: the same table with full batches, other batches otherwise.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.
      memory: what a row holds, ``'delta'`` or ``'gradient'``.

    Returns:
      The algorithm; models: ``server``. Clients that cannot deliver influence it.
    """
    clean = mifa_waiting(local_train, server_lr=server_lr, memory=memory)

    def round_step(state, ctx, problem):
        active = base.participants(ctx.links)
        seen_before = jnp.all(state.seen)
        fills = jnp.all(state.seen | active) & ~seen_before
        links = base.LinkSample(mask=fills | (active & seen_before), prob=ctx.links.prob)
        new_state, metrics = clean.round_step(state, ctx._replace(links=links), problem)
        return new_state._replace(seen=state.seen | active), metrics

    return clean._replace(round_step=round_step)


def fedawe_clipped(local_train: ClientProgram, *, server_lr: float = 1.0) -> Algorithm:
    """FedAWE whose mean innovation is rescaled to L2 norm 0.5 where it is longer.

    FedAWE dataset/dataset.py:150-155, applied before eta_g to the flattened model.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.
    """
    return fedawe(local_train, server_lr=server_lr, innovation_clip=0.5)
