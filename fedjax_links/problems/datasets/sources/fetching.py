"""Downloads of published files: verified, never half a file."""

import hashlib
import pathlib
from typing import NamedTuple

from fedjax_links.core import errors
from fedjax_links.problems.datasets import places
from fedjax_links.problems.datasets.places import PathLike
from fedjax_links.problems.datasets.sources import converting
from fedjax_links.problems.datasets.sources.converting import Done
from fedjax_links.problems.datasets.sources.recipes import RECIPES, File

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
    progressbar: bool = False,
) -> Fetched:
    """Downloads a data set from its publisher and converts it.

    Files that are there already are kept if their checksums hold.

    Args:
      name: a name in `RECIPES`, or ``emnist``.
      data_dir: folder of the npz, see `places.data_root`; the publisher's files go to its
        ``downloads``.
      mirror: address of a folder with files of the same names, to be used in the publisher's place.
      progressbar: whether to show how far it is, a line for each file on the standard error.

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
        _fetch_file(file, url, folder, progressbar)
    unpublished = {
        file.name: _sha256(folder / file.name)
        for file in recipe.files
        if not file.digest.startswith('sha256:')
    }
    return Fetched(converting.convert(name, folder, data_dir=data_dir), folder, unpublished)


def _fetch_file(file: File, url: str, folder: pathlib.Path, progressbar: bool) -> None:
    try:
        import pooch  # needed by nothing else
        import requests  # which pooch brings
    except ImportError as error:
        packages = "'fedjax_links[data]'"
        raise errors.missing_package('downloads need pooch', packages) from error
    pooch.get_logger().setLevel('ERROR')
    load = pooch.HTTPDownloader(progressbar=progressbar, chunk_size=_BLOCK)
    if not (folder / file.name).is_file():
        converting.check_room(folder, file.size)
    with errors.on_disk(folder):
        try:
            pooch.retrieve(url, file.digest, fname=file.name, path=folder, downloader=load)
        except requests.RequestException as error:
            requirement = f'get {url} (or try another place by --mirror=URL)'
            raise errors.invalid('fetch', requirement, errors.described(error)) from None
        except ValueError:  # pooch's word for another checksum
            said = 'a file of another checksum'
            raise errors.invalid(
                'fetch', f'get the published {file.name} from {url}', said
            ) from None


def _sha256(path: pathlib.Path) -> str:
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()
