"""Finds the moments that a round does not change, and the rate at which other moments decay.

`moments` says what moments are, and `round_operators` what a round's operator on them is.
"""

from collections.abc import Callable

import numpy as np
from scipy.sparse import linalg as sparse_linalg

from fedjax_links.analysis.link_chains.moments import Moments
from fedjax_links.analysis.link_chains.round_operators import RoundOperator

# Sizes up to which linear systems, and eigenvalue problems, are solved with dense matrices.
_DENSE_SYSTEM = 1_500
_DENSE_EIGENVALUES = 250
# This shift leaves a positive map with one eigenvalue on the spectral circle.
_SHIFT = 0.5
_TOLERANCE = 3e-14
_KRYLOV_VECTORS = 80
# Applying a round costs less than making a vector orthogonal to all earlier vectors. So GMRES
# applies two rounds per vector, and Arnoldi's method restarts early.
_ROUNDS_PER_VECTOR = 2
_ARNOLDI_VECTORS = 20
# Arnoldi's first vector is as large as the probability of each configuration, plus this fraction of
# the mean probability.
_MIN_WEIGHT = 1e-6
_RADIUS_TOLERANCE = 1e-11
_MAX_RESTARTS = 50

_Apply = Callable[[np.ndarray], np.ndarray]


def fixed_point(operator: RoundOperator, known: Moments) -> Moments:
    """Finds the moments in an operator's part that a round does not change, given all others.

    Args:
      operator: maps the moments of its part by a round, while all other moments are zero.
      known: all moments; the values in the operator's part do not matter.

    Returns:
      All moments. With a symmetric operator, the moments found are the mean of ``E[v w^T]`` and
      its transpose.
    """
    part = operator.part
    columns = operator.columns
    zeros = np.zeros((operator.size, known.products.shape[-3]))
    known = known.with_part(part, columns.to_moments(zeros))
    # Links move the moments of a part among themselves.
    moved = operator.moment_map.move_models(known).part(part)
    right = columns.move_links(columns.from_moments(moved))
    solution = _solve(operator.apply, right)
    return known.with_part(part, columns.to_moments(solution))


def _solve(apply: _Apply, right: np.ndarray) -> np.ndarray:
    """Solves ``z = apply(z) + right``.

    Args:
      apply: the linear map, whose spectral radius is below one.
      right: float64[size, columns].

    Returns:
      float64[size, columns].
    """
    size = len(right)
    if size <= _DENSE_SYSTEM:
        identity = np.eye(size)
        return np.linalg.solve(identity - apply(identity), right)

    # After n rounds, z = apply^n(z) + (sum of apply^k(right) for k < n). This equation has the
    # same solution, and GMRES needs fewer vectors for it.
    def residual_map(vector: np.ndarray) -> np.ndarray:
        after = vector.reshape(-1, 1)
        for _ in range(_ROUNDS_PER_VECTOR):
            after = apply(after)
        return vector - after[:, 0]

    total = right
    for _ in range(_ROUNDS_PER_VECTOR - 1):
        total = apply(total) + right
    operator = sparse_linalg.LinearOperator(
        (size, size), residual_map, dtype=np.float64
    )
    solution = np.zeros_like(right)
    for index, column in enumerate(total.T):
        if not column.any():
            continue
        solution[:, index], status = sparse_linalg.gmres(
            operator,
            column,
            rtol=_TOLERANCE,
            restart=_KRYLOV_VECTORS,
            maxiter=_MAX_RESTARTS,
        )
        # GMRES may stall when only rounding errors remain. Then apply rounds to its result.
        if status:
            start = solution[:, index]
            solution[:, index] = _iterate(apply, right[:, index], start)
    return solution


def _iterate(apply: _Apply, right: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Applies rounds until they change nothing but rounding, at most 100,000 times."""
    vector = start
    for _ in range(100_000):
        after = apply(vector.reshape(-1, 1))[:, 0] + right
        change = np.abs(after - vector).max()
        vector = after
        if change <= 1e-15 * np.abs(vector).max():
            break
    return vector


def radius(operator: RoundOperator, law: np.ndarray) -> float:
    """Computes the spectral radius of a homogeneous map of moments.

    Args:
      operator: the map. A symmetric operator maps second moments, so it maps positive
        semi-definite matrices to positive semi-definite matrices. Its radius is an eigenvalue.
      law: float64[S, K_1, ...], probabilities of the configurations in the long run.

    Returns:
      The radius.
    """
    size = operator.size
    if size <= _DENSE_EIGENVALUES:
        eigenvalues = np.linalg.eigvals(operator.apply(np.eye(size)))
        return float(np.abs(eigenvalues).max())
    shift = _SHIFT if operator.is_symmetric else 0.0

    def shifted(vector: np.ndarray) -> np.ndarray:
        return operator.apply(vector.reshape(-1, 1))[:, 0] + shift * vector

    # Without the shift, several eigenvalues may lie on the spectral circle.
    num_eigenvalues = 1 if operator.is_symmetric else 4
    # Moments are about as large as the probability of their configuration, so the start vector is
    # too. The smallest weight is positive. It excites eigenvectors that live in configurations
    # which a run leaves for good.
    weights = law.ravel() + _MIN_WEIGHT * law.mean()
    start = np.random.default_rng(0).uniform(0.5, 1.0, size)
    start *= weights[operator.columns.configurations]
    try:
        eigenvalues = sparse_linalg.eigs(
            sparse_linalg.LinearOperator((size, size), shifted, dtype=np.float64),
            k=num_eigenvalues,
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
