r"""Measures how regular a participation pattern is, as Assumption 3 of amplified FedAvg needs.

The weight of client n in round t is ``q_t^n``: ``1 / |A|`` for the clients in the set A of active
clients, else 0. Blocks of P rounds begin at ``t_0 = 0, P, 2 P, ...``. A pattern is regular with P
if each client's mean weight over each block is 1/N.

References:
  Wang and Ji, NeurIPS 2022, Assumption 3.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.analysis import _checks, cohort_sizes
from fedjax_links.analysis.theorems import _numbers

# How far a round's sum of weights may exceed 1, as float32 rounding does.
_SUM_TOLERANCE = 1e-6


class PatternConstants(NamedTuple):
    """Holds constants of Assumption 3 for recorded weights q_t^n and gradient differences g_n.

    Attributes:
      block_deviation: delta~^2(P), the largest ``||1/P sum_t sum_n q_t^n g_n||^2`` of a block.
      mean_block_deviation: mean of the same squared norm over blocks.
      standard_error: standard error of ``mean_block_deviation``, from the spread of the blocks;
        NaN for fewer than two blocks.
      round_deviation: beta~^2, the largest ``||sum_n q_t^n g_n||^2`` of a round.
      round_divergence: nu~^2, the largest ``sum_n q_t^n ||g_n - sum_m q_t^m g_m||^2`` of a round.
      largest_weight_square: rho^2, the largest ``sum_n (q_t^n)^2`` of a round.
      num_empty: rounds without an active client, which Assumption 3 excludes. All
        weights of such a round are 0.
    """

    block_deviation: float
    mean_block_deviation: float
    standard_error: float
    round_deviation: float
    round_divergence: float
    largest_weight_square: float
    num_empty: int


class BlockDistances(NamedTuple):
    """Holds distances of the blocks' weights from equal weights.

    Attributes:
      distances: float64[B], ``sum_n |1/P sum_t q_t^n - 1/N|`` for each whole block; 0 to 2.
      mean: the mean distance.
      standard_error: standard error of the mean, from the spread of the blocks; NaN for fewer
        than two blocks.
      largest: the largest distance. ``delta~(P)`` is at most this distance times the largest
        ``||grad F_n - grad f||``.
    """

    distances: np.ndarray
    mean: float
    standard_error: float
    largest: float


def participation_weights(masks: ArrayLike) -> np.ndarray:
    """Computes the weights ``q_t^n`` of averaging over the active clients.

    Args:
      masks: bool[T, N], or 0 and 1: who takes part.

    Returns:
      float64[T, N]; rows sum to 1, or to 0 where nobody takes part.

    Raises:
      ValueError: if ``masks`` is empty, not of two axes, or has other entries.

    Example:
      >>> from fedjax_links.analysis.theorems import regularity
      >>> print(regularity.participation_weights([[1, 1], [0, 1]]))
      [[0.5 0.5]
       [0.  1. ]]

    References:
      Wang and Ji, NeurIPS 2022, Algorithm 1.
    """
    active = _checks.checked_masks('masks', masks, ndim=2).astype(np.float64)
    sizes = active.sum(axis=1, keepdims=True)
    return active / np.where(sizes > 0, sizes, 1.0)


def block_distances(weights: ArrayLike, period: int) -> BlockDistances:
    """Measures how far blocks of P rounds are from equal weights of all clients.

    The distance is the factor in a bound on ``delta~(P)`` that the pattern alone determines.

    Args:
      weights: float[T, N], ``q_t^n``; no round's sum exceeds 1. Rounds after the last
        whole block are left out.
      period: P, from 1 to T.

    Returns:
      The distances, one for each block.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import regularity
      >>> weights = regularity.participation_weights([[1, 0], [0, 1]] * 4)
      >>> print([regularity.block_distances(weights, period).mean for period in (1, 2)])
      [1.0, 0.0]

    References:
      Wang and Ji, NeurIPS 2022, Assumption 3.
    """
    distances = _distances(_checked_weights(weights), period)
    mean, error = _mean_and_error(distances)
    return BlockDistances(distances, mean, error, float(distances.max()))


def regular_period(
    weights: ArrayLike, *, tolerance: float = 1e-9, max_period: int | None = None
) -> int | None:
    """Finds the least P with which a recorded pattern is regular.

    A pattern is regular with P if each client's mean weight is 1/N over every block of P rounds.
    Then ``delta~(P) = 0``. A pattern with an empty round in a block is not regular.

    Args:
      weights: float[T, N], ``q_t^n``; no round's sum exceeds 1.
      tolerance: largest distance of a block, as in `block_distances`, that counts as equal.
      max_period: the largest P tried; T / 2 by default, so that the record has two blocks.

    Returns:
      P, or None if no period up to the largest is regular.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import regularity
      >>> weights = regularity.participation_weights([[1, 0, 0], [0, 1, 0], [0, 0, 1]] * 4)
      >>> print(regularity.regular_period(weights))
      3

    References:
      Wang and Ji, NeurIPS 2022, regularized participation.
    """
    round_weights = _checked_weights(weights)
    num_rounds, num_clients = round_weights.shape
    limit = max(1, num_rounds // 2) if max_period is None else max_period
    limit = _checks.checked_int('max_period', limit, minimum=1, maximum=num_rounds)
    tolerance = _checks.checked_at_least_zero('tolerance', tolerance)
    sums = np.concatenate(
        [np.zeros((1, num_clients)), np.cumsum(round_weights, axis=0)]
    )
    for period in range(1, limit + 1):
        # Most periods fail in the first block already, so check it first.
        first_mean = sums[period] / period
        if np.abs(first_mean - 1.0 / num_clients).sum() > tolerance:
            continue
        ends = np.arange(period, num_rounds + 1, period)
        means = (sums[ends] - sums[ends - period]) / period
        if np.abs(means - 1.0 / num_clients).sum(axis=1).max() <= tolerance:
            return period
    return None


def pattern_constants(
    weights: ArrayLike, gradient_differences: ArrayLike, period: int
) -> PatternConstants:
    r"""Computes the constants of Assumption 3 for recorded weights and a problem's gradients.

    The differences ``g_n = grad F_n(x) - grad f(x)`` must be the same at every x. This holds for
    quadratics that share one Hessian H, where ``g_n = H (x* - u_n)``. With different Hessians the
    differences grow without bound in x, and Assumption 3 fails.

    Args:
      weights: float[T, N], ``q_t^n``; no round's sum exceeds 1.
      gradient_differences: float[N, d], g_n; they sum to zero over clients.
      period: P, from 1 to T.

    Returns:
      The constants.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    Example:
      >>> from fedjax_links.analysis.theorems import regularity
      >>> weights = regularity.participation_weights([[1, 0], [0, 1]] * 4)
      >>> constants = regularity.pattern_constants(weights, [[3.0], [-3.0]], 2)
      >>> print(constants.block_deviation, constants.round_deviation)
      0.0 9.0

    References:
      Wang and Ji, NeurIPS 2022, Assumption 3 as its appendix C uses it.
    """
    round_weights = _checked_weights(weights)
    vectors = _checks.checked_targets(
        'gradient_differences', gradient_differences, round_weights.shape[1]
    ).reshape(round_weights.shape[1], -1)
    by_round = round_weights @ vectors
    round_squares = np.sum(by_round**2, axis=1)
    by_block = np.sum((_block_means(round_weights, period) @ vectors) ** 2, axis=1)
    # sum q ||g_n - sum q g||^2 = sum q ||g_n||^2 - (2 - sum q) ||sum q g||^2.
    totals = round_weights.sum(axis=1)
    spread = round_weights @ np.sum(vectors**2, axis=1) - (2.0 - totals) * round_squares
    divergence = float(max(spread.max(), 0.0))
    return _pattern_constants(round_weights, by_block, round_squares, divergence)


def pattern_bounds(
    weights: ArrayLike, dissimilarity: float, period: int
) -> PatternConstants:
    r"""Bounds the constants of Assumption 3 where only ``||g_n|| <= G`` is known.

    ``||sum_n a_n g_n|| <= G sum_n |a_n - 1/N|`` because the g_n sum to zero, and
    ``sum_n q^n ||g_n - sum_k q^k g_k||^2 <= G^2`` in rounds whose weights sum to 1.

    Args:
      weights: float[T, N], ``q_t^n``; no round's sum exceeds 1.
      dissimilarity: G, at least 0, in the units of a gradient; infinite if it has no bound.
      period: P, from 1 to T.

    Returns:
      Upper bounds on what `pattern_constants` computes. ``largest_weight_square`` and
      ``num_empty`` depend on the weights alone, and are exact.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import regularity
      >>> weights = regularity.participation_weights([[1, 0], [0, 1]] * 4)
      >>> print(regularity.pattern_bounds(weights, 3.0, 2).round_deviation)
      9.0

    References:
      Wang and Ji, NeurIPS 2022, Assumption 3.
    """
    round_weights = _checked_weights(weights)
    largest = _numbers.at_least_zero('dissimilarity', dissimilarity)
    by_block = _square_bounds(largest, _distances(round_weights, period))
    by_round = _square_bounds(largest, _distances(round_weights, 1))
    return _pattern_constants(round_weights, by_block, by_round, largest**2)


def independent_block_deviation(
    probs: ArrayLike, gradient_differences: ArrayLike, period: int
) -> float:
    r"""Computes the mean of delta~^2(P) exactly for independent links.

    Links are independent over clients and rounds. Rounds without an active client are drawn again,
    so that Assumption 3 holds. Let w be the weights of FedAvg, and V the covariance of a round's
    ``sum_n q^n g_n``. The mean is ``||sum_n w_n g_n||^2 + trace(V) / P``. The first part is
    FedAvg's bias and stays for every P.

    Args:
      probs: float[N], participation probabilities in [0, 1], at least one positive.
      gradient_differences: float[N, d], as in `pattern_constants`.
      period: P, at least 1.

    Returns:
      ``E ||1/P sum_t sum_n q_t^n g_n||^2``.

    Raises:
      ValueError: if an argument is out of range or the shapes disagree.

    Example:
      >>> from fedjax_links.analysis.theorems import regularity
      >>> for period in (1, 10, 100):
      ...     print(round(regularity.independent_block_deviation(
      ...         [0.5, 0.5], [[1.0], [-1.0]], period), 6))
      0.666667
      0.066667
      0.006667

    References:
      Wang and Ji, NeurIPS 2022, independent participation.
    """
    link_probs = _checks.checked_some_link('probs', probs)
    vectors = _checks.checked_targets(
        'gradient_differences', gradient_differences, link_probs.size
    ).reshape(link_probs.size, -1)
    block_rounds = _numbers.at_least_one('period', period)
    non_empty_prob = cohort_sizes.non_empty_probability(link_probs)
    weights = cohort_sizes.reciprocal_means(link_probs) / non_empty_prob
    mean = weights @ vectors
    # The covariance of a round's sum, where empty rounds are drawn again.
    deviations = vectors - mean
    covariance = cohort_sizes.mean_covariance(link_probs, deviations) / non_empty_prob
    return float(mean @ mean + np.trace(covariance) / block_rounds)


def uniform_cohort_block_deviation(
    gradient_differences: ArrayLike, cohort_size: int, period: int
) -> float:
    r"""Computes the mean of delta~^2(P) exactly for a uniform cohort in each round.

    Each round draws a simple random sample of S clients without replacement. The mean is
    ``(1/S - 1/N) N / (N - 1) mean_n ||g_n||^2 / P``. For S < N the pattern is not regular, but this
    mean falls with P.

    Args:
      gradient_differences: float[N, d], as in `pattern_constants`.
      cohort_size: S, from 1 to N.
      period: P, at least 1.

    Returns:
      ``E ||1/P sum_t sum_n q_t^n g_n||^2``.

    Raises:
      ValueError: if an argument is out of range.

    Example:
      >>> from fedjax_links.analysis.theorems import regularity
      >>> print(regularity.uniform_cohort_block_deviation([[1.0], [-1.0]], 1, 4))
      0.25

    References:
      Wang and Ji, NeurIPS 2022, independent participation of a subset of clients.
    """
    vectors = _numbers.client_vectors('gradient_differences', gradient_differences)
    num_clients = len(vectors)
    size = _checks.checked_int(
        'cohort_size', cohort_size, minimum=1, maximum=num_clients
    )
    block_rounds = _numbers.at_least_one('period', period)
    if num_clients == 1:
        return float(np.sum(vectors**2))
    spread = np.sum((vectors - vectors.mean(axis=0)) ** 2) / (num_clients - 1)
    # Zero for gradient differences, which sum to zero.
    bias = np.sum(vectors.mean(axis=0) ** 2)
    return float(bias + spread * (1.0 / size - 1.0 / num_clients) / block_rounds)


def _checked_weights(weights: ArrayLike) -> np.ndarray:
    """Returns weights as float64[T, N], after a check that no round's sum exceeds 1."""
    round_weights = _checks.as_doubles('weights', weights)
    is_table = round_weights.ndim == 2 and round_weights.size > 0
    shape = f'shape {round_weights.shape}'
    _checks.require(is_table, 'weights', 'be a non-empty [T, N]', shape)
    round_weights = _checks.checked_rate('weights', round_weights)
    sums = round_weights.sum(axis=1)
    is_valid = sums <= 1.0 + _SUM_TOLERANCE
    _checks.checked('weights', sums, is_valid, 'sum to at most 1', ' in round {}')
    return round_weights


def _block_means(round_weights: np.ndarray, period: int) -> np.ndarray:
    """Averages weights over whole blocks, [T // P, N]."""
    size = _checks.checked_int('period', period, minimum=1, maximum=len(round_weights))
    count = len(round_weights) // size
    return round_weights[: count * size].reshape(count, size, -1).mean(axis=1)


def _distances(round_weights: np.ndarray, period: int) -> np.ndarray:
    """Returns the L1 distance of each whole block's mean weights from equal weights, [T // P]."""
    means = _block_means(round_weights, period)
    return np.abs(means - 1.0 / round_weights.shape[1]).sum(axis=1)


def _square_bounds(dissimilarity: float, distances: np.ndarray) -> np.ndarray:
    """Returns ``(G distance)^2`` of each block; 0 for equal weights, even if G is infinite."""
    return (np.where(distances > 0, dissimilarity, 0.0) * distances) ** 2


def _pattern_constants(
    round_weights: np.ndarray,
    block_squares: np.ndarray,
    round_squares: np.ndarray,
    round_divergence: float,
) -> PatternConstants:
    """Returns constants from the squared deviations of blocks and of rounds."""
    mean, error = _mean_and_error(block_squares)
    return PatternConstants(
        block_deviation=float(block_squares.max()),
        mean_block_deviation=mean,
        standard_error=error,
        round_deviation=float(round_squares.max()),
        round_divergence=round_divergence,
        largest_weight_square=float(np.sum(round_weights**2, axis=1).max()),
        num_empty=int(np.sum(round_weights.sum(axis=1) == 0)),
    )


def _mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Returns the mean of independent values and its standard error."""
    if values.size < 2:
        return float(values.mean()), math.nan
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))
