"""Images in a folder tree ``<split>/<class>/*.png``, such as CINIC-10."""

import pathlib
from collections.abc import Sequence

import numpy as np

from fedjax_links import errors
from fedjax_links.problems import partition_checks as checks
from fedjax_links.problems.datasets.dataset import Dataset
from fedjax_links.problems.datasets.npz import Arrays, cached, from_npz
from fedjax_links.problems.datasets.places import PathLike, data_root, missing, npz_file

CINIC10_CLASSES = (
    'airplane',
    'automobile',
    'bird',
    'cat',
    'deer',
    'dog',
    'frog',
    'horse',
    'ship',
    'truck',
)


def from_png_tree(
    data_dir: PathLike,
    *,
    train: Sequence[str] = ('train',),
    test: Sequence[str] = ('test',),
    channels: int = 3,
    name: str | None = None,
    cache: bool = True,
    cache_dir: PathLike | None = None,
) -> Dataset:
    """Reads images from ``data_dir/<split>/<class>/*.png``.

    Classes are numbered in the order of their names, and must be the same in all splits. Examples
    are sorted by split, class and file name.

    Args:
      data_dir: root of the tree.
      train: folders that make the training data, one after the other.
      test: folders that make the test data.
      channels: 3 for colour, 1 for grey; images of another kind are converted.
      name: what to call the data set; the root's name by default.
      cache: whether to keep the arrays as an npz file, which is read much faster.
      cache_dir: where, by default ``fedjax_links/datasets`` in ``XDG_CACHE_HOME`` or else in
        ``~/.cache``. The tree must stay: it tells whether the cache is still right.

    Returns:
      The data set, images float32[*, height, width, channels] in [0, 1].

    Raises:
      ValueError: if a folder is missing or empty, classes differ, or images differ in size or are
        damaged.
      ImportError: if Pillow is not installed.
    """
    checks.integer('channels', channels, 1, 3)
    if channels == 2:
        raise errors.invalid('channels', 'be 1 or 3', channels)
    root = pathlib.Path(data_dir).expanduser()
    files = _list_tree(root, (*train, *test))
    return cached(
        lambda: _read(files, train, test, channels),
        name=root.name if name is None else name,
        files=[file for split in files.values() for group in split for file in group],
        settings=(tuple(train), tuple(test), channels),
        cache=cache,
        cache_dir=cache_dir,
    )


def cinic10(
    *,
    data_dir: PathLike | None = None,
    include_valid: bool = False,
    cache: bool = True,
    cache_dir: PathLike | None = None,
) -> Dataset:
    """CINIC-10: 90000 images each for training, validation and test, 32 x 32, 10 classes.

    Args:
      data_dir: folder with the npz that ``data fetch`` makes, by default ``TFDS_DATA_DIR`` or else
        ``~/tensorflow_datasets``; or with ``train``, ``valid`` and ``test`` as in the published
        archive, in that folder or in its folder ``cinic10``.
      include_valid: whether the validation images follow the training data; otherwise they are not
        read.
      cache: whether to keep the arrays as an npz file, see `from_png_tree`.
      cache_dir: where, see `from_png_tree`.

    Returns:
      Images float32[*, 32, 32, 3] in [0, 1].

    Raises:
      ValueError: if the tree is missing or not that of CINIC-10.
      ImportError: if Pillow is not installed.

    References:
      Darlow, Crowley, Antoniou and Storkey, CINIC-10 is not ImageNet or CIFAR-10, 2018.
    """
    name = 'cinic10/valid' if include_valid else 'cinic10'
    fetched = npz_file(name, data_dir)
    if fetched.is_file():
        with errors.inside('data_dir'):
            return from_npz(fetched, name='cinic10')
    train = ('train', 'valid') if include_valid else ('train',)
    root, absent = cinic10_tree(data_dir, (*train, 'test'))
    if absent is not None:
        raise missing(name, data_dir, f'a tree with {absent}')
    return from_png_tree(root, train=train, name='cinic10', cache=cache, cache_dir=cache_dir)


def cinic10_tree(
    data_dir: PathLike | None, splits: Sequence[str]
) -> tuple[pathlib.Path, pathlib.Path | None]:
    """Where the tree of CINIC-10 is or has to be, and the first of its folders that is not there.

    Args:
      data_dir: see `cinic10`.
      splits: the folders that are wanted.
    """
    root = data_root(data_dir)
    if not any((root / split).is_dir() for split in splits):
        root = root / 'cinic10'
    wanted = (root / split / label for split in splits for label in CINIC10_CLASSES)
    return root, next((folder for folder in wanted if not folder.is_dir()), None)


def read_tree(root: pathlib.Path, train: Sequence[str], test: Sequence[str]) -> Arrays:
    """The arrays of `from_png_tree`, in colour, under the keys of `from_npz` and as uint8."""
    return _read(_list_tree(root, (*train, *test)), train, test, channels=3)


def _list_tree(root: pathlib.Path, splits: Sequence[str]) -> dict[str, list[list[pathlib.Path]]]:
    """By split and class, the sorted files; raises unless all splits have the same classes."""
    classes: list[str] | None = None
    files: dict[str, list[list[pathlib.Path]]] = {}
    for split in dict.fromkeys(splits):
        names, files[split] = _list_split(root, split)
        if classes is not None and names != classes:
            differing = sorted(set(names) ^ set(classes))[0]
            raise errors.invalid(
                'data_dir', 'have the same classes in all folders', f'{differing} not in all'
            )
        classes = names
    return files


def _list_split(root: pathlib.Path, split: str) -> tuple[list[str], list[list[pathlib.Path]]]:
    """Sorted class names and, class by class, the sorted files."""
    folder = root / split
    folders = sorted(folder.iterdir()) if folder.is_dir() else []
    folders = [child for child in folders if child.is_dir()]
    if not folders:
        raise errors.invalid('data_dir', f'have a folder per class in {split}', f'none in {folder}')
    files = [sorted(child.glob('*.png')) for child in folders]
    for child, group in zip(folders, files, strict=True):
        if not group:
            raise errors.invalid('data_dir', 'have images of every class', f'none in {child}')
    return [child.name for child in folders], files


def _read(
    files: dict[str, list[list[pathlib.Path]]],
    train: Sequence[str],
    test: Sequence[str],
    channels: int,
) -> Arrays:
    try:
        from PIL import Image  # slow to import, so only here
    except ImportError as error:
        raise errors.missing_package('PNG files need Pillow', 'pillow') from error
    shape: tuple[int, int] | None = None
    arrays = {'num_classes': np.asarray(len(files[train[0]]))}
    for part, splits in (('train', train), ('test', test)):
        labelled = [
            (file, c) for split in splits for c, group in enumerate(files[split]) for file in group
        ]
        images = np.empty(0, np.uint8)
        for row, (file, _) in enumerate(labelled):
            try:
                with Image.open(file) as image:
                    pixels = np.asarray(image.convert('RGB' if channels == 3 else 'L'))
            except Exception as error:  # whatever the decoder makes of changed bytes
                raise errors.invalid('data_dir', 'hold intact images', file) from error
            if shape is None:
                shape = pixels.shape[:2]
            if pixels.shape[:2] != shape:
                got = f'{list(pixels.shape[:2])} in {file}'
                raise errors.invalid('data_dir', f'hold images of shape {list(shape)}', got)
            if row == 0:
                images = np.empty((len(labelled), *shape, channels), np.uint8)
            images[row] = pixels.reshape(*shape, channels)
        arrays[f'{part}_features'] = images
        arrays[f'{part}_labels'] = np.array([c for _, c in labelled], np.int32)
    return arrays
