"""Writes files so that a reader sees either the old content or all of the new one."""

import glob
import os
import re
import secrets
from pathlib import Path

_TEMPORARY = re.compile(r'\..+\.\d+-[0-9a-f]{8}\.partial')


def write(path: Path, content: bytes) -> None:
    """Replaces a file, so that a crash leaves either all of it or the old one."""
    temporary = temporary_name(path)
    try:
        with temporary.open('wb') as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    # The folder's entry must reach the disk, too.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def temporary_name(path: Path) -> Path:
    """Returns a name beside a file that no other process or thread uses."""
    unique = f'{os.getpid()}-{secrets.token_hex(4)}'
    return path.with_name(f'.{path.name}.{unique}.partial')


def is_temporary(path: Path) -> bool:
    """Tells whether a path is a `temporary_name`."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_temporaries(folder: Path, name: str) -> None:
    """Removes what killed processes left of writing a file of a folder."""
    for file in folder.glob(f'.{glob.escape(name)}.*'):
        if is_temporary(file):
            file.unlink(missing_ok=True)
