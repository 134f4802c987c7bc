"""Examples with owners, and how owners get their numbers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import errors
from fedjax_links.problems import array_checks


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


def owned(features: Any, labels: Any, owners: Any) -> Examples:
    """Examples whose owners have names.

    Args:
      features: E of them, of one shape.
      labels: E of them, of one shape.
      owners: E names or numbers; clients are numbered in the sorted order of their names.

    Returns:
      The examples, in their order.

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
    return Examples(
        stacked('features', features),
        stacked('labels', labels),
        clients.astype(np.int32),
        tuple(known.tolist()),
    )


def stacked(argument: str, rows: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Rows of numbers of one shape as an array; 64 bits become 32, as JAX has them by default."""
    try:
        array = rows if isinstance(rows, np.ndarray) else np.stack([np.asarray(r) for r in rows])
        if array.dtype == object:
            array = np.stack([np.asarray(row) for row in array])
    except (TypeError, ValueError):
        shapes = sorted({str(np.shape(row)) for row in rows})[:2]
        raise errors.invalid(argument, 'have one shape', ' and '.join(shapes)) from None
    array_checks.numbers(argument, array)
    if array.dtype.kind in 'iu' and array.dtype.itemsize == 8:
        limits = np.iinfo(np.int32)
        if array.size and not limits.min <= array.min() <= array.max() <= limits.max:
            raise errors.invalid(argument, 'fit into 32 bits', array.max())
        return array.astype(np.int32)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def joined(argument: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays one after the other; raises unless their rows have one shape."""
    stacked(argument, [part[0] for part in parts])
    return np.concatenate(parts)
