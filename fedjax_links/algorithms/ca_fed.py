"""CA-Fed: weights by inverse availability, without clients that slow convergence too much.

The symbols are those of `fedjax_links.algorithms`.

References:
  Rodio et al. 2023, Federated learning under heterogeneous and correlated client availability.
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
from fedjax_links.core import checks, references, tree
from fedjax_links.local_training import ClientProgram, Contribution, Train


class Transitions(NamedTuple):
    """Counts how often each client's activity changed from one round to the next.

    Attributes:
      num_rounds: int32[], rounds so far.
      was_active: bool[N], whether the client was active in the last round.
      after_active: int32[N], rounds that followed an active round of the client.
      up_after_active: int32[N], active rounds that followed an active round.
      up_after_inactive: int32[N], active rounds that followed an inactive round.
    """

    num_rounds: Array
    was_active: Array
    after_active: Array
    up_after_active: Array
    up_after_inactive: Array


class CaFedState(NamedTuple):
    """Holds the state of CA-Fed.

    Attributes:
      server: the server model x^t.
      losses: float[N], the running loss of each client.
      has_losses: bool[], whether any client has been active.
      transitions: the counts that estimate the correlations; None if the correlations are known.
    """

    server: Params
    losses: Array
    has_losses: Array
    transitions: Transitions | None = None


@references.cite('rodio2023federated')
def ca_fed(
    local_train: ClientProgram,
    *,
    loss_memory: Number = 0.0,
    tolerance: Number = 0.0,
    bias_weight: Number = 1.0,
    optimal_losses: Numbers = 0.0,
    correlations: Numbers | None = None,
    server_lr: Number = 1.0,
) -> Algorithm:
    """Runs CA-Fed: known probabilities, without clients that are rare or correlated in time.

    ``x^{t+1} = x^t + (eta_g / N) sum_{i in S} Delta_i / p_i``, where S holds the active clients
    that are included. In each round all N clients are included at first. The server visits the
    clients twice: by falling ``|lambda_i|``, the correlation of client i's activity in successive
    rounds, and then by rising p_i. It drops a client if the objective G falls by ``tolerance`` or
    more, but never the last client.

    The objective is ``G = mean_included(g_i) + kappa max_i(g_i) d^2``. Here g_i is the running loss
    of client i above its least loss F_i*. The fraction d of dropped clients is the total variation
    distance to equal weights. The first term is what the included clients can still
    gain, the second bounds the bias. With few clients that differ much, the default kappa drops
    some clients in every round, so x ends at the optimum of the remaining ones.

    An active client reports f_i, the loss of x^t on the batch of its first local step. The round's
    ``loss_sum`` adds the same losses. f_i enters the running loss
    ``F_i <- beta F_i + (1 - beta) f_i`` before the server decides. A client that was never active
    has the mean loss of the clients in the first round that was not empty.

    With an infinite tolerance no client is dropped, and CA-Fed is `algorithms.fedavg_known` to the
    bit.

    Choices that the paper leaves open: without ``correlations`` the server estimates lambda_i as a
    difference of two fractions: how often client i is active after an active round, minus how often
    after an inactive round. Both fractions begin at one half, with the weight of one round. The
    authors' code takes the transition probabilities from an oracle or adds a prior around them.
    Ties go to the lowest id. Clients weigh the same in the objective.

    Link semantics: clients whose uplink delivers receive x^t and report their loss. Of these, the
    included clients compute and upload. p_i is ``links.prob`` of the round. Where a pattern does
    not know p_i (NaN), an included active client makes the server model NaN. An empty round keeps
    x. Activity is counted in every round. A simulated round costs up to twice FedAvg's, as the loss
    is computed by the client program. Reports count the traffic of all clients whose uplink
    delivers.

    Memory: one model, and five numbers per client or, with known correlations, one.

    Args:
      local_train: the client program L_i.
      loss_memory: beta, in [0, 1); 0 keeps the last loss.
      tolerance: the least fall of G that drops a client, at least 0.
      bias_weight: kappa, at least 0; a larger kappa drops fewer clients.
      optimal_losses: F_i*, the least loss of each client, one number or float[N].
      correlations: lambda_i in [-1, 1], one number or float[N], such as ``1 - q - q*`` of Markov
        links; None estimates them.
      server_lr: eta_g, positive.

    Returns:
      The algorithm; models: ``server``. ``num_active`` counts the clients that upload.
      ``extra['num_available']`` counts the clients whose uplink delivers, and
      ``extra['num_included']`` all included clients.

    Raises:
      ValueError: for a number out of range.

    Example:
      >>> import jax
      >>> import fedjax_links as fl
      >>> from fedjax_links import algorithms, local_training, participation, problems
      >>> problem = problems.quadratic([[0.0], [1.0], [0.5]])  # the optimum is 0.5
      >>> links = participation.markov([0.9, 0.9, 0.3], [0.5, 0.3, 0.05])
      >>> client = local_training.local_sgd(0.01, local_steps=2)
      >>> algorithm = algorithms.ca_fed(client, bias_weight=5.0)
      >>> result = fl.simulate(jax.random.key(0), algorithm, links, problem, num_rounds=1000)
      >>> print(round(float(result.state.algorithm.server[0]), 2))
      0.5

    References:
      Rodio et al. 2023, Algorithm 1, as in the authors' code.
    """
    common.check_decay('loss_memory', loss_memory)
    checks.number_within('tolerance', tolerance, 0, np.inf)
    checks.number_within('bias_weight', bias_weight, 0, float(np.finfo(np.float32).max))
    checks.finite('optimal_losses', optimal_losses)
    if correlations is not None:
        checks.within('correlations', correlations, -1, 1)
    checks.positive_number('server_lr', server_lr)
    known_correlations = 0.0 if correlations is None else correlations

    def init(params: Params, problem: Problem) -> CaFedState:
        num_clients = problem.num_clients
        # Reports a wrong number of entries before the first round.
        checks.one_or_each('optimal_losses', optimal_losses, num_clients)
        checks.one_or_each('correlations', known_correlations, num_clients)
        return CaFedState(
            server=params,
            losses=jnp.zeros(num_clients, jnp.result_type(float)),
            has_losses=jnp.array(False),
            transitions=_no_transitions(num_clients) if correlations is None else None,
        )

    def round_step(
        state: CaFedState, ctx: RoundContext, problem: Problem
    ) -> Step[CaFedState]:
        num_clients = problem.num_clients
        active = base.participants(ctx.links)

        # Active clients: report the loss of x.
        def evaluate(train: Train, i: Array, loss: Array) -> tuple[Contribution, Array]:
            new_loss = train(state.server).loss
            running = loss_memory * loss + (1 - loss_memory) * new_loss
            smoothed = jnp.where(state.has_losses, running, new_loss)
            return Contribution((), new_loss), smoothed

        _, losses, reports = common.train(
            local_train, ctx, problem, evaluate, state.losses
        )
        num_available = reports.num_active
        mean_loss = reports.loss_sum / jnp.maximum(num_available, 1)
        losses = jnp.where(state.has_losses | active, losses, mean_loss)
        losses = losses.astype(state.losses.dtype)

        # Server: drop clients by falling correlation, then by rising probability.
        transitions = state.transitions
        if transitions is None:
            lambdas = common.one_per_client(
                'correlations', known_correlations, num_clients
            )
        else:
            transitions = _count(transitions, active)
            lambdas = _estimate(transitions)
        least = common.one_per_client('optimal_losses', optimal_losses, num_clients)
        gaps = losses - least
        included = jnp.ones(num_clients, bool)
        for order in (jnp.argsort(-jnp.abs(lambdas)), jnp.argsort(ctx.links.prob)):
            included = _drop(included, order, gaps, bias_weight, tolerance)

        # Server: add the updates of the included clients weighted by 1 / p_i, divided by N.
        deltas, metrics = common.sum_deltas(
            local_train,
            ctx,
            problem,
            state.server,
            lambda i: 1 / base.prob_of(ctx.links, i),
            cohorts.make_cohort(active & included),
        )
        server = tree.add_scaled(state.server, server_lr / num_clients, deltas)
        new_state = CaFedState(
            server=server,
            losses=jnp.where(num_available > 0, losses, state.losses),
            has_losses=state.has_losses | (num_available > 0),
            transitions=transitions,
        )
        extra = {
            'num_available': num_available,
            'num_included': jnp.sum(included, dtype=jnp.int32),
        }
        return new_state, metrics._replace(extra=extra)

    return Algorithm(init=init, round_step=round_step, models=common.server_model)


def _drop(
    included: Array, order: Array, gaps: Array, bias_weight: Number, tolerance: Number
) -> Array:
    """Visits the clients in an order, drops clients without whom G falls, and returns the rest."""
    num_clients = included.shape[0]
    largest = jnp.max(gaps)

    def objective(num_included: Array, gap_sum: Array) -> Array:
        distance = 1 - num_included / num_clients
        return gap_sum / num_included + bias_weight * largest * distance**2

    def visit(
        carry: tuple[Array, Array, Array], client: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array, Array], Array]:
        num_included, gap_sum, value = carry
        gap, is_included = client
        # G without this client.
        fewer = jnp.maximum(num_included - 1, 1)
        smaller_sum = gap_sum - gap
        new_value = objective(fewer, smaller_sum)
        is_dropped = is_included & (num_included > 1) & (value - new_value >= tolerance)
        new_carry = (fewer, smaller_sum, new_value)
        return tree.select(is_dropped, new_carry, carry), is_included & ~is_dropped

    num_included = jnp.sum(included).astype(gaps.dtype)
    gap_sum = jnp.sum(jnp.where(included, gaps, 0))
    start = (num_included, gap_sum, objective(num_included, gap_sum))
    _, included_in_order = jax.lax.scan(visit, start, (gaps[order], included[order]))
    return jnp.zeros_like(included).at[order].set(included_in_order)


def _no_transitions(num_clients: int) -> Transitions:
    """Returns the counts before round 0."""
    zeros = jnp.zeros(num_clients, jnp.int32)
    return Transitions(
        num_rounds=jnp.int32(0),
        was_active=jnp.zeros(num_clients, bool),
        after_active=zeros,
        up_after_active=zeros,
        up_after_inactive=zeros,
    )


def _count(transitions: Transitions, active: Array) -> Transitions:
    """Counts the transitions of a round; round 0 has none."""
    was_active = transitions.was_active
    stays_active = was_active & active
    becomes_active = active & ~was_active & (transitions.num_rounds > 0)
    return Transitions(
        num_rounds=transitions.num_rounds + 1,
        was_active=active,
        after_active=transitions.after_active + was_active,
        up_after_active=transitions.up_after_active + stays_active,
        up_after_inactive=transitions.up_after_inactive + becomes_active,
    )


def _estimate(transitions: Transitions) -> Array:
    """Estimates each client's correlation: P(up after up) - P(up after down), float[N]."""
    after_active = common.as_float(transitions.after_active)
    after_inactive = transitions.num_rounds - 1 - after_active
    stays = (transitions.up_after_active + 0.5) / (after_active + 1)
    returns = (transitions.up_after_inactive + 0.5) / (after_inactive + 1)
    return stays - returns
