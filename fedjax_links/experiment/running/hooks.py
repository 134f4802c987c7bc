"""What a run calls: those who listen to it, and what its lanes begin with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan.lanes import Lane


class Stop(Exception):  # noqa: N818, it is no error
    """Raised by a callback, it ends a run after its state was saved."""


class Callback:
    """What can listen to a run; each method does nothing unless it is overridden.

    An exception ends the run; what was saved stays, and the run goes on from there when it is
    started again. docs/runs.md shows one of a user's own.
    """

    def on_start(self, experiment: Experiment) -> None:
        """Before anything runs."""

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """Before the lanes of a stage of an algorithm, which simulate ``num_rounds`` in all."""

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        """After every period of every lane; ``record`` has ``round`` and what is logged.

        So too, as round 0, after models are evaluated before the first.
        A lane that was done before an interruption is reported once, with its last round.
        """

    def on_end(self, results: runs.Results) -> None:
        """After everything."""


class Origin:
    """Where the lanes of a run begin; before their first round, unless they are forked.

    Attributes:
      round: rounds behind every lane when it begins.
      facts: what the run's folder says of it.
    """

    round: int = 0
    facts: Mapping[str, Any] = MappingProxyType({})

    def begin(self, lanes: Sequence[Lane], shapes: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Where lanes of the main stage begin.

        Args:
          lanes: that advance together.
          shapes: of their states, by name.

        Returns:
          Rounds behind them, and their states; none of them for no rounds.
        """
        return 0, {}

    def carry(self, pattern: str, seed: int) -> PyTree | None:
        """The carry that a pattern begins with; None for a fresh one."""
        return None

    def tuning_lines(self, lanes: Sequence[Lane]) -> Mapping[str, Sequence[str]]:
        """Lines of metrics that are known of tuning lanes, by name; none if they must run."""
        return {}

    def has_links(self, folder: Path, num_rounds: int) -> bool:
        """Whether a folder has realised links that need not be drawn again."""
        return False
