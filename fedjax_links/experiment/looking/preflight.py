"""What can be known of a run before it starts: whether it can run, fit, and how long it takes."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from fedjax_links.core import errors, memory, tree
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.looking import tables
from fedjax_links.experiment.looking.description import largest_lane
from fedjax_links.experiment.plan import lanes
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running.programs import Group, Programs
from fedjax_links.machines.devices import Place

_TIMED_SECONDS = 1.0
_FEW_ROUNDS, _SMALL_MODEL = 50_000, 2**14


def check(experiment: Experiment) -> None:
    """Traces a period of every program abstractly, and refuses what cannot fit, in seconds.

    Args:
      experiment: the experiment.

    Raises:
      InvalidError: naming the algorithm that needs more than there is. Whatever a user's own part
        raises has a note that names algorithm and pattern.
    """
    programs = Programs(experiment)
    for label in experiment.algorithms:
        for lane in _one_per_program(experiment, programs, label):
            try:
                group = Group(programs, [lane])
                jax.eval_shape(group.program.advance, *group.inputs())
            except errors.InvalidError as error:
                raise error.under(f'config.algorithms.{label}') from error
            except Exception as error:
                if errors.users_place(error) is None and _has_users_parts(experiment, lane):
                    requirement = f'run on pattern {lane.pattern}'
                    where = f'config.algorithms.{label}'
                    raise errors.invalid(where, requirement, errors.described(error)) from error
                error.add_note(f'config.algorithms.{label} on pattern {lane.pattern}')
                raise
    largest = [largest_lane(experiment, programs, label)[0] for label in experiment.algorithms]
    most = max(largest, key=programs.lane_bytes)
    tables.refuse_if_above(experiment, Group(programs, [most]), programs.lane_bytes(most))


def _has_users_parts(experiment: Experiment, lane: Lane) -> bool:
    problem = experiment.problem_at(lane.pattern, lane.point, lane.seed)
    columns = experiment.algorithm_makers[lane.algorithm].at(lane.point)
    algorithm = experiment.algorithm_at(lane.algorithm, columns)
    return any(map(errors.is_users, (*algorithm, problem.loss_fn, problem.init_params)))


def is_short(experiment: Experiment) -> bool:
    """Whether a CPU is done sooner on one device, as every device compiles its own programs.

    Args:
      experiment: the experiment.

    Returns:
      True for small models and few rounds in all: those of a few seconds.
    """
    rounds = sum(lanes.count_rounds(experiment, label) for label in experiment.algorithms)
    pattern = next(iter(experiment.pattern_makers))
    problem = experiment.problem_at(pattern, experiment.grid_points[0])
    size = tree.size(jax.eval_shape(problem.init_params, jax.random.key(0)))
    return rounds < _FEW_ROUNDS and size < _SMALL_MODEL


def dry_run(experiment: Experiment, places: Sequence[Place] | None = None) -> Iterator[str]:
    """Compiles every program and times a few periods, without keeping anything.

    Args:
      experiment: the experiment.
      places: as in `running.run`.

    Yields:
      The config, then a line per algorithm on lanes, states, memory and time, and the sum.
    """
    for name, value in (experiment.config or experiment.facts()).items():
        yield f'config   {name} = {json.dumps(value, default=str)}'
    programs, total = Programs(experiment, places=places), 0.0
    for label in experiment.algorithms:
        tried = lanes.tuning_lanes(experiment, label)
        main = lanes.main_lanes(experiment, label, lanes.first_tried(experiment, label))
        kinds = _one_per_program(experiment, programs, label)
        yield (
            f'{label:16s} {len(tried)} lanes of tuning and {len(main)} lanes in '
            f'{len(kinds)} program{"" if len(kinds) == 1 else "s"}; a lane keeps '
            f'{_by_part(programs, main[0])}'
        )
        estimate = _estimate(programs, main)
        rounds = lanes.count_rounds(experiment, label)
        seconds = estimate['compile'] * len(kinds) + rounds * estimate['round']
        total += seconds
        yield (
            f'{"":16s} compiled in {estimate["compile"]:.1f} s; '
            f'{1 / estimate["round"]:,.0f} rounds/s, {_duration(seconds)} in all; '
            f'needs {estimate["peak"]} at its peak'
        )
        if estimate['table']:
            yield f'{"":16s} {estimate["table"]}'
        programs.forget()
    free = memory.available_bytes()
    device = programs.places[0].home.device_kind
    count = sum(len(place.devices) for place in programs.places)
    device = f'{count} x {device}' if count > 1 else device
    yield f'device   {device}, {"unknown" if free is None else memory.size(free)} free'
    yield f'time     about {_duration(total)}, from a few timed rounds of each program'


def _one_per_program(experiment: Experiment, programs: Programs, label: str) -> list[Lane]:
    tried = lanes.tuning_lanes(experiment, label)
    every = tried + lanes.main_lanes(experiment, label, lanes.first_tried(experiment, label))
    return list({programs.key(lane): lane for lane in reversed(every)}.values())


def _by_part(programs: Programs, lane: Lane) -> str:
    """Bytes of a lane's state, part by part."""
    (state,) = Group(programs, [lane]).shapes()
    parts: dict[str, Any] = {'models and memories': state.algorithm}
    if hasattr(state.algorithm, '_asdict'):
        parts = state.algorithm._asdict()
    parts |= {'pattern': state.participation, 'links and counters': (state.links, state.counters)}
    sizes = {name: tree.num_bytes(part) for name, part in parts.items()}
    return ', '.join(f'{name} {memory.size(size)}' for name, size in sizes.items() if size)


def _estimate(programs: Programs, lanes: Sequence[Lane]) -> dict[str, Any]:
    """Seconds to compile, seconds a round, and memory at the peak, of lanes with one program.

    One lane is timed at each of the places that lanes would share.
    """
    period = programs.experiment.eval_every
    used = programs.places[: programs.num_at_a_time(lanes[0], len(lanes))]
    began = time.perf_counter()
    groups = [Group(programs, [lanes[0]], place) for place in used]
    programs.compile(groups)
    for group in groups:
        group.start()
        group.dispatch()
    for group in groups:
        group.collect()
    compiled = time.perf_counter() - began
    peak = memory.peak_bytes(programs.compiled(groups[0]), used[0].num_copies)
    sharers = len(used) if used[0].home.platform == 'cpu' else 1  # of one memory
    kept, table = tables.table(groups[0]), ''
    if kept is not None and peak is not None:
        copies, size = sharers * used[0].num_copies, len(used[0].devices)
        count = groups[0].problem.num_clients
        table = tables.describe(kept, count, peak * sharers, copies, size)
    began, periods = time.perf_counter(), 0
    while not periods or time.perf_counter() - began < _TIMED_SECONDS:
        periods += 1
        for group in groups:
            group.dispatch()
        for group in groups:
            group.collect()
    took = (time.perf_counter() - began) / (periods * period)
    return {
        'compile': max(0.0, compiled - took * period),
        'round': took / len(groups),
        'peak': 'unknown' if peak is None else memory.size(peak * sharers),
        'table': table,
    }


def _duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3.5 h`` or ``2.1 days``."""
    for unit, length in (('days', 86_400), ('h', 3_600), ('min', 60)):
        if seconds >= 2 * length:
            return f'{seconds / length:.1f} {unit}'
    return f'{seconds:.0f} s'
