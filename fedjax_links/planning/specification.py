"""Specifies what is to be simulated, and how results are judged.

A lane is one simulation (`planning.lanes.Lane`). `parametrized` says what parts, columns, points
and makers are.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from fedjax_links import evaluation, simulation
from fedjax_links.base import (
    Algorithm,
    ExampleGenerator,
    Key,
    Params,
    Participation,
    Problem,
)
from fedjax_links.config.schema import Settings
from fedjax_links.core import checks, contracts, errors, grids, prng
from fedjax_links.core.grids import Point
from fedjax_links.core.records import RunFacts, Section
from fedjax_links.planning import problem_families, seeding, sequential_seeds
from fedjax_links.planning.lane_shards import LaneShard
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.parametrized import Maker
from fedjax_links.planning.tuning import IndexRange, Tuning


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Specification:
    """Holds an experiment's parts as functions of columns, and its grid, seeds and evaluation.

    Attributes:
      settings: the plain values of the experiment.
      algorithms: makers by label.
      patterns: makers by label. For the same values, a maker returns the same pattern.
      problems: makers of the problem of each pattern, by the pattern's label.
      columns: of the grid, values by dotted name.
      seeds: as in `Experiment`.
      redraw: as in `Experiment`.
      tuning: the options of tuning, with ``num_rounds`` filled in; None for no tuning.
      chosen_eval_fn: the user's evaluation; None for the problem's metrics.
      lane_shard: which of the lanes are to run; None for all lanes.
      config: that the experiment was made from; None for an experiment made in Python.
    """

    settings: Settings
    algorithms: Mapping[str, Maker[Algorithm]]
    patterns: Mapping[str, Maker[Participation]]
    problems: Mapping[str, Maker[Problem]]
    columns: grids.GridColumns
    seeds: Sequence[int]
    redraw: seeding.StreamModes
    tuning: Tuning | None
    chosen_eval_fn: simulation.EvalFn | None
    lane_shard: LaneShard | None
    config: Mapping[str, Any] | None

    @property
    def num_rounds(self) -> int:
        """Returns the number of rounds of every lane."""
        return self.settings.num_rounds

    @property
    def eval_every(self) -> int:
        """Returns the number of rounds of a period, which ends with an evaluation."""
        return self.settings.eval_every

    # Columns, points and seeds.

    @functools.cached_property
    def points(self) -> list[Point]:
        """Returns the points of the grid."""
        return grids.points(self.columns, self.settings.grid_mode)

    @functools.cached_property
    def draws(self) -> seeding.Draws:
        """Returns which seed each stream has in each lane."""
        tuning_seeds = self.tuning.seeds if self.tuning else ()
        streams_of_grid = self.columns.get(seeding.REDRAW_COLUMN, ())
        return seeding.Draws(self.redraw, [*self.seeds, *tuning_seeds], streams_of_grid)

    @functools.cached_property
    def candidates(self) -> dict[str, tuple[list[Any], IndexRange]]:
        """Returns, by column, all values that tuning may try, and the range of ``tuning.grid``.

        The range holds the indices of the column's values in ``tuning.grid``. On either side, the
        added values stop before the first one that an algorithm refuses.
        """
        if self.tuning is None:
            return {}
        allowed: dict[str, tuple[list[Any], IndexRange]] = {}
        for name, (values, (start, stop)) in self.tuning.candidates().items():
            begin = start
            while begin > 0 and self._accepts(name, values[begin - 1]):
                begin -= 1
            end = stop
            while end < len(values) and self._accepts(name, values[end]):
                end += 1
            grid_range = (start - begin, stop - begin)
            allowed[name] = values[begin:end], grid_range
        return allowed

    def _accepts(self, column: str, value: object) -> bool:
        """Returns whether all algorithms with a column can be made at one of its values."""
        tuned = self.tuning.grid if self.tuning else {}
        point = {name: values[0] for name, values in {**self.columns, **tuned}.items()}
        point[column] = value
        for maker in self.algorithms.values():
            if column in maker.columns:
                try:
                    maker.make_at(point)
                except ValueError:
                    return False
        return True

    @property
    def tuned_columns(self) -> dict[str, list[Any]]:
        """Returns by column all values that tuning may try; empty without tuning."""
        return {name: values for name, (values, _) in self.candidates.items()}

    @functools.cached_property
    def data_and_link_columns(self) -> set[str]:
        """Returns the columns that makers of problems and patterns take."""
        columns: set[str] = set()
        for pattern in self.patterns.values():
            columns |= pattern.columns.keys()
        for problem in self.problems.values():
            columns |= problem.columns.keys()
        return columns

    def columns_of(self, label: str, pattern: str) -> list[tuple[str, object]]:
        """Returns the columns of a pattern, its problem and an algorithm, with their defaults."""
        return [
            *self.problems[pattern].columns.items(),
            *self.patterns[pattern].columns.items(),
            *self.algorithms[label].columns.items(),
        ]

    # Parts at a point, and of a lane.

    def algorithm_at(self, label: str, columns: Point) -> Algorithm:
        """Makes an algorithm at values of columns, which may be traced."""
        return self.algorithms[label].make_at(columns)

    def pattern_at(
        self, label: str, point: Point, seed: int | None = None
    ) -> Participation:
        """Makes a pattern as a seed draws it, by default the first; cached by values."""
        seeds = self.draws.columns(seed, point)
        return self.patterns[label].make_at({**point, **seeds})

    def problem_at(
        self, pattern: str, point: Point, seed: int | None = None
    ) -> Problem:
        """Makes the problem of a pattern as a seed draws it, by default the first."""
        seeds = self.draws.columns(seed, point)
        return self.problems[pattern].make_at({**point, **seeds})

    def pattern_of(self, lane: Lane) -> Participation:
        """Makes the pattern of a lane."""
        return self.pattern_at(lane.pattern, lane.point, lane.seed)

    def problem_of(self, lane: Lane) -> Problem:
        """Makes the problem of a lane for the program that lanes of several seeds share.

        The program needs bounds on the number of examples of a client that are the same for all
        seeds. If the algorithm may read the bounds, as on full local data, they are the tightest
        bounds over all seeds. For these, the problem of each seed is made once. Otherwise the
        bounds are 1 and the number of all examples.
        """
        problem = self.problem_at(lane.pattern, lane.point, lane.seed)
        if isinstance(problem.owned, ExampleGenerator):
            # A generator gives every client the same number of examples.
            return problem
        if not self._reads_sizes(lane):
            lengths = map(len, jax.tree.leaves(problem.data))
            return problem_families.with_sizes(
                problem, 1, max(lengths, default=problem.max_examples)
            )
        sizes = self._sizes_at(lane.pattern, lane.point)
        return problem_families.with_sizes(problem, *sizes) if sizes else problem

    def _reads_sizes(self, lane: Lane) -> bool:
        """Returns whether a lane may depend on how many examples clients have."""
        eval_fn = self.chosen_eval_fn
        if eval_fn is not None and not problem_families.ignores_sizes(eval_fn):
            return True
        return problem_families.reads_sizes(
            self.algorithms[lane.algorithm].bound_at(lane.point)
        )

    def _sizes_at(self, pattern: str, point: Point) -> tuple[int, int] | None:
        """Returns the tightest bounds over all seeds on clients' numbers of examples; cached."""
        maker = self.problems[pattern]
        assert isinstance(maker.make, problem_families.ProblemCache)
        key = pattern, repr(maker.at({**point, **self.draws.columns()}))
        if key not in self._sizes:
            # Seeds that redraw no data make the same problem.
            arguments = [
                maker.at({**point, **seeds}) for seeds in self.draws.all_columns()
            ]
            distinct = {repr(values): values for values in arguments}
            self._sizes[key] = maker.make.sizes_of(list(distinct.values()))
        return self._sizes[key]

    @functools.cached_property
    def _sizes(self) -> dict[tuple[str, str], tuple[int, int] | None]:
        """Returns the cache of `_sizes_at`, by pattern and columns."""
        return {}

    # How results are judged.

    @property
    def baseline(self) -> str:
        """Returns the algorithm that others are compared with."""
        if self.settings.baseline is not None:
            return self.settings.baseline
        if 'fedavg' in self.algorithms:
            return 'fedavg'
        return next(iter(self.algorithms))

    @functools.cached_property
    def metric(self) -> str:
        """Returns the metric of tables and tuning.

        By default it is the first to be maximised, or the first of all if none is.
        """
        if self.settings.metric is not None:
            return self.settings.metric
        for name, direction in self._stated_directions.items():
            if direction == 'max':
                return name
        return next(iter(self._stated_directions))

    @functools.cached_property
    def directions(self) -> Mapping[str, str | None]:
        """Returns ``'max'``, ``'min'`` or None for unknown, by metric."""
        directions = dict(self._stated_directions)
        if self.settings.direction is not None and self.metric in directions:
            directions[self.metric] = self.settings.direction
        return directions

    @functools.cached_property
    def _stated_directions(self) -> Mapping[str, str | None]:
        """Returns the directions that the problem states, by metric."""
        problem = self.problem_at(next(iter(self.patterns)), self.points[0])
        stated = _metrics(problem, _problem_eval_fn(problem))
        directions: dict[str, str | None] = dict.fromkeys(
            _metrics(problem, self.eval_fn(problem))
        )
        for name in directions:
            if name in stated:
                directions[name] = evaluation.direction(problem, name)
        return directions

    def eval_fn(self, problem: Problem) -> simulation.EvalFn:
        """Returns the evaluation that is applied to every candidate model."""
        return self.chosen_eval_fn or _problem_eval_fn(problem)

    def metrics(self, pattern: str, point: Point) -> list[str]:
        """Names the metrics of a pattern's problem at a point."""
        problem = self.problem_at(pattern, point)
        return _metrics(problem, self.eval_fn(problem))

    def models(self, label: str) -> list[str]:
        """Names the candidate models of an algorithm."""
        problem = self.problem_at(next(iter(self.patterns)), self.points[0])
        tuned = {name: values[0] for name, values in self.tuned_columns.items()}
        algorithm = self.algorithm_at(label, {**tuned, **self.points[0]})

        def models_at_start(key: Key) -> Mapping[str, Params]:
            params = problem.init_params(key)
            return algorithm.models(algorithm.init(params, problem))

        return list(jax.eval_shape(models_at_start, jax.random.key(0)))

    # What reports need to know.

    @functools.cached_property
    def description(self) -> RunFacts:
        """Returns the facts that do not depend on this machine, as JSON values."""
        labels = list(self.algorithms)
        facts: dict[str, Any] = {
            'title': self.settings.title,
            'caption': self.settings.caption,
            'num_rounds': self.num_rounds,
            'eval_every': self.eval_every,
            'evaluate_start': self.settings.evaluate_start,
            'grid_mode': self.settings.grid_mode,
            'patterns': list(self.patterns),
            'algorithms': labels,
            'log': list(self.settings.log),
            'names': [list(pair) for pair in self.settings.names],
            'baseline': self.baseline,
            'metric': self.metric,
            'directions': dict(self.directions),
            'models': {label: self.models(label) for label in labels},
            'seeds': [int(seed) for seed in self.seeds],
            'grid': self.columns,
            'tuning': self._describe_tuning(),
            'reports': dict(self.settings.reports),
            'draws': prng.DRAWS_VERSION,
        }
        if isinstance(self.seeds, sequential_seeds.UntilDecided):
            facts['until'] = self.seeds.facts()
        redraw = self.draws.modes()
        if redraw != seeding.DEFAULTS:
            facts['redraw'] = dict(redraw)
        attainable = self._attainable()
        if attainable:
            facts['attainable'] = attainable
        return facts

    def _describe_tuning(self) -> Section | None:
        """Returns the fields of tuning, with all values that it may try."""
        if self.tuning is None:
            return None
        grid_ranges: dict[str, list[int]] = {}
        for name, (_, grid_range) in self.candidates.items():
            grid_ranges[name] = list(grid_range)
        fields = dataclasses.asdict(self.tuning)
        return {**fields, 'grid': self.tuned_columns, 'given': grid_ranges}

    def _attainable(self) -> str:
        """Says what the population's best model reaches, if all problems have the same text."""
        texts = {
            evaluation.attainable_text(self.problem_at(label, point))
            for label in self.patterns
            for point in self.points
        }
        return texts.pop() if len(texts) == 1 else ''

    def precision(self) -> contextlib.AbstractContextManager[object]:
        """Returns a context that traces programs with the precision of matrix products."""
        precision = self.settings.matmul_precision
        if precision is None:
            return contextlib.nullcontext()
        return jax.default_matmul_precision(precision)


def _problem_eval_fn(problem: Problem) -> simulation.EvalFn:
    """Returns an evaluation of a problem's metrics, on training data too if data are held out."""
    return evaluation.for_problem(problem) or simulation.problem_metrics


def _metrics(problem: Problem, eval_fn: simulation.EvalFn) -> list[str]:
    """Names what an evaluation returns.

    Raises:
      ValueError: unless it returns numbers by name.
    """
    checks.evaluation(eval_fn)
    key = jax.random.key(0)
    params = jax.eval_shape(problem.init_params, key)
    requirement = 'return numbers by name'
    try:
        measured = jax.eval_shape(eval_fn, params, key, problem)
    except TypeError as error:
        # JAX refuses the result of the user's function.
        is_called = errors.innermost_user_frame(error) is not None
        if is_called or not errors.is_users(eval_fn):
            raise
        got = errors.describe(error)
        raise errors.invalid('eval_fn', requirement, got) from error
    contracts.check_numbers_by_name('eval_fn', requirement, measured)
    if not measured:
        raise errors.invalid('eval_fn', requirement, 'no number')
    return list(measured)
