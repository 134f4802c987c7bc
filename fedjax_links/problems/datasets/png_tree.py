"""Images in a folder tree ``<split>/<class>/*.png``, such as CINIC-10."""

import pathlib
from collections.abc import Sequence

import numpy as np

from fedjax_links.core import errors
from fedjax_links.problems.datasets.dataset import Dataset
from fedjax_links.problems.datasets.npz import Arrays, from_mapping
from fedjax_links.problems.datasets.places import PathLike


def from_png_tree(
    data_dir: PathLike,
    *,
    train: Sequence[str] = ('train',),
    test: Sequence[str] = ('test',),
    name: str | None = None,
) -> Dataset:
    """Reads images from ``data_dir/<split>/<class>/*.png``.

    Classes are numbered in the order of their names, and must be the same in all splits. Examples
    are sorted by split, class and file name.

    Args:
      data_dir: root of the tree.
      train: folders that make the training data, one after the other.
      test: folders that make the test data.
      name: what to call the data set; the root's name by default.

    Returns:
      The data set, images float32[*, height, width, 3] in [0, 1]; grey ones become colour.

    Raises:
      ValueError: if a folder is missing or empty, classes differ, or images differ in size or are
        damaged.
      ImportError: if Pillow is not installed.
    """
    root = pathlib.Path(data_dir).expanduser()
    arrays = read_tree(root, train, test)
    return from_mapping(arrays, name=root.name if name is None else name)


def read_tree(root: pathlib.Path, train: Sequence[str], test: Sequence[str]) -> Arrays:
    """The arrays of `from_png_tree` under the keys of `from_npz`, as uint8."""
    folders = [child for split in (*train, *test) for child in root.glob(f'{split}/*')]
    classes = sorted({folder.name for folder in folders if folder.is_dir()})
    arrays = {'num_classes': np.asarray(len(classes))}
    for part, splits in (('train', train), ('test', test)):
        files = [_list_images(root / split / name) for split in splits for name in classes or ['']]
        images = [_read(file) for group in files for file in group]
        shapes = sorted({image.shape for image in images})
        if len(shapes) > 1:
            got = f'{shapes} in {", ".join(splits)} of {root}'
            raise errors.invalid('data_dir', 'hold images of one shape', got)
        labels = np.tile(np.arange(len(classes), dtype=np.int32), len(splits))
        arrays[f'{part}_features'] = np.stack(images)
        arrays[f'{part}_labels'] = np.repeat(labels, [len(group) for group in files])
    return arrays


def _list_images(folder: pathlib.Path) -> list[pathlib.Path]:
    files = sorted(folder.glob('*.png'))
    if not files:
        raise errors.invalid('data_dir', 'have images of every class', f'none in {folder}')
    return files


def _read(file: pathlib.Path) -> np.ndarray:
    """The pixels, [height, width, 3]."""
    try:
        from PIL import Image  # slow to import, so only here
    except ImportError as error:
        raise errors.missing_package('PNG files need Pillow', 'pillow') from error
    try:
        with Image.open(file) as image:
            return np.asarray(image.convert('RGB'))
    except Exception as error:  # whatever the decoder makes of changed bytes
        raise errors.invalid('data_dir', 'hold intact images', file) from error
