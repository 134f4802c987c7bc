"""Says what a folder holds, refuses files that are no run's, and locks run folders.

A shard is a part of a run's lanes (`planning.lanes.Lane`) that one process runs. Runs, shards,
`merge`, forks and ``--start_over`` all open a folder in this order:

1. Refuse a folder that is neither empty nor a run's. Nothing in the folder is touched.
2. Lock the folder.
3. Compare the run in the folder with the run to start (`descriptions.check_same`).
4. Only then remove temporary files and write.
"""

import contextlib
import enum
import itertools
from collections.abc import Iterator
from pathlib import Path

from fedjax_links.core import errors
from fedjax_links.storage import (
    atomic_files,
    checkpoints,
    checksummed_npz,
    documents,
    file_locks,
)
from fedjax_links.storage.run_files import (
    CHECKPOINTS,
    CLAIMS,
    CONFIG,
    EXAMPLES,
    EXPERIMENT,
    IDENTITY,
    LOCK,
    OPENING,
    WRITTEN_BY_RUNS,
)


class Kind(enum.Enum):
    """Describes what lies at a path that a user names as run folder."""

    NOTHING = 'nothing'
    STARTED = 'a run that was stopped before it had a description'
    RUN = 'a run'
    ARCHIVE = 'an archive'
    FOREIGN = 'files of something else'


def kind_of(path: Path) -> Kind:
    """Says what lies at a path, and changes nothing.

    Args:
      path: of a folder, which need not exist.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return Kind.NOTHING
    if not path.is_dir():
        return Kind.FOREIGN
    if documents.has_digest(path / EXPERIMENT):
        return Kind.ARCHIVE if (path / checksummed_npz.METRICS).exists() else Kind.RUN
    is_started = all(_is_written_first(entry) for entry in path.iterdir())
    return Kind.STARTED if is_started else Kind.FOREIGN


def _is_written_first(entry: Path) -> bool:
    """Returns whether an entry of a folder is one that a run writes before `EXPERIMENT`."""
    if atomic_files.is_temporary(entry):
        return True
    if entry.name == CHECKPOINTS:
        return entry.is_dir() and all(map(atomic_files.is_temporary, entry.iterdir()))
    if entry.name == CLAIMS:
        return entry.is_dir() and all(map(_is_lock_or_temporary, entry.iterdir()))
    if entry.name in (LOCK, OPENING):
        return file_locks.is_lock(entry)
    if entry.name in (CONFIG, IDENTITY):
        return documents.has_digest(entry)
    if entry.name == EXAMPLES:
        return entry.is_file() and checksummed_npz.is_verified(entry)
    return False


def _is_lock_or_temporary(path: Path) -> bool:
    return atomic_files.is_temporary(path) or file_locks.is_lock(path)


def refuse_foreign(argument: str, path: Path) -> Kind:
    """Refuses a folder that holds something other than a run, and changes nothing.

    Args:
      argument: name of the argument or flag that gave the folder, for errors.
      path: of the folder, which need not exist.

    Returns:
      What the folder holds: nothing, a run that was started, or a run.

    Raises:
      ValueError: for files of something else, and for an archive.
    """
    refuse_archive(argument, path)
    kind = kind_of(path)
    if kind is Kind.FOREIGN:
        first = 'a file'
        if path.is_dir():
            first = min(entry.name for entry in path.iterdir())
        requirement = 'name a new folder, an empty one, or that of a run'
        raise errors.invalid(argument, requirement, f'{path}, which holds {first}')
    return kind


def refuse_archive(argument: str, path: Path) -> None:
    """Refuses the folder of an archive (`checksummed_npz`).

    Args:
      argument: as in `refuse_foreign`.
      path: of the folder, which need not exist.

    Raises:
      ValueError: naming the folder.
    """
    if kind_of(path) is Kind.ARCHIVE:
        requirement = 'be the folder of a run, not of an archive, which has no states'
        raise errors.invalid(argument, requirement, path)


def set_aside(argument: str, path: Path) -> Path:
    """Renames the folder of a run that is not in progress, so that its name is free.

    Args:
      argument: as in `refuse_foreign`.
      path: of the folder.

    Returns:
      The new path: ``<path>.old-1`` or the next free number.

    Raises:
      ValueError: for a folder that is no run's, for a path without a name, or while a process runs
        in the folder.
    """
    if path.name in ('', '..'):
        requirement = "be the path of a folder by its name, which '.' and '..' are not"
        raise errors.invalid(argument, requirement, path)
    refuse_foreign(argument, path)
    with exclusive(argument, path):
        claims = sorted((path / CLAIMS).glob('*.lock'))
        in_use = [file for file in claims if file_locks.holder_info(file) is not None]
        if in_use:
            raise file_locks.in_use_error(argument, path, *in_use)
        for number in itertools.count(1):
            target = path.with_name(f'{path.name}.old-{number}')
            if not target.exists():
                break
        return path.rename(target)


def remove_temporaries(path: Path, lane: str | None = None) -> None:
    """Removes temporary files that a killed process left in a run folder.

    Args:
      path: of the folder, which this process has locked.
      lane: the lane whose temporary files are removed; by default all lanes and the run itself.
    """
    if lane is None:
        for name in WRITTEN_BY_RUNS:
            atomic_files.remove_temporaries(path, name)
    checkpoints.remove_partial_files(path / CHECKPOINTS, lane)


@contextlib.contextmanager
def exclusive(argument: str, path: Path) -> Iterator[file_locks.FileLock]:
    """Locks a folder for this process alone; processes that run shards are excluded, too.

    Args:
      argument: as in `refuse_foreign`.
      path: of the folder, which exists.

    Yields:
      The lock.

    Raises:
      ValueError: naming the process that holds the folder.
    """
    running = sorted((path / CLAIMS).glob('shard-*.lock'))
    lock = file_locks.acquire_or_refuse(argument, path, path / LOCK, *running)
    try:
        yield lock
    finally:
        lock.release(keep=True)
