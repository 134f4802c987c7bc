"""Writes files of commands to a folder of the user's choice, and overwrites no file of others.

The folder keeps a list of the files that commands wrote, with digests. A file that is not in the
list, or was changed since, counts as the user's own. A command that would overwrite such a file is
refused before it writes anything. Before a command overwrites a file, it adds the digests of the
old and the new content to the list. So a command may be killed at any moment, and a later command
still knows the file. In the folder of a run, files may be overwritten.
"""

from collections.abc import Collection, Iterable
from pathlib import Path

from fedjax_links.core import digests, errors
from fedjax_links.storage import atomic_files, documents, run_access

LIST = '.written.json'


def check(argument: str, folder: Path, names: Iterable[str]) -> None:
    """Refuses to overwrite a file that no command wrote, and changes nothing.

    Args:
      argument: name of the argument or flag that gave the folder, for errors.
      folder: need not exist.
      names: of the files to write, below the folder.

    Raises:
      ValueError: naming the file, or what lies in the folder's place.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir():
        value = f'{folder}, where {existing} is a file'
        raise errors.invalid(argument, 'name a folder', value)
    if run_access.kind_of(folder) is run_access.Kind.RUN:
        return
    known = _read(folder)
    for name in names:
        path = folder / name
        if path.is_dir():
            raise errors.invalid(argument, f'hold no folder {name}', folder)
        if path.exists() and digests.hash_bytes(path.read_bytes()) not in known.get(
            name, ()
        ):
            requirement = f'hold no other {name}, which would be overwritten'
            raise errors.invalid(argument, requirement, folder)


def write(argument: str, folder: Path, files: Iterable[tuple[str, bytes]]) -> list[str]:
    """Writes files, each completely or not at all.

    Args:
      argument: as in `check`.
      folder: made if missing.
      files: pairs of name below the folder, and content. A collection is checked before anything is
        written. For an iterator, call `check` with the names first.

    Returns:
      The names of the written files.

    Raises:
      ValueError: as `check`.
    """
    written: list[str] = []
    with errors.on_disk(folder):
        if isinstance(files, Collection):
            check(argument, folder, [name for name, _ in files])
        for name, content in files:
            check(argument, folder, [name])
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if run_access.kind_of(folder) is not run_access.Kind.RUN:
                _list_file(folder, name, content)
            atomic_files.write(path, content)
            written.append(name)
    return written


def _list_file(folder: Path, name: str, content: bytes) -> None:
    """Adds the digests of the old and of the new content of a file to the list."""
    path = folder / name
    known_digests: list[str] = []
    if path.exists():
        known_digests.append(digests.hash_bytes(path.read_bytes()))
    known_digests.append(digests.hash_bytes(content))
    files = {**_read(folder), name: known_digests}
    list_content = documents.as_json({'files': files})
    atomic_files.write(folder / LIST, list_content)


def _read(folder: Path) -> dict[str, list[str]]:
    """Returns the digests in the list, by file; empty if the list is not of this package."""
    if not documents.has_digest(folder / LIST):
        return {}
    try:
        files = documents.read_json(folder, LIST)['files']
    except (errors.InvalidError, KeyError):
        return {}
    if not isinstance(files, dict):
        return {}
    return {name: entry for name, entry in files.items() if isinstance(entry, list)}
