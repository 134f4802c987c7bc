"""Where a run is kept that keeps nothing on disk, and when one that does is saved."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.runner import tables


class SaveClock:
    """Says when to save: every few seconds, and for at most a tenth of the time."""

    def __init__(self, seconds: float, sharers: int = 1) -> None:
        """Starts the clock.

        Args:
          seconds: least time between the starts of two saves.
          sharers: clocks that share the tenth.
        """
        self._seconds, self._rest = seconds, 10 * sharers
        self._due = time.monotonic() + seconds

    def is_due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() >= self._due

    def postpone(self, began: float) -> None:
        """Puts the next save off by what the one took that began then, and ends now."""
        self._due = began + max(self._seconds, self._rest * (time.monotonic() - began))


class InMemoryStore:
    """What a folder does, for experiments that keep nothing on disk.

    Attributes:
      facts: of the experiment.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        """Nothing has run yet."""
        self.facts = facts
        self._lanes: dict[str, Mapping[str, Any]] = {}
        self._table = tables.MetricsTable()

    def columns(self) -> dict[str, np.ndarray]:
        """The metrics so far, lane by lane, in the order of lanes."""
        return self._table.columns(
            {lane: self._lanes[lane]['labels'] for lane in self._in_order()}
        )

    def _in_order(self) -> list[str]:
        """The lanes that are known, as one process runs them one by one."""

        def key(lane: str) -> Any:
            return runs.order(
                self._lanes[lane]['labels'], self._lanes[lane]['place'], self.facts
            )

        return sorted(self._lanes, key=key)

    def register_lanes(self, lanes: Mapping[str, Mapping[str, Any]]) -> None:
        """Makes lanes known before they run, in their order.

        Args:
          lanes: by name, ``labels``, ``place`` and ``num_rounds``.
        """
        for lane, about in lanes.items():
            labels = json.loads(json.dumps(about['labels']))
            self._lanes[lane] = {**about, 'labels': labels}

    def request_lanes(self, lanes: Sequence[str], ended: bool = False) -> None:
        """Keeps that lanes are asked for of which nobody could know, so that none is missed.

        Args:
          lanes: by name.
          ended: whether there will be no more.
        """

    def set_progress_total(self, lanes: Mapping[str, int]) -> None:
        """Tells those who look on what is ahead.

        Args:
          lanes: by name, all rounds of each.
        """

    def rounds(self, lane: str) -> int:
        """Rounds that a lane has behind it."""
        return 0

    def restore(self, lane: str, like: PyTree) -> PyTree:
        """The state of a lane after the rounds that it has behind it, of the shapes of another."""

    def append(self, lane: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds metrics of a lane.

        Args:
          lane: its name.
          rows: one for each evaluation, see `runs.row_of`.
        """
        self._table.append(lane, rows)

    def save(
        self, lane: str, state: PyTree, round: int, parts: Sequence[Any] = ()
    ) -> None:
        """Keeps the state of a lane after a round, with its lines so far.

        Args:
          lane: its name.
          state: None for a lane that no one goes on from.
          round: rounds behind it.
          parts: what the parts of its save say that several processes have written before
            (`checkpoints.write_part`).
        """

    def is_due(self, clock: SaveClock) -> bool:
        """Whether it is time to save."""
        return False

    def acquire(self, lane: str) -> bool:
        """Makes a lane this process's to run; False while another process has it."""
        return True

    def release(self, lane: str) -> None:
        """Lets other processes take a lane."""

    def keep_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps realised links."""

    def close(self) -> None:
        """Lets others work here."""
