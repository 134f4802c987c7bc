"""Finds the owner of each example: the client that the data set names, or a partition assigns."""

from collections.abc import Callable

import numpy as np

from fedjax_links import datasets
from fedjax_links import partition as partitions
from fedjax_links.base import ClientNames, PyTree
from fedjax_links.core import errors


def natural(loaded: datasets.Dataset) -> np.ndarray:
    """Returns int[E], the data's own owners."""
    if loaded.train_clients is None:
        raise errors.invalid(
            'partition', 'be another for data without owners', "'natural'"
        )
    return loaded.train_clients


def assign(
    loaded: datasets.Dataset,
    partition: Callable[[np.ndarray, int | None, int], np.ndarray],
    num_clients: int | None,
    seed: int,
) -> np.ndarray:
    """Assigns an owner to each example by a partition."""
    if num_clients is None and loaded.train_clients is not None:
        requirement = (
            "be given, or `partition` 'natural' for the owners that the data name"
        )
        raise errors.invalid('num_clients', requirement, None)
    return partition(loaded.train_labels, num_clients, seed)


def names(loaded: datasets.Dataset, division: partitions.Division) -> ClientNames:
    """Names clients by number: training clients, held-out clients, then all other owners."""
    numbers = numbers_of(loaded, division)
    num_clients = int(division.clients.max()) + 1
    num_left_out = int((numbers < 0).sum())
    by_number = np.argsort(numbers, kind='stable')
    in_order = np.concatenate([by_number[num_left_out:], by_number[:num_left_out]])
    ordered = [loaded.client_names[owner] for owner in in_order.tolist()]
    return ClientNames(ordered[:num_clients], ordered[num_clients:])


def numbers_of(loaded: datasets.Dataset, division: partitions.Division) -> np.ndarray:
    """Returns the number of each owner in the problem, -1 for owners left out.

    Clients that train come first, then clients held out, then owners of test examples alone.
    """
    owners = natural(loaded)
    counts = np.bincount(owners, minlength=len(loaded.client_names))
    numbers = np.full(counts.size, -1)
    numbers[: division.numbers.size] = division.numbers
    is_test_only = counts == 0
    first = division.numbers.max() + 1
    numbers[is_test_only] = first + np.arange(is_test_only.sum())
    return numbers


def eval_data(
    loaded: datasets.Dataset, division: partitions.Division, *, is_natural: bool
) -> PyTree:
    """Returns the examples to evaluate on, besides the training data.

    Where examples are held out, test examples without owners are dropped.

    Returns:
      Features, labels and, if the examples have owners, the owners. None if there is nothing beside
      the training data.
    """
    examples = []
    rows = division.held_rows
    if len(rows):
        train_rows = (loaded.train_features[rows], loaded.train_labels[rows])
        examples.append((*train_rows, division.held_clients))
    features = loaded.test_features
    labels = loaded.test_labels
    if features is None or labels is None:
        return examples[0] if examples else None
    has_owners = loaded.test_clients is not None and loaded.train_clients is not None
    if is_natural and has_owners:
        owners = numbers_of(loaded, division)[loaded.test_clients]
        is_known = owners >= 0
        examples.append((features[is_known], labels[is_known], owners[is_known]))
    if not examples:
        return features, labels
    return tuple(map(np.concatenate, zip(*examples, strict=True)))
