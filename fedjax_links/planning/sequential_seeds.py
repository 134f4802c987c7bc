"""Decides from the metrics how many seeds each pair of algorithm and baseline still needs.

A pair is an algorithm and the baseline under one pattern, at one point of the grid. A cell is one
algorithm of a pair: its results by seed.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import evaluation
from fedjax_links.core import checks, fields, grids, student
from fedjax_links.core.fields import declare
from fedjax_links.core.records import RunFacts, Section
from fedjax_links.results import recorded
from fedjax_links.results.dataset import Columns
from fedjax_links.results.recorded import CellKey


@fields.documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class UntilDecided(Sequence[int]):
    """Lists the seeds of an experiment that adds seeds to each pair until the pair is decided.

    A pair is an algorithm and the baseline under one pattern, at one point of the grid.
    `evaluation.decide` tests the pair after ``least`` seeds, and then after a quarter more each
    time. ``level`` holds for any number of tests. The baseline runs as long as any pair needs it.

    Attributes:
      first: the first of the seeds, in ``[0, 2**32 - most]``.
    """

    first: int = 0
    least: int = declare(
        'Seeds of every pair.',
        example=4,
        default=5,
        check=fields.integer(minimum=2),
    )
    most: int = declare('Seeds of a pair that stays undecided.', example=20, default=50)
    margin: float = declare(
        'Largest difference that does not matter, in the unit of the metric: with one above zero '
        'a verdict can also be that a pair is equivalent.',
        example=0.01,
        default=0.0,
        check=fields.number_within(0, math.inf),
    )
    level: float = declare(
        'Probability that a pair never gets a false verdict.',
        example=0.99,
        default=0.95,
        check=fields.number_within(0, 1),
    )
    tail: float = declare(
        'Fraction of the evaluations, the last ones, that each seed is averaged over, in reports '
        'too unless they say otherwise.',
        example=0.2,
        default=0.1,
        check=fields.number_within(0, 1),
    )

    def __post_init__(self) -> None:
        """Checks the numbers."""
        fields.check_values(self, 'seeds.')
        checks.static_int('seeds.most', self.most, minimum=self.least)
        last_first = 2**32 - self.most
        checks.static_int('seeds.first', self.first, minimum=0, maximum=last_first)

    def __len__(self) -> int:
        """Returns the largest possible number of seeds."""
        return self.most

    def __getitem__(self, index: Any) -> Any:
        """Returns a seed, or a range of them."""
        return range(self.first, self.first + self.most)[index]

    def facts(self) -> Section:
        """Returns the fields that reports need."""
        return {
            name: getattr(self, name) for name in ('least', 'margin', 'level', 'tail')
        }


def looks(least: int, most: int) -> Iterator[int]:
    """Yields the numbers of seeds after which a pair is tested: 5, 6, 7, 8, 10, 12, 15, ..."""
    count = least
    while count < most:
        yield count
        count += max(1, count // 4)
    yield most


def seeds_needed(columns: Columns, facts: RunFacts) -> dict[str, dict[CellKey, int]]:
    """Returns how many seeds each algorithm needs by now, at each pattern and point.

    Args:
      columns: the metrics.
      facts: of an experiment with seeds until decided.

    Returns:
      By algorithm, and by pattern and point (`recorded.cell_key`), the number of seeds. Where there
      is no entry, it is ``least``.
    """
    until = facts['until']
    baseline = facts['baseline']
    final_metrics = {
        label: recorded.final_metrics(columns, facts, label, tail=until['tail'])
        for label in facts['algorithms']
    }
    sign = 1 if facts['directions'][facts['metric']] == 'max' else -1
    needed: dict[str, dict[Any, int]] = {label: {} for label in facts['algorithms']}
    for label in facts['algorithms']:
        if label == baseline:
            continue
        for key, by_seed in final_metrics[label].items():
            baseline_key = counterpart(key, final_metrics[baseline])
            if baseline_key is None:
                continue
            baseline_by_seed = final_metrics[baseline][baseline_key]
            differences = paired_differences(facts['seeds'], by_seed, baseline_by_seed)
            count = _num_seeds_needed(sign * differences, until, len(facts['seeds']))
            needed[label][key] = count
            baseline_count = needed[baseline].get(baseline_key, 0)
            needed[baseline][baseline_key] = max(count, baseline_count)
    return needed


def counterpart(key: CellKey, others: Iterable[CellKey]) -> CellKey | None:
    """Returns the key of the baseline under the same pattern at the same point, or None.

    Args:
      key: of the algorithm's cell, from `recorded.cell_key`.
      others: keys of the baseline's cells. Their points may have other columns of the grid; the
        columns that both points have must agree.
    """
    pattern, point = key
    for other in others:
        other_pattern, other_point = other
        if other_pattern == pattern and grids.agree(dict(point), dict(other_point)):
            return other
    return None


def paired_differences(
    seeds: Sequence[int], values: Mapping[int, float], others: Mapping[int, float]
) -> np.ndarray:
    """Returns differences by seed, float[S], up to the first seed that either side lacks."""
    pairs = []
    for seed in seeds:
        if seed not in values or seed not in others:
            break
        pairs.append((values[seed], others[seed]))
    if not pairs:
        return np.zeros(0)
    columns = np.array(pairs)
    return student.paired(columns[:, 0], columns[:, 1])


def _num_seeds_needed(differences: np.ndarray, until: Section, most: int) -> int:
    """Returns the number of seeds at which a pair is decided, or is to be tested next.

    Args:
      differences: float[S], of the seeds so far; NaN where a run diverged.
      until: the fields of `UntilDecided.facts`.
      most: the largest number of seeds.
    """
    for count in looks(until['least'], most):
        tested = differences[:count]
        if len(tested) < count:
            return count
        # A diverged lane decides the pair.
        if np.isnan(tested).any():
            return count
        verdict = evaluation.decide(
            tested, margin=until['margin'], level=until['level']
        )
        if verdict.word != evaluation.UNDECIDED:
            return count
    return most
