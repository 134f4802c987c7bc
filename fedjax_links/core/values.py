"""Tells users' plain values apart. The module needs no library, so exact theory can use it too."""

from typing import Any


def has_flag(value: object) -> bool:
    """Returns whether a value, or an entry of nested lists, is True or False.

    In a list with numbers, NumPy converts True and False to 1 and 0.

    Args:
      value: a list, a tuple, or anything else.

    Example:
      >>> from fedjax_links.core import values
      >>> print(values.has_flag([0.5, [1.0, True]]), values.has_flag([0.5, 1.0]))
      True False
    """
    if isinstance(value, list | tuple):
        return any(map(has_flag, value))
    return isinstance(value, bool)


def has_hidden_entries(value: object) -> bool:
    """Returns whether a value is a masked array of NumPy's that masks an entry.

    Example:
      >>> import numpy as np
      >>> from fedjax_links.core import values
      >>> print(values.has_hidden_entries(np.ma.masked_less([-1.0, 0.5], 0)))
      True
    """
    mask: Any = getattr(value, 'mask', None)
    return hasattr(value, 'filled') and hasattr(mask, 'any') and bool(mask.any())


def is_missing(name: object) -> bool:
    """Returns whether a name of a client is missing: None, NaN, or the like of pandas."""
    return name is None or repr(name) in ('<NA>', 'NaT') or name != name
