"""From files that are there to one checked npz."""

import pathlib
import shutil
from typing import NamedTuple

import numpy as np

from fedjax_links.core import checks, errors
from fedjax_links.problems.datasets import npz, places
from fedjax_links.problems.datasets.npz import Arrays
from fedjax_links.problems.datasets.places import PathLike
from fedjax_links.problems.datasets.sources.recipes import RECIPES, Recipe


class Done(NamedTuple):
    """What a conversion leaves.

    Attributes:
      file: the npz.
      size: its bytes.
      num_train: training images.
      num_test: test images.
    """

    file: pathlib.Path
    size: int
    num_train: int
    num_test: int


class Status(NamedTuple):
    """What is there of a data set.

    Attributes:
      place: the npz; None if it is not there.
      size: bytes of the npz, or of what would be downloaded.
    """

    place: pathlib.Path | None
    size: int


def full_name(name: str) -> str:
    """A name in `RECIPES`; ``emnist`` alone is its balanced part.

    Raises:
      ValueError: for an unknown name.
    """
    name = 'emnist/balanced' if name == 'emnist' else name
    if name not in RECIPES:
        raise errors.unknown_name('data', name, RECIPES)
    return name


def convert(name: str, source: PathLike, *, data_dir: PathLike | None = None) -> Done:
    """Reads a data set from a file or folder and writes it as the npz of its loader.

    Args:
      name: a name in `RECIPES`, or ``emnist``.
      source: the publisher's files, packed or unpacked, at any depth; or an npz under the keys of
        `from_npz`.
      data_dir: where to write, see `places.data_root`.

    Returns:
      What was written.

    Raises:
      ValueError: if files are missing, damaged or not this data set, or the disk is full.
      ImportError: if a package that the format needs is not installed.
    """
    name = full_name(name)
    recipe, path = RECIPES[name], pathlib.Path(source).expanduser()
    if not path.exists():
        raise errors.invalid('source', 'name a file or folder', path)
    read = npz.read_file if path.suffix == '.npz' else recipe.read
    arrays = checked(read(path), recipe, path)
    file = places.npz_file(name, data_dir)
    with errors.on_disk(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        check_room(file.parent, sum(array.nbytes for array in arrays.values()))
        npz.write_arrays(file, {**arrays, 'num_classes': np.asarray(recipe.num_classes)})
        size = file.stat().st_size
    return Done(file, size, len(arrays['train_labels']), len(arrays['test_labels']))


def checked(arrays: Arrays, recipe: Recipe, source: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays, if they are what is published: shapes, dtypes, numbers, labels.

    Args:
      arrays: under the keys of `from_npz`.
      recipe: what is published.
      source: what to name in an error.

    Returns:
      Pixels as uint8[*, height, width, channels] and labels as int32[*].

    Raises:
      ValueError: naming the first thing that differs.
    """
    found: dict[str, np.ndarray] = {}
    for part in ('train', 'test'):
        for key in (f'{part}_features', f'{part}_labels'):
            if key not in arrays:
                raise errors.invalid('source', f'hold the array {key}', f'none in {source}')
        images, labels = arrays[f'{part}_features'], arrays[f'{part}_labels']
        if images.dtype != np.uint8 or not np.issubdtype(labels.dtype, np.integer):
            got = f'{images.dtype} and {labels.dtype} in {source}'
            raise errors.invalid('source', 'hold uint8 pixels and integer labels', got)
        if images.shape[1:] != recipe.shape:
            got = f'{list(images.shape[1:])} in {source}'
            raise errors.invalid('source', f'hold images of shape {list(recipe.shape)}', got)
        if labels.shape != images.shape[:1]:
            got = f'shape {list(labels.shape)} for {len(images)} of {part} in {source}'
            raise errors.invalid('source', 'hold a label per image', got)
        low, high = (int(labels.min()), int(labels.max())) if labels.size else (0, 0)
        if low < 0 or high >= recipe.num_classes:
            requirement = f'hold labels from 0 to {recipe.num_classes - 1}'
            raise errors.invalid('source', requirement, f'{low} to {high} of {part} in {source}')
        found |= {f'{part}_features': images, f'{part}_labels': labels.astype(np.int32)}
    counts = (len(found['train_labels']), len(found['test_labels']))
    if counts not in recipe.counts:
        wanted = ' or '.join(f'{train} and {test}' for train, test in recipe.counts)
        got = f'{counts[0]} and {counts[1]} in {source}'
        raise errors.invalid('source', f'hold {wanted} training and test images', got)
    return found


def status(name: str, *, data_dir: PathLike | None = None) -> Status:
    """What is there of a data set, and how large it is.

    Args:
      name: a name in `RECIPES`.
      data_dir: where to look, see `places.data_root`.
    """
    checks.choice('data', name, RECIPES)
    recipe, file = RECIPES[name], places.npz_file(name, data_dir)
    if file.is_file():
        return Status(file, file.stat().st_size)
    return Status(None, sum(file.size for file in recipe.files))


def check_room(folder: pathlib.Path, num_bytes: int) -> None:
    """Raises if the disk of a folder has fewer bytes free than this."""
    free = shutil.disk_usage(folder).free
    if num_bytes > free:
        raise errors.invalid(
            'data_dir', f'have room for {megabytes(num_bytes)}', f'{megabytes(free)} in {folder}'
        )


def megabytes(num_bytes: int) -> str:
    """A size as people read it: ``170 MB``, and with a decimal where it is small."""
    size = num_bytes / 1e6
    return f'{size:,.0f} MB' if size >= 10 else f'{size:.3g} MB'
