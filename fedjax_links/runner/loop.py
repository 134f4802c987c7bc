"""Runs a plan, or a shard of it: all lanes that the schedule asks for, until it asks for no more.

A lane is one simulation (`planning.lanes.Lane`), and a shard is a part of the lanes. Lanes are run
in stages: an algorithm's tuning, then its main lanes at the chosen values, then near ties.

Several processes may run shards in one folder. Each process first runs its shard's lanes of tuning,
then helps with the tuning of other shards. Once tuning is done, it runs its shard's main lanes. It
waits only for lanes that another process holds. If a process is lost, the others run the lanes of
tuning that it left. Processes in step (`machines.processes`) are no shards: together they run what
one process would.
"""

import dataclasses
import itertools
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links import runs
from fedjax_links.core import errors, paths
from fedjax_links.machines import devices, processes
from fedjax_links.planning.description import count
from fedjax_links.planning.lanes import TUNING, Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.planning.sequential_seeds import UntilDecided
from fedjax_links.runner import (
    hooks,
    in_memory,
    preflight,
    realised_links,
    shared_stores,
    stores,
)
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.program_cache import Programs
from fedjax_links.runner.stages import LaneScheduler
from fedjax_links.storage import run_files

_AHEAD = 2  # groups of lanes whose programs are compiled while another algorithm runs
_POLL_SECONDS = 1.0


class FailedLanesError(RuntimeError):
    """Names the lanes that failed; all others have run.

    Attributes:
      lines: why each lane failed, by the lane's name.
    """

    def __init__(self, lines: dict[str, str]) -> None:
        """Makes the message: a line for each lane."""
        messages = [f'{lane}: {reason}' for lane, reason in lines.items()]
        super().__init__('\n'.join(messages))
        self.lines = lines


def run(
    plan: Plan,
    folder: str | Path | None = None,
    listeners: hooks.Listeners | None = None,
    *,
    side_by_side: bool | None = None,
    initial_states: hooks.InitialStates | None = None,
    slots: Sequence[devices.DeviceSlot] | None = None,
    programs: Programs | None = None,
    allow_mixed: bool = False,
    allow_changed: bool = False,
) -> runs.Results:
    """Runs what has not run yet: the body of `Experiment.run` and `Experiment.fork`.

    Args:
      plan: of an experiment.
      folder: as in `Experiment.run`.
      listeners: the callbacks of the run. Callbacks that ``log`` names are called before them.
      side_by_side: whether lanes advance in one program; by default everywhere but on a CPU. Lanes
        that run one after the other have the bits of `simulation.simulate`.
      initial_states: the states that lanes begin with, see `forking`; by default, fresh states.
      slots: the devices or meshes (`devices.device_slots`) that lanes of an algorithm advance on at
        the same time; all devices of this process by default. Unless lanes run side by side,
        results depend neither on the number of slots nor on the size of meshes.
      programs: the programs of the plan, if they exist already. Then ``programs.slots`` are used.
      allow_mixed: as in `Experiment.run`.
      allow_changed: as in `Experiment.run`.

    Returns:
      The metrics. For a shard, the metrics of its lanes, and of other lanes that it waited for.

    Raises:
      ValueError: as `Experiment.run`.
      FailedLanesError: as `Experiment.run`.
      Stop: as `Experiment.run`.
    """
    path = None if folder is None else paths.as_path(folder)
    with processes.adopt(hooks.Stop, FailedLanesError):
        programs = programs or Programs(plan, side_by_side=side_by_side, slots=slots)
        listeners = _with_logged(plan, path, listeners or hooks.Listeners())
        initial_states = initial_states or hooks.InitialStates()
        store = _open_store(
            programs,
            plan,
            path,
            initial_states,
            allow_mixed=allow_mixed,
            allow_changed=allow_changed,
        )
        try:
            listeners.start()
            if plan.lane_shard is None:
                lanes = plan.all_lanes_at_first()
                store.set_progress_total({lane.name: lane.num_rounds for lane in lanes})
            if path is not None and plan.has_first_shard:
                _save_links(programs, initial_states, store, path)
            _AlgorithmLoop(plan, programs, store, listeners, initial_states).run()
        finally:
            store.close()
        results = runs.Results(store.columns(), store.facts, path)
        listeners.notify('on_end', results)
        return results


def _with_logged(
    plan: Plan, folder: Path | None, listeners: hooks.Listeners
) -> hooks.Listeners:
    """Adds the callbacks that ``log`` names; among processes in step, only in the leader."""
    log = plan.settings.log if processes.is_leader() else ()
    named = processes.run_in_all(lambda: hooks.make_callbacks(log, folder))
    callbacks = [*named, *listeners.callbacks]
    return dataclasses.replace(listeners, callbacks=callbacks)


def _open_store(
    programs: Programs,
    plan: Plan,
    path: Path | None,
    initial_states: hooks.InitialStates,
    **allowed: bool,
) -> shared_stores.Store:
    """Opens the store of the run: in memory, in a folder, or one for processes in step."""
    facts = preflight.recorded_facts(programs, initial_states)
    identities = Identities(plan)

    def open_here() -> in_memory.InMemoryStore:
        if path is None:
            return in_memory.InMemoryStore(facts)
        options: dict[str, Any] = {
            'facts': facts,
            'identities': identities,
            'config': plan.config,
            **allowed,
        }
        with plan.precision():
            if plan.lane_shard is None:
                return stores.RunFolder(path, **options)
            shard = plan.lane_shard.index
            return shared_stores.SharedFolder(
                path, division=plan.division, shard=shard, **options
            )

    if not processes.are_several():
        return open_here()
    identity = identities.run_identity().as_plain()
    described = {'config': plan.config, 'facts': facts, 'identity': identity}
    local_rows = programs.slots[0].local_rows
    return shared_stores.ReplicatedStore(open_here, described, path, local_rows)


def _save_links(
    programs: Programs,
    initial_states: hooks.InitialStates,
    store: shared_stores.Store,
    path: Path,
) -> None:
    """Saves the links that patterns draw, unless the folder already has these very links."""
    is_changed = run_files.CHANGED in store.facts
    if is_changed or not realised_links.has_record(programs, initial_states, path):
        store.save_links(realised_links.record_links(programs, initial_states))


@dataclasses.dataclass(eq=False)
class _AlgorithmLoop:
    """Runs the lanes that the schedule asks for, until it asks for no more.

    Attributes:
      plan: what runs, the full plan or a shard of it.
      programs: the programs of the full plan.
      store: where the lanes are saved.
      listeners: who is notified.
      initial_states: what the lanes of the main stage begin with.
    """

    plan: Plan
    programs: Programs
    store: Any
    listeners: hooks.Listeners
    initial_states: hooks.InitialStates

    def __post_init__(self) -> None:
        """Makes the scheduler and a schedule; nothing is done or failed yet."""
        self._scheduler = LaneScheduler(
            self.programs, self.store, self.listeners, self.initial_states
        )
        self._schedule = self.plan.new_schedule()
        self._is_shared = isinstance(self.store, shared_stores.SharedFolder)
        self._adds_seeds = isinstance(self.plan.seeds, UntilDecided)
        self._attempted: set[str] = set()  # names of lanes that are done or failed
        self._failed: dict[str, str] = {}  # why lanes failed, by name
        self._abandoned: set[str] = set()  # algorithms that cannot run
        self._awaited = self._awaited_tuning()

    def _awaited_tuning(self) -> set[str]:
        """Returns the algorithms whose tuning the main lanes of this shard wait for."""
        if not self._is_shared or self._schedule.is_fixed:
            return set()
        return {
            label
            for label in self.plan.algorithms
            for lane in self._schedule.possible(label)
            if lane.stage != TUNING and self.plan.owns(lane)
        }

    def run(self) -> None:
        """Runs all lanes that the schedule asks for and that this process is to run.

        Raises:
          FailedLanesError: at the end, if some lanes failed.
          Stop: if a callback raised it, after all was saved.
        """
        running: str | None = None
        # With shards or further seeds, an algorithm may have lanes to run again later.
        needs_programs_later = self._is_shared or self._adds_seeds
        groups = self._next_groups()
        while groups:
            label = groups[0][0].algorithm
            if running not in (None, label) and not needs_programs_later:
                self.programs.forget(running)
            running = label
            self._finish(groups[0], self._coming(groups))
            groups = self._next_groups()
        self._give_up_untuned()
        if self._failed:
            raise FailedLanesError(self._failed)
        if self._adds_seeds:
            # `runs.merge` reads in the folder that no further seeds are wanted.
            self.store.request_lanes([], ended=True)

    def _coming(self, groups: Sequence[list[Lane]]) -> Sequence[list[Lane]]:
        """Returns the groups of the next algorithms, whose programs are compiled meanwhile."""
        if self._is_shared:
            return ()
        running = groups[0][0].algorithm
        others = [lanes for lanes in groups if lanes[0].algorithm != running]
        return others[:_AHEAD]

    def _next_groups(self) -> list[list[Lane]]:
        """Lists the lanes to run, by algorithm and stage, in order."""
        columns: Mapping[str, Any] = {}
        if not self._schedule.is_fixed:
            columns = self.store.columns()
        for label, mistake in self._schedule.mistakes(columns).items():
            self._give_up(label, mistake)
        to_run = {lane.name: lane for lane in self._schedule.lanes_to_run(columns)}
        # `runs.merge` reads in the folder which of the optional lanes are wanted.
        self.store.request_lanes(list(to_run))
        lanes = [
            lane
            for name, lane in to_run.items()
            if name not in self._attempted and self._is_needed(lane)
        ]
        if self._is_shared:
            # This shard's lanes of tuning come first, as other processes wait for them.
            lanes.sort(
                key=lambda lane: not (lane.stage == TUNING and self.plan.owns(lane))
            )
        groups = itertools.groupby(lanes, key=lambda lane: (lane.algorithm, lane.stage))
        return [list(group) for _, group in groups]

    def _is_needed(self, lane: Lane) -> bool:
        """Returns whether a lane runs in this process, or a lane of this process waits for it."""
        # All lanes together decide about further seeds.
        if self._adds_seeds or self.plan.owns(lane):
            return True
        return lane.stage == TUNING and lane.algorithm in self._awaited

    def _give_up(self, label: str, mistake: errors.InvalidError) -> None:
        """Notes that the shard's main lanes of an algorithm cannot run; raises without shards."""
        if not self._is_shared:
            raise mistake
        if label not in self._abandoned:
            self._abandoned.add(label)
            for lane in filter(self.plan.owns, self._schedule.first_main(label)):
                self._note_failure(lane, mistake)

    def _give_up_untuned(self) -> None:
        """Gives up algorithms with failed lanes of tuning."""
        if not self._failed:
            return
        for label in self.plan.algorithms:
            tuning = self._schedule.possible_tuning(label)
            num_failed = sum(lane.name in self._failed for lane in tuning)
            if num_failed:
                requirement = f'be done before {label} runs'
                got = f'{num_failed} of its lanes that failed'
                self._give_up(label, errors.invalid('tuning', requirement, got))

    def _finish(self, lanes: Sequence[Lane], coming: Sequence[Sequence[Lane]]) -> None:
        """Runs lanes of one algorithm and stage; lanes of this shard come first."""
        lanes = sorted(lanes, key=lambda lane: not self.plan.owns(lane))
        if self._is_shared:
            self._finish_with_others(lanes)
        else:
            self._scheduler.run(lanes, coming)
        self._attempted |= {lane.name for lane in lanes}

    def _finish_with_others(self, lanes: Sequence[Lane]) -> None:
        """Runs lanes of one stage, and waits for lanes that other processes hold."""
        reported: set[str] = set()  # processes whose names callbacks have received
        while True:
            self.store.refresh()
            unfinished = self._unfinished(lanes)
            if not unfinished:
                self.store.register_lanes({lane.name: lane.metadata for lane in lanes})
                return
            # Lanes that another process holds are passed over.
            self._attempt(unfinished)
            self._wait(self._unfinished(unfinished), reported)

    def _wait(self, lanes: Sequence[Lane], reported: set[str]) -> None:
        """Waits a moment for lanes that other processes hold; adds new holders to ``reported``."""
        holders = {self.store.holder(lane.name) for lane in lanes} - {None}
        if not holders:
            return
        text = ''
        if holders - reported:
            reported |= holders
            first = lanes[0]
            number = count(len(lanes), 'lane')
            names = ', '.join(sorted(holders))
            text = f'waiting for {number} of {first.algorithm}, {first.stage}: {names}'
        self.listeners.notify('on_wait', text)
        time.sleep(_POLL_SECONDS)

    def _unfinished(self, lanes: Iterable[Lane]) -> list[Lane]:
        """Returns the lanes that are neither done nor failed."""
        return [
            lane
            for lane in lanes
            if lane.name not in self._failed
            and self.store.rounds(lane.name) < lane.num_rounds
        ]

    def _attempt(self, lanes: Sequence[Lane]) -> None:
        """Runs lanes; if one fails, each unfinished lane then runs alone, from its last save."""
        try:
            self._scheduler.run(lanes)
        except hooks.Stop:
            raise
        except Exception as error:
            if error is self.listeners.error:
                raise
            self.store.release_all()
            if len(lanes) == 1:
                self._note_failure(lanes[0], error)
                return
            for lane in self._unfinished(lanes):
                self._attempt([lane])

    def _note_failure(self, lane: Lane, error: Exception) -> None:
        """Notes and saves why a lane failed."""
        is_mistake = isinstance(error, errors.InvalidError)
        self._failed[lane.name] = str(error) if is_mistake else errors.describe(error)
        self.store.save_failure(lane.name, ''.join(traceback.format_exception(error)))
