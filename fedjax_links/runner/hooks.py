"""Defines what a run calls: its callbacks, and the states that its lanes begin with.

A lane is one simulation (`planning.lanes.Lane`), a period is the rounds between two evaluations.

An experiment's ``log`` names callbacks of users as ``module:factory``. The factory takes the run
folder, which exists once the run has started. For results in memory it takes None.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.config import resolver
from fedjax_links.core import checks, errors
from fedjax_links.core.records import MetricsRow
from fedjax_links.machines import processes
from fedjax_links.planning.lanes import Lane

LINKS = 'links'
"""The name in ``log`` that records the realised links of all seeds."""


class Stop(Exception):  # noqa: N818, it is no error
    """Ends a run when a callback raises it. Periods that were started are reported and saved."""


class Callback:
    """Listens to a run; each method does nothing unless it is overridden.

    If a method raises an exception, the run ends. What was saved stays, and the run resumes from
    there when it is started again. docs/runs.md shows how a user writes a callback.
    """

    def on_start(self, experiment: Any) -> None:
        """Is called before anything runs.

        Args:
          experiment: the `Experiment` that runs.
        """

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """Is called before the lanes of a stage, which simulate ``num_rounds`` in all."""

    def on_period(self, lane: Lane, record: MetricsRow) -> None:
        """Is called after each period of each lane; ``record`` has ``round`` and the metrics.

        Models that are evaluated before the first round are reported as round 0. A lane that
        resumes or forks is first reported with ``round`` alone, the round that it starts after.
        """

    def on_wait(self, text: str) -> None:
        """Is called about once a second while other processes run lanes that are needed here.

        Args:
          text: what is waited for, in a line; empty if an earlier call had the same line.
        """

    def on_end(self, results: runs.Results) -> None:
        """Is called after everything."""


def _copied(argument: object) -> object:
    """Returns a copy of a record; other arguments as they are."""
    return dict(argument) if isinstance(argument, dict) else argument


@dataclasses.dataclass(eq=False)
class Listeners:
    """Calls the callbacks of a run, in this process.

    Attributes:
      callbacks: in the order in which they are called.
      experiment: what `Callback.on_start` receives.
      error: the exception that a callback raised. It does not mean that a lane failed.
    """

    callbacks: Sequence[Callback] = ()
    experiment: Any = None
    error: Exception | None = None

    def start(self) -> None:
        """Notifies all callbacks that the run starts.

        Raises:
          Stop: as `notify`.
        """
        self.notify('on_start', self.experiment)

    def notify(self, event: str, *arguments: object) -> None:
        """Calls a method of all callbacks. If a callback in any process stops the run, all stop.

        The callbacks after the one that raises `Stop` are called too. Each callback gets its own
        copy of a record, so it cannot change what other callbacks receive.

        Args:
          event: name of the method.
          *arguments: of the method.

        Raises:
          Stop: if a callback raised it in any process.
        """

        def call_all() -> bytes:
            answer = b''
            for callback in self.callbacks:
                try:
                    copies = [_copied(argument) for argument in arguments]
                    getattr(callback, event)(*copies)
                except Stop:
                    answer = b'stop'
                except Exception as error:
                    self.error = error
                    raise
            return answer

        if any(processes.all_gather(call_all)):
            raise Stop

    def notify_periods(self, periods: Iterable[tuple[Lane, MetricsRow]]) -> None:
        """Calls `Callback.on_period` for all periods, then stops if a callback asked for it.

        Args:
          periods: lanes with their records.

        Raises:
          Stop: as `notify`.
        """
        has_stopped = False
        for lane, record in periods:
            try:
                self.notify('on_period', lane, record)
            except Stop:
                has_stopped = True
        if has_stopped:
            raise Stop


class InitialStates:
    """Says with which states the lanes of a run begin: with fresh states, except in a fork.

    Attributes:
      round: rounds that each lane has completed when it begins.
      facts: entries to add to the run's ``experiment.json``.
    """

    round: int = 0
    facts: Mapping[str, Any] = MappingProxyType({})

    def begin(self, lane: Lane) -> PyTree:
        """Returns the state that a lane of the main stage begins with, after `round` rounds.

        It is called only in a fork. If `round` is 0, the training program makes the state.
        """
        raise NotImplementedError

    def carry(self, pattern: str, seed: int) -> PyTree | None:
        """Returns the carry that a pattern begins with; None for the carry of its ``init``."""
        return None

    def has_links(self, folder: Path, num_rounds: int) -> bool:
        """Returns whether a folder has realised links that need not be drawn again."""
        return False


# Callbacks that ``log`` names.


def check_log(log: Sequence[str]) -> None:
    """Refuses a name in ``log`` that stands for nothing.

    Args:
      log: as in `Experiment`.

    Raises:
      ValueError: naming the refused name and the nearest valid one.
    """
    for name in checks.names('log', log):
        resolver.lookup('log', name, {LINKS: None})


def make_callbacks(log: Sequence[str], folder: Path | None) -> list[Callback]:
    """Makes the callbacks that ``log`` names.

    Args:
      log: as in `Experiment`.
      folder: of the run.

    Raises:
      ValueError: if a factory returns something that is no callback.
    """
    callbacks: list[Callback] = []
    for name in log:
        if name == LINKS:
            continue
        callback = resolver.build_named('log', name, {}, folder)
        if not isinstance(callback, Callback):
            requirement = f'name what returns a Callback ({name})'
            raise errors.invalid('log', requirement, repr(callback))
        callbacks.append(callback)
    return callbacks
