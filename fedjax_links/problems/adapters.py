"""Anybody's data as arrays with owners, for `from_arrays` and `from_flax`.

`from_columns` takes columns of any kind; the others find them in what a library calls a data set.
No library is imported here: a data set brings its own.
"""

import functools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors
from fedjax_links.problems import arrays
from fedjax_links.problems.datasets import prepared
from fedjax_links.problems.datasets.npz import PathLike

Columns = Hashable | list[Hashable]
Convert = Callable[[Any], Any] | None
"""From an entry of a file to numbers; None for entries that are numbers."""


class Examples(NamedTuple):
    """What `from_arrays` and `from_flax` take first.

    Attributes:
      features: [E, ...].
      labels: [E, ...].
      clients: int[E], owner of each example.
      names: what the data call each of the N clients, by its number.
    """

    features: np.ndarray
    labels: np.ndarray
    clients: np.ndarray
    names: tuple[Any, ...]


def from_columns(features: Any, labels: Any, owners: Any) -> Examples:
    """Examples whose owners have names.

    Args:
      features: E of them, of one shape: an array, a list of arrays, tensors or images of Pillow, a
        ``pandas`` frame or series, a column of Hugging Face's `datasets`. Images become pixels, see
        `arrays.stack_rows`.
      labels: E of them, of one shape.
      owners: E names or numbers; clients are numbered in the sorted order of their names.

    Returns:
      The examples, in their order; 64 bits become 32, as JAX has them by default.

    Raises:
      ValueError: if there are none, an owner is missing, lengths differ or shapes do.
    """
    names = np.asarray(owners)
    if names.ndim != 1 or not len(names):
        raise errors.invalid('clients', 'have one entry per example', f'shape {names.shape}')
    for argument, column in (('features', features), ('labels', labels)):
        if len(column) != len(names):
            raise errors.invalid(argument, f'have {len(names)} rows, as clients do', len(column))
    missing = [name is None or f'{name!r}' == '<NA>' or name != name for name in names.tolist()]
    if any(missing):
        raise errors.invalid('clients', 'name an owner', f'none for example {missing.index(True)}')
    known, clients = np.unique(names, return_inverse=True)
    columns = arrays.stack_features(features), arrays.stack_labels(labels)
    return Examples(*columns, clients.astype(np.int32), tuple(known.tolist()))


def from_pandas(frame: Any, *, client: Hashable, features: Columns, label: Columns) -> Examples:
    """Rows of a ``pandas.DataFrame`` as `from_columns` makes examples of them.

    Args:
      frame: the frame.
      client: column of the owners.
      features: a list of columns of numbers, which become a vector; or one column, of numbers or
        arrays of one shape, which is taken as it is.
      label: column of the labels, or a list of columns, which become a vector.
    """
    wanted = _named(frame.columns, features=features, label=label, client=client)
    return from_columns(*(frame[names] for names in wanted))


def from_hugging_face(dataset: Any, *, client: str, features: str, label: str) -> Examples:
    """Rows of one split of Hugging Face's `datasets` as `from_columns` makes examples of them.

    Args:
      dataset: the split, a ``datasets.Dataset``; its columns are read into memory.
      client: column of the owners.
      features: column of numbers, arrays or images of one shape.
      label: column of the labels.
    """
    wanted = _named(dataset.column_names, features=features, label=label, client=client)
    is_image = type(dataset.features[features]).__name__ == 'Image'  # which NumPy would not decode
    others = dataset.with_format('numpy')
    return from_columns(*((dataset if is_image and n == features else others)[n] for n in wanted))


def from_torch(dataset: Any, clients: Any = None) -> Examples:
    """The pairs (features, label) of map-style data sets as `from_columns` makes examples of them.

    Args:
      dataset: a ``torch.utils.data.Dataset`` with a length, whose items are pairs of tensors,
        images or numbers; without ``clients``, a list of such, one for each client, or a mapping
        by name. Every item is read once, so what a data set draws at random is drawn now; augment
        with ``from_flax(augment=...)``.
      clients: the owner of each item, numbers or names.
    """
    if clients is None:
        if not isinstance(dataset, Mapping | Sequence):
            requirement = 'be given for a single data set, the owner of each item'
            raise errors.invalid('clients', requirement, None)
        by_name = dataset if isinstance(dataset, Mapping) else dict(enumerate(dataset))
        for name, part in by_name.items():
            if not len(part):
                raise errors.invalid('dataset', 'give every client an example', f'none for {name}')
        clients = [name for name, part in by_name.items() for _ in range(len(part))]
        dataset = [part[place] for part in by_name.values() for place in range(len(part))]
    if not (hasattr(dataset, '__len__') and hasattr(dataset, '__getitem__')):
        requirement = 'have a length and items by number, as no loader and no stream has'
        raise errors.invalid('dataset', requirement, type(dataset).__name__)
    items = [dataset[place] for place in range(len(dataset))]
    for place, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            requirement = 'have items that are pairs (features, label)'
            raise errors.invalid('dataset', requirement, f'item {place}, {type(item).__name__}')
    return from_columns([item[0] for item in items], [item[1] for item in items], clients)


def from_leaf(path: PathLike, *, features: Convert = None, label: Convert = None) -> Examples:
    """JSON in LEAF's form as `from_columns` makes examples of it, see `datasets.prepared`.

    Args:
      path: a file, or a folder, of which all ``*.json`` files are read.
      features: from an entry of ``x`` to numbers of one shape, such as a text's token ids; entries
        are taken as they are by default.
      label: the same for ``y``.
    """
    inputs = functools.partial(_encode, 'features', features)
    held = prepared.Encoding(inputs, functools.partial(_encode, 'labels', label)).read(path)
    return from_columns(*held.values())


def _encode(argument: str, function: Convert, rows: Any) -> np.ndarray:
    """Rows as a function makes them, or as they are, as an array."""
    return arrays.stack_rows(argument, [*map(function, rows)] if function else rows)


def _named(known: Collection[Any], **columns: Any) -> Sequence[Any]:
    """The columns, all of which are known."""
    for argument, names in columns.items():
        for name in names if isinstance(names, list) else [names]:
            if name not in known:
                raise errors.unknown_name(argument, name, map(str, known))
    return list(columns.values())
