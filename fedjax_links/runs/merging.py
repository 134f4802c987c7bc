"""Joins the shards of a run into the files that a run in one piece has.

All folders are compared before anything is written, and lanes with what the merged tuning chose.
"""

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjax_links.core import errors, paths
from fedjax_links.planning import trials
from fedjax_links.results.runs import Results
from fedjax_links.runs import belonging
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
from fedjax_links.storage import checkpoints, descriptions, run_access, run_files
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

_MOST_NAMED = 5


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
    parts = list(dict.fromkeys(paths.as_path(folder).absolute() for folder in given))
    if into is None and len(parts) != 1:
        raise errors.invalid('into', 'be given for several folders', None)
    target = parts[0] if into is None else paths.as_path(into).absolute()
    with errors.on_disk(target):
        _check_mergeable(parts, target, allow_changed=allow_changed)
        target.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as held:
            for part in dict.fromkeys([*parts, target]):
                held.enter_context(run_access.exclusive('workdir', part))
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
    first = descriptions.read_description(parts[0])
    assert first is not None
    facts = dict(first.facts)
    others = [part for part in [*parts[1:], target] if part != parts[0]]
    for other in dict.fromkeys(others):
        if run_access.refuse_foreign('workdir', other) is not run_access.Kind.RUN:
            continue
        there = descriptions.read_description(other)
        assert there is not None
        changed = descriptions.check_same(
            'workdir', other, there, first, may_grow=False, allow_changed=allow_changed
        )
        facts[run_files.CHANGED] = list(
            dict.fromkeys([*facts.get(run_files.CHANGED, ()), *changed])
        )
    if not facts.get(run_files.CHANGED):
        facts.pop(run_files.CHANGED, None)
    return facts


def _merge(
    parts: Sequence[Path], target: Path, facts: Mapping[str, Any], *, allow_mixed: bool
) -> None:
    """Brings together what was found whole."""
    best = _best_of_each_lane([target, *parts])
    divisions = [found for part in parts if (found := read_division(part)) is not None]
    expected = divisions[0].expected(best) if divisions else dict.fromkeys(best, 0)
    _check_complete(best, expected, divisions, facts, target)
    described = {name: (lane.labels, lane.identity) for name, lane in best.items()}
    belonging.check_same_programs('workdir', described, facts)
    belonging.check_of_run('workdir', parts[0], described, facts)
    kinds = ((lane.labels['seed'], lane.fingerprint) for lane in best.values())
    check_kinds(kinds, allow_mixed=allow_mixed)
    ordered = in_order((best[name] for name in expected), facts)
    lines = ''.join(line for lane in ordered for line in lane.lines)
    if facts.get('tuning'):
        trials.check_main_lanes(as_columns(lines.splitlines()), facts)
    (target / CHECKPOINTS).mkdir(exist_ok=True)
    run_access.sweep(target)
    kept = [path for lane in best.values() for path in lane.files.values()]
    for path in itertools.chain.from_iterable(map(checkpoints.files_of, kept)):
        _bring(path, target / CHECKPOINTS / path.name)
    for name in (CONFIG, ENVIRONMENT, run_files.IDENTITY, run_files.EXAMPLES, LINKS):
        for source in [part / name for part in parts if (part / name).exists()][:1]:
            _bring(source, target / name)
    checkpoints.write_atomically(target / EXPERIMENT, as_json(facts))
    checkpoints.write_atomically(target / METRICS, lines.encode())
    for name in (CLAIMS, FAILURES):
        shutil.rmtree(target / name, ignore_errors=True)
    (target / LANES).unlink(missing_ok=True)


def _best_of_each_lane(folders: Iterable[Path]) -> dict[str, LaneRecord]:
    """Returns the longest of each lane that is whole, by its name."""
    best: dict[str, LaneRecord] = {}
    for folder in dict.fromkeys(folders):
        for name, files in saves(folder).items():
            if name not in best or best[name].round < max(files):
                with contextlib.suppress(
                    checkpoints.DamagedError
                ):  # as good as missing
                    best[name] = lane_of(files)
    return best


def _check_complete(
    best: Mapping[str, LaneRecord],
    expected: Mapping[str, int],
    divisions: Sequence[RunDivision],
    facts: Mapping[str, Any],
    target: Path,
) -> None:
    """Refuses to join a run of which lanes are missing."""
    done = {
        name for name, lane in best.items() if lane.round >= rounds_of_lane(name, facts)
    }
    missing = [name for name in expected if name not in done]
    if missing:
        shown = ', '.join(missing[:_MOST_NAMED]) + (
            ', ...' if missing[_MOST_NAMED:] else ''
        )
        numbers = ', '.join(map(str, sorted({expected[name] for name in missing})))
        said = f'{target} without {len(missing)} of {len(expected)}: {shown}'
        where = f' (of shards {numbers} of {divisions[0].count})' if divisions else ''
        raise errors.invalid('workdir', 'hold all lanes', f'{said}{where}')
    if (
        'until' in facts
        and divisions
        and not any(division.ended for division in divisions)
    ):
        requirement = (
            'have run until all pairs are decided (a shard that is started goes on)'
        )
        raise errors.invalid('workdir', requirement, target)


def check_kinds(
    fingerprints: Iterable[tuple[int, Mapping[str, Any] | None]],
    *,
    allow_mixed: bool = False,
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
        if found := descriptions.first_difference(there, kind, 'environment'):
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
