"""Files that commands write into a folder of the user's choice; no file of others is overwritten.

The folder keeps a list of what was written, with digests. A file that the list does not have, or
that was changed since, is the user's own, and the command is refused before it writes anything.
Before a file is written again the list has the digests of both, the one that lies there and the one
that is to come: so a process may be killed at any moment, and the next one knows the file.
Into the folder of a run everything goes that reports write there anyway.
"""

from collections.abc import Iterable
from pathlib import Path

from fedjax_links.core import digests, errors
from fedjax_links.storage import checkpoints, documents, run_access

LIST = '.written.json'


def check(argument: str, folder: Path, names: Iterable[str]) -> None:
    """Refuses to overwrite a file that no command of ours wrote; only looks.

    Args:
      argument: what named the folder.
      folder: there or not.
      names: of the files to write, below the folder.

    Raises:
      InvalidError: naming the file, or what lies in the folder's place.
    """
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise errors.invalid(
            argument, 'name a folder', f'{folder}, where {there} is a file'
        )
    if run_access.kind_of(folder) is run_access.Kind.RUN:
        return
    known = _read(folder)
    for name in names:
        path = folder / name
        if path.is_dir():
            raise errors.invalid(argument, f'have no folder {name}', folder)
        if path.exists() and digests.of_bytes(path.read_bytes()) not in known.get(
            name, ()
        ):
            requirement = f'have no {name} of somebody else, which would be overwritten'
            raise errors.invalid(argument, requirement, folder)


def write(argument: str, folder: Path, files: Iterable[tuple[str, bytes]]) -> list[str]:
    """Writes files, each whole or not at all.

    Args:
      argument: what named the folder.
      folder: made if missing.
      files: names below the folder, and contents.

    Returns:
      The names.

    Raises:
      InvalidError: as `check`.
    """
    written: list[str] = []
    with errors.on_disk(folder):
        for name, content in files:
            check(argument, folder, [name])
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if run_access.kind_of(folder) is not run_access.Kind.RUN:
                there = [digests.of_bytes(path.read_bytes())] if path.exists() else []
                known = {**_read(folder), name: [*there, digests.of_bytes(content)]}
                checkpoints.write_atomically(
                    folder / LIST, documents.as_json({'files': known})
                )
            checkpoints.write_atomically(path, content)
            written.append(name)
    return written


def _read(folder: Path) -> dict[str, list[str]]:
    """Returns digests of what was written, by name; none where the list is not ours."""
    if not documents.has_digest(folder / LIST):
        return {}
    try:
        files = documents.read_json(folder, LIST)['files']
    except (errors.InvalidError, KeyError):
        return {}
    if not isinstance(files, dict):
        return {}
    return {
        name: [kept] if isinstance(kept, str) else list(kept)
        for name, kept in files.items()
    }
