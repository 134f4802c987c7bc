"""A pandas frame with a column that says whose a row is."""

from collections.abc import Collection, Hashable
from typing import Any, cast

import numpy as np

from fedjax_links import errors
from fedjax_links.problems.adapters.examples import Examples, owned, stacked

Columns = Hashable | Collection[Hashable]


def from_pandas(frame: Any, *, client: Hashable, features: Columns, label: Columns) -> Examples:
    """Rows of a frame as examples.

    Args:
      frame: a ``pandas.DataFrame``.
      client: column of the owners.
      features: columns of numbers, which become a vector; or one column, of numbers or arrays of
        one shape, which is taken as it is.
      label: column of the labels, or columns, which become a vector.

    Returns:
      The examples, in the frame's order.

    Raises:
      ValueError: for what is no frame, a column that is not there, an owner that is missing, or
        rows that are no numbers of one shape.
    """
    if not hasattr(frame, 'columns'):
        raise errors.invalid('frame', 'be a pandas.DataFrame', errors.shown(frame))
    rows = stacked('features', _read(frame, 'features', features))
    return owned(rows, _read(frame, 'label', label), _read(frame, 'client', client))


def _read(frame: Any, argument: str, wanted: Columns) -> np.ndarray:
    """One column as it is, or several side by side."""
    known = list(frame.columns)
    single = isinstance(wanted, str) or not isinstance(wanted, Collection)
    if isinstance(wanted, tuple):  # a column of several levels, or several columns
        single = wanted in known
    names: list[Any] = [wanted] if single else list(cast(Collection[Any], wanted))
    for name in names:
        if name not in known:
            raise errors.unknown_name(argument, name, map(str, known))
    values: np.ndarray = frame[names[0] if single else names].to_numpy()
    return values
