"""Advances the lanes of a stage of an algorithm, one on each device.

They are begun in order, and what is kept does not depend on how many are under way.
"""

import contextlib
import dataclasses
import math
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_links import runs
from fedjax_links.core import errors, memory
from fedjax_links.machines import devices, processes
from fedjax_links.planning import parametrized
from fedjax_links.planning.lanes import MAIN, TUNING, Lane
from fedjax_links.runner import compilation, stores
from fedjax_links.runner.hooks import Listeners, Origin, Stop
from fedjax_links.runner.lane_batch import Group
from fedjax_links.runner.program_cache import Programs

_SAVE_SECONDS = 5.0
_DISPATCH_SECONDS = 0.2
_MOST_GROWTH = 8
_Measured = Sequence[tuple[int, Lane, Mapping[str, Any]]]
"""Records of lanes after rounds."""


def compile_ahead(shared: Programs, lanes: Sequence[Lane]) -> None:
    """Begins to compile what new lanes of an algorithm will run.

    Args:
      shared: the programs of the experiment.
      lanes: of one stage, one after the other; those of several devices at the same time.
    """
    for place in shared.places_for(lanes):
        group = Group(shared, lanes[:1], place)
        shared.begin(group, group.program.advance, group.inputs)
        shared.begin(group, group.program.start, group.beginning)


@dataclasses.dataclass(eq=False)
class _Flight:
    """Lanes under way, all of them with the same rounds behind them.

    Attributes:
      group: what advances them.
      clock: says when to save.
      saved: rounds behind them at their last save.
      pace: periods that the device advances in a moment; 0 if a period takes longer, or nobody
        has looked since the last save.
      began: when the device began with what is collected next.
    """

    group: Group
    clock: stores.SaveClock
    saved: int
    pace: int = 0
    began: float = 0.0

    @property
    def is_done(self) -> bool:
        """Whether the last round is behind them."""
        return self.group.done == self.group.lanes[0].num_rounds


@dataclasses.dataclass(eq=False)
class Stages:
    """Runs stages of algorithms.

    Attributes:
      programs: of the experiment.
      store: where all is kept.
      listeners: who is told.
      origin: what the lanes of the main stage begin with.
    """

    programs: Programs
    store: Any
    listeners: Listeners
    origin: Origin
    _flights: deque[_Flight] = dataclasses.field(
        default_factory=deque
    )  # in order of dispatch
    _free: deque[devices.Place] = dataclasses.field(default_factory=deque)

    def run(self, lanes: Sequence[Lane], coming: Sequence[Sequence[Lane]] = ()) -> None:
        """Advances lanes of one stage of an algorithm to their last round.

        From their last checkpoints, if there are any.

        Args:
          lanes: all of them.
          coming: those of the algorithm that runs next, whose programs are compiled meanwhile if a
            core is idle.

        Raises:
          Stop: if a callback did, after all was saved.
        """
        first = lanes[0]
        self.store.expect({lane.name: lane.about for lane in lanes})
        total = sum(lane.num_rounds for lane in lanes)
        self.listeners.tell('on_stage', first.algorithm, first.stage, total)
        self._free = deque(self.programs.places_for(lanes))
        self._sharers = len(self._free)
        waiting = deque(self._groups(lanes))
        try:
            while waiting or self._flights:
                self._begin(waiting)
                if not self._flights:
                    continue
                for ahead in () if self.programs.side_by_side else coming:
                    compile_ahead(self.programs, ahead)
                coming = ()
                flight = self._flights[0]
                if flight.pace and not self.store.is_due(flight.clock):
                    self._dispatch(
                        flight
                    )  # so that the device never waits for what follows
                self._land(flight)
                self._flights.rotate(-1)
                if flight.is_done:
                    ended = self._flights.pop().group
                    self._free.append(ended.place)
                    for lane in ended.lanes:
                        self.store.release(lane.name)
                elif flight.group.done == flight.group.round:
                    self._dispatch(flight)
        except Stop:
            for (
                flight
            ) in self._flights:  # what was started is waited for, and all is saved
                while flight.group.done < flight.group.round:
                    with contextlib.suppress(Stop):
                        self._land(flight)
                if flight.saved < flight.group.done:
                    self._save(flight)
            raise

    def _begin(self, waiting: deque[tuple[list[Lane], int]]) -> None:
        """Begins lanes on the devices that are free."""
        begun: list[_Flight] = []
        while waiting and self._free:
            begun += self._restored(*waiting.popleft())
        if begun:
            self.programs.compile([flight.group for flight in begun])
        for flight in begun:
            self._dispatch(flight)
            self._flights.append(flight)

    def _restored(self, lanes: list[Lane], width: int) -> list[_Flight]:
        """Lanes where they stand, on a device that is free; nothing if they are done or others'."""
        if not (lanes := self._taken(lanes)):
            return []
        experiment, stage = self.programs.experiment, lanes[0].stage
        past = self.store.rounds(lanes[0].name)
        done = past
        if (
            not past and stage != TUNING
        ):  # near ties too begin where the lanes beside them do
            done = self.origin.round
        if done:
            self._tell([(done, lane, {}) for lane in lanes])
        if past >= lanes[0].num_rounds:
            return []
        group = Group(self.programs, lanes, self._free.popleft(), width)
        if past:
            shapes = {
                lane.name: compilation.state_shape(experiment, lane) for lane in lanes
            }
            group.restore([self.store.restore(*of) for of in shapes.items()])
        elif done:
            group.restore([self.origin.begin(lane) for lane in lanes])
        else:
            group.start()
            if stage == MAIN and experiment.evaluate_start:
                measured = [
                    (0, *of) for of in zip(lanes, group.evaluate(), strict=True)
                ]
                self._append(measured)
                self._tell(measured)
        return [_Flight(group, stores.SaveClock(_SAVE_SECONDS, self._sharers), done)]

    def _taken(self, lanes: list[Lane]) -> list[Lane]:
        """Those lanes that no other process has; all with the same rounds behind them."""
        store, first = self.store, lanes[0]
        if store.rounds(first.name) >= first.num_rounds:
            return lanes
        taken = [lane for lane in lanes if store.take(lane.name)]
        alike = [
            x for x in taken if store.rounds(x.name) == store.rounds(taken[0].name)
        ]
        for lane in taken:
            if lane not in alike or store.rounds(lane.name) >= lane.num_rounds:
                store.release(lane.name)
        return alike

    def _dispatch(self, flight: _Flight) -> None:
        """Starts as many periods as take a moment, or one that takes longer, if any are left."""
        group = flight.group
        if group.done == group.round:
            flight.began = time.monotonic()
        left = (
            group.lanes[0].num_rounds - group.round
        ) // self.programs.experiment.eval_every
        if left:
            group.dispatch(min(left, max(1, flight.pace)))

    def _land(self, flight: _Flight) -> None:
        """Waits for periods that were started; keeps and tells what they gave."""
        group, before, every = (
            flight.group,
            flight.group.done,
            self.programs.experiment.eval_every,
        )
        periods = group.collect()
        began, flight.began = flight.began, time.monotonic()
        pace = len(periods) * min(
            _DISPATCH_SECONDS / (flight.began - began + 1e-9), _MOST_GROWTH
        )
        flight.pace = int(processes.ask_leader(lambda: b'%d' % min(pace, group.most)))
        measured = [
            (before + k * every, *of)
            for k, records in enumerate(periods, start=1)
            for of in zip(group.lanes, records, strict=True)
        ]
        self._append(measured)
        is_whole = group.done == group.round  # nothing has changed the state since
        if is_whole and (self.store.is_due(flight.clock) or flight.is_done):
            began = time.monotonic()
            self._save(flight)
            flight.clock.put_off(began)
        self._tell(measured)

    def _append(self, measured: _Measured) -> None:
        rows: dict[str, list[dict[str, Any]]] = {}
        for round, lane, record in measured:
            rows.setdefault(lane.name, []).append(runs.row_of(round, record))
        for name, new in rows.items():
            self.store.append(name, new)

    def _tell(self, measured: _Measured) -> None:
        """Tells everything, then stops if anyone has said so."""
        stops = []
        for round, lane, record in measured:
            try:
                self.listeners.tell('on_period', lane, {'round': round, **record})
            except Stop as stop:
                stops.append(stop)
        if stops:
            raise stops[0]

    def _save(self, flight: _Flight) -> None:
        """Keeps the states of lanes, but of those that were tried in tuning and are done."""
        group = flight.group
        needed = group.lanes[0].stage != TUNING or not flight.is_done
        states = group.states() if needed else [None] * len(group.lanes)
        for lane, state in zip(group.lanes, states, strict=True):
            self.store.save(lane.name, state, group.done)
        flight.saved, flight.pace = group.done, 0

    def _groups(self, lanes: Sequence[Lane]) -> list[tuple[list[Lane], int]]:
        """Lanes that run together, and the width of their program.

        One each, or as many with one program as memory allows.
        """
        if not self.programs.side_by_side:
            return [([lane], 1) for lane in lanes]
        alike: dict[Any, list[Lane]] = {}
        for lane in lanes:
            key = self.programs.key(lane), self.store.rounds(lane.name)
            alike.setdefault(key, []).append(lane)
        return [group for members in alike.values() for group in self._cut(members)]

    def _cut(self, members: list[Lane]) -> list[tuple[list[Lane], int]]:
        """Lanes with one program and one past: all of a device's, halved until they fit.

        All groups are equally wide, so that one program serves them.
        """
        shared, first = self.programs, members[0]
        count = len(shared.places)
        share = size = math.ceil(len(members) / count)
        is_done = self.store.rounds(first.name) >= first.num_rounds
        data = parametrized.own_bytes(
            shared.experiment.plan.problem_of(x) for x in members
        )
        most = memory.lanes_that_fit(
            compilation.lane_bytes(shared.experiment, first) + data, share
        )

        def cut() -> list[list[Lane]]:
            return [members[i : i + size] for i in range(0, len(members), size)]

        def fit() -> bool:
            try:
                placed = zip(cut(), shared.places, strict=False)
                shared.compile([Group(shared, *of, size) for of in placed])
            except errors.InvalidError:
                return False
            return True

        while size > 1 and not (is_done or (size <= most and fit())):
            count *= 2
            size = math.ceil(len(members) / count)
        if size < share:
            said = f'{first.algorithm}: {size} at a time, as more lanes do not fit into memory'
            print(said, file=sys.stderr)
        return [(group, size) for group in cut()]
