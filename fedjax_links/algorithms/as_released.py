"""What published code does differently from the published rules, for chasing published numbers.

None of these is an algorithm to use. Each reproduces one departure of a public repository, at the
commit named, from the rule that the clean factory of the same family implements.

Departures that the clean factories already cover: the FedPBC and FedAWE repositories run MIFA with
``memory='delta'`` under a decaying rate, MIFA's authors with ``memory='gradient'``.

Repositories: github.com/mingxiang12/FedPBC at 2f6770c, github.com/mingxiang12/FedAWE at e0b8538,
github.com/hmgxr128/MIFA_code at c1099d9, github.com/mriberodiaz/f3ast at 27b4e33, and the notebook
debias_fedavg.ipynb of debias_fl at a3a809b.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_links import base, checks, cohorts, errors, tree
from fedjax_links.algorithms import common
from fedjax_links.algorithms.f3ast import F3astState, check_beta, f3ast, lowest
from fedjax_links.algorithms.fedawe import fedawe
from fedjax_links.algorithms.fedpbc import fedpbc
from fedjax_links.algorithms.mifa import mifa_waiting
from fedjax_links.base import Algorithm, Array, Params, Problem, RoundContext, RoundMetrics
from fedjax_links.cohorts import Cohort
from fedjax_links.local_training import ClientProgram, Contribution, train_cohort
from fedjax_links.registry import AlgorithmEntry


def fedavg_known_last_client(local_train: ClientProgram, *, server_lr: float = 1.0) -> Algorithm:
    """Known-p FedAvg that divides every update by the probability of the **last** client.

    A loop variable keeps its last value (FedPBC varying_main.py:103-107 and 148,
    static_main.py:90-94 and 135), so the method is FedAvg-all with server rate
    ``eta_g / p_{N-1}^t`` and removes no bias.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server``.
    """
    checks.positive('server_lr', server_lr)

    def round_step(state, ctx, problem):
        cohort = cohorts.make_cohort(base.participants(ctx.links))
        weights = jnp.broadcast_to(1 / ctx.links.prob[-1], ctx.links.prob.shape)
        delta_sum, metrics = _weighted_deltas(local_train, cohort, ctx, problem, state, weights)
        server = tree.add_scaled(state.server, server_lr / problem.num_clients, delta_sum)
        return common.ServerState(server=server), metrics

    return Algorithm(
        init=lambda params, problem: common.ServerState(server=params),
        round_step=round_step,
        models=common.server_model,
    )


def f3ast_positions_as_ids(
    local_train: ClientProgram, *, budget: int = 10, beta: float = 0.01, server_lr: float = 1.0
) -> Algorithm:
    """F3AST that takes positions in the list of active clients for client ids.

    With ``budget`` or more active clients, the positions with the lowest rates *within the list of
    active clients* are trained as if they were ids, active or not (FedPBC varying_main.py:109-121,
    static_main.py:96-108); with fewer, all active ones are. Equal rates are settled in favour of
    the last position, as a reversed stable sort does; the repository's sort is not stable beyond
    16 entries, which no rule can reproduce. Otherwise as `f3ast`.

    Args:
      local_train: the client program L_i.
      budget: clients per round, at least 1; 10 in the repository.
      beta: rate of forgetting, in (0, 1].
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server``.
    """
    clean = f3ast(local_train, budget=budget, beta=beta, server_lr=server_lr)

    def round_step(state, ctx, problem):
        active = base.participants(ctx.links)
        listed = cohorts.make_cohort(active)
        occupied = jnp.arange(problem.num_clients) < listed.size
        rates = jnp.where(occupied, cohorts.gather(listed, state.rate), jnp.inf)
        mistaken = lowest(rates[::-1], budget)[::-1]
        chosen = jnp.where(listed.size >= budget, mistaken, active)
        rate = ((1 - beta) * state.rate + beta * chosen).astype(state.rate.dtype)
        cohort = cohorts.make_cohort(chosen)
        delta_sum, metrics = _weighted_deltas(local_train, cohort, ctx, problem, state, 1 / rate)
        server = tree.add_scaled(state.server, server_lr / problem.num_clients, delta_sum)
        return F3astState(server=server, rate=rate), metrics

    return clean._replace(round_step=round_step)


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
            raise _not_one_per_client('client_weights', problem, list(weights.shape))
        return (weights / jnp.sum(weights)).astype(jnp.result_type(float))

    def init(params, problem):
        return F3astState(server=params, rate=shares(problem))

    def round_step(state, ctx, problem):
        p = shares(problem)
        score = jnp.where(base.participants(ctx.links), jnp.square(p / state.rate), 0)
        chosen = lowest(-score, budget)
        rate = ((1 - beta) * state.rate + beta * chosen).astype(state.rate.dtype)
        cohort = cohorts.make_cohort(chosen)
        delta_sum, metrics = _weighted_deltas(local_train, cohort, ctx, problem, state, p / rate)
        server = tree.add_scaled(state.server, server_lr / budget, delta_sum)
        return F3astState(server=server, rate=rate), metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)


def fedpbc_doubled_steps(local_train: ClientProgram, *, server_lr: float = 1.0) -> Algorithm:
    """FedPBC of the first commit: every client moves ``1 + eta_g`` times its displacement.

    FedPBC at 2f364b4, varying_pbc.py:110 and static_pbc.py:96, until 2f6770c of 2024-04-15. With
    eta_g = 1 its clients moved twice where those of the baselines moved once.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.
    """
    checks.positive('server_lr', server_lr)
    return fedpbc(local_train, server_lr=1 + server_lr)


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
            raise _not_one_per_client('groups', problem, len(groups))
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
        metrics = RoundMetrics(num_active, num_active, total.loss, {})
        return HorizonState(server=server, num_selected=num_selected), metrics

    return Algorithm(init=init, round_step=round_step, models=common.server_model)


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


def _not_one_per_client(argument: str, problem: Problem, given: Any) -> ValueError:
    requirement = f"have one entry per client of the problem's {problem.num_clients}"
    return errors.invalid(argument, requirement, given)


def _weighted_deltas(
    local_train: ClientProgram,
    cohort: Cohort,
    ctx: RoundContext,
    problem: Problem,
    state: Any,
    weights: Array,
) -> tuple[Params, RoundMetrics]:
    """Sum over the cohort of ``weights[i] * (L_i(x) - x)``."""

    def client(train, i, row):
        update = train(state.server)
        return Contribution(tree.scale(weights[i], update.delta), update.loss), row

    total, _ = train_cohort(local_train, cohort, ctx, problem, client)
    num_active = cohorts.num_members(cohort)
    return total.value, RoundMetrics(num_active, num_active, total.loss, {})


AS_RELEASED = {
    'debiased_fedavg_horizon': AlgorithmEntry(
        debiased_fedavg_horizon, example={'num_rounds': 20}, full_participation_is_fedavg=False
    ),
    'f3ast_authors': AlgorithmEntry(
        f3ast_authors,
        example={'budget': 3},
        full_participation_is_fedavg=False,
        empty_round_keeps_server=False,
        uses_links=False,
    ),
    'f3ast_positions_as_ids': AlgorithmEntry(
        f3ast_positions_as_ids,
        example={'budget': 3},
        full_participation_is_fedavg=False,
        uses_links=False,
    ),
    'fedavg_known_last_client': AlgorithmEntry(fedavg_known_last_client),
    'fedawe_clipped': AlgorithmEntry(fedawe_clipped, full_participation_is_fedavg=False),
    'fedpbc_doubled_steps': AlgorithmEntry(
        fedpbc_doubled_steps, full_participation_is_fedavg=False
    ),
    'mifa_filled_at_once': AlgorithmEntry(
        mifa_filled_at_once,
        full_participation_is_fedavg=False,
        empty_round_keeps_server=False,
        uses_links=False,
    ),
}
