"""Declares the options of tuning, and chooses which values are tried next.

The choice is a pure function of scores. In shapes, ``*values`` stands for one axis for each tuned
column, and ``S`` for the seeds that a trial may have.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, errors, fields, grids, student
from fedjax_links.core.fields import declare

IndexRange = tuple[int, int]
"""A range of values in a column: index of the first value, and one past the last."""

BEST = 'best'
"""The value of `Tuning.model` with which the best candidate model decides."""

FIRST_TUNING_SEED = 10_000
"""The first seed of tuning. Experiments count from 0 and have fewer seeds, so none is shared."""


@fields.documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """Describes how the values that suit each algorithm are found before the main stage.

    `search` decides from the scores so far which values and seeds are tried next.
    """

    grid: grids.GridColumns = declare(
        'Columns to try, values by name, none of them in the grid of the experiment. Each '
        'algorithm tries the combinations of those that its maker takes, at every point of that '
        'grid as far as it concerns the algorithm, or the problem and the links that it is tuned '
        'on.',
        example={'client': {'learning_rate': [0.05, 0.1], 'local_steps': [2, 5]}},
    )
    num_rounds: int | None = declare(
        "Rounds of each trial, a multiple of ``eval_every``, at most the experiment's, which is "
        'the default.',
        example=20,
        default=None,
        check=fields.integer(),
    )
    num_seeds: int = declare(
        'Seeds of each trial, from 10,000 on, which the experiment may not have.',
        example=3,
        default=1,
        check=fields.integer(),
    )
    most_seeds: int | None = declare(
        'Where paired differences over these seeds cannot tell values from the best, they get as '
        'many more, up to this number. By default no more.',
        example=6,
        default=None,
    )
    ties: int = declare(
        'How many values that it still cannot tell from the best, the nearest ones, run with the '
        "experiment's own seeds too, for intervals including tuning. None with one seed of tuning.",
        example=0,
        default=2,
        check=fields.integer(minimum=0),
    )
    grow: int = declare(
        'How many values may be added at either end of a column of rising or falling positive '
        'floats while the best one lies there. Each has the ratio to the last that the last has '
        'to its neighbour. Values that an algorithm refuses are left out.',
        example=2,
        default=3,
        check=fields.integer(minimum=0, maximum=20),
    )
    pattern: str | None = declare(
        'Label of the links to tune on. By default each pattern is tuned on by itself.',
        example='links',
        default=None,
    )
    model: str | Mapping[str, str] = declare(
        "Candidate model whose last evaluation decides: a name such as ``'server'``, or "
        "``'best'`` for whichever is ahead; or either by label of the algorithm, ``'best'`` for "
        'one that is not named. So one algorithm under two labels can have a rate for each of its '
        'models.',
        example='server',
        default=BEST,
    )

    def __post_init__(self) -> None:
        """Checks the fields by themselves."""
        fields.check_values(self, 'tuning.')
        if self.most_seeds is not None:
            least = max(2, self.num_seeds)  # One seed gives no interval.
            checks.static_int('tuning.most_seeds', self.most_seeds, minimum=least)
        columns = grids.flatten(self.grid, 'tuning.grid')
        for name, values in columns.items():
            # A trial is found by its values.
            if len(set(map(repr, values))) < len(values):
                requirement = 'hold each value once'
                shown = errors.text_of(values)
                raise errors.invalid(f'tuning.grid.{name}', requirement, shown)
        object.__setattr__(self, 'grid', columns)

    @property
    def seeds(self) -> range:
        """Returns the seeds that a trial may have."""
        return range(
            FIRST_TUNING_SEED, FIRST_TUNING_SEED + (self.most_seeds or self.num_seeds)
        )

    def candidates(self) -> dict[str, tuple[list[Any], IndexRange]]:
        """Returns, by column, all values that may be tried, and the range of the given ones."""
        return {
            name: _extended(list(values), self.grow)
            for name, values in self.grid.items()
        }


def _extended(values: list[Any], steps: int) -> tuple[list[Any], IndexRange]:
    """Adds values at both ends of a column; returns all values, and the range of ``values``."""
    if not _can_grow(values):
        return values, (0, len(values))
    before = _beyond(values[0], values[1], steps)
    before.reverse()
    after = _beyond(values[-1], values[-2], steps)
    return [*before, *values, *after], (len(before), len(before) + len(values))


def _can_grow(values: list[Any]) -> bool:
    """Returns whether values are rising or falling positive floats."""
    if len(values) < 2:
        return False
    if not all(isinstance(value, float) and value > 0 for value in values):
        return False
    return values in (sorted(values), sorted(values, reverse=True))


def _beyond(end: float, neighbour: float, steps: int) -> list[float]:
    """Continues a column beyond an end by the ratio of the end to its neighbour.

    Values are rounded to six digits. The list ends early if rounding leaves no further positive
    value.
    """
    ratio = end / neighbour
    values: list[float] = []
    last = end
    for step in range(1, steps + 1):
        value = float(f'{end * ratio**step:.6g}')
        is_further = value > last if ratio > 1 else 0 < value < last
        if not is_further:
            break
        values.append(value)
        last = value
    return values


class SearchState(NamedTuple):
    """Holds how far the tuning of an algorithm is, at one point of the grid.

    Attributes:
      planned: bool[*values, S], the trials and seeds to run; those that are done are included.
      best: index of the best trial in [*values]; None before all planned trials are done, or if all
        diverged.
      statistical_ties: bool[*values], trials that the seeds cannot tell from the best; the best is
        included.
    """

    planned: np.ndarray
    best: tuple[int, ...] | None
    statistical_ties: np.ndarray


def search(
    scores: np.ndarray,
    done: np.ndarray,
    first_ranges: Sequence[IndexRange],
    num_seeds: int,
) -> SearchState:
    """Grows the ranges of values until the best lies inside, then adds seeds among near ties.

    Args:
      scores: float[*values, S], larger is better; NaN where a lane diverged.
      done: bool[*values, S], which scores are known.
      first_ranges: for each column, the index range of the values that are tried first.
      num_seeds: seeds that every trial gets first. If a 95 % t interval of paired differences
        cannot tell trials from the best, all of these get as many seeds more, up to S.

    Returns:
      The state, with all trials that the scores so far ask for.
    """
    ranges = [(start, stop) for start, stop in first_ranges]
    max_seeds = scores.shape[-1]
    seeds_of = np.zeros(scores.shape[:-1], int)
    # Seeds that the best value and its ties have. A value with fewer seeds cannot be best.
    current_seeds = num_seeds
    while True:
        # Every value inside the ranges has the first seeds.
        inside = np.zeros(seeds_of.shape, bool)
        inside[tuple(slice(*ends) for ends in ranges)] = True
        seeds_of[inside] = np.maximum(seeds_of[inside], num_seeds)
        planned = np.arange(max_seeds) < seeds_of[..., None]
        means = _means(scores, planned, current_seeds)
        means = np.where(seeds_of == current_seeds, means, -np.inf)
        if (planned & ~done).any() or np.isneginf(means).all():
            return SearchState(planned, None, np.zeros_like(inside))
        best = tuple(int(i) for i in np.unravel_index(means.argmax(), means.shape))
        # The ranges grow while the best lies at an end.
        grown = _grown(ranges, best, seeds_of.shape)
        if grown != ranges:
            ranges = grown
            continue
        # Ties first get as many seeds as the best, then all of them get more.
        ties = _ties(scores, seeds_of, inside, best)
        lacks_seeds = ties & (seeds_of < current_seeds)
        if lacks_seeds.any():
            seeds_of[lacks_seeds] = current_seeds
            continue
        if ties.sum() < 2 or current_seeds == max_seeds:
            return SearchState(planned, best, ties)
        current_seeds = min(current_seeds + num_seeds, max_seeds)
        seeds_of[ties] = current_seeds


def _means(scores: np.ndarray, planned: np.ndarray, num_seeds: int) -> np.ndarray:
    """Averages planned scores over ``num_seeds``: float[*values], -inf where a seed diverged."""
    converged = np.where(np.isnan(scores), -np.inf, scores)
    return np.asarray(np.where(planned, converged, 0).sum(-1) / num_seeds)


def _grown(
    ranges: Sequence[IndexRange], best: Sequence[int], shape: Sequence[int]
) -> list[IndexRange]:
    """Extends each range at the end at which the best lies, as far as there are values."""
    grown: list[IndexRange] = []
    for (start, stop), index, size in zip(ranges, best, shape, strict=True):
        if index == start and start > 0:
            grown.append((start - 1, stop))
        elif index == stop - 1 and stop < size:
            grown.append((start, stop + 1))
        else:
            grown.append((start, stop))
    return grown


def _ties(
    scores: np.ndarray,
    seeds_of: np.ndarray,
    inside: np.ndarray,
    best: tuple[int, ...],
) -> np.ndarray:
    """Returns bool[*values]: values that the seeds shared with the best cannot tell from it."""
    ties = inside.copy()
    for index in map(tuple, np.argwhere(inside)):
        shared = min(seeds_of[index], seeds_of[best])
        ties[index] = not _is_worse(scores[index][:shared], scores[best][:shared])
    return ties


def _is_worse(scores: np.ndarray, best_scores: np.ndarray) -> bool:
    """Returns whether a value diverged, or is worse than the best beyond the noise of seeds.

    A single seed decides nothing. If several seeds have equal differences, there is no noise, so
    the sign of the difference decides. Numbers count as equal up to rounding in single precision.

    Args:
      scores: float[S], scores of the value, by seed.
      best_scores: float[S], scores of the best value, by seed.
    """
    differences = student.paired(best_scores, scores)
    if np.isnan(differences).any():
        return True
    if len(differences) > 1 and np.ptp(differences) == 0:
        has_same_mean = student.are_equal([best_scores.mean(), scores.mean()])
        return bool(differences[0] > 0 and not has_same_mean)
    interval = evaluation.seed_interval(differences)
    return bool(interval.mean > interval.half_width)
