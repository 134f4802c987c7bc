"""Downloads of published files: verified, resumed where they broke off, never half a file."""

import hashlib
import http.client
import os
import pathlib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fedjax_links import errors
from fedjax_links.problems.datasets import places
from fedjax_links.problems.datasets.places import PathLike
from fedjax_links.raw_data import converting
from fedjax_links.raw_data.converting import Done, megabytes
from fedjax_links.raw_data.recipes import RECIPES, File

Report = Callable[[str, int, int], None]
"""Takes the name of a file, the bytes that are there and the bytes of the whole."""

_SECONDS = 30  # without an answer
_BLOCK = 1 << 18


class Fetched(NamedTuple):
    """What a download and its conversion leave.

    Attributes:
      done: the npz.
      downloads: folder of the publisher's files.
      unpublished: SHA-256 by name of the files for which none is published.
    """

    done: Done
    downloads: pathlib.Path
    unpublished: dict[str, str]


def fetch(
    name: str,
    *,
    data_dir: PathLike | None = None,
    mirror: str | None = None,
    report: Report = lambda name, now, whole: None,
) -> Fetched:
    """Downloads a data set from its publisher and converts it.

    Files that are there already are kept if their checksums hold, and a download that broke off
    goes on where it was.

    Args:
      name: a name in `RECIPES`, or ``emnist``.
      data_dir: folder of the npz, see `places.data_root`; the publisher's files go to its
        ``downloads``.
      mirror: address of a folder with files of the same names, to be used in the publisher's place.
      report: called after every block.

    Returns:
      What is there now.

    Raises:
      ValueError: if the place cannot be reached, breaks off or holds something else, or the disk is
        full.
      ImportError: if pooch is not installed.
    """
    name = converting.full_name(name)
    recipe = RECIPES[name]
    folder = places.data_root(data_dir) / 'downloads' / recipe.folder
    with errors.on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for file in recipe.files:
        url = file.url if mirror is None else f'{mirror.rstrip("/")}/{file.name}'
        _fetch_file(file, url, folder, report)
    unpublished = {
        file.name: _sha256(folder / file.name)
        for file in recipe.files
        if not file.digest.startswith('sha256:')
    }
    return Fetched(converting.convert(name, folder, data_dir=data_dir), folder, unpublished)


def _fetch_file(file: File, url: str, folder: pathlib.Path, report: Report) -> None:
    try:
        import pooch  # needed by nothing else
    except ImportError as error:
        packages = "'fedjax_links[data]'"
        raise errors.missing_package('downloads need pooch', packages) from error
    pooch.get_logger().setLevel('ERROR')
    part = folder / f'{file.name}.part'

    def download(url: str, output_file: str, _: Any) -> None:
        _complete(part, file, url, report)
        os.replace(part, output_file)

    with errors.on_disk(folder):
        try:
            pooch.retrieve(url, file.digest, fname=file.name, path=folder, downloader=download)
        except errors.InvalidError:
            raise
        except ValueError:  # pooch's word for another checksum
            said = 'a file of another checksum'
            raise errors.invalid(
                'fetch', f'get the published {file.name} from {url}', said
            ) from None


def _complete(part: pathlib.Path, file: File, url: str, report: Report) -> None:
    """Appends to what is there of a file until it is whole."""
    have = part.stat().st_size if part.is_file() else 0
    if have > file.size:
        part.unlink()
        have = 0
    converting.check_room(part.parent, file.size - have)
    if have == file.size:
        return
    for start, block in _blocks(url, have, file.size):
        with open(part, 'ab' if start else 'wb') as stream:
            stream.write(block)
        have = start + len(block)
        report(file.name, have, file.size)
    if have != file.size:
        raise _broken_off(url, have, file.size)


def _blocks(url: str, have: int, size: int) -> Iterator[tuple[int, bytes]]:
    """What follows the bytes that are there, or all anew from a server that cannot resume.

    Yields:
      Where a block begins in the file, and the block.
    """
    headers = {'User-Agent': 'fedjax_links', **({'Range': f'bytes={have}-'} if have else {})}
    try:
        request = urllib.request.Request(url, headers=headers)
        answer = urllib.request.urlopen(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        raise errors.invalid('fetch', f'find {url}', f'{error.code} {error.reason}') from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        said = getattr(error, 'reason', None) or error
        raise errors.invalid(
            'fetch', f'reach {url} (or another place by --mirror=URL)', said
        ) from None
    with answer:
        start = have if answer.status == 206 else 0
        announced = answer.headers.get('Content-Length')
        if announced is not None and start + int(announced) != size:
            got = f'{start + int(announced)} at {url}'
            raise errors.invalid('fetch', f'get the published {size} bytes', got)
        while True:
            try:
                block = answer.read(_BLOCK)
            except (OSError, http.client.HTTPException):
                raise _broken_off(url, start, size) from None
            if not block:
                return
            yield start, block
            start += len(block)


def _broken_off(url: str, have: int, size: int) -> ValueError:
    return errors.invalid(
        'fetch',
        f'get all {megabytes(size)} of {url}',
        f'{megabytes(have)} (the same command goes on from there)',
    )


def _sha256(path: pathlib.Path) -> str:
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()
