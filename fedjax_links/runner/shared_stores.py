"""Where a run of several processes is kept: in shards, or in step.

In shards each process writes to one folder the lanes that it holds. In step the leader keeps the
run, but for what they divide: each process writes and reads its own rows of client tables. What the
others must know to do the same as the leader (where lanes stand, when to save, and that the disk is
full) is told by it whenever it is asked.
"""

import contextlib
import dataclasses
import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_links import runs
from fedjax_links.base import PyTree
from fedjax_links.core import errors
from fedjax_links.machines import processes
from fedjax_links.runner import stores
from fedjax_links.storage import checkpoints, file_locks, run_access, run_files

_POLL_SECONDS = 0.05


class SharedFolder(stores.RunFolder):
    """A run's folder for a process that runs some of its lanes.

    A lane is this process's from `take` to `release`; what others have done is seen by `refresh`.
    There are no ``metrics.jsonl`` until all are done and merged (`runs.merge`).
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
          division: how the lanes are divided.
          shard: whose process this is; None for one that runs no lanes.
          **options: as in `stores.RunFolder`.

        Raises:
          ValueError: as `stores.RunFolder`; if the run is divided otherwise, or if another process
            runs this shard.
        """
        self._division, self._shard = division, shard
        self._claims: dict[str, file_locks.FileLock] = {}
        self._asked: set[str] = set()
        self._read: dict[str, int] = {}  # rounds that the metrics of a lane reach here
        super().__init__(folder, **options)

    def _claim(self, held: contextlib.ExitStack) -> None:
        """Keeps out who would run all lanes, and a second process of this shard."""
        (self.path / runs.CLAIMS).mkdir(exist_ok=True)
        lock = self.path / runs.LOCK
        if (whole := file_locks.acquire_shared(lock)) is None:
            raise file_locks.in_use_error('workdir', self.path, lock)
        held.enter_context(whole)
        if self._shard is not None:
            own = runs.shard_file(self.path, self._shard, self._division.count)
            self._lock = file_locks.acquire_or_refuse('shard', self.path, own)
            held.callback(self._lock.release)
        held.callback(self.release_all)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[runs.RunDivision]:
        """Keeps other processes out meanwhile; how the lanes are divided, as is known so far."""
        while (opening := file_locks.acquire(self.path / run_files.OPENING)) is None:
            time.sleep(_POLL_SECONDS)
        try:
            yield runs.read_division(self.path) or self._division
        finally:
            opening.release()

    def _open(self, config: Mapping[str, Any] | None) -> None:
        """Compares and writes what is run, one process after the other."""
        with self._alone() as known:
            own = None if self._shard is None else self._fingerprint
            if not self._allow_mixed:
                runs.check_kinds([(0, known.fingerprint), (0, own)])
            here = self._compare(config)
            division = dataclasses.replace(
                self._division,
                fingerprint=known.fingerprint or own,
                asked=known.asked,
                ended=known.ended,
            )
            runs.check_division(self.path, division)
            (self.path / runs.CHECKPOINTS).mkdir(exist_ok=True)
            self._describe(here)
            runs.write_division(self.path, division)
        self.refresh()
        if self._shard is None:
            return
        shard_of = self._division.lanes
        mine = [lane for lane, shard in shard_of.items() if shard == self._shard]
        for lane in mine:
            if self.rounds(lane) and self._seize(
                lane
            ):  # so that what is damaged is not done
                self.release(lane)
        self._check_lanes()
        self._lock.write_info(rounds=sum(map(self.rounds, mine)))

    def request_lanes(self, lanes: Sequence[str], ended: bool = False) -> None:
        """As `InMemoryStore.request_lanes`, in the folder."""
        new = {*self._division.optional}.intersection(lanes) - self._asked
        if not new and not ended:
            return
        self._asked |= new
        with self._alone() as known:
            asked = sorted({*known.asked, *new})
            found = dataclasses.replace(known, asked=asked, ended=ended or known.ended)
            runs.write_division(self.path, found)

    def refresh(self) -> None:
        """Looks at what others have done meanwhile."""
        own = {lane: self.saves[lane] for lane in self._claims if lane in self.saves}
        self._elsewhere = {
            path.stem for path in (self.path / runs.CLAIMS).glob('*.lock')
        }
        self.saves = {**runs.saves(self.path), **own}

    def acquire(self, lane: str) -> bool:
        """As `InMemoryStore.acquire`; where the lane stands is read anew.

        A lane that nobody held when all were looked at last stands where it stood then, or was
        moved on since by a process that is gone: then some of its rounds run again.
        """
        with errors.on_disk(self.path):
            return self._seize(lane) and super().acquire(lane)

    def _seize(self, lane: str) -> bool:
        """Claims a lane, and reads it."""
        claim = file_locks.acquire(runs.lane_file(self.path, lane))
        if claim is None:
            return False
        self._claims[lane] = claim
        run_access.sweep(self.path, lane)
        files = self.saves.pop(lane, {})
        end = runs.checkpoint_file(
            self.path, lane, runs.rounds_of_lane(lane, self.facts)
        )
        is_as_seen = lane not in self._elsewhere and all(
            path.exists() for path in files.values()
        )
        if not is_as_seen or (
            end.exists() and end not in files.values()
        ):  # done meanwhile
            files = runs.saves(self.path, lane).get(lane, {})
        self._forget(lane)  # what was not saved runs again
        if files:
            self.saves[lane] = files
            self._remember(lane)
            self._checked.clear()
        return True

    def release(self, lane: str) -> None:
        """As `InMemoryStore.release`."""
        if lane in self._claims:
            self._claims.pop(lane).release()

    def release_all(self) -> None:
        """Lets other processes take all lanes."""
        for lane in list(self._claims):
            self.release(lane)

    def holder(self, lane: str) -> str | None:
        """The process that has a lane; None if none has."""
        found = file_locks.holder_info(runs.lane_file(self.path, lane))
        return None if found is None else str(found['holder'])

    def columns(self) -> dict[str, np.ndarray]:
        """As `InMemoryStore.columns`; those of lanes that others have run are read."""
        for lane in self._lanes:
            if lane not in self._claims and self.rounds(lane) > self._read.get(lane, 0):
                self._remember(lane)
        return super().columns()

    def save(
        self, lane: str, state: PyTree, round: int, parts: Sequence[Any] = ()
    ) -> None:
        """As `InMemoryStore.save`."""
        super().save(lane, state, round, parts)
        self._read[lane] = round

    def _remember(self, lane: str) -> None:
        """As `RunFolder._remember`."""
        super()._remember(lane)
        self._read[lane] = self.rounds(lane)

    def _forget(self, lane: str) -> None:
        """As `RunFolder._forget`."""
        super()._forget(lane)
        self._read.pop(lane, None)

    def keep_failure(self, lane: str, said: str) -> None:
        """Keeps why a lane failed, until it is saved."""
        path = runs.failure_file(self.path, lane)
        with errors.on_disk(path):
            path.parent.mkdir(exist_ok=True)
            checkpoints.write_atomically(path, said.encode())

    def _show(self) -> None:
        """Metrics are written when all is merged."""

    def _write_metrics(self, lines: Sequence[str]) -> None:
        """Likewise."""


class ReplicatedStore:
    """The leader's store, as every process sees it: a call is answered by the leader's own.

    Attributes:
      own: the store, in the leader.
      facts: of the experiment.
    """

    own: Any = None

    def __init__(
        self,
        make: Callable[[], stores.InMemoryStore],
        described: Sequence[Any],
        folder: Path | None,
        local_rows: Callable[[int], tuple[int, int]],
    ) -> None:
        """Opens it.

        Args:
          make: makes the store in the leader.
          described: the experiment, which all processes share: config and facts.
          folder: of the run, on a disk that they share where they divide tables; None in memory.
          local_rows: which rows of a table are this process's (`devices.Place.local_rows`).

        Raises:
          ValueError: in every process, if the leader cannot, or one has another experiment.
        """
        self._folder, self._local_rows = folder and folder.absolute(), local_rows
        own = json.loads(json.dumps([values or {} for values in described]))
        leaders = _of_leader(lambda: own)

        def check() -> None:
            for pair in zip(leaders, own, strict=True):
                if found := runs.first_difference(*pair, but=runs.MAY_DIFFER):
                    field, *sides = found
                    said = ' and '.join(map(repr, sides))
                    raise errors.invalid(field, 'be the same in all processes', said)

        processes.do_in_all(check)
        self.own = processes.do_in_all(
            lambda: make() if processes.is_leader() else None
        )
        self.facts: Mapping[str, Any] = _of_leader(lambda: self.own.facts)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A method of `InMemoryStore`."""
        return lambda *given: _of_leader(lambda: getattr(self.own, name)(*given))

    def columns(self) -> dict[str, np.ndarray]:
        """As `InMemoryStore.columns`."""
        found = _of_leader(
            lambda: {k: v.tolist() for k, v in self.own.columns().items()}
        )
        return {name: runs.as_column(values) for name, values in found.items()}

    def restore(self, lane: str, like: PyTree) -> PyTree:
        """As `InMemoryStore.restore`; of what was divided every process reads its own rows."""
        path = self._file(lane, self.rounds(lane))
        content = processes.ask_leader(lambda: checkpoints.read_verified(path))
        load = functools.partial(
            checkpoints.load, content=content, local_rows=self._local_rows
        )
        return processes.do_in_all(lambda: load(path, like))

    def save(self, lane: str, state: PyTree, round: int) -> None:
        """As `InMemoryStore.save`; every process writes its rows of what is divided before."""
        path, parts = self._file(lane, round), list[Any]()
        if self._folder:
            said = processes.ask_all(functools.partial(_write_part, path, state))
            parts = [part for text in said if (part := json.loads(text))]

        def keep() -> None:
            for place in range(len(parts)):
                _check_there(checkpoints.part_file(path, place))
            self.own.save(lane, state, round, parts)

        _of_leader(keep)

    def close(self) -> None:
        """As `InMemoryStore.close`; it is told to nobody, as all may have ended."""
        if self.own is not None:
            self.own.close()

    def _file(self, lane: str, round: int) -> Path:
        return runs.checkpoint_file(self._folder or Path(), lane, round)


def _write_part(path: Path, state: PyTree) -> bytes:
    """What a save says of this process's part, which is on the disk then."""
    _check_there(path.parent)
    with errors.on_disk(path):
        return json.dumps(
            checkpoints.write_part(path, jax.process_index(), state)
        ).encode()


def _check_there(path: Path) -> None:
    if not path.exists():
        requirement = (
            'be on a disk that all processes share, as they divide what clients keep'
        )
        raise errors.invalid('workdir', requirement, f'one without {path}')


def _of_leader(answer: Callable[[], Any]) -> Any:
    """What the leader answers, as JSON holds it."""
    return json.loads(processes.ask_leader(lambda: json.dumps(answer()).encode()))
