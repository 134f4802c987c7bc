"""What a run calls: those who listen to it, some of them by name, and what its lanes begin with.

An experiment's ``log`` names callbacks of the user's own as ``module:factory``, functions of the
run's folder, which exists once the run has started and is None for results in memory.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.config import resolver
from fedjax_links.core import checks, errors, paths
from fedjax_links.core.records import MetricsRow
from fedjax_links.machines import processes
from fedjax_links.planning.lanes import Lane

LINKS = 'links'
"""What ``log`` calls the realised links of every seed."""


class Stop(Exception):  # noqa: N818, it is no error
    """Raised by a callback, it ends a run once what was started is done, told, and saved."""


class Callback:
    """What can listen to a run; each method does nothing unless it is overridden.

    An exception ends the run; what was saved stays, and the run goes on from there when it is
    started again. docs/runs.md shows one of a user's own.
    """

    def on_start(self, experiment: Any) -> None:
        """Before anything runs.

        Args:
          experiment: the `Experiment` that runs.
        """

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """Before the lanes of a stage of an algorithm, which simulate ``num_rounds`` in all."""

    def on_period(self, lane: Lane, record: MetricsRow) -> None:
        """After every period of every lane; ``record`` has ``round`` and what is logged.

        So too, as round 0, after models are evaluated before the first.
        A lane that was done before an interruption is reported once, with its last round.
        """

    def on_wait(self, text: str) -> None:
        """About once a second while lanes that are needed are other processes' to run.

        Args:
          text: what is waited for, in a line; empty where that was said before.
        """

    def on_end(self, results: runs.Results) -> None:
        """After everything."""


@dataclasses.dataclass(eq=False)
class Listeners:
    """The callbacks of a run, in this process.

    Attributes:
      callbacks: themselves.
      experiment: what `Callback.on_start` receives.
      error: what one of them raised, which is no fault of a lane.
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

    def notify(self, event: str, *what: object) -> None:
        """Calls a method of all callbacks; where one of any process stops the run, all stop.

        Args:
          event: name of the method.
          *what: its arguments.

        Raises:
          Stop: if one did.
        """

        def answer() -> bytes:
            try:
                for callback in self.callbacks:
                    getattr(callback, event)(*what)
            except Stop:
                return b'stop'
            except Exception as error:
                self.error = error
                raise
            return b''

        if any(processes.ask_all(answer)):
            raise Stop


class InitialStates:
    """Where the lanes of a run begin; before their first round, unless they are forked.

    Attributes:
      round: rounds behind every lane when it begins.
      facts: what the run's folder says of it.
    """

    round: int = 0
    facts: Mapping[str, Any] = MappingProxyType({})

    def begin(self, lane: Lane) -> PyTree:
        """The state that a lane of the main stage begins with, after `round` rounds."""

    def carry(self, pattern: str, seed: int) -> PyTree | None:
        """The carry that a pattern begins with; None for a fresh one."""
        return None

    def has_links(self, folder: Path, num_rounds: int) -> bool:
        """Whether a folder has realised links that need not be drawn again."""
        return False


# By name.


def check_log(log: Sequence[str]) -> None:
    """Raises for a name that stands for nothing.

    Args:
      log: as in `Experiment`.

    Raises:
      ValueError: naming it and the nearest valid name.
    """
    for name in checks.names('log', log):
        resolver.lookup('log', name, {LINKS: None})


def callbacks(log: Sequence[str], folder: str | Path | None) -> list[Callback]:
    """What the names stand for.

    Args:
      log: as in `Experiment`.
      folder: of the run.

    Raises:
      ValueError: for what is no callback.
    """
    path, found = None if folder is None else paths.as_path(folder), []
    for name in (name for name in log if name != LINKS):
        made = resolver.build_named('log', name, {}, path)
        if not isinstance(made, Callback):
            raise errors.invalid(
                'log', f'name what returns a Callback ({name})', repr(made)
            )
        found.append(made)
    return found
