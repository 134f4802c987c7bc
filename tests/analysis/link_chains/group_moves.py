"""The links' half of a round on moments themselves, group by group, without columns.

Clients that a moment involves are taken out of the counts, moved by their own transition, and put
back again. All others are moved by the transition of their counts.
"""

import numpy as np

from fedjax_links.analysis.link_chains.moments import Moments


def by_mode(group, move_part, moments):
    """Applies to the moments of each mode the move of the group that belongs to it."""
    after = np.empty_like(moments)
    for mode, index in enumerate(group.move_of_mode):
        after[mode] = move_part(group.moves[index], moments[mode])
    return after


def move_none(group, moments, axis):
    """Moves moments that involve no client of the group; ``axis`` is that of configurations."""

    def move_part(move, part):
        moved = np.tensordot(move.counts[0].T, part, axes=(1, axis - 1))
        return np.moveaxis(moved, 0, axis - 1)

    return by_mode(group, move_part, moments)


def move_one(group, moments, axis, state):
    """Moves moments that involve one client; ``state`` is the axis of its states."""

    def move_part(move, part):
        part = np.moveaxis(part, (state - 1, axis - 1), (0, 1))
        states = np.arange(len(move.client))[:, None]
        others = part[states, group.add_one]
        moved = np.einsum('ab,kl,ak...->bl...', move.client, move.counts[1], others)
        after = np.zeros_like(part)
        after[states, group.add_one] = moved
        return np.moveaxis(after, (0, 1), (state - 1, axis - 1))

    return by_mode(group, move_part, moments)


def move_two(group, moments, axis, first, second):
    """Moves moments that involve two different clients; axes as in `move_one`."""

    def move_part(move, part):
        axes = (first - 1, second - 1, axis - 1)
        part = np.moveaxis(part, axes, (0, 1, 2))
        states = np.arange(len(move.client))
        index = states[:, None, None], states[:, None], group.add_two
        moved = np.einsum(
            'ab,cd,kl,ack...->bdl...',
            move.client,
            move.client,
            move.counts[2],
            part[index],
        )
        after = np.zeros_like(part)
        after[index] = moved
        return np.moveaxis(after, (0, 1, 2), axes)

    return by_mode(group, move_part, moments)


def move_group(moment_map, moments, group_index):
    """Moves the clients of one group."""
    group = moment_map.layout.groups[group_index]
    products = moments.products
    axis = 1 + group_index
    row_axis = products.ndim - 2
    column_axis = products.ndim - 1
    left = moment_map.left
    right = moment_map.right
    fields = left.fields[group_index]
    other_fields = right.fields[group_index]
    rest = np.setdiff1d(np.arange(left.size), fields)
    other_rest = np.setdiff1d(np.arange(right.size), other_fields)
    after = np.zeros_like(products)
    index = (..., rest[:, None], other_rest)
    after[index] = move_none(group, products[index], axis)
    for rows in fields:
        index = (..., rows[:, None], other_rest)
        after[index] = move_one(group, products[index], axis, row_axis)
    for columns in other_fields:
        index = (..., rest[:, None], columns)
        after[index] = move_one(group, products[index], axis, column_axis)
    squares = []
    for other, part in enumerate(moments.squares):
        if other == group_index:
            squares.append(move_one(group, part, axis, part.ndim - 3))
        else:
            squares.append(move_none(group, part, axis))
    states = np.arange(group.num_states)
    for first, rows in enumerate(fields):
        for second, columns in enumerate(other_fields):
            # Pairs of different clients, then each client with itself.
            index = (..., rows[:, None], columns)
            pairs = products[index].copy()
            pairs[..., states, states] -= moments.squares[group_index][
                ..., first, second
            ]
            moved = move_two(group, pairs, axis, row_axis, column_axis)
            moved[..., states, states] += squares[group_index][..., first, second]
            after[index] = moved
    return Moments(after, tuple(squares))


def move_links(moment_map, moments):
    """Moves the links of moments, and the rows and offsets with their clients."""
    transition = moment_map.layout.modes.transition.toarray()

    def move_modes(array):
        return np.tensordot(transition.T, array, axes=1)

    squares = tuple(move_modes(part) for part in moments.squares)
    moments = Moments(move_modes(moments.products), squares)
    for group_index in range(len(moment_map.layout.groups)):
        moments = move_group(moment_map, moments, group_index)
    return moments
