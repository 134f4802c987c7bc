"""Writes a round's linear map of moments as an operator on columns of numbers."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fedjax_links.analysis.link_chains.moments import MomentMap, Moments

# A map of fewer moments is applied directly, which is fast enough.
_LEAST_SPARSE = 1_500
# With more moments per configuration, the sparse matrix of the models' half would be too dense.
_MOST_ENTRIES = 64


class _Shapes(NamedTuple):
    """Holds the shapes of moments without their axis of pairs.

    Attributes:
      configurations: their number of axes.
      arrays: the shape of the products, and of each group's squares.
    """

    configurations: int
    arrays: tuple[tuple[int, ...], ...]

    @property
    def sizes(self) -> list[int]:
        """Returns how many numbers each array holds."""
        return [math.prod(shape) for shape in self.arrays]

    def columns(self, moments: Moments) -> np.ndarray:
        """Writes moments as columns, float64[size, pairs]."""
        arrays = [moments.products, *moments.squares]
        parts = []
        for array in arrays:
            moved = np.moveaxis(array, self.configurations, -1)
            parts.append(moved.reshape(-1, moved.shape[-1]))
        return np.concatenate(parts)

    def moments(self, columns: np.ndarray) -> Moments:
        """Reads moments from columns."""
        parts = np.split(columns, np.cumsum(self.sizes)[:-1])
        arrays = []
        for part, shape in zip(parts, self.arrays, strict=True):
            array = part.reshape(*shape, columns.shape[1])
            arrays.append(np.moveaxis(array, -1, self.configurations))
        return Moments(arrays[0], tuple(arrays[1:]))


class RoundOperator(NamedTuple):
    """Maps columns, float64[size, number], as a round maps moments that start from zero.

    If v = w, a column holds one number for ``E[v_i v_j]`` and ``E[v_j v_i]``, their mean.

    Attributes:
      apply: the map.
      shapes: of the moments.
      entries: int64[size], for each number of a column, the index of its moment.
      mirrored: int64[size], the index of the equal moment ``E[v_j v_i]``; as ``entries`` if v and w
        differ.
      number_of: int64[...], for each moment, its index in a column.
      is_symmetric: whether v = w.
    """

    apply: Callable[[np.ndarray], np.ndarray]
    shapes: _Shapes
    entries: np.ndarray
    mirrored: np.ndarray
    number_of: np.ndarray
    is_symmetric: bool

    @property
    def size(self) -> int:
        """Returns how many numbers a column has."""
        return len(self.entries)

    def columns(self, moments: Moments) -> np.ndarray:
        """Writes moments as columns, float64[size, pairs]."""
        all_moments = self.shapes.columns(moments)
        return (all_moments[self.entries] + all_moments[self.mirrored]) / 2.0

    def moments(self, columns: np.ndarray) -> Moments:
        """Reads moments from columns."""
        return self.shapes.moments(columns[self.number_of])


def round_operator(
    moment_map: MomentMap, *, is_symmetric: bool = False
) -> RoundOperator:
    """Writes the map of a round as an operator.

    Args:
      moment_map: the round, whose maps of all pairs are the same.
      is_symmetric: whether v = w.

    Returns:
      The operator.
    """
    one_pair = moment_map.one_pair()
    shapes = _shapes(moment_map)
    numbers = np.arange(sum(shapes.sizes))
    mirrored = numbers
    if is_symmetric:
        transposed = shapes.moments(numbers[:, None]).transposed()
        mirrored = shapes.columns(transposed)[:, 0]
    entries, number_of = np.unique(np.minimum(numbers, mirrored), return_inverse=True)
    move_models = _move_models(one_pair, shapes, number_of)

    def apply(columns: np.ndarray) -> np.ndarray:
        moved = one_pair.move_links(move_models(columns))
        return shapes.columns(moved)[entries]

    return RoundOperator(
        apply, shapes, entries, mirrored[entries], number_of, is_symmetric
    )


def _shapes(moment_map: MomentMap) -> _Shapes:
    layout = moment_map.layout
    left = moment_map.left
    right = moment_map.right
    arrays = [(*layout.shape, left.size, right.size)]
    if any(left.segments) and any(right.segments):
        segments = zip(layout.groups, left.segments, right.segments, strict=True)
        for group, rows, columns in segments:
            fields = len(rows), len(columns)
            arrays.append((*layout.shape, group.num_states, *fields))
    return _Shapes(len(layout.shape), tuple(arrays))


def _move_models(
    one_pair: MomentMap, shapes: _Shapes, number_of: np.ndarray
) -> Callable[[np.ndarray], Moments]:
    """Returns how columns move by the models' half of a round."""
    size = len(number_of)
    num_configurations = math.prod(one_pair.layout.shape)
    if size <= _LEAST_SPARSE or size > _MOST_ENTRIES * num_configurations:
        return lambda columns: one_pair.move_models(shapes.moments(columns[number_of]))
    matrix = _models_matrix(one_pair, shapes, number_of)
    return lambda columns: shapes.moments(matrix @ columns)


def _models_matrix(
    one_pair: MomentMap, shapes: _Shapes, number_of: np.ndarray
) -> sparse.csr_array:
    """Writes the models' half of a round, which mixes no configurations, as a matrix.

    Args:
      one_pair: the round.
      shapes: of its moments.
      number_of: int64[...], for each moment, its index in a column.

    Returns:
      From columns to all moments.
    """
    num_configurations = math.prod(one_pair.layout.shape)
    configurations = np.arange(num_configurations)
    configuration_of = np.concatenate(
        [np.repeat(configurations, size // num_configurations) for size in shapes.sizes]
    )
    rows = []
    columns = []
    values = []
    first = 0
    for size in shapes.sizes:
        num_entries = size // num_configurations
        for entry in range(num_entries):
            # One moment of each configuration, in all of them at once.
            inputs = first + entry + num_entries * configurations
            unit = np.zeros((len(number_of), 1))
            unit[inputs] = 1.0
            after = shapes.columns(one_pair.move_models(shapes.moments(unit)))[:, 0]
            outputs = np.flatnonzero(after)
            rows.append(outputs)
            columns.append(number_of[inputs[configuration_of[outputs]]])
            values.append(after[outputs])
        first += size
    index = np.concatenate(rows), np.concatenate(columns)
    shape = len(number_of), number_of.max() + 1
    return sparse.csr_array((np.concatenate(values), index), shape=shape)
