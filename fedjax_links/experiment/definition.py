"""An experiment: a problem, link patterns, algorithms, a grid of values, and seeds."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from fedjax_links import evaluation, runs, simulation
from fedjax_links.base import Algorithm, Key, Params, Participation, Problem
from fedjax_links.core import checks, describing, errors, grids, prng
from fedjax_links.core.grids import Point
from fedjax_links.experiment.plan import families, limits, makers, redraws
from fedjax_links.experiment.plan.choosing import Tuning
from fedjax_links.experiment.plan.makers import Maker
from fedjax_links.machines import environment
from fedjax_links.results import dataset

LINKS = 'links'
"""What ``log`` calls the realised links of every seed."""

ProblemPart = Problem | Maker[Problem] | Callable[..., Problem]
PatternPart = Participation | Maker[Participation] | Callable[..., Participation]
AlgorithmPart = Algorithm | Maker[Algorithm] | Callable[..., Algorithm]

_PARTS = {'problem', 'patterns', 'algorithms', 'seeds', 'redraw', 'grid', 'tuning', 'eval_fn'}
"""Fields that are no values of a config, or on which other fields that it built depend."""


@describing.described(lambda experiment: experiment._summary())
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Experiment:
    """Algorithms over link patterns, at every point of a grid and with every seed.

    All algorithms meet the same links and batches. A part is an object, or a maker: a function
    whose keywords are columns of the grid, with the values that hold where the grid has none as
    their defaults. Floats are arguments of the compiled program, everything else is built into it;
    so rates of all sizes share one program, and numbers of local steps do not.

    Attributes:
      title: one line for tables and pictures.
      problem: data and loss: a Problem, a maker, or either by label of the pattern.
      patterns: by label, a Participation or a maker.
      algorithms: by label, an Algorithm or a maker.
      num_rounds: T.
      eval_every: rounds between evaluations, a divisor of ``num_rounds``; lanes advance in periods
        of this length.
      seeds: S seeds in ``[0, 2**32)``.
      redraw: ``'by_seed'`` or ``'fixed'`` by stream of draws, see `redraws`, or one of them for all
        streams: which of ``data``, ``partition``, ``links_quality``, ``init``, ``links`` and
        ``batches`` every seed draws anew. By default the first three are fixed. All algorithms of
        a seed meet the same. Makers that take ``data_seed``, ``partition_seed`` or
        ``links_quality_seed`` are given the seed where the stream is by seed.
      grid: values by column; nested grids have columns with dots, ``client.learning_rate``.
      grid_mode: ``'cross'`` runs all combinations, ``'together'`` one point per row.
      tuning: how missing values are found; None for no tuning.
      eval_fn: as in `simulation.simulate`; by default the problem's metrics, on training and
        evaluation data where it has both.
      evaluate_start: whether models are evaluated before the first round too, as round 0.
      metric: what tables show and tuning goes by; by default the first that is better when larger,
        else the first.
      direction: ``'max'`` or ``'min'``, if the problem does not state the metric's.
      baseline: label of the algorithm that others are compared with; ``fedavg`` by default, or the
        first.
      names: pairs (label, name to show) of patterns and algorithms, in the order to show them.
      reports: sections of layouts by file name, see `report.layouts`.
      caption: what was reported elsewhere, and every deviation from it.
      log: what to keep besides ``metrics.jsonl``: ``'links'`` for the realised links of every seed,
        ``module:factory`` as in `hooks`.
      config: the config that this experiment was made from, for the record. A copy by
        `dataclasses.replace` has it with the fields that changed, or none where a part changed that
        no config says.
    """

    title: str
    problem: ProblemPart | Mapping[str, ProblemPart]
    patterns: Mapping[str, PatternPart]
    algorithms: Mapping[str, AlgorithmPart]
    num_rounds: int
    eval_every: int
    seeds: Sequence[int] = (0,)
    redraw: Mapping[str, str] | str = dataclasses.field(default_factory=dict)
    grid: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    grid_mode: str = 'cross'
    tuning: Tuning | None = None
    eval_fn: simulation.EvalFn | None = None
    evaluate_start: bool = False
    metric: str | None = None
    direction: str | None = None
    baseline: str | None = None
    names: Sequence[tuple[str, str]] = ()
    reports: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    caption: str = ''
    log: Sequence[str] = ()
    config: Mapping[str, Any] | None = None
    _copied: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Checks everything but the parts themselves."""
        from fedjax_links.experiment.running import hooks

        self._describe_copy()
        checks.static_int('num_rounds', self.num_rounds)
        checks.static_int('eval_every', self.eval_every)
        limits.check_multiple('num_rounds', self.num_rounds, self.eval_every)
        for field in ('patterns', 'algorithms', 'seeds'):
            entries = getattr(self, field)
            if not isinstance(entries, Collection) or not len(entries):
                raise errors.invalid(field, 'have at least one entry', entries)
        limits.check_size(self)
        prng.seed_column(self.seeds)
        limits.check_labels('patterns', list(self.patterns))
        limits.check_labels('algorithms', list(self.algorithms))
        limits.check_report_names(list(self.reports))
        if isinstance(self.problem, Mapping) and (
            missing := set(self.patterns) - set(self.problem)
        ):
            raise errors.invalid('problem', f'have {min(missing)!r}', sorted(self.problem))
        if self.direction is not None:
            checks.choice('direction', self.direction, ('max', 'min'))
        checks.choice('baseline', self.baseline_label, list(self.algorithms))
        hooks.check_log(self.log)
        limits.check_names(self.names, (*self.patterns, *self.algorithms))
        limits.check_columns(self)
        columns = grids.flatten(self.grid)
        redraws.check(self.redraw, len(self.seeds), self.columns_taken, columns)
        for pattern in self.patterns:
            for point in self.grid_points:
                metrics = self._metrics(pattern, point)
                checks.choice('metric', self.metric_name, metrics)
                dataset.check_name('metrics', metrics)
                wanted = self.problem_at(pattern, point).num_clients
                if (count := self.pattern_at(pattern, point).num_clients) != wanted:
                    requirement = f"have the problem's {wanted} clients"
                    raise errors.invalid(f'patterns.{pattern}', requirement, count)
        if self.tuning is not None:
            limits.check_tuning(self, self.tuning)

    def _describe_copy(self) -> None:
        """Keeps the config that of the fields, whichever of them a copy was given anew."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        del fields['_copied']
        before, config = self._copied, self.config
        changed = {name: v for name, v in fields.items() if before and v is not before[name]}
        if config is not None and changed and 'config' not in changed:
            config = None if changed.keys() & _PARTS else {**config, **changed}
            object.__setattr__(self, 'config', config)
        object.__setattr__(self, '_copied', {**fields, 'config': config})

    # What the parts are.

    @functools.cached_property
    def grid_points(self) -> list[dict[str, Any]]:
        """The points of the grid."""
        return grids.points(grids.flatten(self.grid), self.grid_mode)

    @functools.cached_property
    def algorithm_makers(self) -> Mapping[str, Maker[Algorithm]]:
        """By label."""
        return {k: makers.as_maker(f'algorithms.{k}', v) for k, v in self.algorithms.items()}

    @functools.cached_property
    def pattern_makers(self) -> Mapping[str, Maker[Participation]]:
        """By label."""
        every = {k: makers.as_maker(f'patterns.{k}', v) for k, v in self.patterns.items()}
        return {k: maker._replace(make=makers.remember(maker.make)) for k, maker in every.items()}

    @functools.cached_property
    def problem_makers(self) -> Mapping[str, Maker[Problem]]:
        """By label of the pattern."""
        if not isinstance(self.problem, Mapping):
            shared = makers.as_maker('problem', self.problem)
            return dict.fromkeys(self.patterns, shared)
        return {k: makers.as_maker(f'problem.{k}', self.problem[k]) for k in self.patterns}

    def algorithm_at(self, label: str, columns: Point) -> Algorithm:
        """An algorithm at values of columns, which may be traced; the rest is as without a grid."""
        maker = self.algorithm_makers[label]
        return maker.make(**maker.at(columns))

    def pattern_at(self, label: str, point: Point, seed: int | None = None) -> Participation:
        """A pattern at a point, as a seed (the first) draws it; the same for the same values."""
        maker = self.pattern_makers[label]
        return maker.make(**maker.at({**point, **self.draws.columns(seed, point)}))

    def problem_at(self, pattern: str, point: Point, seed: int | None = None) -> Problem:
        """The problem of a pattern at a point, as a seed draws it; likewise."""
        drawn = self.draws.columns(seed, point)
        return self._problems.at(self.problem_makers[pattern], point, drawn)

    @property
    def columns_taken(self) -> set[str]:
        """The columns that makers of problems and patterns take."""
        every: list[Maker[Any]] = [*self.pattern_makers.values(), *self.problem_makers.values()]
        return {name for maker in every for name in maker.columns}

    @functools.cached_property
    def draws(self) -> redraws.Draws:
        """Which seed each draw has."""
        tuning = self.tuning.seeds if self.tuning else ()
        alone = grids.flatten(self.grid).get(redraws.GRID, ())
        return redraws.Draws(self.redraw, [*self.seeds, *tuning], alone)

    @functools.cached_property
    def _problems(self) -> families.Problems:
        return families.Problems(self.draws.every())

    # How results are judged.

    @property
    def baseline_label(self) -> str:
        """The algorithm that others are compared with."""
        default = 'fedavg' if 'fedavg' in self.algorithms else next(iter(self.algorithms))
        return default if self.baseline is None else self.baseline

    @functools.cached_property
    def metric_name(self) -> str:
        """What tables show and tuning goes by."""
        names = list(self.directions)
        larger = [name for name in names if self.directions[name] == 'max']
        return [*larger, *names][0] if self.metric is None else self.metric

    @functools.cached_property
    def directions(self) -> Mapping[str, str | None]:
        """``'max'``, ``'min'`` or None for unknown, by metric."""
        pattern = next(iter(self.pattern_makers))
        problem = self.problem_at(pattern, self.grid_points[0])
        stated = _metrics(problem, _own_eval_fn(problem))
        found = {
            name: evaluation.direction(problem, name) if name in stated else None
            for name in self._metrics(pattern, self.grid_points[0])
        }
        if self.direction is not None and self.metric in found:
            found[self.metric] = self.direction
        return found

    def eval_fn_for(self, problem: Problem) -> simulation.EvalFn:
        """What is applied to every candidate model."""
        return self.eval_fn or _own_eval_fn(problem)

    def _metrics(self, pattern: str, point: Point) -> list[str]:
        problem = self.problem_at(pattern, point)
        return _metrics(problem, self.eval_fn_for(problem))

    def models(self, label: str) -> list[str]:
        """Candidate models of an algorithm."""
        pattern, point = next(iter(self.pattern_makers)), self.grid_points[0]
        problem = self.problem_at(pattern, point)
        tried = grids.points(grids.flatten(self.tuning.grid), 'cross')[0] if self.tuning else {}
        algorithm = self.algorithm_at(label, self.algorithm_makers[label].at({**tried, **point}))

        def named(key: Key) -> Mapping[str, Params]:
            return algorithm.models(algorithm.init(problem.init_params(key), problem))

        return list(jax.eval_shape(named, jax.random.key(0)))

    # What it does.

    def run(self, folder: str | Path | None = None, callbacks: Sequence[Any] = ()) -> runs.Results:
        """Runs what has not run yet.

        Args:
          folder: where everything is kept, and from where an interrupted run goes on; None keeps
            the results in memory alone.
          callbacks: objects with the methods of `hooks.Callback`.

        Returns:
          The metrics as columns, tuning included.

        Raises:
          ValueError: if the folder holds another experiment, or every value tried diverges.
        """
        from fedjax_links.experiment.running import loop as running

        return running.run(self, folder, callbacks)

    def describe(self) -> str:
        """A few lines: the problem, the links and the bias they give FedAvg, the work ahead."""
        from fedjax_links.experiment.looking import preflight

        return preflight.describe(self)

    def facts(self) -> dict[str, Any]:
        """What reports need to know of the experiment, as plain values."""
        return {**self._facts, 'numerics': environment.numerics()}

    @functools.cached_property
    def _facts(self) -> dict[str, Any]:
        ways, tuning = self.draws.ways(), None
        if self.tuning is not None:
            tried = grids.flatten(self.tuning.grid)
            tuning = {**dataclasses.asdict(self.tuning), 'grid': tried}
        return {
            'title': self.title,
            'caption': self.caption,
            'patterns': list(self.pattern_makers),
            'algorithms': list(self.algorithms),
            'names': [list(pair) for pair in self.names],
            'baseline': self.baseline_label,
            'metric': self.metric_name,
            'directions': dict(self.directions),
            'models': {label: self.models(label) for label in self.algorithms},
            'num_rounds': self.num_rounds,
            'eval_every': self.eval_every,
            'evaluate_start': self.evaluate_start,
            'seeds': [int(seed) for seed in self.seeds],
            'grid': grids.flatten(self.grid),
            'grid_mode': self.grid_mode,
            'tuning': tuning,
            'reports': dict(self.reports),
            'log': list(self.log),
            'draws': prng.DRAWS,
            **({} if ways == redraws.DEFAULTS else {'redraw': dict(ways)}),
            **({'attainable': known} if (known := self._attainable()) else {}),
        }

    def _summary(self) -> str:
        columns = grids.flatten(self.grid)
        count = limits.num_points(columns, self.grid_mode)
        rows = {
            'title': self.title,
            'algorithms': ', '.join(self.algorithms),
            'patterns': ', '.join(self.patterns),
            'grid': f'{count} points of {", ".join(columns)}' if columns else '',
            'seeds': f'{len(self.seeds)}',
            'rounds': f'{self.num_rounds:,}, evaluated every {self.eval_every:,}',
        }
        return describing.block('Experiment', rows)

    def _attainable(self) -> str:
        """What is known of the difficulty, if it is the same everywhere."""
        problems = (self.problem_at(k, p) for k in self.pattern_makers for p in self.grid_points)
        known = {evaluation.attainable_text(problem) for problem in problems}
        return known.pop() if len(known) == 1 else ''


def _own_eval_fn(problem: Problem) -> simulation.EvalFn:
    return evaluation.for_problem(problem) or simulation.problem_metrics


def _metrics(problem: Problem, eval_fn: simulation.EvalFn) -> list[str]:
    """The names of what is measured."""
    key = jax.random.key(0)
    params = jax.eval_shape(problem.init_params, key)
    found = jax.eval_shape(eval_fn, params, key, problem)
    if not isinstance(found, Mapping) or any(leaf.shape for leaf in jax.tree.leaves(found)):
        raise errors.invalid('eval_fn', 'return numbers by name', found)
    return list(found)
