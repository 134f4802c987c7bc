"""Files that one process at a time holds, on this machine or on others with the same disk.

A claim is a lock of the operating system (``flock``): it ends with the process that holds it,
however that ends. A network disk must pass such locks on, as NFS 4 and Lustre with ``-o flock`` do.
"""

import contextlib
import fcntl
import json
import os
import platform
import time
from pathlib import Path
from typing import IO, Any

from fedjax_links.core import errors


class Claim:
    """A file that this process holds."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        """Holds it, see `take`."""
        self._path, self._file = path, file

    def release(self, *, keep: bool = False) -> None:
        """Lets others hold it, who find no file unless it is kept."""
        if not keep:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def say(self, **facts: Any) -> None:
        """Tells others who holds it, and more.

        Args:
          **facts: plain values.
        """
        self._file.seek(0)
        self._file.truncate(0)
        self._file.write(json.dumps({'holder': own_name(), 'since': time.time(), **facts}))
        self._file.flush()


def own_name() -> str:
    """What others are told of this process."""
    return f'process {os.getpid()} on {platform.node()}'


def take(path: Path, **facts: Any) -> Claim | None:
    """A claim of a file, which is made if there is none; None if another process holds it.

    Args:
      path: of the file, in a folder that is there.
      **facts: as in `Claim.say`.
    """
    tries = iter((0.05, 0.1))
    while True:
        file = path.open('a+')
        if not _lock(file, fcntl.LOCK_EX):
            file.close()
            if (pause := next(tries, None)) is None:
                return None
            time.sleep(pause)  # somebody may only be looking, see `held`
            continue
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                claim = Claim(path, file)
                claim.say(**facts)
                return claim
        file.close()  # its holder took it away between our two steps


def require(argument: str, folder: Path, path: Path, *others: Path) -> Claim:
    """As `take`, of a file that nobody may hold.

    Args:
      argument: what named the folder.
      folder: of the file.
      path: of the file.
      *others: files whose holders keep the file, too.

    Raises:
      InvalidError: naming who holds one of them.
    """
    claim = take(path)
    if claim is None:
        raise refused(argument, folder, path, *others)
    return claim


def share(path: Path) -> IO[str] | None:
    """A lock of a file that keeps `take` away and no other `share`; None if it is taken."""
    file = path.open('a+')
    if _lock(file, fcntl.LOCK_SH):
        return file
    file.close()
    return None


def held(path: Path) -> dict[str, Any] | None:
    """What the holder of a file says; None if nobody holds it.

    Args:
      path: of the file, there or not.
    """
    with contextlib.suppress(FileNotFoundError), path.open() as file:
        if _lock(file, fcntl.LOCK_SH):
            return None
        return said(path) or {'holder': 'another process'}
    return None


def said(path: Path) -> dict[str, Any]:
    """What the last holder of a file has said; nothing where that cannot be read."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {}


def _lock(file: IO[str], kind: int) -> bool:
    """Whether the lock could be had; it ends where the file is closed."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def refused(argument: str, path: Path, *files: Path) -> errors.InvalidError:
    """What is wrong with an argument one of whose files another process holds."""
    holders = (found['holder'] for file in files if (found := held(file)) is not None)
    holder = next(holders, 'another process')
    return errors.invalid(argument, 'not be in use', f'{path}, by {holder}')
