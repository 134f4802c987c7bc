"""The lanes of an experiment: one simulation each, with everything that it needs named."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from fedjax_links import runs
from fedjax_links.base import Participation, Problem
from fedjax_links.core import grids
from fedjax_links.core.grids import Point
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan import redraws
from fedjax_links.experiment.plan.makers import REQUIRED, Maker
from fedjax_links.results import dataset

MAIN, TUNING = 'main', 'tuning'
_PLAIN = (bool, int, float, str)


class Lane(NamedTuple):
    """One simulation.

    Attributes:
      stage: ``'main'`` or ``'tuning'``.
      algorithm: label.
      pattern: label.
      point: the value of every column that the algorithm, the pattern or the problem takes.
      seed: of initial model, links and batches.
      num_rounds: its length.
      place: its number among the lanes of its algorithm and stage.
    """

    stage: str
    algorithm: str
    pattern: str
    point: Point
    seed: int
    num_rounds: int
    place: int

    @property
    def name(self) -> str:
        """Names the lane's files."""
        return f'{self.stage}-{self.algorithm}-{self.place:04d}-{self.pattern}-{self.seed}'

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
        tuning = TUNING if self.stage == TUNING else ''
        parts = [self.algorithm, self.pattern, f'seed {self.seed}', dataset.described(values)]
        return ', '.join(part for part in [*parts, tuning] if part)


def of_kept(kept: runs.KeptLane) -> Lane:
    """The lane of which a folder has something, as far as it went."""
    own = {name: kept.labels[name] for name in ('stage', 'algorithm', 'pattern', 'seed')}
    return Lane(**own, point=kept.point, num_rounds=kept.round, place=kept.place)


def problem_of(experiment: Experiment, lane: Lane) -> Problem:
    """The problem of a lane."""
    return experiment.problem_at(lane.pattern, lane.point, lane.seed)


def pattern_of(experiment: Experiment, lane: Lane) -> Participation:
    """The pattern of a lane."""
    return experiment.pattern_at(lane.pattern, lane.point, lane.seed)


def main_lanes(
    experiment: Experiment, label: str, chosen: Sequence[Point] | None = None
) -> list[Lane]:
    """All patterns, points and seeds of an algorithm.

    Args:
      experiment: the experiment.
      label: the algorithm.
      chosen: what tuning found, one for each point of `tuned_at`; by default the first values that
        it tries.

    Returns:
      The lanes, seeds varying fastest.
    """
    found: list[Lane] = []
    tuned, tried = tuned_at(experiment, label)
    best = list(zip(tuned, tried[:1] * len(tuned) if chosen is None else chosen, strict=True))
    for pattern in experiment.pattern_makers:
        names = {*_concerning(experiment, label, pattern), redraws.GRID}
        for point in grids.project(experiment.grid_points, names):
            suits = (
                values
                for at, values in best
                if all(point.get(name, value) == value for name, value in at.items())
            )
            added = next(suits, {})  # without a column of the tuned pattern, of its first value
            full = _complete(experiment, label, pattern, {**point, **added})
            for seed in experiment.seeds:
                place = len(found)
                found.append(Lane(MAIN, label, pattern, full, seed, experiment.num_rounds, place))
    return found


def tuned_at(
    experiment: Experiment, label: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The points of the grid that an algorithm is tuned at one by one, and what it tries at each.

    Points as far as they concern the algorithm, or the problem and the links that it is tuned on;
    nothing for an algorithm that is not tuned.
    """
    own = experiment.algorithm_makers[label].columns
    every = grids.flatten(experiment.tuning.grid) if experiment.tuning else {}
    tried = {name: values for name, values in every.items() if name in own}
    if not tried:
        return [], []
    names = _concerning(experiment, label, _tuned_pattern(experiment))
    return grids.project(experiment.grid_points, names), grids.points(tried, 'cross')


def tuning_lanes(experiment: Experiment, label: str) -> list[Lane]:
    """Every point of the tuning grid at every point of the grid, with seeds of their own."""
    found: list[Lane] = []
    if (tuning := experiment.tuning) is None:
        return found
    pattern = _tuned_pattern(experiment)
    for point, tried in itertools.product(*tuned_at(experiment, label)):
        full = _complete(experiment, label, pattern, {**point, **tried})
        for seed in tuning.seeds:
            lane = Lane(TUNING, label, pattern, full, seed, tuning.num_rounds, len(found))
            found.append(lane)
    return found


def every_lane(experiment: Experiment, label: str) -> list[Lane]:
    """The lanes of an algorithm, main ones as by default."""
    return tuning_lanes(experiment, label) + main_lanes(experiment, label)


def count_rounds(experiment: Experiment, label: str) -> int:
    """Rounds that an algorithm simulates, tuning included."""
    return sum(lane.num_rounds for lane in every_lane(experiment, label))


def _tuned_pattern(experiment: Experiment) -> str:
    """The links that algorithms are tuned on."""
    tuned = experiment.tuning.pattern if experiment.tuning else None
    return tuned or next(iter(experiment.patterns))


def _concerning(experiment: Experiment, label: str, pattern: str) -> set[str]:
    """The columns that make an algorithm, a pattern or its problem."""
    return {name for maker in _makers(experiment, label, pattern) for name in maker.columns}


def _makers(experiment: Experiment, label: str, pattern: str) -> list[Maker[Any]]:
    own = experiment.problem_makers[pattern], experiment.pattern_makers[pattern]
    return [*own, experiment.algorithm_makers[label]]


def _complete(experiment: Experiment, label: str, pattern: str, point: Point) -> dict[str, Any]:
    """A point with the fixed values of all columns that it does not give."""
    drawn = experiment.draws.columns()  # of the seed, which stands beside the point
    fixed = {
        name: value
        for maker in _makers(experiment, label, pattern)
        for name, value in maker.columns.items()
        if value is not REQUIRED and name not in drawn
    }
    shown = {name: v for name, v in fixed.items() if v is None or isinstance(v, _PLAIN)}
    return {**shown, **point}
