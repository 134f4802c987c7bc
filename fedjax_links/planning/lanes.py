"""Defines a lane: one simulation of one algorithm, pattern, grid point and seed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedjax_links import runs
from fedjax_links.core.grids import Point
from fedjax_links.core.records import LaneLabels, LaneMetadata
from fedjax_links.results import dataset
from fedjax_links.runs import lane_names

MAIN = dataset.MAIN
TUNING = dataset.TUNING
TIE = dataset.TIE
STAGE_NAMES = {MAIN: '', TUNING: 'tuning', TIE: 'near ties'}
"""Stages as messages name them."""

_LABELS = ('stage', 'algorithm', 'pattern', 'seed')


class Lane(NamedTuple):
    """Describes one simulation.

    Attributes:
      stage: ``'tuning'`` for a lane that tries a value, ``'main'`` for a lane at the chosen value.
        ``'tie'`` for a lane with a main seed at a near tie: a value that tuning could not tell
        from the best.
      algorithm: label.
      pattern: label.
      point: the value of each column that the algorithm, the pattern or the problem takes.
      seed: of the streams of draws that are by seed (`seeding`).
      num_rounds: number of rounds.
      position: two indices: of the lane's series among the series of its algorithm and stage, and
        of its seed. A series is the lanes that differ in their seed alone. Neither index depends
        on how many seeds there are.
    """

    stage: str
    algorithm: str
    pattern: str
    point: Point
    seed: int
    num_rounds: int
    position: Sequence[int]

    @property
    def name(self) -> str:
        """Returns the name of the lane's files, which no other lane of the run has."""
        return lane_names.lane_name(
            self.stage, self.algorithm, self.pattern, self.position[0], self.seed
        )

    @property
    def labels(self) -> LaneLabels:
        """Returns what identifies the lane in a line of metrics."""
        stage = {} if self.stage == MAIN else {'stage': self.stage}
        labels = {
            'algorithm': self.algorithm,
            'pattern': self.pattern,
            'seed': int(self.seed),
        }
        return {**stage, **labels, **self.point}

    @property
    def metadata(self) -> LaneMetadata:
        """Returns what a store records about the lane."""
        return {
            'labels': {'stage': self.stage, **self.labels},
            'position': self.position,
            'num_rounds': self.num_rounds,
        }

    @property
    def description(self) -> str:
        """Writes the lane for messages: ``fedavg, links, seed 3, learning_rate 0.1``."""
        point = {name: value for name, value in self.point.items() if value is not None}
        parts = [
            self.algorithm,
            self.pattern,
            f'seed {self.seed}',
            dataset.describe_point(point),
            STAGE_NAMES[self.stage],
        ]
        return ', '.join(part for part in parts if part)


def from_record(record: runs.LaneRecord) -> Lane:
    """Returns the lane of a record; its ``num_rounds`` are the rounds that are recorded."""
    lane = from_labels(record.labels, record.position)
    return lane._replace(num_rounds=record.round)


def from_labels(labels: LaneLabels, position: Sequence[int]) -> Lane:
    """Returns the lane that has some labels; its ``num_rounds`` are 0.

    Args:
      labels: ``stage``, ``algorithm``, ``pattern``, ``seed`` and the columns of the lane's point.
      position: as in `Lane`.
    """
    point = {name: value for name, value in labels.items() if name not in _LABELS}
    named = {name: labels[name] for name in _LABELS}
    return Lane(**named, point=point, num_rounds=0, position=position)


def lanes_with_lowest_seeds(labels_of: Mapping[str, LaneLabels]) -> list[str]:
    """Lists the lane of the lowest seed of each algorithm, pattern and point.

    Args:
      labels_of: the labels of each lane, by name.
    """
    lowest: dict[str, str] = {}
    for lane, labels in labels_of.items():
        others = {name: value for name, value in labels.items() if name != 'seed'}
        first = lowest.setdefault(repr(others), lane)
        if labels['seed'] < labels_of[first]['seed']:
            lowest[repr(others)] = lane
    return [*lowest.values()]
