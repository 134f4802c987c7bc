"""Eager argument checks: concrete values are validated, tracers pass through unread."""

from collections.abc import Collection
from typing import Any

import jax
import numpy as np

from fedjax_links import errors


def is_concrete(value: Any) -> bool:
    """Whether ``value`` holds numbers that can be looked at now (it is no tracer)."""
    return not isinstance(value, jax.core.Tracer)


def positive(argument: str, value: Any) -> None:
    """Raises unless every entry of a concrete number or array is finite and above zero."""
    if is_concrete(value) and not np.all(np.isfinite(value) & (np.asarray(value) > 0)):
        raise errors.invalid(argument, 'be positive', value)


def within(argument: str, value: Any, low: float, high: float) -> None:
    """Raises unless every entry of a concrete number or array lies in ``[low, high]``."""
    if not is_concrete(value):
        return
    array = np.asarray(value)
    bad = ~((array >= low) & (array <= high))  # true for NaN
    if bad.any():
        where = '' if array.ndim == 0 else f' at client {np.argwhere(bad)[0][-1]}'
        first = array[tuple(np.argwhere(bad)[0])]
        raise errors.invalid(argument, f'lie in [{low:g}, {high:g}]', f'{first}{where}')


def probabilities(argument: str, value: Any) -> None:
    """Raises unless ``value`` is a vector of probabilities, one per client."""
    if np.ndim(value) != 1:
        raise errors.invalid(
            argument, 'be a vector with one entry per client', f'shape {np.shape(value)}'
        )
    within(argument, value, 0, 1)


def static_int(argument: str, value: Any, *, minimum: int = 1, maximum: int | None = None) -> None:
    """Raises unless ``value`` is a Python integer in range: it sets a shape or a loop length."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise errors.invalid(argument, 'be a Python integer', repr(value))
    if value < minimum:
        raise errors.invalid(argument, f'be at least {minimum}', value)
    if maximum is not None and value > maximum:
        raise errors.invalid(argument, f'be at most {maximum}', value)


def choice(argument: str, value: Any, valid: Collection[str]) -> None:
    """Raises unless ``value`` is one of the ``valid`` names."""
    if value not in valid:
        raise errors.unknown_name(argument, value, valid)
