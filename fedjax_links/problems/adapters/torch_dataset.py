"""Data sets of PyTorch: one with owners, or one for each client."""

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np

from fedjax_links import errors
from fedjax_links.problems.adapters.examples import Examples, owned


def from_torch(dataset: Any, clients: Any = None) -> Examples:
    """The pairs (features, label) of map-style data sets as examples.

    Args:
      dataset: a ``torch.utils.data.Dataset`` with a length, whose items are pairs of tensors or
        numbers; without ``clients``, a list of such, one for each client, or a mapping by name.
      clients: the owner of each item, numbers or names.

    Returns:
      The examples, in order. Every item is read once, so what a data set draws at random is drawn
      now; augment with ``from_flax(augment=...)``.

    Raises:
      ValueError: for data sets without a length, items that are no pairs of one shape, or owners
        that do not fit.
    """
    if clients is not None:
        return _with_owners(dataset, clients)
    if isinstance(dataset, Mapping):
        names, parts = list(dataset), list(dataset.values())
    elif isinstance(dataset, Sequence):
        names, parts = list(range(len(dataset))), list(dataset)
    else:
        requirement = 'be given for a single data set, the owner of each item'
        raise errors.invalid('clients', requirement, None)
    counts = [_length(part, f' of {name}') for name, part in zip(names, parts, strict=True)]
    for name, count in zip(names, counts, strict=True):
        if not count:
            raise errors.invalid('dataset', 'give every client an example', f'none for {name}')
    items = [
        part[place] for part, count in zip(parts, counts, strict=True) for place in range(count)
    ]
    owners = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
    return _of_items(items, owners)


def _with_owners(dataset: Any, clients: Any) -> Examples:
    count = _length(dataset)
    if not isinstance(clients, Sized):
        raise errors.invalid('clients', f'have {count} entries, as items', type(clients).__name__)
    if len(clients) != count:
        raise errors.invalid('clients', f'have {count} entries, as items', len(clients))
    return _of_items([dataset[place] for place in range(count)], clients)


def _length(dataset: Any, whose: str = '') -> int:
    """The number of items of a map-style data set."""
    if not isinstance(dataset, Sized) or not hasattr(dataset, '__getitem__'):
        requirement = 'be map-style, with `__len__` and `__getitem__`'
        raise errors.invalid('dataset', requirement, f'{type(dataset).__name__}{whose}')
    return len(dataset)


def _of_items(items: Sequence[Any], owners: Any) -> Examples:
    for place, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            requirement = 'have items that are pairs (features, label)'
            raise errors.invalid('dataset', requirement, f'item {place}, {type(item).__name__}')
    features, labels = zip(*items, strict=True) if items else ((), ())
    return owned([np.asarray(f) for f in features], [np.asarray(y) for y in labels], owners)
