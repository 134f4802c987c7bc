"""Converts data of several libraries to arrays with owners, for `from_arrays` and `from_flax`.

An example's owner is the client that has it. `from_columns` takes columns of any kind. The other
functions find these columns in the data sets of a library. No library is imported here: objects are
used through their own methods.
"""

import functools
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.core import errors
from fedjax_links.datasets import columns, prepared
from fedjax_links.datasets.npz import PathLike

ColumnNames = Hashable | list[Hashable]
Convert = Callable[[Any], Any] | None
"""From an entry of a file to numbers; None for entries that are numbers."""


class Examples(NamedTuple):
    """Holds the first arguments of `from_arrays` and `from_flax`.

    Attributes:
      features: [E, ...].
      labels: [E, ...].
      clients: int[E], owner of each example.
      names: name of each of the N clients, by number.
    """

    features: np.ndarray
    labels: np.ndarray
    clients: np.ndarray
    names: tuple[Any, ...]


def from_columns(
    features: Any, labels: Any, owners: Any, *, names: Sequence[object] = ()
) -> Examples:
    """Makes examples of columns, and numbers their owners.

    Args:
      features: E rows of one shape: an array, a list of arrays, tensors or images of Pillow, a
        ``pandas`` frame or series, a column of Hugging Face's `datasets`. Images become pixels, see
        `columns.stack_rows`.
      labels: E rows of one shape.
      owners: E names, all texts or all numbers; clients are numbered in the sorted order of these
        names.
      names: names of the first clients, by number. For examples to test on, pass the ``names`` of
        the examples to train on, so that both have the same clients. Owners that ``names`` lacks
        get the numbers after these, and do not train.

    Returns:
      The examples, in the order of the rows. Numbers of 64 bits become 32, as is JAX's default.

    Raises:
      ValueError: if there are no examples, an owner is missing, owners are named by both texts and
        numbers, or lengths or shapes differ.
    """
    arguments = 'features', 'labels', 'owners'
    return _from_columns(arguments, features, labels, owners, names)


def _from_columns(
    arguments: tuple[str, str, str],
    features: Any,
    labels: Any,
    owners: Any,
    names: Sequence[object],
) -> Examples:
    """Makes the examples of `from_columns`.

    Args:
      arguments: what errors name for the features, the labels and the owners.
      features: as in `from_columns`.
      labels: likewise.
      owners: likewise.
      names: likewise.
    """
    features_argument, labels_argument, owners_argument = arguments
    clients, known = columns.number_owners(owners_argument, owners, names)
    for argument, column in ((features_argument, features), (labels_argument, labels)):
        if not _has_length(column):
            requirement = 'be a column, such as a list or an array'
            raise errors.invalid(argument, requirement, errors.text_of(column))
        if len(column) != len(clients):
            requirement = (
                f'have one row per entry of `{owners_argument}` ({len(clients)})'
            )
            raise errors.invalid(argument, requirement, len(column))
    inputs = columns.stack_rows(features_argument, features)
    targets = columns.stack_rows(labels_argument, labels)
    return Examples(inputs, targets, clients, known)


def from_pandas(
    frame: Any,
    *,
    client: Hashable,
    features: ColumnNames,
    label: ColumnNames,
    names: Sequence[object] = (),
) -> Examples:
    """Makes examples of the rows of a ``pandas.DataFrame``, as `from_columns` does.

    Args:
      frame: the frame.
      client: column of the owners.
      features: a list of columns of numbers, which become a vector; or one column, of numbers or
        arrays of one shape, which is taken as it is.
      label: column of the labels, or a list of columns, which become a vector.
      names: as in `from_columns`.
    """
    _check_has('frame', frame, 'columns', 'a data frame of pandas')
    _check_named(frame.columns, features=features, label=label, client=client)
    owners = frame[client]
    arguments = 'features', 'label', 'client'
    return _from_columns(arguments, frame[features], frame[label], owners, names)


def from_hugging_face(
    dataset: Any,
    *,
    client: str,
    features: str,
    label: str,
    names: Sequence[object] = (),
) -> Examples:
    """Makes examples of the rows of a split of Hugging Face's `datasets`, as `from_columns` does.

    Args:
      dataset: the split, a ``datasets.Dataset``; its columns are read into memory.
      client: column of the owners.
      features: column of numbers, arrays or images of one shape.
      label: column of the labels.
      names: as in `from_columns`.
    """
    _check_has('dataset', dataset, 'column_names', "a split of Hugging Face's datasets")
    _check_named(dataset.column_names, features=features, label=label, client=client)
    plain = dataset.with_format(None)
    arrays = dataset.with_format('numpy')
    # The NumPy format does not decode images.
    is_image = type(dataset.features[features]).__name__ == 'Image'
    inputs = plain[features] if is_image else arrays[features]
    arguments = 'features', 'label', 'client'
    return _from_columns(arguments, inputs, arrays[label], plain[client], names)


def from_torch(
    dataset: Any,
    clients: Sequence[object] | np.ndarray | None = None,
    *,
    names: Sequence[object] = (),
) -> Examples:
    """Makes examples of the pairs (features, label) of map-style data sets, as `from_columns` does.

    Args:
      dataset: a ``torch.utils.data.Dataset`` with a length, whose items are pairs of tensors,
        images or numbers. Without ``clients``: one data set for each client, in a list, or in a
        mapping by the client's name. Every item is read once, so a data set's random draws are made
        once, now. For new draws in every batch use ``from_flax(augment=...)``.
      clients: the owner of each item, numbers or names.
      names: as in `from_columns`.
    """
    if clients is None:
        dataset, clients = _join(dataset)
    if not (hasattr(dataset, '__len__') and hasattr(dataset, '__getitem__')):
        requirement = (
            'have a length and items by number, as no loader and no stream has'
        )
        raise errors.invalid('dataset', requirement, type(dataset).__name__)
    inputs = []
    labels = []
    for index in range(len(dataset)):
        item = dataset[index]
        if not isinstance(item, tuple | list) or len(item) != 2:
            requirement = 'have items that are pairs (features, label)'
            got = f'item {index}, {type(item).__name__}'
            raise errors.invalid('dataset', requirement, got)
        inputs.append(item[0])
        labels.append(item[1])
    arguments = 'dataset.features', 'dataset.label', 'clients'
    return _from_columns(arguments, inputs, labels, clients, names)


def _has_length(value: Any) -> bool:
    """Returns whether a value has a length; a scalar array has none."""
    try:
        len(value)
    except TypeError:
        return False
    return True


def _join(datasets: Any) -> tuple[list[Any], list[Any]]:
    """Joins data sets of one client each: all items, and the owner of each."""
    if not isinstance(datasets, Mapping | Sequence):
        requirement = 'be given for a single data set, the owner of each item'
        raise errors.invalid('clients', requirement, None)
    by_name = datasets if isinstance(datasets, Mapping) else dict(enumerate(datasets))
    items = []
    owners = []
    for name, part in by_name.items():
        if not _has_length(part):
            requirement = 'be a list of data sets, one for each client'
            raise errors.invalid('dataset', requirement, f'{part!r} for {name}')
        if not len(part):
            requirement = 'give every client an example'
            raise errors.invalid('dataset', requirement, f'none for {name}')
        items += [part[index] for index in range(len(part))]
        owners += [name] * len(part)
    return items, owners


def from_leaf(
    path: PathLike,
    *,
    features: Convert = None,
    label: Convert = None,
    names: Sequence[object] = (),
) -> Examples:
    """Makes examples of JSON in LEAF's form, see `datasets.prepared`, as `from_columns` does.

    Args:
      path: a file, or a folder, of which all ``*.json`` files are read.
      features: converts an entry of ``x`` to numbers of one shape, such as a text's token ids. By
        default entries are taken as they are.
      label: the same for ``y``.
      names: as in `from_columns`.
    """
    encoding = prepared.Encoding(
        functools.partial(_encode, 'features', features),
        functools.partial(_encode, 'labels', label),
    )
    try:
        read = encoding.read(path)
    except errors.InvalidError as error:
        raise error.at('label' if error.path == 'labels' else error.path) from None
    arguments = 'features', 'label', 'path'
    return _from_columns(
        arguments, read['features'], read['labels'], read['clients'], names
    )


def _encode(argument: str, function: Convert, rows: Iterable[object]) -> np.ndarray:
    """Stacks rows to an array, converted by a function if there is one."""
    if function:
        rows = [function(row) for row in rows]
    return columns.stack_rows(argument, rows)


def _check_has(argument: str, value: object, attribute: str, kind: str) -> None:
    """Checks by an attribute that a data set is of a library's kind."""
    if not hasattr(value, attribute):
        raise errors.invalid(argument, f'be {kind}', errors.text_of(value))


def _check_named(known: Collection[Any], **names_by_argument: Any) -> None:
    """Checks that all columns that arguments name are known."""
    for argument, names in names_by_argument.items():
        for name in names if isinstance(names, list) else [names]:
            if name not in known:
                raise errors.unknown_name(argument, name, map(str, known))
