"""Solves for the moments that a round keeps, and for the rates at which others vanish."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import linalg as sparse_linalg

from fedjax_links.analysis.link_chains.moments import MomentBlock, MomentMap, Moments

# Sizes up to which linear systems, and eigenvalue problems, are solved as dense ones.
_DENSE_SYSTEM = 1_500
_DENSE_EIGENVALUES = 250
# Of a positive map, this shift leaves one eigenvalue on the spectral circle.
_SHIFT = 0.5
_TOLERANCE = 1e-13
_KRYLOV_VECTORS = 80
# Restarting Arnoldi early costs applications, and saves more on keeping vectors orthogonal.
_ARNOLDI_VECTORS = 24
_RADIUS_TOLERANCE = 1e-12
_MOST_RESTARTS = 50

Operator = Callable[[np.ndarray], np.ndarray]
"""Maps columns, float64[size, number], linearly."""


class _Shapes(NamedTuple):
    """Holds the shapes of moments without their axis of pairs.

    Attributes:
      configurations: their number of axes.
      arrays: the shape of the products, and of each group's squares.
    """

    configurations: int
    arrays: tuple[tuple[int, ...], ...]

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
        sizes = [int(np.prod(shape)) for shape in self.arrays]
        parts = np.split(columns, np.cumsum(sizes)[:-1])
        arrays = []
        for part, shape in zip(parts, self.arrays, strict=True):
            array = part.reshape(*shape, columns.shape[1])
            arrays.append(np.moveaxis(array, -1, self.configurations))
        return Moments(arrays[0], tuple(arrays[1:]))


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


def _operator(moment_map: MomentMap) -> tuple[Operator, int]:
    """Returns the map of columns, and their size."""
    one_pair = moment_map.one_pair()
    shapes = _shapes(moment_map)

    def apply(columns: np.ndarray) -> np.ndarray:
        return shapes.columns(one_pair(shapes.moments(columns)))

    return apply, sum(int(np.prod(shape)) for shape in shapes.arrays)


def fixed_point(
    moment_map: MomentMap, known: Moments, part: MomentBlock, part_map: MomentMap
) -> Moments:
    """Finds some moments that a round keeps, where all others are known.

    Args:
      moment_map: the round.
      known: moments.
      part: those to find. Their values in `known` are replaced.
      part_map: the round of this part while all other moments are zero.

    Returns:
      The moments.
    """
    shapes = _shapes(part_map)
    values = known.part(part)
    nothing = shapes.moments(np.zeros_like(shapes.columns(values)))
    known = known.with_part(part, nothing)
    right = shapes.columns(moment_map(known).part(part))
    apply, _ = _operator(part_map)
    return known.with_part(part, shapes.moments(_solve(apply, right)))


def _solve(apply: Operator, right: np.ndarray) -> np.ndarray:
    """Solves ``z = apply(z) + right``.

    Args:
      apply: the linear map, whose spectral radius is below one.
      right: float64[size, number].

    Returns:
      float64[size, number].
    """
    size = len(right)
    if size <= _DENSE_SYSTEM:
        identity = np.eye(size)
        return np.linalg.solve(identity - apply(identity), right)

    def residual_map(vector: np.ndarray) -> np.ndarray:
        return vector - apply(vector.reshape(-1, 1))[:, 0]

    operator = sparse_linalg.LinearOperator(
        (size, size), residual_map, dtype=np.float64
    )
    solution = np.zeros_like(right)
    for number, column in enumerate(right.T):
        if not column.any():
            continue
        solution[:, number], status = sparse_linalg.gmres(
            operator,
            column,
            rtol=_TOLERANCE,
            restart=_KRYLOV_VECTORS,
            maxiter=_MOST_RESTARTS,
        )
        # Near rounding GMRES may stall: rounds then polish what it has.
        if status:
            solution[:, number] = _iterate(apply, column, solution[:, number])
    return solution


def _iterate(apply: Operator, right: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Applies rounds until they change nothing but rounding, at most 100,000 times."""
    vector = start
    for _ in range(100_000):
        after = apply(vector.reshape(-1, 1))[:, 0] + right
        change = np.abs(after - vector).max()
        vector = after
        if change <= 1e-15 * np.abs(vector).max():
            break
    return vector


def radius(moment_map: MomentMap, *, is_positive: bool) -> float:
    """Computes the spectral radius of a homogeneous map of moments.

    Args:
      moment_map: the map.
      is_positive: whether it maps second moments, that is positive semi-definite matrices
        to such ones. Then the radius is an eigenvalue.

    Returns:
      The radius.
    """
    apply, size = _operator(moment_map)
    if size <= _DENSE_EIGENVALUES:
        eigenvalues = np.linalg.eigvals(apply(np.eye(size)))
        return float(np.abs(eigenvalues).max())
    shift = _SHIFT if is_positive else 0.0

    def shifted(vector: np.ndarray) -> np.ndarray:
        return apply(vector.reshape(-1, 1))[:, 0] + shift * vector

    operator = sparse_linalg.LinearOperator((size, size), shifted, dtype=np.float64)
    number = 1 if is_positive else 4
    start = np.random.default_rng(0).uniform(0.5, 1.0, size)
    try:
        eigenvalues = sparse_linalg.eigs(
            operator,
            k=number,
            ncv=min(_ARNOLDI_VECTORS, size - 1),
            tol=_RADIUS_TOLERANCE,
            v0=start,
            return_eigenvectors=False,
        )
    except sparse_linalg.ArpackNoConvergence as failure:
        eigenvalues = failure.eigenvalues
        if not len(eigenvalues):
            raise
    return float(np.abs(eigenvalues).max()) - shift
