"""Runs in shards: several processes, each with its own lanes, on machines with one disk or several.

Beside what any run has (`folder`), the folder of such a run holds until it is merged

* ``lanes.json``: which lane belongs to which shard;
* ``claims/``: a file for every shard and lane that some process holds (`storage.claims`);
* ``failures/<lane>.txt``: the traceback of a lane that failed.
"""

import contextlib
import dataclasses
import itertools
import os
import shutil
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_links.core import errors
from fedjax_links.results.runs import Results
from fedjax_links.runs import folder as folders_
from fedjax_links.runs.folder import KeptLane
from fedjax_links.storage import checkpoints, claims

LANES, CLAIMS, FAILURES = 'lanes.json', 'claims', 'failures'
_MOST_NAMED = 5


@dataclasses.dataclass(frozen=True)
class Division:
    """How the lanes of a run are divided.

    Attributes:
      count: into how many shards.
      by: ``'program'``, or ``'seed'`` where shards run on machines of several kinds.
      lanes: the shard of every lane, tuning included, by the lane's name.
      optional: names of those that run only if what was measured asks for them.
      asked: those of them that it did after tuning, as far as is known.
      ended: whether it will ask for no more, where seeds go on until decided.
      fingerprint: of the machine of the first shard; None before any.
    """

    count: int
    by: str
    lanes: Mapping[str, int]
    optional: Sequence[str] = ()
    asked: Sequence[str] = ()
    ended: bool = False
    fingerprint: Mapping[str, Any] | None = None


def read_division(folder: Path) -> Division | None:
    """How a run is divided; None for a run in one piece."""
    found = folders_.read_json(folder, LANES)
    return None if found is None else Division(**found)


def write_division(folder: Path, division: Division) -> None:
    """Keeps how a run is divided, where it is not kept yet.

    Raises:
      ValueError: if it is divided otherwise.
    """
    there = read_division(folder)
    if there is not None and (there.count, there.by) != (division.count, division.by):
        said = f'{folder}, which is divided into {there.count} shards by {there.by}'
        requirement = f'be divided as this run, into {division.count} shards by {division.by}'
        raise errors.invalid('workdir', requirement, said)
    if there != division:
        checkpoints.write_whole(folder / LANES, folders_.as_json(dataclasses.asdict(division)))


def shard_file(folder: Path, shard: int, count: int) -> Path:
    """The file that the process of a shard holds."""
    return folder / CLAIMS / f'shard-{shard}-of-{count}.lock'


def lane_file(folder: Path, lane: str) -> Path:
    """The file that the process that runs a lane holds."""
    return folder / CLAIMS / f'{lane}.lock'


def rounds_wanted(lane: str, facts: Mapping[str, Any]) -> int:
    """The length of a lane, by its name."""
    is_tuning = lane.startswith('tuning-')
    return int((facts['tuning'] if is_tuning else facts)['num_rounds'])


# Merging.


def merge(
    folders: str | Path | Sequence[str | Path],
    into: str | Path | None = None,
    *,
    allow_mixed: bool = False,
) -> Results:
    """Joins the shards of a run: the same files as a run in one piece has.

    Args:
      folders: of the shards: one that they shared, or several.
      into: the folder of the whole run, new or one of these; by default the only one.
      allow_mixed: whether shards may have run on machines of several kinds.

    Returns:
      The metrics of the whole run.

    Raises:
      ValueError: if a lane is missing, a shard still runs, or the folders are of different
        experiments or kinds of machines.
    """
    given = [folders] if isinstance(folders, str | Path) else list(folders)
    parts = [Path(folder).absolute() for folder in given]
    if into is None and len(parts) != 1:
        raise errors.invalid('into', 'be given for several folders', None)
    target = parts[0] if into is None else Path(into).absolute()
    described = [folders_.read_description(part) for part in parts]
    for part, other in zip(parts[1:], described[1:], strict=True):
        _check_same(parts[0], described[0], part, other)
    with errors.on_disk(target):
        (target / folders_.CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        held: list[claims.Claim] = []
        try:
            for part in dict.fromkeys([*parts, target]):
                claim = claims.take(part / folders_.LOCK)
                if claim is None:
                    running = sorted((part / CLAIMS).glob('shard-*.lock'))
                    raise claims.refused('workdir', part, part / folders_.LOCK, *running)
                held.append(claim)
            _merge(parts, target, described[0][0], allow_mixed=allow_mixed)
        finally:
            for claim in held:
                claim.release(keep=True)
    return folders_.read(target)


def _check_same(first: Path, ours: Any, part: Path, theirs: Any) -> None:
    free = (*folders_.MAY_DIFFER, 'log')
    for there, here in zip(ours, theirs, strict=True):
        shown, other = (
            {name: value for name, value in (values or {}).items() if name not in free}
            for values in (there, here)
        )
        field, old, new = folders_.first_difference(shown, other)
        if old != new:
            said = f'{first} and {part}, where {field} is {old!r} and {new!r}'
            raise errors.invalid('workdir', 'be folders of one experiment', said)


def _merge(
    parts: Sequence[Path], target: Path, facts: Mapping[str, Any], *, allow_mixed: bool
) -> None:
    """Brings together what was found whole."""
    for left in (target / folders_.CHECKPOINTS).glob('*.partial'):  # of a process that was killed
        left.unlink()
    best: dict[str, KeptLane] = {}
    for part in dict.fromkeys([target, *parts]):
        for name, files in folders_.saves(part).items():
            if name not in best or best[name].round < max(files):
                with contextlib.suppress(checkpoints.DamagedError):  # as good as missing
                    best[name] = folders_.lane_of(files)
    divisions = [found for part in parts if (found := read_division(part)) is not None]
    expected = divisions[0].lanes if divisions else dict.fromkeys(best, 0)
    expected = _without(divisions[:1], expected, best)
    missing = [
        name
        for name in expected
        if name not in best or best[name].round < rounds_wanted(name, facts)
    ]
    if missing:
        shown = ', '.join(missing[:_MOST_NAMED]) + (', ...' if missing[_MOST_NAMED:] else '')
        numbers = ', '.join(map(str, sorted({expected[name] for name in missing})))
        said = f'{target} without {len(missing)} of {len(expected)}: {shown}'
        where = f' (of shards {numbers} of {divisions[0].count})' if divisions else ''
        raise errors.invalid('workdir', 'hold all lanes', f'{said}{where}')
    if 'until' in facts and divisions and not any(found.ended for found in divisions):
        requirement = 'have run until all pairs are decided (a shard that is started goes on)'
        raise errors.invalid('workdir', requirement, target)
    check_kinds(best.values(), allow_mixed=allow_mixed)
    for lane in best.values():
        for path in itertools.chain.from_iterable(map(checkpoints.files_of, lane.files.values())):
            _bring(path, target / folders_.CHECKPOINTS / path.name)
    names = folders_.CONFIG, folders_.EXPERIMENT, folders_.ENVIRONMENT, folders_.LINKS
    for name in names:
        if (source := next((p / name for p in parts if (p / name).exists()), None)) is not None:
            _bring(source, target / name)
    ordered = folders_.in_order((best[name] for name in expected), facts)
    lines = ''.join(line for lane in ordered for line in lane.lines)
    checkpoints.write_whole(target / folders_.METRICS, lines.encode())
    for name in (CLAIMS, FAILURES):
        shutil.rmtree(target / name, ignore_errors=True)
    (target / LANES).unlink(missing_ok=True)


def _without(
    divisions: Sequence[Division], lanes: Mapping[str, int], begun: Collection[str]
) -> Mapping[str, int]:
    """The lanes but those that were not asked for."""
    asked = {name for division in divisions for name in division.asked}
    optional = {name for division in divisions for name in division.optional} - {*begun, *asked}
    return {name: shard for name, shard in lanes.items() if name not in optional}


def check_kinds(lanes: Iterable[KeptLane], *, allow_mixed: bool) -> None:
    """Refuses lanes of one run whose bits may differ because their machines do.

    Args:
      lanes: of a run.
      allow_mixed: whether lanes of different seeds may have run on machines of different kinds:
        differences at one seed are still exact.

    Raises:
      ValueError: naming the first difference.
    """
    first: dict[Any, KeptLane] = {}
    for lane in lanes:
        if lane.fingerprint is None:
            continue
        seed = lane.labels['seed'] if allow_mixed else None
        other = first.setdefault(seed, lane)
        whose = f'lanes of seed {seed}' if allow_mixed else 'lanes'
        check_kind(whose, other.fingerprint, lane.fingerprint)


def check_kind(whose: str, there: Any, here: Any) -> None:
    """Refuses two fingerprints that differ.

    Args:
      whose: what needs them to be the same.
      there: one of them.
      here: the other.
    """
    field, old, new = folders_.first_difference(there, here, 'environment')
    if old != new:
        hint = 'where it is not bits may differ; --allow_mixed lets each seed have its own'
        raise errors.invalid(field, f'be the same for all {whose} ({hint})', f'{old!r} and {new!r}')


def _bring(source: Path, target: Path) -> None:
    """A file under another name, without a second copy where the disk can."""
    if target.exists() and target.samefile(source):
        return
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        partial = target.with_name(f'{target.name}.partial')
        shutil.copyfile(source, partial)
        partial.replace(target)


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
    path, (facts, _) = Path(folder), folders_.read_description(folder)
    with errors.on_disk(path):
        return _status(path, facts)


def _status(path: Path, facts: Mapping[str, Any]) -> Status:
    rounds = {name: max(files) for name, files in folders_.saves(path).items()}
    found = read_division(path)
    lanes = dict.fromkeys(rounds, 0) if found is None else _without([found], found.lanes, rounds)
    wanted = {name: rounds_wanted(name, facts) for name in lanes}
    done = {name for name in lanes if rounds.get(name, 0) >= wanted[name]}
    begun = {name for name in rounds if name in lanes and name not in done}
    members: dict[int, list[str]] = {k: [] for k in range(found.count if found else 1)}
    for name, shard in lanes.items():
        members[shard].append(name)
    now, shards, left, rates, known = time.time(), [], {}, {}, len(lanes)
    for shard, names in members.items():
        file = shard_file(path, shard, len(members)) if found else path / folders_.LOCK
        held, said = claims.held(file), claims.said(file)
        known = max(known, said.get('lanes', 0))
        behind = sum(min(rounds.get(name, 0), wanted[name]) for name in names)
        left[shard] = max(sum(wanted[name] for name in names), said.get('ahead', 0)) - behind
        if held is not None and behind > held.get('rounds', behind):
            rates[shard] = (behind - held['rounds']) / (now - held['since'])
        hours = left[shard] / rates[shard] / 3600 if shard in rates else None
        ended = sum(name in done for name in names)
        holder = None if held is None else str(held['holder'])
        shards.append(ShardStatus(shard, holder, len(names), ended, hours))
    holders = [shard.holder for shard in shards if shard.holder is not None]
    running = begun if holders else set[str]()
    if found is not None:
        claimed = {file.stem for file in (path / CLAIMS).glob('*.lock')} & lanes.keys() - done
        running = {name for name in claimed if claims.held(lane_file(path, name))}
        begun |= claimed
    hours_left = None
    if rates:
        usual = sum(rates.values()) / len(rates)
        hours_left = max(left[k] / rates.get(k, usual) for k in left) / 3600
    failed = sorted(file.stem for file in (path / FAILURES).glob('*.txt'))
    counts = known, len(done), len(running), len(begun - running)
    return Status(*counts, failed, shards if found else [], holders, hours_left)
