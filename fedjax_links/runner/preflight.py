"""Tries a run before it starts: whether it can run and fits, and how long it takes."""

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from fedjax_links import runs
from fedjax_links.base import FederationState
from fedjax_links.core import errors, memory, reprs, tree
from fedjax_links.planning import validation
from fedjax_links.planning.description import count
from fedjax_links.planning.lanes import MAIN, Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.runner import hooks
from fedjax_links.runner.compilation import lane_bytes, state_shape
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.lane_batch import LaneBatch, compile_batches
from fedjax_links.runner.program_cache import Programs
from fedjax_links.runner.realised_links import first_active
from fedjax_links.storage import descriptions

_TIMED_SECONDS = 1.0
_MOST_LETTERS = 100
_MOST_ENTRIES = 2**27  # entries of a mask that are drawn to see who takes part


def check(plan: Plan, programs: Programs | None = None) -> None:
    """Traces a period of every program abstractly, and refuses what cannot fit, in seconds.

    Args:
      plan: of an experiment.
      programs: its programs, if there are any yet: none is traced again when it is compiled.

    Raises:
      InvalidError: naming a round of the config after the last one, the algorithm that needs more
        than there is, or a pattern under which nobody takes part in the whole run. An error from
        code of the user has a note that names algorithm and pattern.
    """
    validation.check_rounds(plan)
    programs = programs or Programs(plan)
    sizes: list[tuple[int, str]] = []
    for label in plan.algorithms:
        for lane in programs.one_of_each(plan.lanes_at_first(label)):
            _check_traces(programs, lane)
            sizes.append((lane_bytes(plan, lane), label))
    largest, label = max(sizes, default=(0, ''))
    memory.refuse_if_above(memory.available_bytes(), largest, label)
    for label in plan.patterns:
        _check_takes_part(programs, label)


def check_folder(
    programs: Programs,
    plan: Plan,
    folder: Path,
    initial_states: hooks.InitialStates | None = None,
    *,
    allow_changed: bool = False,
) -> None:
    """Raises for a folder of another experiment, before anything is described or compiled.

    Programs and data are compared here if the config differs. A run compares them in any case,
    under the lock of the folder.

    Args:
      programs: of the plan.
      plan: of an experiment.
      folder: where it is to run.
      initial_states: as in `loop.run`.
      allow_changed: as in `loop.run`.

    Raises:
      ValueError: naming what differs.
    """
    runs.refuse_older(folder, 'workdir')
    stored = descriptions.read_description(folder)
    if stored is None:
        return
    facts = recorded_facts(programs, plan, initial_states or hooks.InitialStates())
    config, plain_facts = json.loads(json.dumps([plan.config, facts]))
    identity = None
    if stored.config != config and not allow_changed:
        with plan.precision():
            identity = Identities(plan).of_run()
    descriptions.check_same(
        'workdir',
        folder,
        stored,
        descriptions.Description(plain_facts, config, identity),
        may_grow=True,
        allow_changed=identity is None,
    )


def recorded_facts(
    programs: Programs, plan: Plan, initial_states: hooks.InitialStates
) -> dict[str, Any]:
    """Returns what a run records of its experiment."""
    facts = {**plan.facts(), **initial_states.facts}
    if programs.slots[0].is_mesh:
        facts[runs.ON_A_MESH] = True
    return facts


def _check_traces(programs: Programs, lane: Lane) -> None:
    """Traces a period of a lane, and names its algorithm in errors."""
    where = f'config.algorithms.{lane.algorithm}'
    try:
        batch = LaneBatch(programs, [lane])
        jax.eval_shape(batch.program.advance, *batch.advance_args())
    except errors.InvalidError as error:
        if error.path == 'algorithm':
            raise error.at(where) from error
        raise error.under(where) from error
    except Exception as error:
        if errors.innermost_user_frame(error) is None and _has_users_parts(
            programs.plan, lane
        ):
            requirement = f'run on pattern {lane.pattern}'
            raise errors.invalid(where, requirement, errors.describe(error)) from error
        error.add_note(f'{where} on pattern {lane.pattern}')
        raise


def _has_users_parts(plan: Plan, lane: Lane) -> bool:
    """Tells whether functions of a lane's algorithm or problem are code of the user."""
    algorithm = plan.algorithm_at(lane.algorithm, lane.point)
    problem = plan.problem_of(lane)
    functions = (*algorithm, problem.loss_fn, problem.init_params)
    return any(errors.is_users(function) for function in functions)


def _check_takes_part(programs: Programs, label: str) -> None:
    """Raises if nobody trains in the whole run, and warns if nobody does for an evaluation."""
    plan = programs.plan
    num_clients = plan.pattern_at(label, plan.points[0]).num_clients
    if num_clients * plan.eval_every > _MOST_ENTRIES:
        return
    cure = "`origin` 'first' begins a log with its first time"
    first = first_active(programs, label)
    if first is None:
        requirement = f'have clients that take part ({cure})'
        got = f'nobody in {plan.num_rounds:,} rounds'
        raise errors.invalid(f'patterns.{label}', requirement, got)
    if first >= plan.eval_every:
        warnings.warn(
            f'nobody takes part in the first {first:,} rounds under {label}; {cure}',
            stacklevel=3,
        )


class _Totals:
    """Adds up what the algorithms of a dry run take.

    Attributes:
      seconds: of training and its compilation.
      further: seconds of rounds that are run only if results ask for them.
      link_seconds: to compile what draws links, by structure of the patterns.
      num_training: programs that train.
      num_evaluation: programs that evaluate before the first round.
    """

    def __init__(self) -> None:
        """Begins with nothing."""
        self.seconds = 0.0
        self.further = 0.0
        self.link_seconds: dict[Any, float] = {}
        self.num_training = 0
        self.num_evaluation = 0


def dry_run(plan: Plan, programs: Programs | None = None) -> Iterator[str]:
    """Compiles every program and times a few periods, without keeping anything.

    Args:
      plan: of an experiment.
      programs: as in `check`.

    Yields:
      The config with long values cut; a line per algorithm on lanes, states, memory and time; the
      sum.
    """
    for name, value in (plan.config or plan.facts()).items():
        text = json.dumps(value, default=str)
        if len(text) > _MOST_LETTERS:
            text = f'{text[:_MOST_LETTERS]} ...'
        yield f'config   {name} = {text}'
    programs = programs or Programs(plan)
    totals = _Totals()
    for label in plan.algorithms:
        lanes = plan.lanes_at_first(label)
        if lanes:  # else all are in other shards
            yield from _dry_run_algorithm(programs, lanes, totals)
            programs.forget(label)
    yield _device_line(programs)
    yield _compiled_line(totals)
    seconds = totals.seconds
    seconds += max(totals.link_seconds.values(), default=0.0) * len(totals.link_seconds)
    further = ''
    if totals.further:
        further = f', up to {reprs.duration(totals.further)} more as results ask for'
    duration = reprs.duration(seconds)
    sources = 'from a few timed rounds of each program; the report comes on top'
    yield f'time     about {duration}{further}, {sources}'


def _dry_run_algorithm(
    programs: Programs, lanes: Sequence[Lane], totals: _Totals
) -> Iterator[str]:
    """Compiles and times an algorithm, and adds that to the totals."""
    plan = programs.plan
    label = lanes[0].algorithm
    main = [lane for lane in lanes if lane.stage == MAIN]
    num_programs = len(programs.one_of_each(lanes))
    totals.num_training += num_programs
    if plan.settings.evaluate_start:
        totals.num_evaluation += len(programs.one_of_each(main))
    state = _describe_state(state_shape(plan, (main or lanes)[0]))
    yield (
        f'{label:16s} {len(lanes) - len(main)} lanes of tuning and {len(main)} lanes in '
        f'{count(num_programs, "program")}; a lane keeps {state}'
    )
    timed = _time(programs, main or lanes)
    for structure in programs.structures_of(lanes):
        totals.link_seconds.setdefault(structure, timed.links)
    seconds = timed.training * num_programs + plan.count_rounds(label) * timed.round
    totals.seconds += seconds
    totals.further += plan.max_extra_rounds(label) * timed.round
    yield (
        f'{"":16s} compiled in {timed.training:.1f} s; {_rate(1 / timed.round)} rounds/s, '
        f'{reprs.duration(seconds)} in all; needs {timed.peak} at its peak'
    )


def _rate(rounds: float) -> str:
    """Formats rounds per second, with two digits where there are few."""
    return f'{rounds:,.0f}' if rounds >= 10 else f'{rounds:.2g}'


def _device_line(programs: Programs) -> str:
    """Names the devices and their free memory."""
    available = memory.available_bytes()
    free = 'unknown' if available is None else memory.size(available)
    kind = programs.slots[0].home.device_kind
    num_devices = sum(len(slot.devices) for slot in programs.slots)
    devices = f'{num_devices} x {kind}' if num_devices > 1 else kind
    return f'device   {devices}, {free} free'


def _compiled_line(totals: _Totals) -> str:
    """Counts the programs."""
    num_links = len(totals.link_seconds)
    total = totals.num_training + num_links + totals.num_evaluation
    kinds = f'{totals.num_training} of training, {num_links} of links'
    if totals.num_evaluation:
        kinds += f', {totals.num_evaluation} of evaluation before the first round'
    return f'compiles {count(total, "program")}: {kinds}'


def _describe_state(state: FederationState) -> str:
    """Describes the bytes of a state, part by part."""
    parts: dict[str, Any] = {'models and memories': state.algorithm}
    if hasattr(state.algorithm, '_asdict'):
        parts = dict(state.algorithm._asdict())
    parts['pattern'] = state.participation
    parts['links and counters'] = (state.links, state.counters)
    sizes = {name: tree.num_bytes(part) for name, part in parts.items()}
    return ', '.join(
        f'{name} {memory.size(size)}' for name, size in sizes.items() if size
    )


class _Timed(NamedTuple):
    """Holds what lanes with one program take.

    Attributes:
      training: seconds to compile what begins, trains and evaluates them.
      links: seconds to compile what draws their links; 0 if it was compiled before.
      round: seconds a round.
      peak: memory at the peak, in words.
    """

    training: float
    links: float
    round: float
    peak: str


def _time(programs: Programs, lanes: Sequence[Lane]) -> _Timed:
    """Compiles what lanes with one program need, and times some rounds.

    One lane is timed on each of the device slots that lanes would share.
    """
    slots = programs.slots_for(lanes)
    batches = [LaneBatch(programs, [lanes[0]], slot) for slot in slots]

    def advance() -> None:
        for batch in batches:
            batch.dispatch()
        for batch in batches:
            batch.collect()

    began = time.perf_counter()
    compile_batches(programs, batches)
    for batch in batches:
        batch.start()
    if programs.plan.settings.evaluate_start:
        batches[0].evaluate()
    training_seconds = time.perf_counter() - began
    # The first period also compiles what draws the links.
    began = time.perf_counter()
    advance()
    first_seconds = time.perf_counter() - began
    began = time.perf_counter()
    num_periods = 0
    while num_periods == 0 or time.perf_counter() - began < _TIMED_SECONDS:
        num_periods += 1
        advance()
    period_seconds = (time.perf_counter() - began) / num_periods
    return _Timed(
        training=training_seconds,
        links=max(0.0, first_seconds - period_seconds),
        round=period_seconds / programs.plan.eval_every / len(batches),
        peak=_peak_memory(programs, batches),
    )


def _peak_memory(programs: Programs, batches: Sequence[LaneBatch]) -> str:
    """Describes the memory that batches need at the same time."""
    slot = batches[0].slot
    peak = memory.peak_bytes(compile_batches(programs, batches)[0], slot.num_copies)
    if peak is None:
        return 'unknown'
    shares_memory = slot.home.platform == 'cpu'
    return memory.size(peak * len(batches) if shares_memory else peak)
