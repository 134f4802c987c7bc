"""Seeds until a difference to the baseline is decided, read from the metrics alone."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, fields, grids, student
from fedjax_links.core.fields import declare
from fedjax_links.results import recorded
from fedjax_links.results.dataset import Columns


@fields.documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class UntilDecided(Sequence[int]):
    """Seeds of an experiment of which each pair takes as many as its verdict needs.

    A pair is an algorithm and the baseline at a pattern and a point of the grid. It is looked at
    after ``least`` seeds and then after every fourth more, by `evaluation.decide`, which holds its
    ``level`` whenever it is asked; the baseline runs as long as any pair needs it.

    Attributes:
      first: the first of the seeds.
    """

    first: int = 0
    least: int = declare(
        'Seeds of every pair.',
        example=4,
        default=5,
        check=fields.whole_number(minimum=2),
    )
    most: int = declare('Seeds of a pair that stays undecided.', example=20, default=50)
    margin: float = declare(
        'Differences up to it make no difference, in the unit of the metric, so that a pair can '
        'be decided to be equal.',
        example=0.01,
        default=0.0,
        check=fields.number_within(0, math.inf),
    )
    level: float = declare(
        'Probability that a pair is never given a false verdict.',
        example=0.99,
        default=0.95,
        check=fields.number_within(0, 1),
    )
    tail: float = declare(
        'Portion of the evaluations, the last ones, that each seed is averaged over, in reports '
        'too unless they say otherwise.',
        example=0.2,
        default=0.1,
        check=fields.number_within(0, 1),
    )

    def __post_init__(self) -> None:
        """Checks the numbers."""
        fields.check_values(self, 'seeds.')
        checks.static_int('seeds.most', self.most, minimum=self.least)

    def __len__(self) -> int:
        """The most that there can be."""
        return self.most

    def __getitem__(self, index: Any) -> Any:
        """All that there may be, in order."""
        return range(self.first, self.first + self.most)[index]

    def facts(self) -> dict[str, Any]:
        """What reports need to know."""
        return {
            name: getattr(self, name) for name in ('least', 'margin', 'level', 'tail')
        }


def looks(least: int, most: int) -> Iterator[int]:
    """After how many seeds a pair is looked at: 5, 6, 7, 8, 10, 12, 15, ..."""
    count = least
    while count < most:
        yield count
        count += max(1, count // 4)
    yield most


def seeds_wanted(
    columns: Columns, facts: Mapping[str, Any]
) -> dict[str, dict[Any, int]]:
    """How many seeds there are to be so far.

    Args:
      columns: the metrics.
      facts: of the experiment, whose seeds go on until decided.

    Returns:
      By algorithm, and `recorded.cell_key` a pattern and a point; ``least`` where nothing is said.
    """
    until, base = facts['until'], facts['baseline']
    wanted: dict[str, dict[Any, int]] = {label: {} for label in facts['algorithms']}
    levels = {
        k: recorded.final_metrics(columns, facts, k, tail=until['tail']) for k in wanted
    }
    sign = 1 if facts['directions'][facts['metric']] == 'max' else -1
    for label in (label for label in wanted if label != base):
        for place, own in levels[label].items():
            other = counterpart(place, levels[base])
            if other is not None:
                both = common(facts['seeds'], own, levels[base][other])
                count = _needed(sign * both, until, len(facts['seeds']))
                wanted[label][place] = count
                wanted[base][other] = max(count, wanted[base].get(other, 0))
    return wanted


def counterpart(place: Any, others: Mapping[Any, Any]) -> Any:
    """The baseline's place under the same pattern at the point of another; None if there is none.

    Args:
      place: from `recorded.cell_key`.
      others: by place of the baseline, which may lack columns of the grid, or have its own.
    """
    pattern, point = place[0], dict(place[1])
    alike = (k for k in others if k[0] == pattern and grids.agree(point, dict(k[1])))
    return next(alike, None)


def common(
    seeds: Sequence[int], own: Mapping[int, float], other: Mapping[int, float]
) -> Any:
    """Returns differences over the first seeds, as many as both have: float[S]."""
    both = list(itertools.takewhile(lambda seed: seed in own and seed in other, seeds))
    if not both:
        return np.zeros(0)
    return student.paired([own[seed] for seed in both], [other[seed] for seed in both])


def _needed(differences: np.ndarray, until: Mapping[str, Any], most: int) -> int:
    for count in looks(until['least'], most):
        known = differences[:count]
        if len(known) < count or np.isnan(known).any():
            break  # what diverged is decided
        found = evaluation.decide(known, margin=until['margin'], level=until['level'])
        if found.word != evaluation.UNDECIDED:
            break
    return count
