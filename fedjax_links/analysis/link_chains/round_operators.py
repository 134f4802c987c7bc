"""Writes a round's linear map of moments as an operator on columns of numbers.

The module `moments` defines the moments ``E[v w^T]``, pairs of coordinates, and the models' half of
a round. The module `moment_columns` writes moments as columns and has the links' half.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fedjax_links.analysis.link_chains.moment_columns import (
    MomentColumns,
    moment_columns,
)
from fedjax_links.analysis.link_chains.moments import MomentBlock, MomentMap

# A map of fewer moments than this is applied directly, which is fast enough.
_MIN_SPARSE_SIZE = 1_500
# With more moments per configuration than this, the sparse matrix of the models' half of a round
# would be too dense.
_MAX_ENTRIES = 64


class RoundOperator(NamedTuple):
    """Maps columns, float64[size, number], as a round maps some moments if all others are zero.

    Attributes:
      moment_map: the models' half of the round, for all moments.
      part: the moments that the columns hold.
      apply: the map of columns.
      columns: converts between moments and columns.
      is_symmetric: whether v = w.
    """

    moment_map: MomentMap
    part: MomentBlock
    apply: Callable[[np.ndarray], np.ndarray]
    columns: MomentColumns
    is_symmetric: bool

    @property
    def size(self) -> int:
        """Returns how many numbers a column has."""
        return self.columns.size


def round_operator(
    moment_map: MomentMap, part: MomentBlock, *, is_symmetric: bool = False
) -> RoundOperator:
    """Writes a round's map of some moments as an operator.

    Args:
      moment_map: the models' half of the round.
      part: the moments, of server and rows in v with any entries of w. A round maps these moments
        in the same way for each pair of coordinates.
      is_symmetric: whether v = w.

    Returns:
      The operator.
    """
    one_pair = moment_map.restricted(part)
    columns = moment_columns(one_pair, is_symmetric=is_symmetric)
    move_models = _move_models(one_pair, columns)

    def apply(values: np.ndarray) -> np.ndarray:
        return columns.move_links(move_models(values))

    return RoundOperator(moment_map, part, apply, columns, is_symmetric)


def _move_models(
    one_pair: MomentMap, columns: MomentColumns
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the function that moves columns by the models' half of a round."""
    num_configurations = math.prod(one_pair.layout.shape)
    if _MIN_SPARSE_SIZE < columns.size <= _MAX_ENTRIES * num_configurations:
        matrix = _models_matrix(one_pair, columns)
        return lambda values: matrix @ values

    def move(values: np.ndarray) -> np.ndarray:
        return columns.from_moments(one_pair.move_models(columns.to_moments(values)))

    return move


def _models_matrix(one_pair: MomentMap, columns: MomentColumns) -> sparse.csr_array:
    """Writes the models' half of a round, which mixes no configurations, as a matrix.

    Args:
      one_pair: the models' half of a round, for one pair of coordinates.
      columns: converts between its moments and columns.

    Returns:
      The matrix float64[size, size], which maps columns to columns.
    """
    output_parts = []
    input_parts = []
    value_parts = []
    number_at = np.zeros(math.prod(one_pair.layout.shape), np.int64)
    for entry in np.unique(columns.entries):
        # Set one moment to 1, in all configurations at once.
        inputs = np.flatnonzero(columns.entries == entry)
        number_at[columns.configurations[inputs]] = inputs
        unit = np.zeros((columns.size, 1))
        unit[inputs] = 1.0
        moved = one_pair.move_models(columns.to_moments(unit))
        after = columns.from_moments(moved)[:, 0]
        outputs = np.flatnonzero(after)
        output_parts.append(outputs)
        input_parts.append(number_at[columns.configurations[outputs]])
        value_parts.append(after[outputs])
    index = np.concatenate(output_parts), np.concatenate(input_parts)
    shape = columns.size, columns.size
    return sparse.csr_array((np.concatenate(value_parts), index), shape=shape)
