"""Published data, from the publishers' own files to the npz that `images` and `text` read.

`fetch` downloads, verifies and converts, and leaves no half a file. `RECIPES` holds, by name, what
is published: addresses, checksums, how it is read. Addresses, sizes and SHA-256 stand in
``files.csv``, as TensorFlow Datasets or the publisher records them. Of CINIC-10 an MD5 alone is on
record, of Fed-ISIC 2019 and half of CelebA's files nothing but the revision that stands in their
addresses; sizes of these are approximate.
"""

import csv
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedjax_links.core import checks, errors
from fedjax_links.problems.datasets import npz
from fedjax_links.problems.datasets.sources import formats


class File(NamedTuple):
    """A published file.

    Attributes:
      url: its address; the part after the last slash is its name on a mirror and on the disk.
      size: bytes.
      digest: ``'sha256:...'`` or ``'md5:...'``, as published; empty where none is on record.
    """

    url: str
    size: int
    digest: str

    @property
    def name(self) -> str:
        """The part of the address after the last slash."""
        return self.url.rpartition('/')[2]


class Recipe(NamedTuple):
    """How a data set is made of published files.

    Attributes:
      files: what is downloaded.
      read: from the folder of the files to what a `Dataset` is made of, pixels as uint8.
    """

    files: tuple[File, ...]
    read: Callable[[pathlib.Path], npz.Arrays]


_READERS: Mapping[str, Callable[[pathlib.Path], npz.Arrays]] = {
    'mnist': formats.read_mnist,
    'fashion_mnist': formats.read_mnist,
    'emnist': formats.read_emnist,
    'cifar10': formats.read_cifar10,
    'cifar100': formats.read_cifar100,
    'svhn': formats.read_svhn,
    'cinic10': formats.read_cinic10,
    'femnist': formats.OwnedImages('character', 'writer_id', (28, 28, 1), 62),
    'shakespeare': formats.read_texts,
    'celeba': formats.OwnedImages(
        'Smiling', 'celeb_id', (84, 84, 3), 2, train=('train', 'valid', 'test')
    ),
    'fed_isic2019': formats.OwnedImages('label', 'center', (112, 112, 3), 8, test=('test',)),
}
_LISTED = pathlib.Path(__file__).with_name('files.csv').read_text(encoding='utf-8').splitlines()


def _files(name: str) -> tuple[File, ...]:
    """Those that ``files.csv`` lists under a name."""
    rows = [row for row in csv.DictReader(_LISTED) if row['name'] == name]
    return tuple(File(row['url'], int(row['size']), row['digest']) for row in rows)


RECIPES: Mapping[str, Recipe] = {
    name: Recipe(_files(name), read) for name, read in _READERS.items()
}
"""By name; ``emnist`` is its balanced part. The last four have owners."""


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
    recipe, file = checks.entry('data', name, RECIPES), npz.npz_file(name, data_dir)
    try:
        import pooch  # needed by nothing else
        import requests  # which pooch brings
    except ImportError as error:
        raise errors.missing_package('downloads need pooch', "'fedjax_links[data]'") from error
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
                pooch.retrieve(url, part.digest or None, part.name, folder, downloader=load)
            except requests.RequestException as error:
                requirement = f'get {url} (or try another place by --mirror=URL)'
                raise errors.invalid('fetch', requirement, errors.describe(error)) from None
            except ValueError:  # pooch's word for another checksum
                requirement = f'get the published {part.name} from {url}'
                raise errors.invalid('fetch', requirement, 'a file of another checksum') from None
        try:
            dataset = npz.Dataset(**recipe.read(folder))
        except (KeyError, ValueError) as error:
            if published or isinstance(error, errors.InvalidError):
                raise
            requirement = f'hold files of {name} as published ({errors.describe(error)})'
            raise errors.invalid('mirror', requirement, folder) from error
    npz.save_npz(dataset, file)
    return file
