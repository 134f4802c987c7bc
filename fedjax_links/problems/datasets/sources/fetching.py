"""Downloads of published files, verified, never half a file, and the npz that is made of them."""

import pathlib
from typing import NamedTuple

from fedjax_links.core import checks, errors
from fedjax_links.problems.datasets import npz
from fedjax_links.problems.datasets.npz import PathLike
from fedjax_links.problems.datasets.sources.recipes import RECIPES, File

_BLOCK = 1 << 18


class Fetched(NamedTuple):
    """What a download and its conversion leave.

    Attributes:
      file: the npz.
      num_train: training images.
      num_test: test images.
      downloads: folder of the publisher's files.
    """

    file: pathlib.Path
    num_train: int
    num_test: int
    downloads: pathlib.Path


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
      name: a name in `RECIPES`.
      data_dir: folder of the npz, see `npz.data_root`; the publisher's files go to its
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
    checks.choice('data', name, RECIPES)
    recipe, file = RECIPES[name], npz.npz_file(name, data_dir)
    folder = file.parent / 'downloads' / name
    with errors.on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for part in recipe.files:
            url = part.url if mirror is None else f'{mirror.rstrip("/")}/{part.name}'
            _retrieve(part, url, folder, progressbar)
        arrays = recipe.read(folder)
    npz.write_arrays(file, arrays)
    return Fetched(file, len(arrays['train_labels']), len(arrays['test_labels']), folder)


def _retrieve(file: File, url: str, folder: pathlib.Path, progressbar: bool) -> None:
    try:
        import pooch  # needed by nothing else
        import requests  # which pooch brings
    except ImportError as error:
        packages = "'fedjax_links[data]'"
        raise errors.missing_package('downloads need pooch', packages) from error
    pooch.get_logger().setLevel('ERROR')
    load = pooch.HTTPDownloader(progressbar=progressbar, chunk_size=_BLOCK)
    try:
        pooch.retrieve(url, file.digest, fname=file.name, path=folder, downloader=load)
    except requests.RequestException as error:
        requirement = f'get {url} (or try another place by --mirror=URL)'
        raise errors.invalid('fetch', requirement, errors.described(error)) from None
    except ValueError:  # pooch's word for another checksum
        requirement = f'get the published {file.name} from {url}'
        raise errors.invalid('fetch', requirement, 'a file of another checksum') from None
