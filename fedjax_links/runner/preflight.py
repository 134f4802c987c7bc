"""What is known of a run before it starts: what it is, whether it can run and fit, how long."""

import itertools
import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from fedjax_links import evaluation
from fedjax_links.base import FederationState, Problem
from fedjax_links.core import errors, memory, reprs, tree
from fedjax_links.planning import seeding, sequential_seeds
from fedjax_links.planning.lanes import MAIN, Lane
from fedjax_links.problems.classification import partition_of
from fedjax_links.runner.compilation import lane_bytes, state_shape
from fedjax_links.runner.lane_batch import Group
from fedjax_links.runner.program_cache import Programs, first_active

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

_TIMED_SECONDS = 1.0
_MOST_DRAWN = 2**27  # entries of a mask that are drawn to see who takes part
_ENOUGH_PHASES = (
    10  # of a cycle, evenly spread: as many as the papers' own evaluations see
)


def describe(experiment: 'Experiment') -> str:
    """Title, problems, the work ahead, draws, and warnings.

    Args:
      experiment: the experiment.

    Returns:
      Some lines.
    """
    problems: dict[int, tuple[Problem, list[str]]] = {}  # at the first point
    for label in experiment.plan.patterns:
        problem = experiment.problem_at(label, experiment.plan.points[0])
        problems.setdefault(id(problem), (problem, []))[1].append(label)
    lines = [experiment.title]
    for problem, labels in problems.values():
        lines += _describe_problem(
            problem, f' ({", ".join(labels)})' * (len(problems) > 1)
        )
    lines += _describe_work(experiment)
    lines += describe_recordings(experiment)
    return '\n'.join(
        [*lines, *_describe_redraws(experiment), *_describe_phases(experiment)]
    )


def _describe_problem(problem: Problem, whose: str) -> list[str]:
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    each = reprs.span(str(problem.min_examples), str(problem.max_examples))
    lines = [
        f'problem  {problem.num_clients:,} clients with {each} examples, '
        f'{tree.size(params):,} parameters{whose}'
    ]
    mix = partition_of(problem)
    if mix.global_mix.size:
        lines.append(
            f'data     {np.mean(mix.classes_held):.1f} of {mix.global_mix.size} labels per '
            f'client, total variation {np.mean(mix.total_variation):.2f} from the global mix'
        )
    if tests := reprs.tests_text(problem):
        lines.append(f'tests    {tests}')
    if known := evaluation.attainable_text(problem):
        lines.append(f"best     {known} (the population's best model, exact)")
    return lines


def _describe_redraws(experiment: 'Experiment') -> list[str]:
    """Which draws are made anew by every seed, unless that is as always."""
    ways, drawn = experiment.plan.draws.ways(), {None, *experiment.plan.drawn_columns}
    if ways == seeding.DEFAULTS:
        return []
    by_seed = ', '.join(name for name, way in ways.items() if way == seeding.BY_SEED)
    others = (name for name, way in ways.items() if way != seeding.BY_SEED)
    fixed = ', '.join(name for name in others if seeding.COLUMNS.get(name) in drawn)
    return [f'draws    by seed: {by_seed}{f"; fixed: {fixed}" if fixed else ""}']


def _describe_work(experiment: 'Experiment') -> list[str]:
    labels, plan = list(experiment.algorithms), experiment.plan
    total, more = (
        sum(map(plan.count_rounds, labels)),
        sum(map(plan.more_rounds, labels)),
    )
    tuned = any(map(plan.schedule.first_tries, labels))
    alike = len({len(plan.schedule.main(label)) for label in labels}) == 1
    points = f'{"" if alike else "up to "}{len(plan.points)} points'
    further = f', and up to {more:,} more as results ask for' if more else ''
    factors = [
        count(len(labels), 'algorithm'),
        count(len(experiment.patterns), 'pattern'),
        *([points] if len(plan.points) > 1 else []),
        seeds_of(experiment),
        f'{experiment.num_rounds:,} rounds',
    ]
    what = f'{" x ".join(factors)}{" and tuning" if tuned else ""}'
    lines = [f'work     {what}: {total:,} rounds{further}']
    if (share := experiment.share) is not None:
        own = [lane for label in labels for lane in plan.lanes_at_first(label)]
        whose = ', '.join(dict.fromkeys(lane.algorithm for lane in own)) or 'none'
        some = f'{len(own)} of {len(plan.division.lanes):,} lanes ({whose})'
        lines.append(f'shard    {share.index} of {share.count}: {some}')
    return lines


def describe_recordings(experiment: 'Experiment') -> list[str]:
    """Says which recordings find the problem's clients by number, as one side has no names.

    Args:
      experiment: the experiment, whose first point counts.

    Returns:
      A line for each such pattern.
    """
    lines, point = [], experiment.plan.points[0]
    for label in experiment.plan.patterns:
        names = experiment.pattern_at(label, point).client_names
        if names is None or (
            names and experiment.problem_at(label, point).client_names
        ):
            continue
        how = 'are the clients of the data by number, not by name'
        lines.append(f'clients  those recorded for {label} {how}')
    return lines


def _describe_phases(experiment: 'Experiment') -> list[str]:
    """Which patterns repeat so that evaluations see only a few rounds of their cycle."""
    every, last = experiment.eval_every, experiment.num_rounds
    lines = []
    for label in experiment.plan.patterns:
        cycle = experiment.pattern_at(label, experiment.plan.points[0]).cycle
        if cycle is None:
            continue
        seen = cycle // math.gcd(cycle, every)
        if seen < min(cycle, last // every, _ENOUGH_PHASES):
            coprime = next(
                n for n in itertools.count(every + 1) if math.gcd(n, cycle) == 1
            )
            lines.append(
                f'warning  {label} repeats every {cycle} rounds: evaluations every {every} see '
                f'{count(seen, "round")} of them, such as {coprime} would see all'
            )
    return lines


def seeds_of(experiment: 'Experiment') -> str:
    """``5 seeds``, ``5 to 50 seeds``."""
    seeds = experiment.seeds
    least = (
        f'{seeds.least} to ' if isinstance(seeds, sequential_seeds.UntilDecided) else ''
    )
    return f'{least}{count(len(seeds), "seed")}'


def count(number: int, word: str) -> str:
    """``1 seed``, ``2 seeds``."""
    return f'{number} {word}{"" if number == 1 else "s"}'


def check(experiment: 'Experiment', programs: Programs | None = None) -> None:
    """Traces a period of every program abstractly, and refuses what cannot fit, in seconds.

    Args:
      experiment: the experiment.
      programs: its programs, if there are any yet: none is traced again when it is compiled.

    Raises:
      InvalidError: naming the algorithm that needs more than there is, or a pattern under which
        nobody takes part in the whole run. Whatever a user's own part raises has a note that names
        algorithm and pattern.
    """
    programs, sizes = programs or Programs(experiment), list[tuple[int, str]]()
    for label in experiment.algorithms:
        for lane in programs.one_of_each(experiment.plan.lanes_at_first(label)):
            try:
                group = Group(programs, [lane])
                jax.eval_shape(group.program.advance, *group.inputs())
            except errors.InvalidError as error:
                where = f'config.algorithms.{label}'
                named = (
                    error.at(where) if error.path == 'algorithm' else error.under(where)
                )
                raise named from error
            except Exception as error:
                where, problem = (
                    f'config.algorithms.{label}',
                    experiment.plan.problem_of(lane),
                )
                algorithm = experiment.algorithm_at(lane.algorithm, lane.point)
                parts = *algorithm, problem.loss_fn, problem.init_params
                if errors.innermost_user_frame(error) is None and any(
                    map(errors.is_users, parts)
                ):
                    requirement = f'run on pattern {lane.pattern}'
                    raise errors.invalid(
                        where, requirement, errors.describe(error)
                    ) from error
                error.add_note(f'{where} on pattern {lane.pattern}')
                raise
            sizes.append((lane_bytes(experiment, lane), label))
    memory.refuse_if_above(memory.available_bytes(), *max(sizes, default=(0, '')))
    _check_takes_part(experiment, programs)


def _check_takes_part(experiment: 'Experiment', programs: Programs) -> None:
    """Raises if nobody trains in the whole run, and warns if nobody does for an evaluation."""
    cure = "`origin` 'first' begins a log with its first time"
    for label in experiment.plan.patterns:
        num_clients = experiment.pattern_at(
            label, experiment.plan.points[0]
        ).num_clients
        if num_clients * experiment.eval_every > _MOST_DRAWN:
            continue
        first = first_active(programs, label)
        if first is None:
            requirement = f'have clients that take part ({cure})'
            got = f'nobody in {experiment.num_rounds:,} rounds'
            raise errors.invalid(f'patterns.{label}', requirement, got)
        if first >= experiment.eval_every:
            said = (
                f'nobody takes part in the first {first:,} rounds under {label}; {cure}'
            )
            warnings.warn(said, stacklevel=3)


def dry_run(
    experiment: 'Experiment', programs: Programs | None = None
) -> Iterator[str]:
    """Compiles every program and times a few periods, without keeping anything.

    Args:
      experiment: the experiment.
      programs: as in `check`.

    Yields:
      The config, then a line per algorithm on lanes, states, memory and time, and the sum.
    """
    for name, value in (experiment.config or experiment.plan.facts()).items():
        yield f'config   {name} = {json.dumps(value, default=str)}'
    programs, total, more = programs or Programs(experiment), 0.0, 0.0
    drawing, of_training, of_evaluation = dict[Any, float](), 0, 0
    for label in experiment.algorithms:
        every = experiment.plan.lanes_at_first(label)
        if not every:  # all are other shards'
            continue
        main = [lane for lane in every if lane.stage == MAIN]
        kinds = len(programs.one_of_each(every))
        of_training += kinds
        if experiment.evaluate_start:
            of_evaluation += len(programs.one_of_each(main))
        keeps = _by_part(state_shape(experiment, (main or every)[0]))
        lanes = f'{len(every) - len(main)} lanes of tuning and {len(main)} lanes'
        yield f'{label:16s} {lanes} in {count(kinds, "program")}; a lane keeps {keeps}'
        timed = _time(programs, main or every)
        for structure in programs.structures_of(every):
            drawing.setdefault(structure, timed.links)
        rounds = experiment.plan.count_rounds(label)
        seconds = timed.training * kinds + rounds * timed.round
        total += seconds
        more += experiment.plan.more_rounds(label) * timed.round
        yield (
            f'{"":16s} compiled in {timed.training:.1f} s; {1 / timed.round:,.0f} rounds/s, '
            f'{reprs.duration(seconds)} in all; needs {timed.peak} at its peak'
        )
        programs.forget(label)
    free = memory.available_bytes()
    device = programs.places[0].home.device_kind
    num_devices = sum(len(place.devices) for place in programs.places)
    device = f'{num_devices} x {device}' if num_devices > 1 else device
    yield f'device   {device}, {"unknown" if free is None else memory.size(free)} free'
    compiled = f'{of_training} of training, {len(drawing)} of links'
    if of_evaluation:
        compiled += f', {of_evaluation} of evaluation before the first round'
    yield f'compiles {count(of_training + len(drawing) + of_evaluation, "program")}: {compiled}'
    total += max(drawing.values(), default=0.0) * len(drawing)
    further = f', up to {reprs.duration(more)} more as results ask for' if more else ''
    said = f'{reprs.duration(total)}{further}, from a few timed rounds of each program'
    yield f'time     about {said}'


def _by_part(state: FederationState) -> str:
    """Bytes of a state, part by part."""
    models = state.algorithm
    parts = (
        models._asdict()
        if hasattr(models, '_asdict')
        else {'models and memories': models}
    )
    parts |= {
        'pattern': state.participation,
        'links and counters': (state.links, state.counters),
    }
    sizes = {name: tree.num_bytes(part) for name, part in parts.items()}
    return ', '.join(
        f'{name} {memory.size(size)}' for name, size in sizes.items() if size
    )


class _Timed(NamedTuple):
    """What lanes with one program take.

    Attributes:
      training: seconds to compile what begins, trains and evaluates them.
      links: seconds to compile what draws their links; 0 if others' lanes have it.
      round: seconds a round.
      peak: memory at the peak, in words.
    """

    training: float
    links: float
    round: float
    peak: str


def _time(programs: Programs, lanes: Sequence[Lane]) -> _Timed:
    """Compiles what lanes with one program need, and times some rounds.

    One lane is timed at each of the places that lanes would share.
    """
    used = programs.places_for(lanes)
    groups = [Group(programs, [lanes[0]], place) for place in used]

    def advance() -> None:
        for group in groups:
            group.dispatch()
        for group in groups:
            group.collect()

    began = time.perf_counter()
    programs.compile(groups)
    for group in groups:
        group.start()
    if programs.experiment.evaluate_start:
        groups[0].evaluate()
    training = time.perf_counter() - began
    began = time.perf_counter()
    advance()
    first = time.perf_counter() - began
    began, periods = time.perf_counter(), 0
    while not periods or time.perf_counter() - began < _TIMED_SECONDS:
        periods += 1
        advance()
    took = (time.perf_counter() - began) / periods
    peak = memory.peak_bytes(programs.compile(groups)[0], used[0].num_copies)
    sharers = len(used) if used[0].home.platform == 'cpu' else 1  # of one memory
    needed = 'unknown' if peak is None else memory.size(peak * sharers)
    period = programs.experiment.eval_every
    return _Timed(training, max(0.0, first - took), took / period / len(groups), needed)
