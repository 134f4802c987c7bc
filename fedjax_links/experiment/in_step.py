"""A run of several processes: one keeps the folder and is heard, and all do the same.

What the other processes must know to do the same (where lanes stand, and whether to stop) is told
by the leader whenever it is asked.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import checkpoints, processes, runs, stores
from fedjax_links.base import PyTree
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.hooks import Callback, Stop
from fedjax_links.experiment.lanes import Lane


class Store(stores.Memory):
    """The leader's store, as every process sees it."""

    def __init__(self, open_own: Callable[[], stores.Memory]) -> None:
        """Opens it.

        Args:
          open_own: makes the store in the leader.

        Raises:
          ValueError: in every process, if the leader cannot.
        """
        super().__init__()
        self._own: stores.Memory | None = None

        def lines() -> Any:
            self._own = open_own()
            return self._own.lines

        self.lines = list(_told(lines))

    def rounds(self, lane: str) -> int:
        """As `stores.Memory.rounds`."""
        return int(_told(lambda: self._leader.rounds(lane)))

    def restore(self, lanes: Mapping[str, PyTree]) -> tuple[int, dict[str, PyTree]]:
        """As `stores.Memory.restore`."""
        found: dict[str, PyTree] = {}

        def where() -> Any:
            nonlocal found
            round, found = self._leader.restore(lanes)
            return round, self._leader.lines

        round, lines = _told(where)
        self.lines = list(lines)
        if not round:
            return 0, {}
        content = processes.told(lambda: checkpoints.packed(found))
        leaves = checkpoints.unpacked(content).values()
        like = {name: lanes[name] for name in lanes}
        return int(round), jax.tree.unflatten(jax.tree.structure(like), list(leaves))

    def held(self, lane: str) -> list[str]:
        """As `stores.Memory.held`."""
        return list(_told(lambda: self._leader.held(lane)))

    def append(self, lines: Sequence[str]) -> None:
        """As `stores.Memory.append`."""
        super().append(lines)
        if self._own is not None:
            self._own.append(lines)

    def save(self, states: Mapping[str, PyTree], round: int, held: Sequence[str] = ()) -> None:
        """As `stores.Memory.save`."""
        if self._own is not None:
            self._own.save(states, round, held)

    def settle(self, lanes: Sequence[str]) -> None:
        """As `stores.Memory.settle`."""
        if self._own is not None:
            self._own.settle(lanes)

    def keep_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `stores.Memory.keep_links`."""
        if self._own is not None:
            self._own.keep_links(arrays)

    def close(self) -> None:
        """As `stores.Memory.close`."""
        if self._own is not None:
            self._own.close()

    @property
    def _leader(self) -> stores.Memory:
        assert self._own is not None
        return self._own


class Listeners(Callback):
    """The callbacks of this process; where one of any process stops the run, all stop."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        """Listens for them."""
        self._callbacks = callbacks

    def on_start(self, experiment: Experiment) -> None:
        """As `Callback.on_start`."""
        for callback in self._callbacks:
            callback.on_start(experiment)

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """As `Callback.on_stage`."""
        for callback in self._callbacks:
            callback.on_stage(algorithm, stage, num_rounds)

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        """As `Callback.on_period`."""
        stop = False
        try:
            for callback in self._callbacks:
                callback.on_period(lane, record)
        except Stop:
            stop = True
        if processes.any_of(stop):
            raise Stop

    def on_end(self, results: runs.Results) -> None:
        """As `Callback.on_end`."""
        for callback in self._callbacks:
            callback.on_end(results)


def _told(answer: Callable[[], Any]) -> Any:
    """What the leader answers, as JSON holds it."""
    return json.loads(processes.told(lambda: json.dumps(answer()).encode()))
