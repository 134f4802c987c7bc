"""Downloads published data and converts the data to the npz that `images` and `text` read.

`RECIPES` holds addresses, checksums and the reader of each data set. ``files.csv`` lists addresses,
sizes and SHA-256 of the files, as TensorFlow Datasets or the publisher records them. CINIC-10 has
an MD5 only. Fed-ISIC 2019 and half of CelebA's files have no checksum. The addresses of these files
name a revision, and their sizes are approximate.
"""

import csv
import gzip
import pathlib
import tarfile
from collections.abc import Callable, Mapping
from importlib import resources
from typing import NamedTuple

from fedjax_links.core import checks, errors, paths
from fedjax_links.datasets import published_formats, system_copies
from fedjax_links.datasets.npz import Arrays, Dataset, PathLike, npz_file, save_npz


class File(NamedTuple):
    """Describes a published file.

    Attributes:
      url: its address. The part after the last slash is the file's name on a mirror and on the
        disk.
      size: bytes.
      digest: ``'sha256:...'`` or ``'md5:...'``, as published; empty if none is published.
    """

    url: str
    size: int
    digest: str

    @property
    def name(self) -> str:
        """Returns the part of the address after the last slash."""
        return self.url.rpartition('/')[2]


class Recipe(NamedTuple):
    """Says how to make a data set from published files.

    Attributes:
      files: to download.
      read: ``folder of the files -> fields of the data set``, pixels as uint8.
    """

    files: tuple[File, ...]
    read: Callable[[pathlib.Path], Arrays]

    @property
    def file_names(self) -> list[str]:
        """Returns the names of the files, on a mirror and on the disk."""
        return [file.name for file in self.files]


_READERS: Mapping[str, Callable[[pathlib.Path], Arrays]] = {
    'mnist': published_formats.read_mnist,
    'fashion_mnist': published_formats.read_mnist,
    'emnist': published_formats.read_emnist,
    'cifar10': published_formats.read_cifar10,
    'cifar100': published_formats.read_cifar100,
    'svhn': published_formats.read_svhn,
    'cinic10': published_formats.read_cinic10,
    'femnist': published_formats.OwnedImages('character', 'writer_id', (28, 28, 1), 62),
    'shakespeare': published_formats.read_texts,
    'celeba': published_formats.OwnedImages(
        'Smiling', 'celeb_id', (84, 84, 3), 2, train=('train', 'valid', 'test')
    ),
    'fed_isic2019': published_formats.OwnedImages(
        'label', 'center', (112, 112, 3), 8, test=('test',)
    ),
}
_FILE_LINES = (
    resources.files(__package__)
    .joinpath('files.csv')
    .read_text(encoding='utf-8')
    .splitlines()
)


def _files(name: str) -> tuple[File, ...]:
    """Returns the files that ``files.csv`` lists under a name."""
    rows = [row for row in csv.DictReader(_FILE_LINES) if row['name'] == name]
    return tuple(File(row['url'], int(row['size']), row['digest']) for row in rows)


RECIPES: Mapping[str, Recipe] = {
    name: Recipe(_files(name), read) for name, read in _READERS.items()
}
"""Recipes by name. ``emnist`` is EMNIST's balanced split. The last four name owners of examples."""


def fetch(
    name: str,
    *,
    data_dir: PathLike | None = None,
    mirror: PathLike | None = None,
    progressbar: bool = False,
) -> pathlib.Path:
    """Reads a data set from the system's copy, or else from its publisher, and converts it.

    Files that were downloaded before are used if their checksums hold. An interrupted call leaves
    no incomplete file.

    Args:
      name: a name in `RECIPES`.
      data_dir: folder of the npz, see `npz.data_root`; downloaded files go to its ``downloads``.
      mirror: address of a folder with files of the same names, to use instead of the publisher. Or
        a folder on this machine that holds the files, which are not verified. If the files are
        parquet, the folder may hold only some of them.
      progressbar: whether to show the progress of each file on the standard error.

    Returns:
      The npz, whose `npz.source_of` is the folder or address of the files.

    Raises:
      ValueError: if the download fails, if files differ from the published files, or if the disk is
        full.
      ImportError: if files must be downloaded and pooch is not installed.
    """
    checks.flags(progressbar=progressbar)
    recipe = checks.entry('data', name, RECIPES)
    file = npz_file(name, data_dir)
    folder = _local_folder(name, recipe, mirror)
    if folder is not None:
        source = str(folder.absolute())
        argument = "the system's copy" if mirror is None else 'mirror'
    else:
        # A mirror that is no folder is an address.
        address = None if mirror is None else str(mirror)
        source = address or recipe.files[0].url.rpartition('/')[0]
        folder = file.parent / 'downloads' / name
        argument = 'downloads'
        _download_all(name, recipe, folder, address, progressbar)
    dataset = _read(name, recipe, folder, argument)
    with errors.on_disk(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
    save_npz(dataset, file, source=source.rstrip('/'))
    return file


def _local_folder(
    name: str, recipe: Recipe, mirror: PathLike | None
) -> pathlib.Path | None:
    """Returns the folder on this machine to read; None if files must be downloaded."""
    if mirror is None:
        return system_copies.find(name, recipe.file_names)
    if isinstance(mirror, str) and '://' in mirror:
        return None
    folder = paths.as_path(mirror, 'mirror')
    if not folder.is_dir():
        raise errors.invalid('mirror', 'be an address or a folder', mirror)
    return folder


def _read(name: str, recipe: Recipe, folder: pathlib.Path, argument: str) -> Dataset:
    """Reads published files in a folder; some files may not have been verified by a checksum.

    Args:
      name: of the data set.
      recipe: how to read it.
      folder: of the files.
      argument: what to name in an error.

    Raises:
      ValueError: if files are missing or damaged.
    """

    def damaged(reason: str) -> errors.InvalidError:
        requirement = f'hold files of {name} as published ({reason})'
        return errors.invalid(argument, requirement, folder)

    with errors.on_disk(folder), errors.decoding(damaged):
        try:
            return Dataset(**recipe.read(folder))
        except (tarfile.TarError, gzip.BadGzipFile) as error:
            raise damaged(errors.describe(error)) from error


def _download_all(
    name: str,
    recipe: Recipe,
    folder: pathlib.Path,
    mirror: str | None,
    progressbar: bool,
) -> None:
    """Downloads the files of a data set to a folder."""
    install = system_copies.install_command(name)
    try:
        import pooch  # needed by nothing else
    except ImportError as error:
        purpose = 'downloads need pooch'
        if install:
            purpose += f' (without it: `{install}`)'
        raise errors.missing_package(purpose, "'fedjax_links[data]'") from error
    pooch.get_logger().setLevel('ERROR')
    other_ways = 'try another address by --mirror=URL'
    if install:
        other_ways = f'`{install}`, or {other_ways}'
    with errors.on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for published in recipe.files:
            _download(published, folder, mirror, progressbar, other_ways)


def _download(
    published: File,
    folder: pathlib.Path,
    mirror: str | None,
    progressbar: bool,
    other_ways: str,
) -> None:
    """Downloads a file to a folder, unless the folder has it.

    Raises:
      ValueError: if the download fails, or if the file differs from the published file.
    """
    import pooch
    import requests  # a dependency of pooch

    url = published.url
    if mirror is not None:
        url = f'{mirror.rstrip("/")}/{published.name}'
    digest = published.digest or None
    downloader = pooch.HTTPDownloader(
        progressbar=progressbar, chunk_size=2**18, timeout=(10, 60)
    )
    try:
        pooch.retrieve(url, digest, published.name, folder, downloader=downloader)
    except requests.RequestException as error:
        requirement = f'get {url} (or {other_ways})'
        reason = errors.describe(error)
        raise errors.invalid('fetch', requirement, reason) from None
    except ValueError:  # pooch raises it for another checksum
        requirement = f'get the published {published.name} from {url}'
        value = 'a file of another checksum'
        raise errors.invalid('fetch', requirement, value) from None
