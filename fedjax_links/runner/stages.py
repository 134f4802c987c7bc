"""Advances the lanes of one stage of an algorithm: tuning, main lanes or near ties.

A lane is one simulation (`planning.lanes.Lane`). Each device slot runs one lane, or several side by
side in one program. Lanes begin in order. The files of the run do not depend on how many lanes are
in flight at a time.
"""

import contextlib
import dataclasses
import math
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from fedjax_links import runs
from fedjax_links.base import FederationState
from fedjax_links.core import errors, memory
from fedjax_links.machines import processes
from fedjax_links.planning import problem_families
from fedjax_links.planning.lanes import MAIN, TUNING, Lane
from fedjax_links.runner import compilation, save_clock, shared_stores
from fedjax_links.runner.hooks import InitialStates, Listeners, Stop
from fedjax_links.runner.lane_batch import LaneBatch, compile_batches
from fedjax_links.runner.program_cache import Programs

_SAVE_SECONDS = 5.0  # at least, between two saves of a lane
_DISPATCH_SECONDS = 0.2  # that periods take which are dispatched together
# Largest factor from the periods of one dispatch to the next: times of short ones are inexact.
_MAX_GROWTH = 8


class _Measurement(NamedTuple):
    """Holds the metrics of a lane after a round."""

    round: int
    lane: Lane
    record: Mapping[str, Any]


class LaneGroup(NamedTuple):
    """Holds lanes that run together, and the width of their program."""

    lanes: list[Lane]
    width: int


def compile_ahead(programs: Programs, lanes: Sequence[Lane]) -> None:
    """Begins to compile the programs of lanes that run later.

    Args:
      programs: the programs of the plan.
      lanes: of one stage of an algorithm.
    """
    for slot in programs.slots_for(lanes):
        batch = LaneBatch(programs, lanes[:1], slot)
        batch.compile_advance()
        batch.compile_start()


@dataclasses.dataclass(eq=False)
class _InFlightBatch:
    """Holds lanes that advance together; all have completed the same number of rounds.

    Attributes:
      batch: advances the lanes.
      clock: says when to save the lanes.
      saved: rounds that the lanes had completed at their last save.
      pace: periods that the device advances in `_DISPATCH_SECONDS`; 0 if a period takes longer, or
        if no period was timed since the last save.
      began: when the device began with the periods that are collected next, s of `time.monotonic`.
    """

    batch: LaneBatch
    clock: save_clock.SaveClock
    saved: int
    pace: int = 0
    began: float = 0.0

    @property
    def is_done(self) -> bool:
        """Returns whether the lanes have completed all rounds."""
        return self.batch.done == self.batch.lanes[0].num_rounds

    @property
    def is_idle(self) -> bool:
        """Returns whether all periods that were dispatched are collected."""
        return self.batch.done == self.batch.round

    def note_time(self, num_periods: int) -> None:
        """Sets the pace from the time that the periods just collected took."""
        now = time.monotonic()
        seconds = now - self.began + 1e-9
        self.began = now
        growth = min(_DISPATCH_SECONDS / seconds, _MAX_GROWTH)
        pace = int(min(num_periods * growth, self.batch.max_periods))
        # All processes must dispatch the same number of periods, so the leader decides.
        self.pace = processes.broadcast_from_leader(lambda: pace)


@dataclasses.dataclass(eq=False)
class LaneScheduler:
    """Runs the lanes of a stage, at each time one batch on each device slot.

    Attributes:
      programs: of the plan.
      store: of the run.
      listeners: who is notified.
      initial_states: what the lanes of the main stage begin with.
    """

    programs: Programs
    store: shared_stores.Store
    listeners: Listeners
    initial_states: InitialStates

    def run(self, lanes: Sequence[Lane], coming: Sequence[Sequence[Lane]] = ()) -> None:
        """Advances lanes of one stage of an algorithm to their last round.

        A lane with a checkpoint resumes from its last one.

        Args:
          lanes: the lanes, at least one.
          coming: groups of lanes of the algorithms that run next. Their programs are compiled
            meanwhile if a core is idle.

        Raises:
          Stop: if a callback raised it, after all was saved.
        """
        first = lanes[0]
        self.store.register_lanes({lane.name: lane.metadata for lane in lanes})
        total = sum(lane.num_rounds for lane in lanes)
        self.listeners.notify('on_stage', first.algorithm, first.stage, total)
        self._free = deque(self.programs.slots_for(lanes))
        self._num_slots = len(self._free)
        # Batches in the order in which they were dispatched.
        self._in_flight: deque[_InFlightBatch] = deque()
        waiting = deque(self.groups(lanes))
        try:
            while waiting or self._in_flight:
                self._begin(waiting)
                if self._in_flight:
                    self._compile_coming(coming)
                    coming = ()
                    self._advance_first()
        except Stop:
            self._save_all()
            raise

    def _compile_coming(self, coming: Sequence[Sequence[Lane]]) -> None:
        """Begins to compile what runs next, if lanes leave a core idle."""
        if not self.programs.side_by_side:
            for lanes in coming:
                compile_ahead(self.programs, lanes)

    def _advance_first(self) -> None:
        """Collects what was dispatched first, and dispatches what follows it."""
        flight = self._in_flight[0]
        # Dispatch before waiting, so that the device is never idle.
        if flight.pace and not self.store.is_due(flight.clock):
            self._dispatch(flight)
        self._collect(flight)
        self._in_flight.rotate(-1)
        if flight.is_done:
            self._in_flight.pop()
            self._free.append(flight.batch.slot)
            for lane in flight.batch.lanes:
                self.store.release(lane.name)
        elif flight.is_idle:
            self._dispatch(flight)

    def _save_all(self) -> None:
        """Waits for what was dispatched, and saves all lanes."""
        for flight in self._in_flight:
            while not flight.is_idle:
                with contextlib.suppress(Stop):
                    self._collect(flight)
            if flight.saved < flight.batch.done:
                self._save(flight)

    # How lanes begin.

    def _begin(self, waiting: deque[LaneGroup]) -> None:
        """Begins lanes on the devices that are free."""
        new: list[_InFlightBatch] = []
        while waiting and self._free:
            flight = self._restore(waiting.popleft())
            if flight is not None:
                new.append(flight)
        if new:
            compile_batches(self.programs, [flight.batch for flight in new])
        for flight in new:
            self._dispatch(flight)
            self._in_flight.append(flight)

    def _restore(self, group: LaneGroup) -> _InFlightBatch | None:
        """Puts lanes on a free device slot, with the states of the last round that they completed.

        Returns:
          The batch of the lanes. None if the lanes are done, or if other processes run them all.
        """
        lanes = self._acquire(group.lanes)
        if not lanes:
            return None
        first = lanes[0]
        num_saved = self.store.rounds(first.name)
        num_done = num_saved
        # In a fork, lanes begin after the fork's round, except lanes of tuning.
        if num_saved == 0 and first.stage != TUNING:
            num_done = self.initial_states.round
        if num_done:
            self._notify([_Measurement(num_done, lane, {}) for lane in lanes])
        if num_saved >= first.num_rounds:
            return None
        batch = LaneBatch(self.programs, lanes, self._free.popleft(), group.width)
        self._set_states(batch, num_saved, num_done)
        clock = save_clock.SaveClock(_SAVE_SECONDS, self._num_slots)
        return _InFlightBatch(batch, clock, num_done)

    def _set_states(self, batch: LaneBatch, num_saved: int, num_done: int) -> None:
        """Sets the states of lanes: saved states, states of a fork's source, or fresh ones."""
        if num_saved:
            batch.restore([self._restored_state(lane) for lane in batch.lanes])
        elif num_done:
            batch.restore([self.initial_states.begin(lane) for lane in batch.lanes])
        else:
            batch.start()
            self._evaluate_start(batch)

    def _restored_state(self, lane: Lane) -> FederationState:
        """Reads the state of a lane from its last checkpoint."""
        shape = compilation.state_shape(self.programs.plan, lane)
        return self.store.restore(lane.name, shape)

    def _evaluate_start(self, batch: LaneBatch) -> None:
        """Evaluates the models of main lanes before the first round, if the plan says so."""
        is_main = batch.lanes[0].stage == MAIN
        if not is_main or not self.programs.plan.settings.evaluate_start:
            return
        records = zip(batch.lanes, batch.evaluate(), strict=True)
        measurements = [_Measurement(0, lane, record) for lane, record in records]
        self._append(measurements)
        self._notify(measurements)

    def _acquire(self, lanes: list[Lane]) -> list[Lane]:
        """Acquires the lanes that no other process holds.

        Of the acquired lanes, it returns the first and all that have completed as many rounds.
        """
        store = self.store
        if store.rounds(lanes[0].name) >= lanes[0].num_rounds:
            return lanes
        acquired = [lane for lane in lanes if store.acquire(lane.name)]
        if not acquired:
            return []
        num_rounds = store.rounds(acquired[0].name)
        in_step = [lane for lane in acquired if store.rounds(lane.name) == num_rounds]
        for lane in acquired:
            if lane not in in_step or store.rounds(lane.name) >= lane.num_rounds:
                store.release(lane.name)
        return in_step

    # How lanes advance.

    def _dispatch(self, flight: _InFlightBatch) -> None:
        """Starts as many periods as take `_DISPATCH_SECONDS`, at least one if any are left."""
        batch = flight.batch
        if flight.is_idle:
            flight.began = time.monotonic()
        rounds_left = batch.lanes[0].num_rounds - batch.round
        periods_left = rounds_left // self.programs.plan.eval_every
        if periods_left:
            batch.dispatch(min(periods_left, max(1, flight.pace)))

    def _collect(self, flight: _InFlightBatch) -> None:
        """Waits for periods that were dispatched; stores and reports their metrics."""
        batch = flight.batch
        first_round = batch.done
        periods = batch.collect()
        flight.note_time(len(periods))
        measurements: list[_Measurement] = []
        for index, records in enumerate(periods, start=1):
            round = first_round + index * self.programs.plan.eval_every
            for lane, record in zip(batch.lanes, records, strict=True):
                measurements.append(_Measurement(round, lane, record))
        self._append(measurements)
        # If later periods were dispatched, the state is already ahead of the last metrics.
        if flight.is_idle and (self.store.is_due(flight.clock) or flight.is_done):
            began = time.monotonic()
            self._save(flight)
            flight.clock.postpone(began)
        self._notify(measurements)

    def _append(self, measurements: Sequence[_Measurement]) -> None:
        """Adds metrics to the store, lane by lane."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for round, lane, record in measurements:
            rows.setdefault(lane.name, []).append(runs.row_of(round, record))
        for name, new_rows in rows.items():
            self.store.append(name, new_rows)

    def _notify(self, measurements: Sequence[_Measurement]) -> None:
        """Notifies callbacks of all measurements, then stops if a callback asked for it."""
        self.listeners.notify_periods(
            (lane, {'round': round, **record}) for round, lane, record in measurements
        )

    def _save(self, flight: _InFlightBatch) -> None:
        """Saves lanes. Lanes of tuning that are done are saved without their states."""
        batch = flight.batch
        states: Sequence[Any] = [None] * len(batch.lanes)
        if batch.lanes[0].stage != TUNING or not flight.is_done:
            states = batch.states()
        for lane, state in zip(batch.lanes, states, strict=True):
            self.store.save(lane.name, state, batch.done)
        flight.saved = batch.done
        flight.pace = 0

    # Which lanes run together.

    def groups(self, lanes: Sequence[Lane]) -> list[LaneGroup]:
        """Groups lanes that run together: one in each group, or as many as memory allows.

        A group of several lanes has one program.

        Args:
          lanes: of one stage of an algorithm.
        """
        if not self.programs.side_by_side:
            return [LaneGroup([lane], 1) for lane in lanes]
        members: dict[Any, list[Lane]] = {}
        for lane in lanes:
            key = self.programs.key(lane), self.store.rounds(lane.name)
            members.setdefault(key, []).append(lane)
        groups: list[LaneGroup] = []
        for same_program in members.values():
            groups += self._split(same_program)
        return groups

    def _split(self, lanes: list[Lane]) -> list[LaneGroup]:
        """Divides lanes with one program among the devices, in groups that fit into memory.

        All groups are equally wide, so that one program serves all groups. The width is halved
        until the groups fit.
        """
        programs = self.programs
        first = lanes[0]
        num_groups = len(programs.slots)
        per_device = math.ceil(len(lanes) / num_groups)
        size = per_device
        is_done = self.store.rounds(first.name) >= first.num_rounds
        data_bytes = problem_families.varying_bytes(
            programs.plan.problem_of(lane) for lane in lanes
        )
        lane_bytes = compilation.lane_bytes(programs.plan, first)
        max_lanes = memory.lanes_that_fit(lane_bytes + data_bytes, per_device)
        while size > 1 and not is_done:
            if size <= max_lanes and self._compiles(_parts(lanes, size), size):
                break
            num_groups *= 2
            size = math.ceil(len(lanes) / num_groups)
        if size < per_device:
            print(
                f'{first.algorithm}: {size} at a time, as more lanes do not fit into memory',
                file=sys.stderr,
            )
        return [LaneGroup(part, size) for part in _parts(lanes, size)]

    def _compiles(self, parts: Sequence[list[Lane]], width: int) -> bool:
        """Returns whether batches of all devices can be compiled and fit into memory."""
        batches = [
            LaneBatch(self.programs, part, slot, width)
            for part, slot in zip(parts, self.programs.slots, strict=False)
        ]
        try:
            compile_batches(self.programs, batches)
        except errors.InvalidError:
            return False
        except jax.errors.JaxRuntimeError as error:
            # A GPU's compiler runs kernels to time them, and may run out of memory.
            if not errors.is_out_of_memory(error):
                raise
            return False
        return True


def _parts(lanes: list[Lane], size: int) -> list[list[Lane]]:
    """Cuts lanes into parts of a size; the last one may be smaller."""
    return [lanes[i : i + size] for i in range(0, len(lanes), size)]
