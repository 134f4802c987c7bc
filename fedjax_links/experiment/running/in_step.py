"""A run of several processes: one keeps the folder and is heard, and all do the same.

What the other processes must know to do the same (where lanes stand, when to save, whether to stop,
and that the disk is full) is told by the leader whenever it is asked.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.core import errors
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running import stores
from fedjax_links.experiment.running.hooks import Callback, Stop
from fedjax_links.machines import processes
from fedjax_links.storage import checkpoints


class Store(stores.Memory):
    """The leader's store, as every process sees it."""

    def __init__(self, open_own: Callable[[], stores.Memory], described: Sequence[Any]) -> None:
        """Opens it.

        Args:
          open_own: makes the store in the leader.
          described: the experiment, which all processes share: config and facts.

        Raises:
          ValueError: in every process, if the leader cannot, or one has another experiment.
        """
        self._own: stores.Memory | None = None
        own = [
            {k: v for k, v in (values or {}).items() if k not in runs.MAY_DIFFER}
            for values in described
        ]
        leaders = _told(lambda: own)
        processes.agreed(lambda: _check_same(leaders, json.loads(json.dumps(own))))

        def begin() -> None:
            self._own = open_own()

        _told(begin)

    @property
    def lines(self) -> list[str]:
        """As `stores.Memory.lines`."""
        return list(_told(lambda: self._leader.lines))

    def expect(self, lanes: Mapping[str, Mapping[str, Any]]) -> None:
        """As `stores.Memory.expect`."""
        _told(lambda: self._leader.expect(lanes))

    def rounds(self, lane: str) -> int:
        """As `stores.Memory.rounds`."""
        return int(_told(lambda: self._leader.rounds(lane)))

    def restore(self, lanes: Mapping[str, PyTree]) -> dict[str, PyTree]:
        """As `stores.Memory.restore`."""
        content = processes.told(lambda: checkpoints.packed(self._leader.restore(lanes)))
        structure = jax.tree.structure(dict(lanes))
        states: dict[str, PyTree] = jax.tree.unflatten(structure, checkpoints.unpacked(content))
        return states

    def append(self, lane: str, lines: Sequence[str]) -> None:
        """As `stores.Memory.append`."""
        _told(lambda: self._leader.append(lane, lines))

    def is_due(self, clock: stores.SaveClock) -> bool:
        """As `stores.Memory.is_due`."""
        return bool(_told(lambda: self._leader.is_due(clock)))

    def save(self, states: Mapping[str, PyTree], round: int) -> None:
        """As `stores.Memory.save`."""
        _told(lambda: self._leader.save(states, round))

    def keep_links(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `stores.Memory.keep_links`."""
        _told(lambda: self._leader.keep_links(arrays))

    def close(self) -> None:
        """As `stores.Memory.close`; it is told to nobody, as all may have ended."""
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
        self._tell(lambda callback: callback.on_start(experiment))

    def on_stage(self, algorithm: str, stage: str, num_rounds: int) -> None:
        """As `Callback.on_stage`."""
        self._tell(lambda callback: callback.on_stage(algorithm, stage, num_rounds))

    def on_period(self, lane: Lane, record: Mapping[str, Any]) -> None:
        """As `Callback.on_period`."""
        self._tell(lambda callback: callback.on_period(lane, record))

    def on_end(self, results: runs.Results) -> None:
        """As `Callback.on_end`."""
        self._tell(lambda callback: callback.on_end(results))

    def _tell(self, event: Callable[[Callback], None]) -> None:
        def stop() -> bytes:
            try:
                for callback in self._callbacks:
                    event(callback)
            except Stop:
                return b'stop'
            return b''

        if any(processes.answers(stop)):
            raise Stop


def _check_same(leaders: Sequence[Any], own: Sequence[Any]) -> None:
    for theirs, ours in zip(leaders, own, strict=True):
        field, there, here = runs.first_difference(theirs, ours)
        if there != here:
            raise errors.invalid(field, 'be the same in all processes', f'{there!r} and {here!r}')


def _told(answer: Callable[[], Any]) -> Any:
    """What the leader answers, as JSON holds it."""
    return json.loads(processes.told(lambda: json.dumps(answer()).encode()))
