"""The door to a run folder: who may enter, and what has to be the same.

Runs, shards, `merge`, forks and `--start_over` all come in here, in this order:

1. A folder that is neither empty nor one of ours is refused. Nothing in it is touched.
2. It is locked.
3. What it holds is compared with what is to run (`check_same`).
4. Only then are our own temporary files swept, and is anything written.
"""

import contextlib
import enum
import itertools
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors
from fedjax_links.storage import checkpoints, checksummed_npz, documents, file_locks
from fedjax_links.storage.identity import RunIdentity, run_differences, run_from_plain

CONFIG, EXPERIMENT, ENVIRONMENT = 'config.json', 'experiment.json', 'environment.json'
IDENTITY, EXAMPLES = 'identity.json', 'examples.npz'
METRICS, LINKS, CHECKPOINTS = 'metrics.jsonl', 'links.npz', 'checkpoints'
LANES, CLAIMS, FAILURES = 'lanes.json', 'claims', 'failures'
LOCK, OPENING = '.lock', '.opening'

CHANGED = 'changed'
"""The fact that says what differed where somebody went on all the same."""

MAY_DIFFER = (
    'baseline',
    'caption',
    CHANGED,
    'forked_from',
    'log',
    'names',
    'reports',
    'title',
)
"""Facts and fields that change how results are shown or kept, but no result."""

MAY_GROW = {'num_rounds': 'rounds', 'num_seeds': 'seeds'}
"""Fields that a start may make larger: what there is of them already stays as it is."""

_MOST_CLAUSES = 3
_WRITTEN_BY_RUNS = (
    CONFIG,
    EXPERIMENT,
    ENVIRONMENT,
    IDENTITY,
    EXAMPLES,
    LINKS,
    METRICS,
    LANES,
)


class Kind(enum.Enum):
    """What lies where a run is to be."""

    NOTHING = 'nothing'
    BEGUN = 'a run that was stopped before it had a description'
    RUN = 'a run'
    ARCHIVE = 'an archive'
    FOREIGN = 'files of something else'


class Description(NamedTuple):
    """What a folder says of its experiment.

    Attributes:
      facts: labels, metrics, grid, seeds: what reports need.
      config: the config; None for an experiment made in Python.
      identity: of programs and data; None where nothing says.
    """

    facts: Mapping[str, Any]
    config: Mapping[str, Any] | None
    identity: RunIdentity | None


# What a folder is.


def kind_of(path: Path) -> Kind:
    """Returns what lies at a path; only looks.

    Args:
      path: of a folder, there or not.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return Kind.NOTHING
    if not path.is_dir():
        return Kind.FOREIGN
    if documents.has_digest(path / EXPERIMENT):
        return Kind.ARCHIVE if (path / checksummed_npz.METRICS).exists() else Kind.RUN
    is_begun = all(_is_of_a_start(entry) for entry in path.iterdir())
    return Kind.BEGUN if is_begun else Kind.FOREIGN


def _is_of_a_start(entry: Path) -> bool:
    """Returns whether a start of ours makes such an entry before `EXPERIMENT` is there."""
    if checkpoints.is_temporary(entry):
        return True
    if entry.name in (CHECKPOINTS, CLAIMS):
        return entry.is_dir() and all(
            checkpoints.is_temporary(inner)
            or (entry.name == CLAIMS and file_locks.is_lock(inner))
            for inner in entry.iterdir()
        )
    if entry.name in (LOCK, OPENING):
        return file_locks.is_lock(entry)
    if entry.name in (CONFIG, IDENTITY):
        return documents.has_digest(entry)
    return (
        entry.name == EXAMPLES and entry.is_file() and checksummed_npz.is_proven(entry)
    )


def refuse_foreign(argument: str, path: Path) -> Kind:
    """Refuses a folder that is no place for a run; only looks.

    Args:
      argument: what named the folder.
      path: of the folder.

    Returns:
      What it is: nothing, a run that was begun, or a run.

    Raises:
      InvalidError: for files of something else, and for an archive.
    """
    kind = kind_of(path)
    if kind is Kind.ARCHIVE:
        requirement = 'be the folder of a run, not of an archive, which has no states'
        raise errors.invalid(argument, requirement, path)
    if kind is Kind.FOREIGN:
        first = (
            sorted(entry.name for entry in path.iterdir())[0]
            if path.is_dir()
            else 'a file'
        )
        requirement = 'name a new folder, an empty one, or that of a run'
        raise errors.invalid(argument, requirement, f'{path}, which holds {first}')
    return kind


def set_aside(argument: str, path: Path) -> Path:
    """Renames the folder of a run that nobody runs, so that its name is free.

    Args:
      argument: what named the folder.
      path: of the folder.

    Returns:
      Where it is now: ``<path>.old-1`` or the next number.

    Raises:
      InvalidError: for a folder that is no run's, or while a process runs it.
    """
    refuse_foreign(argument, path)
    running = sorted((path / CLAIMS).glob('*.lock'))
    lock = file_locks.require(argument, path, path / LOCK, *running)
    try:
        if holders := [file for file in running if file_locks.held(file) is not None]:
            raise file_locks.refused(argument, path, *holders)
        names = (path.with_name(f'{path.name}.old-{k}') for k in itertools.count(1))
        return path.rename(next(name for name in names if not name.exists()))
    finally:
        lock.release(keep=True)


def sweep(path: Path, lane: str | None = None) -> None:
    """Removes temporary files of ours that a killed process left.

    Args:
      path: of the folder, which this process has locked.
      lane: whose saves; by default those of all lanes and of the run itself.
    """
    if lane is None:
        for name in _WRITTEN_BY_RUNS:
            checkpoints.remove_temporaries(path, name)
    checkpoints.tidy(path / CHECKPOINTS, lane)


# What a folder is of.


def read_identity(path: Path) -> RunIdentity | None:
    """Reads the identity of a run or of an archive; None where none is kept.

    Args:
      path: of the folder.

    Raises:
      InvalidError: if the files were changed.
    """
    values = documents.read_json(path, IDENTITY)
    if values is None:
        return None
    arrays: dict[str, np.ndarray] = {}
    examples = path / EXAMPLES
    if examples.exists() and not checksummed_npz.is_proven(examples):
        requirement = f'hold {EXAMPLES} as it was written'
        raise errors.invalid('workdir', requirement, f'{examples}, which has changed')
    try:
        if examples.exists():
            with np.load(examples, allow_pickle=False) as stored:
                arrays = dict(stored)
        return run_from_plain(values, arrays)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        requirement = f'hold {IDENTITY} and {EXAMPLES} as a run writes them'
        raise errors.invalid('workdir', requirement, f'{path}: {error}') from None


def write_identity(path: Path, identity: RunIdentity) -> None:
    """Writes the identity of a run.

    Args:
      path: of the folder.
      identity: what it is of.
    """
    content = checksummed_npz.npz(identity.rows_as_arrays(), compress=False)
    checkpoints.write_whole(path / EXAMPLES, content)
    checkpoints.write_whole(path / IDENTITY, documents.as_json(identity.as_plain()))


def read_description(path: Path) -> Description | None:
    """Reads what a folder says of its experiment; None before it says anything.

    Args:
      path: of the folder.
    """
    facts = documents.read_json(path, EXPERIMENT)
    if facts is None:
        return None
    return Description(facts, documents.read_json(path, CONFIG), read_identity(path))


def check_same(
    argument: str,
    path: Path,
    there: Description,
    here: Description,
    *,
    may_grow: bool,
    allow_changed: bool = False,
) -> list[str]:
    """Compares what a folder is of with what is to run in it, or to be joined with it.

    Args:
      argument: what named the folder.
      path: of the folder.
      there: what it says.
      here: what is to run.
      may_grow: whether rounds and seeds may be more than there.
      allow_changed: whether to go on where programs or data differ.

    Returns:
      What differs, of programs and data; nothing unless that is allowed.

    Raises:
      InvalidError: naming what differs.
    """
    _check_kind(argument, path, there, here)
    grown = [*MAY_GROW] if may_grow else []
    if may_grow:
        _check_growth(path, there, here)
    seeds = here.facts.get('seeds')
    listed = there.facts.get('seeds')
    facts = dict(here.facts)
    if may_grow and isinstance(listed, list) and isinstance(seeds, list):
        facts['seeds'] = seeds[: len(listed)]
    shown_only = [] if _goes_by_metric(there.facts) else ['metric', 'directions']
    spared = (*MAY_DIFFER, *grown, *shown_only)
    fields = [
        f'{field} is {errors.text_of(old)} and not {errors.text_of(new)}'
        for field, old, new in _differences(
            there.config or {}, here.config or {}, 'config', spared
        )
    ]
    in_facts = first_difference(there.facts, facts, 'config', but=spared)
    if in_facts:
        field, old, new = in_facts
        shown = fields[:_MOST_CLAUSES] or [f'{field} is {old!r} and not {new!r}']
        requirement = 'be new or hold a run with the same config'
        raise errors.invalid(argument, requirement, f'{path}, where {"; ".join(shown)}')
    clauses = _identity_differences(there, here)
    known = [*there.facts.get(CHANGED, ()), *here.facts.get(CHANGED, ())]
    new_clauses = [
        clause
        for clause in clauses
        if clause not in known
        and not any(field.startswith(f'config.{clause}') for field in fields)
    ]
    is_changed = any(clause not in known for clause in clauses)
    if is_changed and not allow_changed:
        shown = [*fields[:_MOST_CLAUSES], *new_clauses[:_MOST_CLAUSES]]
        requirement = (
            'be new or hold a run with the same config, programs and data '
            '(--allow_changed goes on all the same)'
        )
        raise errors.invalid(argument, requirement, f'{path}, where {"; ".join(shown)}')
    return list(dict.fromkeys([*known, *clauses]))


def _identity_differences(there: Description, here: Description) -> list[str]:
    if there.identity is None or here.identity is None:
        return ['nothing says of which programs and data it is']
    return run_differences(there.identity, here.identity)


def _goes_by_metric(facts: Mapping[str, Any]) -> bool:
    """Returns whether the metric decides what runs."""
    return facts.get('tuning') is not None or 'until' in facts


def check_begun(argument: str, path: Path, here: Description) -> None:
    """Refuses to go on, without a config, in a folder that was begun with one.

    Args:
      argument: what named the folder.
      path: of a folder without a description.
      here: what is to run.

    Raises:
      InvalidError: naming the folder.
    """
    config = documents.read_json(path, CONFIG)
    if config is not None:
        _check_kind(argument, path, Description({}, config, None), here)


def _check_kind(
    argument: str, path: Path, there: Description, here: Description
) -> None:
    """Refuses a run of a config where one of Python is to run, and the other way round."""
    if (there.config is None) == (here.config is None):
        return
    kinds = 'an experiment made in Python', 'one that a config describes'
    ours, theirs = kinds if here.config is None else kinds[::-1]
    requirement = f'be new or hold a run of {ours}'
    raise errors.invalid(argument, requirement, f'{path}, of {theirs}')


def _check_growth(path: Path, there: Description, here: Description) -> None:
    """Refuses fewer rounds or seeds than the folder has."""
    pairs = [(there.facts, here.facts), (there.config or {}, here.config or {})]
    for name, words in MAY_GROW.items():
        for old, new in pairs:
            if name == 'num_seeds' and old.get('seeds') != new.get('seeds'):
                continue  # seeds counted in another way are no fewer seeds
            most = old.get(name, 1)
            requested = new.get(name, 1)
            if requested < most:
                requirement = f'be at least {most}, the {words} of {path}'
                raise errors.invalid(name, requirement, requested)


def first_difference(
    there: Any, here: Any, field: str = 'config', but: Collection[str] = ()
) -> tuple[str, Any, Any] | None:
    """Finds where two descriptions of an experiment part.

    Args:
      there: values by name, which may be descriptions themselves.
      here: likewise.
      field: what they describe.
      but: names at the top that may differ.

    Returns:
      The first field that differs and its two values; None if nothing does.
    """
    return next(_differences(there, here, field, but), None)


def _differences(
    there: Any, here: Any, field: str, but: Collection[str]
) -> Iterator[tuple[str, Any, Any]]:
    """Yields each field that differs, and its two values."""
    if not (isinstance(there, Mapping) and isinstance(here, Mapping)):
        if there != here:
            yield field, there, here
        return
    for name in sorted({*there, *here} - {*but}):
        yield from _differences(there.get(name), here.get(name), f'{field}.{name}', ())


@contextlib.contextmanager
def exclusive(argument: str, path: Path) -> Iterator[file_locks.Claim]:
    """Locks a folder for one process, its shards' processes kept out as well.

    Args:
      argument: what named the folder.
      path: of the folder, which is there.

    Yields:
      The lock.

    Raises:
      InvalidError: naming who holds it.
    """
    running = sorted((path / CLAIMS).glob('shard-*.lock'))
    lock = file_locks.require(argument, path, path / LOCK, *running)
    try:
        yield lock
    finally:
        lock.release(keep=True)
