"""One of several processes that run the lanes of an experiment in one folder.

It runs its own lanes of tuning, then helps with those that nobody runs; once all are done it knows
what did best, and runs its own lanes of the main stage. It waits for lanes that another process
holds, and for nothing else: where a process is lost, the others tune what it left.
"""

import itertools
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_links import runs
from fedjax_links.core import errors
from fedjax_links.experiment.plan.deciding import UntilDecided
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running.hooks import Callback, Stop
from fedjax_links.experiment.running.stages import Stages
from fedjax_links.storage import checkpoints

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

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


class Listeners(Callback):
    """Callbacks as one, whose errors are told from those of lanes.

    Attributes:
      error: what ended one of them.
    """

    error: Exception | None = None

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        """Takes those who are told."""
        self._callbacks = callbacks

    def __getattribute__(self, name: str) -> Any:
        """Of a method of `Callback`, what calls all."""
        if not name.startswith('on_'):
            return super().__getattribute__(name)

        def call(*what: Any) -> None:
            try:
                for callback in self._callbacks:
                    getattr(callback, name)(*what)
            except Exception as error:
                self.error = error
                raise

        return call


class Shard:
    """Runs one share."""

    def __init__(
        self,
        experiment: 'Experiment',
        folder: Path,
        store: Any,
        stages: Callable[[], Stages],
        listeners: Listeners,
    ) -> None:
        """Runs nothing yet.

        Args:
          experiment: with a share.
          folder: of the run.
          store: the folder as `shared.SharedFolder`.
          stages: makes what advances lanes, and tells the listeners.
          listeners: who is told.
        """
        self._experiment, self._plan = experiment, experiment.plan
        self._folder, self._store, self._stages = folder, store, stages
        self._listeners = listeners
        self._failed: dict[str, str] = {}

    def run(self) -> None:
        """Runs the lanes of the share.

        Raises:
          FailedLanesError: at the end, if some failed.
          Stop: if a callback did, after all was saved.
        """
        for label in self._experiment.algorithms:
            self._finish(self._plan.own(self._plan.tuning_lanes(label)))
        for label in self._experiment.algorithms:
            self.run_main(label)
        if isinstance(self._experiment.seeds, UntilDecided):
            self._run_until_decided()
        if self._failed:
            raise FailedLanesError(self._failed)

    def tune(self, label: str) -> Mapping[str, Any]:
        """Runs all lanes of tuning that nobody runs, the share's first; what was measured then."""
        begun: set[str] = set()
        columns: Mapping[str, Any] = {}
        while True:
            lanes = self._plan.tuning_lanes(label, columns)
            more = [lane for lane in lanes if lane.name not in begun]
            if not more or self._failed.keys() & begun:
                return columns
            self._finish(sorted(more, key=self._is_others))
            begun |= {lane.name for lane in more}
            columns = runs.as_columns(self._store.lines())

    def run_main(self, label: str) -> None:
        """Runs the share's lanes of an algorithm that follow its tuning, once it is tuned."""
        if lanes := self._plan.own(self._plan.asked_lanes(label)):
            columns = self.tune(label)
            try:
                asked = self._plan.asked_lanes(label, columns)
            except errors.InvalidError as error:
                for lane in lanes:
                    self._note(lane.name, error)
                return
            self._store.ask([lane.name for lane in asked])
            for _, own in itertools.groupby(self._plan.own(asked), lambda lane: lane.stage):
                self._finish(list(own))

    def _run_until_decided(self) -> None:
        """Runs all lanes that are asked for and nobody runs, the share's first, until none is."""
        labels, begun = list(self._experiment.algorithms), set[str]()
        known = [self.tune(label) for label in labels]
        while not self._failed:
            if begun:
                known = [runs.as_columns(self._store.lines())] * len(labels)
            asked = [self._plan.asked_lanes(*of) for of in zip(labels, known, strict=True)]
            more = [lane for lanes in asked for lane in lanes if lane.name not in begun]
            self._store.ask([lane.name for lane in more], ended=not more)
            if not more:
                return
            for _, lanes in itertools.groupby(more, lambda lane: (lane.algorithm, lane.stage)):
                self._finish(sorted(lanes, key=self._is_others))
            begun.update(lane.name for lane in more)

    def _finish(self, lanes: Sequence[Lane]) -> None:
        """Runs lanes of one stage, waiting for those that others hold."""
        said: set[str] = set()
        while True:
            self._store.refresh()
            left = [lane for lane in lanes if self._is_left(lane)]
            if not left:
                self._store.expect({lane.name: lane.about for lane in lanes})
                return
            self._attempt(left)
            left = [lane for lane in left if self._is_left(lane)]
            holders = {holder for lane in left if (holder := self._store.holder(lane.name))}
            if holders:
                text, first = '', left[0]
                if holders - said:
                    said |= holders
                    lanes_left = f'{len(left)} lane{"s" if len(left) > 1 else ""}'
                    waited = f'{lanes_left} of {first.algorithm}, {first.stage}'
                    text = f'waiting for {waited}: {", ".join(sorted(holders))}'
                self._listeners.on_wait(text)
                time.sleep(_POLL_SECONDS)

    def _is_others(self, lane: Lane) -> bool:
        return not self._plan.own([lane])

    def _is_left(self, lane: Lane) -> bool:
        return lane.name not in self._failed and self._store.rounds(lane.name) < lane.num_rounds

    def _attempt(self, lanes: Sequence[Lane]) -> None:
        """Runs lanes; if one fails, the others go on from what was saved."""
        try:
            self._stages().run(lanes)
        except Stop:
            raise
        except Exception as error:
            if error is self._listeners.error:
                raise
            self._store.release_all()
            if len(lanes) == 1:
                self._note(lanes[0].name, error)
                return
            for lane in lanes:
                if self._is_left(lane):
                    self._attempt([lane])

    def _note(self, lane: str, error: Exception) -> None:
        """Keeps why a lane failed."""
        is_mistake = isinstance(error, errors.InvalidError)
        self._failed[lane] = str(error) if is_mistake else errors.describe(error)
        folder = self._folder / runs.FAILURES
        with errors.on_disk(folder):
            folder.mkdir(exist_ok=True)
            text = ''.join(traceback.format_exception(error))
            checkpoints.write_whole(folder / f'{lane}.txt', text.encode())
