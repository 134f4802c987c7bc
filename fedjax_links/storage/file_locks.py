"""Files that one process at a time holds, on this machine or on others with the same disk.

A claim is a lock of the operating system (``flock``): it ends with the process that holds it,
however that ends. A network disk must pass such locks on, as NFS 4 and Lustre with ``-o flock`` do.
Where there are no such locks, nobody can know who is at work, and a run is refused.
"""

import contextlib
import errno
import json
import os
import platform
import time
from pathlib import Path
from typing import IO, Any

from fedjax_links.core import errors

try:
    import fcntl
except ImportError:  # an operating system without them
    fcntl = None  # type: ignore[assignment]

_HELD_BY_OTHERS = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_KINDS = {'holder': str, 'since': float, 'rounds': int, 'lanes': int, 'ahead': int}
"""Of what a holder says."""


class FileLock:
    """A file that this process holds."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        """Holds it, see `acquire`."""
        self._path, self._file = path, file

    def release(self, *, keep: bool = False) -> None:
        """Lets others hold it, who find no file unless it is kept."""
        if not keep:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def write_info(self, **facts: Any) -> None:
        """Tells others who holds it, and more.

        Args:
          **facts: plain values.
        """
        self._file.seek(0)
        self._file.truncate(0)
        self._file.write(
            json.dumps({'holder': process_name(), 'since': time.time(), **facts})
        )
        self._file.flush()


def process_name() -> str:
    """What others are told of this process."""
    return f'process {os.getpid()} on {platform.node()}'


def acquire(path: Path, **facts: Any) -> FileLock | None:
    """A claim of a file, which is made if there is none; None if another process holds it.

    Args:
      path: of the file, in a folder that is there.
      **facts: as in `FileLock.write_info`.
    """
    tries = iter((0.05, 0.1))
    while True:
        file = _opened(path)
        if not _lock(file):
            file.close()
            if (pause := next(tries, None)) is None:
                return None
            time.sleep(pause)  # somebody may only be looking, see `holder_info`
            continue
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                claim = FileLock(path, file)
                claim.write_info(**facts)
                return claim
        file.close()  # its holder took it away between our two steps


def acquire_or_refuse(
    argument: str, folder: Path, path: Path, *others: Path
) -> FileLock:
    """As `acquire`, of a file that nobody may hold.

    Args:
      argument: what named the folder.
      folder: of the file.
      path: of the file.
      *others: files whose holders keep the file, too.

    Raises:
      InvalidError: naming who holds one of them.
    """
    claim = acquire(path)
    if claim is None:
        raise in_use_error(argument, folder, path, *others)
    return claim


def acquire_shared(path: Path) -> IO[str] | None:
    """Acquires a shared lock, which excludes `acquire` alone; None if the file is taken."""
    file = _opened(path)
    if _lock(file, shared=True):
        return file
    file.close()
    return None


def holder_info(path: Path) -> dict[str, Any] | None:
    """What the holder of a file says; None if nobody holds it.

    Args:
      path: of the file, there or not.
    """
    with contextlib.suppress(FileNotFoundError), path.open() as file:
        if _lock(file, shared=True):
            return None
        return {'holder': 'another process', **read_info(path)}
    return None


def read_info(path: Path) -> dict[str, Any]:
    """What the last holder of a file has said; nothing where that cannot be read."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        found = json.loads(path.read_text())
        known = found.items() if isinstance(found, dict) else ()
        return {
            name: value
            for name, value in known
            if isinstance(value, _KINDS.get(name, object))
        }
    return {}


def is_lock(path: Path) -> bool:
    """Returns whether a file is one that is held here: empty, or what its holder said."""
    if not path.is_file():
        return False
    if path.stat().st_size == 0:
        return True
    return 'holder' in read_info(path)


def _opened(path: Path) -> IO[str]:
    """Opens a file that is made if there is none; no link, which would lead elsewhere."""
    no_link = getattr(os, 'O_NOFOLLOW', 0)

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | no_link, 0o666)

    return open(path, 'a+', opener=opener)


def _lock(file: IO[str], *, shared: bool = False) -> bool:
    """Whether the lock could be had; it ends where the file is closed.

    Raises:
      InvalidError: where the disk or the operating system has no locks.
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
    requirement = 'lie on a disk with file locks (flock), such as a local one'
    return errors.invalid('workdir', requirement, f'{Path(path).parent}: {reason}')


def in_use_error(argument: str, path: Path, *files: Path) -> errors.InvalidError:
    """What is wrong with an argument one of whose files another process holds."""
    holders = (
        found['holder'] for file in files if (found := holder_info(file)) is not None
    )
    holder = next(holders, 'another process')
    return errors.invalid(argument, 'not be in use', f'{path}, by {holder}')
