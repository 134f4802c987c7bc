"""Which values tuning tries next, from what those tried so far have scored.

A pure function of scores: whoever asks, and whenever, is told the same.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import evaluation


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
    scores: np.ndarray, done: np.ndarray, given: Sequence[tuple[int, int]], num_seeds: int
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
    count = np.zeros(scores.shape[:-1], int)
    seeds = num_seeds
    while True:
        box = np.zeros(count.shape, bool)
        box[tuple(slice(*ends) for ends in ranges)] = True
        count[box] = np.maximum(count[box], num_seeds)
        wanted = np.arange(scores.shape[-1]) < count[..., None]
        if (wanted & ~done).any():
            return Race(wanted, None, box & False)
        level = np.where(wanted, np.where(np.isnan(scores), -np.inf, scores), 0).sum(-1)
        level = np.where(count == seeds, level / seeds, -np.inf)
        if np.isneginf(level).all():
            return Race(wanted, None, box & False)
        best = np.unravel_index(level.argmax(), level.shape)
        if _grow(ranges, best, count.shape):
            continue
        rivals = box & ~_is_behind(scores, count, best)
        late = rivals & (count < seeds)
        if not late.any():
            if rivals.sum() < 2 or seeds == scores.shape[-1]:
                return Race(wanted, tuple(map(int, best)), rivals)
            seeds, late = min(seeds + num_seeds, scores.shape[-1]), rivals
        count[late] = seeds


def _grow(ranges: list[list[int]], best: Any, shape: tuple[int, ...]) -> bool:
    """Adds the next value at an end where the best lies, if there is one."""
    grown = False
    for ends, place, size in zip(ranges, best, shape, strict=True):
        if place == ends[0] and ends[0] > 0:
            ends[0], grown = ends[0] - 1, True
        elif place == ends[1] - 1 and ends[1] < size:
            ends[1], grown = ends[1] + 1, True
    return grown


def _is_behind(scores: np.ndarray, count: np.ndarray, best: Any) -> np.ndarray:
    """bool[*values], whether common seeds tell a value from the best one, or it diverged."""
    behind = np.zeros(count.shape, bool)
    for place in np.ndindex(count.shape):
        common = min(count[place], count[best])
        lost = scores[best][:common] - scores[place][:common]
        if np.isnan(scores[place][:common]).any():
            behind[place] = True
        elif common > 1:
            found = evaluation.seed_interval(lost)
            behind[place] = found.mean > found.half_width
    return behind
