"""F3AST: a budget of clients per round, chosen and weighted by their long-term rate.

References:
  Ribero et al. 2022, Federated learning under intermittent client availability and time-varying
  communication constraints.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import base
from fedjax_links.algorithms import common
from fedjax_links.base import (
    Algorithm,
    Array,
    Number,
    Numbers,
    Params,
    Problem,
    RoundContext,
    Step,
)
from fedjax_links.clients import cohorts
from fedjax_links.core import checks, errors, references, tree
from fedjax_links.local_training import ClientProgram


class F3astState(NamedTuple):
    """State of F3AST.

    Attributes:
      server: the server model x^t.
      rate: float[N], r_i, the running rate of selection.
    """

    server: Params
    rate: Array


@references.cite('ribero2022federated', 'xiang2024empowering')
def f3ast(
    local_train: ClientProgram,
    *,
    budget: int = 10,
    beta: Number = 0.01,
    server_lr: Number = 1.0,
    initial_rate: Numbers = 1.0,
) -> Algorithm:
    """F3AST with equal clients: ``x^{t+1} = x^t + (eta_g / N) sum_{i in S} Delta_i / r_i``.

    S holds the ``budget`` active clients with the largest 1/r_i^2, which is the steepest descent of
    ``sum_i (1/N)^2 / r_i``; equal rates are settled in favour of the lowest id, and all active
    clients are taken where they do not exceed the budget. Then ``r <- (1 - beta) r + beta 1_S``,
    starting from ``initial_rate``, and this new r is the one that weighs: count, then use.

    Weights settle in about ``1 / beta`` rounds. Until then their scale is that of the first rates:
    from ones, with 100 clients, a budget of 10 and beta = 0.01, they sum to 0.10, 0.23, 0.67 and
    0.96 in rounds 0, 100, 300 and 1,000, so that the first steps are a tenth of FedAvg's. A short
    run compares step sizes.

    Link semantics: the server sees who is available and asks S alone; clients in S start from x^t,
    compute, upload and receive, the other active clients do nothing. An empty round keeps x while
    r decays.

    Memory: one model and one number per client.

    Args:
      local_train: the client program L_i.
      budget: most clients per round, at least 1.
      beta: rate of forgetting, in (0, 1].
      server_lr: eta_g, positive.
      initial_rate: r before round 0, in (0, 1], one number or float[N]. Ones are those of Xiang et
        al. 2024; ``budget / N`` begins with weights that sum to about one.

    Returns:
      The algorithm; models: ``server``. ``num_active`` counts S; ``extra['num_available']`` counts
      the clients that S was chosen from.

    Raises:
      ValueError: for a budget below 1, a ``beta`` or first rate outside (0, 1], or a server rate
        that is not positive.

    References:
      Ribero et al. 2022, Algorithm 1; budget and beta of Xiang et al. 2024, appendix B.
    """
    checks.static_int('budget', budget)
    checks.number('beta', beta)
    if checks.is_concrete(beta) and not 0 < beta <= 1:
        raise errors.invalid('beta', 'lie in (0, 1]', beta)
    checks.positive_number('server_lr', server_lr)
    checks.positive('initial_rate', initial_rate)
    checks.within('initial_rate', initial_rate, 0, 1)

    def init(params: Params, problem: Problem) -> F3astState:
        return F3astState(
            server=params, rate=_first_rates(initial_rate, problem.num_clients)
        )

    def round_step(
        state: F3astState, ctx: RoundContext, problem: Problem
    ) -> Step[F3astState]:
        active = base.participants(ctx.links)
        chosen, rate = _choose(active, state.rate, budget, beta)
        cohort = cohorts.make_cohort(chosen)
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, weights=1 / rate, cohort=cohort
        )
        server = tree.add_scaled(state.server, server_lr / problem.num_clients, deltas)
        extra = {'num_available': jnp.sum(active, dtype=jnp.int32)}
        return F3astState(server, rate), metrics._replace(extra=extra)

    return Algorithm(init=init, round_step=round_step, models=common.server_model)


def lowest(scores: Array, budget: int) -> Array:
    """bool[N]: the ``budget`` lowest scores, equal ones by the lowest position."""
    best, _ = jax.lax.top_k(-scores, min(budget, scores.shape[0]))
    below, tied = scores < -best[-1], scores == -best[-1]
    return below | (tied & (jnp.cumsum(tied) <= budget - jnp.sum(below)))


def budgeted(mask: np.ndarray, options: Mapping[str, Any]) -> np.ndarray:
    """bool[T, N]: who is asked in rounds in which those of ``mask`` could deliver."""
    budget, beta = options.get('budget', 10), options.get('beta', 0.01)

    def step(rate: Array, active: Array) -> tuple[Array, Array]:
        return _choose(active, rate, budget, beta)[::-1]

    first = _first_rates(options.get('initial_rate', 1.0), mask.shape[1])
    return np.asarray(jax.lax.scan(step, first, jnp.asarray(mask))[1])


def _first_rates(initial_rate: Numbers, num_clients: int) -> Array:
    """The rates float[N] before round 0."""
    if np.shape(initial_rate) not in ((), (num_clients,)):
        requirement = f'be one number or {num_clients}'
        raise errors.invalid(
            'initial_rate', requirement, f'shape {np.shape(initial_rate)}'
        )
    return jnp.broadcast_to(
        jnp.asarray(initial_rate, jnp.result_type(float)), (num_clients,)
    )


def _choose(
    active: Array, rate: Array, budget: int, beta: Number
) -> tuple[Array, Array]:
    """bool[N], who of the active ones is asked, and the rates after that."""
    chosen = lowest(jnp.where(active, rate, jnp.inf), budget) & active
    return chosen, ((1 - beta) * rate + beta * chosen).astype(rate.dtype)
