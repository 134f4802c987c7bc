"""Runs a plan, or a share of it: all lanes that its schedule wants, until it wants no more.

Of several processes in one folder each runs its own lanes of tuning, then helps with those that
nobody runs; once all are done it knows what did best, and runs its own lanes that follow. It waits
for lanes that another process holds, and for nothing else: where a process is lost, the others tune
what it left.
"""

import dataclasses
import functools
import itertools
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links import runs
from fedjax_links.core import errors, paths
from fedjax_links.machines import devices, processes
from fedjax_links.planning.lanes import TUNING, Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.planning.sequential_seeds import UntilDecided
from fedjax_links.runner import hooks, in_memory, realised_links, shared_stores, stores
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.program_cache import Programs
from fedjax_links.runner.stages import LaneScheduler
from fedjax_links.storage import run_files

_AHEAD = 2  # algorithms whose programs are compiled while another one's run
_POLL_SECONDS = 1.0


class FailedLanesError(RuntimeError):
    """Some lanes failed; all others have run.

    Attributes:
      lines: one for each, by the name of the lane.
    """

    def __init__(self, lines: dict[str, str]) -> None:
        """Says which, and why."""
        super().__init__('\n'.join(f'{lane}: {why}' for lane, why in lines.items()))
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
      listeners: its callbacks; those that ``log`` names come before them.
      side_by_side: whether lanes advance in one program; everywhere but on a CPU by default, where
        one after the other each lane is bit for bit its own `simulation.simulate`.
      initial_states: where lanes begin, see `forking`; before their first round by default.
      slots: the devices or meshes (`devices.device_slots`) that lanes of an algorithm advance on at
        the same time; all devices of this process by default. Unless lanes run side by side,
        nothing that is kept depends on the number of devices, nor on the size of meshes.
      programs: of the plan, if there are any yet, and with them where lanes run.
      allow_mixed: as in `Experiment.run`.
      allow_changed: likewise.

    Returns:
      The metrics; of a share those of its lanes.

    Raises:
      ValueError: as `Experiment.run`.
      FailedLanesError: likewise.
    """
    initial_states = initial_states or hooks.InitialStates()
    path = None if folder is None else paths.as_path(folder)
    listeners = _with_logged(plan, folder, listeners or hooks.Listeners())
    programs = programs or Programs(plan, side_by_side=side_by_side, slots=slots)
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
        if plan.share is None:
            store.set_progress_total(
                {
                    lane.name: lane.num_rounds
                    for label in plan.algorithms
                    for lane in plan.lanes_at_first(label)
                }
            )
        if path is not None and (plan.share is None or plan.share.index == 0):
            _keep_links(programs, initial_states, store, path)
        _AlgorithmLoop(plan, programs, store, listeners, initial_states).run()
    finally:
        store.close()
    results = runs.Results(store.columns(), store.facts, path)
    listeners.notify('on_end', results)
    return results


def _with_logged(
    plan: Plan, folder: str | Path | None, listeners: hooks.Listeners
) -> hooks.Listeners:
    """Adds the callbacks that ``log`` names, in the leader of several processes."""
    log = plan.settings.log if processes.is_leader() else ()
    named = processes.do_in_all(lambda: hooks.callbacks(log, folder))
    callbacks = [*named, *listeners.callbacks]
    return dataclasses.replace(listeners, callbacks=callbacks)


def _open_store(
    programs: Programs,
    plan: Plan,
    path: Path | None,
    initial_states: hooks.InitialStates,
    **allowed: bool,
) -> shared_stores.Store:
    """Opens where the run is kept: in memory, in a folder, or in step with other processes."""
    facts = {**plan.facts(), **initial_states.facts}
    slot = programs.slots[0]
    if slot.is_mesh:
        facts[runs.ON_A_MESH] = True
    identities = Identities(plan)

    def open_here() -> in_memory.InMemoryStore:
        if path is None:
            return in_memory.InMemoryStore(facts)
        kind: Any = stores.RunFolder
        if plan.share is not None:
            kind = functools.partial(
                shared_stores.SharedFolder,
                division=plan.division,
                shard=plan.share.index,
            )
        with plan.precision():
            return kind(
                path,
                facts=facts,
                identities=identities,
                config=plan.config,
                **allowed,
            )

    if not processes.are_several():
        return open_here()
    described = [plan.config, facts, identities.of_run().as_plain()]
    return shared_stores.ReplicatedStore(open_here, described, path, slot.local_rows)


def _keep_links(
    programs: Programs,
    initial_states: hooks.InitialStates,
    store: shared_stores.Store,
    path: Path,
) -> None:
    """Keeps the realised links, unless the folder has them."""
    is_changed = run_files.CHANGED in store.facts
    if is_changed or not realised_links.has_record(programs, initial_states, path):
        store.keep_links(realised_links.record_links(programs, initial_states))


@dataclasses.dataclass(eq=False)
class _AlgorithmLoop:
    """Runs what is wanted, and asks again what is, until all of that has run.

    Attributes:
      plan: what runs.
      programs: of it, or of the plan of which it is a share.
      store: where the run is kept.
      listeners: who is notified.
      initial_states: what the lanes of the main stage begin with.
      attempted: names of lanes that are done or failed.
      failed: why lanes failed, by name.
    """

    plan: Plan
    programs: Programs
    store: Any
    listeners: hooks.Listeners
    initial_states: hooks.InitialStates
    attempted: set[str] = dataclasses.field(default_factory=set)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Finds out whether other processes may run lanes of the same plan."""
        self._schedule = self.plan.new_schedule()
        self._is_shared = isinstance(self.store, shared_stores.SharedFolder)
        self._is_open = isinstance(self.plan.seeds, UntilDecided)
        self._given_up: set[str] = set()  # algorithms that cannot run
        self._awaited = self._algorithms_to_tune_here()

    def _algorithms_to_tune_here(self) -> set[str]:
        """Returns the algorithms of which lanes of this share follow their tuning."""
        if not self._is_shared or self._schedule.is_fixed:
            return set()
        return {
            label
            for label in self.plan.algorithms
            for lane in self._schedule.possible(label)
            if lane.stage != TUNING and self.plan.owns(lane)
        }

    def run(self) -> None:
        """Runs all lanes that are wanted, and are this process's to run.

        Raises:
          FailedLanesError: at the end, if some failed.
          Stop: if a callback did, after all was saved.
        """
        running: str | None = None
        groups = self._next_groups()
        while groups:
            label = groups[0][0].algorithm
            # Lanes of a share or of further seeds come back to an algorithm.
            comes_back = self._is_shared or self._is_open
            if running is not None and running != label and not comes_back:
                self.programs.forget(running)
            running = label
            others = [lanes for lanes in groups if lanes[0].algorithm != label]
            self._finish(groups[0], () if self._is_shared else others[:_AHEAD])
            groups = self._next_groups()
        self._give_up_untuned()
        if self.failed:
            raise FailedLanesError(self.failed)
        if self._is_open:
            self.store.request_lanes([], ended=True)

    def _next_groups(self) -> list[list[Lane]]:
        """Lists the lanes to run, by algorithm and stage, in order."""
        columns: Mapping[str, Any] = {}
        if not self._schedule.is_fixed:
            columns = self.store.columns()
        for label, mistake in self._schedule.mistakes(columns).items():
            self._give_up(label, mistake)
        wanted = {lane.name: lane for lane in self._schedule.wanted(columns)}
        self.store.request_lanes(list(wanted))
        lanes = [
            lane
            for name, lane in wanted.items()
            if name not in self.attempted and self._is_needed(lane)
        ]
        if self._is_shared:  # others wait for this share's lanes of tuning
            lanes.sort(
                key=lambda lane: not (lane.stage == TUNING and self.plan.owns(lane))
            )
        groups = itertools.groupby(lanes, key=lambda lane: (lane.algorithm, lane.stage))
        return [list(group) for _, group in groups]

    def _is_needed(self, lane: Lane) -> bool:
        """Whether a lane is this process's to run, or it must be done before that is known."""
        if self._is_open or self.plan.owns(lane):
            return True
        return lane.stage == TUNING and lane.algorithm in self._awaited

    def _give_up(self, label: str, mistake: errors.InvalidError) -> None:
        """Notes that the share's main lanes of an algorithm cannot run; of all lanes, raises."""
        if not self._is_shared:
            raise mistake
        if label not in self._given_up:
            self._given_up.add(label)
            for lane in filter(self.plan.owns, self._schedule.first_main(label)):
                self._note(lane, mistake)

    def _give_up_untuned(self) -> None:
        """Gives up algorithms of whose tuning lanes failed."""
        if not self.failed:
            return
        for label in self.plan.algorithms:
            tuning = self._schedule.possible_tuning(label)
            num_failed = sum(lane.name in self.failed for lane in tuning)
            if num_failed:
                requirement = f'be done before {label} runs'
                got = f'{num_failed} of its lanes that failed'
                self._give_up(label, errors.invalid('tuning', requirement, got))

    def _finish(
        self, lanes: Sequence[Lane], coming: Sequence[Sequence[Lane]] = ()
    ) -> None:
        """Runs lanes of a stage of an algorithm, the share's first."""
        lanes = sorted(lanes, key=lambda lane: not self.plan.owns(lane))
        if self._is_shared:
            self._finish_with_others(lanes)
        else:
            self._advance(lanes, coming)
        self.attempted |= {lane.name for lane in lanes}

    def _advance(
        self, lanes: Sequence[Lane], coming: Sequence[Sequence[Lane]] = ()
    ) -> None:
        """Advances lanes to their last round."""
        scheduler = LaneScheduler(
            self.programs, self.store, self.listeners, self.initial_states
        )
        scheduler.run(lanes, coming)

    # Next to other processes.

    def _finish_with_others(self, lanes: Sequence[Lane]) -> None:
        """Runs lanes of one stage, waiting for those that others hold."""
        named: set[str] = set()  # holders that callbacks know of
        while True:
            self.store.refresh()
            left = self._left(lanes)
            if not left:
                self.store.register_lanes({lane.name: lane.metadata for lane in lanes})
                return
            self._attempt(left)
            self._wait(self._left(left), named)

    def _wait(self, lanes: Sequence[Lane], named: set[str]) -> None:
        """Waits a moment for lanes that others hold; adds new holders to those that were named."""
        holders = {self.store.holder(lane.name) for lane in lanes} - {None}
        if not holders:
            return
        text = ''
        if holders - named:
            named |= holders
            first = lanes[0]
            number = f'{len(lanes)} lane{"s" if len(lanes) > 1 else ""}'
            text = (
                f'waiting for {number} of {first.algorithm}, {first.stage}: '
                f'{", ".join(sorted(holders))}'
            )
        self.listeners.notify('on_wait', text)
        time.sleep(_POLL_SECONDS)

    def _left(self, lanes: Iterable[Lane]) -> list[Lane]:
        """Returns the lanes that are neither done nor failed."""
        return [
            lane
            for lane in lanes
            if lane.name not in self.failed
            and self.store.rounds(lane.name) < lane.num_rounds
        ]

    def _attempt(self, lanes: Sequence[Lane]) -> None:
        """Runs lanes; if one fails, the others resume from what was saved."""
        try:
            self._advance(lanes)
        except hooks.Stop:
            raise
        except Exception as error:
            if error is self.listeners.error:
                raise
            self.store.release_all()
            if len(lanes) == 1:
                self._note(lanes[0], error)
                return
            for lane in self._left(lanes):
                self._attempt([lane])

    def _note(self, lane: Lane, error: Exception) -> None:
        """Keeps why a lane failed."""
        is_mistake = isinstance(error, errors.InvalidError)
        self.failed[lane.name] = str(error) if is_mistake else errors.describe(error)
        self.store.keep_failure(lane.name, ''.join(traceback.format_exception(error)))
