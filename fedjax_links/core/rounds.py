"""Makes initial parameters, and runs one round: its context, the algorithm's step, the counters."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_links import base
from fedjax_links.base import (
    Algorithm,
    Array,
    FederationState,
    Key,
    Links,
    Params,
    Participation,
    Problem,
    PyTree,
    RoundContext,
    RoundMetrics,
    Step,
)
from fedjax_links.core import checks, contracts, meshes, prng, tree


def round_context(key: Key, round: Array | int, links: Links) -> RoundContext:
    """Builds the context of one round, for composing rounds by hand.

    Args:
      key: the run's key.
      round: index of the round.
      links: the links of the round.

    Returns:
      The context that `simulate` would pass in that round under those links.
    """
    prng.check(key)
    client_key = prng.round_key(key, 'client', round)
    server_key = prng.round_key(key, 'server', round)
    return RoundContext(
        round=jnp.asarray(round, jnp.int32),
        links=links,
        client_key=client_key,
        server_key=server_key,
    )


def run_round(
    state: FederationState,
    key: Key,
    algorithm: Algorithm,
    participation: Participation | Links,
    problem: Problem,
) -> Step[FederationState]:
    """Runs one round: samples links, applies the algorithm, updates counters.

    Args:
      state: the federation after ``state.round`` rounds.
      key: the run's key, the same in every round.
      algorithm: the algorithm.
      participation: the pattern, or the links of this round, which leave the pattern's carry
        unchanged.
      problem: data and loss.

    Returns:
      The next state and the round's metrics.

    Raises:
      ValueError: if links and problem disagree on the clients.
    """
    prng.check(key)
    contracts.check_federation(state, algorithm, problem)
    round = state.round
    carry = state.participation
    links: Any = participation
    if isinstance(participation, Participation):
        link_key = prng.round_key(key, 'participation', round)
        carry, links = participation.sample(carry, link_key, round)
    contracts.check_links(links, problem.num_clients)
    ctx = round_context(key, round, links)
    new_state, (metrics, is_finite) = algorithm_step(
        algorithm, problem, state.algorithm, ctx
    )
    state = state._replace(algorithm=new_state, participation=carry)
    links_of_rounds = jax.tree.map(lambda a: a[None], links)
    return count_rounds(state, links_of_rounds, is_finite[None]), metrics


def algorithm_step(
    algorithm: Algorithm, problem: Problem, state: PyTree, ctx: RoundContext
) -> tuple[PyTree, tuple[RoundMetrics, Array]]:
    """Applies an algorithm's step.

    Args:
      algorithm: the algorithm.
      problem: data and loss.
      state: the algorithm's state.
      ctx: the round.

    Returns:
      The algorithm's next state; the metrics, and whether server model and loss are finite.
    """
    output = algorithm.round_step(state, ctx, problem)
    contracts.check_round(state, output)
    new_state, metrics = output
    server = contracts.server_of(algorithm.models(new_state))
    is_finite = tree.all_finite((server, metrics.loss_sum))
    return new_state, (metrics, is_finite)


def count_rounds(
    state: FederationState, links: Links, is_finite: Array
) -> FederationState:
    """Updates everything but the states of algorithm and pattern for T rounds.

    Args:
      state: the federation. The states of algorithm and pattern are from after the T rounds, all
        else is from before them.
      links: the links of these rounds, leaves [T, ...].
      is_finite: bool[T], whether server model and loss were finite after each round.

    Returns:
      The federation after these rounds.
    """
    num_rounds = len(is_finite)
    all_finite = jnp.all(is_finite)
    rounds = state.round + jnp.arange(num_rounds, dtype=jnp.int32)
    first_bad_round = rounds[jnp.argmin(is_finite)]  # if any of them is bad
    counters = _count_uploads(state.counters, links, rounds)
    was_finite = state.finite
    return state._replace(
        round=state.round + num_rounds,
        links=jax.tree.map(lambda a: a[-1], links),
        counters=counters,
        finite=was_finite & all_finite,
        first_bad_round=jnp.where(
            was_finite & ~all_finite, first_bad_round, state.first_bad_round
        ),
    )


def _count_uploads(
    counters: base.ParticipationCounters, links: Links, rounds: Array
) -> base.ParticipationCounters:
    """Counts the uploads that arrived in T rounds, whose indices are ``rounds``."""
    count, last_active = counters
    if isinstance(links, base.CohortLinkSample):
        # Update the counts in place: the cost follows the size of the cohorts, not N.
        round_of_slot = jnp.broadcast_to(rounds[:, None], links.ids.shape)
        count = count.at[links.ids].add(1, mode='drop')
        last_active = last_active.at[links.ids].max(round_of_slot, mode='drop')
    else:
        delivered = base.delivers(links)
        count += jnp.sum(delivered, axis=0, dtype=jnp.int32)
        active_rounds = jnp.where(delivered, rounds[:, None], -1)
        last_active = jnp.maximum(last_active, jnp.max(active_rounds, axis=0))
    return base.ParticipationCounters(count, last_active)


def initial_params(init_params: Callable[[Key], Params], key: Key) -> Params:
    """Makes the initial parameters of a run with this key, the same bits in any program."""

    def make(key: Key) -> Params:
        # The body of a loop that runs once uses the key once.
        return tree.as_arrays(init_params(jax.random.clone(key)))

    return meshes.isolate_from_fusion(make)(prng.model_key(key))


def with_own_buffers(state: FederationState) -> FederationState:
    """Copies every array that occurs twice in a state, so that the whole state can be donated.

    XLA donates a buffer once. Under `jax.jit` the state has buffers of its own anyway.
    """
    seen: set[int] = set()

    def copy_if_seen(leaf: Array) -> Array:
        if id(leaf) in seen and checks.is_concrete(leaf):
            return jnp.copy(leaf)
        seen.add(id(leaf))
        return leaf

    return jax.tree.map(copy_if_seen, state)
