"""Data sets of PyTorch: one with owners, or one for each client."""

from collections.abc import Mapping, Sequence
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
      ValueError: for items that are no pairs of one shape, or owners that do not fit.
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
    for name, part in zip(names, parts, strict=True):
        if not len(part):
            raise errors.invalid('dataset', 'give every client an example', f'none for {name}')
    items = [part[place] for part in parts for place in range(len(part))]
    owners = [name for name, part in zip(names, parts, strict=True) for _ in range(len(part))]
    return _of_items(items, owners)


def _with_owners(dataset: Any, clients: Any) -> Examples:
    if len(clients) != len(dataset):
        raise errors.invalid('clients', f'have {len(dataset)} entries, as items', len(clients))
    return _of_items([dataset[place] for place in range(len(dataset))], clients)


def _of_items(items: Sequence[Any], owners: Any) -> Examples:
    for place, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            requirement = 'have items that are pairs (features, label)'
            raise errors.invalid('dataset', requirement, f'item {place}, {type(item).__name__}')
    features, labels = zip(*items, strict=True) if items else ((), ())
    return owned([np.asarray(f) for f in features], [np.asarray(y) for y in labels], owners)
