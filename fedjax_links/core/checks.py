"""Eager argument checks: concrete values are validated, tracers pass through unread.

A config holds plain values: numbers, text, lists, sections, None. The signature of a factory says
which of them it takes. Everything that is not plain (arrays, functions, parts of experiments) is
the factory's own concern, and so are ranges.
"""

import functools
import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.core import errors, memory

Entry = TypeVar('Entry')

LARGEST_INT = 2**31 - 1
"""Of the integers that set shapes and loop lengths."""

_MOST_NUMBERS = 2**20  # of clients or classes that a short vector may name
_OF_NAMES = ', as np.unique(..., return_inverse=True)[1] makes of names'

_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, Mapping, types.NoneType)
_NUMBERS = {int, float, complex}
_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_WORDS = {
    types.NoneType: 'None',
    bool: 'True or False',
    int: 'a whole number',
    float: 'a number',
    str: 'text',
}
_ITEMS = {int: 'whole numbers', float: 'numbers', str: 'names'}


def is_concrete(value: Any) -> bool:
    """Whether ``value`` holds numbers that can be looked at now (it is no tracer)."""
    return not isinstance(value, jax.core.Tracer)


def array_module(*values: Any) -> Any:
    """NumPy, whose operations need no compiler, or JAX's where one of the values is traced."""
    return np if all(map(is_concrete, values)) else jnp


def numbers(argument: str, value: Any) -> np.ndarray:
    """A concrete number, list or array as an array; raises for flags, text and whatever else."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):  # rows of unequal length
        raise errors.invalid(argument, 'hold numbers', errors.text_of(value)) from None
    dtype = array.dtype
    if not (jnp.issubdtype(dtype, np.floating) or jnp.issubdtype(dtype, np.integer)):
        requirement = (
            'hold numbers' if isinstance(value, list | tuple) else 'be a number'
        )
        raise errors.invalid(argument, requirement, errors.text_of(value))
    if (
        isinstance(value, int) and abs(value) > LARGEST_INT
    ):  # more than JAX takes for a number
        requirement = f'be at most {LARGEST_INT} or have a decimal point'
        raise errors.invalid(argument, requirement, value)
    return array


def number(argument: str, value: Any) -> None:
    """Raises unless ``value``, traced or not, is one number: it scales whole models."""
    if not is_concrete(value):
        if value.shape:
            raise errors.invalid(
                argument, 'be one number', f'shape {list(value.shape)}'
            )
    elif numbers(argument, value).ndim:
        raise errors.invalid(argument, 'be one number', errors.text_of(value))


def positive_number(argument: str, value: Any) -> None:
    """Raises unless ``value`` is one number and, where it is concrete, finite and above zero."""
    number(argument, value)
    positive(argument, value)


def positive(argument: str, value: Any) -> None:
    """Raises unless every entry of a concrete number or array is finite and above zero."""
    if is_concrete(value):
        array = numbers(argument, value)
        if not np.all(np.isfinite(array) & (array > 0)):
            raise errors.invalid(argument, 'be positive', value)


def within(argument: str, value: Any, low: float, high: float) -> None:
    """Raises unless every entry of a concrete number or array lies in ``[low, high]``."""
    if not is_concrete(value):
        return
    array = numbers(argument, value)
    bad = ~((array >= low) & (array <= high))  # true for NaN
    if bad.any():
        where = '' if array.ndim == 0 else f' at client {np.argwhere(bad)[0][-1]}'
        first = array[tuple(np.argwhere(bad)[0])]
        raise errors.invalid(argument, f'lie in [{low:g}, {high:g}]', f'{first}{where}')


def per_client(argument: str, value: Any) -> None:
    """Raises unless ``value`` is a vector, whatever it holds."""
    if np.ndim(value) != 1:
        requirement = 'be a vector with one entry per client'
        raise errors.invalid(argument, requirement, f'shape {np.shape(value)}')


def probabilities(argument: str, value: Any) -> None:
    """Raises unless ``value`` is a vector of probabilities, one per client."""
    per_client(argument, value)
    within(argument, value, 0, 1)


def static_int(
    argument: str, value: Any, *, minimum: int = 1, maximum: int = LARGEST_INT
) -> None:
    """Raises unless ``value`` is a Python integer in range: it sets a shape or a loop length."""
    if not is_concrete(value):
        requirement = (
            'be a Python integer: it sets shapes or loops and cannot be swept or traced'
        )
        raise errors.invalid(
            argument, requirement, f'a traced {value.dtype}{list(value.shape)}'
        )
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise errors.invalid(argument, 'be a Python integer', errors.text_of(value))
    if value < minimum:
        raise errors.invalid(argument, f'be at least {minimum}', value)
    if value > maximum:
        raise errors.invalid(argument, f'be at most {maximum}', value)


def counts(**values: Any) -> None:
    """Raises unless every argument, by name, is a Python integer and at least 1."""
    for argument, value in values.items():
        static_int(argument, value)


def seed(argument: str, value: Any) -> None:
    """Raises unless ``value`` is a Python integer in ``[0, 2**32)``."""
    static_int(argument, value, minimum=0, maximum=2**32 - 1)


def ids(
    argument: str, value: ArrayLike, *, limit: int | None = None
) -> NDArray[np.int64]:
    """Returns a non-empty vector of classes or clients, numbered from 0, as int64.

    Args:
      argument: what to name in an error.
      value: the vector.
      limit: what all numbers lie below, since arrays have an entry for each number; by default the
        length of the vector, and at least 2^20.

    Raises:
      ValueError: for another shape or dtype, or a number out of range.
    """
    array = np.asarray(value)
    if array.ndim != 1 or array.size == 0:
        raise errors.invalid(argument, 'be a non-empty vector', f'shape {array.shape}')
    if not np.issubdtype(array.dtype, np.integer):
        names = _OF_NAMES if array.dtype.kind in 'OUS' else ''
        raise errors.invalid(argument, f'have an integer dtype{names}', array.dtype)
    if array.min() < 0:
        position = int(np.argmin(array))
        raise errors.invalid(
            argument, 'be at least 0', f'{array[position]} at {position}'
        )
    limit = max(array.size, _MOST_NUMBERS) if limit is None else limit
    if array.max() >= limit:
        position = int(np.argmax(array))
        requirement = f'lie below {limit}{_OF_NAMES}'
        raise errors.invalid(argument, requirement, f'{array[position]} at {position}')
    return array.astype(np.int64)


def choice(argument: str, value: Any, valid: Collection[str]) -> None:
    """Raises unless ``value`` is one of the ``valid`` names."""
    if not isinstance(value, str) or value not in valid:
        raise errors.unknown_name(argument, value, valid)


def entry(argument: str, name: Any, table: Mapping[str, Entry]) -> Entry:
    """What a table has under a name; raises for one that it has not."""
    choice(argument, name, table)
    return table[name]


def fits(argument: str, value: Any, num_bytes: float) -> None:
    """Raises, before anything is allocated, if arrays on the host exceed its free memory.

    Args:
      argument: what makes them so large.
      value: its value.
      num_bytes: what they take.
    """
    free = memory.host_bytes()
    if free is not None and num_bytes > free:
        sizes = f'{memory.size(num_bytes)}, where {memory.size(free)} are free'
        raise errors.invalid(
            argument, 'fit into memory', f'{errors.text_of(value)}: {sizes}'
        )


def names(argument: str, value: Any) -> tuple[str, ...]:
    """A collection of names as a tuple; raises for a single text, which is easily meant as one."""
    if isinstance(value, str) or not isinstance(value, Collection):
        raise errors.invalid(argument, 'be a collection of names', repr(value))
    for name in value:
        if not isinstance(name, str):
            raise errors.invalid(argument, 'hold names alone', repr(name))
    return tuple(value)


def options(
    argument: str, factory: Callable[..., Any], given: Mapping[str, Any], *args: Any
) -> None:
    """Raises unless ``factory(*args, **given)`` has all that it needs and nothing unknown.

    Args:
      argument: where the options stand, such as their place in a config.
      factory: a factory, or the entry of one in a registry; what a ``functools.partial`` has bound
        is checked too. Keywords collected by ``**`` are the factory's own concern.
      given: the options.
      *args: positional arguments, which are no options.

    Raises:
      ValueError: naming the option and the nearest valid one.
    """
    if isinstance(factory, functools.partial):
        args, given = (*factory.args, *args), {**factory.keywords, **given}
        factory = factory.func
    function = getattr(factory, 'factory', factory)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some that are built in have none
        return
    named = [p for p in parameters if p.kind not in _COLLECTING]
    placed = [p for p in named if p.kind is not p.KEYWORD_ONLY][: len(args)]
    open_names = [p.name for p in named[len(args) :] if p.kind is not p.POSITIONAL_ONLY]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for option in given:
        if option not in open_names and not takes_any:
            raise errors.unknown_name(argument, option, open_names)
    if len(placed) < len(args) and not any(
        p.kind is p.VAR_POSITIONAL for p in parameters
    ):
        raise errors.invalid(argument, 'be complete', 'too many positional arguments')
    for p in named:
        if p.default is p.empty and p not in placed and p.name not in given:
            raise errors.invalid(f'{argument}.{p.name}', 'be given', None)
    kinds(argument, function, given)


def kinds(where: str, factory: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raises for an option of the wrong kind.

    Args:
      where: where the options stand, such as their place in a config; may be empty.
      factory: what takes the options.
      given: the options; those that the factory does not have are passed over.

    Raises:
      ValueError: naming the option and what it has to be.
    """
    for option, kind in annotations(factory).items():
        if option in given and not suits(given[option], kind):
            path = f'{where}.{option}' if where else option
            raise errors.invalid(
                path, f'be {words(kind)}', errors.text_of(given[option])
            )


def annotations(factory: Callable[..., Any]) -> dict[str, Any]:
    """The kinds of a factory's parameters by their names."""
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters.values()
    except Exception:  # annotations that name what is not there: nothing is known
        return {}
    return {p.name: p.annotation for p in parameters if p.kind not in _COLLECTING}


def suits(value: Any, kind: Any) -> bool:
    """Whether a value may be given for a parameter; True where nothing is known.

    Args:
      value: anything; what is not plain suits.
      kind: an annotation.
    """
    is_plain = isinstance(value, _PLAIN) and not hasattr(
        value, '_fields'
    )  # as parts have
    if kind is Any or kind is inspect.Parameter.empty or not is_plain:
        return True
    members, is_list = {*_members(kind)}, isinstance(value, list | tuple)
    if is_list and members >= _ARRAY:
        return _is_array(value)
    if isinstance(value, bool) and members & _NUMBERS:
        return False  # a flag is no number
    near = [member for member in members if isinstance(value, _read(member)[1])]
    return any(
        not is_list or all(suits(part, _item(one)) for part in value) for one in near
    )


def words(kind: Any) -> str:
    """What a value of a kind is called."""
    members = _members(kind)
    if {*members} >= _ARRAY:
        return 'a number or a list of numbers, or of lists of one length'
    if {float, complex} & {*members}:
        members = [member for member in members if member not in (int, bool, complex)]
    found = dict.fromkeys(word for member in members if (word := _read(member)[0]))
    return ' or '.join(found) or 'of another kind'


def _read(kind: Any) -> tuple[str, Any]:
    """What a value of a kind that is no union is called, and its types."""
    origin = get_origin(kind) or kind
    if origin in _WORDS:
        return _WORDS[origin], (int, float) if origin is float else origin
    if origin is Callable:
        return 'a Callable', ()
    if not isinstance(origin, type) or getattr(origin, '_is_protocol', False):
        return '', object
    if issubclass(origin, Mapping):
        return 'a section', Mapping
    if issubclass(origin, Collection) and not hasattr(origin, '_fields'):
        items = (
            'lists' if get_origin(_item(kind)) in (tuple, list, Sequence) else 'values'
        )
        return f'a list of {_ITEMS.get(_item(kind), items)}', (list, tuple)
    known = issubclass(origin, np.generic) or origin.__module__.startswith(
        ('jax', 'numpy')
    )
    return '' if known else f'a {origin.__name__}', origin


def _item(kind: Any) -> Any:
    """The kind of the items of a list."""
    is_array = get_origin(kind) is np.ndarray  # whose first argument is its shape
    return Any if is_array else next(iter(get_args(kind)), Any)


def _is_array(value: Any) -> bool:
    """Whether a list, of lists perhaps, holds numbers in rows of one length."""
    try:
        return np.asarray(value).dtype.kind in 'biuf'
    except (TypeError, ValueError, OverflowError):
        return False


def _members(kind: Any) -> list[Any]:
    """The kinds of a union, or of an alias of one; of any other kind, itself."""
    alias, given = get_origin(kind) or kind, get_args(kind)
    if hasattr(alias, '__value__'):  # made by `type`, as NumPy's are from 2.5 on
        return _members(alias.__value__[given] if given else alias.__value__)
    if alias in (Union, types.UnionType):
        return [member for part in given for member in _members(part)]
    return [types.NoneType if kind is None else kind]


_ARRAY = {*_members(ArrayLike)}
