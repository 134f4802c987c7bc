"""Lanes, one simulation each with everything that it needs named, and who runs which of them."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedjax_links import runs
from fedjax_links.core import checks, errors
from fedjax_links.core.grids import Point
from fedjax_links.planning import parametrized
from fedjax_links.results import dataset

MAIN, TUNING, TIE = dataset.MAIN, dataset.TUNING, dataset.TIE
WORDS = {MAIN: '', TUNING: 'tuning', TIE: 'near ties'}
"""Stages as a person reads of them."""

PROGRAM, SEED = 'program', 'seed'
AUTO = 'auto'
"""The share of a task of a job array, as the command line says it."""


_SERIES = re.compile(r'(?<=.)-(?=\d{4,}-.+-\d+$)')
"""Before what may be the number of a series in the name of a lane."""


def _without_numbers(label: str) -> str:
    """A label in which nothing reads like the number of a series, with what no label holds."""
    return re.sub(r'-(?=\d{4,}-)', '-..', f'-{label}-')[1:-1]


class Lane(NamedTuple):
    """One simulation.

    Attributes:
      stage: ``'tuning'``, ``'main'``, or ``'tie'`` for values that tuning could not tell from the
        best, with the seeds of the main stage.
      algorithm: label.
      pattern: label.
      point: the value of every column that the algorithm, the pattern or the problem takes.
      seed: of initial model, links and batches.
      num_rounds: its length.
      place: the number of its series among those of its algorithm and stage, and that of its seed
        among the seeds: where it stands however many seeds there are.
    """

    stage: str
    algorithm: str
    pattern: str
    point: Point
    seed: int
    num_rounds: int
    place: Sequence[int]

    @property
    def name(self) -> str:
        """Names the lane's files, and no other lane's whatever labels are."""
        series, labels = f'{self.place[0]:04d}', (self.algorithm, self.pattern)
        name = f'{self.algorithm}-{series}-{self.pattern}-{self.seed}'
        if '-' in ''.join(labels) and len(_SERIES.findall(name)) > 1:
            algorithm, pattern = map(_without_numbers, labels)
            name = f'{algorithm}-{series}-{pattern}-{self.seed}'
        return f'{self.stage}-{name}'

    @property
    def labels(self) -> dict[str, Any]:
        """What identifies the lane in a line of metrics."""
        stage = {} if self.stage == MAIN else {'stage': self.stage}
        labels = {
            'algorithm': self.algorithm,
            'pattern': self.pattern,
            'seed': int(self.seed),
        }
        return {**stage, **labels, **self.point}

    @property
    def about(self) -> dict[str, Any]:
        """What those who keep it must know of the lane."""
        labels = {'stage': self.stage, **self.labels}
        return {'labels': labels, 'place': self.place, 'num_rounds': self.num_rounds}

    @property
    def description(self) -> str:
        """For a person: ``fedavg, links, seed 3, learning_rate 0.1``."""
        values = {
            name: value for name, value in self.point.items() if value is not None
        }
        parts = [
            self.algorithm,
            self.pattern,
            f'seed {self.seed}',
            dataset.describe_point(values),
        ]
        return ', '.join(part for part in [*parts, WORDS[self.stage]] if part)


def of_kept(kept: runs.LaneRecord) -> Lane:
    """The lane of which a folder has something, as far as it went."""
    own = {
        name: kept.labels[name] for name in ('stage', 'algorithm', 'pattern', 'seed')
    }
    return Lane(**own, point=kept.point, num_rounds=kept.round, place=kept.place)


def of_labels(labels: Mapping[str, Any], place: Sequence[int]) -> Lane:
    """Returns the lane with these labels, of no round yet.

    Args:
      labels: ``stage``, ``algorithm``, ``pattern``, ``seed`` and the columns of its point.
      place: as in `Lane`.
    """
    names = ('stage', 'algorithm', 'pattern', 'seed')
    point = {name: value for name, value in labels.items() if name not in names}
    own = {name: labels[name] for name in names}
    return Lane(**own, point=point, num_rounds=0, place=place)


# Who runs which.


@dataclasses.dataclass(frozen=True)
class LaneShard:
    """The lanes of one of several processes.

    Attributes:
      index: which, from 0; ``count`` stands for 0, so that it may count from 1.
      count: how many there are.
      by: what stays together: lanes with one program, so that each process compiles few; or lanes
        of one seed, which all run on one kind of machine.

    Raises:
      ValueError: if the numbers are out of range.
    """

    index: int
    count: int
    by: str = PROGRAM

    def __post_init__(self) -> None:
        """Checks the numbers."""
        checks.static_int('shard', self.count)
        checks.static_int('shard', self.index, minimum=0, maximum=self.count)
        checks.choice('by', self.by, (PROGRAM, SEED))
        object.__setattr__(self, 'index', self.index % self.count)


def parse(text: str) -> tuple[int, int]:
    """The two numbers of ``3/64``.

    Raises:
      ValueError: if the text is something else.
    """
    index, _, count = text.partition('/')
    if not (
        index.isdecimal()
        and count.isdecimal()
        and int(count)
        and int(index) <= int(count)
    ):
        requirement = (
            f'read I/N, I from 0 to N - 1 or from 1 to N, or {AUTO} in a job array'
        )
        raise errors.invalid('shard', requirement, text)
    return int(index), int(count)


def share_out(
    lanes: Sequence[Lane], count: int, by: str, of_seeds: dict[int, int]
) -> dict[str, int]:
    """Divides lanes among processes.

    Args:
      lanes: of one stage.
      count: number of processes.
      by: as in `LaneShard`. In an order that puts lanes with one program side by side, each process
        has a stretch with as many rounds as the others, up to a lane; or as many seeds.
      of_seeds: the process of each seed that lanes divided before have; seeds that are new are
        added, where lanes of one seed stay together.

    Returns:
      The process of each lane, by name.
    """
    if by == SEED:
        new = [
            seed
            for seed in dict.fromkeys(x.seed for x in lanes)
            if seed not in of_seeds
        ]
        of_seeds |= {seed: index * count // len(new) for index, seed in enumerate(new)}
        return {lane.name: of_seeds[lane.seed] for lane in lanes}
    order: dict[Any, int] = {}

    def program(lane: Lane) -> int:
        built_in = [
            (k, v) for k, v in lane.point.items() if parametrized.is_built_in(v)
        ]
        return order.setdefault(
            (lane.algorithm, lane.pattern, repr(built_in)), len(order)
        )

    total, behind, found = sum(lane.num_rounds for lane in lanes), 0, {}
    for lane in sorted(lanes, key=program):
        found[lane.name] = (2 * behind + lane.num_rounds) * count // (2 * total)
        behind += lane.num_rounds
    return found
