"""Reports the progress of a run and of its shards from the names of their files."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fedjax_links.core import errors, paths
from fedjax_links.core.records import RunFacts
from fedjax_links.runs.divisions import (
    RunDivision,
    lane_lock,
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
      shard: its number.
      holder: the process that runs it; None if none does.
      lanes: how many it has.
      done: how many of them are done.
      hours_left: until they are done; None if unknown.
    """

    shard: int
    holder: str | None
    lanes: int
    done: int
    hours_left: float | None


class Status(NamedTuple):
    """Holds the progress of a run.

    Attributes:
      lanes: how many there are, tuning included, as far as its process knew at the start.
      done: how many of them are done.
      running: how many some process runs.
      lost: how many were started, are not done, and no process runs.
      failed: names of lanes whose traceback is kept.
      shards: all of them.
      holders: the processes that run lanes.
      hours_left: until all lanes are done, if the lost ones were started again now; None if
        unknown.
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
      ValueError: if it holds no run.
    """
    with errors.on_disk(folder):
        facts, _ = read_description(folder)
        return _status(paths.as_path(folder), facts)


class _Lanes(NamedTuple):
    """Holds the progress of the lanes of a run, by name.

    Attributes:
      files: the saves of each lane that was started, by rounds.
      rounds: the rounds that each of these has completed.
      lengths: the rounds of each lane when it is done, all lanes.
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
      known_lanes: how many lanes of the run its process knows.
      rounds_left: over all of its lanes.
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
    shard_of_lane = _shard_of_lane(division, rounds)
    lengths = {name: rounds_of_lane(name, facts) for name in shard_of_lane}
    lanes = _Lanes(files, rounds, lengths)
    progress = _progress_of_shards(folder, division, shard_of_lane, lanes)
    shards = [each.status for each in progress]
    holders = [shard.holder for shard in shards if shard.holder is not None]
    done = {name for name in lengths if lanes.is_done(name)}
    started = (rounds.keys() & lengths.keys()) - done
    claimed: set[str] = set()
    if division is not None:
        claimed = _claimed_lanes(folder) & (lengths.keys() - done)
        num_running = sum(_is_running(folder, name) for name in claimed)
    else:
        num_running = _num_running(folder, len(started)) if holders else 0
    started = started | claimed
    num_lanes = _num_lanes(lanes, progress)
    # A lane that was saved at its end may be held a moment longer.
    num_running = min(num_running, num_lanes - len(done))
    return Status(
        lanes=num_lanes,
        done=len(done),
        running=num_running,
        lost=max(0, len(started) - num_running),
        failed=_failed_lanes(folder),
        shards=[] if division is None else shards,
        holders=holders,
        hours_left=_hours_left(progress),
    )


def _num_running(folder: Path, default: int) -> int:
    """Returns how many lanes the process of a run in one piece has in progress.

    Args:
      folder: of the run.
      default: where its process, of an older version, does not say so.
    """
    number = file_locks.read_info(folder / LOCK).get('running', default)
    return int(number)


def _shard_of_lane(
    division: RunDivision | None, rounds: Mapping[str, int]
) -> Mapping[str, int]:
    """Returns the shard of each lane; a run in one piece is one shard."""
    if division is None:
        return dict.fromkeys(rounds, 0)
    return division.expected(rounds)


def _num_lanes(lanes: _Lanes, progress: Sequence[_ShardProgress]) -> int:
    """Counts the lanes of the run; a process may know more than its files show."""
    return max([len(lanes.lengths), *(shard.known_lanes for shard in progress)])


def _failed_lanes(folder: Path) -> list[str]:
    """Lists the lanes that left a report of a failure."""
    return sorted(file.stem for file in (folder / FAILURES).glob('*.txt'))


def _progress_of_shards(
    folder: Path,
    division: RunDivision | None,
    shard_of_lane: Mapping[str, int],
    lanes: _Lanes,
) -> list[_ShardProgress]:
    """Returns the progress of all shards; a run in one piece is one shard."""
    num_shards = 1 if division is None else division.count
    names: list[list[str]] = [[] for _ in range(num_shards)]
    for name, shard in shard_of_lane.items():
        names[shard].append(name)
    return [
        _shard_progress(
            shard, names[shard], _shard_lock(folder, division, shard), lanes
        )
        for shard in range(num_shards)
    ]


def _shard_lock(folder: Path, division: RunDivision | None, shard: int) -> Path:
    """Returns the file that the process of a shard holds, or that of a run in one piece."""
    if division is None:
        return folder / LOCK
    return shard_lock(folder, shard, division.count)


def _shard_progress(
    shard: int, names: Sequence[str], lock: Path, lanes: _Lanes
) -> _ShardProgress:
    """Returns the progress of the shard with these lanes."""
    holder_info = file_locks.holder_info(lock)
    lock_info = file_locks.read_info(lock)
    rounds_done = lanes.rounds_done(names)
    num_rounds = sum(lanes.lengths[name] for name in names)
    # 'ahead' counts the rounds of all lanes that the process knows, those done included.
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

    The clocks of two machines may differ by hours; one process wrote all of these files.
    """
    last = 0.0
    for files in lanes:
        # A later save may replace the file meanwhile.
        with contextlib.suppress(FileNotFoundError):
            last = max(last, files[max(files)].stat().st_mtime)
    return last - lock.stat().st_mtime


def _claimed_lanes(folder: Path) -> set[str]:
    """Returns the names of lanes, and of shards, that some process has claimed."""
    return {file.stem for file in (folder / CLAIMS).glob('*.lock')}


def _is_running(folder: Path, lane: str) -> bool:
    return file_locks.holder_info(lane_lock(folder, lane)) is not None


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
