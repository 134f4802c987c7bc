"""Whether a plain value suits the annotation of the parameter that it is given for.

A config holds plain values: numbers, text, lists, sections, None. The signature of a factory says
which of them it takes. Everything that is not plain (arrays, functions, parts of experiments) is
the factory's own concern, and so are ranges.
"""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.core import errors

_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, Mapping, types.NoneType)
_NUMBERS = (int, float, complex)
_WORDS = {
    bool: 'True or False',
    int: 'a whole number',
    float: 'a number',
    str: 'text',
    types.NoneType: 'None',
}


def check(where: str, factory: Callable[..., Any], given: Mapping[str, Any]) -> None:
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
            raise errors.invalid(path, f'be {words(kind)}', errors.shown(given[option]))


def annotations(factory: Callable[..., Any]) -> dict[str, Any]:
    """The kinds of a factory's parameters, those collected as an unpacked TypedDict among them."""
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters.values()
    except Exception:  # annotations that name what is not there: nothing is known
        return {}
    found: dict[str, Any] = {}
    for parameter in parameters:
        kind = parameter.annotation
        if parameter.kind is parameter.VAR_KEYWORD and typing.get_origin(kind) is typing.Unpack:
            found |= typing.get_args(kind)[0].__annotations__
        elif parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            found[parameter.name] = kind
    return found


def suits(value: Any, kind: Any) -> bool:
    """Whether a value may be given for a parameter; True where nothing is known.

    Args:
      value: anything; what is not plain suits.
      kind: an annotation.
    """
    if kind is Any or kind is inspect.Parameter.empty or not _is_plain(value):
        return True
    members = typing.get_args(kind) if _is_union(kind) else (kind,)
    if isinstance(value, list | tuple) and {*typing.get_args(ArrayLike)} <= {*members}:
        return _is_array(value)
    if isinstance(value, bool) and any(number in members for number in _NUMBERS):
        return False  # a flag is no number
    return any(_suits_one(value, member) for member in members)


def words(kind: Any) -> str:
    """What a value of a kind is called."""
    members = typing.get_args(kind) if _is_union(kind) else (kind,)
    if {*typing.get_args(ArrayLike)} <= {*members}:
        return 'a number or a list of numbers, or of lists of one length'
    if any(number in members for number in _NUMBERS[1:]):
        members = tuple(member for member in members if member not in (int, bool, complex))
    found = dict.fromkeys(name for member in members if (name := _word(member)))
    return ' or '.join(found) or 'of another kind'


def _word(kind: Any) -> str:
    origin = typing.get_origin(kind) or kind
    if origin in _WORDS:
        return _WORDS[origin]
    if not isinstance(origin, type) or issubclass(origin, np.generic):
        return ''
    if issubclass(origin, Mapping):
        return 'a section'
    if issubclass(origin, collections.abc.Collection) and not hasattr(origin, '_fields'):
        item: Any = next(iter(typing.get_args(kind)), None)
        items = {int: 'whole numbers', float: 'numbers', str: 'names'}.get(item)
        inner = typing.get_origin(item) in (tuple, list, collections.abc.Sequence)
        return f'a list of {items or ("lists" if inner else "values")}'
    return '' if origin.__module__.startswith(('jax', 'numpy')) else f'a {origin.__name__}'


def _suits_one(value: Any, kind: Any) -> bool:
    """`suits` for an annotation that is no union."""
    if kind in (None, types.NoneType):
        return value is None
    if kind in (complex, float):
        return isinstance(value, int | float)
    origin = typing.get_origin(kind) or kind
    if origin is typing.Literal:
        return value in typing.get_args(kind)
    if origin is collections.abc.Callable or origin is np.ndarray:
        return isinstance(value, list | tuple) and origin is np.ndarray
    if not isinstance(origin, type) or getattr(origin, '_is_protocol', False):
        return True
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    listed = issubclass(origin, collections.abc.Collection) and not hasattr(origin, '_fields')
    if listed and not issubclass(origin, str | bytes):
        if not isinstance(value, list | tuple):
            return False
        items = typing.get_args(kind)
        return not items or all(suits(part, items[0]) for part in value)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin)


def _is_array(value: Any) -> bool:
    """Whether a list, of lists perhaps, holds numbers in rows of one length."""
    try:
        return np.asarray(value).dtype.kind in 'biuf'
    except (TypeError, ValueError, OverflowError):
        return False


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) and not hasattr(value, '_fields')  # parts are named tuples


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)
