"""Images in a folder tree ``<split>/<class>/*.png``, such as CINIC-10."""

import pathlib
from collections.abc import Sequence

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.problems.datasets.dataset import Dataset
from fedjax_links.problems.datasets.npz import Arrays, from_mapping
from fedjax_links.problems.datasets.places import PathLike


def from_png_tree(
    data_dir: PathLike,
    *,
    train: Sequence[str] = ('train',),
    test: Sequence[str] = ('test',),
    channels: int = 3,
    name: str | None = None,
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

    Returns:
      The data set, images float32[*, height, width, channels] in [0, 1].

    Raises:
      ValueError: if a folder is missing or empty, classes differ, or images differ in size or are
        damaged.
      ImportError: if Pillow is not installed.
    """
    checks.static_int('channels', channels, maximum=3)
    if channels == 2:
        raise errors.invalid('channels', 'be 1 or 3', channels)
    root = pathlib.Path(data_dir).expanduser()
    arrays = read_tree(root, train, test, channels=channels)
    return from_mapping(arrays, name=root.name if name is None else name)


def read_tree(
    root: pathlib.Path, train: Sequence[str], test: Sequence[str], *, channels: int = 3
) -> Arrays:
    """The arrays of `from_png_tree` under the keys of `from_npz`, as uint8."""
    files = _list_tree(root, (*train, *test))
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
