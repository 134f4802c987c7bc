r"""How fast a finite Markov chain forgets its start: total variation, t_mix, tau_mix.

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
    """Constants of ``d_TV(P^k) <= C rho^k``.

    Attributes:
      factor: C, the least one that holds for all rounds up to ``num_rounds``.
      rate: rho, the second largest modulus of an eigenvalue of P; below 1 if P is aperiodic.
    """

    factor: float
    rate: float


def total_variation_curve(
    transition: ArrayLike | sparse.sparray, stationary: ArrayLike, *, num_rounds: int
) -> np.ndarray:
    r"""Computes ``d_TV(P^k) = max_x ||P^k(x, .) - zeta||_TV`` from the worst start.

    Args:
      transition: float[S, S], row-stochastic, dense or sparse; at most 3,000 states.
      stationary: float[S], zeta.
      num_rounds: K, at least 0.

    Returns:
      float64[K + 1], for k = 0 to K. It never grows.

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
    rounds = _checks.checked_int('num_rounds', num_rounds, minimum=0)
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
    r"""Computes ``t_mix(epsilon)``, the least k >= 1 with ``d_TV(P^k) <= epsilon``.

    The default is ``tau_mix = t_mix(1/4)``. Powers are squared until one is close enough, and the
    time is bisected, so slow chains cost the logarithm of their time.

    Args:
      transition: float[S, S], row-stochastic, dense or sparse; at most 3,000 states.
      stationary: float[S], zeta.
      epsilon: the distance, in (0, 1).
      max_rounds: where the search ends.

    Returns:
      The time in rounds. None if it is beyond ``max_rounds``, as for every periodic chain.

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
    _checks.require(0 < epsilon < 1, 'epsilon', 'lie in (0, 1)', epsilon)
    limit = _numbers.steps('max_rounds', max_rounds)
    if _distance(matrix, law) <= epsilon:
        return 1
    powers = [matrix]  # P, P^2, P^4, ...
    while _distance(powers[-1], law) > epsilon:
        if 2 ** len(powers) > limit:
            return None
        powers.append(powers[-1] @ powers[-1])
    time = 2 ** (len(powers) - 2)  # The last time at which the chain is still too far.
    reached = powers[-2]
    for exponent in range(len(powers) - 3, -1, -1):
        tried = reached @ powers[exponent]
        if _distance(tried, law) > epsilon:
            reached = tried
            time += 2**exponent
    return time + 1


def series_constant(
    transition: ArrayLike | sparse.sparray, stationary: ArrayLike
) -> float:
    r"""Computes ``c_0 = d_TV(P) + 2``, with which ``sum_k d_TV(P^k) <= c_0 tau_mix``.

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
    r"""Computes constants of ``d_TV(P^k) <= C rho^k``, rho from the eigenvalues of P.

    Args:
      transition: float[S, S], row-stochastic; at most 3,000 states.
      stationary: float[S], zeta.
      num_rounds: K, over which C is taken. Where rho^k is below 1e-9 rounding hides the rest.

    Returns:
      The constants. A chain of independent rounds has rho = 0, and C is then its distance at 0.

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
    moduli = np.sort(
        np.abs(np.linalg.eigvals(matrix - np.outer(np.ones(len(law)), law)))
    )
    rate = float(moduli[-1])
    curve = total_variation_curve(matrix, law, num_rounds=num_rounds)
    powers = rate ** np.arange(len(curve))
    seen = powers > 1e-9
    return GeometricDecay(float(np.max(curve[seen] / powers[seen])), rate)


def _checked_chain(
    transition: ArrayLike | sparse.sparray, stationary: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the transition matrix as dense float64 and the stationary law."""
    dense: Any = transition
    if sparse.issparse(transition):
        dense = dense.toarray()
    matrix = np.asarray(dense, np.float64)
    fine = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    _checks.require(fine, 'transition', 'be a square matrix', f'shape {matrix.shape}')
    allowed = f'have at most {MAX_STATES:,} states'
    _checks.require(len(matrix) <= MAX_STATES, 'transition', allowed, len(matrix))
    rows = matrix.sum(axis=1)
    _checks.require(
        np.allclose(rows, 1.0, atol=1e-9), 'transition', 'have rows that sum to 1', rows
    )
    law = _checks.checked_law('stationary', stationary)
    fits = f'have {len(matrix)} entries'
    _checks.require(law.size == len(matrix), 'stationary', fits, law.size)
    return matrix, law


def _distance(power: np.ndarray, law: np.ndarray) -> float:
    """Returns the largest total variation distance of a row from the law."""
    return 0.5 * float(np.abs(power - law).sum(axis=1).max())
