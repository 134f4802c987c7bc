"""Counts the clients of a group by their state. All clients of a group follow one law.

A configuration of n clients with m states is the vector of counts: the number of clients in each
state. There are ``C(n + m - 1, m - 1)`` configurations in place of ``m^n`` vectors of states. A
moment that involves one or two clients of the group needs the states of these clients too. Then
only the n - 1 or n - 2 other clients are counted.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

MAX_COUNTS = 2_000  # Configurations of a group: a transition matrix then takes 32 MB.


class GroupMove(NamedTuple):
    """Holds the transition matrices of a group.

    Attributes:
      client: float64[m, m], transition of the state of one client.
      counts: transitions of the counts of n, of n - 1 and of n - 2 clients, float64[K, K] each,
        with K the number of configurations.
    """

    client: np.ndarray
    counts: tuple[np.ndarray, ...]


class CountedGroup(NamedTuple):
    """Holds the configurations of a group and how they move.

    S is the number of modes, the joint states of everything that is not counted. The rows of
    ``counts`` number the configurations of n clients.

    Attributes:
      counts: int64[K, m], the number of clients in each state.
      add_one: int64[m, K']. Entry (a, k) is the configuration of n clients that consists of one
        client in state a and n - 1 others in configuration k.
      add_two: int64[m, m, K''], likewise for two clients and n - 2 others.
      moves: the distinct transitions of the group.
      move_of_mode: int64[S], index into ``moves`` of the transition in a round that enters a mode.
    """

    counts: np.ndarray
    add_one: np.ndarray
    add_two: np.ndarray
    moves: tuple[GroupMove, ...]
    move_of_mode: np.ndarray

    @property
    def num_states(self) -> int:
        """Returns m."""
        return self.counts.shape[1]

    def move_law(self, law: np.ndarray, axis: int) -> np.ndarray:
        """Moves the counts of a law float64[S, ..., K, ...] by a round; ``axis`` is that of K."""
        after = np.empty_like(law)
        for index, move in enumerate(self.moves):
            modes = np.flatnonzero(self.move_of_mode == index)
            after[modes] = move_along(move.counts[0], law[modes], axis)
        return after


def move_along(transition: np.ndarray, array: np.ndarray, axis: int) -> np.ndarray:
    """Moves the states or configurations on an axis of an array by one transition.

    Args:
      transition: float64[K, K], row-stochastic.
      array: float64[..., K, ...].
      axis: the axis of length K.

    Returns:
      ``sum_j transition[j, k] array[..., j, ...]`` for each k, of the same shape.
    """
    before = math.prod(array.shape[:axis])
    flat = array.reshape(before, len(transition), -1)
    if flat.shape[2] == 1:
        # Use one product of matrices in place of many small products.
        return (flat[:, :, 0] @ transition).reshape(array.shape)
    return (transition.T @ flat).reshape(array.shape)


def counted_group(
    size: int, transitions: np.ndarray, move_of_mode: np.ndarray
) -> CountedGroup:
    """Prepares the configurations of a group.

    Args:
      size: n, at least 2.
      transitions: float64[number of moves, m, m], distinct transitions of one client.
      move_of_mode: int64[S], as in `CountedGroup`.

    Returns:
      The group.
    """
    num_states = transitions.shape[1]
    configurations = [_configurations(count, num_states) for count in range(size + 1)]
    adds = [
        _additions(smaller, larger)
        for smaller, larger in itertools.pairwise(configurations)
    ]
    add_one = adds[-1]
    add_two = add_one[:, adds[-2]]
    moves = []
    for client in transitions:
        # Transitions of the counts of 0, 1, ..., n clients.
        of_counts = [np.ones((1, 1))]
        for counts, add in zip(configurations[1:], adds, strict=True):
            of_counts.append(_with_one_more(of_counts[-1], client, counts, add))
        moves.append(GroupMove(client, (of_counts[-1], of_counts[-2], of_counts[-3])))
    return CountedGroup(
        configurations[-1], add_one, add_two, tuple(moves), move_of_mode
    )


def counts_law(size: int, law: np.ndarray) -> np.ndarray:
    """Computes the law of the counts of independent clients.

    Args:
      size: n, at least 1.
      law: float64[..., m], law of the state of one client.

    Returns:
      float64[..., K], law of the configuration.
    """
    num_states = law.shape[-1]
    smaller = _configurations(0, num_states)
    laws = np.ones((*law.shape[:-1], 1))
    for count in range(1, size + 1):
        larger = _configurations(count, num_states)
        after = np.zeros((*law.shape[:-1], len(larger)))
        for state, index in enumerate(_additions(smaller, larger)):
            after[..., index] += law[..., state, None] * laws
        smaller = larger
        laws = after
    return laws


def _configurations(size: int, num_states: int) -> np.ndarray:
    """Lists the counts of ``size`` clients in lexicographic order, int64[K, m]."""
    rows = np.zeros((1, 0), np.int64)
    for _ in range(num_states - 1):
        remaining = size - rows.sum(axis=1)
        repeated = np.repeat(rows, remaining + 1, axis=0)
        counts = np.concatenate([np.arange(count + 1) for count in remaining])
        rows = np.column_stack([repeated, counts])
    return np.column_stack([rows, size - rows.sum(axis=1)])


def _additions(smaller: np.ndarray, larger: np.ndarray) -> np.ndarray:
    """Finds the configuration after adding a client in each state, int64[m, K']."""
    index_of = {tuple(counts): index for index, counts in enumerate(larger.tolist())}
    indices = []
    for unit in np.eye(smaller.shape[1], dtype=np.int64):
        new_counts = (smaller + unit).tolist()
        indices.append([index_of[tuple(counts)] for counts in new_counts])
    return np.array(indices, np.int64)


def _with_one_more(
    others: np.ndarray, client: np.ndarray, counts: np.ndarray, add: np.ndarray
) -> np.ndarray:
    """Computes the transition of the counts after adding one more client.

    Args:
      others: float64[K', K'], the transition of the counts without the client.
      client: float64[m, m], the transition of the client's state.
      counts: int64[K, m], the configurations with the client.
      add: int64[m, K'], the configuration after adding a client in each state.

    Returns:
      float64[K, K].
    """
    # From each configuration, take out one client in its first occupied state.
    state_before = np.argmax(counts > 0, axis=1)
    without = np.zeros((len(add), len(counts)), np.int64)
    for state, index in enumerate(add):
        without[state, index] = np.arange(len(index))
    moved_others = others[without[state_before, np.arange(len(counts))]]
    # Move this client and the others independently, and put the client back.
    after = np.zeros((len(counts), len(counts)))
    for state, index in enumerate(add):
        after[:, index] += client[state_before, state][:, None] * moved_others
    return after
