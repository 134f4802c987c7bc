"""Moves first and second moments of models and memories by one round of a link chain.

A round has two halves. First the models move: in each configuration of the links they are
an affine map of server, rows and targets. Then the links move: clients go from state to
state, and take their rows along. Before a round the moments are ``E[v w^T 1{k}]`` by
configuration k, where v and w stack

``(1, server, sums of rows by class, sums of target offsets by class)``.

Models have several coordinates. Moments are kept for pairs (a, b) of them: v has coordinate a of
models and targets, w coordinate b. v has n entries, w has m. Classes, and the configurations
[S, K_1, ..., K_G], are those of `layouts.LinkLayout`.

Target offsets are differences between targets and their group's mean. By symmetry the
moments of the server are those of offsets that are dealt out to the group's clients at
random. A group also needs sums of squares over its clients, as they differ from squares of
sums.
"""

from typing import Any, NamedTuple

import numpy as np

from fedjax_links.analysis.link_chains.layouts import LinkLayout


class Coordinates(NamedTuple):
    """Says which client's state each coordinate of v involves, or of w.

    Attributes:
      size: the number of coordinates, n or m.
      others: for each group int64[...], the coordinates that involve none of its clients.
      segments: for each group the first coordinates of its rows, of its target offsets, or
        of both. Each has as many coordinates as clients of the group have states.
    """

    size: int
    others: tuple[np.ndarray, ...]
    segments: tuple[tuple[int, ...], ...]


class Moments(NamedTuple):
    """Holds moments by configuration.

    Attributes:
      products: float64[S, K_1, ..., pairs, n, m], ``E[v w^T 1{k}]``.
      squares: for each group float64[S, K_1, ..., pairs, states, f, g]. They sum, over the clients
        in a state, the products of a client's row and target offset in v with those in w. Empty
        where v or w involves no clients.
    """

    products: np.ndarray
    squares: tuple[np.ndarray, ...]

    def part(self, block: 'MomentBlock') -> 'Moments':
        """Returns moments of some coordinates of v and w."""
        products = self.products[..., block.rows[:, None], block.columns]
        squares = []
        for square in self.squares:
            picked = square[..., block.row_fields, block.column_fields]
            if picked.size:
                squares.append(picked)
        return Moments(products, tuple(squares))

    def with_part(self, block: 'MomentBlock', values: 'Moments') -> 'Moments':
        """Returns moments with other values for some coordinates of v and w."""
        products = self.products.copy()
        products[..., block.rows[:, None], block.columns] = values.products
        squares = tuple(square.copy() for square in self.squares)
        # A block that involves no clients has no squares.
        for square, value in zip(squares, values.squares, strict=False):
            square[..., block.row_fields, block.column_fields] = value
        return Moments(products, squares)

    def transposed(self) -> 'Moments':
        """Returns the moments ``E[w v^T]``."""
        squares = tuple(np.swapaxes(square, -1, -2) for square in self.squares)
        return Moments(np.swapaxes(self.products, -1, -2), squares)


class MomentBlock(NamedTuple):
    """Names some coordinates of v and of w.

    Attributes:
      rows: int64[...], coordinates of v.
      columns: int64[...], coordinates of w.
      row_fields: which of a client's row and target offset are among the rows.
      column_fields: the same of the columns.
    """

    rows: np.ndarray
    columns: np.ndarray
    row_fields: slice = slice(0, 0)
    column_fields: slice = slice(0, 0)

    def transposed(self) -> 'MomentBlock':
        """Returns the block with v and w exchanged."""
        return MomentBlock(self.columns, self.rows, self.column_fields, self.row_fields)


class RoundMaps(NamedTuple):
    """Holds the maps of a round in each configuration.

    Attributes:
      left: float64[S, K_1, ..., pairs, n, n], the map of v.
      right: float64[S, K_1, ..., pairs, m, m], the map of w; [m, m] if it is the same in all
        configurations and for all pairs.
      common_left: for each group float64[S, K_1, ..., pairs, states, n], h of the module
        `class_rounds`.
      common_right: float64[S, K_1, ..., pairs, states, m], the same of w; None where w has
        no rows.
      own_left: for each group float64[S, K_1, ..., 1, states, f, f], maps a client's row
        and offset in v, apart from h.
      own_right: the same of w, float64[S, K_1, ..., 1, states, g, g], or [states, g, g] if it is
        the same in all configurations.
      counts: for each group int64[S, K_1, ..., 1, states], the clients in a state.
      noise: float64[S, K_1, ..., pairs, n, m], what noise adds per unit of probability; None
        without noise.
      noise_squares: for each group float64[S, K_1, ..., pairs, states], the same of the
        squares of rows.
    """

    left: np.ndarray
    right: np.ndarray
    common_left: tuple[np.ndarray, ...]
    common_right: tuple[np.ndarray, ...] | None
    own_left: tuple[np.ndarray, ...]
    own_right: tuple[np.ndarray, ...]
    counts: tuple[np.ndarray, ...]
    noise: np.ndarray | None
    noise_squares: tuple[np.ndarray, ...]

    def one_pair(self) -> 'RoundMaps':
        """Returns the maps of the first pair, without noise."""
        right = self.right
        has_pairs = right.ndim > 2
        if has_pairs:
            right = right[..., :1, :, :]
        common_right = self.common_right
        if common_right is not None:
            common_right = tuple(x[..., :1, :, :] for x in common_right)
        return self._replace(
            left=self.left[..., :1, :, :],
            right=right,
            common_left=tuple(x[..., :1, :, :] for x in self.common_left),
            common_right=common_right,
            noise=None,
        )


class MomentMap(NamedTuple):
    """Maps moments before a round to those before the next.

    Attributes:
      layout: the configurations.
      left: coordinates of v.
      right: coordinates of w.
      branches: maps of the outcomes of what a configuration leaves open, the links between
        clients, with their probabilities.
      has_rows: whether the segments of v begin with rows.
    """

    layout: LinkLayout
    left: Coordinates
    right: Coordinates
    branches: tuple[tuple[float, RoundMaps], ...]
    has_rows: bool

    def one_pair(self) -> 'MomentMap':
        """Returns the map of the first pair alone, which any number of pairs can share."""
        branches = tuple((prob, maps.one_pair()) for prob, maps in self.branches)
        return self._replace(branches=branches)

    def move_models(self, moments: Moments) -> Moments:
        """Moves models and rows by their round, while links stay."""
        products = np.zeros_like(moments.products)
        squares = [np.zeros_like(part) for part in moments.squares]
        for prob, maps in self.branches:
            before = moments.products
            after = maps.left @ before @ np.swapaxes(maps.right, -1, -2)
            if maps.noise is not None:
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
        own_left = maps.own_left[group]
        own_right = maps.own_right[group]
        after = own_left @ moments.squares[group] @ np.swapaxes(own_right, -1, -2)
        if not self.has_rows:
            return after
        # h of the module `class_rounds`, which clients of a class have in common, adds to each of
        # their rows.
        num_states = maps.counts[group].shape[-1]
        states = np.arange(num_states)
        before = moments.products
        forward = maps.common_left[group] @ before
        with_own = np.stack(
            [
                forward[..., states, start + states]
                for start in self.right.segments[group]
            ],
            axis=-1,
        )
        after[..., 0, :] += np.einsum('...f,...gf->...g', with_own, own_right)
        if maps.common_right is None:
            return after
        other = maps.common_right[group]
        backward = before @ np.swapaxes(other, -1, -2)
        own_with = np.stack(
            [
                backward[..., start + states, states]
                for start in self.left.segments[group]
            ],
            axis=-1,
        )
        after[..., :, 0] += np.einsum('...f,...gf->...g', own_with, own_left)
        both = np.einsum('...sn,...sn->...s', forward, other)
        after[..., 0, 0] += maps.counts[group] * both
        if maps.noise is not None:
            after[..., 0, 0] += before[..., :1, 0] * maps.noise_squares[group]
        return after

    def move_links(self, moments: Moments) -> Moments:
        """Moves the links, and the rows and offsets with their clients."""
        layout = self.layout
        products = layout.move_modes(moments.products)
        squares = [layout.move_modes(part) for part in moments.squares]
        for group_index in range(len(layout.groups)):
            products, squares = self._move_group(products, squares, group_index)
        return Moments(products, tuple(squares))

    def _move_group(
        self, products: np.ndarray, squares: list[np.ndarray], group_index: int
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Moves the clients of one group."""
        group = self.layout.groups[group_index]
        axis = 1 + group_index
        num_states = group.num_states
        states = np.arange(num_states)
        left = [start + states for start in self.left.segments[group_index]]
        right = [start + states for start in self.right.segments[group_index]]
        after = np.zeros_like(products)
        rest_left = self.left.others[group_index]
        rest_right = self.right.others[group_index]
        last = products.ndim - 1

        def block_index(rows: np.ndarray, columns: np.ndarray) -> tuple[Any, ...]:
            return (..., rows[:, None], columns)

        index = block_index(rest_left, rest_right)
        after[index] = group.apply_counts(products[index], axis)
        for rows in left:
            index = block_index(rows, rest_right)
            after[index] = group.apply_one(products[index], axis, last - 1)
        for columns in right:
            index = block_index(rest_left, columns)
            after[index] = group.apply_one(products[index], axis, last)
        new_squares = []
        for other, part in enumerate(squares):
            if other == group_index:
                new_squares.append(group.apply_one(part, axis, part.ndim - 3))
            else:
                new_squares.append(group.apply_counts(part, axis))
        for first, rows in enumerate(left):
            for second, columns in enumerate(right):
                # Pairs of different clients, then each client with itself.
                index = block_index(rows, columns)
                client_pairs = products[index]
                own_squares = squares[group_index][..., first, second]
                client_pairs[..., states, states] -= own_squares
                moved = group.apply_two(client_pairs, axis, last - 1, last)
                new_own_squares = new_squares[group_index][..., first, second]
                moved[..., states, states] += new_own_squares
                after[index] = moved
        return after, new_squares

    def __call__(self, moments: Moments) -> Moments:
        """Moves moments by one round."""
        return self.move_links(self.move_models(moments))
