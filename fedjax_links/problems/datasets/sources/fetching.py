"""Downloads of published files, verified, never half a file, and the npz that is made of them."""

import pathlib

from fedjax_links.core import checks, errors
from fedjax_links.problems.datasets import npz
from fedjax_links.problems.datasets.dataset import Dataset
from fedjax_links.problems.datasets.sources.recipes import RECIPES


def fetch(
    name: str,
    *,
    data_dir: npz.PathLike | None = None,
    mirror: str | None = None,
    progressbar: bool = False,
) -> pathlib.Path:
    """Downloads a data set from its publisher and converts it.

    Files that are there already are kept if their checksums hold.

    Args:
      name: a name in `RECIPES`.
      data_dir: folder of the npz, see `npz.data_root`; the publisher's files go to its
        ``downloads``.
      mirror: address of a folder with files of the same names, to be used in the publisher's place;
        or a folder on this machine, whose files are read as they are, all or some of them.
      progressbar: whether to show how far it is, a line for each file on the standard error.

    Returns:
      The npz.

    Raises:
      ValueError: if the place cannot be reached, breaks off or holds something else, or the disk is
        full.
      ImportError: if pooch is not installed.
    """
    checks.choice('data', name, RECIPES)
    try:
        import pooch  # needed by nothing else
        import requests  # which pooch brings
    except ImportError as error:
        raise errors.missing_package('downloads need pooch', "'fedjax_links[data]'") from error
    recipe, file = RECIPES[name], npz.npz_file(name, data_dir)
    folder, published = file.parent / 'downloads' / name, recipe.files
    if mirror is not None and '://' not in mirror:
        folder, published = pathlib.Path(mirror), ()
        if not folder.is_dir():
            raise errors.invalid('mirror', 'be an address or a folder', mirror)
    pooch.get_logger().setLevel('ERROR')
    load = pooch.HTTPDownloader(progressbar=progressbar, chunk_size=2**18, timeout=(10, 60))
    with errors.on_disk(folder):
        for place in (folder, file.parent):
            place.mkdir(parents=True, exist_ok=True)
        for part in published:
            url = part.url if mirror is None else f'{mirror.rstrip("/")}/{part.name}'
            try:
                pooch.retrieve(
                    url, part.digest or None, fname=part.name, path=folder, downloader=load
                )
            except requests.RequestException as error:
                requirement = f'get {url} (or try another place by --mirror=URL)'
                raise errors.invalid('fetch', requirement, errors.describe(error)) from None
            except ValueError:  # pooch's word for another checksum
                requirement = f'get the published {part.name} from {url}'
                raise errors.invalid('fetch', requirement, 'a file of another checksum') from None
        try:
            dataset = Dataset(**recipe.read(folder))
        except (KeyError, ValueError) as error:
            if published or isinstance(error, errors.InvalidError):
                raise
            requirement = f'hold files of {name} as published ({errors.describe(error)})'
            raise errors.invalid('mirror', requirement, folder) from error
    npz.save_npz(dataset, file)
    return file
