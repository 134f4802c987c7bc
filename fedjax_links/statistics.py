"""Statistics over seeds: intervals, p-values and anytime verdicts, all on the host."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import checks, errors, student

AHEAD = 'ahead'
BEHIND = 'behind'
EQUIVALENT = 'equivalent'
UNDECIDED = 'not decided'

_Doubles = NDArray[np.float64]

_ROUNDING_OF_SHARES = 1e-9  # By how much the sum of shares may differ from 1.


class Interval(NamedTuple):
    """Holds a mean over seeds with its confidence interval.

    Attributes:
      mean: float[...].
      half_width: float[...], half the width of the interval; NaN where it is unknown.
      num_seeds: number of seeds.
    """

    mean: NDArray[np.float64]
    half_width: NDArray[np.float64]
    num_seeds: int

    @property
    def excludes_zero(self) -> NDArray[np.bool_]:
        """Returns where zero lies outside the interval, bool[...]; false where it is unknown."""
        return np.abs(self.mean) > self.half_width


def seed_interval(values: ArrayLike, *, axis: int = 0, level: float = 0.95) -> Interval:
    """Returns the Student-t interval of the mean over independent seeds.

    Equal values, such as accuracies on few examples, have no spread. Their interval is unknown
    until ``2^(1 - S) <= 1 - level``, which at 95 % takes six seeds. From then on its width is zero.

    Args:
      values: float[..., S, ...], one entry per seed along ``axis``.
      axis: the seed axis.
      level: coverage if the values were normal, in [0, 1].

    Returns:
      Mean and half width with the seed axis removed.

    Raises:
      ValueError: for a level outside [0, 1] or an empty seed axis.

    Example:
      >>> from fedjax_links import evaluation
      >>> interval = evaluation.seed_interval([0.80, 0.82, 0.84])
      >>> print(round(float(interval.mean), 3), round(float(interval.half_width), 3))
      0.82 0.05
    """
    from scipy import special  # imported here because only tables of results need it

    checks.number_within('level', level, 0, 1)
    values = _doubles('values', values)
    if not values.ndim:
        raise errors.invalid('values', 'have a seed axis', values)
    lowest = -values.ndim
    checks.static_int('axis', axis, minimum=lowest, maximum=values.ndim - 1)
    num_seeds = values.shape[axis]
    if num_seeds == 0:
        raise errors.invalid('values', 'have at least one seed', list(values.shape))
    with np.errstate(invalid='ignore'):  # An infinite value is a run that diverged.
        mean = values.mean(axis=axis)
        if num_seeds == 1:
            return Interval(mean, np.full_like(mean, np.nan), 1)
        standard_error = values.std(axis=axis, ddof=1) / np.sqrt(num_seeds)
    quantile = special.stdtrit(num_seeds - 1, (1 + level) / 2)
    half_width = quantile * standard_error
    if not student.equal_values_suffice(num_seeds, level):
        half_width = np.where(student.are_equal(values, axis), np.nan, half_width)
    return Interval(mean, half_width, num_seeds)


def paired_interval(
    values: ArrayLike, baseline: ArrayLike, *, level: float = 0.95
) -> Interval:
    """Returns the interval of the mean difference to a baseline with the same seeds.

    Args:
      values: float[S, ...].
      baseline: float[S, ...], the same seeds in the same order.
      level: coverage, in [0, 1].

    Returns:
      Mean of ``values - baseline`` and its half width.

    Raises:
      ValueError: if the shapes differ, for values that are no numbers, or a level outside [0, 1].
    """
    minuend = _doubles('values', values)
    subtrahend = _doubles('baseline', baseline)
    if minuend.shape != subtrahend.shape:
        requirement = f'have the shape of `values` {list(minuend.shape)}'
        raise errors.invalid('baseline', requirement, list(subtrahend.shape))
    return seed_interval(student.paired(minuend, subtrahend), level=level)


def chosen_interval(
    values: ArrayLike, shares: ArrayLike, *, level: float = 0.95
) -> Interval:
    """Returns a confidence interval that includes the uncertainty of hyperparameter selection.

    The mean is the mean of the first row. Suppose that a row is drawn with the probabilities
    ``shares``: its true mean lies in the interval with probability ``level``. With a single row the
    interval is `seed_interval`'s.

    Args:
      values: float[K, S], a row for what was chosen, then one for each alternative. NaN and
        infinity stand for runs that diverged.
      shares: float[K], the probability that each row would be chosen; they sum to 1.
      level: coverage, in [0, 1].

    Returns:
      The interval.

    Raises:
      ValueError: if shapes do not fit, shares are no probabilities, or the level is outside
        [0, 1].

    Example:
      >>> from fedjax_links import evaluation
      >>> rows = [[0.80, 0.82, 0.84], [0.70, 0.72, 0.74]]
      >>> print(round(float(evaluation.chosen_interval(rows, [0.9, 0.1]).half_width), 3))
      0.104
    """
    from scipy import optimize

    rows, weights = _rows_and_shares(values, shares)
    over_seeds = seed_interval(rows[0], level=level)
    if len(rows) == 1 or not math.isfinite(over_seeds.half_width):
        return over_seeds
    diverged = float(weights[np.isnan(rows).any(axis=1)].sum())
    # The factor allows for the rounding of the sum.
    if diverged >= (1 - level) * (1 - 1e-9):
        # Too many of the alternatives diverged: no finite interval has the coverage.
        return over_seeds._replace(half_width=np.asarray(math.inf))
    centre = float(over_seeds.mean)
    largest_distance = float(np.nanmax(np.abs(rows - centre)))
    upper = largest_distance + float(over_seeds.half_width)
    if upper == 0:  # all values are equal
        return over_seeds

    def missing_coverage(half_width: float) -> float:
        above = student.mixture_cdf(rows, weights, centre + half_width)
        below = student.mixture_cdf(rows, weights, centre - half_width)
        return level - (above - below)

    while missing_coverage(upper) > 0:
        upper *= 2
    half_width = 0.0
    if missing_coverage(half_width) > 0:
        half_width = optimize.brentq(missing_coverage, 0.0, upper)
    return over_seeds._replace(half_width=np.asarray(half_width))


def p_value(values: ArrayLike, shares: ArrayLike = (1.0,)) -> float:
    """Returns the two-sided p-value of the hypothesis that the mean is zero.

    For a single row, the p-value is that of Student's t test. For equal values, the p-value is the
    probability that as many fair signs agree.

    Args:
      values: float[K, S] or float[S], as in `chosen_interval`.
      shares: float[K], as in `chosen_interval`.

    Returns:
      In [0, 1]; 1 for a single seed, NaN where the first row diverged.

    Raises:
      ValueError: if shapes do not fit, or shares are no probabilities.
    """
    rows, weights = _rows_and_shares(np.atleast_2d(_doubles('values', values)), shares)
    if np.isnan(rows[0]).any():
        return math.nan
    if rows.shape[1] == 1:
        return 1.0
    return student.mixture_p_value(rows, weights)


def anytime_p_value(differences: ArrayLike) -> float:
    """Returns a p-value of a mean of zero that stays valid whenever one stops adding seeds.

    The p-value is one over the likelihood ratio of `decide`. For normal differences with mean zero,
    the probability that the p-value ever falls to ``a`` is at most ``a``.

    Args:
      differences: float[S], one per seed.

    Returns:
      In [0, 1]; 1 for a single seed, NaN where one diverged.

    Raises:
      ValueError: for what is no vector, or an empty one.

    Example:
      >>> from fedjax_links import evaluation
      >>> print(round(evaluation.anytime_p_value([1.1, 0.9, 1.0, 1.2, 0.8]), 4))
      0.0052
    """
    values = _differences(differences)
    num_seeds = len(values)
    with np.errstate(invalid='ignore'):  # An infinite value is a run that diverged.
        mean = float(values.mean())
    if not math.isfinite(mean):
        return math.nan
    if num_seeds == 1 or mean == 0:
        return 1.0
    if student.are_equal(values):
        return student.chance_of_equal(num_seeds)
    standard_error = float(values.std(ddof=1)) / math.sqrt(num_seeds)
    t = mean / standard_error
    return min(1.0, 1 / student.likelihood_ratio(t, num_seeds))


def benjamini_hochberg(p_values: ArrayLike, level: float = 0.05) -> NDArray[np.bool_]:
    """Selects the significant tests among many, at a given false discovery rate.

    With ``p_(1) <= ... <= p_(K)`` the smallest k are significant, where k is the largest number
    with

      ``p_(k) <= k level / K``.

    The expected fraction of false discoveries is at most ``level`` for independent tests, and for
    some dependent tests, such as positively correlated tests (Benjamini and Hochberg 1995,
    Controlling the false discovery rate).

    Args:
      p_values: float[K] in [0, 1], one per test. NaN is never significant and counts as a test.
      level: the false discovery rate, in [0, 1].

    Returns:
      bool[K], whether each test is significant.

    Raises:
      ValueError: for p-values that are no vector, or a number outside [0, 1].

    Example:
      >>> from fedjax_links import evaluation
      >>> evaluation.benjamini_hochberg([0.03, 0.001, 0.04, 0.9]).tolist()
      [False, True, False, False]
    """
    checks.number_within('level', level, 0, 1)
    values = _doubles('p_values', p_values)
    if values.ndim != 1:
        raise errors.invalid('p_values', 'be one number per test', list(values.shape))
    # NaN counts as a test, but is none of the numbers to check.
    checks.within('p_values', np.where(np.isnan(values), 0, values), 0, 1, axis='test')
    bounds = level * np.arange(1, len(values) + 1) / len(values)
    passing = np.flatnonzero(np.sort(values) <= bounds)
    if len(passing) == 0:
        return np.zeros(len(values), bool)
    return values <= bounds[passing[-1]]


def _doubles(argument: str, values: ArrayLike) -> _Doubles:
    """Converts numbers to float64; flags count as 0 and 1."""
    try:
        array = np.asarray(values)
    except ValueError:  # Rows of unequal length.
        got = errors.text_of(values)
        raise errors.invalid(argument, 'hold numbers', got) from None
    if array.dtype == bool:
        return array.astype(np.float64)
    return checks.numbers(argument, values).astype(np.float64)


def _differences(values: ArrayLike) -> _Doubles:
    """Returns differences as float64[S]; raises unless there is one or more."""
    array = _doubles('differences', values)
    if array.ndim != 1 or not len(array):
        raise errors.invalid('differences', 'be one number per seed', list(array.shape))
    return array


def _rows_and_shares(values: ArrayLike, shares: ArrayLike) -> tuple[_Doubles, _Doubles]:
    """Converts rows and shares to float64 arrays, checks both, and marks diverged runs by NaN."""
    rows = _doubles('values', values)
    weights = _doubles('shares', shares)
    if rows.ndim != 2 or not rows.size or weights.shape != rows.shape[:1]:
        shown = f'{list(rows.shape)} and {list(weights.shape)}'
        raise errors.invalid('values', 'be of shape [K, S] beside `shares` [K]', shown)
    checks.within('shares', weights, 0, 1, axis='row')
    total = float(weights.sum())
    if abs(total - 1) > _ROUNDING_OF_SHARES:
        raise errors.invalid('shares', 'sum to 1', total)
    # An infinite entry is a run that diverged, as NaN is.
    return np.where(np.isfinite(rows), rows, np.nan), weights


class Verdict(NamedTuple):
    """Holds the outcome of a comparison by paired differences.

    Attributes:
      word: ``'ahead'`` or ``'behind'`` if the interval lies above or below zero, ``'equivalent'``
        if it lies within the margin, else ``'not decided'``.
      mean: mean of the differences.
      half_width: half the width of the interval around it; infinite with too few seeds, NaN if a
        run diverged.
      num_seeds: number of differences.
    """

    word: str
    mean: float
    half_width: float
    num_seeds: int


def decide(
    differences: ArrayLike, *, margin: float = 0.0, level: float = 0.95
) -> Verdict:
    """Decides between ahead, behind and equivalent, at any number of seeds.

    The interval belongs to a confidence sequence. For normal differences, all intervals of the
    sequence together contain the true mean with probability ``level``. So one may stop as soon as
    there is a verdict, or add seeds. A mean m is rejected once the mixture likelihood ratio

      ``(1 + n g)^(-1/2) ((1 + t^2 / (n - 1)) / (1 + t^2 / ((n - 1) (1 + n g))))^(n / 2)``

    of Student's t about m reaches ``1 / (1 - level)``. The ratio mixes effect sizes by a normal law
    with variance g = 4 and unknown scales by their invariant measure (Lai 1976, On confidence
    sequences; Wang and Ramdas 2025, Anytime-valid t-tests and confidence sequences for Gaussian
    means with unknown variance). Equal differences have no t and decide as in `seed_interval`.

    Args:
      differences: float[S], one per seed, positive where the first is better.
      margin: largest difference that counts as none, in the unit of the differences.
      level: probability of never reaching a false verdict.

    Returns:
      The verdict.

    Raises:
      ValueError: for no differences, a negative margin, or a level outside [0, 1].

    Example:
      >>> from fedjax_links import evaluation
      >>> evaluation.decide([1.1, 0.9, 1.0, 1.2, 0.8]).word
      'ahead'
      >>> evaluation.decide([0.01, -0.02, 0.0, 0.02, -0.01], margin=0.5).word
      'equivalent'
    """
    checks.number_within('margin', margin, 0, math.inf)
    checks.number_within('level', level, 0, 1)
    values = _differences(differences)
    num_seeds = len(values)
    with np.errstate(invalid='ignore'):  # An infinite value is a run that diverged.
        mean = float(values.mean())
        deviation = float(values.std(ddof=1)) if num_seeds > 1 else math.nan
    largest_t = student.largest_t(num_seeds, level)
    if student.are_equal(values):
        suffices = math.isfinite(largest_t) and student.equal_values_suffice(
            num_seeds, level
        )
        half_width = 0.0 if suffices else math.inf
    else:
        half_width = largest_t * deviation / math.sqrt(num_seeds)
    return Verdict(
        word=word(mean, half_width, margin),
        mean=mean,
        half_width=half_width,
        num_seeds=num_seeds,
    )


def word(mean: float, half_width: float, margin: float = 0.0) -> str:
    """Names the verdict of an interval: ``ahead``, ``behind``, ``equivalent`` or ``not decided``.

    Args:
      mean: mean difference, positive where the first is better.
      half_width: half the width of its interval; with NaN nothing is decided.
      margin: largest difference that counts as none.

    Returns:
      One of `AHEAD`, `BEHIND`, `EQUIVALENT` and `UNDECIDED`.
    """
    if abs(mean) > half_width:
        return AHEAD if mean > 0 else BEHIND
    return EQUIVALENT if abs(mean) + half_width <= margin else UNDECIDED
