"""Advances the lanes of a stage, one on each device, and keeps what they did.

Lanes are begun in order, and what is kept does not depend on how many are under way.
"""

import contextlib
import math
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.core import memory
from fedjax_links.experiment.plan import lanes as lanes_
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running import stores
from fedjax_links.experiment.running.hooks import Callback, Origin, Stop
from fedjax_links.experiment.running.programs import Group, Programs
from fedjax_links.machines.devices import Place

_SAVE_SECONDS = 5.0
_Measured = Sequence[tuple[Lane, Mapping[str, Any]]]


class _Flight:
    """Lanes under way, all of them with the same rounds behind them.

    Attributes:
      lanes: one, or those that run side by side.
      group: what advances them.
      done: rounds behind them.
      saved: rounds behind them at their last save.
      clock: says when to save.
    """

    def __init__(self, lanes: Sequence[Lane], group: Group, done: int, sharers: int) -> None:
        self.lanes, self.group = lanes, group
        self.done = self.saved = done
        self.clock = stores.SaveClock(_SAVE_SECONDS, sharers)

    @property
    def is_done(self) -> bool:
        """Whether the last round is behind them."""
        return self.done == self.lanes[0].num_rounds


class Stages:
    """Runs stages of algorithms."""

    def __init__(
        self,
        programs: Programs,
        store: stores.Memory,
        callbacks: Sequence[Callback],
        origin: Origin,
    ) -> None:
        """Runs nothing yet.

        Args:
          programs: of the experiment.
          store: where all is kept.
          callbacks: who is told.
          origin: what the lanes of the main stage begin with.
        """
        self._programs, self._store = programs, store
        self._callbacks, self._origin = callbacks, origin
        self._flights: deque[_Flight] = deque()  # in the order of dispatch
        self._free: deque[Place] = deque()

    def run(self, lanes: Sequence[Lane]) -> None:
        """Advances lanes of one stage of an algorithm to their last round.

        From their last checkpoints, if there are any.

        Args:
          lanes: all of them.

        Raises:
          Stop: if a callback did, after all was saved.
        """
        if not lanes:
            return
        store, first = self._store, lanes[0]
        store.expect({lane.name: lane.about for lane in lanes})
        is_new = not any(store.rounds(lane.name) for lane in lanes)
        if first.stage == lanes_.TUNING and is_new:
            for lane, known in self._origin.tuning_lines(lanes).items():
                store.append(lane, known)
                store.save({lane: None}, first.num_rounds)
        for callback in self._callbacks:
            total = sum(lane.num_rounds for lane in lanes)
            callback.on_stage(first.algorithm, first.stage, total)
        self._free = deque(self._places(lanes))
        self._sharers = len(self._free)
        waiting = deque(self._groups(lanes))
        try:
            while waiting or self._flights:
                self._begin(waiting)
                if self._flights:
                    self._land(self._flights[0])
                    flight = self._flights.popleft()
                    if flight.is_done:
                        self._free.append(flight.group.place)
                    else:
                        flight.group.dispatch()
                        self._flights.append(flight)
        except Stop:
            self._stop()
            raise

    def _begin(self, waiting: deque[list[Lane]]) -> None:
        """Begins lanes on the devices that are free."""
        begun = []
        while waiting and self._free:
            flight = self._restored(waiting.popleft())
            if flight is not None:
                begun.append(flight)
        if begun:
            self._programs.compile([flight.group for flight in begun])
        for flight in begun:
            flight.group.dispatch()
            self._flights.append(flight)

    def _restored(self, lanes: list[Lane]) -> _Flight | None:
        """Lanes where they stand, on a device that is free; None if they are done."""
        store, experiment = self._store, self._programs.experiment
        done, is_main = store.rounds(lanes[0].name), lanes[0].stage == lanes_.MAIN
        group: Group | None = None
        states: dict[str, PyTree] = {}
        if done < lanes[0].num_rounds:
            group = Group(self._programs, lanes, self._free.popleft())
            shapes = {lane.name: s for lane, s in zip(lanes, group.shapes(), strict=True)}
            if done:
                states = store.restore(shapes)
            elif is_main:
                done, states = self._origin.begin(lanes, shapes)
        if done:
            self._tell_all([(lane, {}) for lane in lanes], done)
        if group is None:
            return None
        if states:
            group.restore(list(states.values()))
        else:
            group.start()
            if is_main and experiment.evaluate_start:
                measured = list(zip(lanes, group.evaluate(), strict=True))
                self._append(measured, 0)
                self._tell_all(measured, 0)
        return _Flight(lanes, group, done, self._sharers)

    def _land(self, flight: _Flight) -> None:
        """Waits for a period that was started; keeps and tells what it gave."""
        measured = list(zip(flight.lanes, flight.group.collect(), strict=True))
        flight.done = flight.group.round
        self._append(measured, flight.done)
        if self._store.is_due(flight.clock) or flight.is_done:
            with flight.clock:
                self._save(flight)
        self._tell_all(measured, flight.done)

    def _append(self, measured: _Measured, round: int) -> None:
        for lane, record in measured:
            self._store.append(lane.name, [runs.line_of(lane.labels, round, record)])

    def _tell_all(self, measured: _Measured, round: int) -> None:
        for lane, record in measured:
            for callback in self._callbacks:
                callback.on_period(lane, {'round': round, **record})

    def _save(self, flight: _Flight) -> None:
        """Keeps the states of lanes, but of those that were tried in tuning and are done."""
        needed = flight.lanes[0].stage == lanes_.MAIN or not flight.is_done
        states = flight.group.states() if needed else [None] * len(flight.lanes)
        names = [lane.name for lane in flight.lanes]
        self._store.save(dict(zip(names, states, strict=True)), flight.done)
        flight.saved = flight.done

    def _stop(self) -> None:
        """Waits for what was started, and saves everything."""
        for flight in self._flights:
            if flight.done < flight.group.round:
                with contextlib.suppress(Stop):
                    self._land(flight)
            if flight.saved < flight.done:
                self._save(flight)

    def _places(self, lanes: Sequence[Lane]) -> list[Place]:
        """As many as there is work and memory for."""
        every = self._programs.places
        if self._programs.side_by_side:
            return every
        return every[: self._programs.num_at_a_time(lanes[0], len(lanes))]

    def _groups(self, lanes: Sequence[Lane]) -> list[list[Lane]]:
        """Lanes that run together: one each, or as many with one program as memory allows."""
        programs = self._programs
        if not programs.side_by_side:
            return [[lane] for lane in lanes]
        alike: dict[Any, list[Lane]] = {}
        for lane in lanes:
            key = programs.key(lane), self._store.rounds(lane.name)
            alike.setdefault(key, []).append(lane)
        return [group for members in alike.values() for group in self._cut(members)]

    def _cut(self, members: list[Lane]) -> list[list[Lane]]:
        """Lanes with one program and one past: all of a device's, halved until they fit."""
        programs, first = self._programs, members[0]
        size = share = math.ceil(len(members) / len(programs.places))
        most = memory.lanes_that_fit(programs.lane_bytes(first), share)
        is_done = self._store.rounds(first.name) >= first.num_rounds
        while True:
            groups = [members[i : i + size] for i in range(0, len(members), size)]
            begun = [Group(programs, *pair) for pair in zip(groups, programs.places, strict=False)]
            if size == 1 or (size <= most and (is_done or programs.fit(begun))):
                break
            size = math.ceil(size / 2)
        if size < share:
            said = f'{first.algorithm}: {size} at a time, as more lanes do not fit into memory'
            print(said, file=sys.stderr)
        return groups
