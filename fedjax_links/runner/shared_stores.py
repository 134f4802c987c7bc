"""Keeps a run of several processes in one folder.

A lane is one simulation (`planning.lanes.Lane`), and a shard is a part of the lanes.

* `SharedFolder`: each process runs a shard, and writes the lanes that it has claimed.
* `ReplicatedStore`: the processes of a mesh run in step (`machines.processes`), and the first one
  leads. The leader's store answers all calls of all processes. So all processes know the same:
  where lanes stand, when to save, that the disk is full. Each process writes and reads its own rows
  of client tables.
"""

import contextlib
import dataclasses
import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.core import errors
from fedjax_links.core.records import Section
from fedjax_links.machines import processes
from fedjax_links.runner import in_memory, stores
from fedjax_links.storage import (
    atomic_files,
    checkpoints,
    file_locks,
    run_access,
    run_files,
)

_POLL_SECONDS = 0.05


class SharedFolder(stores.RunFolder):
    """Keeps the lanes of one process in a folder that several processes share.

    This process holds a lane from `acquire` to `release`. `refresh` reads what other processes have
    saved. `runs.merge` writes ``metrics.jsonl`` when all lanes are done.
    """

    def __init__(
        self,
        folder: Path,
        *,
        division: runs.RunDivision,
        shard: int | None = None,
        **options: Any,
    ) -> None:
        """Opens or creates the folder.

        Args:
          folder: as in `stores.RunFolder`.
          division: which lanes each shard runs.
          shard: index of this process's shard; None for a process that runs no lanes.
          **options: as in `stores.RunFolder`.

        Raises:
          ValueError: as `stores.RunFolder`. Also if the lanes of the folder are divided in another
            way, or if another process runs this shard.
        """
        self._division = division
        self._shard = shard
        # Locks of the lanes that this process has claimed.
        self._claims: dict[str, file_locks.FileLock] = {}
        # Lanes that any process had claimed at the last `refresh`.
        self._claimed_anywhere: set[str] = set()
        self._requested: set[str] = set()
        # The round up to which this process has read the metrics of a lane.
        self._rounds_read: dict[str, int] = {}
        super().__init__(folder, **options)

    def _claim(self, locks: contextlib.ExitStack) -> None:
        """Excludes processes that run all lanes, and a second process of this shard."""
        (self.path / runs.CLAIMS).mkdir(exist_ok=True)
        path = self.path / runs.LOCK
        shared = file_locks.acquire_shared(path)
        if shared is None:
            raise file_locks.in_use_error('workdir', self.path, path)
        locks.enter_context(shared)
        if self._shard is not None:
            shard_lock = runs.shard_lock(self.path, self._shard, self._division.count)
            self._lock = file_locks.acquire_or_refuse('shard', self.path, shard_lock)
            locks.callback(self._lock.release)
        locks.callback(self.release_all)

    @contextlib.contextmanager
    def _division_locked(self) -> Iterator[runs.RunDivision]:
        """Yields the division in the folder, while other processes cannot change it."""
        path = self.path / run_files.OPENING
        lock = file_locks.acquire(path)
        while lock is None:
            time.sleep(_POLL_SECONDS)
            lock = file_locks.acquire(path)
        try:
            yield runs.read_division(self.path) or self._division
        finally:
            lock.release()

    def _open(self, config: Section | None) -> None:
        """Compares the folder with the experiment and writes it, one process after the other."""
        fingerprint = None if self._shard is None else self._fingerprint
        with self._division_locked() as stored:
            if not self._allow_mixed:
                # Machines must agree for all seeds, so 0 stands for any seed here.
                runs.check_kinds([(0, stored.fingerprint), (0, fingerprint)])
            description = self._compare(config)
            division = dataclasses.replace(
                self._division,
                fingerprint=stored.fingerprint or fingerprint,
                requested=stored.requested,
                ended=stored.ended,
            )
            runs.check_division(self.path, division)
            (self.path / runs.CHECKPOINTS).mkdir(exist_ok=True)
            self._describe(description)
            runs.write_division(self.path, division)
        self.refresh()
        if self._shard is None:
            return
        shard_of_lane = self._division.lanes
        lanes = [lane for lane, shard in shard_of_lane.items() if shard == self._shard]
        for lane in lanes:
            # Reading a lane removes a damaged save. The rounds of that save are then not done.
            if self.rounds(lane) and self._claim_lane(lane):
                self.release(lane)
        self._check_lanes()
        self._lock.write_info(rounds=sum(map(self.rounds, lanes)))

    def request_lanes(self, lanes: Sequence[str], ended: bool = False) -> None:
        """Implements `in_memory.InMemoryStore.request_lanes`, in the folder."""
        new = {*self._division.optional}.intersection(lanes) - self._requested
        if not new and not ended:
            return
        self._requested |= new
        with self._division_locked() as stored:
            division = dataclasses.replace(
                stored,
                requested=sorted({*stored.requested, *new}),
                ended=ended or stored.ended,
            )
            runs.write_division(self.path, division)

    def refresh(self) -> None:
        """Reads which lanes others have claimed and saved."""
        claimed_here = {
            lane: self.saves[lane] for lane in self._claims if lane in self.saves
        }
        self._claimed_anywhere = {
            path.stem for path in (self.path / runs.CLAIMS).glob('*.lock')
        }
        self.saves = {**runs.saves(self.path), **claimed_here}

    def acquire(self, lane: str) -> bool:
        """Implements `in_memory.InMemoryStore.acquire`; reads the lane again.

        If no process had claimed the lane at the last `refresh`, the saves found then are used,
        unless files show that newer ones exist. Another process may have advanced the lane since
        then, and ended. If that goes unnoticed, some rounds run again.
        """
        with errors.on_disk(self.path):
            return self._claim_lane(lane) and super().acquire(lane)

    def _claim_lane(self, lane: str) -> bool:
        """Claims a lane and reads it; returns False while another process holds the lane."""
        claim = file_locks.acquire(runs.lane_lock(self.path, lane))
        if claim is None:
            return False
        self._claims[lane] = claim
        run_access.remove_temporaries(self.path, lane)
        files = self.saves.pop(lane, {})
        if not self._is_current(lane, files):
            files = runs.saves(self.path, lane).get(lane, {})
        # Rounds that were not saved run again.
        self._drop_metrics(lane)
        if files:
            self.saves[lane] = files
            self._read_lane(lane)
            # The save may come from another machine, so `acquire` compares machines again.
            self._checked_seeds.clear()
        return True

    def _is_current(self, lane: str, files: Mapping[int, Path]) -> bool:
        """Returns whether ``files`` are still the saves of a lane, as far as is cheap to see."""
        num_rounds = runs.rounds_of_lane(lane, self.facts)
        last = runs.checkpoint_file(self.path, lane, num_rounds)
        if last.exists() and last not in files.values():
            return False
        exist = all(path.exists() for path in files.values())
        return lane not in self._claimed_anywhere and exist

    def release(self, lane: str) -> None:
        """Implements `in_memory.InMemoryStore.release`."""
        if lane in self._claims:
            self._claims.pop(lane).release()
            super().release(lane)

    def release_all(self) -> None:
        """Lets other processes take all lanes."""
        for lane in list(self._claims):
            self.release(lane)

    def holder(self, lane: str) -> str | None:
        """Returns the process that holds a lane; None if no process does."""
        info = file_locks.holder_info(runs.lane_lock(self.path, lane))
        return None if info is None else str(info['holder'])

    def columns(self) -> dict[str, np.ndarray]:
        """Implements `in_memory.InMemoryStore.columns`; reads what other processes have saved."""
        for lane in self._metadata:
            has_more = self.rounds(lane) > self._rounds_read.get(lane, 0)
            if lane not in self._claims and has_more:
                self._read_lane(lane)
        return super().columns()

    def save(
        self, lane: str, state: PyTree, round: int, parts: Sequence[Section] = ()
    ) -> None:
        """Implements `in_memory.InMemoryStore.save`."""
        super().save(lane, state, round, parts)
        self._rounds_read[lane] = round

    def _read_lane(self, lane: str) -> None:
        """Implements `stores.RunFolder._read_lane`."""
        super()._read_lane(lane)
        self._rounds_read[lane] = self.rounds(lane)

    def _drop_metrics(self, lane: str) -> None:
        """Implements `stores.RunFolder._drop_metrics`."""
        super()._drop_metrics(lane)
        self._rounds_read.pop(lane, None)

    def save_failure(self, lane: str, message: str) -> None:
        """Writes a file that says why a lane failed. The next save of the lane removes the file."""
        path = runs.failure_file(self.path, lane)
        with errors.on_disk(path):
            path.parent.mkdir(exist_ok=True)
            atomic_files.write(path, message.encode())

    def _write_new_lines(self) -> None:
        """Writes nothing, as `runs.merge` writes the metrics."""

    def _write_metrics(self, lines: Sequence[str]) -> None:
        """Writes nothing, as `runs.merge` writes the metrics."""


class ReplicatedStore:
    """Answers each call by the leader's store, in all processes of a mesh.

    Attributes:
      leader_store: the store in the leader; None in other processes.
      facts: of the experiment.
    """

    # `__getattr__` must find this attribute before the leader has made its store.
    leader_store: Any = None

    def __init__(
        self,
        make: Callable[[], in_memory.InMemoryStore],
        described: Mapping[str, Section | None],
        folder: Path | None,
        local_rows: Callable[[int], tuple[int, int]],
    ) -> None:
        """Makes the leader's store.

        Args:
          make: makes the store in the leader.
          described: config, facts and identity of the run, by the name that errors show. They must
            be the same in all processes.
          folder: of the run; None in memory. If processes divide tables, they must share its disk.
          local_rows: returns the rows of a table that this process holds
            (`devices.DeviceSlot.local_rows`).

        Raises:
          ValueError: in each process, if the leader cannot make the store, or if a process has
            another experiment.
        """
        self._folder = folder and folder.absolute()
        self._local_rows = local_rows
        here = json.loads(json.dumps(described))
        leader_values = processes.broadcast_from_leader(lambda: here)

        def check_same() -> None:
            for name, values in here.items():
                difference = runs.first_difference(
                    leader_values[name] or {}, values or {}, name, runs.MAY_DIFFER
                )
                if difference is not None:
                    value = f'{difference.there!r} and {difference.here!r}'
                    requirement = 'be the same in all processes'
                    raise errors.invalid(difference.field, requirement, value)

        processes.run_in_all(check_same)
        self.leader_store = processes.run_in_all(
            lambda: make() if processes.is_leader() else None
        )
        self.facts: Mapping[str, Any] = processes.broadcast_from_leader(
            lambda: self.leader_store.facts
        )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Returns a method of `in_memory.InMemoryStore` that the leader calls for all."""

        def call(*arguments: Any, **options: Any) -> Any:
            return processes.broadcast_from_leader(
                lambda: getattr(self.leader_store, name)(*arguments, **options)
            )

        return call

    def columns(self) -> dict[str, np.ndarray]:
        """Implements `in_memory.InMemoryStore.columns`."""

        def plain_columns() -> dict[str, list[Any]]:
            columns = self.leader_store.columns()
            return {name: values.tolist() for name, values in columns.items()}

        plain = processes.broadcast_from_leader(plain_columns)
        return {name: runs.as_column(values) for name, values in plain.items()}

    def restore(self, lane: str, like: PyTree) -> PyTree:
        """Implements `in_memory.InMemoryStore.restore`.

        Each process reads its own rows of divided tables.
        """
        path = self._file(lane, self.rounds(lane))
        content = processes.broadcast_bytes(lambda: checkpoints.read_verified(path))
        return processes.run_in_all(
            lambda: checkpoints.load(
                path, like, content=content, local_rows=self._local_rows
            )
        )

    def save(self, lane: str, state: PyTree, round: int) -> None:
        """Implements `in_memory.InMemoryStore.save`.

        First each process writes its rows of divided tables.
        """
        path = self._file(lane, round)
        parts: list[Any] = []
        if self._folder:
            answers = processes.all_gather(functools.partial(_write_part, path, state))
            parts = [json.loads(answer) for answer in answers]
            parts = [part for part in parts if part]

        def save_here() -> None:
            for index in range(len(parts)):
                _check_exists(checkpoints.part_file(path, index))
            self.leader_store.save(lane, state, round, parts)

        processes.broadcast_from_leader(save_here)

    def close(self) -> None:
        """Implements `in_memory.InMemoryStore.close`, without the other processes.

        The other processes may have ended.
        """
        if self.leader_store is not None:
            self.leader_store.close()

    def _file(self, lane: str, round: int) -> Path:
        """Returns the path of a lane's save; for a run in memory, a path that is not used."""
        return runs.checkpoint_file(self._folder or Path(), lane, round)


Store: TypeAlias = in_memory.InMemoryStore | ReplicatedStore
"""Where a run is kept: in memory, in a folder, or by the leader of several processes."""


def _write_part(path: Path, state: PyTree) -> bytes:
    """Writes this process's part of a save, and returns its entry in the save."""
    _check_exists(path.parent)
    with errors.on_disk(path):
        part = checkpoints.write_part(path, jax.process_index(), state)
        return json.dumps(part).encode()


def _check_exists(path: Path) -> None:
    """Refuses a path that another process wrote but this process does not see."""
    if not path.exists():
        requirement = (
            'be on a disk that all processes share, as they divide what clients keep'
        )
        raise errors.invalid('workdir', requirement, f'one without {path}')
