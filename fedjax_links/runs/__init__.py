"""Runs on disk: what a run's folder holds (`folder`), joins, and says while shards are at work.

A run is in shards where several processes have each its own lanes, on machines with one disk or
several. Beside what any run has, the folder of such a run holds until it is merged

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
from fedjax_links.planning import choosing
from fedjax_links.results.runs import Results as Results
from fedjax_links.runs import checking
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
from fedjax_links.runs.folder import KeptLane as KeptLane
from fedjax_links.runs.folder import as_column as as_column
from fedjax_links.runs.folder import as_columns as as_columns
from fedjax_links.runs.folder import as_json as as_json
from fedjax_links.runs.folder import checkpoint_file as checkpoint_file
from fedjax_links.runs.folder import first_difference as first_difference
from fedjax_links.runs.folder import in_order
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
from fedjax_links.runs.kept_links import Links as Links
from fedjax_links.runs.kept_links import links as links
from fedjax_links.runs.kept_links import read_links as read_links
from fedjax_links.runs.kept_links import unpacked as unpacked
from fedjax_links.runs.models import model as model
from fedjax_links.storage import checkpoints, claims, door
from fedjax_links.storage.door import CLAIMS as CLAIMS
from fedjax_links.storage.door import FAILURES as FAILURES
from fedjax_links.storage.door import LANES as LANES
from fedjax_links.storage.identity import lane_differences

__all__ = ['Links', 'Status', 'links', 'merge', 'model', 'read', 'status']  # what users call

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

    def expected(self, begun: Collection[str]) -> dict[str, int]:
        """The shard of every lane, but of those that were neither asked for nor begun."""
        left_out = {*self.optional} - {*self.asked, *begun}
        return {lane: shard for lane, shard in self.lanes.items() if lane not in left_out}


def read_division(folder: Path) -> Division | None:
    """How a run is divided; None for a run in one piece."""
    found = read_json(folder, LANES)
    if found is None:
        return None
    checking.check_division(folder / LANES, found)
    return Division(**found)


def check_division(folder: Path, division: Division) -> None:
    """Refuses to divide a run otherwise than it is divided.

    Raises:
      ValueError: if the folder says another number of shards, or another way.
    """
    there = read_division(folder)
    if there is not None and (there.count, there.by) != (division.count, division.by):
        said = f'{folder}, which is divided into {there.count} shards by {there.by}'
        requirement = f'be divided as this run, into {division.count} shards by {division.by}'
        raise errors.invalid('workdir', requirement, said)


def write_division(folder: Path, division: Division) -> None:
    """Keeps how a run is divided, where it is not kept yet.

    Raises:
      ValueError: if it is divided otherwise.
    """
    check_division(folder, division)
    if read_division(folder) != division:
        checkpoints.write_whole(folder / LANES, as_json(dataclasses.asdict(division)))


def shard_file(folder: Path, shard: int, count: int) -> Path:
    """The file that the process of a shard holds."""
    return folder / CLAIMS / f'shard-{shard}-of-{count}.lock'


def lane_file(folder: Path, lane: str) -> Path:
    """The file that the process that runs a lane holds."""
    return folder / CLAIMS / f'{lane}.lock'


def failure_file(folder: Path, lane: str) -> Path:
    """The file that says why a lane failed."""
    return folder / FAILURES / f'{lane}.txt'


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
    allow_changed: bool = False,
) -> Results:
    """Joins the shards of a run: the same files as a run in one piece has.

    All folders, that of the whole run too, are compared before anything is written.

    Args:
      folders: of the shards: one that they shared, or several.
      into: the folder of the whole run, new or one of these; by default the only one.
      allow_mixed: whether shards may have run on machines of several kinds.
      allow_changed: whether they may be of different programs or data; every report says so then.

    Returns:
      The metrics of the whole run.

    Raises:
      ValueError: if a lane is missing, a shard still runs, or the folders are of different
        experiments, programs, data or kinds of machines.
    """
    given = [folders] if isinstance(folders, str | Path) else list(folders)
    parts = list(dict.fromkeys(Path(folder).absolute() for folder in given))
    if into is None and len(parts) != 1:
        raise errors.invalid('into', 'be given for several folders', None)
    target = parts[0] if into is None else Path(into).absolute()
    with errors.on_disk(target):
        _check_mergeable(parts, target, allow_changed=allow_changed)
        target.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as held:
            for part in dict.fromkeys([*parts, target]):
                held.enter_context(door.exclusive('workdir', part))
            facts = _check_mergeable(parts, target, allow_changed=allow_changed)
            _merge(parts, target, facts, allow_mixed=allow_mixed)
    return read(target)


def _check_mergeable(
    parts: Sequence[Path], target: Path, *, allow_changed: bool
) -> Mapping[str, Any]:
    """Compares the folders of shards with each other and with the target; only looks.

    Returns:
      The facts of the whole run.

    Raises:
      InvalidError: naming the folder and what differs, for a target with files of something else.
    """
    for part in parts:
        read_description(part, 'workdir')
    first = door.read_description(parts[0])
    assert first is not None
    facts = dict(first.facts)
    others = [part for part in [*parts[1:], target] if part != parts[0]]
    for other in dict.fromkeys(others):
        if door.refuse_foreign('workdir', other) is not door.Kind.RUN:
            continue
        there = door.read_description(other)
        assert there is not None
        changed = door.check_same(
            'workdir', other, there, first, may_grow=False, allow_changed=allow_changed
        )
        facts[door.CHANGED] = list(dict.fromkeys([*facts.get(door.CHANGED, ()), *changed]))
    if not facts.get(door.CHANGED):
        facts.pop(door.CHANGED, None)
    return facts


def _merge(
    parts: Sequence[Path], target: Path, facts: Mapping[str, Any], *, allow_mixed: bool
) -> None:
    """Brings together what was found whole."""
    best = _best_of_each_lane([target, *parts])
    divisions = [found for part in parts if (found := read_division(part)) is not None]
    expected = divisions[0].expected(best) if divisions else dict.fromkeys(best, 0)
    _check_complete(best, expected, divisions, facts, target)
    if door.CHANGED not in facts:
        _check_alike(best.values())
    kinds = ((lane.labels['seed'], lane.fingerprint) for lane in best.values())
    check_kinds(kinds, allow_mixed=allow_mixed)
    ordered = in_order((best[name] for name in expected), facts)
    lines = ''.join(line for lane in ordered for line in lane.lines)
    if facts.get('tuning'):
        choosing.check_main_lanes(as_columns(lines.splitlines()), facts)
    (target / CHECKPOINTS).mkdir(exist_ok=True)
    door.sweep(target)
    kept = [path for lane in best.values() for path in lane.files.values()]
    for path in itertools.chain.from_iterable(map(checkpoints.files_of, kept)):
        _bring(path, target / CHECKPOINTS / path.name)
    for name in (CONFIG, ENVIRONMENT, door.IDENTITY, door.EXAMPLES, LINKS):
        for source in [part / name for part in parts if (part / name).exists()][:1]:
            _bring(source, target / name)
    checkpoints.write_whole(target / EXPERIMENT, as_json(facts))
    checkpoints.write_whole(target / METRICS, lines.encode())
    for name in (CLAIMS, FAILURES):
        shutil.rmtree(target / name, ignore_errors=True)
    (target / LANES).unlink(missing_ok=True)


def _best_of_each_lane(folders: Iterable[Path]) -> dict[str, KeptLane]:
    """Returns the longest of each lane that is whole, by its name."""
    best: dict[str, KeptLane] = {}
    for folder in dict.fromkeys(folders):
        for name, files in saves(folder).items():
            if name not in best or best[name].round < max(files):
                with contextlib.suppress(checkpoints.DamagedError):  # as good as missing
                    best[name] = lane_of(files)
    return best


def _check_complete(
    best: Mapping[str, KeptLane],
    expected: Mapping[str, int],
    divisions: Sequence[Division],
    facts: Mapping[str, Any],
    target: Path,
) -> None:
    """Refuses to join a run of which lanes are missing."""
    done = {name for name, lane in best.items() if lane.round >= rounds_wanted(name, facts)}
    missing = [name for name in expected if name not in done]
    if missing:
        shown = ', '.join(missing[:_MOST_NAMED]) + (', ...' if missing[_MOST_NAMED:] else '')
        numbers = ', '.join(map(str, sorted({expected[name] for name in missing})))
        said = f'{target} without {len(missing)} of {len(expected)}: {shown}'
        where = f' (of shards {numbers} of {divisions[0].count})' if divisions else ''
        raise errors.invalid('workdir', 'hold all lanes', f'{said}{where}')
    if 'until' in facts and divisions and not any(division.ended for division in divisions):
        requirement = 'have run until all pairs are decided (a shard that is started goes on)'
        raise errors.invalid('workdir', requirement, target)


def _check_alike(lanes: Iterable[KeptLane]) -> None:
    """Refuses lanes of one algorithm, pattern and point that differ in more than their seeds.

    Raises:
      InvalidError: naming the lane and what differs.
    """
    first: dict[Any, KeptLane] = {}
    for lane in lanes:
        labels = {name: value for name, value in lane.labels.items() if name != 'seed'}
        other = first.setdefault(repr(labels), lane)
        if lane.identity is None or other.identity is None:
            continue
        by_seed = {f'links {lane.labels["pattern"]}', *lane.identity.data}
        for part, clause in lane_differences(other.identity, lane.identity):
            if part not in by_seed:
                requirement = 'hold lanes of the same programs'
                said = f'{lane.name}, which differs from {other.name}: {clause}'
                raise errors.invalid('workdir', requirement, said)


def check_kinds(
    fingerprints: Iterable[tuple[int, Mapping[str, Any] | None]], *, allow_mixed: bool = False
) -> None:
    """Refuses lanes of one run whose bits may differ because their machines do.

    Args:
      fingerprints: seeds of lanes, and of the machines that ran them; None where nothing says.
      allow_mixed: whether lanes of different seeds may have run on machines of different kinds:
        differences at one seed are still exact.

    Raises:
      ValueError: naming the first difference.
    """
    first: dict[Any, Mapping[str, Any]] = {}
    for seed, kind in fingerprints:
        there = kind and first.setdefault(seed if allow_mixed else None, kind)
        if found := first_difference(there, kind, 'environment'):
            field, old, new = found
            whose = f'lanes of seed {seed}' if allow_mixed else 'lanes'
            hint = 'where it is not bits may differ; --allow_mixed lets each seed have its own'
            requirement = f'be the same for all {whose} ({hint})'
            raise errors.invalid(field, requirement, f'{old!r} and {new!r}')


def _bring(source: Path, target: Path) -> None:
    """Puts a file under another name at once, without a second copy where the disk can."""
    if target.exists() and target.samefile(source):
        return
    partial = checkpoints.temporary_name(target)
    try:
        try:
            os.link(source, partial)
        except OSError:
            shutil.copyfile(source, partial)
            with partial.open('rb+') as file:
                os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


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
        return _status(Path(folder), read_description(folder)[0])


def _status(path: Path, facts: Mapping[str, Any]) -> Status:
    rounds = {name: max(files) for name, files in saves(path).items()}
    found = read_division(path)
    lanes = dict.fromkeys(rounds, 0) if found is None else found.expected(rounds)
    wanted = {name: rounds_wanted(name, facts) for name in lanes}
    done = {name for name in lanes if rounds.get(name, 0) >= wanted[name]}
    begun = {name for name in rounds if name in lanes and name not in done}
    now, shards, left, rates, known = time.time(), [], {}, {}, len(lanes)
    for shard in range(found.count if found else 1):
        names = [name for name, own in lanes.items() if own == shard]
        file = shard_file(path, shard, found.count) if found else path / LOCK
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
