"""Checks the arguments of theorems, and finds the largest rate that a theorem covers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks

_BISECTIONS = 200


def at_least_zero(name: str, value: float) -> float:
    """Returns ``value`` as a float of at least 0, which may be infinite, or raises."""
    number = _checks.checked_number(name, value)
    _checks.require(number >= 0, name, 'be at least 0', value)
    return number


def all_at_least_zero(**values: float) -> None:
    """Raises unless all numbers, by name, are at least 0; they may be infinite."""
    for name, value in values.items():
        at_least_zero(name, value)


def at_least_one(name: str, value: int) -> int:
    """Returns ``value`` as an integer of at least 1, of nearly any size, or raises."""
    number = _checks.checked_int(name, value, minimum=1, maximum=None)
    # The maximum is such that the integer converts to a float.
    _checks.require_value(number <= 1e300, name, 'be at most 1e300', value)
    return number


def check_size(name: str, vector: np.ndarray, size: int) -> None:
    """Raises unless a vector has ``size`` entries."""
    _checks.require(vector.size == size, name, f'have {size} entries', vector.size)


def client_vectors(name: str, values: ArrayLike) -> np.ndarray:
    """Returns values float[N, d] or float[N], of any N, as float64[N, d]."""
    array = _checks.as_doubles(name, values)
    _checks.require_value(array.size, name, 'hold numbers', values)
    num_clients = len(np.atleast_1d(array))
    vectors = _checks.checked_targets(name, array, num_clients)
    return vectors.reshape(num_clients, -1)


def quadratics(
    targets: ArrayLike, curvatures: ArrayLike | None, initial_point: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Checks the quadratics ``h_i / 2 ||x - u_i||^2`` and a start.

    Args:
      targets: float[N, d] or float[N], u_i.
      curvatures: float[N], h_i, positive; None for 1.
      initial_point: float[d]; None for zeros.

    Returns:
      Targets, float64[N, d]; curvatures, float64[N]; and the start, float64[d].
    """
    points = client_vectors('targets', targets)
    num_clients, dimension = points.shape
    h = np.ones(num_clients) if curvatures is None else curvatures
    h = _checks.checked_weights('curvatures', h)
    check_size('curvatures', h, num_clients)
    start = np.zeros(dimension) if initial_point is None else initial_point
    start = _checks.checked_vector('initial_point', start, axis='coordinate')
    check_size('initial_point', start, dimension)
    return points, h, start


def largest_rate(cap_at: Callable[[float], float]) -> float:
    """Solves ``eta = cap_at(eta)`` for a cap that does not grow with the rate.

    Args:
      cap_at: rate -> the largest rate that a condition allows; the condition depends on the rate.

    Returns:
      The largest rate that is at most its own cap; 0 if there is none.
    """
    upper = cap_at(0.0)
    if upper <= 0:
        return 0.0
    lower = cap_at(upper)  # The cap does not grow, so the solution lies above.
    if lower >= upper:
        return upper
    for _ in range(_BISECTIONS):
        middle = 0.5 * (lower + upper)
        if middle in (lower, upper):
            break
        if middle <= cap_at(middle):
            lower = middle
        else:
            upper = middle
    return lower
