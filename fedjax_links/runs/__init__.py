"""Runs on disk: what a run's folder holds (`folder`), joins, and says while shards are at work.

A run is in shards where several processes have each its own lanes, on machines with one disk or
several. Beside what any run has, the folder of such a run holds until it is merged

* ``lanes.json``: which lane belongs to which shard;
* ``claims/``: a file for every shard and lane that some process holds (`storage.file_locks`);
* ``failures/<lane>.txt``: the traceback of a lane that failed.
"""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links.core import errors, paths
from fedjax_links.results.runs import Results as Results
from fedjax_links.runs.belonging import check_same_programs as check_same_programs
from fedjax_links.runs.divisions import RunDivision as RunDivision
from fedjax_links.runs.divisions import check_division as check_division
from fedjax_links.runs.divisions import failure_file as failure_file
from fedjax_links.runs.divisions import lane_file as lane_file
from fedjax_links.runs.divisions import read_division as read_division
from fedjax_links.runs.divisions import rounds_of_lane as rounds_of_lane
from fedjax_links.runs.divisions import shard_file as shard_file
from fedjax_links.runs.divisions import write_division as write_division
from fedjax_links.runs.folder import CHECKPOINTS as CHECKPOINTS
from fedjax_links.runs.folder import CONFIG as CONFIG
from fedjax_links.runs.folder import ENVIRONMENT as ENVIRONMENT
from fedjax_links.runs.folder import EXPERIMENT as EXPERIMENT
from fedjax_links.runs.folder import FINGERPRINT as FINGERPRINT
from fedjax_links.runs.folder import IDENTITY as IDENTITY
from fedjax_links.runs.folder import LINKS as LINKS
from fedjax_links.runs.folder import LOCK as LOCK
from fedjax_links.runs.folder import MAY_DIFFER as MAY_DIFFER
from fedjax_links.runs.folder import METRICS as METRICS
from fedjax_links.runs.folder import ON_A_MESH as ON_A_MESH
from fedjax_links.runs.folder import LaneRecord as LaneRecord
from fedjax_links.runs.folder import as_column as as_column
from fedjax_links.runs.folder import as_columns as as_columns
from fedjax_links.runs.folder import as_json as as_json
from fedjax_links.runs.folder import checkpoint_file as checkpoint_file
from fedjax_links.runs.folder import first_difference as first_difference
from fedjax_links.runs.folder import in_order as in_order
from fedjax_links.runs.folder import lane_of as lane_of
from fedjax_links.runs.folder import lanes as lanes
from fedjax_links.runs.folder import line_of as line_of
from fedjax_links.runs.folder import order as order
from fedjax_links.runs.folder import read as read
from fedjax_links.runs.folder import read_description as read_description
from fedjax_links.runs.folder import read_json as read_json
from fedjax_links.runs.folder import refuse_older as refuse_older
from fedjax_links.runs.folder import row_of as row_of
from fedjax_links.runs.folder import saves as saves
from fedjax_links.runs.kept_links import RecordedLinks as RecordedLinks
from fedjax_links.runs.kept_links import links as links
from fedjax_links.runs.kept_links import read_links as read_links
from fedjax_links.runs.kept_links import unpacked as unpacked
from fedjax_links.runs.merging import check_kinds as check_kinds
from fedjax_links.runs.merging import merge as merge
from fedjax_links.runs.models import model as model
from fedjax_links.storage import file_locks
from fedjax_links.storage.run_files import CLAIMS as CLAIMS
from fedjax_links.storage.run_files import FAILURES as FAILURES
from fedjax_links.storage.run_files import LANES as LANES

__all__ = [
    'RecordedLinks',
    'Status',
    'links',
    'merge',
    'model',
    'read',
    'status',
]  # what users call


# What goes on.


class ShardStatus(NamedTuple):
    """How far a shard is.

    Attributes:
      shard: its number.
      holder: the process that runs it; None if none does.
      lanes: how many it has.
      done: how many of them are done.
      hours_left: None where nothing says.
    """

    shard: int
    holder: str | None
    lanes: int
    done: int
    hours_left: float | None


class Status(NamedTuple):
    """How far a run is.

    Attributes:
      lanes: how many there are, tuning included, as far as its start knew.
      done: how many of them are done.
      running: how many some process is at.
      lost: how many were begun, are not done, and no process is at.
      failed: names of lanes whose traceback is kept.
      shards: all of them.
      holders: the processes that are at work.
      hours_left: until all are done, with those shards that run and lost ones started again now;
        None where nothing says.
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
    """How far a run is; reads the names of its files.

    Args:
      folder: of a run, in shards or in one piece.

    Raises:
      ValueError: if it holds no run.
    """
    with errors.on_disk(folder):
        return _status(paths.as_path(folder), read_description(folder)[0])


def _status(path: Path, facts: Mapping[str, Any]) -> Status:
    kept = saves(path)
    rounds = {name: max(files) for name, files in kept.items()}
    found = read_division(path)
    lanes = dict.fromkeys(rounds, 0) if found is None else found.expected(rounds)
    wanted = {name: rounds_of_lane(name, facts) for name in lanes}
    done = {name for name in lanes if rounds.get(name, 0) >= wanted[name]}
    begun = {name for name in rounds if name in lanes and name not in done}
    shards: list[ShardStatus] = []
    left: dict[int, int] = {}
    rates: dict[int, float] = {}
    known = len(lanes)
    for shard in range(found.count if found else 1):
        names = [name for name, own in lanes.items() if own == shard]
        file = shard_file(path, shard, found.count) if found else path / LOCK
        held, said = file_locks.holder_info(file), file_locks.read_info(file)
        known = max(known, said.get('lanes', 0))
        behind = sum(min(rounds.get(name, 0), wanted[name]) for name in names)
        left[shard] = (
            max(sum(wanted[name] for name in names), said.get('ahead', 0)) - behind
        )
        if held is not None and behind > held.get('rounds', behind):
            seconds = _seconds_between(
                file, [kept[name] for name in names if name in kept]
            )
            if seconds > 0:
                rates[shard] = (behind - held['rounds']) / seconds
        hours = left[shard] / rates[shard] / 3600 if shard in rates else None
        ended = sum(name in done for name in names)
        holder = None if held is None else str(held['holder'])
        shards.append(ShardStatus(shard, holder, len(names), ended, hours))
    holders = [shard.holder for shard in shards if shard.holder is not None]
    running = begun if holders else set[str]()
    if found is not None:
        claimed = {
            file.stem for file in (path / CLAIMS).glob('*.lock')
        } & lanes.keys() - done
        running = {
            name for name in claimed if file_locks.holder_info(lane_file(path, name))
        }
        begun |= claimed
    hours_left = None
    if rates:
        usual = sum(rates.values()) / len(rates)
        hours_left = max(left[k] / rates.get(k, usual) for k in left) / 3600
    failed = sorted(file.stem for file in (path / FAILURES).glob('*.txt'))
    counts = known, len(done), len(running), len(begun - running)
    return Status(*counts, failed, shards if found else [], holders, hours_left)


def _seconds_between(lock: Path, lanes: Sequence[Mapping[int, Path]]) -> float:
    """Seconds from the start of a process to its last save, by the clock of the disk.

    The clocks of two machines may differ by hours; one process wrote all of these files.
    """
    last = 0.0
    for files in lanes:
        with contextlib.suppress(
            FileNotFoundError
        ):  # replaced by a later save meanwhile
            last = max(last, files[max(files)].stat().st_mtime)
    return last - lock.stat().st_mtime
