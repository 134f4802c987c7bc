"""The lanes of an experiment: one simulation each, with everything that it needs named."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedjax_links import runs
from fedjax_links.core import grids
from fedjax_links.core.grids import Point
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan import redraws
from fedjax_links.experiment.plan.makers import REQUIRED
from fedjax_links.experiment.plan.tuning import Tuning

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
        values = [
            f'{name.rsplit(".", 1)[-1]} {value:g}'
            if isinstance(value, float)
            else f'{name.rsplit(".", 1)[-1]} {value}'
            for name, value in self.point.items()
            if value is not None
        ]
        tuning = ['tuning'] if self.stage == TUNING else []
        return ', '.join([self.algorithm, self.pattern, f'seed {self.seed}', *values, *tuning])


def of_kept(kept: runs.KeptLane) -> Lane:
    """The lane of which a folder has something, as far as it went."""
    own = {name: kept.labels[name] for name in ('stage', 'algorithm', 'pattern', 'seed')}
    return Lane(**own, point=kept.point, num_rounds=kept.round, place=kept.place)


def main_lanes(experiment: Experiment, label: str, chosen: Sequence[Point] = ()) -> list[Lane]:
    """All patterns, points and seeds of an algorithm.

    Args:
      experiment: the experiment.
      label: the algorithm.
      chosen: what tuning found, one for each of `tuned_points`.

    Returns:
      The lanes, seeds varying fastest.
    """
    found: list[Lane] = []
    best = list(zip(tuned_points(experiment, label), chosen, strict=True))
    for pattern in experiment.pattern_makers:
        names = {*_concerning(experiment, label, pattern), redraws.GRID}
        for point in grids.project(experiment.grid_points, names):
            suits = (
                values
                for tuned, values in best
                if all(point.get(name, value) == value for name, value in tuned.items())
            )
            added = next(suits, {})  # without a column of the tuned pattern, of its first value
            full = _complete(experiment, label, pattern, {**point, **added})
            for seed in experiment.seeds:
                place = len(found)
                found.append(Lane(MAIN, label, pattern, full, seed, experiment.num_rounds, place))
    return found


def tuned_points(experiment: Experiment, label: str) -> list[dict[str, Any]]:
    """The points of the grid that an algorithm is tuned at one by one.

    As far as they concern the algorithm, or the problem and the links that it is tuned on.
    """
    if experiment.tuning is None or not tuning_points(experiment, label):
        return []
    pattern = _tuned_pattern(experiment.tuning, experiment)
    return grids.project(experiment.grid_points, _concerning(experiment, label, pattern))


def tuning_points(experiment: Experiment, label: str) -> list[dict[str, Any]]:
    """What an algorithm tries in tuning; nothing if it is not tuned."""
    if experiment.tuning is None:
        return []
    own, tried = _columns(experiment, label), grids.flatten(experiment.tuning.grid)
    columns = {name: values for name, values in tried.items() if name in own}
    return grids.points(columns, 'cross') if columns else []


def first_tried(experiment: Experiment, label: str) -> list[dict[str, Any]]:
    """Stands for what tuning will find: at every tuned point, the first values that it tries."""
    tried = tuning_points(experiment, label)
    return [tried[0] for _ in tuned_points(experiment, label)]


def tuning_lanes(experiment: Experiment, label: str) -> list[Lane]:
    """Every point of the tuning grid at every point of the grid, with seeds of their own."""
    tuning: Tuning | None = experiment.tuning
    found: list[Lane] = []
    if tuning is None:
        return found
    pattern = _tuned_pattern(tuning, experiment)
    for point in tuned_points(experiment, label):
        for tried in tuning_points(experiment, label):
            full = _complete(experiment, label, pattern, {**point, **tried})
            for seed in tuning.seeds:
                lane = Lane(TUNING, label, pattern, full, seed, tuning.num_rounds, len(found))
                found.append(lane)
    return found


def count_rounds(experiment: Experiment, label: str) -> int:
    """Rounds that an algorithm simulates, tuning included."""
    main = main_lanes(experiment, label, first_tried(experiment, label))
    lanes = tuning_lanes(experiment, label) + main
    return sum(lane.num_rounds for lane in lanes)


def _tuned_pattern(tuning: Tuning, experiment: Experiment) -> str:
    """The links that algorithms are tuned on."""
    return tuning.pattern or next(iter(experiment.pattern_makers))


def _columns(experiment: Experiment, label: str) -> Mapping[str, Any]:
    return experiment.algorithm_makers[label].columns


def _concerning(experiment: Experiment, label: str, pattern: str) -> set[str]:
    """The columns that make an algorithm, a pattern or its problem."""
    patterns, problems = experiment.pattern_makers, experiment.problem_makers
    return {*_columns(experiment, label), *patterns[pattern].columns, *problems[pattern].columns}


def _complete(experiment: Experiment, label: str, pattern: str, point: Point) -> dict[str, Any]:
    """A point with the fixed values of all columns that it does not give."""
    drawn = experiment.draws.columns()  # of the seed, which stands beside the point
    makers = (
        experiment.problem_makers[pattern],
        experiment.pattern_makers[pattern],
        experiment.algorithm_makers[label],
    )
    fixed = {
        name: value[pattern] if isinstance(value, Mapping) else value
        for maker in makers
        for name, value in maker.columns.items()
        if value is not REQUIRED and name not in drawn
    }
    shown = {name: v for name, v in fixed.items() if v is None or isinstance(v, _PLAIN)}
    return {**shown, **point}
