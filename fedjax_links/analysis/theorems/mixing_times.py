r"""Computes how fast a finite Markov chain forgets its start: t_mix, tau_mix and bounds.

The distance d_TV(P^k) is the total variation distance between two laws: the chain's law after k
rounds from the worst start, and its stationary law zeta. P is the transition matrix.

References:
  Sun et al., ICLR 2025, Appendix B (Lemma 4, Definition 4, Lemma 5).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fedjax_links.analysis import _checks
from fedjax_links.analysis.theorems import _numbers

MAX_STATES = 3_000


class GeometricDecay(NamedTuple):
    """Holds the constants of ``d_TV(P^k) <= C rho^k``.

    Attributes:
      factor: C, the least number with which the inequality holds for all k up to ``num_rounds``.
      rate: rho, the second largest modulus of an eigenvalue of P; below 1 if P is aperiodic.
    """

    factor: float
    rate: float


def total_variation_curve(
    transition: ArrayLike | sparse.sparray, stationary: ArrayLike, *, num_rounds: int
) -> np.ndarray:
    r"""Computes the distance from the stationary law after each round, from the worst start.

    The distance is ``d_TV(P^k) = max_x ||P^k(x, .) - zeta||_TV``.

    Args:
      transition: float[S, S], row-stochastic, dense or sparse; at most 3,000 states.
      stationary: float[S], zeta.
      num_rounds: K, at least 0.

    Returns:
      float64[K + 1], the distance for k = 0 to K. It never grows with k.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import mixing_times
      >>> print(mixing_times.total_variation_curve(
      ...     [[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5], num_rounds=2
      ... ))
      [0.5  0.4  0.32]

    References:
      Sun et al., ICLR 2025, Appendix B.
    """
    matrix, law = _checked_chain(transition, stationary)
    rounds = _checks.checked_rounds('num_rounds', num_rounds, minimum=0, num_bytes=16)
    power = np.eye(len(law))
    distances = [_distance(power, law)]
    for _ in range(rounds):
        power = power @ matrix
        distances.append(_distance(power, law))
    return np.array(distances)


def mixing_time(
    transition: ArrayLike | sparse.sparray,
    stationary: ArrayLike,
    epsilon: float = 0.25,
    *,
    max_rounds: int = 2**20,
) -> int | None:
    r"""Computes the rounds until the chain is close to its stationary law from any start.

    The mixing time ``t_mix(epsilon)`` is the least k >= 1 with ``d_TV(P^k) <= epsilon``. The
    default is ``tau_mix = t_mix(1/4)``. P is squared until a power is close enough. Bisection then
    finds the time. So the cost grows with the logarithm of the time.

    Args:
      transition: float[S, S], row-stochastic, dense or sparse; at most 3,000 states.
      stationary: float[S], zeta.
      epsilon: the distance, in (0, 1).
      max_rounds: the largest time that is searched.

    Returns:
      The time in rounds. None if the time exceeds ``max_rounds``, as for every periodic chain.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> from fedjax_links.analysis.theorems import mixing_times
      >>> for separation in range(4):
      ...     chain = analysis.minimum_separation_chain([1.0] * 5, separation)
      ...     print(separation, mixing_times.mixing_time(chain.transition, chain.stationary))
      0 1
      1 1
      2 4
      3 9

    References:
      Sun et al., ICLR 2025, Definition 4.
    """
    matrix, law = _checked_chain(transition, stationary)
    _checks.checked_number('epsilon', epsilon)
    _checks.require(0 < epsilon < 1, 'epsilon', 'lie in (0, 1)', epsilon)
    limit = _numbers.at_least_one('max_rounds', max_rounds)
    if _distance(matrix, law) <= epsilon:
        return 1
    powers = [matrix]  # P, P^2, P^4, ...
    while _distance(powers[-1], law) > epsilon:
        if 2 ** (len(powers) - 1) >= limit:
            return None
        powers.append(powers[-1] @ powers[-1])
    # Find the last k at which the chain is too far, bit by bit from the highest bit.
    far_round = 2 ** (len(powers) - 2)
    far_power = powers[-2]
    for exponent in range(len(powers) - 3, -1, -1):
        later_power = far_power @ powers[exponent]
        if _distance(later_power, law) > epsilon:
            far_power = later_power
            far_round += 2**exponent
    time = far_round + 1
    return time if time <= limit else None


def series_constant(
    transition: ArrayLike | sparse.sparray, stationary: ArrayLike
) -> float:
    r"""Computes the constant c_0 by which tau_mix bounds the sum of all distances.

    The constant is ``c_0 = d_TV(P) + 2``, and ``sum_k d_TV(P^k) <= c_0 tau_mix``.

    Args:
      transition: float[S, S], row-stochastic.
      stationary: float[S], zeta.

    Returns:
      c_0, from 2 to 3.

    Example:
      >>> from fedjax_links.analysis.theorems import mixing_times
      >>> print(mixing_times.series_constant([[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5]))
      2.4

    References:
      Sun et al., ICLR 2025, Lemma 5 (3) and its proof.
    """
    matrix, law = _checked_chain(transition, stationary)
    return _distance(matrix, law) + 2.0


def geometric_decay(
    transition: ArrayLike | sparse.sparray, stationary: ArrayLike, *, num_rounds: int
) -> GeometricDecay:
    r"""Computes a geometric bound of the distance, ``d_TV(P^k) <= C rho^k``.

    Args:
      transition: float[S, S], row-stochastic; at most 3,000 states.
      stationary: float[S], zeta.
      num_rounds: K. C is the least constant for k = 0 to K. Rounds k with rho^k below 1e-9 are left
        out, because rounding hides the distance.

    Returns:
      The constants. A chain of independent rounds has rho = 0; C is then the distance at k = 0.

    Example:
      >>> from fedjax_links.analysis.theorems import mixing_times
      >>> decay = mixing_times.geometric_decay(
      ...     [[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5], num_rounds=20
      ... )
      >>> print(round(decay.factor, 6), round(decay.rate, 6))
      0.5 0.8

    References:
      Sun et al., ICLR 2025, Lemma 4.
    """
    matrix, law = _checked_chain(transition, stationary)
    # Remove the eigenvalue 1 of P. The largest modulus left is the second largest of P.
    deflated = matrix - np.outer(np.ones(len(law)), law)
    rate = float(np.max(np.abs(np.linalg.eigvals(deflated))))
    distances = total_variation_curve(matrix, law, num_rounds=num_rounds)
    powers = rate ** np.arange(len(distances))
    above_rounding = powers > 1e-9
    factor = np.max(distances[above_rounding] / powers[above_rounding])
    return GeometricDecay(float(factor), rate)


def _checked_chain(
    transition: ArrayLike | sparse.sparray, stationary: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the transition matrix as dense float64 and the stationary law."""
    dense: Any = transition
    if sparse.issparse(transition):
        dense = dense.toarray()
    matrix = _checks.as_doubles('transition', dense)
    is_square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    shape = f'shape {matrix.shape}'
    _checks.require(is_square, 'transition', 'be a square matrix', shape)
    num_states = len(matrix)
    requirement = f'have at most {MAX_STATES:,} states'
    _checks.require(num_states <= MAX_STATES, 'transition', requirement, num_states)
    _checks.check_stochastic('transition', matrix, tolerance=1e-5)
    law = _checks.checked_law('stationary', stationary, axis='state')
    _numbers.check_size('stationary', law, num_states)
    return matrix, law


def _distance(power: np.ndarray, law: np.ndarray) -> float:
    """Returns the total variation distance between ``law`` and the row farthest from it."""
    return 0.5 * float(np.abs(power - law).sum(axis=1).max())
