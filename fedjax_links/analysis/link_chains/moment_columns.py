"""Writes moments as columns of numbers that the links move by small matrices.

The module `moments` introduces the two halves of a round; this is the links' half. A moment may
involve one or two clients of counted groups (`layouts`). The configuration counts these clients
too. So their states and the counts would have to move together. A column counts only the *other*
clients. It has a number for each state of the involved clients and each configuration of the
others. Then the involved clients and the counts of the others move by separate matrices.

The product of a class's sum with itself contains the squares of the class's clients. A column holds
these squares apart from the products of different clients.
"""

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

from fedjax_links.analysis.link_chains import counting
from fedjax_links.analysis.link_chains.layouts import LinkLayout
from fedjax_links.analysis.link_chains.moments import MomentMap, Moments


class _LinkMove(NamedTuple):
    """Moves the clients of a block in rounds that enter some modes.

    Attributes:
      modes: int64[...], the modes that the round enters.
      involved: float64[A, A], the transition of the involved clients' joint state; None without
        involved clients.
      others: for each group, the transition of the counts of the other clients.
    """

    modes: np.ndarray
    involved: np.ndarray | None
    others: tuple[np.ndarray, ...]

    def __call__(self, moments: np.ndarray) -> np.ndarray:
        """Moves moments, float64[modes, F, A, K_1, ..., number]."""
        for group, transition in enumerate(self.others):
            moments = counting.move_along(transition, moments, 3 + group)
        if self.involved is not None:
            moments = counting.move_along(self.involved, moments, 2)
        return moments


class _Block(NamedTuple):
    """Holds the moments that involve clients of the same groups: none, one or two clients.

    A family is the moments that differ only in the states of the involved clients.

    Attributes:
      entries: int64[F, A], number of the moment of each family and each state of its clients.
      configurations: int64[S, A, K_1, ...], the configuration of all clients.
      moves: how the links move, for the modes that a round enters.
    """

    entries: np.ndarray
    configurations: np.ndarray
    moves: list[_LinkMove]

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of the moments, [S, F, A, K_1, ...]."""
        num_modes, *others = self.configurations.shape
        return num_modes, len(self.entries), *others

    def move_links(self, layout: LinkLayout, columns: np.ndarray) -> np.ndarray:
        """Moves the links under the block's part of the columns."""
        moments = columns.reshape(*self.shape, columns.shape[1])
        moments = layout.move_modes(moments)
        if len(self.moves) == 1:
            return self.moves[0](moments).reshape(columns.shape)
        after = np.empty_like(moments)
        for move in self.moves:
            after[move.modes] = move(moments[move.modes])
        return after.reshape(columns.shape)


class MomentColumns(NamedTuple):
    """Converts between moments and columns, float64[size, pairs].

    If v = w, a column holds one number for ``E[v_i v_j]`` and ``E[v_j v_i]``: the mean of both.

    Attributes:
      layout: the configurations.
      inner_shapes: shapes of a configuration's products, and of each group's squares.
      mirrored: int64[...], for each moment of a configuration, the number of the moment with i
        and j exchanged; the moment's own number if v and w differ.
      doubled: int64[2, ...], numbers of the products of a class with itself, and of the squares
        that these products contain.
      blocks: the moments by the groups of the clients that they involve.
      entries: int64[size], for each entry of a column, the number of its moment.
      configurations: int64[size], for each entry of a column, its configuration.
    """

    layout: LinkLayout
    inner_shapes: list[tuple[int, ...]]
    mirrored: np.ndarray
    doubled: np.ndarray
    blocks: list[_Block]
    entries: np.ndarray
    configurations: np.ndarray

    @property
    def size(self) -> int:
        """Returns how many numbers a column has."""
        return len(self.entries)

    def from_moments(self, moments: Moments) -> np.ndarray:
        """Writes moments as columns."""
        axis = len(self.layout.shape)
        parts = []
        for array in [moments.products, *moments.squares]:
            moved = np.moveaxis(array, axis, -1)
            inner = math.prod(moved.shape[axis:-1])
            parts.append(moved.reshape(-1, inner, moved.shape[-1]))
        by_configuration = np.concatenate(parts, axis=1)
        products, squares = self.doubled
        by_configuration[:, products] -= by_configuration[:, squares]
        columns = by_configuration[self.configurations, self.entries]
        mirrored = self.mirrored[self.entries]
        return (columns + by_configuration[self.configurations, mirrored]) / 2.0

    def to_moments(self, columns: np.ndarray) -> Moments:
        """Reads moments from columns."""
        shape = self.layout.shape
        num_pairs = columns.shape[1]
        by_configuration = np.zeros((math.prod(shape), len(self.mirrored), num_pairs))
        by_configuration[self.configurations, self.entries] = columns
        by_configuration[self.configurations, self.mirrored[self.entries]] = columns
        products, squares = self.doubled
        by_configuration[:, products] += by_configuration[:, squares]
        sizes = [math.prod(inner_shape) for inner_shape in self.inner_shapes]
        parts = np.split(by_configuration, np.cumsum(sizes)[:-1], axis=1)
        arrays = []
        for part, inner_shape in zip(parts, self.inner_shapes, strict=True):
            array = part.reshape(*shape, *inner_shape, num_pairs)
            arrays.append(np.moveaxis(array, -1, len(shape)))
        return Moments(arrays[0], tuple(arrays[1:]))

    def move_links(self, columns: np.ndarray) -> np.ndarray:
        """Moves the links, and with them the clients that the moments involve."""
        moved = []
        start = 0
        for block in self.blocks:
            stop = start + math.prod(block.shape)
            moved.append(block.move_links(self.layout, columns[start:stop]))
            start = stop
        return np.concatenate(moved)


def moment_columns(moment_map: MomentMap, *, is_symmetric: bool) -> MomentColumns:
    """Chooses the columns for the moments of a map.

    Args:
      moment_map: the map.
      is_symmetric: whether v = w. Then a client has at most one field in v.

    Returns:
      The columns.
    """
    layout = moment_map.layout
    num_rows = moment_map.left.size
    num_columns = moment_map.right.size
    inner_shapes: list[tuple[int, ...]] = [(num_rows, num_columns)]
    for left, right in zip(
        moment_map.left.fields, moment_map.right.fields, strict=True
    ):
        if left.size and right.size:
            inner_shapes.append((left.shape[1], len(left), len(right)))
    # Number the moments of a configuration: first the products, then each group's squares.
    sizes = [math.prod(shape) for shape in inner_shapes]
    numbers = np.arange(sum(sizes))
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    products = parts[0].reshape(num_rows, num_columns)
    squares = []
    for part, shape in zip(parts[1:], inner_shapes[1:], strict=True):
        squares.append(np.moveaxis(part.reshape(shape), 0, -1))
    mirrored = numbers
    if is_symmetric:
        mirrored = np.concatenate([products.T.ravel(), *parts[1:]])
    moves = _joint_moves(layout)
    blocks = []
    entry_parts = []
    configuration_parts = []
    for groups, entries in _entries_by_groups(
        moment_map, products, squares, is_symmetric
    ):
        if not entries.size:
            continue
        block = _block(layout, moves, groups, entries, is_symmetric)
        by_state = block.entries.reshape(
            *block.entries.shape, *len(layout.groups) * (1,)
        )
        entry_parts.append(np.broadcast_to(by_state, block.shape).ravel())
        by_family = block.configurations[:, None]
        configuration_parts.append(np.broadcast_to(by_family, block.shape).ravel())
        blocks.append(block)
    return MomentColumns(
        layout=layout,
        inner_shapes=inner_shapes,
        mirrored=mirrored,
        doubled=_doubled(moment_map, products, squares),
        blocks=blocks,
        entries=np.concatenate(entry_parts),
        configurations=np.concatenate(configuration_parts),
    )


def _doubled(
    moment_map: MomentMap, products: np.ndarray, squares: list[np.ndarray]
) -> np.ndarray:
    """Returns the numbers of products of a class with itself, and of the squares in them."""
    doubled = [np.zeros((2, 0), np.int64)]
    for group, of_group in enumerate(squares):
        rows = moment_map.left.fields[group][:, None]
        diagonal = products[rows, moment_map.right.fields[group]]
        doubled.append(np.stack([diagonal.ravel(), of_group.ravel()]))
    return np.concatenate(doubled, axis=1)


def _entries_by_groups(
    moment_map: MomentMap,
    products: np.ndarray,
    squares: list[np.ndarray],
    is_symmetric: bool,
) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Lists the moments by the groups of the clients that they involve.

    Args:
      moment_map: the map.
      products: int64[n, m], the numbers of products.
      squares: int64[f, g, states] by group, the numbers of squares.
      is_symmetric: whether ``E[v_i v_j]`` stands for ``E[v_j v_i]`` too.

    Returns:
      Pairs of the groups, none to two, and int64[F, A], numbers of the moments by family and by
      the states of the clients.
    """
    left = moment_map.left
    right = moment_map.right
    no_client = products[np.ix_(left.rest, right.rest)]
    if is_symmetric:
        no_client = no_client[np.triu_indices(len(left.rest))]
    by_groups: list[tuple[tuple[int, ...], np.ndarray]] = []
    by_groups.append(((), no_client.reshape(-1, 1)))
    # Moments of one client, whose fields are in w, in v, or in both.
    for group, rows in enumerate(left.fields):
        columns = right.fields[group]
        by_state = [products[left.rest[:, None], columns[:, None]]]
        if not is_symmetric:
            by_state.append(products[rows[:, None], right.rest[:, None]])
        if squares:
            by_state.append(squares[group])
        num_states = rows.shape[1]
        families = [entries.reshape(-1, num_states) for entries in by_state]
        by_groups.append(((group,), np.concatenate(families)))
    # Moments of two clients, for each of their fields and states.
    for first, second in itertools.product(range(len(left.fields)), repeat=2):
        if not is_symmetric or first <= second:
            rows = left.fields[first][:, None, :, None]
            columns = right.fields[second][:, None, :]
            num_states = rows.shape[2] * columns.shape[2]
            entries = products[rows, columns].reshape(-1, num_states)
            by_groups.append(((first, second), entries))
    return by_groups


def _joint_moves(
    layout: LinkLayout,
) -> list[tuple[np.ndarray, list[counting.GroupMove]]]:
    """Lists the joint moves of all groups, each with the modes that a round with it enters."""
    numbers_by_mode = np.zeros((len(layout.modes.start), len(layout.groups)), np.int64)
    for group_index, group in enumerate(layout.groups):
        numbers_by_mode[:, group_index] = group.move_of_mode
    cases, case_of_mode = np.unique(numbers_by_mode, axis=0, return_inverse=True)
    moves = []
    for case, numbers in enumerate(cases):
        laws = []
        for group, number in zip(layout.groups, numbers, strict=True):
            laws.append(group.moves[number])
        moves.append((np.flatnonzero(case_of_mode.ravel() == case), laws))
    return moves


def _block(
    layout: LinkLayout,
    moves: list[tuple[np.ndarray, list[counting.GroupMove]]],
    groups: tuple[int, ...],
    entries: np.ndarray,
    is_symmetric: bool,
) -> _Block:
    """Prepares the moments that involve one client of each of ``groups``.

    Args:
      layout: the configurations.
      moves: the moves of all groups, from `_joint_moves`.
      groups: the groups, none to two; one group may occur twice.
      entries: int64[F, A], numbers of the moments by family and by the states of the clients.
      is_symmetric: whether ``E[v_i v_j]`` stands for ``E[v_j v_i]`` too.
    """
    sizes = [layout.groups[group].num_states for group in groups]
    states = list(itertools.product(*(range(size) for size in sizes)))
    numbers = list(range(len(states)))
    exchanged = numbers
    # For two clients of one group, one order of their states stands for both orders.
    if is_symmetric and len(groups) == 2 and groups[0] == groups[1]:
        numbers = [n for n, (a, b) in enumerate(states) if a <= b]
        exchanged = [states.index(states[n][::-1]) for n in numbers]
    link_moves = []
    for modes, laws in moves:
        others = []
        for group, law in enumerate(laws):
            others.append(law.counts[groups.count(group)])
        clients = [laws[group].client for group in groups]
        involved = _joint_transition(clients, numbers, exchanged)
        link_moves.append(_LinkMove(modes, involved, tuple(others)))
    configurations = [_all_clients(layout, groups, states[n]) for n in numbers]
    return _Block(entries[:, numbers], np.stack(configurations, axis=1), link_moves)


def _joint_transition(
    clients: list[np.ndarray], numbers: list[int], exchanged: list[int]
) -> np.ndarray | None:
    """Computes the transition of the states of some clients; None without clients.

    Args:
      clients: float64[m, m], the transition of each client.
      numbers: numbers of A joint states.
      exchanged: for each of these states, the number of a second state that it stands for, or
        its own number.

    Returns:
      float64[A, A].
    """
    if not clients:
        return None
    joint = functools.reduce(np.kron, clients)
    after = joint[:, numbers]
    is_other = np.not_equal(numbers, exchanged)
    return after[numbers] + is_other[:, None] * after[exchanged]


def _all_clients(
    layout: LinkLayout, groups: tuple[int, ...], states: tuple[int, ...]
) -> np.ndarray:
    """Returns the configuration of all clients for each one of the others: int64[S, K_1, ...].

    The involved clients are in the given states.
    """
    by_axis = [np.arange(len(layout.modes.start))]
    for group_index, group in enumerate(layout.groups):
        involved = [s for g, s in zip(groups, states, strict=True) if g == group_index]
        if not involved:
            by_axis.append(np.arange(len(group.counts)))
        elif len(involved) == 1:
            by_axis.append(group.add_one[involved[0]])
        else:
            by_axis.append(group.add_two[involved[0], involved[1]])
    return np.ravel_multi_index(np.ix_(*by_axis), layout.shape)
