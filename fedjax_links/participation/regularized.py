"""Regularised participation: a shuffled deck of clients, dealt out and shuffled again."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_links import checks
from fedjax_links.base import Array, Key, LinkSample, Participation
from fedjax_links.participation import selection


class RegularizedState(NamedTuple):
    """Carry of `regularized`.

    Attributes:
      turn: int32[N], the round of the period in which each client participates.
    """

    turn: Array


def regularized(num_clients: int, cohort_size: int) -> Participation:
    """Every client exactly once in each period of ``P = ceil(N / S)`` rounds.

    A period starts with a fresh random permutation, of which each round deals out the next S. Where
    S does not divide N, the last round of a period deals out the ``N - (P - 1) S`` that remain:
    once per period holds for everybody, at the price of a smaller last cohort.

    Args:
      num_clients: N, at least 1.
      cohort_size: S, from 1 to N.

    Returns:
      The pattern; it reports the size of the round's cohort over N as ``prob``.

    Raises:
      ValueError: for a cohort larger than the federation.

    References:
      Wang & Ji 2022, appendix D (regularised participation; N = 250, S = 10).
    """
    checks.static_int('num_clients', num_clients)
    checks.static_int('cohort_size', cohort_size, maximum=num_clients)
    period = -(-num_clients // cohort_size)
    last_size = num_clients - (period - 1) * cohort_size

    def init(key: Key) -> RegularizedState:
        order = selection.random_order(key, num_clients)
        return RegularizedState(turn=order.position // cohort_size)

    def sample(
        carry: RegularizedState, key: Key, round: Array
    ) -> tuple[RegularizedState, LinkSample]:
        turn = jnp.mod(round, period)
        # The round is the same in all lanes of a sweep, so only one branch runs, and the sort of
        # the shuffle is paid once per period.
        bits = selection.order_bits(key, num_clients)
        turns = jax.lax.cond(
            turn == 0,
            lambda: selection.order_from_bits(bits) // cohort_size,
            lambda: carry.turn,
        )
        size = jnp.where(turn == period - 1, last_size, cohort_size)
        prob = jnp.full(num_clients, size / num_clients, jnp.result_type(float))
        return RegularizedState(turn=turns), LinkSample(mask=turns == turn, prob=prob)

    return Participation(init=init, sample=sample, num_clients=num_clients)
