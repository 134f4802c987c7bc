"""Student's t: mixtures of its law, any number of values, and values that are all equal."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

EFFECT_VARIANCE = 4.0  # of the mixed effect sizes: of large effects four seeds can tell
_ROUNDING = 4 * float(
    np.finfo(np.float32).eps
)  # of metrics, which programs compute as float32


def mixture_cdf(
    rows: NDArray[np.float64], shares: NDArray[np.float64], at: float
) -> float:
    """Returns the probability below a point of a mixture of the laws of means.

    Args:
      rows: float[K, S], the values that each mean is of; those with NaN have no probability.
      shares: float[K], of each row.
      at: the point.
    """
    from scipy import special  # only tables need it

    known = ~np.isnan(rows).any(axis=1)
    means, spread = rows[known].mean(axis=1), rows[known].std(axis=1, ddof=1)
    with np.errstate(divide='ignore', invalid='ignore'):
        t = (at - means) / (spread / math.sqrt(rows.shape[1]))
    below = special.stdtr(rows.shape[1] - 1, np.where(np.isnan(t), 0.0, t))
    return float(shares[known] @ below)


def mixture_p_value(rows: NDArray[np.float64], shares: NDArray[np.float64]) -> float:
    """Returns the two-sided p-value of zero under a mixture of the laws of means.

    What diverged may lie on either side, and so may, as far as signs tell, what is equal.

    Args:
      rows: float[K, S], as in `mixture_cdf`.
      shares: float[K].
    """
    below = mixture_cdf(rows, shares, 0.0)
    above = mixture_cdf(-rows, shares, 0.0)
    diverged = np.isnan(rows).any(axis=1)
    equal = are_equal(rows, axis=1)
    untold = (
        shares[diverged].sum()
        + shares[equal].sum() * chance_of_equal(rows.shape[1]) / 2
    )
    return min(1.0, 2 * (min(below, above) + float(untold)))


def likelihood_ratio(t: float, count: int) -> float:
    """Returns the mixture likelihood of all means over that of one mean; see `evaluation.decide`.

    Args:
      t: Student's t about the one mean.
      count: number of values, at least 2.
    """
    widened = 1 + count * EFFECT_VARIANCE
    unlike = 1 + t**2 / (count - 1)
    unlike_mixed = 1 + t**2 / ((count - 1) * widened)
    log_ratio = (
        count / 2 * (math.log(unlike) - math.log(unlike_mixed)) - math.log(widened) / 2
    )
    return math.exp(min(log_ratio, 700.0))


def largest_t(count: int, level: float) -> float:
    """Returns the largest t that is not refused; infinite where every t is kept.

    Args:
      count: number of values.
      level: coverage, in [0, 1].
    """
    widened = 1 + count * EFFECT_VARIANCE
    most = (math.sqrt(widened) / (1 - level)) ** (2 / count) if level < 1 else math.inf
    if most >= widened:
        return math.inf
    return math.sqrt((count - 1) * (most - 1) / (1 - most / widened))


def are_equal(values: ArrayLike, axis: int = 0) -> NDArray[np.bool_]:
    """Returns where values agree up to the rounding of single precision: bool[...].

    Args:
      values: float[..., S, ...].
      axis: that of the S values.
    """
    values = np.asarray(values, np.float64)
    largest = np.abs(values).max(axis=axis)
    equal: NDArray[np.bool_] = np.ptp(values, axis=axis) <= _ROUNDING * largest
    return equal


def chance_of_equal(count: int) -> float:
    """Returns the chance that so many fair signs agree.

    Equal values have no spread to judge their mean by. Their signs remain: of a symmetric law
    around zero, ``count`` of them agree with this probability or less.
    """
    return 2.0 ** (1 - count)


def equal_tell(count: int, level: float) -> bool:
    """Returns whether so many equal values are enough to tell their mean from others."""
    return chance_of_equal(count) <= 1 - level


def divergence_tells(num_diverged: int, num_seeds: int) -> bool:
    """Returns whether runs that diverged tell an algorithm from one whose runs all converged.

    Were both to diverge with the same chance q, one of them would be alone in diverging so often
    with a probability of at most ``2 (1 - q)^S P(Binomial(S, q) >= k)``. For every q that is below
    4 % of four runs or more, and of three where there are no others.

    Args:
      num_diverged: k, how many runs of the one diverged.
      num_seeds: S, the runs of each.
    """
    return num_diverged >= (3 if num_seeds == 3 else 4)


def paired(values: ArrayLike, baseline: ArrayLike) -> NDArray[np.float64]:
    """Returns differences of single-precision numbers; equal ones have no rounding left.

    Differences such as 0.84 - 0.83 and 0.75 - 0.74 differ by the rounding of their parts alone.

    Args:
      values: float[S, ...].
      baseline: float[S, ...].
    """
    ours, theirs = np.asarray(values, np.float64), np.asarray(baseline, np.float64)
    differences = ours - theirs
    largest = np.maximum(np.abs(ours), np.abs(theirs)).max(axis=0)
    equal = np.ptp(differences, axis=0) <= _ROUNDING * largest
    return np.where(equal, differences[:1], differences)
