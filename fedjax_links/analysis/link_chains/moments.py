"""Moves first and second moments of models and memories by one round of an algorithm.

A round has two halves. First the models move: in each configuration of the links they are
an affine map of server, rows and targets. Then the links move: clients go from state to
state, and take their rows along. This module has the first half, `moment_columns` the second.
For a pair (a, b) of model coordinates,

``v = (1, server, sums of rows by class, sums of target offsets by class)``

holds coordinate a, and w the same for coordinate b. v has n entries, w has m. Before a round the
moments are ``E[v w^T 1{k}]`` by configuration k. Classes, and the configurations
[S, K_1, ..., K_G], are those of `layouts.LinkLayout`.

A target offset is a client's target minus the mean of its group. The server's moments stay the
same if the exchangeable clients of a group trade targets, so the expectation is also over random
trades. A group also needs sums of squares over its clients, as they differ from squares of sums.
"""

from typing import NamedTuple

import numpy as np

from fedjax_links.analysis.link_chains.layouts import LinkLayout


class Coordinates(NamedTuple):
    """Says which entries of v, or of w, are sums over the clients of a group in one state.

    A client has f fields: its row, its target offset, or both in this order.

    Attributes:
      size: the number of entries, n or m.
      fields: for each group int64[f, states], the index of the entry that sums a field over the
        clients in a state.
    """

    size: int
    fields: tuple[np.ndarray, ...]

    @property
    def rest(self) -> np.ndarray:
        """Returns the indices of the entries that sum over no group."""
        is_rest = np.ones(self.size, bool)
        for fields in self.fields:
            is_rest[fields] = False
        return np.flatnonzero(is_rest)

    def restricted(self, coordinates: np.ndarray, fields: slice) -> 'Coordinates':
        """Keeps some entries and fields, and numbers the entries from 0.

        Args:
          coordinates: sorted indices of the entries to keep.
          fields: the fields to keep.
        """
        renumbered = tuple(
            np.searchsorted(coordinates, of_group[fields]) for of_group in self.fields
        )
        return Coordinates(len(coordinates), renumbered)


class Moments(NamedTuple):
    """Holds moments by configuration.

    Attributes:
      products: float64[S, K_1, ..., pairs, n, m], ``E[v w^T 1{k}]``.
      squares: for each group float64[S, K_1, ..., pairs, states, f, g], sums over the clients in
        a state: each client's field f in v times its field g in w. Empty if v or w has no fields.
    """

    products: np.ndarray
    squares: tuple[np.ndarray, ...]

    def sum_products(self) -> np.ndarray:
        """Sums the products over the configurations: float64[pairs, n, m]."""
        return self.products.sum(axis=tuple(range(self.products.ndim - 3)))

    def part(self, block: 'MomentBlock') -> 'Moments':
        """Returns moments of some entries of v and w."""
        products = self.products[..., block.rows[:, None], block.columns]
        squares = []
        for square in self.squares:
            picked = square[..., block.row_fields, block.column_fields]
            if picked.size:
                squares.append(picked)
        return Moments(products, tuple(squares))

    def with_part(self, block: 'MomentBlock', values: 'Moments') -> 'Moments':
        """Returns moments with other values for some entries of v and w."""
        products = self.products.copy()
        products[..., block.rows[:, None], block.columns] = values.products
        squares = tuple(square.copy() for square in self.squares)
        # A block without fields has no squares.
        for square, value in zip(squares, values.squares, strict=False):
            square[..., block.row_fields, block.column_fields] = value
        return Moments(products, squares)

    def transposed(self) -> 'Moments':
        """Returns the moments ``E[w v^T]``."""
        squares = tuple(np.swapaxes(square, -1, -2) for square in self.squares)
        return Moments(np.swapaxes(self.products, -1, -2), squares)


class MomentBlock(NamedTuple):
    """Names some entries of v and of w.

    Attributes:
      rows: int64[...], indices of entries of v.
      columns: int64[...], indices of entries of w.
      row_fields: the fields of clients whose sums are among the rows.
      column_fields: the fields of clients whose sums are among the columns.
    """

    rows: np.ndarray
    columns: np.ndarray
    row_fields: slice = slice(0, 0)
    column_fields: slice = slice(0, 0)

    def transposed(self) -> 'MomentBlock':
        """Returns the block with v and w exchanged."""
        return MomentBlock(self.columns, self.rows, self.column_fields, self.row_fields)


class SideMaps(NamedTuple):
    """Holds how a round moves v, or w, in each configuration.

    A client's new row is h, which clients in one state have in common (`class_rounds`), plus a map
    of the client's own fields. An axis of configurations or pairs that is missing or has length 1
    stands for all configurations or pairs.

    Attributes:
      matrix: float64[S, K_1, ..., pairs, n, n], the map of v.
      common: for each group float64[S, K_1, ..., pairs, states, n], h as a function of v; empty if
        v has no rows.
      own: for each group float64[S, K_1, ..., 1, states, f, f], the map of a client's own fields.
    """

    matrix: np.ndarray
    common: tuple[np.ndarray, ...]
    own: tuple[np.ndarray, ...]

    def of_pairs(self, index: np.ndarray | slice) -> 'SideMaps':
        """Returns the maps at some entries of the axis of pairs."""
        common = tuple(part[..., index, :, :] for part in self.common)
        return SideMaps(self.matrix[..., index, :, :], common, self.own)

    def restricted(self, coordinates: np.ndarray, fields: slice) -> 'SideMaps':
        """Returns the maps of some entries and fields, for the first pair alone."""
        first = self.of_pairs(slice(1))
        common: tuple[np.ndarray, ...] = ()
        if fields.start == 0:  # Rows are the first field.
            common = tuple(part[..., coordinates] for part in first.common)
        matrix = first.matrix[..., coordinates[:, None], coordinates]
        return SideMaps(matrix, common, tuple(x[..., fields, fields] for x in self.own))


class RoundMaps(NamedTuple):
    """Holds the maps of a round in each configuration.

    Attributes:
      left: the maps of v.
      right: the maps of w.
      counts: for each group float64[S, K_1, ..., 1, states], the number of clients in a state.
      noise: float64[S, K_1, ..., pairs, n, m], what noise adds to ``E[v w^T]`` given the
        configuration; None without noise.
      noise_squares: for each group float64[S, K_1, ..., pairs, states], what noise adds to the
        squares of rows.
    """

    left: SideMaps
    right: SideMaps
    counts: tuple[np.ndarray, ...]
    noise: np.ndarray | None
    noise_squares: tuple[np.ndarray, ...]


class MomentMap(NamedTuple):
    """Moves moments by the models' half of a round.

    Attributes:
      layout: the configurations.
      left: the entries of v.
      right: the entries of w.
      branches: the probability and the maps of each outcome of the links between clients. These
        links are no part of a configuration.
      has_rows: whether the first field of v is a client's row.
    """

    layout: LinkLayout
    left: Coordinates
    right: Coordinates
    branches: tuple[tuple[float, RoundMaps], ...]
    has_rows: bool

    def restricted(self, block: MomentBlock) -> 'MomentMap':
        """Returns the map from a block to itself, for the first pair and without noise."""
        branches = []
        for prob, maps in self.branches:
            left = maps.left.restricted(block.rows, block.row_fields)
            right = maps.right.restricted(block.columns, block.column_fields)
            block_maps = maps._replace(left=left, right=right, noise=None)
            branches.append((prob, block_maps))
        return self._replace(
            left=self.left.restricted(block.rows, block.row_fields),
            right=self.right.restricted(block.columns, block.column_fields),
            branches=tuple(branches),
        )

    def move_models(self, moments: Moments) -> Moments:
        """Moves models and rows by a round, while the links stay."""
        products = np.zeros_like(moments.products)
        squares = [np.zeros_like(part) for part in moments.squares]
        for prob, maps in self.branches:
            before = moments.products
            after = maps.left.matrix @ before @ np.swapaxes(maps.right.matrix, -1, -2)
            if maps.noise is not None:
                # The first entry is E[1 1 1{k}], the probability of the configuration.
                after += before[..., :1, :1] * maps.noise
            products = products + prob * after
            for group in range(len(squares)):
                part = self._move_squares(maps, moments, group)
                squares[group] = squares[group] + prob * part
        return Moments(products, tuple(squares))

    def _move_squares(
        self, maps: RoundMaps, moments: Moments, group: int
    ) -> np.ndarray:
        """Moves the sums of squares of a group's rows and offsets."""
        own_left = maps.left.own[group]
        own_right = maps.right.own[group]
        after = own_left @ moments.squares[group] @ np.swapaxes(own_right, -1, -2)
        if not self.has_rows:
            return after
        # A client's new row is h plus a map of the client's fields. `after` has the products of
        # these maps. Add the products of h in v with the fields of w, of the fields of v with h in
        # w, and of h with h.
        states = np.arange(maps.counts[group].shape[-1])
        before = moments.products
        forward = maps.left.common[group] @ before
        with_own = forward[..., states, self.right.fields[group]]
        after[..., 0, :] += np.einsum('...fs,...sgf->...sg', with_own, own_right)
        if not maps.right.common:
            return after
        other = maps.right.common[group]
        backward = before @ np.swapaxes(other, -1, -2)
        own_with = backward[..., self.left.fields[group], states]
        after[..., :, 0] += np.einsum('...fs,...sgf->...sg', own_with, own_left)
        both = np.einsum('...sn,...sn->...s', forward, other)
        after[..., 0, 0] += maps.counts[group] * both
        if maps.noise is not None:
            after[..., 0, 0] += before[..., :1, 0] * maps.noise_squares[group]
        return after
