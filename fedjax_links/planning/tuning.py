"""What a user says of tuning, and which values are tried next.

What is tried next is a pure function of scores: the answer is the same whenever it is computed.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, fields, grids
from fedjax_links.core.fields import declare

EdgeCounts = tuple[int, int]
"""Index of the first of some values, and that after the last."""

BEST = 'best'
"""Decides by whichever candidate model is ahead."""

FIRST_TUNING_SEED = 10_000


@fields.documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """How the values that suit each algorithm are found before the experiment proper.

    What is tried grows with what the tries so far have found, see `race`.
    """

    grid: grids.GridColumns = declare(
        'Columns to try, values by name, none of them in the grid of the experiment. Each '
        'algorithm tries the combinations of those that its maker takes, at every point of that '
        'grid as far as it concerns the algorithm, or the problem and the links that it is tuned '
        'on.',
        example={'client': {'learning_rate': [0.05, 0.1], 'local_steps': [2, 5]}},
    )
    num_rounds: int | None = declare(
        "Rounds of each try, a multiple of ``eval_every``, at most the experiment's, which is "
        'the default.',
        example=20,
        default=None,
        check=fields.whole_number(),
    )
    num_seeds: int = declare(
        'Seeds of each try, from 10,000 on, which the experiment may not have.',
        example=3,
        default=1,
        check=fields.whole_number(),
    )
    most_seeds: int | None = declare(
        'Where paired differences over these seeds cannot tell values from the best, they get as '
        'many more, up to this number. By default no more.',
        example=6,
        default=None,
    )
    ties: int = declare(
        'How many of those that it still cannot tell from the best, the nearest ones, run with '
        "the experiment's own seeds too, so that intervals can allow for the choice. None with a "
        'single seed.',
        example=0,
        default=2,
        check=fields.whole_number(minimum=0),
    )
    grow: int = declare(
        'How many values may be added at either end of a column of rising or falling positive '
        'floats while the best one lies there, each as far from the last as that is from its '
        'neighbour, as a ratio. None that an algorithm with that column refuses.',
        example=2,
        default=3,
        check=fields.whole_number(minimum=0, maximum=20),
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
            least = max(2, self.num_seeds)
            checks.static_int('tuning.most_seeds', self.most_seeds, minimum=least)
        object.__setattr__(self, 'grid', grids.flatten(self.grid, 'tuning.grid'))

    @property
    def seeds(self) -> range:
        """The seeds that a try may have."""
        return range(
            FIRST_TUNING_SEED, FIRST_TUNING_SEED + (self.most_seeds or self.num_seeds)
        )

    def candidates(self) -> dict[str, tuple[list[Any], EdgeCounts]]:
        """By column all values that may be tried, and where those that are tried first lie."""
        return {
            name: _grown(list(values), self.grow) for name, values in self.grid.items()
        }


def _grown(values: list[Any], steps: int) -> tuple[list[Any], EdgeCounts]:
    is_float = all(isinstance(value, float) and value > 0 for value in values)
    if len(values) < 2 or not (
        is_float and values in (sorted(values), sorted(values)[::-1])
    ):
        return values, (0, len(values))

    def beyond(end: float, neighbour: float) -> list[float]:
        return [
            float(f'{end * (end / neighbour) ** k:.6g}') for k in range(1, steps + 1)
        ]

    before = beyond(values[0], values[1])[::-1]
    return [*before, *values, *beyond(values[-1], values[-2])], (
        steps,
        steps + len(values),
    )


class Race(NamedTuple):
    """How far the tuning of an algorithm is, at one point of the grid.

    Attributes:
      wanted: bool[*values, S], the tries and seeds that there are to be, those done among them.
      best: the place of the best in [*values]; None before all that are wanted are done, or if
        none converged.
      rivals: bool[*values], what the seeds cannot tell from the best, itself among them.
    """

    wanted: np.ndarray
    best: tuple[int, ...] | None
    rivals: np.ndarray


def race(
    scores: np.ndarray, done: np.ndarray, given: Sequence[EdgeCounts], num_seeds: int
) -> Race:
    """Grows the ranges of values until the best lies inside, then adds seeds among near ties.

    Args:
      scores: float[*values, S], larger is better; NaN where it diverged.
      done: bool[*values, S], which are known.
      given: for every column, the first place of the values tried first, and that behind the last.
      num_seeds: seeds of every try; more, as many at a time, up to S, where a 95 % t interval of
        paired differences to the best holds zero.
    """
    ranges = [list(ends) for ends in given]
    count, seeds = np.zeros(scores.shape[:-1], int), num_seeds
    while True:
        box = np.zeros(count.shape, bool)
        box[tuple(slice(*ends) for ends in ranges)] = True
        count[box] = np.maximum(count[box], num_seeds)
        wanted = np.arange(scores.shape[-1]) < count[..., None]
        level = np.where(wanted, np.where(np.isnan(scores), -np.inf, scores), 0).sum(-1)
        level = np.where(count == seeds, level / seeds, -np.inf)
        if (wanted & ~done).any() or np.isneginf(level).all():
            return Race(wanted, None, box & False)
        best: Any = np.unravel_index(level.argmax(), level.shape)
        before = [[*ends] for ends in ranges]
        sizes: tuple[int, ...] = count.shape
        for ends, place, size in zip(ranges, best, sizes, strict=True):
            if place == ends[0] and ends[0] > 0:
                ends[0] -= 1
            elif place == ends[1] - 1 and ends[1] < size:
                ends[1] += 1
        if ranges != before:
            continue
        rivals = box.copy()
        for at in map(tuple, np.argwhere(box)):
            common = min(count[at], count[best])
            rivals[at] = not _is_behind(scores[best][:common] - scores[at][:common])
        late = rivals & (count < seeds)
        if not late.any():
            if rivals.sum() < 2 or seeds == scores.shape[-1]:
                return Race(wanted, tuple(map(int, best)), rivals)
            seeds, late = min(seeds + num_seeds, scores.shape[-1]), rivals
        count[late] = seeds


def _is_behind(lost: np.ndarray) -> bool:
    """Whether a value diverged, or what it lost to the best by seed tells it from that.

    One seed tells nothing. Equal losses of several do: without noise there is no more to find out.
    """
    found = evaluation.seed_interval(lost)
    is_equal = len(lost) > 1 and np.ptp(lost) == 0
    return bool(
        np.isnan(lost).any() or found.mean > (0 if is_equal else found.half_width)
    )
