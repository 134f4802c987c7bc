"""What to measure inside the program, and statistics over seeds outside it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Array, Key, Params, Problem
from fedjax_links.core import checks, errors


def train_and_eval(params: Params, key: Key, problem: Problem) -> Mapping[str, Array]:
    """The problem's metrics on all clients' data and on its evaluation data.

    Args:
      params: one candidate model.
      key: unused.
      problem: a problem whose metrics take batches of examples, as those from arrays do.

    Returns:
      ``{'train_<metric>': [], 'eval_<metric>': []}``; training examples count equally. Without
      ``eval_`` where the problem is evaluated on its clients' own examples.
    """
    del key
    parts = {'train': problem.data, 'eval': problem.eval_data}
    if problem.held_out is False:
        parts = {'train': problem.eval_data}
    return {
        f'{part}_{name}': value
        for part, examples in parts.items()
        for name, value in problem.metrics(params, examples).items()
    }


def for_problem(problem: Problem) -> Callable[[Params, Key, Problem], Mapping[str, Array]] | None:
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
      metric: as the problem names it, or with the ``train_`` or ``eval_`` of `train_and_eval`.

    Returns:
      ``'max'`` or ``'min'``; None where the problem does not state it and the metric is neither
      ``loss`` nor ``distance``.
    """
    names = {metric, metric.removeprefix('train_'), metric.removeprefix('eval_')}
    if problem.larger_is_better is None:
        return 'min' if names & {'loss', 'distance'} else None
    return 'max' if names & set(problem.larger_is_better) else 'min'


def attainable_text(problem: Problem) -> str:
    """What is known beforehand of a problem's difficulty, ``accuracy 0.7500, loss ...``; or ''."""
    return ', '.join(f'{name} {float(value):.4f}' for name, value in problem.attainable.items())


class Interval(NamedTuple):
    """A mean over seeds with its confidence interval.

    Attributes:
      mean: float[...].
      half_width: float[...], half the width of the interval; NaN for a single seed.
      num_seeds: number of seeds.
    """

    mean: NDArray[np.float64]
    half_width: NDArray[np.float64]
    num_seeds: int

    @property
    def excludes_zero(self) -> NDArray[np.bool_]:
        """bool[...], where zero lies outside: never for a single seed, which decides nothing."""
        return np.abs(self.mean) > self.half_width


def seed_interval(values: ArrayLike, *, axis: int = 0, level: float = 0.95) -> Interval:
    """Student-t interval of the mean over independent seeds.

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
    return Interval(mean, special.stdtrit(num_seeds - 1, (1 + level) / 2) * error, num_seeds)


def paired_interval(values: ArrayLike, baseline: ArrayLike, *, level: float = 0.95) -> Interval:
    """Interval of the mean difference to a baseline that ran with the same seeds.

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
        raise errors.invalid(
            'baseline', f'have the shape of `values` {list(np.shape(values))}', np.shape(baseline)
        )
    return seed_interval(np.asarray(values, float) - np.asarray(baseline, float), level=level)
