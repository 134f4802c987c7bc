"""Reproduces what the repository of Xiang et al. 2024 runs where it differs from the paper.

Use none of these functions for new work: each reproduces one departure, to explain published
numbers. Two departures need no function here: MIFA with ``memory='delta'`` under a decaying rate,
and clients of unequal volume (the partition ``dirichlet_unequal``).

Repository: github.com/mingxiang12/FedPBC at 2f6770c, unless another commit is named.
"""

from typing import Any

import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.algorithms.f3ast import F3astState, f3ast, lowest
from fedjax_links.algorithms.fedavg_known import fedavg_known
from fedjax_links.algorithms.fedpbc import fedpbc
from fedjax_links.base import Algorithm, Participation
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, tree
from fedjax_links.local_training import ClientProgram
from fedjax_links.participation import bernoulli, cyclic, schedules
from fedjax_links.participation.markov import as_up_rate


def fedavg_known_last_client(
    local_train: ClientProgram, *, server_lr: float = 1.0
) -> Algorithm:
    """Builds FedAvg known that divides every update by the probability of the **last** client.

    A loop variable keeps its last value (FedPBC varying_main.py:103-107 and 148,
    static_main.py:90-94 and 135), so the method is FedAvg-all with server rate
    ``eta_g / p_{N-1}^t`` and removes no bias.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server``.
    """
    clean = fedavg_known(local_train, server_lr=server_lr)

    def round_step(state, ctx, problem):
        links = base.as_masks(ctx.links)
        last_prob = jnp.broadcast_to(links.prob[-1], links.prob.shape)
        links = links._replace(prob=last_prob)
        return clean.round_step(state, ctx._replace(links=links), problem)

    return clean._replace(round_step=round_step)


def f3ast_positions_as_ids(
    local_train: ClientProgram,
    *,
    budget: int = 10,
    beta: float = 0.01,
    server_lr: float = 1.0,
) -> Algorithm:
    """Builds F3AST that takes positions in the list of active clients for client ids.

    With ``budget`` or more active clients, it takes the positions of the lowest rates *within the
    list of active clients*. The clients with these positions as ids train, active or not (FedPBC
    varying_main.py:109-121, static_main.py:96-108). With fewer active clients, all of these train.
    All else is as in `f3ast`.

    Of equal rates the last position wins, as in a reversed stable sort. The repository uses NumPy's
    default sort, which is not stable. From 11 entries on at the latest, the order of ties depends
    on NumPy's version and the processor, which no algorithm can reproduce.

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
        active_cohort = cohorts.make_cohort(active)
        occupied = jnp.arange(problem.num_clients) < active_cohort.size
        rates = jnp.where(occupied, cohorts.gather(active_cohort, state.rate), jnp.inf)
        # `lowest` prefers the first of equal rates; on the reversed list that is the last.
        is_lowest = lowest(rates[::-1], budget)[::-1]
        # The mistake: positions in the list serve as client ids.
        chosen = jnp.where(active_cohort.size >= budget, is_lowest, active)
        rate = ((1 - beta) * state.rate + beta * chosen).astype(state.rate.dtype)
        cohort = cohorts.make_cohort(chosen)
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, 1 / rate, cohort
        )
        server = tree.add_scaled(state.server, server_lr / problem.num_clients, deltas)
        return F3astState(server, rate), metrics

    return clean._replace(round_step=round_step)


def fedpbc_doubled_steps(
    local_train: ClientProgram, *, server_lr: float = 1.0
) -> Algorithm:
    """Builds the first commit's FedPBC: clients move ``1 + eta_g`` times their displacement.

    FedPBC at 2f364b4, varying_pbc.py:110 and static_pbc.py:96, until 2f6770c of 2024-04-15. With
    eta_g = 1 the clients of FedPBC moved twice as far as clients of the baselines.

    Args:
      local_train: the client program L_i.
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server`` and ``client_mean``.
    """
    checks.positive_number('server_lr', server_lr)
    return fedpbc(local_train, server_lr=1 + server_lr)


def memoryless_markov(schedule: Any, up_rate: Any = 0.05) -> Participation:
    """Draws the released "non-homogeneous Markov" links, which have no memory.

    The code rebuilds every chain in every round: the state is drawn from Bernoulli(p_i^t) and makes
    one transition, which keeps this distribution. Rounds are therefore independent, and the pattern
    is `bernoulli` of the same schedule; the paper's pattern is `markov`.

    Args:
      schedule: as in `markov`.
      up_rate: as in `markov`; without effect on the distribution.

    Returns:
      The pattern; it has no carry and reports the schedule's mean as ``prob``.

    Raises:
      ValueError: for a value out of range.

    References:
      Xiang et al. 2024, appendix B; github.com/mingxiang12/FedPBC, varying_main.py:91-94.
    """
    schedule = schedules.as_schedule(schedule)
    as_up_rate(up_rate, schedule.num_clients)
    return bernoulli(schedule)


def reduced_cyclic(
    probs: Any, *, gamma: Any = 0.4, cycle_length: int = 100
) -> Participation:
    """Draws the released "cyclic with periodic reset" links, at ``(1 - gamma) p`` for p.

    The code resets at rounds 0, 100, 200, ... and uses the time-varying ``p_i^t`` of those rounds,
    where the sine of period 40 vanishes. With the default gamma, participation is 40 % below
    participation in the pattern without reset. The published tables compare these two patterns. The
    paper does not mention the factor. The intended form is ``cyclic(probs, reset=True)``.

    Args:
      probs: float[N] in [0, 1], before modulation.
      gamma: amplitude of the sine, in [0, 0.5].
      cycle_length: rounds between resets, 100 in the repository. The factor equals the released
        code's for multiples of 20, where the sine vanishes.

    Returns:
      The pattern, as `cyclic`.

    Raises:
      ValueError: for a value out of range.

    References:
      Xiang et al. 2024, appendix B; github.com/mingxiang12/FedPBC, varying_main.py:91-94 and
      util/util.py:16-38, 121-135.
    """
    probs = schedules.as_probs(probs, 'probs')
    checks.within('gamma', gamma, 0, 0.5)
    gamma = schedules.one_or_each('gamma', gamma, probs.size)
    return cyclic((1 - gamma) * probs, cycle_length=cycle_length, reset=True)
