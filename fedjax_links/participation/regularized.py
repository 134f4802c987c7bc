"""Deals cohorts from a shuffled deck of clients: regularised participation."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, CarryAndLinks, Key, Participation, cohort_links
from fedjax_links.core import checks, references
from fedjax_links.participation import link_laws, subset_sampling


class RegularizedState(NamedTuple):
    """Holds the carry of `regularized`.

    Attributes:
      deck: int32[P S], the clients in the order of their turns, padded with N.
    """

    deck: Array


@references.cite('wang2022unified')
def regularized(num_clients: int, cohort_size: int) -> Participation:
    """Selects each client once in each period of ``P = ceil(N / S)`` rounds.

    A period starts with a fresh random permutation of the clients. Each round deals out the
    next S clients of the permutation. If S does not divide N, the last round of a period deals
    out the ``N - (P - 1) S`` clients that remain. So each client has one turn per period, and
    the last cohort is then smaller.

    Args:
      num_clients: N, at least 1.
      cohort_size: S, from 1 to N.

    Returns:
      The pattern; it reports the size of the round's cohort over N as ``prob``. A round
      costs O(S), apart from the shuffle once per period.

    Raises:
      ValueError: for a cohort larger than the federation.

    Example:
      >>> import jax
      >>> from fedjax_links import participation, simulation
      >>> pattern = participation.regularized(6, 2)
      >>> links = simulation.realised_links(jax.random.key(0), pattern, num_rounds=3)
      >>> print(links.mask.astype(int))
      [[0 0 1 0 1 0]
       [1 0 0 1 0 0]
       [0 1 0 0 0 1]]

    References:
      Wang & Ji 2022, appendix D (regularised participation; N = 250, S = 10).
    """
    checks.static_int('num_clients', num_clients)
    checks.static_int('cohort_size', cohort_size, maximum=num_clients)
    period = math.ceil(num_clients / cohort_size)
    is_full = num_clients % cohort_size == 0

    def shuffle_deck(key: Key) -> Array:
        position = subset_sampling.random_order(key, num_clients).position
        empty = jnp.full(period * cohort_size, num_clients, jnp.int32)
        clients = jnp.arange(num_clients, dtype=jnp.int32)
        return empty.at[position].set(clients, unique_indices=True)

    def sample(
        carry: RegularizedState, key: Key, round: Array
    ) -> CarryAndLinks[RegularizedState]:
        turn = jnp.mod(round, period)

        def is_due(loop: tuple[Array, Array]) -> Array:
            return loop[0]

        def shuffle(_: tuple[Array, Array]) -> tuple[Array, Array]:
            # The check for key reuse does not see that the loop ends after one pass.
            return jnp.array(False), shuffle_deck(jax.random.clone(key))

        # Shuffle where a period begins. A loop of at most one pass updates the deck in
        # memory; a branch would copy it. All lanes (runs) of a sweep are in the same round, so
        # the loop runs once per period.
        _, deck = jax.lax.while_loop(is_due, shuffle, (turn == 0, carry.deck))

        # Deal out the clients of this turn; slots beyond the last client hold N.
        ids = jax.lax.dynamic_slice_in_dim(deck, turn * cohort_size, cohort_size)
        size = jnp.minimum(cohort_size, num_clients - turn * cohort_size)
        prob = size.astype(jnp.result_type(float)) / num_clients
        links = cohort_links(jnp.sort(ids), num_clients, prob, is_full=is_full)
        return RegularizedState(deck=deck), links

    def init(key: Key) -> RegularizedState:
        # Round 0 shuffles again. A fork may begin within a period, and deals from this deck.
        return RegularizedState(deck=shuffle_deck(key))

    return Participation(init, sample, num_clients)


def regularized_law(inputs: link_laws.LawInputs) -> link_laws.LinkLaw:
    """Returns the exact law of `regularized`."""
    num_clients = inputs.options['num_clients']
    cohort_size = inputs.options['cohort_size']
    period = math.ceil(num_clients / cohort_size)
    description = f'every client once in {period} rounds, {cohort_size} at a time'
    return link_laws.exchangeable(description, num_clients, 1 / period, period=period)
