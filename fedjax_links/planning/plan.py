"""What an experiment comes down to: makers, the points of its grid, its lanes, how it is judged."""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax

from fedjax_links import evaluation, runs, simulation
from fedjax_links.base import Key, Params, Participation, Problem, Source
from fedjax_links.core import errors, grids, prng
from fedjax_links.core.grids import Point
from fedjax_links.machines import environment
from fedjax_links.planning import parametrized, seeding, sequential_seeds
from fedjax_links.planning.lanes import SEED, Lane, LaneShard, share_out
from fedjax_links.planning.parametrized import Maker
from fedjax_links.planning.schedule import LaneSchedule
from fedjax_links.planning.tuning import EdgeCounts, Tuning

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

_AS_THEY_ARE = (
    'title',
    'caption',
    'num_rounds',
    'eval_every',
    'evaluate_start',
    'grid_mode',
)
"""Fields that stand among the facts."""


class Plan:
    """What else of an experiment those need who run it, look at it or report on it.

    Attributes:
      columns: of the grid.
      algorithms: makers by label.
      patterns: likewise, which make a pattern once for the same values.
      problems: makers by label of the pattern.
      drawn_columns: the columns that makers of problems and patterns take.
    """

    def __init__(self, experiment: 'Experiment') -> None:
        """Makes nothing yet: what is asked for is found then, and kept."""
        self._experiment = experiment
        self.columns = grids.flatten(experiment.grid)
        algorithms, problem = experiment.algorithms.items(), experiment.problem
        self.algorithms = {
            k: parametrized.as_maker(f'algorithms.{k}', part) for k, part in algorithms
        }
        self.patterns: dict[str, Maker[Participation]] = {}
        for label, part in experiment.patterns.items():
            maker = parametrized.as_maker(f'patterns.{label}', part)
            self.patterns[label] = maker._replace(
                make=parametrized.remember(maker.make)
            )
        if not isinstance(problem, Mapping):
            problem = dict.fromkeys(
                self.patterns, parametrized.as_problems('problem', problem)
            )
        shared: dict[int, Maker[Problem]] = {}  # by part
        self.problems: dict[str, Maker[Problem]] = {}
        for label in self.patterns:
            of_label = problem[label]
            if id(of_label) not in shared:
                shared[id(of_label)] = parametrized.as_problems(
                    f'problem.{label}', of_label
                )
            self.problems[label] = shared[id(of_label)]
        self._sizes: dict[tuple[str, str], tuple[int, int] | None] = {}
        every: list[Maker[Any]] = [*self.patterns.values(), *self.problems.values()]
        self.drawn_columns = {name for maker in every for name in maker.columns}

    # What the parts are.

    @functools.cached_property
    def candidates(self) -> dict[str, tuple[list[Any], EdgeCounts]]:
        """By column all values that tuning may try, and where those that are tried first lie.

        What tuning adds at either end of a column ends before the first value that an algorithm
        refuses.
        """
        tuning = self._experiment.tuning
        if tuning is None:
            return {}
        found: dict[str, tuple[list[Any], EdgeCounts]] = {}
        for name, (values, (start, stop)) in tuning.candidates().items():
            first, last = start, stop
            while first > 0 and self._takes(name, values[first - 1]):
                first -= 1
            while last < len(values) and self._takes(name, values[last]):
                last += 1
            found[name] = values[first:last], (start - first, stop - first)
        return found

    def _takes(self, column: str, value: Any) -> bool:
        """Whether all algorithms with a column can be made at a value, others at their first."""
        tuning = self._experiment.tuning
        first = {**self.columns, **(tuning.grid if tuning else {})}
        point = {name: values[0] for name, values in first.items()} | {column: value}
        for maker in self.algorithms.values():
            if column in maker.columns:
                try:
                    maker.make_at(point)
                except ValueError:
                    return False
        return True

    @property
    def tried(self) -> dict[str, list[Any]]:
        """Columns of what tuning may try; none without tuning."""
        return {name: values for name, (values, _) in self.candidates.items()}

    @functools.cached_property
    def points(self) -> list[dict[str, Any]]:
        """The points of the grid."""
        return grids.points(self.columns, self._experiment.grid_mode)

    @functools.cached_property
    def draws(self) -> seeding.Draws:
        """Which seed each draw has."""
        tuning, alone = self._experiment.tuning, self.columns.get(seeding.GRID, ())
        seeds = [*self._experiment.seeds, *(tuning.seeds if tuning else ())]
        return seeding.Draws(self._experiment.redraw, seeds, alone)

    def problem_at(
        self, pattern: str, point: Point, seed: int | None = None
    ) -> Problem:
        """The problem of a pattern as a seed draws it, made when it is asked for."""
        return self.problems[pattern].make_at(
            {**point, **self.draws.columns(seed, point)}
        )

    def problem_of(self, lane: Lane) -> Problem:
        """The problem of a lane, as the program takes it that lanes of several seeds share.

        Its bounds of the sizes of clients are the same for all seeds. Where the algorithm may look
        at them, as on full local data, they are the tightest ones, for which the problems of all
        seeds are made once, one after the other. Elsewhere they are the number of examples.
        """
        problem = self.problem_at(lane.pattern, lane.point, lane.seed)
        if isinstance(problem.owned, Source):  # which makes as many for every client
            return problem
        if not self._reads_sizes(lane):
            lengths = map(len, jax.tree.leaves(problem.data))
            return parametrized.with_sizes(
                problem, 1, max(lengths, default=problem.max_examples)
            )
        sizes = self._sizes_at(lane.pattern, lane.point)
        return parametrized.with_sizes(problem, *sizes) if sizes else problem

    def _sizes_at(self, pattern: str, point: Point) -> tuple[int, int] | None:
        """Returns the tightest bounds of the sizes of clients, over all seeds; once for a point."""
        maker = self.problems[pattern]
        assert isinstance(maker.make, parametrized.Problems)
        key = pattern, repr(maker.at({**point, **self.draws.columns()}))
        if key not in self._sizes:
            rows = [maker.at({**point, **row}) for row in self.draws.every()]
            self._sizes[key] = maker.make.sizes_of(
                list({repr(row): row for row in rows}.values())
            )
        return self._sizes[key]

    def _reads_sizes(self, lane: Lane) -> bool:
        """Whether what trains or evaluates a lane may look at how many examples clients have."""
        eval_fn = self._experiment.eval_fn
        if eval_fn is not None and not parametrized.is_known(eval_fn):
            return True
        return parametrized.reads_sizes(
            self.algorithms[lane.algorithm].bound_at(lane.point)
        )

    def pattern_of(self, lane: Lane) -> Participation:
        """The pattern of a lane."""
        return self._experiment.pattern_at(lane.pattern, lane.point, lane.seed)

    # Its lanes.

    @functools.cached_property
    def tuning(self) -> Tuning | None:
        """How it is tuned, with the number of rounds of each try; None for no tuning."""
        tuning = self._experiment.tuning
        if tuning is None or tuning.num_rounds is not None:
            return tuning
        return dataclasses.replace(tuning, num_rounds=self._experiment.num_rounds)

    @functools.cached_property
    def schedule(self) -> LaneSchedule:
        """Which lanes there are; a run asks one of its own which of them are wanted."""
        return LaneSchedule(self._experiment, self)

    def lanes_at_first(self, label: str) -> list[Lane]:
        """The lanes of an algorithm that are this experiment's own, before anything is measured."""
        lanes = self.schedule.first_tries(label) + self.schedule.first_main(label)
        return list(filter(self.owns, lanes))

    def owns(self, lane: Lane) -> bool:
        """Whether a lane is of this experiment's share."""
        share = self._experiment.share
        return share is None or self.division.lanes[lane.name] == share.index

    @functools.cached_property
    def division(self) -> runs.RunDivision:
        """How the lanes of all shares are divided."""
        share = self._experiment.share or LaneShard(0, 1)
        return self.divide(share.count, share.by)

    def divide(self, count: int, by: str) -> runs.RunDivision:
        """Divides the lanes, those of tuning apart.

        Args:
          count: number of processes.
          by: as in `LaneShard`.

        Raises:
          ValueError: for seeds until decided by seed.
        """
        if by == SEED and isinstance(
            self._experiment.seeds, sequential_seeds.UntilDecided
        ):
            requirement = (
                'be left out where seeds go on until decided, on machines of one kind'
            )
            raise errors.invalid(
                'allow_mixed', requirement, True
            )  # whose shares help each other
        schedule, shards = self.schedule, dict[str, int]()
        more: list[Lane] = []
        of_seeds: dict[int, int] = {}
        for lanes_of in schedule.first_tries, schedule.first_main, schedule.possible:
            lanes = [lane for label in self.algorithms for lane in lanes_of(label)]
            more = [lane for lane in lanes if lane.name not in shards]
            shards |= share_out(more, count, by, of_seeds)
        return runs.RunDivision(count, by, shards, [lane.name for lane in more])

    def count_rounds(self, label: str) -> int:
        """Rounds that an algorithm simulates, tuning included."""
        return sum(lane.num_rounds for lane in self.lanes_at_first(label))

    def more_rounds(self, label: str) -> int:
        """Rounds that may be asked for beyond those, at most."""
        main = list(filter(self.owns, self.schedule.main(label)))
        tuning = list(filter(self.owns, self.schedule.possible_tuning(label)))
        most = sum(lane.num_rounds for lane in tuning)
        most += (1 + self.schedule.num_ties(label)) * sum(
            lane.num_rounds for lane in main
        )
        return most - self.count_rounds(label)

    def concerning(self, label: str, pattern: str) -> list[tuple[str, Any]]:
        """The columns that make a pattern, its problem or an algorithm, with their own values."""
        every = self.problems[pattern], self.patterns[pattern], self.algorithms[label]
        return [column for maker in every for column in maker.columns.items()]

    # How results are judged.

    @property
    def baseline(self) -> str:
        """The algorithm that others are compared with."""
        labels = self._experiment.algorithms
        default = 'fedavg' if 'fedavg' in labels else next(iter(labels))
        return (
            default if self._experiment.baseline is None else self._experiment.baseline
        )

    @functools.cached_property
    def metric(self) -> str:
        """What tables show and tuning goes by."""
        larger = [
            name for name, direction in self.directions.items() if direction == 'max'
        ]
        given = self._experiment.metric
        return [*larger, *self.directions][0] if given is None else given

    @functools.cached_property
    def directions(self) -> Mapping[str, str | None]:
        """``'max'``, ``'min'`` or None for unknown, by metric."""
        given, pattern = self._experiment, next(iter(self.patterns))
        problem = self.problem_at(pattern, self.points[0])
        stated = _metrics(problem, _own_eval_fn(problem))
        measured = _metrics(problem, self.eval_fn(problem))
        found = {
            k: evaluation.direction(problem, k) if k in stated else None
            for k in measured
        }
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
            return {**self.description, 'numerics': environment.numerics()}

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        """Within it, programs are traced with the experiment's precision of matrix products."""
        wanted = self._experiment.matmul_precision
        return (
            contextlib.nullcontext()
            if wanted is None
            else jax.default_matmul_precision(wanted)
        )

    @functools.cached_property
    def description(self) -> dict[str, Any]:
        """The facts but for the numerics of this machine."""
        of, ways, tuning = self._experiment, self.draws.ways(), None
        if self.tuning is not None:
            given = {name: list(ends) for name, (_, ends) in self.candidates.items()}
            tuning = {
                **dataclasses.asdict(self.tuning),
                'grid': self.tried,
                'given': given,
            }
        problems = (
            of.problem_at(k, point) for k in self.patterns for point in self.points
        )
        known = {evaluation.attainable_text(problem) for problem in problems}
        attainable = (
            known.pop() if len(known) == 1 else ''
        )  # of all, or nothing is said
        return {
            **{name: getattr(of, name) for name in _AS_THEY_ARE},
            **{
                name: list(getattr(of, name))
                for name in ('patterns', 'algorithms', 'log')
            },
            'names': [list(pair) for pair in of.names],
            **{name: getattr(self, name) for name in ('baseline', 'metric')},
            'directions': dict(self.directions),
            'models': {label: self.models(label) for label in of.algorithms},
            'seeds': [int(seed) for seed in of.seeds],
            'grid': self.columns,
            'tuning': tuning,
            'reports': dict(of.reports),
            'draws': prng.DRAWS,
            **(
                {'until': of.seeds.facts()}
                if isinstance(of.seeds, sequential_seeds.UntilDecided)
                else {}
            ),
            **({} if ways == seeding.DEFAULTS else {'redraw': dict(ways)}),
            **({'attainable': attainable} if attainable else {}),
        }


def _own_eval_fn(problem: Problem) -> simulation.EvalFn:
    return evaluation.for_problem(problem) or simulation.problem_metrics


def _metrics(problem: Problem, eval_fn: simulation.EvalFn) -> list[str]:
    key = jax.random.key(0)
    params = jax.eval_shape(problem.init_params, key)
    found = jax.eval_shape(eval_fn, params, key, problem)
    if not isinstance(found, Mapping) or any(
        leaf.shape for leaf in jax.tree.leaves(found)
    ):
        raise errors.invalid('eval_fn', 'return numbers by name', found)
    return list(found)
