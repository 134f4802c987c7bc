"""A lane of an experiment: one simulation, with everything that it needs named."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedjax_links import runs
from fedjax_links.core.grids import Point
from fedjax_links.results import dataset

MAIN, TUNING, TIE = dataset.MAIN, dataset.TUNING, dataset.TIE
WORDS = {MAIN: '', TUNING: 'tuning', TIE: 'near ties'}
"""Stages as a person reads of them."""


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
        """Names the lane's files."""
        return f'{self.stage}-{self.algorithm}-{self.place[0]:04d}-{self.pattern}-{self.seed}'

    @property
    def labels(self) -> dict[str, Any]:
        """What identifies the lane in a line of metrics."""
        stage = {} if self.stage == MAIN else {'stage': self.stage}
        labels = {'algorithm': self.algorithm, 'pattern': self.pattern, 'seed': int(self.seed)}
        return {**stage, **labels, **self.point}

    @property
    def about(self) -> dict[str, Any]:
        """What those who keep it must know of the lane."""
        labels = {'stage': self.stage, **self.labels}
        return {'labels': labels, 'place': self.place, 'num_rounds': self.num_rounds}

    @property
    def description(self) -> str:
        """For a person: ``fedavg, links, seed 3, learning_rate 0.1``."""
        values = {name: value for name, value in self.point.items() if value is not None}
        parts = [self.algorithm, self.pattern, f'seed {self.seed}', dataset.describe_point(values)]
        return ', '.join(part for part in [*parts, WORDS[self.stage]] if part)


def of_kept(kept: runs.KeptLane) -> Lane:
    """The lane of which a folder has something, as far as it went."""
    own = {name: kept.labels[name] for name in ('stage', 'algorithm', 'pattern', 'seed')}
    return Lane(**own, point=kept.point, num_rounds=kept.round, place=kept.place)
