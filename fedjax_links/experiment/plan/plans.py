"""What an experiment comes down to: makers, the points of its grid, its lanes, how it is judged."""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedjax_links import evaluation, runs, simulation
from fedjax_links.base import Algorithm, Key, Params, Participation, Problem
from fedjax_links.core import errors, grids, prng
from fedjax_links.core.grids import Point
from fedjax_links.experiment.plan import choosing, deciding, dividing, families, makers, redraws
from fedjax_links.experiment.plan.lanes import MAIN, TIE, TUNING, Lane
from fedjax_links.experiment.plan.makers import REQUIRED, Maker
from fedjax_links.machines import environment
from fedjax_links.results import recorded

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

_PLAIN = (bool, int, float, str)
_AS_THEY_ARE = ('title', 'caption', 'num_rounds', 'eval_every', 'evaluate_start', 'grid_mode')
"""Fields that stand among the facts."""


class Plan:
    """What else of an experiment those need who run it, look at it or report on it.

    Attributes:
      columns: of the grid.
      tried: columns of what tuning may try; none without tuning.
    """

    def __init__(self, experiment: 'Experiment') -> None:
        """Makes nothing yet: what is asked for is found then, and kept."""
        self._experiment = experiment
        self.columns = grids.flatten(experiment.grid)
        self._candidates = experiment.tuning.candidates() if experiment.tuning else {}
        self.tried = {name: values for name, (values, _) in self._candidates.items()}
        self._wanted: tuple[Any, dict[str, dict[Any, int]]] = {}, {}

    # What the parts are.

    @functools.cached_property
    def points(self) -> list[dict[str, Any]]:
        """The points of the grid."""
        return grids.points(self.columns, self._experiment.grid_mode)

    @functools.cached_property
    def algorithms(self) -> Mapping[str, Maker[Algorithm]]:
        """Makers by label."""
        every = self._experiment.algorithms.items()
        return {label: makers.as_maker(f'algorithms.{label}', part) for label, part in every}

    @functools.cached_property
    def patterns(self) -> Mapping[str, Maker[Participation]]:
        """Makers by label, which make a pattern once for the same values."""
        every = self._experiment.patterns.items()
        found = {label: makers.as_maker(f'patterns.{label}', part) for label, part in every}
        return {k: maker._replace(make=makers.remember(maker.make)) for k, maker in found.items()}

    @functools.cached_property
    def problems(self) -> Mapping[str, Maker[Problem]]:
        """Makers by label of the pattern."""
        given, labels = self._experiment.problem, self._experiment.patterns
        if not isinstance(given, Mapping):
            return dict.fromkeys(labels, makers.as_maker('problem', given))
        return {label: makers.as_maker(f'problem.{label}', given[label]) for label in labels}

    @functools.cached_property
    def draws(self) -> redraws.Draws:
        """Which seed each draw has."""
        tuning, alone = self._experiment.tuning, self.columns.get(redraws.GRID, ())
        seeds = [*self._experiment.seeds, *(tuning.seeds if tuning else ())]
        return redraws.Draws(self._experiment.redraw, seeds, alone)

    @functools.cached_property
    def shared_problems(self) -> families.Problems:
        """The problems that were made."""
        return families.Problems(self.draws.every())

    @property
    def drawn_columns(self) -> set[str]:
        """The columns that makers of problems and patterns take."""
        every: list[Maker[Any]] = [*self.patterns.values(), *self.problems.values()]
        return {name for maker in every for name in maker.columns}

    def problem_of(self, lane: Lane) -> Problem:
        """The problem of a lane."""
        return self._experiment.problem_at(lane.pattern, lane.point, lane.seed)

    def pattern_of(self, lane: Lane) -> Participation:
        """The pattern of a lane."""
        return self._experiment.pattern_at(lane.pattern, lane.point, lane.seed)

    # Its lanes.

    def main_lanes(
        self, label: str, chosen: Sequence[tuple[str, Point, Point]] | None = None
    ) -> list[Lane]:
        """All patterns, points and seeds of an algorithm, those seeds too that may not be needed.

        Args:
          label: the algorithm.
          chosen: what tuning found, see `choosing.choose`; by default the first values that it
            tries.

        Returns:
          The lanes, seeds varying fastest.
        """
        lanes: list[Lane] = []
        if chosen is None:
            tried = self._tried(label).items()
            first = {name: values[start] for name, (values, (start, _)) in tried}
            chosen = [(*at, first) for at in self._tuned_at(label)]
        for series, (pattern, alone, point) in enumerate(self._series(label)):
            best = [(at, found) for where, at, found in chosen if where == alone]
            values = {**point, **_found_for(point, best)}
            lanes += self._lanes_at(MAIN, label, pattern, values, series)
        return lanes

    def tie_lanes(self, label: str, tries: Sequence[choosing.Tried] | None = None) -> list[Lane]:
        """Values that tuning could not tell from the best, with the seeds of the main lanes.

        Args:
          label: the algorithm.
          tries: what it tried; None for every lane that there may be.
        """
        lanes, tuning = list[Lane](), self._experiment.tuning
        if tuning is None or not (self._tried(label) and tuning.ties and len(tuning.seeds) > 1):
            return lanes
        every = self._values(label)
        for series, (pattern, alone, point) in enumerate(self._series(label)):
            asked = every
            if tries is not None:
                tried = _found_for(point, [(t.at, t) for t in tries if t.pattern == alone])
                asked = [tried.values_at(place) for place in tried.ties] if tried else []
            for values in asked:
                own = series * len(every) + every.index(values)
                lanes += self._lanes_at(TIE, label, pattern, {**point, **values}, own)
        return lanes

    def asked_lanes(self, label: str, columns: Mapping[str, Any] | None = None) -> list[Lane]:
        """The lanes that follow tuning, as far as what was measured asks for them.

        Args:
          label: the algorithm.
          columns: the metrics so far: once all lanes are done that these ask for, there are more
            where seeds go on until decided. By default nothing is known.

        Raises:
          ValueError: if tuning is not done, or every value that it tried diverged.
        """
        lanes = self.main_lanes(label)
        if columns is not None:
            tries = choosing.read_tries(columns, self._facts, label)
            lanes = self.main_lanes(label, choosing.choose(label, tries))
            lanes += self.tie_lanes(label, tries)
        if (until := self._facts.get('until')) is None:
            return lanes
        if self._wanted[0] is not columns:  # all algorithms are asked about the same
            self._wanted = columns, deciding.seeds_wanted(columns or {}, self._facts)
        wanted = self._wanted[1][label]
        seeds = list(self._experiment.seeds)
        places = (deciding.place_of(lane.pattern, lane.point, self._facts) for lane in lanes)
        counts = (wanted.get(place, until['least']) for place in places)
        return [x for x, k in zip(lanes, counts, strict=True) if seeds.index(x.seed) < k]

    def possible_lanes(self, label: str) -> list[Lane]:
        """Every lane that may be asked for."""
        return self._possible_tuning(label) + self.main_lanes(label) + self.tie_lanes(label)

    def _possible_tuning(self, label: str) -> list[Lane]:
        """Every value that tuning may try, on its patterns, at its points, with all its seeds."""
        lanes: list[Lane] = []
        tries = itertools.product(self._tuned_at(label), self._values(label))
        for number, ((pattern, point), values) in enumerate(tries):
            lanes += self._lanes_at(TUNING, label, pattern, {**point, **values}, number)
        return lanes

    def tuning_lanes(self, label: str, columns: Mapping[str, Any] | None = None) -> list[Lane]:
        """The lanes that tune an algorithm.

        Args:
          label: the algorithm.
          columns: the metrics so far: once all lanes are done that these ask for, there are more,
            or tuning has ended. By default those that are tried first.
        """
        if not (lanes := self._possible_tuning(label)):
            return lanes
        found = choosing.read_tries(columns or {}, self._facts, label)
        asked = {tried.place: tried.race.wanted for tried in found}
        first = choosing.first_tries(self._facts, list(self._tried(label)))
        places = (recorded.place_of(*at) for at in self._tuned_at(label))
        wanted = np.ravel([asked.get(place, first) for place in places])
        return list(itertools.compress(lanes, wanted.tolist()))

    def every_lane(self, label: str) -> list[Lane]:
        """The lanes of an algorithm that are this experiment's own, before anything is measured."""
        return self.own(self.tuning_lanes(label) + self.asked_lanes(label))

    def own(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Those of lanes that are this experiment's share of them."""
        share = self._experiment.share
        if share is None:
            return list(lanes)
        return [lane for lane in lanes if self.division.lanes[lane.name] == share.index]

    @functools.cached_property
    def division(self) -> runs.Division:
        """How the lanes of all shares are divided."""
        share = self._experiment.share or dividing.Share(0, 1)
        return dividing.divide(self._experiment, share.count, share.by)

    def count_rounds(self, label: str) -> int:
        """Rounds that an algorithm simulates, tuning included."""
        return sum(lane.num_rounds for lane in self.every_lane(label))

    def more_rounds(self, label: str) -> int:
        """Rounds that may be asked for beyond those, at most."""
        tuning, every = self._experiment.tuning, self.own(self.main_lanes(label))
        times = 1 + min(tuning.ties if tuning else 0, len(self.tie_lanes(label)))
        possible = [*self.own(self._possible_tuning(label)), *times * every]
        return sum(lane.num_rounds for lane in possible) - self.count_rounds(label)

    def _lanes_at(
        self, stage: str, label: str, pattern: str, point: Point, series: int
    ) -> list[Lane]:
        """A lane for every seed that a series has in a stage."""
        of: Any = self._experiment.tuning if stage == TUNING else self._experiment
        own = stage, label, pattern, self._complete(label, pattern, point)
        return [Lane(*own, seed, of.num_rounds, (series, k)) for k, seed in enumerate(of.seeds)]

    def _series(self, label: str) -> Iterator[tuple[str, str, Point]]:
        """Pattern and point of each series of an algorithm; between them where it is tuned."""
        for pattern in self.patterns:
            alone = (self._experiment.tuning and self._experiment.tuning.pattern) or pattern
            names = [*dict(self._concerning(label, pattern)), redraws.GRID]
            for point in grids.project(self.points, names):
                yield pattern, alone, point

    def _values(self, label: str) -> list[dict[str, Any]]:
        """All that tuning may try of an algorithm."""
        return grids.points({name: v for name, (v, _) in self._tried(label).items()}, 'cross')

    def _tried(self, label: str) -> dict[str, tuple[list[Any], tuple[int, int]]]:
        """By column that an algorithm takes, what may be tried, and where the first tries lie."""
        own = self.algorithms[label].columns
        return {name: found for name, found in self._candidates.items() if name in own}

    def _tuned_at(self, label: str) -> list[tuple[str, Point]]:
        """The patterns and points of the grid that an algorithm is tuned at one by one.

        Points as far as they concern the algorithm, or the problem and the links that it is tuned
        on; nothing for an algorithm that is not tuned.
        """
        tuning = self._experiment.tuning
        if tuning is None or not self._tried(label):
            return []
        patterns = self.patterns if tuning.pattern is None else [tuning.pattern]
        return [
            (pattern, point)
            for pattern in patterns
            for point in grids.project(self.points, dict(self._concerning(label, pattern)))
        ]

    def _concerning(self, label: str, pattern: str) -> list[tuple[str, Any]]:
        """The columns that make a pattern, its problem or an algorithm, with their own values."""
        every = self.problems[pattern], self.patterns[pattern], self.algorithms[label]
        return [column for maker in every for column in maker.columns.items()]

    def _complete(self, label: str, pattern: str, point: Point) -> dict[str, Any]:
        """A point with the fixed values of all columns that it does not give."""
        drawn = self.draws.columns()  # of the seed, which stands beside the point
        fixed = {
            name: value
            for name, value in self._concerning(label, pattern)
            if value is not REQUIRED and name not in drawn
        }
        shown = {name: v for name, v in fixed.items() if v is None or isinstance(v, _PLAIN)}
        return {**shown, **point}

    # How results are judged.

    @property
    def baseline(self) -> str:
        """The algorithm that others are compared with."""
        labels = self._experiment.algorithms
        default = 'fedavg' if 'fedavg' in labels else next(iter(labels))
        return default if self._experiment.baseline is None else self._experiment.baseline

    @functools.cached_property
    def metric(self) -> str:
        """What tables show and tuning goes by."""
        larger = [name for name, direction in self.directions.items() if direction == 'max']
        given = self._experiment.metric
        return [*larger, *self.directions][0] if given is None else given

    @functools.cached_property
    def directions(self) -> Mapping[str, str | None]:
        """``'max'``, ``'min'`` or None for unknown, by metric."""
        pattern, given = next(iter(self.patterns)), self._experiment
        problem = given.problem_at(pattern, self.points[0])
        stated = _metrics(problem, _own_eval_fn(problem))
        found = {
            name: evaluation.direction(problem, name) if name in stated else None
            for name in self.metrics(pattern, self.points[0])
        }
        if given.direction is not None and given.metric in found:
            found[given.metric] = given.direction
        return found

    def eval_fn(self, problem: Problem) -> simulation.EvalFn:
        """What is applied to every candidate model."""
        return self._experiment.eval_fn or _own_eval_fn(problem)

    def metrics(self, pattern: str, point: Point) -> list[str]:
        """The names of what is measured."""
        problem = self._experiment.problem_at(pattern, point)
        return _metrics(problem, self.eval_fn(problem))

    def models(self, label: str) -> list[str]:
        """Candidate models of an algorithm."""
        point = self.points[0]
        problem = self._experiment.problem_at(next(iter(self.patterns)), point)
        tried = grids.points(self.tried, 'cross')[0]
        algorithm = self._experiment.algorithm_at(label, {**tried, **point})

        def named(key: Key) -> Mapping[str, Params]:
            return algorithm.models(algorithm.init(problem.init_params(key), problem))

        return list(jax.eval_shape(named, jax.random.key(0)))

    def facts(self) -> dict[str, Any]:
        """What reports need to know of the experiment, as plain values."""
        with self.precision():
            return {**self._facts, 'numerics': environment.numerics()}

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """Within it, programs are traced with the experiment's precision of matrix products."""
        wanted = self._experiment.matmul_precision
        return contextlib.nullcontext() if wanted is None else jax.default_matmul_precision(wanted)

    @functools.cached_property
    def _facts(self) -> dict[str, Any]:
        of, ways, tuning = self._experiment, self.draws.ways(), None
        if of.tuning is not None:
            given = {name: list(places) for name, (_, places) in self._candidates.items()}
            tuning = {**dataclasses.asdict(of.tuning), 'grid': self.tried, 'given': given}
        problems = (of.problem_at(k, point) for k in self.patterns for point in self.points)
        known = {evaluation.attainable_text(problem) for problem in problems}
        attainable = known.pop() if len(known) == 1 else ''  # of all, or nothing is said
        return {
            **{name: getattr(of, name) for name in _AS_THEY_ARE},
            **{name: list(getattr(of, name)) for name in ('patterns', 'algorithms', 'log')},
            'names': [list(pair) for pair in of.names],
            'baseline': self.baseline,
            'metric': self.metric,
            'directions': dict(self.directions),
            'models': {label: self.models(label) for label in of.algorithms},
            'seeds': [int(seed) for seed in of.seeds],
            'grid': self.columns,
            'tuning': tuning,
            'reports': dict(of.reports),
            'draws': prng.DRAWS,
            **({'until': of.seeds.facts()} if isinstance(of.seeds, deciding.UntilDecided) else {}),
            **({} if ways == redraws.DEFAULTS else {'redraw': dict(ways)}),
            **({'attainable': attainable} if attainable else {}),
        }


def _found_for(point: Point, tuned: Sequence[tuple[Point, Any]]) -> Any:
    """What tuning found for a point: at the first of its own that differs in no column of both.

    The pattern that was tuned on may have columns that another lacks; of these the first values.
    """
    return next((found for at, found in tuned if grids.agree(point, at)), {})


def _own_eval_fn(problem: Problem) -> simulation.EvalFn:
    return evaluation.for_problem(problem) or simulation.problem_metrics


def _metrics(problem: Problem, eval_fn: simulation.EvalFn) -> list[str]:
    key = jax.random.key(0)
    params = jax.eval_shape(problem.init_params, key)
    found = jax.eval_shape(eval_fn, params, key, problem)
    if not isinstance(found, Mapping) or any(leaf.shape for leaf in jax.tree.leaves(found)):
        raise errors.invalid('eval_fn', 'return numbers by name', found)
    return list(found)
