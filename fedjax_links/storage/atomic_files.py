"""Writes files so that a reader sees either the old content or all of the new one."""

import os
import re
import secrets
from pathlib import Path

_TEMPORARY = re.compile(r'\.(.+)\.\d+-[0-9a-f]{8}\.partial')


def write(path: Path, content: bytes) -> None:
    """Replaces a file, so that a crash leaves either its old or its new content whole."""
    temporary = temporary_name(path)
    try:
        with temporary.open('wb') as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    # Without this, a power cut can lose the renaming though the content is on the disk.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def temporary_name(path: Path) -> Path:
    """Returns a path in the folder of a file that no other process or thread uses."""
    unique = f'{os.getpid()}-{secrets.token_hex(4)}'
    return path.with_name(f'.{path.name}.{unique}.partial')


def is_temporary(path: Path) -> bool:
    """Returns whether a path is a `temporary_name`."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_temporaries(folder: Path, name: str) -> None:
    """Removes what killed processes left of a file in a folder.

    The caller has locked the file: temporary files of a process that is still writing go as well.
    """
    for path in folder.glob('.*.partial'):
        temporary = _TEMPORARY.fullmatch(path.name)
        if temporary and temporary[1] == name:
            path.unlink(missing_ok=True)
