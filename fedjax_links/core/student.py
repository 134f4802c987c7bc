"""Judges means by Student's t, by mixtures of t distributions, and where values are equal."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

EFFECT_VARIANCE = 4.0
"""Variance of the effect sizes over which `likelihood_ratio` averages.

Such effects are large enough for four seeds to show.
"""
# Chosen: metrics are float32, and a mean over examples may round several times.
_ROUNDING = 4 * float(np.finfo(np.float32).eps)


def mixture_cdf(
    rows: NDArray[np.float64], weights: NDArray[np.float64], at: float
) -> float:
    """Returns the probability that a mixture puts below a point.

    The k-th component of the mixture is the Student-t distribution of the mean of row k.

    Args:
      rows: float[K, S], row k holds the values of component k; rows with NaN have no probability.
      weights: float[K], of the rows in the mixture.
      at: the point.
    """
    from scipy import special  # Only tables need it.

    num_values = rows.shape[1]
    is_known = ~np.isnan(rows).any(axis=1)
    means = rows[is_known].mean(axis=1)
    spread = rows[is_known].std(axis=1, ddof=1)
    with np.errstate(divide='ignore', invalid='ignore'):
        t = (at - means) / (spread / math.sqrt(num_values))
    # Equal values at the point itself, 0 / 0, count half.
    below = special.stdtr(num_values - 1, np.where(np.isnan(t), 0.0, t))
    return float(weights[is_known] @ below)


def mixture_p_value(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Returns the two-sided p-value of zero under the mixture of `mixture_cdf`.

    A row that diverged, with NaN, counts on both sides of zero. A row of equal values also counts
    on both sides, but only times `chance_of_equal`.

    Args:
      rows: float[K, S], as in `mixture_cdf`.
      weights: float[K].
    """
    below = mixture_cdf(rows, weights, 0.0)
    above = mixture_cdf(-rows, weights, 0.0)
    has_diverged = np.isnan(rows).any(axis=1)
    is_equal = are_equal(rows, axis=1)
    diverged = weights[has_diverged].sum()
    # Half of the chance for each side of zero, as the p-value below doubles one side.
    equal = weights[is_equal].sum() * chance_of_equal(rows.shape[1]) / 2
    on_either_side = float(diverged + equal)
    return min(1.0, 2 * (min(below, above) + on_either_side))


def likelihood_ratio(t: float, count: int) -> float:
    """Returns the likelihood averaged over effect sizes, divided by the likelihood of one mean.

    The effect sizes are normal, with mean zero and variance `EFFECT_VARIANCE`.
    `evaluation.decide` has the formula.

    Args:
      t: Student's t about the one mean.
      count: number of values, at least 2.
    """
    variance = 1 + count * EFFECT_VARIANCE  # Of t under the mixture; 1 under one mean.
    # Each likelihood is a constant times its sum of squares to the power of -count / 2.
    one_mean_squares = 1 + t**2 / (count - 1)
    mixture_squares = 1 + t**2 / ((count - 1) * variance)
    log_squares_ratio = math.log(one_mean_squares) - math.log(mixture_squares)
    log_ratio = count / 2 * log_squares_ratio - math.log(variance) / 2
    # The exponential overflows above 709.
    return math.exp(min(log_ratio, 700.0))


def largest_t(count: int, level: float) -> float:
    """Returns the largest t that is not rejected; infinite where none is rejected.

    A t is rejected if its `likelihood_ratio` exceeds ``1 / (1 - level)``.

    Args:
      count: number of values.
      level: coverage, in [0, 1].
    """
    variance = 1 + count * EFFECT_VARIANCE
    if level >= 1:
        return math.inf
    # The largest `one_mean_squares / mixture_squares` that is not rejected.
    squares_ratio = (math.sqrt(variance) / (1 - level)) ** (2 / count)
    if squares_ratio >= variance:
        return math.inf
    return math.sqrt((count - 1) * (squares_ratio - 1) / (1 - squares_ratio / variance))


def are_equal(values: ArrayLike, axis: int = 0) -> NDArray[np.bool_]:
    """Returns where values agree up to the rounding of single precision: bool[...].

    Values that are not finite agree with none.

    Args:
      values: float[..., S, ...].
      axis: the axis of the S values.
    """
    values = np.asarray(values, np.float64)
    return _is_rounding(values, np.abs(values), axis)


def chance_of_equal(count: int) -> float:
    """Returns the chance that ``count`` fair signs agree.

    Equal values have no spread to judge their mean by, so only their signs count. Under a
    distribution that is symmetric around zero, all signs agree with this probability or less.
    """
    return 2.0 ** (1 - count)


def equal_values_suffice(count: int, level: float) -> bool:
    """Returns whether ``count`` equal values suffice to distinguish their mean from others."""
    return chance_of_equal(count) <= 1 - level


def divergence_suffices(num_diverged: int, num_seeds: int) -> bool:
    """Returns whether diverged runs distinguish an algorithm from one whose runs all converged.

    Suppose that a run of either algorithm diverges with the same probability q. The probability
    that only one of the algorithms diverges, and does so k times or more, is at most
    ``2 (1 - q)^S P(Binomial(S, q) >= k)``. For all q this bound is below 4.1 % if k is at least
    four, or if all of three runs diverged.

    Args:
      num_diverged: k, how many runs of the one algorithm diverged.
      num_seeds: S, the number of runs of each algorithm.
    """
    least = 3 if num_seeds == 3 else 4
    return num_diverged >= least


def paired(values: ArrayLike, baseline: ArrayLike) -> NDArray[np.float64]:
    """Returns differences of single-precision numbers; equal differences get the same bits.

    Differences such as 0.84 - 0.83 and 0.75 - 0.74 differ by the rounding of their terms alone.

    Args:
      values: float[S, ...].
      baseline: float[S, ...].
    """
    values = np.asarray(values, np.float64)
    baseline = np.asarray(baseline, np.float64)
    with np.errstate(invalid='ignore'):  # Where both diverged, inf - inf.
        differences = values - baseline
    magnitudes = np.maximum(np.abs(values), np.abs(baseline))
    is_equal = _is_rounding(differences, magnitudes, axis=0)
    first_difference = differences[:1]
    return np.where(is_equal, first_difference, differences)


def _is_rounding(
    results: NDArray[np.float64], magnitudes: NDArray[np.float64], axis: int
) -> NDArray[np.bool_]:
    """Returns where results differ by no more than the rounding of the numbers behind them.

    Args:
      results: float64[..., S, ...], values or differences; a result that is not finite differs from
        all others.
      magnitudes: float64[..., S, ...], the largest number that each result comes from.
      axis: the axis of the S results.
    """
    largest = magnitudes.max(axis=axis)
    with np.errstate(invalid='ignore'):
        spread = np.ptp(results, axis=axis)
    equal: NDArray[np.bool_] = np.isfinite(largest) & (spread <= _ROUNDING * largest)
    return equal
