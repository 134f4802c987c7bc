"""Keeps the metrics of a run in memory.

A store holds the lanes of a run. A lane is one simulation (`planning.lanes.Lane`).
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.core.records import LaneMetadata, MetricsRow, RunFacts, Section
from fedjax_links.runner.save_clock import SaveClock


class InMemoryStore:
    """Collects the metrics of a run, and saves nothing.

    `stores.RunFolder` overrides the methods that have no effect here.

    Attributes:
      facts: of the experiment.
    """

    def __init__(self, facts: RunFacts) -> None:
        """Starts empty."""
        self.facts = facts
        self._metadata: dict[str, Mapping[str, Any]] = {}
        # By lane and name of a metric, a value for each row; None where a row lacks the metric.
        self._measured: dict[str, dict[str, list[Any]]] = {}

    def columns(self) -> dict[str, np.ndarray]:
        """Returns the metrics so far, lane by lane, in the order of lanes."""
        by_lane: list[dict[str, list[Any]]] = []
        for lane in self._in_order():
            measured = self._measured.get(lane)
            if measured:
                labels = self._metadata[lane]['labels']
                num_rows = len(measured['round'])
                repeated = {name: [label] * num_rows for name, label in labels.items()}
                by_lane.append({**repeated, **measured})
        columns: dict[str, np.ndarray] = {}
        for name in dict.fromkeys(itertools.chain(*by_lane)):
            values: list[Any] = []
            for of_lane in by_lane:
                values += of_lane.get(name) or [None] * len(of_lane['round'])
            columns[name] = runs.as_column(values)
        return columns

    def _in_order(self) -> list[str]:
        """Sorts the registered lanes in the order in which a single process would run them."""

        def sort_key(lane: str) -> tuple[int, int, tuple[int, ...]]:
            metadata = self._metadata[lane]
            return runs.order(metadata['labels'], metadata['position'], self.facts)

        return sorted(self._metadata, key=sort_key)

    def register_lanes(self, lanes: Mapping[str, LaneMetadata]) -> None:
        """Registers lanes before they run.

        Args:
          lanes: metadata of each lane (`Lane.metadata`), by name.
        """
        for lane, metadata in lanes.items():
            # Labels as a folder holds them: with lists in place of tuples.
            labels = json.loads(json.dumps(metadata['labels']))
            self._metadata[lane] = {**metadata, 'labels': labels}

    def request_lanes(self, lanes: Sequence[str], ended: bool = False) -> None:
        """Records for other processes that optional lanes are to run.

        Args:
          lanes: names of the lanes.
          ended: whether no more lanes will be requested.
        """

    def set_progress_total(self, lanes: Mapping[str, int]) -> None:
        """Sets the total that ``status`` shows.

        Args:
          lanes: number of rounds of each lane, by name.
        """

    def rounds(self, lane: str) -> int:
        """Returns how many rounds of a lane are saved."""
        return 0

    def restore(self, lane: str, like: PyTree) -> PyTree:
        """Reads the last saved state of a lane.

        Args:
          lane: its name.
          like: a state of the same shapes.
        """
        # Never called, as `rounds` returns 0 for each lane.
        raise NotImplementedError

    def append(self, lane: str, rows: Sequence[MetricsRow]) -> None:
        """Adds metrics of a lane.

        Args:
          lane: its name.
          rows: a row for each evaluation, see `runs.row_of`.
        """
        measured = self._measured.setdefault(lane, {})
        for row in rows:
            num_before = len(measured['round']) if measured else 0
            for name in row:
                measured.setdefault(name, [None] * num_before)
            for name, values in measured.items():
                values.append(row.get(name))

    def save(
        self, lane: str, state: PyTree, round: int, parts: Sequence[Section] = ()
    ) -> None:
        """Saves the state of a lane after a round, with its metrics so far.

        Args:
          lane: its name.
          state: None if no run will resume from it.
          round: rounds completed.
          parts: if several processes divide the state, the entry of each part that was written
            (`checkpoints.write_part`).
        """

    def is_due(self, clock: SaveClock) -> bool:
        """Returns whether it is time to save."""
        return False

    def acquire(self, lane: str) -> bool:
        """Claims a lane for this process; returns False while another process runs it."""
        return True

    def release(self, lane: str) -> None:
        """Lets other processes take a lane."""

    def save_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes realised links."""

    def close(self) -> None:
        """Lets other processes use the folder."""
