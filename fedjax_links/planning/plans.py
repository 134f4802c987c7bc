"""What an experiment comes down to: makers, the points of its grid, its lanes, how it is judged."""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedjax_links import evaluation, runs, simulation
from fedjax_links.base import Key, Params, Participation, Problem
from fedjax_links.core import errors, grids, prng
from fedjax_links.core.grids import Point
from fedjax_links.machines import environment
from fedjax_links.planning import choosing, deciding, makers, redraws
from fedjax_links.planning.lanes import MAIN, SEED, TIE, TUNING, Lane, Share, share_out
from fedjax_links.planning.makers import Maker
from fedjax_links.results import recorded

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

_AS_THEY_ARE = ('title', 'caption', 'num_rounds', 'eval_every', 'evaluate_start', 'grid_mode')
"""Fields that stand among the facts."""


class Plan:
    """What else of an experiment those need who run it, look at it or report on it.

    Attributes:
      columns: of the grid.
      tried: columns of what tuning may try; none without tuning.
      algorithms: makers by label.
      patterns: likewise, which make a pattern once for the same values.
      problems: makers by label of the pattern.
      drawn_columns: the columns that makers of problems and patterns take.
    """

    def __init__(self, experiment: 'Experiment') -> None:
        """Makes nothing yet: what is asked for is found then, and kept."""
        self._experiment = experiment
        self.columns = grids.flatten(experiment.grid)
        self._candidates = experiment.tuning.candidates() if experiment.tuning else {}
        self.tried = {name: values for name, (values, _) in self._candidates.items()}
        self._wanted: tuple[Any, dict[str, dict[Any, int]]] = {}, {}
        algorithms, problem = experiment.algorithms.items(), experiment.problem
        self.algorithms = {k: makers.as_maker(f'algorithms.{k}', part) for k, part in algorithms}
        self.patterns: dict[str, Maker[Participation]] = {}
        for label, part in experiment.patterns.items():
            maker = makers.as_maker(f'patterns.{label}', part)
            self.patterns[label] = maker._replace(make=makers.remember(maker.make))
        if not isinstance(problem, Mapping):
            problem = dict.fromkeys(self.patterns, makers.as_maker('problem', problem))
        self.problems = {k: makers.as_maker(f'problem.{k}', problem[k]) for k in self.patterns}
        every: list[Maker[Any]] = [*self.patterns.values(), *self.problems.values()]
        self.drawn_columns = {name for maker in every for name in maker.columns}
        self._made: dict[Any, Problem] = {}
        self._firsts: dict[int, Problem] = {}

    # What the parts are.

    @functools.cached_property
    def points(self) -> list[dict[str, Any]]:
        """The points of the grid."""
        return grids.points(self.columns, self._experiment.grid_mode)

    @functools.cached_property
    def draws(self) -> redraws.Draws:
        """Which seed each draw has."""
        tuning, alone = self._experiment.tuning, self.columns.get(redraws.GRID, ())
        seeds = [*self._experiment.seeds, *(tuning.seeds if tuning else ())]
        return redraws.Draws(self._experiment.redraw, seeds, alone)

    def problem_at(self, pattern: str, point: Point, seed: int | None = None) -> Problem:
        """The problem of a pattern as a seed draws it; those of all seeds are made together.

        Problems of a maker at other points are like its first ones if their clients are of the same
        range of sizes.
        """
        maker, drawn = self.problems[pattern], self.draws.columns(seed, point)
        key = id(maker), repr(maker.at({**point, **drawn}))
        if key not in self._made:
            rows = [maker.at({**point, **row}) for row in (drawn, *self.draws.every())]
            wanted = {(id(maker), repr(row)): row for row in rows}
            made = makers.unify([maker.make(**row) for row in wanted.values()])
            first = self._firsts.setdefault(id(maker), made[0])
            sizes = {(problem.min_examples, problem.max_examples) for problem in (first, *made)}
            if first is not made[0] and len(sizes) == 1:
                made = makers.unify([first, *made])[1:]
            self._made |= zip(wanted, made, strict=True)
        return self._made[key]

    def problem_of(self, lane: Lane) -> Problem:
        """The problem of a lane."""
        return self.problem_at(lane.pattern, lane.point, lane.seed)

    def pattern_of(self, lane: Lane) -> Participation:
        """The pattern of a lane."""
        return self._experiment.pattern_at(lane.pattern, lane.point, lane.seed)

    # Its lanes.

    def main_lanes(self, label: str, tries: Sequence[choosing.Tried] | None = None) -> list[Lane]:
        """All patterns, points and seeds of an algorithm, those seeds too that may not be needed.

        Args:
          label: the algorithm.
          tries: what it tried; by default they have the first values that it tries.

        Returns:
          The lanes, seeds varying fastest.
        """
        lanes: list[Lane] = []
        first = {name: values[start] for name, (values, (start, _)) in self._tried(label).items()}
        for series, (pattern, point) in enumerate(self._places(label, self.patterns, redraws.GRID)):
            tried = choosing.tried_for(tries or (), pattern, point)
            values = {**point, **(tried.chosen if tried else first)}
            lanes += self._lanes(MAIN, label, pattern, values, series)
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
        for series, (pattern, point) in enumerate(self._places(label, self.patterns, redraws.GRID)):
            tried = choosing.tried_for(tries or (), pattern, point)
            near = [tried.values_at(place) for place in tried.ties] if tried else []
            for values in every if tries is None else near:
                own = series * len(every) + every.index(values)
                lanes += self._lanes(TIE, label, pattern, {**point, **values}, own)
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
            choosing.check_done(label, tries, len(self._tuned_at(label)))
            lanes = self.main_lanes(label, tries) + self.tie_lanes(label, tries)
        if (until := self._facts.get('until')) is None:
            return lanes
        if self._wanted[0] is not columns:  # all algorithms are asked about the same
            self._wanted = columns, deciding.seeds_wanted(columns or {}, self._facts)
        wanted, seeds = self._wanted[1][label], list(self._experiment.seeds)

        def is_wanted(lane: Lane) -> bool:
            at = {name: value for name, value in lane.point.items() if name in self.columns}
            count = wanted.get(recorded.place_of(lane.pattern, at), until['least'])
            return seeds.index(lane.seed) < count

        return list(filter(is_wanted, lanes))

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
        asked = {recorded.place_of(x.pattern, x.at): x.race.wanted for x in found}
        first = choosing.first_tries(self._facts, list(self._tried(label)))
        places = (recorded.place_of(*at) for at in self._tuned_at(label))
        wanted = np.ravel([asked.get(place, first) for place in places])
        return list(itertools.compress(lanes, wanted.tolist()))

    def possible_lanes(self, label: str) -> list[Lane]:
        """Every lane that may be asked for."""
        return self._possible_tuning(label) + self.main_lanes(label) + self.tie_lanes(label)

    def every_lane(self, label: str) -> list[Lane]:
        """The lanes of an algorithm that are this experiment's own, before anything is measured."""
        return self.own(self.tuning_lanes(label) + self.asked_lanes(label))

    def own(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Those of lanes that are this experiment's share of them."""
        share = self._experiment.share
        return [x for x in lanes if not share or self.division.lanes[x.name] == share.index]

    @functools.cached_property
    def division(self) -> runs.Division:
        """How the lanes of all shares are divided."""
        share = self._experiment.share or Share(0, 1)
        return self.divide(share.count, share.by)

    def divide(self, count: int, by: str) -> runs.Division:
        """Divides the lanes, those of tuning apart.

        Args:
          count: number of processes.
          by: as in `Share`.

        Raises:
          ValueError: for seeds until decided by seed.
        """
        if by == SEED and isinstance(self._experiment.seeds, deciding.UntilDecided):
            requirement = 'be left out where seeds go on until decided, on machines of one kind'
            raise errors.invalid('allow_mixed', requirement, True)  # whose shares help each other
        found: dict[str, int] = {}
        for lanes_of in self.tuning_lanes, self.asked_lanes, self.possible_lanes:
            lanes = [lane for label in self.algorithms for lane in lanes_of(label)]
            more = [lane for lane in lanes if lane.name not in found]
            found |= share_out(more, count, by)
        return runs.Division(count, by, found, [lane.name for lane in more])

    def count_rounds(self, label: str) -> int:
        """Rounds that an algorithm simulates, tuning included."""
        return sum(lane.num_rounds for lane in self.every_lane(label))

    def more_rounds(self, label: str) -> int:
        """Rounds that may be asked for beyond those, at most."""
        tuning, every = self._experiment.tuning, self.own(self.main_lanes(label))
        times = 1 + min(tuning.ties if tuning else 0, len(self.tie_lanes(label)))
        possible = [*self.own(self._possible_tuning(label)), *times * every]
        return sum(lane.num_rounds for lane in possible) - self.count_rounds(label)

    def _possible_tuning(self, label: str) -> list[Lane]:
        """Every value that tuning may try, on its patterns, at its points, with all its seeds."""
        lanes: list[Lane] = []
        tries = itertools.product(self._tuned_at(label), self._values(label))
        for number, ((pattern, point), values) in enumerate(tries):
            lanes += self._lanes(TUNING, label, pattern, {**point, **values}, number)
        return lanes

    def _lanes(self, stage: str, label: str, pattern: str, point: Point, series: int) -> list[Lane]:
        """A lane for every seed of a stage, with the fixed values of columns that a point lacks."""
        of: Any = self._experiment.tuning if stage == TUNING else self._experiment
        drawn = self.draws.columns()  # of the seed, which stands beside the point
        every = self._concerning(label, pattern)
        fixed = {
            k: v for k, v in every if k not in drawn and isinstance(v, int | float | str | None)
        }
        own = stage, label, pattern, {**fixed, **point}
        return [Lane(*own, seed, of.num_rounds, (series, k)) for k, seed in enumerate(of.seeds)]

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
        return self._places(label, self.patterns if tuning.pattern is None else [tuning.pattern])

    def _places(self, label: str, patterns: Iterable[str], *more: str) -> list[tuple[str, Point]]:
        """Patterns, and points of the grid as far as they concern lanes, and in more columns."""
        places: list[tuple[str, Point]] = []
        for pattern in patterns:
            names = [*dict(self._concerning(label, pattern)), *more]
            places += [(pattern, point) for point in grids.project(self.points, names)]
        return places

    def _concerning(self, label: str, pattern: str) -> list[tuple[str, Any]]:
        """The columns that make a pattern, its problem or an algorithm, with their own values."""
        every = self.problems[pattern], self.patterns[pattern], self.algorithms[label]
        return [column for maker in every for column in maker.columns.items()]

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
        given, pattern = self._experiment, next(iter(self.patterns))
        problem = self.problem_at(pattern, self.points[0])
        stated = _metrics(problem, _own_eval_fn(problem))
        measured = _metrics(problem, self.eval_fn(problem))
        found = {k: evaluation.direction(problem, k) if k in stated else None for k in measured}
        if given.direction is not None and given.metric in found:
            found[given.metric] = given.direction
        return found

    def eval_fn(self, problem: Problem) -> simulation.EvalFn:
        """What is applied to every candidate model."""
        return self._experiment.eval_fn or _own_eval_fn(problem)

    def metrics(self, pattern: str, point: Point) -> list[str]:
        """The names of what is measured."""
        problem = self.problem_at(pattern, point)
        return _metrics(problem, self.eval_fn(problem))

    def models(self, label: str) -> list[str]:
        """Candidate models of an algorithm."""
        problem = self.problem_at(next(iter(self.patterns)), self.points[0])
        first = {name: values[0] for name, values in self.tried.items()}
        algorithm = self.algorithms[label].make_at({**first, **self.points[0]})

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
            **{name: getattr(self, name) for name in ('baseline', 'metric')},
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


def _own_eval_fn(problem: Problem) -> simulation.EvalFn:
    return evaluation.for_problem(problem) or simulation.problem_metrics


def _metrics(problem: Problem, eval_fn: simulation.EvalFn) -> list[str]:
    key = jax.random.key(0)
    params = jax.eval_shape(problem.init_params, key)
    found = jax.eval_shape(eval_fn, params, key, problem)
    if not isinstance(found, Mapping) or any(leaf.shape for leaf in jax.tree.leaves(found)):
        raise errors.invalid('eval_fn', 'return numbers by name', found)
    return list(found)
