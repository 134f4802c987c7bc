"""Checks arguments eagerly: concrete values are validated, tracers pass through unread."""

import inspect
import types
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import errors, memory
from fedjax_links.core.values import has_flag, has_hidden_entries

Entry = TypeVar('Entry')

LARGEST_INT = 2**31 - 1
"""The largest integer that may set a shape or a loop length."""

_MAX_ID = 2**20  # More clients or classes than a short vector is meant to name.
_SMALL_BYTES = 2**20  # Any machine that runs JAX has as much memory free.
_HOW_TO_NUMBER_NAMES = ', as np.unique(..., return_inverse=True)[1] makes of names'


def is_concrete(value: object) -> bool:
    """Returns whether ``value`` holds numbers that can be read now (none is a tracer)."""
    if isinstance(value, list | tuple):
        return all(map(is_concrete, value))
    return not isinstance(value, jax.core.Tracer)


def array_module(*values: object) -> types.ModuleType:
    """Returns NumPy, which needs no compiler, or `jax.numpy` if one of the values is traced."""
    return np if all(map(is_concrete, values)) else jnp


def shape(argument: str, value: Any) -> tuple[int, ...]:
    """Returns the shape of a number, a list or an array, traced or not; raises for ragged rows."""
    no_hidden_entries(argument, value)
    try:
        return np.shape(value) if is_concrete(value) else jnp.asarray(value).shape
    except (TypeError, ValueError):
        raise errors.invalid(argument, 'hold numbers', errors.text_of(value)) from None


def no_hidden_entries(argument: str, value: object) -> None:
    """Raises for a masked array that masks an entry: a conversion would drop the mask."""
    if has_hidden_entries(value):
        got = errors.text_of(value)
        raise errors.invalid(argument, errors.NO_MASKED_ENTRIES, got)


def numbers(argument: str, value: object) -> np.ndarray:
    """Converts a concrete number, list or array to an array; raises for anything else."""
    no_hidden_entries(argument, value)
    if isinstance(value, int) and abs(value) > LARGEST_INT:
        # JAX takes no larger Python integer.
        bound = f'most {LARGEST_INT}' if value > 0 else f'least {-LARGEST_INT}'
        requirement = f'be at {bound} or have a decimal point'
        raise errors.invalid(argument, requirement, errors.text_of(value))
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        # Rows of unequal length, for instance.
        raise errors.invalid(argument, 'hold numbers', errors.text_of(value)) from None
    dtype = array.dtype
    is_real = jnp.issubdtype(dtype, np.floating) or jnp.issubdtype(dtype, np.integer)
    if not is_real or has_flag(value):
        is_list = isinstance(value, list | tuple)
        requirement = 'hold numbers' if is_list else 'be a number'
        raise errors.invalid(argument, requirement, errors.text_of(value))
    return array


def on_host(value: Any) -> Any:
    """Converts a Python integer, which may be larger than JAX takes, to a float.

    Args:
      value: the value of an argument that only Python and NumPy compute with.

    Returns:
      The float. Any other value is returned as it is, as is an integer too large for a float.
    """
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if is_integer and abs(value) < 2**1023:
        return float(value)
    return value


def number(argument: str, value: Any) -> None:
    """Raises unless ``value``, traced or not, is one number, as a factor of models must be."""
    if not is_concrete(value):
        traced_shape = shape(argument, value)
        if traced_shape:
            raise errors.invalid(
                argument, 'be one number', f'shape {list(traced_shape)}'
            )
    elif numbers(argument, value).ndim:
        raise errors.invalid(argument, 'be one number', errors.text_of(value))


def positive_number(argument: str, value: object) -> None:
    """Raises unless ``value`` is one number and, where it is concrete, finite and above zero."""
    number(argument, value)
    positive(argument, value)


def positive(argument: str, value: object, *, axis: str = 'client') -> None:
    """Raises unless every entry of a concrete number or array is finite and above zero."""
    if is_concrete(value):
        array = numbers(argument, value)
        is_positive = array > 0  # False for NaN.
        _check_entries(argument, 'be positive', array, is_positive, axis)
        _check_entries(argument, 'be finite', array, np.isfinite(array), axis)


def finite(argument: str, value: object) -> None:
    """Raises unless every entry of a concrete number or array is a finite number."""
    if is_concrete(value):
        array = numbers(argument, value)
        _check_entries(argument, 'be finite', array, np.isfinite(array), 'client')


def _check_entries(
    argument: str, requirement: str, array: np.ndarray, is_valid: np.ndarray, axis: str
) -> None:
    """Raises for the first invalid entry, with its index along the last axis."""
    if np.all(is_valid):
        return
    index = np.argwhere(~is_valid)[0]
    where = '' if array.ndim == 0 else f' at {axis} {index[-1]}'
    raise errors.invalid(argument, requirement, f'{array[tuple(index)]!s}{where}')


def within(
    argument: str, value: object, low: float, high: float, *, axis: str = 'client'
) -> None:
    """Raises unless every entry of a concrete number or array lies in ``[low, high]``.

    Args:
      argument: the name of the argument.
      value: a number or an array.
      low: the least valid number.
      high: the largest valid number.
      axis: what the last axis is over, for the error.
    """
    if is_concrete(value):
        array = numbers(argument, value)
        is_inside = (array >= low) & (array <= high)  # False for NaN.
        requirement = f'lie in [{low:g}, {high:g}]'
        _check_entries(argument, requirement, array, is_inside, axis)


def number_within(argument: str, value: object, low: float, high: float) -> None:
    """Raises unless ``value`` is one number and, where it is concrete, in ``[low, high]``."""
    number(argument, value)
    within(argument, value, low, high)


def at_least_zero(argument: str, value: object) -> None:
    """Raises unless ``value`` is one number and, where it is concrete, finite and 0 or more."""
    number(argument, value)
    if is_concrete(value):
        array = numbers(argument, value)
        is_valid = np.isfinite(array) & (array >= 0)
        _check_entries(argument, 'be finite and at least 0', array, is_valid, 'client')


def per_client(argument: str, value: ArrayLike, *, axis: str = 'client') -> None:
    """Raises unless ``value`` is a non-empty vector; its entries are not checked."""
    sizes = shape(argument, value)
    if len(sizes) != 1 or not sizes[0]:
        requirement = f'be a vector with one entry per {axis}'
        got = f'shape {sizes}' if sizes else errors.text_of(value)
        raise errors.invalid(argument, requirement, got)


def one_or_each(argument: str, value: object, num_clients: int) -> None:
    """Raises unless ``value``, traced or not, is one number or has one for each client."""
    sizes = shape(argument, value)
    if sizes not in ((), (num_clients,)):
        requirement = f'be one number or a list of {num_clients}'
        raise errors.invalid(argument, requirement, f'shape {sizes}')


def probabilities(argument: str, value: ArrayLike, *, axis: str = 'client') -> None:
    """Raises unless ``value`` is a vector of probabilities, one per client or other ``axis``."""
    per_client(argument, value, axis=axis)
    within(argument, value, 0, 1, axis=axis)


def static_int(
    argument: str, value: Any, *, minimum: int = 1, maximum: int = LARGEST_INT
) -> None:
    """Raises unless ``value`` is a Python integer in range, as shapes and loop lengths need."""
    if not is_concrete(value):
        requirement = (
            'be a Python integer: it sets shapes or loops and cannot be swept or traced'
        )
        traced = jnp.asarray(value)
        raise errors.invalid(
            argument, requirement, f'a traced {traced.dtype}{list(traced.shape)}'
        )
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise errors.invalid(argument, 'be a Python integer', errors.text_of(value))
    if value < minimum:
        raise errors.invalid(argument, f'be at least {minimum}', value)
    if value > maximum:
        raise errors.invalid(argument, f'be at most {maximum}', value)


def integer(
    argument: str, value: Any, *, minimum: int = 1, maximum: int = LARGEST_INT
) -> None:
    """Raises unless ``value`` is a Python integer in range or, if traced, one number."""
    if is_concrete(value):
        static_int(argument, value, minimum=minimum, maximum=maximum)
    else:
        number(argument, value)


def counts(**values: object) -> None:
    """Raises unless every argument, by name, is a Python integer and at least 1."""
    for argument, value in values.items():
        static_int(argument, value)


def function(argument: str, value: object, *parameters: str) -> None:
    """Raises unless ``value`` can be called.

    Args:
      argument: its name, for errors.
      value: the function.
      *parameters: what it is called with, by position; not checked if there are none.
    """
    if not callable(value):
        raise errors.invalid(argument, 'be a function', errors.text_of(value))
    if not parameters:
        return
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(*parameters)
    except TypeError as error:
        requirement = f'take ({", ".join(parameters)})'
        got = f'a function of ({", ".join(signature.parameters)})'
        raise errors.invalid(argument, requirement, got) from error


def optional_functions(**values: object) -> None:
    """Raises unless every argument, by name, is a function or None."""
    for argument, value in values.items():
        if value is not None:
            function(argument, value)


def evaluation(eval_fn: object) -> None:
    """Raises unless ``eval_fn`` is None or a function of a model, a key and a problem."""
    if eval_fn is not None:
        function('eval_fn', eval_fn, 'params', 'key', 'problem')


def flags(**values: object) -> None:
    """Raises unless every argument, by name, is True or False; texts would count as True."""
    for argument, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise errors.invalid(argument, 'be True or False', errors.text_of(value))


def seed(argument: str, value: object) -> None:
    """Raises unless ``value`` is a Python integer in ``[0, 2**32)``."""
    static_int(argument, value, minimum=0, maximum=2**32 - 1)


def vector(argument: str, value: ArrayLike) -> np.ndarray:
    """Converts a concrete vector to an array; raises for an empty one or another shape."""
    no_hidden_entries(argument, value)
    try:
        array = np.asarray(value)
    except ValueError:  # Rows of unequal length.
        got = errors.text_of(value)
        raise errors.invalid(argument, 'be a non-empty vector', got) from None
    if array.ndim != 1 or array.size == 0:
        raise errors.invalid(argument, 'be a non-empty vector', f'shape {array.shape}')
    return array


def ids(
    argument: str, value: ArrayLike, *, limit: int | None = None
) -> NDArray[np.int64]:
    """Returns a non-empty vector of classes or clients, numbered from 0, as int64.

    Args:
      argument: what to name in an error.
      value: the vector, which must be concrete.
      limit: all numbers must lie below this limit, since arrays get an entry for each number. By
        default the length of the vector, or 2^20 if that is larger.

    Raises:
      ValueError: for another shape or dtype, or a number out of range.
    """
    array = vector(argument, value)
    if not np.issubdtype(array.dtype, np.integer):
        names = _HOW_TO_NUMBER_NAMES if array.dtype.kind in 'OUS' else ''
        raise errors.invalid(argument, f'have an integer dtype{names}', array.dtype)
    if array.min() < 0:
        position = int(np.argmin(array))
        raise errors.invalid(
            argument, 'be at least 0', f'{array[position]} at {position}'
        )
    limit = max(array.size, _MAX_ID) if limit is None else limit
    if array.max() >= limit:
        position = int(np.argmax(array))
        requirement = f'lie below {limit}{_HOW_TO_NUMBER_NAMES}'
        raise errors.invalid(argument, requirement, f'{array[position]} at {position}')
    return array.astype(np.int64)


def not_empty(argument: str, value: Collection[Any]) -> None:
    """Raises for a list or a dictionary that holds nothing."""
    if not len(value):
        raise errors.invalid(argument, 'hold at least one value', value)


def choice(argument: str, value: object, valid: Collection[str]) -> None:
    """Raises unless ``value`` is one of the ``valid`` names."""
    if not isinstance(value, str) or value not in valid:
        raise errors.unknown_name(argument, value, valid)


def entry(argument: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """Looks up a name in a table; raises for a name that is not in it."""
    choice(argument, name, table)
    return table[name]


def fits(argument: str, value: object, num_bytes: float) -> None:
    """Raises, before anything is allocated, if arrays exceed the host's free memory.

    Small arrays always fit: reading the free memory would take longer than making the arrays.

    Args:
      argument: the argument that makes the arrays so large.
      value: the argument's value.
      num_bytes: the size of the arrays.
    """
    if num_bytes <= _SMALL_BYTES:
        return
    free = memory.host_bytes()
    if free is not None and num_bytes > free:
        sizes = f'{memory.size(num_bytes)}, where {memory.size(free)} are free'
        raise errors.invalid(
            argument, 'fit into memory', f'{errors.text_of(value)}: {sizes}'
        )


def is_text(value: object) -> bool:
    """Returns whether a value is a text without control characters but tabs and line breaks.

    A terminal obeys control characters.
    """
    if not isinstance(value, str):
        return False
    # Wide, narrow and other spaces are printable, too.
    return all(
        c.isprintable() or c in '\n\t' or unicodedata.category(c) == 'Zs' for c in value
    )


def text(argument: str, value: object) -> None:
    """Raises unless ``value`` is a text as `is_text` describes it."""
    if not is_text(value):
        raise errors.invalid(argument, 'be a printable text', errors.text_of(value))


def names(argument: str, value: object) -> tuple[str, ...]:
    """Converts a collection of names to a tuple; raises for a single text in its place."""
    is_one_name = isinstance(value, str)
    # A NumPy array of no axes is a Collection that cannot be iterated over.
    if is_one_name or not isinstance(value, Collection) or not np.iterable(value):
        raise errors.invalid(argument, 'be a collection of names', repr(value))
    for name in value:
        if not isinstance(name, str):
            raise errors.invalid(argument, 'hold names alone', repr(name))
    return tuple(value)
