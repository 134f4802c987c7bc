"""Writes files so that a reader sees either the old content or all of the new one."""

import os
import re
import secrets
from pathlib import Path

_TEMPORARY = re.compile(r'\.(.+)\.\d+-[0-9a-f]{8}\.partial')


def write(path: Path, content: bytes) -> None:
    """Replaces a file; after a crash it holds either the whole old or the whole new content."""
    temporary = temporary_name(path)
    try:
        with temporary.open('wb') as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    # Without this sync, a power cut can lose the renaming though the content is on the disk.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def temporary_name(path: Path) -> Path:
    """Returns a path beside a file; no other process or thread gets the same path."""
    unique = f'{os.getpid()}-{secrets.token_hex(4)}'
    return path.with_name(f'.{path.name}.{unique}.partial')


def is_temporary(path: Path) -> bool:
    """Returns whether a path is a `temporary_name`."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_temporaries(folder: Path, name: str) -> None:
    """Removes temporary files of the file ``name`` that killed processes left in a folder.

    The caller must have locked the file, as temporary files that another process still writes are
    removed too.
    """
    for path in folder.glob('.*.partial'):
        temporary = _TEMPORARY.fullmatch(path.name)
        if temporary and temporary[1] == name:
            path.unlink(missing_ok=True)
