"""Runs an experiment, or a share of it: all lanes that its schedule wants, until it wants no more.

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
from typing import TYPE_CHECKING, Any

from fedjax_links import runs
from fedjax_links.core import errors, paths
from fedjax_links.machines import devices, processes
from fedjax_links.planning.lanes import TUNING, Lane
from fedjax_links.planning.schedule import LaneSchedule
from fedjax_links.planning.sequential_seeds import UntilDecided
from fedjax_links.runner import hooks, shared_stores, stores
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.program_cache import Programs, has_realised, realised
from fedjax_links.runner.stages import Stages
from fedjax_links.storage import run_files

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

_AHEAD = 2  # algorithms whose programs are compiled while another one's run
_POLL_SECONDS = 1.0


class FailedLanesError(RuntimeError):
    """Some lanes failed; all others have run.

    Attributes:
      lines: one for each, by the name of the lane.
    """

    def __init__(self, lines: dict[str, str]) -> None:
        """Says which, and why."""
        super().__init__('\n'.join(f'{lane}: {said}' for lane, said in lines.items()))
        self.lines = lines


def run(
    experiment: 'Experiment',
    folder: str | Path | None = None,
    callbacks: Sequence[hooks.Callback] = (),
    *,
    side_by_side: bool | None = None,
    origin: hooks.Origin | None = None,
    places: Sequence[devices.Place] | None = None,
    programs: Programs | None = None,
    allow_mixed: bool = False,
    allow_changed: bool = False,
) -> runs.Results:
    """Runs what has not run yet: the body of `Experiment.run` and `Experiment.fork`.

    Args:
      experiment: the experiment.
      folder: as in `Experiment.run`.
      callbacks: likewise; those that ``log`` names come before them.
      side_by_side: whether lanes advance in one program; everywhere but on a CPU by default, where
        one after the other each lane is bit for bit its own `simulation.simulate`.
      origin: where lanes begin, see `forking`; before their first round by default.
      places: the devices or meshes (`devices.places`) that lanes of an algorithm advance on at
        the same time; all devices of this process by default. Unless lanes run side by side,
        nothing that is kept depends on the number of devices, nor on the size of meshes.
      programs: of the experiment, if there are any yet, and with them where lanes run.
      allow_mixed: as in `Experiment.run`.
      allow_changed: likewise.

    Returns:
      The metrics; of a share those of its lanes.

    Raises:
      ValueError: as `Experiment.run`.
      FailedLanesError: likewise.
    """
    plan, share, origin = experiment.plan, experiment.share, origin or hooks.Origin()
    log = experiment.log if processes.is_leader() else ()
    named = processes.do_in_all(lambda: hooks.callbacks(log, folder))
    listeners = hooks.Listeners([*named, *callbacks])
    programs = programs or Programs(
        experiment, side_by_side=side_by_side, places=places
    )
    facts = {**plan.facts(), **origin.facts}
    if programs.places[0].is_mesh:
        facts[runs.ON_A_MESH] = True
    path = None if folder is None else paths.as_path(folder)
    identities = Identities(experiment)

    def opened() -> stores.Memory:
        if path is None:
            return stores.Memory(facts)
        kind: Any = stores.RunFolder
        if share is not None:
            own: dict[str, Any] = {'division': plan.division, 'shard': share.index}
            kind = functools.partial(shared_stores.SharedFolder, **own)
        with plan.precision():
            return kind(
                path,
                facts=facts,
                identities=identities,
                config=experiment.config,
                allow_mixed=allow_mixed,
                allow_changed=allow_changed,
            )

    several, local_rows = processes.are_several(), programs.places[0].local_rows
    described = [
        experiment.config,
        facts,
        identities.of_run().as_plain() if several else None,
    ]
    store: Any = (
        shared_stores.InStep(opened, described, path, local_rows)
        if several
        else opened()
    )
    try:
        listeners.tell('on_start', experiment)
        if share is None:
            lanes = itertools.chain.from_iterable(
                map(plan.lanes_at_first, experiment.algorithms)
            )
            store.announce({lane.name: lane.num_rounds for lane in lanes})
        is_first = share is None or share.index == 0
        if path is not None and is_first:
            is_changed = run_files.CHANGED in store.facts
            if is_changed or not has_realised(programs, origin, path):
                store.keep_links(realised(programs, origin))
        _Turns(experiment, programs, store, listeners, origin).run()
    finally:
        store.close()
    results = runs.Results(store.columns(), store.facts, path)
    listeners.tell('on_end', results)
    return results


@dataclasses.dataclass(eq=False)
class _Turns:
    """Runs what is wanted, and asks again what is, until all of that has run.

    Attributes:
      experiment: what runs.
      programs: of it, or of the whole of which it is a share.
      store: where all is kept.
      listeners: who is told.
      origin: what the lanes of the main stage begin with.
      begun: names of lanes that are done or were tried.
      failed: why lanes failed, by name.
    """

    experiment: 'Experiment'
    programs: Programs
    store: Any
    listeners: hooks.Listeners
    origin: hooks.Origin
    begun: set[str] = dataclasses.field(default_factory=set)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Others may be at lanes of a share."""
        self._plan = self.experiment.plan
        self._schedule = LaneSchedule(self.experiment, self._plan)
        self._is_shared = isinstance(self.store, shared_stores.SharedFolder)
        self._is_open = isinstance(self.experiment.seeds, UntilDecided)
        self._given_up: set[str] = set()  # algorithms that cannot run
        self._follow: set[str] = (
            set()
        )  # those of which lanes of this share follow their tuning
        if self._is_shared and not self._schedule.is_fixed:
            possible = (
                x
                for label in self._plan.algorithms
                for x in self._schedule.possible(label)
            )
            own = filter(self._plan.owns, possible)
            self._follow = {lane.algorithm for lane in own if lane.stage != TUNING}

    def run(self) -> None:
        """Runs all lanes that are wanted, and are this process's to run.

        Raises:
          FailedLanesError: at the end, if some failed.
          Stop: if a callback did, after all was saved.
        """
        running: str | None = None
        while groups := self._missing():
            label = groups[0][0].algorithm
            if running not in (None, label) and not (self._is_shared or self._is_open):
                self.programs.forget(running)
            running = label
            coming = [lanes for lanes in groups if lanes[0].algorithm != label]
            self._finish(groups[0], () if self._is_shared else coming[:_AHEAD])
        self._give_up_untuned()
        if self.failed:
            raise FailedLanesError(self.failed)
        if self._is_open:
            self.store.ask([], ended=True)

    def _missing(self) -> list[list[Lane]]:
        """The lanes to run, by algorithm and stage, in order."""
        columns: Mapping[str, Any] = (
            {} if self._schedule.is_fixed else self.store.columns()
        )
        for label, mistake in self._schedule.mistakes(columns).items():
            self._give_up(label, mistake)
        wanted = {lane.name: lane for lane in self._schedule.wanted(columns)}
        self.store.ask(list(wanted))
        left = [lane for name, lane in wanted.items() if name not in self.begun]
        lanes = list(filter(self._is_needed, left))
        if self._is_shared:  # others wait for this share's lanes of tuning
            lanes.sort(
                key=lambda lane: not (lane.stage == TUNING and self._plan.owns(lane))
            )
        groups = itertools.groupby(lanes, key=lambda lane: (lane.algorithm, lane.stage))
        return [list(group) for _, group in groups]

    def _is_needed(self, lane: Lane) -> bool:
        """Whether a lane is this process's to run, or it must be done before that is known."""
        if self._is_open or self._plan.owns(lane):
            return True
        return lane.stage == TUNING and lane.algorithm in self._follow

    def _give_up(self, label: str, mistake: errors.InvalidError) -> None:
        """Notes that the share's main lanes of an algorithm cannot run; of all lanes, raises."""
        if not self._is_shared:
            raise mistake
        if label not in self._given_up:
            self._given_up.add(label)
            for lane in filter(self._plan.owns, self._schedule.first_main(label)):
                self._note(lane, mistake)

    def _give_up_untuned(self) -> None:
        """Does so for algorithms of whose tuning lanes failed."""
        for label in self._plan.algorithms:
            tuning = self._schedule.possible_tuning(label) if self.failed else []
            if count := sum(lane.name in self.failed for lane in tuning):
                said = f'{count} of its lanes that failed'
                self._give_up(
                    label,
                    errors.invalid('tuning', f'be done before {label} runs', said),
                )

    def _finish(self, lanes: Sequence[Lane], coming: Sequence[Any] = ()) -> None:
        """Runs lanes of a stage of an algorithm, the share's first."""
        lanes = sorted(lanes, key=lambda lane: not self._plan.owns(lane))
        if self._is_shared:
            self._finish_beside_others(lanes)
        else:
            self._advance(lanes, coming)
        self.begun |= {lane.name for lane in lanes}

    def _advance(self, lanes: Sequence[Lane], coming: Sequence[Any] = ()) -> None:
        Stages(self.programs, self.store, self.listeners, self.origin).run(
            lanes, coming
        )

    # Beside other processes.

    def _finish_beside_others(self, lanes: Sequence[Lane]) -> None:
        """Runs lanes of one stage, waiting for those that others hold."""
        said: set[str] = set()
        while True:
            self.store.refresh()
            if not (left := self._left(lanes)):
                self.store.expect({lane.name: lane.about for lane in lanes})
                return
            self._attempt(left)
            left = self._left(left)
            holders = {
                holder for lane in left if (holder := self.store.holder(lane.name))
            }
            if holders:
                text, first = '', left[0]
                if holders - said:
                    said |= holders
                    lanes_left = f'{len(left)} lane{"s" if len(left) > 1 else ""}'
                    waited = f'{lanes_left} of {first.algorithm}, {first.stage}'
                    text = f'waiting for {waited}: {", ".join(sorted(holders))}'
                self.listeners.tell('on_wait', text)
                time.sleep(_POLL_SECONDS)

    def _left(self, lanes: Iterable[Lane]) -> list[Lane]:
        """Those that are neither done nor failed."""
        there = (lane for lane in lanes if lane.name not in self.failed)
        return [
            lane for lane in there if self.store.rounds(lane.name) < lane.num_rounds
        ]

    def _attempt(self, lanes: Sequence[Lane]) -> None:
        """Runs lanes; if one fails, the others go on from what was saved."""
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
