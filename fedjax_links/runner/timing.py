"""Times what a run does on a few of its own lanes, in a folder that is removed again.

A lane is one simulation (`planning.lanes.Lane`). A run's cost has parts: programs to compile, lanes
to begin and save, rounds with evaluations, links to record, and what comes before and after. This
module times one unit of each part, such as one round. It calls the functions that a run calls.
`dry_runs` multiplies units by counts.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fedjax_links.core import memory
from fedjax_links.planning.lanes import MAIN, Lane
from fedjax_links.runner import hooks, in_memory, realised_links, stages, stores
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.lane_batch import LaneBatch, compile_batches
from fedjax_links.runner.program_cache import Programs
from fedjax_links.runner.shared_stores import Store

_TIMED_SECONDS = 1.0
"""The long timing takes this much longer than the short one, so that noise matters little."""
_LONG_SECONDS = 10.0
"""A first timing this long is not repeated: what only the first lanes compile matters little."""
_MAX_GROWTH = 8
"""Largest factor from the periods of one timing to the next: short timings are inexact."""

AfterLanes = Callable[[Path, Sequence[Lane]], None]
"""A function that is called with the folder of timed lanes, before its removal, and the lanes."""


class ProgramCost(NamedTuple):
    """Holds the time and memory that the lanes of one program take.

    Attributes:
      compiling: seconds to trace and compile the program for all device slots, with JAX's cache
        as it was found.
      compiling_again: the same seconds once the program is in JAX's cache, as for a later process.
        Without a cache, the program is compiled again.
      lane: seconds a lane takes beyond its rounds: to begin, to save and to end.
      round: seconds a round takes, with its part of an evaluation.
      peak: memory at the peak, as text: ``'1.2 GB'``, or ``'unknown'``.
    """

    compiling: float
    compiling_again: float
    lane: float
    round: float
    peak: str


class LaneTimer:
    """Times lanes of a plan as a run would advance them.

    Attributes:
      opening: seconds to identify programs and data, as a run does when it opens its folder.
    """

    def __init__(self, programs: Programs, facts: dict[str, object]) -> None:
        """Identifies the run.

        Args:
          programs: of the plan.
          facts: what a run records of the experiment.
        """
        self._programs = programs
        self._facts = facts
        self._identities = Identities(programs.plan)
        began = time.perf_counter()
        with programs.plan.precision():
            self._identities.run_identity()
        self.opening = time.perf_counter() - began

    def time_program(
        self, lanes: Sequence[Lane], after: AfterLanes | None = None
    ) -> ProgramCost:
        """Compiles the program of some lanes twice, and times a few lanes of it.

        Args:
          lanes: all lanes that share the program.
          after: see `AfterLanes`.
        """
        compiling = self._compile(lanes)
        peak = self._peak_memory(lanes)
        self._programs.forget(lanes[0].algorithm)
        compiling_again = self._compile(lanes)
        timed = timed_lanes(self._programs, lanes)
        lane_seconds, round_seconds = self._time_lanes(timed, after)
        return ProgramCost(
            compiling, compiling_again, lane_seconds, round_seconds, peak
        )

    def _compile(self, lanes: Sequence[Lane]) -> float:
        """Returns the seconds to compile the programs that start and advance lanes on all slots."""
        began = time.perf_counter()
        batches = self._batches(lanes)
        starting = [batch.compile_start() for batch in batches]
        compile_batches(self._programs, batches)
        for future in starting:
            future.result()
        return time.perf_counter() - began

    def _batches(self, lanes: Sequence[Lane]) -> list[LaneBatch]:
        """Returns a batch for each slot that the lanes would run on, as wide as in a run."""
        programs = self._programs
        slots = programs.slots_for(lanes)
        if not programs.side_by_side:
            return [LaneBatch(programs, [lanes[0]], slot) for slot in slots]
        scheduler = _scheduler(programs, in_memory.InMemoryStore(self._facts))
        groups = scheduler.groups(timed_lanes(programs, lanes))
        return [
            LaneBatch(programs, group.lanes, slot, group.width)
            for group, slot in zip(groups, slots, strict=False)
        ]

    def _peak_memory(self, lanes: Sequence[Lane]) -> str:
        """Describes the memory that is needed by the lanes that advance at the same time."""
        batches = self._batches(lanes)
        slot = batches[0].slot
        compiled = compile_batches(self._programs, batches)[0]
        peak = memory.peak_bytes(compiled, slot.num_copies)
        if peak is None:
            return 'unknown'
        shares_memory = slot.first_device.platform == 'cpu'
        return memory.size(peak * len(batches) if shares_memory else peak)

    def _time_lanes(
        self, lanes: Sequence[Lane], after: AfterLanes | None
    ) -> tuple[float, float]:
        """Returns the seconds that a lane takes beyond its rounds, and the seconds of a round.

        Lanes of one period are compared with lanes of several periods (`split_seconds`).
        """
        period = self._programs.plan.eval_every
        most = lanes[0].num_rounds // period
        # The first lanes also compile small functions, and the programs that draw their links.
        short = self._advance(lanes, 1, after)
        if short < _LONG_SECONDS:
            short = self._advance(lanes, 1)
        num_periods = 1
        long = short
        while num_periods < most and long < short + _TIMED_SECONDS:
            ratio = (_TIMED_SECONDS + short) / max(long, 1e-3)
            growth = min(_MAX_GROWTH, math.ceil(ratio))
            num_periods = min(most, num_periods * max(2, growth))
            long = self._advance(lanes, num_periods)
        if num_periods == 1:
            return 0.0, short / (len(lanes) * period)
        return split_seconds(short, long, num_periods, len(lanes), period)

    def _advance(
        self, lanes: Sequence[Lane], num_periods: int, after: AfterLanes | None = None
    ) -> float:
        """Runs some periods of lanes in a folder of their own, and returns the seconds."""
        plan = self._programs.plan
        num_rounds = num_periods * plan.eval_every
        lanes = [lane._replace(num_rounds=num_rounds) for lane in lanes]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / 'run'
            store = stores.RunFolder(
                folder,
                facts=self._facts,
                identities=self._identities,
                config=plan.config,
            )
            try:
                scheduler = _scheduler(self._programs, store)
                began = time.perf_counter()
                scheduler.run(lanes)
                seconds = time.perf_counter() - began
            finally:
                store.close()
            if after is not None:
                after(folder, lanes)
        return seconds


def _scheduler(programs: Programs, store: Store) -> stages.LaneScheduler:
    """Makes a scheduler that advances lanes from their first round, and notifies nobody."""
    return stages.LaneScheduler(
        programs, store, hooks.Listeners(), hooks.InitialStates()
    )


def timed_lanes(programs: Programs, lanes: Sequence[Lane]) -> list[Lane]:
    """Returns the lanes to time: equally many of each structure of links, to fill the slots.

    If lanes run side by side, all are timed, as they share their time.

    Args:
      programs: the programs of the plan.
      lanes: lanes that share a training program.
    """
    main = [lane for lane in lanes if lane.stage == MAIN] or list(lanes)
    if programs.side_by_side:
        return main
    by_structure = list(programs.by_structure(main).values())
    num_slots = len(programs.slots_for(lanes))
    fewest = min(len(of_structure) for of_structure in by_structure)
    # Slots advance lanes at the same time, and no slot should be idle.
    num_each = num_slots // math.gcd(num_slots, len(by_structure))
    return [
        lane
        for of_structure in by_structure
        for lane in of_structure[: min(num_each, fewest)]
    ]


def time_links(programs: Programs, initial_states: hooks.InitialStates) -> float:
    """Estimates the seconds to draw once more the links that a run records.

    Args:
      programs: the programs of the plan.
      initial_states: the states that lanes begin with.
    """
    return sum(
        realised_links.time_draws(programs, label, seed, initial_states)
        for label, seed in realised_links.recorded(programs).values()
    )


def split_seconds(
    short: float, long: float, num_periods: int, num_lanes: int, period: int
) -> tuple[float, float]:
    """Splits measured seconds into the seconds of a lane and the seconds of a round.

    Args:
      short: seconds that lanes of one period took.
      long: seconds that as many lanes of ``num_periods`` periods took.
      num_periods: periods of each long lane, at least 2.
      num_lanes: number of lanes in each timing.
      period: rounds of a period.

    Returns:
      The seconds that a lane takes beyond its rounds, and the seconds of a round. If other work
      delayed the short lanes so much that the long ones were no slower, all of ``long`` counts as
      rounds.
    """
    if long <= short:
        return 0.0, long / (num_periods * period * num_lanes)
    round_seconds = (long - short) / ((num_periods - 1) * period * num_lanes)
    lane_seconds = short / num_lanes - period * round_seconds
    return max(0.0, lane_seconds), round_seconds
