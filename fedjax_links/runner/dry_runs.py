"""Says what a run would take: lanes, programs, memory and time, part by part.

A lane is one simulation (`planning.lanes.Lane`), and lanes share compiled programs.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links import runs
from fedjax_links.base import FederationState
from fedjax_links.core import errors, memory, reprs, tree
from fedjax_links.machines.compile_clock import CompileClock
from fedjax_links.planning.description import count
from fedjax_links.planning.lanes import MAIN, Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.runner import hooks, preflight, realised_links, timing
from fedjax_links.runner.compilation import state_shape
from fedjax_links.runner.program_cache import Programs
from fedjax_links.runner.work_left import WorkLeft
from fedjax_links.storage import run_files

_MAX_LETTERS = 100
_NOTABLE = 0.1  # share of the time from which compilation is named apart


@dataclasses.dataclass
class RunCost:
    """Adds up the seconds that the parts of a run take, and counts its programs.

    Attributes:
      start: seconds until the first lanes begin, and to record links.
      compiling: seconds to compile all programs, with JAX's cache as this dry run found it.
      compiling_again: seconds to compile all programs once that cache holds them.
      compiling_once: seconds to compile what start and report need. The cache now holds it.
      lanes: seconds of lanes beyond their rounds: to begin, to save and to end.
      rounds: seconds of rounds, with their evaluations.
      further: seconds of rounds that run only if results ask for them.
      report: seconds of the measurements and pages at the end.
      num_training: programs that train.
      num_evaluation: programs that evaluate before the first round.
      link_structures: structures of patterns, each with a program that draws links.
    """

    start: float = 0.0
    compiling: float = 0.0
    compiling_again: float = 0.0
    compiling_once: float = 0.0
    lanes: float = 0.0
    rounds: float = 0.0
    further: float = 0.0
    report: float = 0.0
    num_training: int = 0
    num_evaluation: int = 0
    link_structures: set[Any] = dataclasses.field(default_factory=set)

    @property
    def seconds(self) -> float:
        """Returns the seconds that the run takes after this dry run."""
        return (
            self.start + self.compiling_again + self.lanes + self.rounds + self.report
        )

    @property
    def seconds_saved(self) -> float:
        """Returns the seconds that the run saves because this dry run filled JAX's cache."""
        return self.compiling_once + self.compiling - self.compiling_again


@dataclasses.dataclass(frozen=True)
class DryRunOptions:
    """Says what a dry run counts beside the plan, as a command would spend it.

    Attributes:
      seconds_so_far: seconds since the process started. The run would spend them as well.
      clock: counts the seconds of compilation since the process started.
      initial_states: what the run's lanes begin with.
      folder: of the run; rounds that it holds are not counted. None for a new run.
      allow_changed: as in `loop.run`.
      after_lanes: called with the folder of the timed lanes of each algorithm.
      time_report: returns the seconds of the report, and the seconds to compile what the report
        needs. It is called once all lanes are timed.
    """

    seconds_so_far: float = 0.0
    clock: CompileClock = dataclasses.field(default_factory=CompileClock)
    initial_states: hooks.InitialStates = dataclasses.field(
        default_factory=hooks.InitialStates
    )
    folder: Path | None = None
    allow_changed: bool = False
    after_lanes: timing.AfterLanes | None = None
    time_report: Callable[[], tuple[float, float]] | None = None


def _work_left(
    programs: Programs, options: DryRunOptions
) -> tuple[WorkLeft, list[str]]:
    """Returns the work that the folder leaves, and a line on the folder; no line if it is new."""
    plan = programs.plan
    folder = options.folder
    states = options.initial_states
    nothing_done = WorkLeft(plan, {}, states.round)
    saved = {} if folder is None else runs.saves(folder)
    if folder is None or not saved:
        return nothing_done, []
    try:
        preflight.check_folder(
            programs,
            folder,
            states,
            allow_changed=options.allow_changed,
            compare_programs=True,
        )
        run = runs.read(folder)
    except errors.InvalidError as error:
        return nothing_done, [f'folder   is not counted: {error}']
    rounds_done = {name: max(files) for name, files in saved.items()}
    # A changed run draws its links again.
    is_changed = options.allow_changed or run_files.CHANGED in run.facts
    has_links = not is_changed and realised_links.has_record(programs, states, folder)
    left = WorkLeft(plan, rounds_done, states.round, run.columns, has_links=has_links)
    return left, [left.summary()]


def dry_run(
    plan: Plan,
    programs: Programs | None = None,
    options: DryRunOptions | None = None,
) -> Iterator[str]:
    """Compiles every program and times a few lanes of each, without keeping anything.

    Rounds that the folder holds are not counted. The report covers all lanes, so it is timed over
    all of them.

    Args:
      plan: of an experiment.
      programs: its programs, if there are any yet.
      options: what to count beside the plan; nothing by default.

    Yields:
      First the lines of the config, with long values cut, and a line on the folder, if it holds
      something. Then two lines for each algorithm: on lanes and states, and on time and memory.
      Last the devices, the number of programs, and the time of the whole run.
    """
    yield from _config_lines(plan)
    programs = programs or Programs(plan)
    options = options or DryRunOptions()
    states = options.initial_states
    left, lines = _work_left(programs, options)
    yield from lines
    timer = timing.LaneTimer(programs, preflight.recorded_facts(programs, states))
    seconds_compiling = options.clock.seconds
    seconds_before = options.seconds_so_far - seconds_compiling
    cost = RunCost(start=seconds_before + timer.opening)
    # Compilations so far are in the cache of the run.
    cost.compiling_once = seconds_compiling
    if plan.has_first_shard and not left.has_links:
        cost.start += timing.time_links(programs, states)
    for label in plan.algorithms:
        if plan.lanes_at_first(label):  # else all are in other shards
            yield from _dry_run_algorithm(programs, label, timer, options, left, cost)
            programs.forget(label)
    if options.time_report is not None:
        cost.report, compiling = options.time_report()
        cost.compiling_once += compiling
    yield _device_line(programs)
    yield _compiled_line(cost)
    yield from _time_lines(cost)


def _config_lines(plan: Plan) -> Iterator[str]:
    """Shows the fields of the config, with long values cut."""
    for name, value in (plan.config or plan.facts()).items():
        text = json.dumps(value, default=str)
        if len(text) > _MAX_LETTERS:
            text = f'{text[:_MAX_LETTERS]} ...'
        yield f'config   {name} = {text}'


def _dry_run_algorithm(
    programs: Programs,
    label: str,
    timer: timing.LaneTimer,
    options: DryRunOptions,
    left: WorkLeft,
    cost: RunCost,
) -> Iterator[str]:
    """Compiles and times an algorithm's programs, and adds their cost to the cost of the run."""
    plan = programs.plan
    lanes = plan.lanes_at_first(label)
    main = [lane for lane in lanes if lane.stage == MAIN]
    by_program = programs.by_program(lanes)
    state = _describe_state(state_shape(plan, (main or lanes)[0]))
    yield (
        f'{label:16s} {len(lanes) - len(main)} lanes of tuning and {len(main)} lanes in '
        f'{count(len(by_program), "program")}; a lane keeps {state}'
    )
    timed = _time_algorithm(programs, by_program, timer, options.after_lanes, left)
    cost.compiling += timed.cost.compiling
    cost.compiling_again += timed.cost.compiling_again
    cost.lanes += timed.cost.lanes
    cost.rounds += timed.cost.rounds
    cost.further += left.further_rounds(label) * timed.seconds_per_round
    cost.num_training += timed.cost.num_training
    cost.link_structures |= timed.cost.link_structures
    main_left = left.lanes(main)
    if plan.settings.evaluate_start and main_left:
        cost.num_evaluation += len(programs.by_program(main_left))
    peak = f'needs {" or ".join(timed.peaks)} at its peak'
    if not timed.num_rounds:
        yield f'{"":16s} nothing is left; {peak}'
        return
    rate = _rate(1 / timed.seconds_per_round)
    yield (
        f'{"":16s} compiled in {timed.cost.compiling:.1f} s; {rate} rounds/s, '
        f'{reprs.duration(timed.cost.seconds)} in all; {peak}'
    )


@dataclasses.dataclass
class _TimedAlgorithm:
    """Holds what the programs of an algorithm cost.

    Attributes:
      cost: of the lanes that are left to run.
      num_rounds: how many rounds are left, over all lanes.
      slowest: seconds of a round of the slowest program.
      peaks: the memory that each program needs, as text; a dictionary keeps the texts in order.
    """

    cost: RunCost = dataclasses.field(default_factory=RunCost)
    num_rounds: int = 0
    slowest: float = 0.0
    peaks: dict[str, None] = dataclasses.field(default_factory=dict)

    @property
    def seconds_per_round(self) -> float:
        """Returns the mean seconds of a round, over the rounds that are left.

        If no round is left, it returns the seconds of a round of the slowest program.
        """
        return self.cost.rounds / self.num_rounds if self.num_rounds else self.slowest


def _time_algorithm(
    programs: Programs,
    by_program: Iterable[Sequence[Lane]],
    timer: timing.LaneTimer,
    after_lanes: timing.AfterLanes | None,
    left: WorkLeft,
) -> _TimedAlgorithm:
    """Compiles and times the programs of an algorithm."""
    timed = _TimedAlgorithm()
    for same_program in by_program:
        # Lanes of tuning leave no final models.
        has_models = any(lane.stage == MAIN for lane in same_program)
        unit = timer.time_program(same_program, after_lanes if has_models else None)
        if has_models:
            after_lanes = None
        timed.peaks[unit.peak] = None
        timed.slowest = max(timed.slowest, unit.round)
        lanes_left = left.lanes(same_program)
        if not lanes_left:
            continue
        new_rounds = sum(map(left.rounds, lanes_left))
        timed.num_rounds += new_rounds
        timed.cost.compiling += unit.compiling
        timed.cost.compiling_again += unit.compiling_again
        timed.cost.lanes += len(lanes_left) * unit.lane
        timed.cost.rounds += new_rounds * unit.round
        timed.cost.num_training += 1
        timed.cost.link_structures |= programs.by_structure(lanes_left).keys()
    return timed


def _rate(rounds: float) -> str:
    """Formats rounds per second, with two digits where there are few."""
    return f'{rounds:,.0f}' if rounds >= 10 else f'{rounds:.2g}'


def _device_line(programs: Programs) -> str:
    """Names the devices, and the free memory of the machine or of the first accelerator."""
    available = memory.available_bytes()
    free = 'unknown' if available is None else memory.size(available)
    device = programs.slots[0].first_device
    num_devices = sum(len(slot.devices) for slot in programs.slots)
    if num_devices == 1:
        return f'device   {device.device_kind}, {free} free'
    devices = f'{num_devices} x {device.device_kind}'
    if device.platform == 'cpu':
        return f'device   {devices}, {free} free'
    return f'device   {devices}, {free} free each'


def _compiled_line(cost: RunCost) -> str:
    """Counts the programs."""
    num_links = len(cost.link_structures)
    total = cost.num_training + num_links + cost.num_evaluation
    kinds = f'{cost.num_training} of training, {num_links} of links'
    if cost.num_evaluation:
        kinds += f', {cost.num_evaluation} of evaluation before the first round'
    return f'compiles {count(total, "program")}: {kinds}'


def _time_lines(cost: RunCost) -> Iterator[str]:
    """Says how long the run takes, part by part, and how long without programs in JAX's cache."""
    parts = {
        'start': cost.start,
        'compilation': cost.compiling_again,
        'rounds and evaluations': cost.rounds,
        'beginning and saving lanes': cost.lanes,
        'report': cost.report,
    }
    text = ', '.join(
        f'{name} {reprs.duration(seconds)}' for name, seconds in parts.items()
    )
    further = ''
    if cost.further:
        further = f', up to {reprs.duration(cost.further)} more as results ask for'
    yield f'time     about {reprs.duration(cost.seconds)}{further}: {text}'
    if cost.seconds_saved > _NOTABLE * cost.seconds:
        longer = reprs.duration(cost.seconds + cost.seconds_saved)
        yield f'         about {longer} where JAX has none of the programs in its cache'


def _describe_state(state: FederationState) -> str:
    """Describes the bytes of a state, part by part."""
    parts: Mapping[str, Any] = {'models and memories': state.algorithm}
    if hasattr(state.algorithm, '_asdict'):
        parts = dict(state.algorithm._asdict())
    parts = {
        **parts,
        'pattern': state.participation,
        'links and counters': (state.links, state.counters),
    }
    sizes = {name: tree.num_bytes(part) for name, part in parts.items()}
    return ', '.join(
        f'{name} {memory.size(size)}' for name, size in sizes.items() if size
    )
