"""Reports the progress of a run and of its shards from the names of files.

A lane is one algorithm, pattern, grid point and seed. A shard is the part of a run's lanes that one
process runs.
"""

import contextlib
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fedjax_links.core import errors, paths
from fedjax_links.core.records import RunFacts
from fedjax_links.runs.divisions import (
    RunDivision,
    read_division,
    rounds_of_lane,
    shard_lock,
)
from fedjax_links.runs.folder import LOCK, read_description, saves
from fedjax_links.storage import file_locks
from fedjax_links.storage.run_files import CLAIMS, FAILURES

_SECONDS_PER_HOUR = 3600


class ShardStatus(NamedTuple):
    """Holds the progress of a shard.

    Attributes:
      shard: the shard's number.
      holder: the process that runs the shard; None if none does.
      lanes: number of lanes of the shard.
      done: number of its lanes that are done.
      hours_left: until all its lanes are done; None if unknown.
    """

    shard: int
    holder: str | None
    lanes: int
    done: int
    hours_left: float | None


class Status(NamedTuple):
    """Holds the progress of a run.

    Attributes:
      lanes: number of lanes, tuning included, as far as the run's process knew at the start.
      done: number of lanes that are done.
      running: number of lanes that some process runs.
      lost: number of lanes that were started, are not done, and that no process runs.
      failed: names of lanes whose traceback is kept.
      shards: the progress of each shard.
      holders: the processes that run lanes.
      hours_left: until all lanes are done, if the lost lanes were resumed now; None if unknown.
    """

    lanes: int
    done: int
    running: int
    lost: int
    failed: Sequence[str]
    shards: Sequence[ShardStatus]
    holders: Sequence[str]
    hours_left: float | None


def status(folder: str | Path) -> Status:
    """Reports the progress of a run from the names of its files.

    Args:
      folder: of a run, in shards or in one piece.

    Raises:
      ValueError: if the folder holds no run.
    """
    with errors.on_disk(folder):
        facts, _ = read_description(folder)
        return _status(paths.as_path(folder), facts)


class _Lanes(NamedTuple):
    """Holds the progress of the lanes of a run, by name.

    Attributes:
      files: the saves of each lane that was started, by rounds.
      rounds: the rounds that each started lane has completed.
      lengths: for every lane of the run, its rounds when it is done.
    """

    files: Mapping[str, Mapping[int, Path]]
    rounds: Mapping[str, int]
    lengths: Mapping[str, int]

    def is_done(self, name: str) -> bool:
        return self.rounds.get(name, 0) >= self.lengths[name]

    def rounds_done(self, names: Iterable[str]) -> int:
        return sum(min(self.rounds.get(name, 0), self.lengths[name]) for name in names)


class _ShardProgress(NamedTuple):
    """Holds the progress of a shard, and its speed.

    Attributes:
      status: for the user.
      known_lanes: how many lanes of the run the shard's process knows.
      rounds_left: over all lanes of the shard.
      rounds_per_second: None if unknown.
    """

    status: ShardStatus
    known_lanes: int
    rounds_left: int
    rounds_per_second: float | None


def _status(folder: Path, facts: RunFacts) -> Status:
    """Reads the progress of a run with these facts."""
    files = saves(folder)
    rounds = {name: max(saved) for name, saved in files.items()}
    division = read_division(folder)
    lanes_of_lock = _lanes_of_lock(folder, division, rounds)
    all_names = itertools.chain.from_iterable(lanes_of_lock.values())
    lengths = {name: rounds_of_lane(name, facts) for name in all_names}
    lanes = _Lanes(files, rounds, lengths)
    progress = [
        _shard_progress(shard, names, lock, lanes)
        for shard, (lock, names) in enumerate(lanes_of_lock.items())
    ]
    shards = [each.status for each in progress]
    holders = [shard.holder for shard in shards if shard.holder is not None]
    done = {name for name in lengths if lanes.is_done(name)}
    unfinished = lengths.keys() - done
    started = rounds.keys() & unfinished
    num_running = 0
    if division is not None:
        is_held = _claims(folder, unfinished)
        started = started | is_held.keys()
        num_running = sum(is_held.values())
    elif holders:
        # A process of version 0.1.0 does not say how many lanes it runs.
        lock_info = file_locks.read_info(folder / LOCK)
        num_running = int(lock_info.get('running', len(started)))
    # A process may know of more lanes than its files show.
    num_lanes = max([len(lengths), *(shard.known_lanes for shard in progress)])
    # A lane that was saved at its end may be held a moment longer.
    num_running = min(num_running, num_lanes - len(done))
    return Status(
        lanes=num_lanes,
        done=len(done),
        running=num_running,
        lost=max(0, len(started) - num_running),
        failed=sorted(file.stem for file in (folder / FAILURES).glob('*.txt')),
        shards=[] if division is None else shards,
        holders=holders,
        hours_left=_hours_left(progress),
    )


def _lanes_of_lock(
    folder: Path, division: RunDivision | None, started: Collection[str]
) -> dict[Path, list[str]]:
    """Returns the lanes of each shard, by the file that its process locks, in order.

    A run in one piece is one shard, which has the lanes that were started.
    """
    if division is None:
        return {folder / LOCK: list(started)}
    names: list[list[str]] = [[] for _ in range(division.count)]
    for name, shard in division.expected(started).items():
        names[shard].append(name)
    return {
        shard_lock(folder, shard, division.count): names[shard]
        for shard in range(division.count)
    }


def _claims(folder: Path, names: Collection[str]) -> dict[str, bool]:
    """Returns, for each claimed lane with one of these names, whether a process holds the lane."""
    is_held: dict[str, bool] = {}
    for file in (folder / CLAIMS).glob('*.lock'):
        if file.stem in names:  # Shards have claims, too.
            is_held[file.stem] = file_locks.holder_info(file) is not None
    return is_held


def _shard_progress(
    shard: int, names: Sequence[str], lock: Path, lanes: _Lanes
) -> _ShardProgress:
    """Returns the progress of the shard with these lanes."""
    holder_info = file_locks.holder_info(lock)
    lock_info = file_locks.read_info(lock)
    rounds_done = lanes.rounds_done(names)
    num_rounds = sum(lanes.lengths[name] for name in names)
    # 'ahead' counts the rounds of all lanes that the process knows, done lanes included.
    rounds_left = max(num_rounds, lock_info.get('ahead', 0)) - rounds_done
    rate = None
    if holder_info is not None:
        rounds_since_start = rounds_done - holder_info.get('rounds', rounds_done)
        saved = [lanes.files[name] for name in names if name in lanes.files]
        rate = _rounds_per_second(rounds_since_start, lock, saved)
    hours_left = None if rate is None else rounds_left / rate / _SECONDS_PER_HOUR
    status = ShardStatus(
        shard=shard,
        holder=None if holder_info is None else str(holder_info['holder']),
        lanes=len(names),
        done=sum(map(lanes.is_done, names)),
        hours_left=hours_left,
    )
    return _ShardProgress(
        status=status,
        known_lanes=lock_info.get('lanes', 0),
        rounds_left=rounds_left,
        rounds_per_second=rate,
    )


def _rounds_per_second(
    num_rounds: int, lock: Path, lanes: Sequence[Mapping[int, Path]]
) -> float | None:
    """Returns the rounds per second of a process; None if unknown."""
    if num_rounds <= 0:
        return None
    seconds = _seconds_between(lock, lanes)
    return num_rounds / seconds if seconds > 0 else None


def _seconds_between(lock: Path, lanes: Sequence[Mapping[int, Path]]) -> float:
    """Measures seconds from the start of a process to its last save, by the clock of the disk.

    The clocks of two machines may differ by hours. The files of one lock are from one process.
    """
    last = 0.0
    for files in lanes:
        # A later save may replace the file meanwhile.
        with contextlib.suppress(FileNotFoundError):
            last = max(last, files[max(files)].stat().st_mtime)
    return last - lock.stat().st_mtime


def _hours_left(shards: Sequence[_ShardProgress]) -> float | None:
    """Predicts when the last shard is done; shards of unknown speed get the mean speed."""
    rates = [
        shard.rounds_per_second
        for shard in shards
        if shard.rounds_per_second is not None
    ]
    if not rates:
        return None
    mean_rate = sum(rates) / len(rates)
    seconds = [
        shard.rounds_left / (shard.rounds_per_second or mean_rate) for shard in shards
    ]
    return max(seconds) / _SECONDS_PER_HOUR
