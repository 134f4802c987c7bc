"""Locks files for one process at a time, on this machine or on others with the same disk.

A lock is a lock of the operating system (``flock``). It ends when the process that holds it ends,
in whatever way. A network disk must support such locks, as NFS 4 and Lustre with ``-o flock`` do.
Without locks, no process can know what other processes run, so the package refuses to run.
"""

import contextlib
import errno
import json
import os
import platform
import time
from pathlib import Path
from typing import IO

from fedjax_links.core import errors
from fedjax_links.core.records import Section

try:
    import fcntl
except ImportError:  # an operating system without such locks
    fcntl = None  # type: ignore[assignment]

_PAUSES = (0.05, 0.1)  # Seconds between attempts.
_HELD_BY_OTHERS = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_KINDS = {
    'holder': str,
    'since': float,
    'rounds': int,
    'lanes': int,
    'ahead': int,
    'running': int,
}
"""Types of the facts that the holder of a lock writes into its file.

A lane is one simulation of a run. ``rounds`` counts the rounds that the holder's lanes had
completed when the holder started. ``lanes`` counts the lanes that the holder knows, and ``ahead``
counts all their rounds. ``running`` counts lanes in progress.
"""


class FileLock:
    """Holds a lock until it is released, or the process ends."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        """Wraps a file that `acquire` has locked."""
        self._path = path
        self._file = file
        self._info: dict[str, object] = {}

    def release(self, *, keep: bool = False) -> None:
        """Releases the lock, and removes the lock's file unless ``keep`` is set."""
        if not keep:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def write_info(self, **facts: object) -> None:
        """Writes into the lock's file which process holds the lock, and further facts.

        Args:
          **facts: plain values.
        """
        self._info = {'holder': process_name(), 'since': time.time(), **facts}
        self._write()

    def update_info(self, **facts: object) -> None:
        """Replaces some of the facts.

        The file keeps its time of change, so others can read from it when the process began.

        Args:
          **facts: as in `write_info`.
        """
        self._info |= facts
        start_ns = os.fstat(self._file.fileno()).st_mtime_ns
        self._write()
        os.utime(self._file.fileno(), ns=(start_ns, start_ns))

    def _write(self) -> None:
        """Overwrites the previous facts in place, so that a reader never finds an empty file."""
        text = json.dumps(self._info)
        num_bytes = os.fstat(self._file.fileno()).st_size
        self._file.seek(0)
        self._file.write(text.ljust(num_bytes))
        self._file.flush()


def process_name() -> str:
    """Returns the name by which messages call this process."""
    return f'process {os.getpid()} on {platform.node()}'


def acquire(path: Path) -> FileLock | None:
    """Acquires the lock of a file, which it creates if needed.

    Args:
      path: of the file, in an existing folder.

    Returns:
      The lock; None if another process holds it.
    """
    pauses = iter(_PAUSES)
    while True:
        file = _open(path)
        is_locked = _lock(file)
        if is_locked and _is_file_at(path, file):
            lock = FileLock(path, file)
            lock.write_info()
            return lock
        file.close()
        if is_locked:
            # The previous holder removed the file after it was opened here, so open a new file.
            continue
        # `holder_info` of another process locks a file for a moment, so try again.
        pause = next(pauses, None)
        if pause is None:
            return None
        time.sleep(pause)


def _is_file_at(path: Path, file: IO[str]) -> bool:
    """Returns whether an open file is still the file at a path."""
    try:
        return os.fstat(file.fileno()).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def acquire_or_refuse(
    argument: str, folder: Path, path: Path, *others: Path
) -> FileLock:
    """Acquires the lock of a file, or raises if another process holds it.

    Args:
      argument: the argument that named the folder.
      folder: of the file.
      path: of the file.
      *others: further locks. If the file's holder is unknown, the error names a holder of these.

    Raises:
      ValueError: with the name of the holder.
    """
    lock = acquire(path)
    if lock is None:
        raise in_use_error(argument, folder, path, *others)
    return lock


def acquire_shared(path: Path) -> IO[str] | None:
    """Acquires a shared lock, which excludes `acquire` but no shared lock; None if it fails."""
    file = _open(path)
    if _lock(file, shared=True):
        return file
    file.close()
    return None


def holder_info(path: Path) -> Section | None:
    """Returns the facts that the holder of a lock wrote; None if no process holds it.

    Args:
      path: of the file, which need not exist.
    """
    with contextlib.suppress(FileNotFoundError), path.open() as file:
        if _lock(file, shared=True):
            return None
        return {'holder': 'another process', **read_info(path)}
    return None


def read_info(path: Path) -> Section:
    """Reads the facts that the last holder of a lock wrote; empty if they are unreadable."""
    with contextlib.suppress(FileNotFoundError, ValueError, RecursionError):
        facts = json.loads(path.read_text())
        if isinstance(facts, dict):
            return {
                name: value
                for name, value in facts.items()
                if isinstance(value, _KINDS.get(name, object))
            }
    return {}


def is_lock(path: Path) -> bool:
    """Returns whether a file is a lock: it is empty, or holds what a holder wrote."""
    if not path.is_file():
        return False
    if path.stat().st_size == 0:
        return True
    return 'holder' in read_info(path)


def _open(path: Path) -> IO[str]:
    """Opens or creates a file; refuses a symbolic link, which would lead elsewhere."""
    no_link = getattr(os, 'O_NOFOLLOW', 0)

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CREAT | no_link, 0o666)

    return open(path, 'r+', opener=opener)


def _lock(file: IO[str], *, shared: bool = False) -> bool:
    """Locks a file until it is closed; returns False if another process holds it.

    Raises:
      ValueError: where the disk or the operating system has no locks.
    """
    if fcntl is None:
        raise _without_locks(file.name, 'this operating system has none')
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD_BY_OTHERS:
            return False
        raise _without_locks(file.name, str(error.strerror)) from None
    return True


def _without_locks(path: str, reason: str) -> errors.InvalidError:
    """Builds the error for a disk or an operating system without locks."""
    requirement = 'lie on a disk with file locks (flock), such as a local one'
    return errors.invalid('workdir', requirement, f'{Path(path).parent}: {reason}')


def in_use_error(argument: str, folder: Path, *locks: Path) -> errors.InvalidError:
    """Builds the error for a folder of which another process holds a lock."""
    holder = 'another process'
    for path in locks:
        info = holder_info(path)
        if info is not None:
            holder = info['holder']
            break
    return errors.invalid(argument, 'not be in use', f'{folder}, by {holder}')
