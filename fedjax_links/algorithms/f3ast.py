"""F3AST: a budget of clients per round, chosen and weighted by their long-term rate.

The symbols are those of `fedjax_links.algorithms`.

References:
  Ribero et al. 2022, Federated learning under intermittent client availability and time-varying
  communication constraints.
"""

from typing import NamedTuple

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
from fedjax_links.core.records import Section
from fedjax_links.local_training import ClientProgram

# The defaults of `f3ast`, which `f3ast_senders` takes for options that are not set.
_BUDGET = 10
_BETA = 0.01
_INITIAL_RATE = 1.0


class F3astState(NamedTuple):
    """Holds the state of F3AST.

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
    budget: int = _BUDGET,
    beta: Number = _BETA,
    server_lr: Number = 1.0,
    initial_rate: Numbers = _INITIAL_RATE,
) -> Algorithm:
    """Runs F3AST: the server selects up to ``budget`` active clients by their selection rate.

    ``x^{t+1} = x^t + (eta_g / N) sum_{i in S} Delta_i / r_i``, with clients of equal weight.
    S holds the ``budget`` active clients with the largest 1/r_i^2, the steepest descent of
    ``sum_i (1/N)^2 / r_i``. Ties go to the lowest id. If no more than ``budget`` clients are
    active, all are selected. The rates follow ``r <- (1 - beta) r + beta 1_S`` from
    ``initial_rate``. A round updates the rates before it uses them as weights.

    Weights settle in about ``1 / beta`` rounds. Until then they have the scale of the initial
    rates. Take 100 clients, a budget of 10, beta = 0.01 and initial rates of one. The weights
    ``1 / (N r_i)`` of S sum to 0.10, 0.23, 0.67 and 0.96 in rounds 0, 100, 300 and 1,000. The first
    steps are then a tenth of FedAvg's, so a short run compares step sizes more than algorithms.

    Link semantics: the server sees which clients are available and selects S. Clients in S start
    from x^t, compute, upload and receive. The other active clients do nothing. An empty round keeps
    x while r decays.

    Memory: one model, and one number per client.

    Args:
      local_train: the client program L_i.
      budget: most clients per round, at least 1.
      beta: rate of forgetting, in (0, 1].
      server_lr: eta_g, positive.
      initial_rate: r before round 0, in (0, 1], one number or float[N]. Xiang et al. 2024 use
        ones. With ``budget / N`` the first weights sum to about one.

    Returns:
      The algorithm; models: ``server``. ``num_active`` counts S; ``extra['num_available']`` counts
      the clients that S was chosen from.

    Raises:
      ValueError: for a budget below 1, a ``beta`` or initial rate outside (0, 1], or a server rate
        that is not positive.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0]])  # the optimum is 0.5
      >>> links = participation.bernoulli([0.9, 0.3])
      >>> client = local_training.local_sgd(0.01, local_steps=2)
      >>> algorithm = algorithms.f3ast(client, budget=1)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=1000)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.52

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
        rate = common.one_per_client('initial_rate', initial_rate, problem.num_clients)
        return F3astState(server=params, rate=rate)

    def round_step(
        state: F3astState, ctx: RoundContext, problem: Problem
    ) -> Step[F3astState]:
        # Select S among the active clients and update the rates.
        active = base.participants(ctx.links)
        selected, rate = _select(active, state.rate, budget, beta)
        cohort = cohorts.make_cohort(selected)

        # Clients in S train from x.
        deltas, metrics = common.sum_deltas(
            local_train, ctx, problem, state.server, weights=1 / rate, cohort=cohort
        )

        # Server: add the updates weighted by 1 / r_i, divided by N.
        server = tree.add_scaled(state.server, server_lr / problem.num_clients, deltas)
        extra = {'num_available': jnp.sum(active, dtype=jnp.int32)}
        return F3astState(server, rate), metrics._replace(extra=extra)

    return Algorithm(init=init, round_step=round_step, models=common.server_model)


def lowest(scores: Array, budget: int) -> Array:
    """Marks the ``budget`` lowest scores, bool[N]; ties go to the lowest index."""
    # The threshold is the highest of the lowest scores.
    negated, _ = jax.lax.top_k(-scores, min(budget, scores.shape[0]))
    threshold = -negated[-1]
    below = scores < threshold
    tied = scores == threshold
    num_ties_taken = budget - jnp.sum(below)
    return below | (tied & (jnp.cumsum(tied) <= num_ties_taken))


def f3ast_senders(mask: np.ndarray, options: Section) -> np.ndarray:
    """Returns which clients upload, bool[T, N]: those that F3AST selects among ``mask``."""
    budget = options.get('budget', _BUDGET)
    beta = options.get('beta', _BETA)

    def step(rate: Array, active: Array) -> tuple[Array, Array]:
        selected, new_rate = _select(active, rate, budget, beta)
        return new_rate, selected

    initial_rate = options.get('initial_rate', _INITIAL_RATE)
    rates = common.one_per_client('initial_rate', initial_rate, mask.shape[1])
    _, senders = jax.lax.scan(step, rates, jnp.asarray(mask))
    return np.asarray(senders)


def _select(
    active: Array, rate: Array, budget: int, beta: Number
) -> tuple[Array, Array]:
    """Returns the selected clients, bool[N], and the updated rates, float[N]."""
    selected = lowest(jnp.where(active, rate, jnp.inf), budget) & active
    new_rate = (1 - beta) * rate + beta * selected
    return selected, new_rate.astype(rate.dtype)
