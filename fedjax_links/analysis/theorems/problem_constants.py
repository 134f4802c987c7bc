r"""Constants that theorems ask of a problem: quadratics exactly, linear models as bounds."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks
from fedjax_links.analysis.theorems import _numbers


class ProblemConstants(NamedTuple):
    """What theorems ask of a problem. F is the mean of the clients' objectives.

    Attributes:
      num_clients: N.
      smoothness: L, the largest Lipschitz constant of a client's gradient.
      slope: beta, and
      offset: zeta, in ``1/N sum_i ||grad F_i - grad F||^2 <= beta^2 ||grad F||^2 + zeta^2``.
      dissimilarity: G, the largest ``||grad F_i - grad F||`` at any point; infinite if it grows
        without bound.
      noise: sigma of stochastic gradients; 0 for full gradients.
      initial_gap: ``F(x^0) - F*``, or a bound on it.
      gradient_differences: float64[N, d], ``grad F_i - grad F`` where it is the same at every
        point; None elsewhere.
      are_exact: whether the numbers are exact, not bounds.
    """

    num_clients: int
    smoothness: float
    slope: float
    offset: float
    dissimilarity: float
    noise: float
    initial_gap: float
    gradient_differences: np.ndarray | None
    are_exact: bool


def quadratic_constants(
    targets: ArrayLike,
    curvatures: ArrayLike | None = None,
    *,
    initial_point: ArrayLike | None = None,
    noise: float = 0.0,
) -> ProblemConstants:
    r"""Computes the constants of ``F_i(x) = h_i / 2 ||x - u_i||^2``.

    The minimiser is ``x* = sum h_i u_i / sum h_i``. With ``c_i = h_i (x* - u_i)`` and hbar the mean
    curvature, ``grad F_i - grad F = (h_i - hbar) (x - x*) + c_i``. Equal curvatures give beta = 0
    and ``zeta^2 = mean ||c_i||^2`` exactly. Otherwise the square of the sum is split in halves:
    ``beta^2 = 2 mean (h_i - hbar)^2 / hbar^2`` and ``zeta^2 = 2 mean ||c_i||^2``, which is valid
    but not the least pair.

    Args:
      targets: float[N, d] (or float[N]), u_i.
      curvatures: float[N], h_i, positive; 1 by default.
      initial_point: float[d], x^0; zeros by default.
      noise: sigma, at least 0.

    Returns:
      The constants.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    Example:
      >>> from fedjax_links.analysis.theorems import problem_constants
      >>> known = problem_constants.quadratic_constants([0.0, 100.0])
      >>> print(known.smoothness, known.offset, known.dissimilarity, known.initial_gap)
      1.0 50.0 50.0 1250.0
    """
    points = np.asarray(targets, np.float64)
    points = _checks.checked_targets('targets', points, len(np.atleast_1d(points)))
    points = points.reshape(len(points), -1)
    num_clients, dimension = points.shape
    slopes = np.ones(num_clients) if curvatures is None else curvatures
    curves = _checks.checked_weights('curvatures', slopes)
    fits = f'have {num_clients} entries'
    _checks.require(curves.size == num_clients, 'curvatures', fits, curves.size)
    start = np.zeros(dimension) if initial_point is None else initial_point
    start = _checks.checked_vector('initial_point', start)
    fits = f'have {dimension} entries'
    _checks.require(start.size == dimension, 'initial_point', fits, start.size)
    mean_curve = float(curves.mean())
    minimiser = curves @ points / curves.sum()
    differences = curves[:, None] * (minimiser - points)
    spread = float(np.mean((curves - mean_curve) ** 2))
    mean_square = float(np.mean(np.sum(differences**2, axis=1)))
    are_equal = curves.min() == curves.max()
    share = 1.0 if are_equal else 2.0
    largest = float(np.linalg.norm(differences, axis=1).max())
    return ProblemConstants(
        num_clients=num_clients,
        smoothness=float(curves.max()),
        slope=float(np.sqrt(share * spread)) / mean_curve,
        offset=float(np.sqrt(share * mean_square)),
        dissimilarity=largest if are_equal else np.inf,
        noise=_numbers.at_least_zero('noise', noise),
        initial_gap=0.5 * mean_curve * float(np.sum((start - minimiser) ** 2)),
        gradient_differences=differences if are_equal else None,
        are_exact=bool(are_equal),
    )


def softmax_constants(
    features: ArrayLike,
    owners: ArrayLike,
    *,
    num_classes: int,
    l2: float = 0.0,
    noise: float = 0.0,
) -> ProblemConstants:
    r"""Bounds the constants of multinomial logistic regression that starts at zero.

    With rows ``z = (x, 1)`` of a client, ``L_i <= lambda_max(mean z z') / 2 + l2``. The derivative
    of the loss by the scores has norm at most ``sqrt(2)``, so a client's data gradient is at most
    ``r_i = sqrt(2) mean ||z||``, and the penalty cancels in differences:
    ``||grad F_i - grad F|| <= r_i + rbar``. At zero the loss is ``log C`` and it is never negative.

    Args:
      features: float[E, d], one row for each example.
      owners: int[E], the client of each example, 0 to N - 1; every client has an example.
      num_classes: C, at least 2.
      l2: weight of ``l2 / 2 |B|^2``, at least 0.
      noise: sigma, at least 0.

    Returns:
      The constants, all of them bounds.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> import numpy as np
      >>> from fedjax_links.analysis.theorems import problem_constants
      >>> known = problem_constants.softmax_constants(
      ...     np.eye(4), [0, 0, 1, 1], num_classes=2, l2=0.1
      ... )
      >>> print(round(known.smoothness, 3), round(known.dissimilarity, 3))
      0.85 4.0
    """
    rows = np.asarray(features, np.float64)
    fine = rows.ndim == 2 and rows.size > 0
    _checks.require(fine, 'features', 'be a non-empty [E, d]', f'shape {rows.shape}')
    ids = np.asarray(owners)
    fits = f'have {len(rows)} entries'
    _checks.require(ids.shape == (len(rows),), 'owners', fits, f'shape {ids.shape}')
    classes = _checks.checked_int('num_classes', num_classes, minimum=2)
    penalty = _numbers.at_least_zero('l2', l2)
    num_clients = int(ids.max()) + 1
    rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    curves = np.zeros(num_clients)
    reaches = np.zeros(num_clients)
    for client in range(num_clients):
        examples = rows[ids == client]
        _checks.require(len(examples) > 0, 'owners', 'name every client', client)
        gram = examples.T @ examples / len(examples)
        curves[client] = 0.5 * np.linalg.eigvalsh(gram)[-1] + penalty
        lengths = np.linalg.norm(examples, axis=1)
        reaches[client] = np.sqrt(2.0) * lengths.mean()
    distances = reaches + reaches.mean()
    return ProblemConstants(
        num_clients=num_clients,
        smoothness=float(curves.max()),
        slope=0.0,
        offset=float(np.sqrt(np.mean(distances**2))),
        dissimilarity=float(distances.max()),
        noise=_numbers.at_least_zero('noise', noise),
        initial_gap=float(np.log(classes)),
        gradient_differences=None,
        are_exact=False,
    )
