"""Anybody's data as arrays with owners, for `from_arrays` and `from_flax`.

No library is imported here: a data set brings its own.
"""

import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors
from fedjax_links.problems import array_checks

Columns = Hashable | list[Hashable]


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
      features: E of them, of one shape.
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
    missing = [name is None or name != name for name in names.tolist()]
    if any(missing):
        raise errors.invalid('clients', 'name an owner', f'none for example {missing.index(True)}')
    known, clients = np.unique(names, return_inverse=True)
    arrays = _stacked('features', features), _stacked('labels', labels)
    return Examples(*arrays, clients.astype(np.int32), tuple(known.tolist()))


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
    return from_columns(*(frame[names].to_numpy() for names in wanted))


def from_hugging_face(dataset: Any, *, client: str, features: str, label: str) -> Examples:
    """Rows of one split of Hugging Face's `datasets` as `from_columns` makes examples of them.

    Args:
      dataset: the split, a ``datasets.Dataset``; its columns are read into memory.
      client: column of the owners.
      features: column of numbers, arrays or images of one shape.
      label: column of the labels.
    """
    wanted = _named(dataset.column_names, features=features, label=label, client=client)
    held = dataset.select_columns(sorted({*wanted})).with_format('numpy')[:]
    return from_columns(*(held[name] for name in wanted))


def from_torch(dataset: Any, clients: Any = None) -> Examples:
    """The pairs (features, label) of map-style data sets as `from_columns` makes examples of them.

    Args:
      dataset: a ``torch.utils.data.Dataset`` with a length, whose items are pairs of tensors or
        numbers; without ``clients``, a list of such, one for each client, or a mapping by name.
        Every item is read once, so what a data set draws at random is drawn now; augment with
        ``from_flax(augment=...)``.
      clients: the owner of each item, numbers or names.
    """
    parts = [dataset]
    if clients is None:
        if not isinstance(dataset, Mapping | Sequence):
            requirement = 'be given for a single data set, the owner of each item'
            raise errors.invalid('clients', requirement, None)
        by_name = dataset if isinstance(dataset, Mapping) else dict(enumerate(dataset))
        for name, part in by_name.items():
            if not len(part):
                raise errors.invalid('dataset', 'give every client an example', f'none for {name}')
        parts = [*by_name.values()]
        clients = [name for name, part in by_name.items() for _ in range(len(part))]
    items = [part[place] for part in parts for place in range(len(part))]
    for place, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            requirement = 'have items that are pairs (features, label)'
            raise errors.invalid('dataset', requirement, f'item {place}, {type(item).__name__}')
    features, labels = ([item[k] for item in items] for k in (0, 1))
    return from_columns(features, labels, clients)


def from_leaf(
    path: str | Path,
    *,
    features: Callable[[Any], Any] | None = None,
    label: Callable[[Any], Any] | None = None,
) -> Examples:
    """JSON in LEAF's form, ``{"users": [...], "user_data": {user: {"x": [...], "y": [...]}}}``.

    Args:
      path: a file, or a folder, of which all ``*.json`` files are read.
      features: from an entry of ``x`` to numbers of one shape, such as a text's token ids; entries
        are taken as they are by default.
      label: the same for ``y``.

    Returns:
      The examples of every user, by file and user in their order.

    Raises:
      ValueError: for a file that is not of this form, naming it, or rows that are no numbers of one
        shape.

    References:
      Caldas et al. 2018, LEAF: a benchmark for federated settings.
    """
    place = Path(path)
    inputs: list[np.ndarray] = []  # as lists, all numbers would take ten times the memory
    labels: list[np.ndarray] = []
    owners: list[str] = []
    for file in sorted(place.glob('*.json')) if place.is_dir() else [place]:
        try:
            users = json.loads(file.read_text(encoding='utf-8'))['user_data']
            held = [(user, list(data['x']), list(data['y'])) for user, data in users.items()]
            for user, x, y in held:
                if len(x) != len(y):
                    raise ValueError(f'user {user} has {len(x)} x, {len(y)} y')
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            said = f'{file}: {errors.describe(error)}'
            raise errors.invalid('path', "name JSON of LEAF's form", said) from None
        for user, x, y in held:
            if x:
                inputs.append(_stacked('features', [*map(features, x)] if features else x))
                labels.append(_stacked('labels', [*map(label, y)] if label else y))
                owners += [user] * len(x)
    if not owners:
        raise errors.invalid('path', 'hold examples', path)
    for argument, arrays in (('features', inputs), ('labels', labels)):
        _stacked(argument, [array[0] for array in arrays])  # users may differ in shape
    return from_columns(np.concatenate(inputs), np.concatenate(labels), owners)


def _named(known: Collection[Any], **columns: Any) -> Sequence[Any]:
    """The columns, all of which are known."""
    for argument, names in columns.items():
        for name in names if isinstance(names, list) else [names]:
            if name not in known:
                raise errors.unknown_name(argument, name, map(str, known))
    return list(columns.values())


def _stacked(argument: str, rows: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Rows of numbers of one shape as an array."""
    try:
        stacked = isinstance(rows, np.ndarray) and rows.dtype != object
        array = np.asarray(rows) if stacked else np.stack([np.asarray(row) for row in rows])
    except (TypeError, ValueError):
        shapes = sorted({str(np.shape(row)) for row in rows})[:2]
        raise errors.invalid(argument, 'have one shape', ' and '.join(shapes)) from None
    array_checks.check_numbers(argument, array)
    smaller = {'int64': np.int32, 'uint64': np.int32, 'float64': np.float32}.get(array.dtype.name)
    if smaller is np.int32 and array.size and abs(array).max() >= 2**31:
        raise errors.invalid(argument, 'fit into 32 bits', array.max())
    return array if smaller is None else array.astype(smaller)
