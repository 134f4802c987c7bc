"""Advances the lanes of a stage, one on each device, and keeps what they did in their order.

Lanes are begun in order, and what is kept does not depend on how many are under way. Metrics have
the lines of the first of them as they come; those of the lanes behind it are held until all before
are done. A save of such a lane keeps its held lines in the journal.
"""

import contextlib
import math
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_links import journal, memory, runs, stores
from fedjax_links.base import PyTree
from fedjax_links.devices import Place
from fedjax_links.experiment import lanes as lanes_
from fedjax_links.experiment.hooks import Callback, Origin, Stop
from fedjax_links.experiment.lanes import Lane
from fedjax_links.experiment.programs import Group, Programs

_SAVE_SECONDS = 5.0


class _Flight:
    """Lanes under way, all of them with the same rounds behind them.

    Attributes:
      lanes: one, or those that run side by side.
      group: what advances them; None if they have nothing left but lines to be written.
      place: where.
      done: rounds behind them.
      saved: rounds behind them at their last save.
      proven: likewise, of the last save that proved all of their lines.
      held: lines that metrics do not have.
      num_kept: how many of these are in the journal.
      clock: says when to save.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        group: Group | None,
        place: Place,
        done: int,
        held: list[str],
        sharers: int,
    ) -> None:
        self.lanes, self.group, self.place = lanes, group, place
        self.done = self.saved = done
        self.proven = 0 if held else done
        self.held, self.num_kept = held, len(held)
        self.clock = journal.SaveClock(_SAVE_SECONDS, sharers)

    @property
    def names(self) -> list[str]:
        """Of the lanes."""
        return [lane.name for lane in self.lanes]

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
        self._flights: deque[_Flight] = deque()  # in the order of lanes
        self._moving: deque[_Flight] = deque()  # in the order of dispatch
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
        is_new = not any(store.rounds(lane.name) for lane in lanes)
        if first.stage == lanes_.TUNING and is_new and (known := self._origin.tuning_lines(lanes)):
            store.append(known)
            store.save(dict.fromkeys([lane.name for lane in lanes]), first.num_rounds)
        for callback in self._callbacks:
            total = sum(lane.num_rounds for lane in lanes)
            callback.on_stage(first.algorithm, first.stage, total)
        self._free = deque(self._places(lanes))
        self._sharers = len(self._free)
        waiting = deque(self._groups(lanes))
        try:
            while waiting or self._flights:
                self._begin(waiting)
                if self._moving:
                    flight = self._moving.popleft()
                    self._land(flight)
                    self._dispatch(flight)
                self._finish()
        except Stop:
            self._stop()
            raise

    def _begin(self, waiting: deque[list[Lane]]) -> None:
        """Begins lanes on the devices that are free."""
        begun = []
        while waiting and self._free:
            flight = self._restored(waiting.popleft())
            if flight is not None:
                self._flights.append(flight)
                begun.append(flight)
        if not begun:
            return
        self._finish()
        self._programs.compile([flight.group for flight in begun if flight.group])
        for flight in begun:
            self._dispatch(flight)

    def _restored(self, lanes: list[Lane]) -> _Flight | None:
        """Lanes where they stand, on a device that is free; None if there is nothing to do."""
        store, experiment = self._store, self._programs.experiment
        num_rounds, place = lanes[0].num_rounds, self._free[0]
        done, group = store.rounds(lanes[0].name), None
        states: dict[str, PyTree] = {}
        if done < num_rounds:
            group = Group(self._programs, lanes, place)
            shapes = {lane.name: s for lane, s in zip(lanes, group.shapes(), strict=True)}
            done, states = store.restore(shapes)
            if not done and lanes[0].stage == lanes_.MAIN:
                done, states = self._origin.begin(lanes, shapes)
        if done:
            for lane in lanes:
                self._tell(lane, {'round': done})
        held = store.held(lanes[0].name)
        if group is not None:
            group.restore(list(states.values())) if done else group.start()
            if not done and lanes[0].stage == lanes_.MAIN and experiment.evaluate_start:
                held = []
                for lane, record in zip(lanes, group.evaluate(), strict=True):
                    held.append(runs.line_of(lane.labels, 0, record))
                    self._tell(lane, {'round': 0, **record})
        elif not held:
            return None
        self._free.popleft()
        return _Flight(lanes, group, place, done, held, self._sharers)

    def _dispatch(self, flight: _Flight) -> None:
        """Starts the next period of lanes that have one, and does not wait for it."""
        if flight.group is not None and not flight.is_done:
            flight.group.dispatch()
            self._moving.append(flight)

    def _land(self, flight: _Flight) -> None:
        """Waits for a period that was started; keeps and tells what it gave."""
        assert flight.group is not None
        records = flight.group.collect()
        flight.done = flight.group.round
        pairs = list(zip(flight.lanes, records, strict=True))
        lines = [runs.line_of(lane.labels, flight.done, record) for lane, record in pairs]
        is_first = flight is self._flights[0]
        if is_first:
            self._store.append(lines)
        else:
            flight.held += lines
        if self._store.is_due(flight.clock) or (flight.is_done and is_first):
            with flight.clock:
                self._save(flight)
        for lane, record in pairs:
            self._tell(lane, {'round': flight.done, **record})

    def _finish(self) -> None:
        """Writes the held lines of the lanes that have become the first, and ends what is done."""
        while self._flights:
            flight = self._flights[0]
            if flight.held:
                self._store.append(flight.held)
                flight.held, flight.num_kept = [], 0
            if not flight.is_done:
                return
            if flight.saved < flight.done:
                self._save(flight)
            elif flight.proven < flight.done:
                self._store.settle(flight.names)
            self._free.append(self._flights.popleft().place)

    def _save(self, flight: _Flight) -> None:
        """Keeps the states of lanes, but of those that were tried in tuning and are done."""
        assert flight.group is not None
        needed = flight.lanes[0].stage == lanes_.MAIN or not flight.is_done
        states = flight.group.states() if needed else [None] * len(flight.lanes)
        kept = dict(zip(flight.names, states, strict=True))
        self._store.save(kept, flight.done, flight.held[flight.num_kept :])
        flight.saved, flight.num_kept = flight.done, len(flight.held)
        if not flight.held:
            flight.proven = flight.done

    def _stop(self) -> None:
        """Waits for what was started, and saves everything."""
        while self._moving:
            with contextlib.suppress(Stop):
                self._land(self._moving.popleft())
        for flight in self._flights:
            if flight.saved < flight.done:
                self._save(flight)

    def _tell(self, lane: Lane, record: Mapping[str, Any]) -> None:
        for callback in self._callbacks:
            callback.on_period(lane, record)

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
            key = programs.key(lane), self._store.companions(lane.name)
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
