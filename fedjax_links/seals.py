"""Files under a digest: what is read is what was written, or an error says that it is not.

The digests stand in a file of their own. A file is written after its new digest was added and
before its old one is taken away, so a crash in between leaves a file that one of them fits.
"""

import hashlib
import json
from pathlib import Path

from fedjax_links import checkpoints, errors

SEALS = 'checkpoints/seals.json'


def write(folder: Path, name: str, content: bytes) -> None:
    """Writes a file of a folder, whole or not at all.

    Args:
      folder: of a run.
      name: of the file.
      content: of the file.
    """
    seals = _seals(folder)
    new = hashlib.sha256(content).hexdigest()
    if seals.get(name) != [new]:
        _set(folder, {**seals, name: [*seals.get(name, []), new]})
    checkpoints.write_whole(folder / name, content)
    _set(folder, {**seals, name: [new]})


def read(folder: Path, name: str) -> bytes | None:
    """Reads a file of a folder.

    Args:
      folder: of a run.
      name: of the file.

    Returns:
      Its content, unproven where no digest is kept; None if there is no such file.

    Raises:
      ValueError: if it was changed.
    """
    path = folder / name
    if not path.exists():
        return None
    content = path.read_bytes()
    seals = _seals(folder)
    if name in seals and hashlib.sha256(content).hexdigest() not in seals[name]:
        raise _changed(path)
    return content


def _seals(folder: Path) -> dict[str, list[str]]:
    path = folder / SEALS
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
        return {str(name): [str(seal) for seal in seals] for name, seals in found.items()}
    except (ValueError, AttributeError, TypeError):
        raise _changed(path) from None


def _set(folder: Path, seals: dict[str, list[str]]) -> None:
    if seals != _seals(folder):
        text = json.dumps(seals, indent=1, sort_keys=True) + '\n'
        checkpoints.write_whole(folder / SEALS, text.encode())


def _changed(path: Path) -> ValueError:
    return errors.invalid(
        'workdir',
        'hold files as they were written (--start_over sets them aside and begins again)',
        f'{path}, which has changed',
    )
