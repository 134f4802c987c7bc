"""What to measure inside the program, and statistics over seeds outside it."""

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key, Params, Problem
from fedjax_links.core import checks, client_metrics, errors, student
from fedjax_links.core.client_metrics import by_client as by_client
from fedjax_links.core.client_metrics import of_own_models as of_own_models

AHEAD, BEHIND, ALIKE, UNDECIDED = 'ahead', 'behind', 'alike', 'not decided'

_Doubles = NDArray[np.float64]


def train_and_eval(params: Params, key: Key, problem: Problem) -> Mapping[str, Array]:
    """The problem's metrics on all clients' data and on its evaluation data.

    Args:
      params: one candidate model.
      key: unused.
      problem: a problem whose metrics take batches of examples, as those from arrays do.

    Returns:
      ``{'train_<metric>': [], 'eval_<metric>': []}``; training examples count equally. Without
      ``eval_`` where the problem is evaluated on its clients' own examples; with the summaries of
      `over_clients` where evaluation data have owners.
    """
    del key
    is_own = problem.held_out is False
    parts = {
        'train': problem.metrics(params, problem.eval_data if is_own else problem.data)
    }
    if problem.eval_owned is not None:
        pooled, own = client_metrics.of_all_and_each(params, problem)
        parts['eval'] = {**pooled, **over_clients(own, problem)}
    elif not is_own:
        parts['eval'] = problem.metrics(params, problem.eval_data)
    return {
        f'{part}_{name}': v
        for part, found in parts.items()
        for name, v in found.items()
    }


def over_clients(values: Mapping[str, Array], problem: Problem) -> Mapping[str, Array]:
    """How metrics are spread over the clients that have them, each of which counts the same.

    Args:
      values: by metric, what `by_client` or `of_own_models` returns.
      problem: of which they are.

    Returns:
      By metric ``<name>_clients``, their mean; ``<name>_p10``, their tenth percentile, or
      ``<name>_p90`` of metrics that are better when smaller: what the worst tenth does not reach;
      and ``<name>_spread``, their standard deviation.
    """
    counts, found = client_metrics.own_rows(problem).counts, dict[str, Array]()
    for name, every in values.items():
        has = counts[: len(every)] > 0
        own = jnp.where(has & ~jnp.any(has & jnp.isnan(every)), every, jnp.nan)
        worst = 10 if direction(problem, name) == 'max' else 90
        found[f'{name}_clients'] = jnp.nanmean(own)
        found[f'{name}_p{worst}'] = jnp.nanpercentile(own, worst)
        found[f'{name}_spread'] = jnp.nanstd(own)
    return found


def for_problem(
    problem: Problem,
) -> Callable[[Params, Key, Problem], Mapping[str, Array]] | None:
    """`train_and_eval` where a problem is evaluated on examples, its ``held_out``, else None.

    Args:
      problem: any problem.

    Returns:
      What to pass as ``eval_fn``; None stands for the problem's own metrics.
    """
    return None if problem.held_out is None else train_and_eval


def direction(problem: Problem, metric: str) -> str | None:
    """Which way a metric of a problem is better.

    Args:
      problem: whose ``larger_is_better`` decides.
      metric: as the problem names it, or with the ``train_`` or ``eval_`` of `train_and_eval`, or
        the endings of `over_clients`.

    Returns:
      ``'max'`` or ``'min'``; None where the problem does not state it and the metric is neither
      ``loss`` nor ``distance``.
    """
    if metric.endswith('_spread'):
        return 'min'
    metric = re.sub('_(clients|p10|p90)$', '', metric)
    names = {metric, metric.removeprefix('train_'), metric.removeprefix('eval_')}
    if problem.larger_is_better is None:
        return 'min' if names & {'loss', 'distance'} else None
    return 'max' if names & set(problem.larger_is_better) else 'min'


def attainable_text(problem: Problem) -> str:
    """What is known beforehand of a problem's difficulty, ``accuracy 0.7500, loss ...``; or ''."""
    return ', '.join(
        f'{name} {float(value):.4f}' for name, value in problem.attainable.items()
    )


class Interval(NamedTuple):
    """A mean over seeds with its confidence interval.

    Attributes:
      mean: float[...].
      half_width: float[...], half the width of the interval; NaN where seeds cannot tell it.
      num_seeds: number of seeds.
    """

    mean: NDArray[np.float64]
    half_width: NDArray[np.float64]
    num_seeds: int

    @property
    def excludes_zero(self) -> NDArray[np.bool_]:
        """bool[...], where zero lies outside: never without an interval."""
        return np.abs(self.mean) > self.half_width


def seed_interval(values: ArrayLike, *, axis: int = 0, level: float = 0.95) -> Interval:
    """Returns the Student-t interval of the mean over independent seeds.

    Equal values, such as accuracies of few examples, have none before so many fair signs agree
    with probability ``1 - level`` or less, as six do at 95 %: then it has no width.

    Args:
      values: float[..., S, ...], one entry per seed along ``axis``.
      axis: the seed axis.
      level: coverage in (0, 1) if the values were normal.

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
    from scipy import special  # only tables need it

    checks.within('level', level, 0, 1)
    values = np.asarray(values, np.float64)
    num_seeds = values.shape[axis]
    if num_seeds == 0:
        raise errors.invalid('values', 'have at least one seed', list(values.shape))
    mean = values.mean(axis=axis)
    if num_seeds == 1:
        return Interval(mean, np.full_like(mean, np.nan), 1)
    error = values.std(axis=axis, ddof=1) / np.sqrt(num_seeds)
    half_width = special.stdtrit(num_seeds - 1, (1 + level) / 2) * error
    if not student.equal_tell(num_seeds, level):
        half_width = np.where(student.are_equal(values, axis), np.nan, half_width)
    return Interval(mean, half_width, num_seeds)


def paired_interval(
    values: ArrayLike, baseline: ArrayLike, *, level: float = 0.95
) -> Interval:
    """Returns the interval of the mean difference to a baseline with the same seeds.

    Args:
      values: float[S, ...].
      baseline: float[S, ...], same seeds in the same order: same links, same batches.
      level: coverage in (0, 1).

    Returns:
      Mean of ``values - baseline`` and its half width.

    Raises:
      ValueError: if the shapes differ.
    """
    if np.shape(values) != np.shape(baseline):
        requirement = f'have the shape of `values` {list(np.shape(values))}'
        raise errors.invalid('baseline', requirement, np.shape(baseline))
    return seed_interval(student.paired(values, baseline), level=level)


def chosen_interval(
    values: ArrayLike, shares: ArrayLike, *, level: float = 0.95
) -> Interval:
    """Interval of a mean over seeds that allows for a choice that might have come out otherwise.

    Args:
      values: float[K, S], a row for what was chosen, then one for each other that might have been.
      shares: float[K], how often each would be chosen, 1 in all.
      level: coverage in (0, 1).

    Returns:
      The mean of the first row, and a half width around it within which the mean of a row lies
      with probability ``level``, of rows drawn by their shares. Of one row it is `seed_interval`.

    Raises:
      ValueError: if shapes do not fit, or the level is outside [0, 1].

    Example:
      >>> from fedjax_links import evaluation
      >>> rows = [[0.80, 0.82, 0.84], [0.70, 0.72, 0.74]]
      >>> print(round(float(evaluation.chosen_interval(rows, [0.9, 0.1]).half_width), 3))
      0.104
    """
    from scipy import optimize

    rows, weights = _rows_and_shares(values, shares)
    alone = seed_interval(rows[0], level=level)
    if len(rows) == 1 or not math.isfinite(alone.half_width):
        return alone
    lost = float(weights[np.isnan(rows).any(axis=1)].sum())
    if lost >= (1 - level) * (1 - 1e-9):  # what may well be chosen diverged
        return alone._replace(half_width=np.asarray(math.inf))
    centre = float(alone.mean)
    most = float(np.nanmax(np.abs(rows - centre))) + float(alone.half_width)
    if not most:  # all are the same
        return alone

    def missing(half_width: float) -> float:
        ends = (
            student.mixture_cdf(rows, weights, centre + side * half_width)
            for side in (1, -1)
        )
        return level - (next(ends) - next(ends))

    while missing(most) > 0:
        most *= 2
    half_width = optimize.brentq(missing, 0.0, most) if missing(0.0) > 0 else 0.0
    return alone._replace(half_width=np.asarray(half_width))


def p_value(values: ArrayLike, shares: ArrayLike = (1.0,)) -> float:
    """Returns the two-sided p-value of a mean of zero, of one row that of Student's t test.

    Of equal values it is the chance that so many fair signs agree.

    Args:
      values: float[K, S] or float[S], as in `chosen_interval`.
      shares: float[K].

    Returns:
      In [0, 1]; 1 for a single seed, NaN where the first row diverged.
    """
    rows, weights = _rows_and_shares(np.atleast_2d(values), shares)
    if np.isnan(rows[0]).any():
        return math.nan
    if rows.shape[1] == 1:
        return 1.0
    return student.mixture_p_value(rows, weights)


def anytime_p_value(differences: ArrayLike) -> float:
    """Returns a p-value of a mean of zero that holds at whatever number of seeds one stops.

    It is one over the likelihood ratio of `decide`: of normal differences whose mean is zero it
    ever falls to ``a`` with probability ``a``, or less.

    Args:
      differences: float[S], one per seed.

    Returns:
      In [0, 1]; 1 for a single seed, NaN where one diverged.

    Example:
      >>> from fedjax_links import evaluation
      >>> print(round(evaluation.anytime_p_value([1.1, 0.9, 1.0, 1.2, 0.8]), 4))
      0.0052
    """
    values = np.asarray(differences, np.float64)
    count, mean = len(values), float(values.mean())
    if math.isnan(mean):
        return math.nan
    if count == 1 or mean == 0:
        return 1.0
    if student.are_equal(values):
        return student.chance_of_equal(count)
    t = mean / (float(values.std(ddof=1)) / math.sqrt(count))
    return min(1.0, 1 / student.likelihood_ratio(t, count))


def benjamini_hochberg(p_values: ArrayLike, level: float = 0.05) -> NDArray[np.bool_]:
    """Which of many tests survive if at most a share of those that survive may be false.

    With ``p_(1) <= ... <= p_(K)`` the smallest k survive, k the largest with

      ``p_(k) <= k level / K``.

    The expected share of false ones among them is at most ``level`` for independent tests and for
    some that depend on each other, such as positively correlated ones (Benjamini and Hochberg
    1995, Controlling the false discovery rate).

    Args:
      p_values: float[K] in [0, 1], one per test; NaN, as of a single seed, never survives and
        counts as a test.
      level: share of false ones, in [0, 1].

    Returns:
      bool[K], in the order of the tests.

    Raises:
      ValueError: for p-values that are no vector, or a number outside [0, 1].

    Example:
      >>> from fedjax_links import evaluation
      >>> evaluation.benjamini_hochberg([0.03, 0.001, 0.04, 0.9]).tolist()
      [False, True, False, False]
    """
    checks.within('level', level, 0, 1)
    values = np.asarray(p_values, np.float64)
    if values.ndim != 1:
        raise errors.invalid('p_values', 'be one number per test', list(values.shape))
    checks.within('p_values', values[~np.isnan(values)], 0, 1)
    bounds = level * np.arange(1, len(values) + 1) / len(values)
    below = np.flatnonzero(np.sort(values) <= bounds)
    return values <= (bounds[below[-1]] if len(below) else -1.0)  # NaN is not


def _rows_and_shares(values: ArrayLike, shares: ArrayLike) -> tuple[_Doubles, _Doubles]:
    rows, weights = np.asarray(values, np.float64), np.asarray(shares, np.float64)
    if rows.ndim != 2 or not rows.size or weights.shape != rows.shape[:1]:
        shown = f'{list(rows.shape)} and {list(weights.shape)}'
        raise errors.invalid('values', 'be of shape [K, S] beside `shares` [K]', shown)
    return rows, weights


class Verdict(NamedTuple):
    """What paired differences say so far.

    Attributes:
      word: ``'ahead'`` or ``'behind'`` if the interval lies above or below zero, ``'alike'`` if it
        lies within the margin, else ``'not decided'``.
      mean: of the differences.
      half_width: of the interval around it, infinite where there are too few.
      num_seeds: how many differences there are.
    """

    word: str
    mean: float
    half_width: float
    num_seeds: int


def decide(
    differences: ArrayLike, *, margin: float = 0.0, level: float = 0.95
) -> Verdict:
    """Decides between ahead, behind and alike, at any number of seeds.

    The interval belongs to a confidence sequence: with probability ``level`` all of its intervals,
    after whatever number of seeds, hold the true mean of normal differences. So one may stop as
    soon as there is a verdict, or go on. A mean m is refused once the mixture likelihood ratio

      ``(1 + n g)^(-1/2) ((1 + t^2 / (n - 1)) / (1 + t^2 / ((n - 1) (1 + n g))))^(n / 2)``

    of Student's t about m reaches ``1 / (1 - level)``: effect sizes are mixed by a normal law with
    variance g = 4, unknown scales by their invariant measure (Lai 1976, On confidence sequences;
    Wang and Ramdas 2025, Anytime-valid t-tests and confidence sequences for Gaussian means with
    unknown variance). Of equal differences no t is known; they decide as in `seed_interval`.

    Args:
      differences: float[S], one per seed, positive where the first is better.
      margin: differences up to it make no difference; in the unit of the differences.
      level: probability that no false verdict is ever given.

    Returns:
      The verdict.

    Raises:
      ValueError: for no differences, a negative margin, or a level outside [0, 1].

    Example:
      >>> from fedjax_links import evaluation
      >>> evaluation.decide([1.1, 0.9, 1.0, 1.2, 0.8]).word
      'ahead'
      >>> evaluation.decide([0.01, -0.02, 0.0, 0.02, -0.01], margin=0.5).word
      'alike'
    """
    checks.within('margin', margin, 0, math.inf)
    checks.within('level', level, 0, 1)
    values = np.asarray(differences, np.float64)
    if values.ndim != 1 or not len(values):
        raise errors.invalid(
            'differences', 'be one number per seed', list(values.shape)
        )
    count, mean = len(values), float(values.mean())
    largest_t = student.largest_t(count, level)
    if student.are_equal(values):
        is_told = math.isfinite(largest_t) and student.equal_tell(count, level)
        half_width = 0.0 if is_told else math.inf
    else:
        half_width = largest_t * float(values.std(ddof=1)) / math.sqrt(count)
    return Verdict(word(mean, half_width, margin), mean, half_width, count)


def word(mean: float, half_width: float, margin: float = 0.0) -> str:
    """What an interval of differences says: ``'ahead'``, ``'behind'``, ``'alike'``, or nothing yet.

    Args:
      mean: positive where the first is better.
      half_width: NaN decides nothing.
      margin: differences up to it make no difference.
    """
    if abs(mean) > half_width:
        return AHEAD if mean > 0 else BEHIND
    return ALIKE if abs(mean) + half_width <= margin else UNDECIDED
