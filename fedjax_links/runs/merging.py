"""Merges the shards of a run into the files that a run in one piece has.

A lane is one algorithm, pattern, grid point and seed. A shard is the part of a run's lanes that one
process runs. All folders are compared before anything is written. Lanes are also compared with the
values that the merged tuning chose.
"""

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links.core import checks, errors, paths
from fedjax_links.core.records import RunFacts, Section
from fedjax_links.planning import trials
from fedjax_links.results import dataset
from fedjax_links.results.clients import CLIENTS
from fedjax_links.results.runs import Results
from fedjax_links.runs import belonging, metric_lines, missing_lanes
from fedjax_links.runs.divisions import RunDivision, read_division, rounds_of_lane
from fedjax_links.runs.folder import (
    LaneRecord,
    as_columns,
    as_json,
    in_order,
    lane_of,
    read,
    read_description,
    saves,
)
from fedjax_links.storage import (
    atomic_files,
    checkpoints,
    descriptions,
    run_access,
    run_files,
)
from fedjax_links.storage.run_files import (
    CHECKPOINTS,
    CLAIMS,
    CONFIG,
    ENVIRONMENT,
    EXPERIMENT,
    FAILURES,
    LANES,
    LINKS,
    METRICS,
)

_MAX_NAMED = 5
_COPIED = (
    CONFIG,
    ENVIRONMENT,
    run_files.IDENTITY,
    run_files.EXAMPLES,
    LINKS,
    CLIENTS,
)
"""Files beside the checkpoints. The full run takes each from the first folder that has it."""


def merge(
    folders: str | Path | Sequence[str | Path],
    into: str | Path | None = None,
    *,
    allow_mixed: bool = False,
    allow_changed: bool = False,
) -> Results:
    """Merges the shards of a run into the folder that a single process would have written.

    All folders, the target among them, are compared before anything is written.

    Args:
      folders: the folders of the shards: one folder that all shards used, or several.
      into: the folder of the full run, new or one of ``folders``; by default the only folder.
      allow_mixed: whether lanes of different seeds may have run on machines of different kinds.
        Differences at one seed are still exact.
      allow_changed: whether lanes may be of different programs or data. Each report then says so.

    Returns:
      The metrics of the full run.

    Raises:
      ValueError: if a lane is missing, a shard still runs, or the folders are of different
        experiments, programs, data or kinds of machines.
    """
    checks.flags(allow_mixed=allow_mixed, allow_changed=allow_changed)
    if isinstance(folders, str | bytes | os.PathLike) or not np.iterable(folders):
        folders = [paths.as_path(folders, 'folders')]
    by_folder: dict[str, Path] = {}
    for folder in folders:  # Two paths may name one folder, such as a link to it.
        path = paths.as_path(folder, 'folders').absolute()
        by_folder.setdefault(os.path.realpath(path), path)
    parts = list(by_folder.values())
    if not parts:
        raise errors.invalid('folders', 'name at least one folder', 'none')
    if into is None and len(parts) != 1:
        raise errors.invalid('into', 'be given for several folders', None)
    target = parts[0] if into is None else paths.as_path(into, 'into').absolute()
    target = by_folder.get(os.path.realpath(target), target)
    with errors.on_disk(target):
        _check_mergeable(parts, target, allow_changed=allow_changed)
        target.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as locks:
            for part in dict.fromkeys([*parts, target]):
                locks.enter_context(run_access.exclusive(_argument(part, target), part))
            facts = _check_mergeable(parts, target, allow_changed=allow_changed)
            _merge(parts, target, facts, allow_mixed=allow_mixed)
    return read(target)


def _check_mergeable(
    parts: Sequence[Path], target: Path, *, allow_changed: bool
) -> RunFacts:
    """Compares the folders of shards with each other and with the target; changes nothing.

    Returns:
      The facts of the full run.

    Raises:
      ValueError: if a folder differs, or the target holds something other than a run.
    """
    for part in parts:
        _require_run(_argument(part, target), part)
    first = descriptions.read_description(parts[0])
    assert first is not None
    facts = dict(first.facts)
    others = [part for part in [*parts[1:], target] if part != parts[0]]
    for other in dict.fromkeys(others):
        argument = _argument(other, target)
        if run_access.refuse_foreign(argument, other) is not run_access.Kind.RUN:
            continue
        there = descriptions.read_description(other)
        assert there is not None
        changed = descriptions.check_same(
            argument, other, there, first, may_grow=False, allow_changed=allow_changed
        )
        facts[run_files.CHANGED] = list(
            dict.fromkeys([*facts.get(run_files.CHANGED, ()), *changed])
        )
    if not facts.get(run_files.CHANGED):
        facts.pop(run_files.CHANGED, None)
    return facts


def _argument(folder: Path, target: Path) -> str:
    """Returns the argument that named a folder: ``workdir`` or, for other shards, ``folders``."""
    return 'workdir' if folder == target else 'folders'


def _require_run(argument: str, folder: Path) -> None:
    """Raises unless a folder holds a run, in a format that this version reads."""
    read_description(folder, argument)
    run_access.refuse_archive(argument, folder)


def _merge(
    parts: Sequence[Path], target: Path, facts: RunFacts, *, allow_mixed: bool
) -> None:
    """Checks the lanes of all parts, and writes the files of the full run."""
    best, damaged = _best_of_each_lane([target, *parts])
    divisions = _divisions_of(parts)
    if divisions:
        expected = divisions[0].expected(best)
    else:  # A run in one piece: no shards to name.
        expected = dict.fromkeys(best, 0)
    _check_complete(best, expected, damaged, divisions, facts, target)
    _check_lanes(best, parts[0], facts, allow_mixed=allow_mixed)
    ordered = in_order((best[name] for name in expected), facts)
    lines = ''.join(itertools.chain.from_iterable(lane.lines for lane in ordered))
    columns: dataset.Columns = {}
    if facts.get('tuning'):
        columns = as_columns(lines.splitlines())
        metric_lines.check_columns(target, columns, facts)
        trials.check_main_lanes(columns, facts)
    if not divisions:
        absent = missing_lanes.of_run_in_one_piece(ordered, columns, facts)
        if absent:
            requirement = 'hold all lanes (the command that began the run resumes it)'
            value = f'{target} without {_first_of(absent)}'
            raise errors.invalid('workdir', requirement, value)
    _gather_files(best.values(), parts, target)
    atomic_files.write(target / EXPERIMENT, as_json(facts))
    atomic_files.write(target / METRICS, lines.encode())
    for name in (CLAIMS, FAILURES):
        shutil.rmtree(target / name, ignore_errors=True)
    (target / LANES).unlink(missing_ok=True)


def _gather_files(
    lanes: Iterable[LaneRecord], parts: Sequence[Path], target: Path
) -> None:
    """Links or copies the checkpoints of lanes, and the files that describe the run."""
    (target / CHECKPOINTS).mkdir(exist_ok=True)
    run_access.remove_temporaries(target)
    for lane in lanes:
        for path in lane.files.values():
            for file in checkpoints.files_of(path):
                _link_or_copy(file, target / CHECKPOINTS / file.name)
    for name in _COPIED:
        source = next((part / name for part in parts if (part / name).exists()), None)
        if source is not None:
            _link_or_copy(source, target / name)


def _divisions_of(parts: Sequence[Path]) -> list[RunDivision]:
    """Reads how each folder says that lanes are divided; a run in one piece says nothing."""
    divisions = [read_division(part) for part in parts]
    return [division for division in divisions if division is not None]


def _check_lanes(
    lanes: Mapping[str, LaneRecord],
    folder: Path,
    facts: RunFacts,
    *,
    allow_mixed: bool,
) -> None:
    """Refuses lanes that are not of one run, or ran on machines of several kinds."""
    described = {name: (lane.labels, lane.identity) for name, lane in lanes.items()}
    belonging.check_same_programs('workdir', described, facts)
    belonging.check_lanes_of_run('workdir', folder, described, facts)
    kinds = ((lane.labels['seed'], lane.fingerprint) for lane in lanes.values())
    check_kinds(kinds, allow_mixed=allow_mixed)


def _best_of_each_lane(
    folders: Iterable[Path],
) -> tuple[dict[str, LaneRecord], dict[str, Path]]:
    """Reads the longest save of each lane.

    Of each folder only the last save counts. If that save is damaged, the folder lacks the lane.

    Returns:
      The lanes, and the damaged saves, both by the lane's name.
    """
    best: dict[str, LaneRecord] = {}
    damaged: dict[str, Path] = {}
    for folder in dict.fromkeys(folders):
        for name, files in saves(folder).items():
            if name not in best or best[name].round < max(files):
                try:
                    best[name] = lane_of(files)
                except checkpoints.DamagedError:
                    damaged[name] = files[max(files)]
    return best, damaged


def _check_complete(
    best: Mapping[str, LaneRecord],
    expected: Mapping[str, int],
    damaged: Mapping[str, Path],
    divisions: Sequence[RunDivision],
    facts: RunFacts,
    target: Path,
) -> None:
    """Refuses to merge a run that lacks lanes."""
    done = {
        name for name, lane in best.items() if lane.round >= rounds_of_lane(name, facts)
    }
    missing = [name for name in expected if name not in done]
    if missing:
        value = f'{target} without {_describe_missing(missing, expected, divisions)}'
        value += _describe_damage(missing, damaged)
        raise errors.invalid('workdir', 'hold all lanes', value)
    has_ended = any(division.ended for division in divisions)
    if 'until' in facts and divisions and not has_ended:
        requirement = (
            'have run until all pairs are decided (start a shard again to continue)'
        )
        raise errors.invalid('workdir', requirement, target)


def _describe_damage(missing: Sequence[str], damaged: Mapping[str, Path]) -> str:
    """Names the first damaged save of a missing lane; empty if there is none."""
    for name in missing:
        if name in damaged:
            return f'; {damaged[name]} is damaged'
    return ''


def _describe_missing(
    missing: Sequence[str],
    expected: Mapping[str, int],
    divisions: Sequence[RunDivision],
) -> str:
    """Counts the missing lanes, and names the first missing lanes and their shards."""
    text = f'{len(missing)} of {len(expected)}: {_first_of(missing)}'
    if divisions:
        shards = sorted({expected[name] for name in missing})
        listed = ', '.join(map(str, shards))
        text += f' (of shards {listed} of {divisions[0].count})'
    return text


def _first_of(names: Sequence[str]) -> str:
    """Lists the first names."""
    shown = ', '.join(names[:_MAX_NAMED])
    return f'{shown}, ...' if len(names) > _MAX_NAMED else shown


def check_kinds(
    fingerprints: Iterable[tuple[int, Section | None]],
    *,
    allow_mixed: bool = False,
) -> None:
    """Refuses lanes of one run whose bits may differ because their machines differ.

    Args:
      fingerprints: of each lane, the seed, and the fingerprint of the machine that ran it; None if
        unknown.
      allow_mixed: whether lanes of different seeds may have run on machines of different kinds.
        Differences at one seed are still exact.

    Raises:
      ValueError: naming the first difference.
    """
    first: dict[int | None, Mapping[str, Any]] = {}
    for seed, fingerprint in fingerprints:
        if not fingerprint:
            continue
        expected = first.setdefault(seed if allow_mixed else None, fingerprint)
        difference = descriptions.first_difference(expected, fingerprint, 'environment')
        if difference is not None:
            hint = 'if it differs, so may the bits'
            if allow_mixed:
                requirement = f'be the same for all lanes of seed {seed} ({hint})'
            else:
                cure = '--allow_mixed compares within each seed only'
                requirement = f'be the same for all lanes ({hint}; {cure})'
            value = f'{difference.there!r} and {difference.here!r}'
            raise errors.invalid(difference.field, requirement, value)


def _link_or_copy(source: Path, target: Path) -> None:
    """Links a file to another name in one step, or copies it where the disk has no links."""
    if target.exists() and target.samefile(source):
        return
    partial = atomic_files.temporary_name(target)
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
