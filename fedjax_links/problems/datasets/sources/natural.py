"""Data with owners in their publishers' files, read piece by piece: images in parquet, text in CSV.

Every reader returns what those of `formats` do, and the number and name of every owner.
"""

import csv
import io
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedjax_links.core import errors
from fedjax_links.problems.datasets import characters
from fedjax_links.problems.datasets.npz import Arrays

_CHUNK = 4096  # examples that are held as the file has them


class _Owners(dict[str, int]):
    """Numbers of names, in the order in which they come up."""

    def number(self, names: Sequence[Any]) -> list[int]:
        return [self.setdefault(str(name), len(self)) for name in names]


def read_images(
    folder: pathlib.Path,
    *,
    label: str,
    owner: str,
    shape: tuple[int, int, int],
    num_classes: int,
    train: Sequence[str] = ('train',),
    test: Sequence[str] = (),
) -> Arrays:
    """Parquet files as Hugging Face's `datasets` writes them, images as encoded bytes.

    Args:
      folder: that of the files, ``<split>-*.parquet`` in the order of their names.
      label: column of the classes.
      owner: column of the owners.
      shape: height, width and channels; images of another size are cut to these proportions about
        their centre and scaled.
      num_classes: C.
      train: splits that make the training data, one after the other.
      test: splits that make the test data, if any.
    """
    arrays: dict[str, Any] = {}
    owners = _Owners()
    for part, splits in (('train', train), ('test', test)):
        files = [file for split in splits for file in _parquet(folder, split)]
        if not files and part == 'train':
            raise errors.invalid('mirror', f'hold {splits[0]}-*.parquet', folder)
        if files:
            found = _read_rows(files, owners, label=label, owner=owner, shape=shape)
            arrays |= {f'{part}_{key}': array for key, array in found.items()}
    return arrays | {'num_classes': num_classes, 'client_names': [*owners]}


def _read_rows(
    files: Sequence[Any], owners: _Owners, *, label: str, owner: str, shape: tuple[int, int, int]
) -> dict[str, np.ndarray]:
    """Features, labels and clients, of which a chunk at a time is held as the files have it."""
    count, row = sum(file.metadata.num_rows for file in files), 0
    pixels = np.empty((count, *shape), np.uint8)
    labels, clients = np.empty(count, np.int32), np.empty(count, np.int32)
    for file in files:
        for batch in file.iter_batches(_CHUNK, columns=['image', label, owner]):
            rows = slice(row, row := row + batch.num_rows)
            for place, image in zip(range(count)[rows], batch['image'], strict=True):
                pixels[place] = _pixels(image['bytes'].as_py(), shape)
            labels[rows] = batch[label].to_numpy(zero_copy_only=False)
            clients[rows] = owners.number(batch[owner].to_pylist())
    return {'features': pixels, 'labels': labels, 'clients': clients}


def read_texts(folder: pathlib.Path) -> Arrays:
    """Shakespeare's lines, ``character_id,x,y`` in CSV: a text, and the character that follows."""
    owners = _Owners()
    parts: list[tuple[np.ndarray, np.ndarray, list[int]]] = []
    for file in sorted(folder.glob('*.csv')):
        with open(file, encoding='utf-8', newline='') as lines:
            rows = csv.DictReader(lines)
            while chunk := [*itertools.islice(rows, _CHUNK)]:
                names, texts, after = (
                    [row[key] for row in chunk] for key in ('character_id', 'x', 'y')
                )
                labels = characters.encode_next(after)
                parts.append((characters.encode(texts), labels, owners.number(names)))
    if not parts:
        raise errors.invalid('mirror', 'hold shakespeare.csv', folder)
    features, labels, numbers = map(np.concatenate, zip(*parts, strict=True))
    return {
        'train_features': features,
        'train_labels': labels,
        'train_clients': numbers,
        'num_classes': characters.NUM_TOKENS,
        'client_names': [*owners],
    }


def _parquet(folder: pathlib.Path, split: str) -> Iterator[Any]:
    """The parquet files of a split, none of which is read yet."""
    try:
        from pyarrow import parquet  # slow to import, so only here
    except ImportError as error:
        packages = "'fedjax_links[natural]'"
        raise errors.missing_package('parquet files need pyarrow', packages) from error
    return map(parquet.ParquetFile, sorted(folder.glob(f'{split}-*.parquet')))


def _pixels(encoded: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    """uint8[height, width, channels] of an image in PNG or JPEG."""
    from PIL import Image, ImageOps  # slow to import, so only here

    height, width, channels = shape
    with Image.open(io.BytesIO(encoded)) as image:
        decoded = image.convert('L' if channels == 1 else 'RGB')
    if decoded.size != (width, height):
        decoded = ImageOps.fit(decoded, (width, height))
    return np.asarray(decoded).reshape(shape)
