r"""Computes the stationary law of minimum separation in closed form.

A client that participates waits R rounds, its separation. Each round draws a cohort of B clients
among those that do not wait. A cohort's probability is proportional to the product of its clients'
weights. This is the *product design*.

Consider a window of ``R + 1`` consecutive cohorts. Its stationary law is proportional to the
product of the weights of all clients in the window. This law is symmetric in the order of the
cohorts, hence shift-invariant. Given the R older cohorts, it gives the newest cohort its
probability under the design. So all clients in the window are a conditional Poisson sample of size
``n = (R + 1) B``. A client's share of the selections is its inclusion probability over n.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from fedjax_links.analysis import _checks

# Complex entries in memory at a time: 128 KiB, which stay in the cache.
_CHUNK_ELEMENTS = 2**13
# Logarithm of the probability that the trapezoidal sum may attribute to a wrong count.
_LOG_TOLERANCE = np.log(1e-18)


def inclusion_probabilities(weights: ArrayLike, sample_size: int) -> np.ndarray:
    r"""Computes the inclusion probabilities of conditional Poisson sampling.

    A set of ``n`` clients is drawn with probability proportional to the product of its clients'
    weights. So client i is in the set with probability ``p_i e_{n-1}(p_{-i}) / e_n(p)``, where
    ``e_k`` is the elementary symmetric polynomial. These polynomials over- and underflow.
    Therefore the computation regards ``lambda p_i`` as the odds of an independent link, which is up
    with probability ``q_i = lambda p_i / (1 + lambda p_i)``. lambda is such that about n links are
    up. With S the number of links that are up, client i's probability is
    ``q_i P(S_{-i} = n - 1) / P(S = n)``. Both laws come from the characteristic function by a
    trapezoidal sum over a few standard deviations of S. The cost is O(N^1.5) operations, in bounded
    memory.

    Args:
      weights: float[N], positive, of any scale.
      sample_size: n, from 1 to N.

    Returns:
      float64[N], in (0, 1], summing to n.

    Raises:
      ValueError: if a weight is not positive or ``sample_size`` is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.inclusion_probabilities([1.0, 1.0, 2.0], 2).round(3))
      [0.6 0.6 0.8]

    References:
      Chen, Dempster and Liu, Weighted finite population sampling to maximize entropy, Biometrika
      1994, for the design.
    """
    weights = _checks.checked_weights('weights', weights)
    num_clients = weights.size
    log_weights = np.log(weights)
    size = _checks.checked_int(
        'sample_size', sample_size, minimum=1, maximum=num_clients
    )
    if size == num_clients:
        return np.ones(num_clients)
    logits = log_weights + _tilt(log_weights, size)
    up = special.expit(logits)
    down = special.expit(-logits)
    angles, weights_of_angles = _half_circle(np.sqrt(np.sum(up * down)), num_clients)
    z = np.exp(1j * angles)
    num_chunks = math.ceil(num_clients * angles.size / _CHUNK_ELEMENTS)
    chunks = np.array_split(logits, num_chunks)

    def factors(chunk: np.ndarray) -> np.ndarray:
        return special.expit(-chunk)[:, None] + special.expit(chunk)[:, None] * z

    products = [np.prod(factors(chunk), axis=0) for chunk in chunks]
    spectrum = weights_of_angles * np.prod(products, axis=0)
    # P(S = n), and for each client P(S_{-i} = n - 1).
    normaliser = np.sum(spectrum * z**-size).real
    shifted = spectrum * z ** (1 - size)
    # Elementwise on purpose: the threads of a matrix product cost more than products this small.
    without = [np.sum(shifted / factors(chunk), axis=1).real for chunk in chunks]
    return np.minimum(up * np.concatenate(without) / normaliser, 1.0)


def minimum_separation_stationary(
    weights: ArrayLike, separation: int, cohort_size: int = 1
) -> np.ndarray:
    """Computes the stationary selection law of minimum separation with the product design.

    ``pi_R(i) = p_i e_{n-1}(p_{-i}) / (n e_n(p))`` with ``n = (R + 1) B``. With B = 1 all designs
    coincide. For a separation per client or another design see `minimum_separation_chain`.

    Args:
      weights: float[N], positive selection weights of any scale, of clients or of whole groups.
      separation: R, number of rounds a client waits after each participation, at least 0.
      cohort_size: B, clients per round, with ``(R + 1) B <= N``.

    Returns:
      float64[N], the share of all selections that falls on each client; sums to 1. Client i is
      active in a fraction ``B pi_R(i)`` of the rounds.

    Raises:
      ValueError: if a weight is not positive or too few clients remain to fill a cohort.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.minimum_separation_stationary([0.25, 0.25, 0.5], separation=1).round(3))
      [0.3 0.3 0.4]

    References:
      Sun et al., Debiasing Federated Learning with Correlated Client Participation, ICLR 2025,
      Eq. (6), Propositions 1 and 3 (in the paper as the solution of a linear system).
    """
    weights = _checks.checked_weights('weights', weights)
    wait = _checks.checked_int('separation', separation, minimum=0)
    cohort = _checks.checked_int('cohort_size', cohort_size, minimum=1)
    size = (wait + 1) * cohort
    requirement = f'leave `cohort_size` {cohort} of {weights.size} clients selectable'
    _checks.require(size <= weights.size, 'separation', requirement, wait)
    return inclusion_probabilities(weights, size) / size


def minimum_separation_curve(weights: ArrayLike, cohort_size: int = 1) -> np.ndarray:
    """Computes the stationary selection laws for all feasible separations, product design.

    Args:
      weights: float[N], positive selection weights of any scale.
      cohort_size: B, clients per round, at most N.

    Returns:
      float64[M, N] with ``M = N // B``; row R is `minimum_separation_stationary` for separation R.
      The last row is uniform if B divides N.

    Raises:
      ValueError: if a weight is not positive or ``cohort_size`` is out of range.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.minimum_separation_curve([0.25, 0.25, 0.5]).round(3))
      [[0.25  0.25  0.5  ]
       [0.3   0.3   0.4  ]
       [0.333 0.333 0.333]]

    References:
      Sun et al., ICLR 2025, Figure 1 (``abs(curve - 1/N).sum(axis=1)``).
    """
    weights = _checks.checked_weights('weights', weights)
    cohort = _checks.checked_int(
        'cohort_size', cohort_size, minimum=1, maximum=weights.size
    )
    separations = range(weights.size // cohort)
    return np.stack(
        [minimum_separation_stationary(weights, R, cohort) for R in separations]
    )


def debiasing_weights(selection_law: ArrayLike) -> np.ndarray:
    """Computes the ideal scale of local steps in Debiasing FedAvg, ``nu_i = 1 / (N pi(i))``.

    Args:
      selection_law: float[N], positive shares of the selections that sum to 1.

    Returns:
      float64[N]; all ones for a uniform law.

    Raises:
      ValueError: if an entry is not positive or the law does not sum to 1.

    Example:
      >>> from fedjax_links import analysis
      >>> print(analysis.debiasing_weights([0.2, 0.3, 0.5]).round(3))
      [1.667 1.111 0.667]

    References:
      Sun et al., ICLR 2025, Lemma 2.
    """
    law = _checks.checked_law('selection_law', selection_law)
    _checks.checked_weights('selection_law', law)
    return 1.0 / (law.size * law)


def _tilt(log_weights: np.ndarray, size: int) -> float:
    """Returns the logarithm of lambda for which ``size - 1/2`` links are up on average.

    The counts n and n - 1 are then both near the mode. So the probabilities of clients that are
    rarely in the set are as precise, in relative terms, as those of other clients.
    """
    num_clients = log_weights.size
    margin = np.log(2.0 * num_clients) + 1.0
    low = -log_weights.max() - margin
    high = -log_weights.min() + margin

    def excess(tilt: float) -> float:
        return float(special.expit(log_weights + tilt).sum()) - (size - 0.5)

    return float(optimize.brentq(excess, low, high, xtol=1e-6))


def _half_circle(deviation: float, num_clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns angles of a trapezoidal sum on half the unit circle, and their weights.

    A sum over m points is exact up to the probability of counts that are a multiple of m away.
    Bernstein's inequality bounds this probability. An odd m avoids the angle pi, where a factor
    may vanish. Complex conjugation halves the work.
    """
    needed = -_LOG_TOLERANCE + np.log1p(deviation)
    reach = needed / 3.0 + np.sqrt((needed / 3.0) ** 2 + 2.0 * needed * deviation**2)
    half = min(int(np.ceil(reach)) + 2, num_clients + 1) // 2 + 1
    points = 2 * half + 1
    angles = 2.0 * np.pi * np.arange(half + 1) / points
    return angles, np.append(1.0, np.full(half, 2.0)) / points
